"""The token protocol: its contract, the roles of which it consists, and its start."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from ordercast.core import EVERY_FAULT, TOTAL_ORDER, AtRest, Context, Contract, GroupId, Protocol, SiteId
from ordercast.core.effects import DeclareRecovered
from ordercast.core.events import (
    Consumed,
    Discovered,
    JoinRequested,
    LeaveRequested,
    MulticastRequested,
    Recovered,
    RemovalRequested,
    Started,
)
from ordercast.protocols.classic.token.arrangement import ARRANGEMENT
from ordercast.protocols.classic.token.attempt import Attempt
from ordercast.protocols.classic.token.backlog import Backlog
from ordercast.protocols.classic.token.changes import Changes
from ordercast.protocols.classic.token.delivery import Delivery
from ordercast.protocols.classic.token.hearing import Hearing
from ordercast.protocols.classic.token.joining import Joining
from ordercast.protocols.classic.token.ledger import Ledger
from ordercast.protocols.classic.token.lookup import Lookup
from ordercast.protocols.classic.token.loss import Loss
from ordercast.protocols.classic.token.options import TokenOptions
from ordercast.protocols.classic.token.packets import InstallOfRoster
from ordercast.protocols.classic.token.patience import Patience
from ordercast.protocols.classic.token.probing import Probing
from ordercast.protocols.classic.token.records import Admission, NewList, State
from ordercast.protocols.classic.token.reformation import Reformation
from ordercast.protocols.classic.token.repair import Repair
from ordercast.protocols.classic.token.ring import Ring
from ordercast.protocols.classic.token.rosters import configured
from ordercast.protocols.classic.token.settlement import Settlement
from ordercast.protocols.classic.token.sites import Sites
from ordercast.protocols.classic.token.source import Source
from ordercast.protocols.classic.token.stable import Stable
from ordercast.protocols.classic.token.suspicion import Suspicion

ROLES = (
    Source,
    Ring,
    Repair,
    Stable,
    Delivery,
    Settlement,
    Suspicion,
    Attempt,
    Probing,
    Reformation,
    Joining,
    Loss,
    Lookup,
    Changes,
)
TIMERS_OF_A_LIST = tuple(timer for role in ROLES if role not in (Lookup, Changes) for timer in role.timers)
OBSTACLES_OF_A_LIST = ("majority", "change", "history", "reader", "loss")


class Token(Protocol):
    """Chang and Maxemchuk's reliable broadcast with a rotating token site, one token for all groups."""

    contract = Contract(
        name="token",
        title="rotating token site with L-resilience and reformation: one order for all groups, any minority may crash",
        paper="Chang, Maxemchuk 1984, as described in Spauster 1991, 2.3",
        guarantees=(*TOTAL_ORDER, "offset-agreement"),
        faults=EVERY_FAULT,
        crash="the others, if a majority, form a new token list without it; when it comes back it gets what they keep",
        branches=tuple(branch for part in (*ROLES, Hearing) for branch in part.branches),
        options=TokenOptions,
        at_rest=lambda sites, groups, options: AtRest(
            packets=2 * sites / options.beacon_seconds,
            messages=2 + sites,
            entries=115 + 10 * sites,
            credit=options.window_messages,
        ),
        minority_may_die=True,
        repairs=True,
        dynamic=True,
    )
    arrangement = ARRANGEMENT
    parts = (Sites, Hearing, Ledger, Backlog, *ROLES)
    records = (State,)
    wants_consumed = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = options = cast(TokenOptions, context.options)
        self.patience = Patience(options)
        roster = configured(context.sites, context.groups)
        self.system = Sites(self.site, context.sites, options.resilience, roster, outside=not context.groups)
        self.lookup = Lookup(self)
        self.changes = Changes(self)
        self._make_roles()

    def _make_roles(self) -> None:
        """Make all that belongs to a list."""
        system, options = self.system, self.options
        self.attach(system)
        self.ledger = self.attach(Ledger(system.roster.names, system.roster))
        self.attach(Hearing(self))
        self.backlog = self.attach(Backlog(self.ledger, system.roster.names, options.window_messages))
        self.source = self.attach(Source(self))
        self.ring = self.attach(Ring(self))
        self.repair = self.attach(Repair(self))
        self.stable = self.attach(Stable(self))
        self.delivery = self.attach(Delivery(self))
        self.settlement = self.attach(Settlement(self))
        self.suspicion = self.attach(Suspicion(self))
        self.attempt = self.attach(Attempt(self))
        self.probing = self.attach(Probing(self))
        self.reformation = self.attach(Reformation(self))
        self.joining = self.attach(Joining(self))
        self.loss = self.attach(Loss(self))
        self.attach(self.lookup)
        self.attach(self.changes)

    def on_started(self, event: Started) -> None:
        """Everybody begins with the list of all sites; who is in no configuration waits until it is to join."""
        if self.system.outside:
            self.system.search()
            self.begin_outside()
            return
        self._begin()
        self.ring.take_token()

    def _begin(self) -> None:
        """Tell the application who is in the list and how much it may send."""
        self.stable.end_reading()
        self.stable.install_view()
        self.source.give_credit()
        self.suspicion.watch_ring()

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """Any site may multicast to any groups."""
        self.source.multicast(event.multicast)

    def on_consumed(self, event: Consumed) -> None:
        """The application has taken deliveries: there is room for more, and these are settled."""
        self.delivery.consume(event.count)
        self.settlement.note(self.site, self.delivery.settled)
        self.repair.note_taken()

    # ------------------------------------------------------------------ groups that come and go
    @property
    def groups(self) -> Mapping[GroupId, tuple[SiteId, ...]]:
        """The groups as they are behind the last delivery."""
        if self.system.outside:
            return {}
        roster = self.delivery.roster
        return self.context.groups if roster.is_configured else dict(roster.groups)

    @property
    def sites(self) -> tuple[SiteId, ...]:
        """The sites of the system."""
        return self.system.all

    @property
    def ordering_site(self) -> SiteId | None:
        """Whose turn it is, as far as this site has heard."""
        return self.ledger.token_site if self.ring.alive else None

    def on_discovered(self, event: Discovered) -> None:
        """The driver has found other processes."""
        self.lookup.discover(event)

    def on_join_requested(self, event: JoinRequested) -> None:
        """The application wants to be in a group."""
        self.changes.join(event)

    def on_leave_requested(self, event: LeaveRequested) -> None:
        """The application wants to be out of a group."""
        self.changes.leave(event)

    def on_removal_requested(self, event: RemovalRequested) -> None:
        """An operator wants a site out of every group."""
        self.changes.remove(event.site)

    def branches_of_crash(self) -> Iterator[str]:
        """What it interrupts of an attempt to form a list, and of changes."""
        yield from self.attempt.branches_of_crash()
        yield from self.changes.branches_of_crash()

    def begin_anew(self) -> None:
        """Forget all that belongs to a list: this site is in none. What it wishes, and whom it has found, stays."""
        self.system.leave()
        for handlers in (self._on_packet, self._on_timer, self._on_record):
            handlers.clear()
        self._listeners, self._finishers, self._checkers = [], [], []
        self._make_roles()

    def begin_outside(self) -> None:
        """In no list: look for one, when there is something to join."""
        for timer in TIMERS_OF_A_LIST:
            self.cancel_timer(timer)
        for by in OBSTACLES_OF_A_LIST:
            self.block(by, "")
        self.stable.end_reading()
        self.source.give_credit()
        self.lookup.go_on()

    def come(self, install: InstallOfRoster, admission: Admission) -> None:
        """This site is let into a list. Where it came back from a crash with one that nobody else had, it begins as a
        stranger, who has nothing to recover."""
        self.suspicion.note_recovered()
        self.begin_anew()
        self.system.come(install.version)
        self.stable.end_reading()
        self.stable.prepare(admission, install.version)
        self.joining.begin(install, admission)

    def found(self, record: NewList) -> None:
        """This site begins a list of its own."""
        self.stable.install(record)
        self.ring.begin(0)
        self.ring.open(record.version)
        self.source.give_credit()
        self.suspicion.watch_ring()
        self.lookup.note_in()

    # ------------------------------------------------------------------ stable storage
    def checkpoint_messages(self) -> int:
        """What is kept for the others."""
        return self.ledger.messages

    def checkpoint_state(self) -> State:
        """Everything that must survive."""
        return self.stable.checkpoint()

    def restore(self, state: State) -> None:
        """Take up the state of a checkpoint."""
        self.stable.restore(state)

    def on_recovered(self, event: Recovered) -> None:
        """As everywhere; a log that is lost says nothing, not even that."""
        self.system.search()
        if event.lost and self.context.groups:
            self.loss.begin(self.context.incarnation)
        super().on_recovered(event)

    def resume(self) -> None:
        """What the log says was delivered is replayed; what is committed besides is delivered behind it. Then find out
        whether the list goes on without this site."""
        if self.system.outside:
            self.begin_outside()
            self.outbox.append(DeclareRecovered())
            return
        self.reformation.note_version(self.stable.promised)
        self._begin()
        self.delivery.deliver()
        self.source.send_again()
        self.suspicion.begin_recovery()
        self.changes.resume()
        if self.loss.lost:
            self.loss.ask()

    def declare_recovered(self) -> None:
        """Not yet, when the log has been read: `Suspicion` says it when the site is in a list that works."""
