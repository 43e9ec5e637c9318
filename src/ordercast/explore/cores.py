"""The cores of a world: every state that one of them has been seen in, and what each event makes of it.

A core knows its own state and the event, and neither what timers are set nor what its application has had. So many
states of a site share one of its core; and what a core does at one time it does at any other, unless it has asked how
late it is. Each step is taken once for all of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import msgspec

from ordercast.core import ChannelId, Context, GroupId, Packet, Protocol, SiteId, UsageError, WireError, effects
from ordercast.core.events import Consumed, Event, MulticastRequested
from ordercast.explore.freeze import ConstantRandom, Freezer
from ordercast.explore.world import Observation, Seen, World

_NO_STATE = frozenset(("outbox", "branches", "now"))
_DONE = (
    *(effects.SetTimer, effects.CancelTimer, effects.JoinChannel, effects.LeaveChannel),
    *(effects.Deliver, effects.Replay, effects.Rollback),
)
"""What means something in a small world, beside packets and records."""


class Sent(NamedTuple):
    """Packets that leave together."""

    packets: tuple[int, ...]


class Logged(NamedTuple):
    """A record that is written, or a checkpoint in the place of all of them."""

    number: int
    is_checkpoint: bool


class Reaction(NamedTuple):
    """What a core does about an event."""

    core: int
    """The number of its state afterwards."""
    done: tuple[Any, ...]
    """Effects, in order; for packets `Sent`, for records `Logged`."""
    problem: str | None


class Numbers:
    """Values by number, those that hold tables and cannot be hashed too."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def number_of(self, value: Any) -> int:
        """Equal ones have the same."""
        key = value
        try:
            number = self._numbers.get(key)
        except TypeError:
            key = (type(value), msgspec.msgpack.encode(value))
            number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.values)
            self.values.append(value)
        return number


class _Groups(dict[GroupId, tuple[SiteId, ...]]):
    """A table that never changes, so that what holds it can be hashed."""

    def __hash__(self) -> int:  # type: ignore[override]
        return len(self)


class _CoreState(NamedTuple):
    site: int
    incarnation: int
    contents: tuple[int, ...]
    """As its freezer numbers what is in it."""


NOT_NOW = Reaction(-1, (), None)
"""The application may not do this now."""
_DEPENDS_ON_TIME = Reaction(-2, (), None)
"""The core has asked how late it is: there is a reaction for each time."""


