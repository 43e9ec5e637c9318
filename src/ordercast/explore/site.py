"""The sites of a world: every state that one of them has been seen in, and what each event makes of it.

What a site does depends on its own state and the event alone. There are far fewer states of one site than of all of
them together, so each step of a core is taken once and looked up ever after.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import msgspec

from ordercast.core import (
    Context,
    GroupId,
    MessageId,
    Multicast,
    Packet,
    Protocol,
    SiteId,
    UsageError,
    WireError,
    effects,
)
from ordercast.core.events import Consumed, Event, MulticastRequested, Received, Recovered, Started, Timer, TimerFired
from ordercast.explore.freeze import ConstantRandom, Freezer
from ordercast.explore.world import Observation, Seen, World

_NO_STATE = frozenset(("outbox", "branches", "now"))


class _Groups(dict[GroupId, tuple[SiteId, ...]]):
    """A table that never changes, so that what holds it can be hashed."""

    def __hash__(self) -> int:  # type: ignore[override]
        return len(self)


class Local(NamedTuple):
    """One state of one site."""

    site: int
    incarnation: int
    core: tuple[int, ...]
    """As its freezer numbers what is in it."""
    records: tuple[Any, ...]
    checkpoint: Any
    timers: tuple[tuple[Timer, float], ...]
    """Those that are set, with the time at which they are due, or how long they last where clocks mean nothing."""
    own: tuple[MessageId, ...]
    delivered: tuple[MessageId, ...]
    clock: float
    """Where clocks are read: how late it is here. Else 0."""


class Cut(NamedTuple):
    """How far a step has come when its site crashes."""

    records: tuple[Any, ...]
    checkpoint: Any
    own: tuple[MessageId, ...]
    delivered: tuple[MessageId, ...]
    sends: tuple[int, ...]


class Step(NamedTuple):
    """What an event makes of a state."""

    after: int
    sends: tuple[int, ...]
    problem: str | None
    cuts: tuple[Cut, ...]
    """Where a crash in the middle of it leaves something else behind than one before or after it."""
    timers: tuple[tuple[Timer, float | None], ...]
    """Set for so many seconds, or cancelled, in order."""


class Flying(NamedTuple):
    """A packet under way."""

    receiver: int
    sender: int
    packet: Packet


REFUSED = Step(-1, (), None, (), ())
"""The application may not do this now."""


class Sites:
    """All states of all sites, by number, and the steps between them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.locals: list[Local] = []
        self.observations: list[Observation] = []
        """Of each state what a judge sees; equal ones are one object."""
        self._observations: dict[Observation, Observation] = {}
        self.packets: list[Flying] = []
        self.branches: Counter[str] = Counter()
        self.steps_taken = 0
        self._local_numbers: dict[Local, int] = {}
        self._packet_numbers: dict[Any, int] = {}
        self._cores: dict[tuple[int, int], tuple[Protocol, Freezer, tuple[int, ...]]] = {}
        self._groups = _Groups(world.groups)
        self._random = ConstantRandom()
        self._indices = {site: index for index, site in enumerate(world.sites)}

    # ------------------------------------------------------------------ events
    def start(self, site: int) -> Step:
        """The first start."""
        blank = Local(site, 0, (), (), None, (), (), (), 0.0)
        return self._take(blank, Started(), 0.0, fresh=True)

    def receive(self, local: int, packet: int, now: float) -> Step:
        """A packet arrives."""
        flying = self.packets[packet]
        return self._take(self.locals[local], Received(self.world.sites[flying.sender], flying.packet), now)

    def fire(self, local: int, timer: Timer, now: float) -> Step:
        """A timer runs out."""
        state = self.locals[local]
        left = tuple(each for each in state.timers if each[0] != timer)
        return self._take(state._replace(timers=left), TimerFired(timer), now)

    def request(self, local: int, now: float) -> Step:
        """The application multicasts to the first group."""
        state = self.locals[local]
        number = 1 + sum(message.incarnation == state.incarnation for message in state.own)
        message = MessageId(self.world.sites[state.site], state.incarnation, number)
        multicast = Multicast(message, (next(iter(self.world.groups)),), b"x")
        try:
            return self._take(state, MulticastRequested(multicast), now)
        except UsageError:
            return REFUSED

    def crash(self, local: int, cut: Cut | None, now: float) -> Step:
        """The site crashes and comes back with its log; with a cut, in the middle of a step."""
        state = self.locals[local]
        if cut is not None:
            records, checkpoint, own, delivered, _ = cut
        else:
            records, checkpoint, own, delivered = state.records, state.checkpoint, state.own, state.delivered
        incarnation = state.incarnation + 1
        blank = Local(state.site, incarnation, (), records, checkpoint, (), own, delivered, state.clock)
        return self._take(blank, Recovered(records, checkpoint), now, fresh=True)

    # ------------------------------------------------------------------ cores
    def _core(self, site: int, incarnation: int) -> tuple[Protocol, Freezer, tuple[int, ...]]:
        known = self._cores.get((site, incarnation))
        if known is None:
            world = self.world
            core = world.protocol(
                Context(
                    site=world.sites[site],
                    groups=self._groups,
                    sites=world.sites,
                    options=world.options,
                    random=self._random,
                    incarnation=incarnation,
                )
            )
            core.branches = self.branches
            freezer = Freezer(core, _NO_STATE)
            known = self._cores[site, incarnation] = (core, freezer, freezer.freeze())
        return known

    def contents(self, local: int) -> tuple[Any, ...]:
        """All of a state but its site, spelled out."""
        state = self.locals[local]
        _, freezer, _ = self._core(state.site, state.incarnation)
        return (state.incarnation, freezer.contents(state.core), *state[3:])

    def _take(self, state: Local, event: Event, now: float, fresh: bool = False) -> Step:
        self.steps_taken += 1
        core, freezer, initial = self._core(state.site, state.incarnation)
        freezer.restore(initial if fresh else state.core)
        core.outbox = []
        problem = None
        taken = _Interpretation(self, state, now)
        try:
            core.step(now, event)
            taken.take(core.outbox, event)
            while core.wants_consumed and taken.unread:
                core.outbox, unread, taken.unread = [], taken.unread, 0
                core.step(now, Consumed(unread))
                taken.take(core.outbox, None)
            core.outbox = []
            core.check_invariants()
        except UsageError:
            if isinstance(event, MulticastRequested):
                freezer.forget()
                raise
            problem = "crash: a core misuses another"
        except WireError as error:
            problem = f"wire-error: {error}"
        except Exception as error:
            problem = f"crash: {type(error).__name__}: {error}"
        return taken.finish(core, freezer, problem)

    # ------------------------------------------------------------------ numbers
    def number_of(self, local: Local, core: Protocol) -> int:
        """The number of a state, which the core is in."""
        number = self._local_numbers.get(local)
        if number is None:
            number = self._local_numbers[local] = len(self.locals)
            self.locals.append(local)
            seen = self.world.observe(core, Seen(local.own, local.delivered))
            self.observations.append(self._observations.setdefault(seen, seen))
        return number

    def number_of_packet(self, receiver: SiteId, sender: int, packet: Packet) -> int:
        """The number of a packet."""
        flying = Flying(self._indices[receiver], sender, packet)
        key: Any = flying
        try:
            number = self._packet_numbers.get(key)
        except TypeError:  # it carries a table
            key = (flying.receiver, sender, type(packet), msgspec.msgpack.encode(packet))
            number = self._packet_numbers.get(key)
        if number is None:
            number = self._packet_numbers[key] = len(self.packets)
            self.packets.append(flying)
        return number


