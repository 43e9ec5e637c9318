"""Protocol 0 (Spauster 6.4.1): send to each, deliver on receipt."""

from __future__ import annotations

from collections.abc import Mapping

from ordercast.core import CRASH_FAULTS, NETWORK_FAULTS, AtRest, Bounds, Contract, Options, Protocol, SiteId, WireError
from ordercast.core.effects import Deliver
from ordercast.core.events import Arrival, MulticastRequested
from ordercast.protocols.fan.arrangement import FAN_0
from ordercast.protocols.fan.packets import Data


def _promised(bounds: Bounds, _options: Options) -> Mapping[str, float]:
    return {"P1": bounds.phi_p, "P2": bounds.phi_n + bounds.phi_p}


class Fan0(Protocol):
    """No order, no numbers, no memory: duplicates on the network become duplicates at the application."""

    contract = Contract(
        name="fan-0",
        title="unordered, unreliable: send to each, deliver on receipt",
        paper="Spauster 1991, 6.4.1 (Protocol 0)",
        guarantees=("integrity", "P1", "P2"),
        faults=(*NETWORK_FAULTS, *CRASH_FAULTS, "skew"),
        crash="nothing: what a site misses while it is down is lost to it",
        branches=("delivered",),
        promised=_promised,
        at_rest=lambda sites, groups, options: AtRest(entries=20 + sites),
        several_groups=False,
    )
    arrangement = FAN_0
    packets = (Data,)

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """Fragment (B)."""
        group = event.multicast.groups[0]
        self.send(self.context.groups[group], Data(group, 0, event.multicast))

    def on_data(self, sender: SiteId, packet: Data, arrival: Arrival) -> None:
        """Fragment (A)."""
        if self.site not in self.context.groups.get(packet.group, ()):
            raise WireError(f"{sender} sent a message to {packet.group!r}, in which {self.site} is not")
        self.branch("delivered")
        self.outbox.append(Deliver(packet.multicast, None, sender))
