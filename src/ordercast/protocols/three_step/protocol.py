"""Three steps: the core that holds its parts together."""

from __future__ import annotations

from typing import cast

from ordercast.core import EVERY_FAULT, AtRest, Context, Contract, MessageId, Multicast, SiteId
from ordercast.protocols.parts.absence import Absence
from ordercast.protocols.parts.address import Addresses, Destinations
from ordercast.protocols.parts.cells import Cells
from ordercast.protocols.parts.detector import FailureDetector
from ordercast.protocols.parts.kept import Keeper
from ordercast.protocols.parts.multicast import Mark, ReliableMulticast
from ordercast.protocols.parts.primary import Primary
from ordercast.protocols.parts.source import Source
from ordercast.protocols.three_step.arrangement import ARRANGEMENT
from ordercast.protocols.three_step.asking import Asking
from ordercast.protocols.three_step.at_once import AtOnce
from ordercast.protocols.three_step.delivery import Delivery
from ordercast.protocols.three_step.entries import Entries, Entry
from ordercast.protocols.three_step.forwarding import Forwarding
from ordercast.protocols.three_step.options import ThreeStepOptions
from ordercast.protocols.three_step.ordering import Ordering
from ordercast.protocols.three_step.packets import Ask, State
from ordercast.protocols.three_step.posting import PostingOnce
from ordercast.protocols.three_step.returning import Returning
from ordercast.protocols.three_step.speaking import Speaking
from ordercast.protocols.three_step.stable import checkpoint_of, restore_from
from ordercast.protocols.three_step.taking import Taking

EARLIER_TICKS = 4
"""Intervals before `suspicion_seconds` when a site suspects, so that another one orders by then."""
CALM_TICKS = 200
"""Intervals without a long silence of a primary until we are less patient with it again: some of its failures."""


