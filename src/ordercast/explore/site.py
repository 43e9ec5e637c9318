"""The sites of a world: every state that one of them has been seen in, and what each event makes of it.

What a site does depends on its own state and the event alone. There are far fewer states of one site than of all of
them together, and fewer still of its core (`cores.py`), whose steps are taken once and looked up ever after.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from ordercast.core import ChannelId, MessageId, Multicast, Packet, SiteId, effects
from ordercast.core.events import Arrival, Event, MulticastRequested, Received, Recovered, Started, Timer, TimerFired
from ordercast.explore.cores import NOT_NOW, Cores, Logged, Numbers, Sent
from ordercast.explore.world import Observation, Seen, World


class Local(NamedTuple):
    """One state of one site."""

    site: int
    incarnation: int
    core: int
    """The number of its core's state."""
    records: tuple[int, ...]
    """Those in the log, by number."""
    checkpoint: int | None
    timers: tuple[tuple[Timer, float], ...]
    """Those that are set, with the time at which they are due, or how long they last where clocks mean nothing."""
    own: tuple[MessageId, ...]
    delivered: tuple[MessageId, ...]
    clock: float
    """Where clocks are read: how late it is here. Else 0."""
    channels: frozenset[ChannelId] = frozenset()
    """What is heard here of what is broadcast."""


class Cut(NamedTuple):
    """How far a step has come when its site crashes."""

    records: tuple[int, ...]
    checkpoint: int | None
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
    channel: ChannelId | None
    """On which it was broadcast."""


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
        self.cores = Cores(world, self._number_of_packet)
        self._local_numbers: dict[Local, int] = {}
        self._contents = Numbers()
        """Of packets."""
        self._packet_numbers: dict[tuple[int, int, int, ChannelId | None], int] = {}
        self._indices = {site: index for index, site in enumerate(world.sites)}
        self.queued: Callable[[Iterable[int]], list[int]] = (
            partial(sorted, key=lambda packet: self.packets[packet].receiver) if world.one_channel else sorted
        )
        """The packets under way as a state of the world has them: sorted. On one channel only those of different
        receivers are: each of these hears them in the order in which they were sent."""

    # ------------------------------------------------------------------ events
    def start(self, site: int) -> Step:
        """The first start."""
        blank = Local(site, 0, self.cores.blank(site, 0), (), None, (), (), (), 0.0)
        return self._take(blank, "start", Started(), 0.0)

    def receive(self, local: int, packet: int, now: float) -> Step:
        """A packet arrives."""
        flying = self.packets[packet]
        if flying.channel is not None and flying.channel not in self.locals[local].channels:
            return Step(local, (), None, (), ())
        arrival = Arrival(channel=flying.channel)
        received = Received(self.world.sites[flying.sender], flying.packet, arrival)
        return self._take(self.locals[local], packet, received, now)

    def fire(self, local: int, timer: Timer, now: float) -> Step:
        """A timer runs out."""
        state = self.locals[local]
        left = tuple([each for each in state.timers if each[0] != timer])
        return self._take(state._replace(timers=left), ("timer", timer), TimerFired(timer), now)

    def request(self, local: int, now: float) -> Step:
        """The application multicasts to the first group."""
        state = self.locals[local]
        number = 1 + sum(message.incarnation == state.incarnation for message in state.own)
        message = MessageId(self.world.sites[state.site], state.incarnation, number)
        multicast = Multicast(message, (next(iter(self.world.groups)),), b"x")
        return self._take(state, ("request", number), MulticastRequested(multicast), now, message)

    def crash(self, local: int, cut: Cut | None, now: float) -> Step:
        """The site crashes and comes back with its log; with a cut, in the middle of a step."""
        state = self.locals[local]
        if cut is not None:
            records, checkpoint, own, delivered, _ = cut
        else:
            records, checkpoint, own, delivered = state.records, state.checkpoint, state.own, state.delivered
        incarnation = state.incarnation + 1
        core = self.cores.blank(state.site, incarnation)
        blank = Local(state.site, incarnation, core, records, checkpoint, (), own, delivered, state.clock)
        recovered = Recovered(*self._log_of(blank))
        return self._take(blank, ("crash", records, checkpoint), recovered, now)

    def _log_of(self, local: Local) -> tuple[tuple[Any, ...], Any]:
        """Its records and its checkpoint."""
        values = self.cores.records.values
        checkpoint = None if local.checkpoint is None else values[local.checkpoint]
        return tuple([values[record] for record in local.records]), checkpoint

    def _take(self, state: Local, key: Hashable, event: Event, now: float, multicast: MessageId | None = None) -> Step:
        reaction = self.cores.react(state.core, key, event, now, state.delivered)
        if reaction is NOT_NOW:
            return REFUSED
        done = _Done(self.world, state, now)
        for effect in reaction.done:
            if multicast is not None and self._shows(effect, multicast):
                done.own = (*done.own, multicast)
                multicast = None
            done.take(effect)
        if multicast is not None:
            done.own = (*done.own, multicast)
        clock = now if self.world.reads_clock else 0.0
        after = self._number_of(done.local(reaction.core, clock))
        # After the last of them a crash is one after the step.
        return Step(after, done.sends, reaction.problem, tuple(done.cuts[:-1]), tuple(done.changed_timers))

    def _shows(self, effect: Any, message: MessageId) -> bool:
        """Whether a message is multicast before this effect: it leaves the site, or it is in the log. (After a crash
        before that nobody has ever heard of it.)"""
        if not isinstance(effect, Logged):
            return isinstance(effect, Sent | effects.Deliver)
        return message in _messages_in(self.cores.records.values[effect.number])

    def contents(self, local: int) -> tuple[Any, ...]:
        """All of a state but its site, spelled out."""
        state = self.locals[local]
        return (state.incarnation, self.cores.contents(state.core), *self._log_of(state), *state[5:])

    # ------------------------------------------------------------------ numbers
    def _number_of(self, local: Local) -> int:
        number = self._local_numbers.get(local)
        if number is None:
            number = self._local_numbers[local] = len(self.locals)
            self.locals.append(local)
            seen = self.cores.observe(local.core, Seen(local.own, local.delivered))
            self.observations.append(self._observations.setdefault(seen, seen))
        return number

    def _number_of_packet(self, receiver: SiteId, sender: int, packet: Packet, channel: ChannelId | None) -> int:
        to = self._indices[receiver]
        key = (to, sender, self._contents.number_of(packet), channel)
        number = self._packet_numbers.get(key)
        if number is None:
            number = self._packet_numbers[key] = len(self.packets)
            self.packets.append(Flying(to, sender, packet, channel))
        return number


