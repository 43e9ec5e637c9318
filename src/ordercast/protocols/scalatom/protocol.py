"""SCALATOM: the core that holds its parts together."""

from __future__ import annotations

from typing import cast

from ordercast.core import EVERY_FAULT, AtRest, Context, Contract, Multicast, SiteId
from ordercast.core.events import Event, Received, Recovered
from ordercast.protocols.parts.absence import Absence
from ordercast.protocols.parts.address import Addresses
from ordercast.protocols.parts.cells import Cells
from ordercast.protocols.parts.consensus import Consensus
from ordercast.protocols.parts.detector import FailureDetector
from ordercast.protocols.parts.kept import Keeper
from ordercast.protocols.parts.link import Link
from ordercast.protocols.parts.multicast import Mark, ReliableMulticast
from ordercast.protocols.parts.source import Source
from ordercast.protocols.scalatom.address import Address
from ordercast.protocols.scalatom.arrangement import ARRANGEMENT
from ordercast.protocols.scalatom.catching import Catching
from ordercast.protocols.scalatom.confirming import Confirming
from ordercast.protocols.scalatom.entries import Entries, Entry
from ordercast.protocols.scalatom.histories import Histories
from ordercast.protocols.scalatom.keeping import Keeping
from ordercast.protocols.scalatom.loss import Loss
from ordercast.protocols.scalatom.options import ScalatomOptions
from ordercast.protocols.scalatom.ordering import Ordering
from ordercast.protocols.scalatom.packets import State
from ordercast.protocols.scalatom.returning import Returning
from ordercast.protocols.scalatom.stable import checkpoint_of, restore_from
from ordercast.protocols.scalatom.watching import Watching


