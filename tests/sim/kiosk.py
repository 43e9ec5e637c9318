"""A tiny protocol with services and without a view: everyone says what it has to say on the channel of the group, and
each receiver takes it as it comes, or in the order of its source. It is right as long as packets come."""

from __future__ import annotations

from ordercast.core import (
    Arrangement,
    Context,
    Contract,
    GroupId,
    MessageId,
    Multicast,
    Packet,
    Protocol,
    SiteId,
    Tuning,
    UsageError,
    no_options,
)
from ordercast.core.effects import Activate, Broadcast, JoinChannel, ServiceUnavailable
from ordercast.core.events import Arrival, MulticastRequested, ServiceChosen, Started

AS_IT_COMES, IN_ORDER = "as-it-comes", "in-order"


class Say(Packet, frozen=True):
    """A message, and its number among those of its source to the group."""

    number: int
    multicast: Multicast

    def served(self) -> tuple[MessageId, ...]:
        return (self.multicast.id,)


class Kiosk(Protocol):
    """The same groups all the time; a receiver chooses its service for everyone, or for single sources."""

    contract = Contract(
        "kiosk",
        "",
        "",
        ("integrity", "no-duplication", "source-order", "view-termination"),
        ("delay", "pause", "skew"),
        "",
        ("held-back", "chosen"),
        several_groups=False,
        services={AS_IT_COMES: (), IN_ORDER: ("source-order", "view-termination")},
    )
    arrangement = Arrangement(
        order="as chosen",
        crash="nobody",
        campaign=Tuning(options=no_options, settle=3.0, networks={"wide-area": 1}, channels=True),
        live=no_options,
    )
    packets = (Say,)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.said: dict[GroupId, int] = {}
        self.chosen: dict[tuple[GroupId, SiteId], str] = {}
        self.next: dict[tuple[GroupId, SiteId], int] = {}
        """The number after the highest that has come."""
        self.held: dict[tuple[GroupId, SiteId], dict[int, Multicast]] = {}

    def on_started(self, event: Started) -> None:
        for group, members in self.groups.items():
            if self.site in members:
                self.outbox.append(JoinChannel(group))
                self.outbox.append(Activate(group, AS_IT_COMES))

    def on_service_chosen(self, event: ServiceChosen) -> None:
        group, sources = event.group, event.sources or self.sites
        if event.service not in self.contract.services:
            raise UsageError(f"there is no service {event.service!r}")
        self.branch("chosen")
        for source in sources:
            self.chosen[group, source] = event.service
            self.held.pop((group, source), None)
            if event.sources:
                self.outbox.append(self.answer(group, event.service, source))
        if not event.sources:
            self.outbox.append(Activate(group, event.service))

    def answer(self, group: GroupId, service: str, source: SiteId) -> Activate | ServiceUnavailable:
        return Activate(group, service, source)

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        (group,) = event.multicast.groups
        number = self.said[group] = self.said.get(group, 0) + 1
        self.outbox.append(Broadcast(group, Say(number, event.multicast)))

    def on_say(self, sender: SiteId, packet: Say, arrival: Arrival) -> None:
        (group,) = packet.multicast.groups
        key = (group, packet.multicast.id.source)
        if self.chosen.get(key, AS_IT_COMES) == AS_IT_COMES:
            self.next[key] = max(self.next.get(key, 1), packet.number + 1)
            self.deliver(packet.multicast, service=AS_IT_COMES)
        elif packet.number >= self.next.get(key, 1):
            self.take_in_order(key, packet)

    def take_in_order(self, key: tuple[GroupId, SiteId], packet: Say) -> None:
        held = self.held.setdefault(key, {})
        held[packet.number] = packet.multicast
        if packet.number != self.next.get(key, 1):
            self.branch("held-back")
        while (number := self.next.setdefault(key, 1)) in held:
            self.deliver(held.pop(number), service=IN_ORDER)
            self.next[key] = number + 1