def _messages_in(record: Any) -> set[MessageId]:
    """All that a record names."""
    found: set[MessageId] = set()
    waiting = [record]
    while waiting:
        each = waiting.pop()
        if isinstance(each, MessageId):
            found.add(each)
        elif isinstance(each, Mapping):
            waiting += [*each, *each.values()]
        elif isinstance(each, tuple | list | set | frozenset):
            waiting += each
        elif isinstance(each, msgspec.Struct):
            waiting += [getattr(each, name) for name in each.__struct_fields__]
    return found


class _Done:
    """What a step has done so far; the log is stable at once, and what comes in between is a cut."""

    def __init__(self, world: World, state: Local, now: float) -> None:
        self._tells_time = world.rates is not None or world.reads_clock
        self._state = state
        self._now = now
        self.own = state.own
        self._channels = state.channels
        self._timers = state.timers
        self._records = state.records
        self._checkpoint = state.checkpoint
        self._delivered = state.delivered
        self.changed_timers: list[tuple[Timer, float | None]] = []
        self.sends: tuple[int, ...] = ()
        self.cuts: list[Cut] = []

    def take(self, effect: Any) -> None:
        """One effect."""
        if isinstance(effect, Sent):
            self.sends += effect.packets
            self._cut()
        elif isinstance(effect, effects.SetTimer):
            due = round(self._now + effect.after_seconds, 9) if self._tells_time else effect.after_seconds
            self._set_timer(effect.timer, due)
            self.changed_timers.append((effect.timer, effect.after_seconds))
        elif isinstance(effect, effects.CancelTimer):
            self._timers = tuple([each for each in self._timers if each[0] != effect.timer])
            self.changed_timers.append((effect.timer, None))
        elif isinstance(effect, Logged) and effect.is_checkpoint:
            self._records, self._checkpoint = (), effect.number
            self._cut()
        elif isinstance(effect, Logged):
            self._records = (*self._records, effect.number)
            self._cut()
        elif isinstance(effect, effects.JoinChannel):
            self._channels |= {effect.channel}
        elif isinstance(effect, effects.LeaveChannel):
            self._channels -= {effect.channel}
        elif isinstance(effect, effects.Rollback):
            at = self._delivered.index(effect.multicast.id)
            self._delivered = self._delivered[:at] + self._delivered[at + 1 :]
        elif isinstance(effect, effects.Deliver) or effect.multicast.id not in self._delivered:
            self._delivered = (*self._delivered, effect.multicast.id)
            self._cut()

    def _set_timer(self, timer: Timer, due: float) -> None:
        others = [each for each in self._timers if each[0] != timer]
        self._timers = tuple(sorted([*others, (timer, due)], key=lambda each: str(each[0])))

    def _cut(self) -> None:
        self.cuts.append(Cut(self._records, self._checkpoint, self.own, self._delivered, self.sends))

    def local(self, core: int, clock: float) -> Local:
        """The state afterwards."""
        site, incarnation = self._state.site, self._state.incarnation
        log = self._records, self._checkpoint
        return Local(site, incarnation, core, *log, self._timers, self.own, self._delivered, clock, self._channels)