class _Interpretation:
    """Does what a core wants done in one step; the log is stable at once, and what comes in between is a cut."""

    def __init__(self, sites: Sites, state: Local, now: float) -> None:
        self._sites = sites
        self._state = state
        self._now = now
        self._timers = dict(state.timers)
        self._changed_timers: list[tuple[Timer, float | None]] = []
        self._records = list(state.records)
        self._checkpoint = state.checkpoint
        self._own = state.own
        self._delivered = list(state.delivered)
        self._sends: list[int] = []
        self._cuts: list[Cut] = []
        self.unread = 0

    def take(self, outbox: list[effects.Effect], event: Event | None) -> None:
        """The effects of a step, in order."""
        if isinstance(event, MulticastRequested):
            self._own = (*self._own, event.multicast.id)
        for effect in outbox:
            self._apply(effect)

    def _apply(self, effect: effects.Effect) -> None:
        if isinstance(effect, effects.Send):
            for site in effect.to:
                self._sends.append(self._sites.number_of_packet(site, self._state.site, effect.packet))
            self._cut()
        elif isinstance(effect, effects.SetTimer):
            self._set_timer(effect)
        elif isinstance(effect, effects.CancelTimer):
            self._timers.pop(effect.timer, None)
            self._changed_timers.append((effect.timer, None))
        elif isinstance(effect, effects.Append):
            self._records.append(effect.record)
            self._cut()
        elif isinstance(effect, effects.Checkpoint):
            self._records, self._checkpoint = [], effect.state
            self._cut()
        elif isinstance(effect, effects.Deliver):
            self._deliver(effect.multicast.id)
        elif isinstance(effect, effects.Replay):
            if effect.multicast.id not in self._delivered:
                self._deliver(effect.multicast.id)
        elif isinstance(effect, effects.Rollback):
            self._delivered.remove(effect.multicast.id)
        elif isinstance(effect, effects.Broadcast):
            for site in self._sites.world.sites:
                self._sends.append(self._sites.number_of_packet(site, self._state.site, effect.packet))
            self._cut()

    def _set_timer(self, effect: effects.SetTimer) -> None:
        due = effect.after_seconds
        if self._sites.world.rates is not None or self._sites.world.reads_clock:
            due = round(self._now + due, 9)
        self._timers[effect.timer] = due
        self._changed_timers.append((effect.timer, effect.after_seconds))

    def _deliver(self, message: MessageId) -> None:
        self._delivered.append(message)
        self.unread += 1
        self._cut()

    def _cut(self) -> None:
        records, delivered = tuple(self._records), tuple(self._delivered)
        self._cuts.append(Cut(records, self._checkpoint, self._own, delivered, tuple(self._sends)))

    def finish(self, core: Protocol, freezer: Freezer, problem: str | None) -> Step:
        """The state afterwards, and everything that left the site."""
        timers = tuple(sorted(self._timers.items(), key=lambda each: str(each[0])))
        local = Local(
            self._state.site,
            self._state.incarnation,
            freezer.freeze(),
            tuple(self._records),
            self._checkpoint,
            timers,
            self._own,
            tuple(self._delivered),
            self._now if self._sites.world.reads_clock else 0.0,
        )
        after = self._sites.number_of(local, core)
        # After the last of them a crash is one after the step.
        return Step(after, tuple(self._sends), problem, tuple(self._cuts[:-1]), tuple(self._changed_timers))