class ThreeStep(Keeper):
    """Genuine total order to several groups in three steps, which goes on without the site that orders."""

    options: ThreeStepOptions
    addresses: Addresses[Destinations]
    entries: Entries
    watching: Asking
    keeping: Taking
    logs_what_it_sends = True
    reports_with_its_turns = True
    checkpoint_records = 3 * Keeper.checkpoint_records
    """A message takes three records: sent, accepted, delivered. Only one of them has the body."""
    parts = (
        FailureDetector,
        Forwarding,
        ReliableMulticast,
        Primary,
        Ordering,
        Speaking,
        Delivery,
        Taking,
        Absence,
        Returning,
        Source,
        Asking,
    )
    records = (State,)

    contract = Contract(
        name="three-step",
        title="a primary in each cell orders, and another takes over: three steps, open senders, overlapping groups",
        paper="Gotsman, Lefort, Chockler 2019; Pacheco, Coelho, Pedone 2023",
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
        crash="the others go on as long as a majority of each addressed cell is up, after a suspicion where it was the "
        "one that orders; a cell without a majority blocks what is addressed to it, and what is ordered behind that; "
        "whoever is away for longer than `kept_messages_max` and `kept_bytes_max` allow is given up, and returns "
        "behind a gap",
        branches=tuple(
            branch for part in parts for branch in part.branches if (part, branch) != (ReliableMulticast, "relayed")
        ),
        options=ThreeStepOptions,
        at_rest=lambda sites, groups, options: AtRest(
            packets=sites / options.ping_seconds,
            messages=3 * sites,
            # Of each source, what is over above its floor stays until the source says more: a window at the most.
            entries=90 + (25 + options.window_messages) * sites,
            credit=options.window_messages,
        ),
        minority_may_die=True,
        message_size={"a": 192, "b": 64},
    )
    arrangement = ARRANGEMENT

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = options = cast(ThreeStepOptions, context.options)
        self.ranks = {site: rank for rank, site in enumerate(context.sites)}
        self.cells = Cells(context.groups)
        self.cellmates = self.cells.mates(self.site)
        self.addresses = Addresses(context, self.cells, Destinations)
        self.entries = Entries(self)
        self.link = PostingOnce(self)
        self.detector = self.attach(
            FailureDetector(
                self,
                ping_seconds=options.ping_seconds,
                # At the latest: the detector looks once in an interval, and gives the last one on top. One more is for
                # those whose intervals end later, without whom there is no majority; one for those who still read
                # what the dead one has sent; one for the writes of the log with which they promise and start.
                suspicion_seconds=options.suspicion_seconds - EARLIER_TICKS * options.ping_seconds,
                suspicion_seconds_max=options.suspicion_seconds_max,
                on_suspected=self.on_suspected,
                is_return=lambda packet: isinstance(packet, Ask) and not packet.asked,
                calm_ticks=CALM_TICKS,
            )
        )
        self.ordering = self.attach(Ordering(self))
        self.at_once = AtOnce(self)
        self.speaking = self.attach(Speaking(self))
        # Before the reliable multicast: it hands that what comes.
        self.forwarding = self.attach(Forwarding(self))
        self.delivery = self.attach(Delivery(self))
        cell = self.cells.of_site(self.site)
        self.primary = self.attach(
            Primary(
                self,
                (self.site,) if cell is None else self.cells.cells[cell],
                self.detector,
                self.ordering,
                retry_seconds=options.retry_seconds,
                places_max=4 * options.kept_messages_max,
            )
        )
        self.keeping = self.attach(Taking(self))
        self.absence = self.attach(Absence(self))
        self.returning = self.attach(Returning(self))
        self.source = self.attach(Source(self))
        self.watching = self.attach(Asking(self))
        self.multicast = self.attach(
            ReliableMulticast(
                self,
                self.link,
                eager=False,
                want_seconds=options.want_seconds,
                destinations=self.addresses.sites_of,
                find=self.entries.body,
                on_delivered=self.on_delivered,
                on_old=self.keeping.on_old,
                bounds=self.source.bounds,
                bound_here=self.addresses.here,
                has_reached=self.has_reached,
            )
        )

    @property
    def ordering_site(self) -> SiteId:
        """The primary of this site's cell, in the epoch that it has promised."""
        return self.primary.primary_of(self.primary.promised)

    # ------------------------------------------------------------------ what the parts ask
    @property
    def mark(self) -> Mark | None:
        """The last delivery, or what was skipped behind it."""
        return self.delivery.mark

    def body(self, message: MessageId) -> Multicast | None:
        """A message, when it is here."""
        return self.entries.body(message)

    def is_over(self, message: MessageId) -> bool:
        """Whether nobody needs it any more."""
        return message not in self.entries and self.multicast.is_finished(message)

    def whom_to_tell_first(self, multicast: Multicast, address: Destinations) -> tuple[SiteId, ...]:
        """To whom a message of ours goes at first."""
        return self.forwarding.whom_to_tell_first(multicast, address)

    def on_own(self, multicast: Multicast) -> None:
        """A message of ours is in the log."""
        entry = self.entries[multicast.id]
        entry.logged = True
        self.ordering.on_body(entry)

    def on_own_sent(self, multicast: Multicast) -> None:
        """A message of ours; a small one to our own cell has its place at once, where we give it."""
        entry = self.entries[multicast.id]
        entry.logged = True
        if self.at_once.proposes() and self.forwarding.is_small(multicast, entry.address):
            self.at_once.propose(entry)
        else:
            self.ordering.on_body(entry)

    def on_delivered(self, multicast: Multicast) -> None:
        """A message is here, for the first time, and is not over."""
        entries, ordering = self.entries, self.ordering
        entry = entries.get(multicast.id) or entries.begin(multicast.id, self.addresses.of(multicast))
        entries.keep(entry, multicast)
        ordering.on_body(entry)
        if ordering.lacking.messages and ordering.lacking.is_last(multicast.id):
            self.primary.on_bodies()

    def on_forgotten(self, entry: Entry) -> None:
        """A message is over."""
        self.ordering.forget_all((entry,))

    def drop(self, entry: Entry) -> None:
        """Nobody has a message: be as if we had never heard of it."""
        self.entries.forget(entry)
        self.multicast.forget(entry.message)

    def recall(self, multicast: Multicast) -> None:
        """A message is in the log."""
        entry = self.entries.note(multicast.id, self.addresses.of(multicast))
        if entry is not None:
            self.entries.keep(entry, multicast)
            entry.logged = True
            self.ordering.on_body(entry)

    def on_suspected(self, site: SiteId) -> None:
        """Somebody for whom we wait is silent."""
        self.primary.on_suspected(site)
        self.absence.on_suspected(site)

    # ------------------------------------------------------------------ stable storage
    def checkpoint_state(self) -> State:
        """Everything that a crash must not lose."""
        return checkpoint_of(self)

    def restore(self, state: State) -> None:
        """Everything that was not lost."""
        restore_from(self, state)

    def resume(self) -> None:
        """Say again what may have been lost with the memory, and ask for what was."""
        if self.ordering.cell is not None:
            # First: whoever hears anything else from us before takes its suspicion for wrong.
            self.watching.ask_cell()
        self.keeping.adopt()
        # (Else: who is back with a window of messages that all others have taken may send nothing until they say so.)
        self.source.note_delivered([entry for entry in self.entries.values() if entry.delivered])
        for entry in list(self.entries.values()):
            if self.keeping.is_over(entry):
                self.keeping.forget(entry)
            elif entry.multicast is None:
                self.entries.want(entry, entry.message.source)
        self.source.resume()
        if self.ordering.cell is not None:
            self.ordering.resume()
        if self.absence.given_up:
            # Whoever is behind may have come back while we were down.
            self.returning.call_back()
            self.watching.keep_watching()
