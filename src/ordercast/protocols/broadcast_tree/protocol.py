"""The broadcast tree: the core that holds its parts together."""

from __future__ import annotations

from typing import cast

from ordercast.core import EVERY_FAULT, AtRest, Context, Contract, Options, Protocol
from ordercast.core.events import Consumed, MulticastRequested, Started
from ordercast.protocols.broadcast_tree.arrangement import ARRANGEMENT
from ordercast.protocols.broadcast_tree.attachment import Attachment
from ordercast.protocols.broadcast_tree.clusters import Clusters
from ordercast.protocols.broadcast_tree.delivery import Delivery
from ordercast.protocols.broadcast_tree.exchange import Exchange
from ordercast.protocols.broadcast_tree.gap_filling import GapFilling
from ordercast.protocols.broadcast_tree.hearing import Hearing
from ordercast.protocols.broadcast_tree.options import BroadcastTreeOptions
from ordercast.protocols.broadcast_tree.packets import State, StreamState
from ordercast.protocols.broadcast_tree.propagation import Propagation
from ordercast.protocols.broadcast_tree.source import Source
from ordercast.protocols.broadcast_tree.streams import Streams


def _adapted(contract: Contract, options: Options) -> Contract:
    """Prompt delivery has no order."""
    ordered = isinstance(options, BroadcastTreeOptions) and options.order == "source"
    return contract if ordered else contract.without("single-source-order")


class BroadcastTree(Protocol):
    """Hosts arrange themselves in a tree that enters each cluster once (Garcia-Molina, Kogan, Lynch 1987)."""

    parts = (Attachment, Clusters, Propagation, GapFilling, Exchange, Hearing, Source, Delivery)
    records = (State,)
    wants_consumed = True

    contract = Contract(
        name="broadcast-tree",
        title="hosts form a tree over slow and fast links: cheap reliable broadcast, without order unless asked for",
        paper="Garcia-Molina, Kogan, Lynch 1987",
        guarantees=(
            "integrity",
            "no-duplication",
            "single-source-order",
            "uniform-agreement",
            "termination",
            "recovery",
        ),
        faults=(*EVERY_FAULT, "outage"),
        crash=(
            "the others go on and serve each other; what a crashed host lacks is kept for it, and a source stops when "
            "`kept_messages_max` messages wait for the slowest host"
        ),
        branches=tuple(dict.fromkeys(branch for part in parts for branch in part.branches)),
        options=BroadcastTreeOptions,
        at_rest=lambda sites, groups, options: AtRest(
            packets=2 * sites * (1 / options.eic_seconds + 1 / options.ein_seconds + 1 / options.np2_seconds),
            # Each source has a stream for each set of groups, which knows some things of every host.
            entries=150 + sites * (2**groups - 1) * (8 + 6 * sites),
        ),
        adapted=_adapted,
    )
    arrangement = ARRANGEMENT

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = options = cast(BroadcastTreeOptions, context.options)
        self.ranks = {site: rank for rank, site in enumerate(context.sites)}
        """The static linear ordering of hosts."""
        self._periods = {
            "eic": options.eic_seconds,
            "ein": options.ein_seconds,
            "epp": options.epp_seconds,
            "gfc": options.gfc_seconds,
            "gfn": options.gfn_seconds,
            "gfo": options.gfo_seconds,
            "np1": options.np1_seconds,
            "pa": options.pa_seconds / 2,
        }
        """The timers that run all the time."""
        self.streams = Streams(self)
        self.clusters = self.attach(Clusters(self))
        self.hearing = self.attach(Hearing(self))
        self.attachment = self.attach(Attachment(self))
        self.propagation = self.attach(Propagation(self))
        self.gaps = self.attach(GapFilling(self))
        self.exchange = self.attach(Exchange(self))
        self.source = self.attach(Source(self))
        self.delivery = self.attach(Delivery(self))

    def on_started(self, event: Started) -> None:
        """INITIALIZE. Timers of one host that are multiples of each other fire together, so that packets are shared;
        those of different hosts do not, so that the network is not flooded."""
        phase = self.context.random.random() * max(self._periods.values())
        for timer, seconds in self._periods.items():
            self.set_timer(timer, phase % seconds)
        self.exchange.greet()
        self.source.give_credit()

    def repeat(self, timer: str) -> None:
        """A timer that runs all the time has run out: it begins anew."""
        self.set_timer(timer, self._periods[timer])

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """Any site may multicast to any groups."""
        self.source.multicast(event.multicast)

    def on_consumed(self, event: Consumed) -> None:
        """The application has taken deliveries."""
        self.delivery.on_consumed(event.count)

    # ------------------------------------------------------------------ stable storage
    def checkpoint_messages(self) -> int:
        """What a checkpoint would hold."""
        return sum(len(stream.kept) for stream in self.streams.values())

    def checkpoint_state(self) -> State:
        """Everything that was stored; of what every host has taken, only the numbers."""
        return State(
            tuple(
                StreamState(stream.id, stream.numbers, stream.floor, stream.delivered, tuple(stream.kept.items()))
                for stream in self.streams.values()
            )
        )

    def restore(self, state: State) -> None:
        """Everything that was stored; parent and children are found anew."""
        for stored in state.streams:
            stream = self.streams.named(stored.stream)
            stream.restore(stored.numbers, stored.floor, stored.kept)
            stream.delivered = stored.delivered

    def resume(self) -> None:
        """Begin as at the first start, with what the log has."""
        self.delivery.resume()
        super().resume()