class Scalatom(Keeper):
    """Genuine total order to several groups, with open senders and unreliable failure detectors only."""

    parts = (
        Link,
        FailureDetector,
        ReliableMulticast,
        Consensus,
        Ordering,
        Confirming,
        Histories,
        Keeping,
        Absence,
        Catching,
        Returning,
        Source,
        Watching,
        Loss,
    )
    options: ScalatomOptions
    addresses: Addresses[Address]
    entries: Entries
    link: Link
    keeping: Keeping
    records = (State,)

    contract = Contract(
        name="scalatom",
        title="timestamps, consensus and histories among the addressees only: open senders, overlapping groups",
        paper="Rodrigues, Guerraoui, Schiper 1998",
        guarantees=(
            "integrity",
            "no-duplication",
            "single-source-order",
            "multiple-source-order",
            "multiple-group-order",
            "acyclic-order",
            "uniform-agreement",
            "termination",
            "recovery",
            "R1",
            "no-silent-divergence",
            "genuineness",
            "message-size",
        ),
        faults=EVERY_FAULT,
        crash="the others go on as long as a majority of each addressed cell is up; a cell without one blocks "
        "what is addressed to it, and what is ordered behind that; whoever is away for longer than `kept_messages_max` "
        "and `kept_bytes_max` allow is given up, and returns behind a gap",
        branches=(*(branch for part in parts for branch in part.branches), "recovered-undecided"),
        options=ScalatomOptions,
        at_rest=lambda sites, groups, options: AtRest(
            # Places in the order have the name of a message: how far each cell has come, where each site was given up,
            # and four of our own. Of each source, what is over above its floor stays until the source says more: a
            # window at the most.
            messages=4 + 2 * sites,
            entries=110 + (12 + options.window_messages) * sites,
            credit=options.window_messages,
        ),
        minority_may_die=True,
        repairs=True,
        message_size={"a": 192, "b": 64},
    )
    arrangement = ARRANGEMENT

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = cast(ScalatomOptions, context.options)
        options = self.options
        self.ranks = {site: rank for rank, site in enumerate(context.sites)}
        self.cells = Cells(context.groups)
        self.cellmates = self.cells.mates(self.site)
        self.addresses = Addresses(context, self.cells, Address)
        self.loss = self.attach(Loss(self))
        self.entries = Entries(self)
        self.link = self.attach(
            Link(
                self,
                retransmit_seconds=options.retransmit_seconds,
                retransmit_seconds_max=options.retransmit_seconds_max,
                receipt_seconds=options.receipt_seconds,
                letters_max=options.letters_max,
                on_behind=lambda site: self.catching.begin(site),
            )
        )
        self.detector = self.attach(
            FailureDetector(
                self,
                ping_seconds=options.ping_seconds,
                suspicion_seconds=options.suspicion_seconds,
                suspicion_seconds_max=options.suspicion_seconds_max,
                on_suspected=self.on_suspected,
            )
        )
        self.ordering = self.attach(Ordering(self))
        self.histories = self.attach(Histories(self))
        self.confirming = self.attach(Confirming(self))
        self.keeping = self.attach(Keeping(self))
        self.absence = self.attach(Absence(self))
        self.catching = self.attach(Catching(self))
        self.returning = self.attach(Returning(self))
        self.source = self.attach(Source(self))
        self.watching = self.attach(Watching(self))
        self.multicast = self.attach(
            ReliableMulticast(
                self,
                self.link,
                eager=options.relay_eagerly,
                want_seconds=options.want_seconds,
                destinations=self.addresses.sites_of,
                find=self.entries.body,
                on_delivered=self.ordering.on_delivered,
                on_old=self.keeping.on_old,
                bounds=self.source.bounds,
                bound_here=self.addresses.here,
                has_reached=self.has_reached,
            )
        )
        self.consensus = self.attach(
            Consensus(
                self,
                self.link,
                self.detector,
                eager=options.relay_eagerly,
                participants=self.ordering.participants,
                quorum=self.ordering.quorum,
                estimate=self.ordering.estimate,
                on_decided=self.ordering.on_decided,
                on_recalled=self.ordering.apply,
                is_over=self.ordering.is_over,
                is_news=self.ordering.is_news,
                is_possible=self.ordering.is_possible,
                on_impossible=self.ordering.on_impossible,
                may_begin=self.ordering.may_begin,
                lives=lambda: self.loss.lives,
            )
        )

    def step(self, now: float, event: Event) -> None:
        """As everywhere, but for packets of a life that is over, and those that a lost site cannot answer."""
        if type(event) is not Received or self.loss.admits(event.sender, event.packet):
            super().step(now, event)

    @property
    def mark(self) -> Mark | None:
        """The last delivery, or what was skipped behind it."""
        return self.histories.mark

    @property
    def is_lost(self) -> bool:
        """Whether the site has lost its log and counts for nothing yet."""
        return self.loss.lost

    def on_own(self, multicast: Multicast) -> None:
        """R-deliver a message of our own."""
        self.ordering.on_delivered(multicast)

    def on_forgotten(self, entry: Entry) -> None:
        """Timestamps, history entry, and the decision when it was the last of its batch."""
        self.histories.forget(entry)
        self.ordering.on_forgotten(entry)
        self.keeping.on_forgotten(entry)
        self.confirming.acknowledge_deferred(entry.message)

    def on_suspected(self, site: SiteId) -> None:
        """Somebody for whom we wait is silent."""
        self.consensus.on_suspected(site)
        self.absence.on_suspected(site)

    # ------------------------------------------------------------------ stable storage
    def checkpoint_state(self) -> State:
        """Everything that a crash must not lose."""
        return checkpoint_of(self)

    def restore(self, state: State) -> None:
        """Everything that was not lost."""
        restore_from(self, state)

    def on_recovered(self, event: Recovered) -> None:
        """As everywhere; a log that is lost says nothing, not even that."""
        if event.lost or self.loss.is_half_way(event):
            self.loss.begin()
            event = Recovered((), None, lost=True)
        super().on_recovered(event)

    def declare_recovered(self) -> None:
        """Not while the site is lost: `Loss` says it later."""
        if not self.loss.lost:
            super().declare_recovered()

    def resume(self) -> None:
        """Say again what may have been lost with the memory, and ask for what was."""
        if self.loss.lost:
            self.loss.ask()
            return
        for entry in list(self.entries.values()):
            if self.keeping.is_over(entry):
                self.keeping.forget(entry)
            elif self.site in entry.address.sites and not entry.sequence:
                self.branch("recovered-undecided")
        self.source.resume()
        self.consensus.resume()
        self.catching.begin_all()
        self.histories.resume()
        self.ordering.resume()