class Cores:
    """All states of all cores, by number, and what they do."""

    def __init__(self, world: World, number_of_packet: Callable[[SiteId, int, Packet, ChannelId | None], int]) -> None:
        self.branches: Counter[str] = Counter()
        self.steps_taken = 0
        self.records = Numbers()
        """Those of all logs, and checkpoints."""
        self._world = world
        self._number_of_packet = number_of_packet
        self._states: list[_CoreState] = []
        self._numbers: dict[_CoreState, int] = {}
        self._made: dict[tuple[int, int], tuple[Protocol, Freezer, int]] = {}
        self._reactions: dict[Hashable, Reaction] = {}
        self._seen: dict[Hashable, Observation] = {}
        self._groups = _Groups(world.groups)
        self._random = ConstantRandom()
        self._protocol = self._noting_time(world.protocol)
        self._has_asked = False
        """Whether the core has asked how late it is since the step began."""

    def _noting_time(self, protocol: type[Protocol]) -> type[Protocol]:
        def ask(core: Protocol) -> float:
            self._has_asked = True
            return float(vars(core)["now"])

        def tell(core: Protocol, now: float) -> None:
            vars(core)["now"] = now

        return type(protocol.__name__, (protocol,), {"now": property(ask, tell), "__module__": protocol.__module__})

    def blank(self, site: int, incarnation: int) -> int:
        """The state of a core that has just been made."""
        return self._make(site, incarnation)[2]

    def _make(self, site: int, incarnation: int) -> tuple[Protocol, Freezer, int]:
        known = self._made.get((site, incarnation))
        if known is None:
            world = self._world
            core = self._protocol(
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
            number = self._number_of(_CoreState(site, incarnation, freezer.freeze()))
            known = self._made[site, incarnation] = (core, freezer, number)
        return known

    def _number_of(self, state: _CoreState) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
        return number

    def _restore(self, number: int) -> tuple[Protocol, Freezer]:
        state = self._states[number]
        core, freezer, _ = self._make(state.site, state.incarnation)
        freezer.restore(state.contents)
        return core, freezer

    def contents(self, number: int) -> tuple[Any, ...]:
        """All of a state but its site, spelled out."""
        state = self._states[number]
        _, freezer, _ = self._make(state.site, state.incarnation)
        return freezer.contents(state.contents)

    def observe(self, number: int, seen: Seen) -> Observation:
        """What a judge sees of a core in that state."""
        key = (number, seen)
        observation = self._seen.get(key)
        if observation is None:
            core, _ = self._restore(number)
            observation = self._seen[key] = self._world.observe(core, seen)
        return observation

    def react(self, number: int, key: Hashable, event: Event, now: float, delivered: tuple[Any, ...]) -> Reaction:
        """What the core does about the event, which is the only one with that key. `NOT_NOW` says that the application
        may not do this now."""
        asked: Hashable = (number, key)
        known = self._reactions.get(asked)
        if known is _DEPENDS_ON_TIME:
            asked = (number, key, now)
            known = self._reactions.get(asked)
        if known is not None:
            return known
        self._has_asked = False
        reaction, is_its_own = self._step(number, event, now, delivered)
        if is_its_own:
            if self._has_asked:
                self._reactions[number, key] = _DEPENDS_ON_TIME
                asked = (number, key, now)
            self._reactions[asked] = reaction
        return reaction

    def _step(self, number: int, event: Event, now: float, delivered: tuple[Any, ...]) -> tuple[Reaction, bool]:
        """The second says whether it is the same whatever the application has had."""
        self.steps_taken += 1
        core, freezer = self._restore(number)
        state = self._states[number]
        done: list[Any] = []
        problem = None
        unread, is_its_own = 0, True
        core.outbox = []
        try:
            core.step(now, event)
            while True:
                for effect in core.outbox:
                    if isinstance(effect, effects.Send | effects.Broadcast):
                        done.append(self._sent(state.site, effect))
                    elif isinstance(effect, effects.Append):
                        done.append(Logged(self.records.number_of(effect.record), is_checkpoint=False))
                    elif isinstance(effect, effects.Checkpoint):
                        done.append(Logged(self.records.number_of(effect.state), is_checkpoint=True))
                    elif isinstance(effect, _DONE):
                        done.append(effect)
                    if isinstance(effect, effects.Deliver):
                        unread += 1
                    elif isinstance(effect, effects.Replay) and core.wants_consumed:
                        unread += effect.multicast.id not in delivered
                        is_its_own = False
                core.outbox = []
                if not (core.wants_consumed and unread):
                    break
                taken, unread = unread, 0
                core.step(now, Consumed(taken))
            core.check_invariants()
        except UsageError:
            if isinstance(event, MulticastRequested):
                freezer.forget()
                return NOT_NOW, True
            problem = "crash: a core misuses another"
        except WireError as error:
            problem = f"wire-error: {error}"
        except Exception as error:
            problem = f"crash: {type(error).__name__}: {error}"
        after = self._number_of(_CoreState(state.site, state.incarnation, freezer.freeze()))
        return Reaction(after, tuple(done), problem), is_its_own

    def _sent(self, sender: int, effect: effects.Send | effects.Broadcast) -> Sent:
        if isinstance(effect, effects.Send):
            to, channel = effect.to, None
        else:
            to, channel = self._world.sites, effect.channel
        return Sent(tuple([self._number_of_packet(site, sender, effect.packet, channel) for site in to]))
