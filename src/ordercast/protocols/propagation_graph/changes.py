"""What the application of this site wants: to be in groups, or out of them, until it is so."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ordercast.core import GroupId, Packet, Part, SiteId, UsageError
from ordercast.core.effects import ExitGroup, JoinRefused
from ordercast.core.events import Arrival, JoinRequested, LeaveRequested
from ordercast.protocols.parts.names import check_join, check_wishes
from ordercast.protocols.propagation_graph.packets import Ask, Decline, Unchanged
from ordercast.protocols.propagation_graph.records import Wished
from ordercast.protocols.propagation_graph.rosters import Roster, Wish

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.protocol import PropagationGraph


class Changes(Part):
    """Wishes are in the log until they are fulfilled. The manager is told all of them, again and again."""

    packets: ClassVar[tuple[type[Packet], ...]] = (Decline, Unchanged)
    timers = ("change",)
    records = (Wished,)
    branches: ClassVar[tuple[str, ...]] = ("asked", "asked-to-go", "joiner-gave-up", "joiner-back")

    def __init__(self, core: PropagationGraph) -> None:
        self._core = core
        self.wishes: dict[GroupId, bool] = {}
        """Group -> whether this site wants to be in it, as long as that is not so."""
        self.has_asked_to_go = False
        """Whether the manager may take this site out of the graph: it multicasts nothing until it knows."""
        self._asking = False
        """Whether the timer runs."""
        self._noted: Wish | None = None
        """What the manager knows of, and need not do anything about."""

    @property
    def _groups(self) -> tuple[GroupId, ...]:
        """The groups in which this site is."""
        core = self._core
        return () if core.is_outside else core.roster.groups_of(core.site)

    # ------------------------------------------------------------------ the application
    def join(self, event: JoinRequested) -> None:
        """The application wants to be in a group."""
        core, group = self._core, event.group
        check_join("propagation-graph", event)
        check_wishes(core.site, self.wishes)
        wish = self.wishes.get(group)
        if wish is None and group in self._groups:
            raise UsageError(f"{core.site} is in {group!r} already: leave it first")
        if wish is False and group in self._groups:
            raise UsageError(f"{core.site} leaves {group!r}: join it again when it has left")
        if not wish:  # an application that is started again asks again
            self._wish(group, True)
            self.wait_from_now_on()
        self.go_on()

    def wait_from_now_on(self) -> None:
        """How long it takes is told with the view."""
        self._core.passage.wait_from_now_on()

    def leave(self, event: LeaveRequested) -> None:
        """The application wants to be out of a group."""
        core, group = self._core, event.group
        wish = self.wishes.get(group)
        if wish is None and group not in self._groups:
            raise UsageError(f"{core.site} is not in {group!r}: there is nothing to leave")
        check_wishes(core.site, self.wishes)
        if wish is not False:
            self._wish(group, False)
        if group not in self._groups:
            # The manager may let it in all the same: then it leaves again.
            core.branch("joiner-gave-up")
            core.outbox.append(ExitGroup(group))
        self.go_on()

    def _wish(self, group: GroupId, wanted: bool | None) -> None:
        record = Wished(group, wanted)
        self._core.append(record)
        self.recall_wished(record)

    def recall_wished(self, record: Wished) -> None:
        """See `_wish`."""
        self._noted = None
        if record.wanted is None:
            self.wishes.pop(record.group, None)
        else:
            self.wishes[record.group] = record.wanted

    def check_source(self) -> None:
        """Who is in no graph, or is about to leave it, cannot multicast: nobody would take what it has under way."""
        core = self._core
        if core.is_outside or core.passage.is_leaving or self.has_asked_to_go:
            raise UsageError(f"{core.site} is in no group, or leaves its last one: join a group before you multicast")

    # ------------------------------------------------------------------ asking
    @property
    def wanted_groups(self) -> tuple[GroupId, ...]:
        """Those to join."""
        return tuple(sorted(group for group, wanted in self.wishes.items() if wanted))

    @property
    def _leaves_all(self) -> bool:
        """Whether this site would be in no group any more."""
        groups = self._groups
        return bool(groups) and not self.wanted_groups and all(group in self.wishes for group in groups)

    def go_on(self) -> None:
        """See to what is wanted, now and again until it is so."""
        core = self._core
        if not self.wishes or (core.is_outside and not self.wanted_groups):
            core.lookup.end()
            return
        if self._noted == self.wish:
            return
        if not self._asking:
            self._asking = True
            core.set_timer("change", core.options.retransmit_seconds)
        if core.is_outside:
            core.lookup.go_on()
        elif self.may_ask:
            self._ask()

    @property
    def may_ask(self) -> bool:
        """Whether the manager can begin a change."""
        return self._core.closed is None

    @property
    def wish(self) -> Wish:
        """All that is wanted."""
        return Wish(self.wanted_groups, tuple(sorted(group for group, wanted in self.wishes.items() if not wanted)))

    def _ask(self) -> None:
        core = self._core
        if self._leaves_all:
            if core.own_pending:
                return  # what this site has multicast is first to be taken
            core.branch("asked-to-go")
            self.has_asked_to_go = core.holding = True
        core.branch("asked")
        if core.roster.manager == core.site:
            core.manager.want(core.site, self.wish, core.number)
        else:
            core.send((core.roster.manager,), Ask(self.wish, core.number))

    def on_change_timeout(self) -> None:
        """Not yet so."""
        self._asking = False
        self.go_on()

    def on_decline(self, sender: SiteId, packet: Decline, arrival: Arrival) -> None:
        """The manager cannot let this site in."""
        core = self._core
        if sender == (core.lookup.manager if core.is_outside else core.roster.manager):
            for group in self.wanted_groups:
                self._wish(group, None)
                core.outbox.append(JoinRefused(group, packet.reason[:255]))
            self.go_on()

    def on_unchanged(self, sender: SiteId, packet: Unchanged, arrival: Arrival) -> None:
        """The manager knows that this site has given up what it wanted to join: it need not be told again, unless it
        has let this site in meanwhile."""
        if not packet.wish.joins and not set(self._groups).intersection(packet.wish.leaves):
            self._noted = packet.wish

    def note(self, site: SiteId, wish: Wish) -> None:
        """At the manager: there is nothing to do for a site."""
        if site == self._core.site:
            self.on_unchanged(site, Unchanged(wish), Arrival())
        else:
            self._core.send((site,), Unchanged(wish))

    # ------------------------------------------------------------------ what has come to be
    def note_moved(self, before: Roster) -> None:
        """A graph has begun: what is so now, is wanted no more."""
        groups, self._noted = self._groups, None
        for group in [group for group, wanted in self.wishes.items() if wanted == (group in groups)]:
            del self.wishes[group]
        if before.groups_of(self._core.site) != groups:
            self.has_asked_to_go = False

    def note_gone(self) -> None:
        """This site is in no graph."""
        self.wishes = {group: True for group, wanted in self.wishes.items() if wanted}
        self.has_asked_to_go = False

    def resume(self) -> None:
        """The log has been read. It does not say what the manager was told."""
        groups = self._groups
        self.has_asked_to_go = bool(groups) and all(self.wishes.get(group) is False for group in groups)
        self._core.holding = self._core.holding or self.has_asked_to_go
        if self._core.is_outside and self.wishes:
            self._core.branch("joiner-back")
        self.go_on()
