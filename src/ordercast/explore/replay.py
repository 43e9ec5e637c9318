"""A counterexample run again: new cores, the interpreter that nodes and simulations have, a trace, the usual judges."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from ordercast.core import ChannelId, Context, SiteId, UsageError
from ordercast.core import effects as effect_types
from ordercast.core.events import Arrival, Consumed, TimerFired
from ordercast.core.packets import Packet
from ordercast.explore.counterexample import Counterexample, Doing
from ordercast.explore.freeze import ConstantRandom
from ordercast.explore.world import Seen, World
from ordercast.runtime.instance import Instance, MessageNumbers
from ordercast.storage.memory import MemoryLog
from ordercast.trace.interface import describe
from ordercast.trace.recorder import Recorder
from ordercast.trace.schema import Run

STEP_SECONDS = 0.001
"""In the trace one step is so much later than the one before."""


class _Flying(NamedTuple):
    receiver: SiteId
    sender: SiteId
    packet: Packet
    channel: ChannelId | None


class _Crashed(Exception):
    """The site crashes in the middle of a step."""


class _Site:
    """A driver that lets nothing happen by itself."""

    def __init__(self, replay: Replay, name: SiteId) -> None:
        self._replay = replay
        self.name = name
        self.incarnation = 0
        self.delivered: list[Any] = []
        self.own: list[Any] = []
        self.log = _CountingLog(self)
        self.crash_after: int | None = None
        self.unread = 0
        self.recorder = replay.recorder.site(name, replay.world.groups)
        self.instance = self._make()

    def _make(self) -> Instance:
        world = self._replay.world
        context = Context(
            site=self.name,
            groups=world.groups,
            sites=world.sites,
            options=world.options,
            random=ConstantRandom(),
            incarnation=self.incarnation,
        )
        core = world.protocol(context)
        return Instance(core, self, self.log, self.recorder, MessageNumbers(), check_invariants=True)

    def count(self) -> None:
        """One more effect has come about; perhaps it is the last one."""
        if self.crash_after is not None:
            self.crash_after -= 1
            if self.crash_after < 0:
                raise _Crashed

    def restart(self, clock: float) -> None:
        """Crash, and come back with the log."""
        self.crash_after = None
        self.instance.crash()
        self.recorder.fail(self.trace_time())
        self.incarnation += 1
        self.recorder.awake(self.trace_time(), self.incarnation)
        self.instance = self._make()
        self.instance.start(clock)
        self.read(clock)

    def read(self, clock: float) -> None:
        """The application takes what it was given."""
        while self.instance.core.wants_consumed and self.unread:
            unread, self.unread = self.unread, 0
            self.instance.handle(clock, Consumed(unread))

    # ------------------------------------------------------------------ what the interpreter asks for
    def trace_time(self) -> float:
        return self._replay.time

    def seconds_since(self, time: float) -> float:
        return 0.0

    def send(self, instance: Instance, effect: effect_types.Send) -> None:
        for site in effect.to:
            self._replay.send(self, site, effect.packet)
        self.count()

    def broadcast(self, instance: Instance, effect: effect_types.Broadcast) -> None:
        for site in self._replay.world.sites:
            self._replay.send(self, site, effect.packet, effect.channel)
        self.count()

    def deliver(self, instance: Instance, effect: effect_types.Deliver | effect_types.Replay) -> None:
        self.delivered.append(effect.multicast.id)
        self.unread += 1
        self.count()

    def rollback(self, instance: Instance, effect: effect_types.Rollback) -> None:
        self.delivered.remove(effect.multicast.id)

    def recovered(self, instance: Instance, effect: effect_types.DeclareRecovered) -> None:
        self.recorder.recover(self.trace_time())

    def start_sync(self, instance: Instance, position: int) -> None:
        raise AssertionError("the log is stable at once")

    def _nothing(self, instance: Instance, effect: object) -> None:
        """Timers fire when the counterexample says so, and nobody asks for the rest."""

    set_timer = cancel_timer = join_channel = leave_channel = install_view = enter_group = exit_group = _nothing
    join_refused = activate = service_unavailable = credit = blocked = declared_failed = _nothing


class _CountingLog(MemoryLog):
    def __init__(self, site: _Site) -> None:
        super().__init__()
        self._site = site

    def append(self, record: Any) -> None:
        super().append(record)
        self._site.count()

    def checkpoint(self, state: Any, position: int) -> None:
        super().checkpoint(state, position)
        self._site.count()


class Replay:
    """One run along the steps of a counterexample."""

    def __init__(self, world: World, example: Counterexample) -> None:
        self.world = world
        self.example = example
        self.recorder = Recorder(f"explored-{world.name}")
        self.time = 0.0
        self.problem: str | None = None
        """What the world's own judges say in the end."""
        self._flying: dict[int, _Flying] = {}
        self._sent = 0
        self._new: list[_Flying] = []
        self._sites = {name: _Site(self, name) for name in world.sites}
        self._clock = 0.0

    def send(self, sender: _Site, receiver: SiteId, packet: Packet, channel: ChannelId | None = None) -> None:
        """A packet leaves; it gets its number when the step is over, as in the search."""
        sender.recorder.send(self.time, receiver, describe(sender.name, "main", packet))
        self._new.append(_Flying(receiver, sender.name, packet, channel))

    def run(self) -> str | None:
        """Take all steps; what is wrong in the end."""
        for site in self._sites.values():
            site.instance.start(0.0)
            site.read(0.0)
            self._number()
        for doing in self.example.step:
            self.time = round(self.time + STEP_SECONDS, 6)
            if doing.site not in self._sites:
                raise UsageError(f"the counterexample speaks of {doing.site!r}, which is no site of {self.world.name}")
            try:
                self._take(self._sites[doing.site], doing)
            except UsageError:
                raise
            except Exception as error:
                self.problem = f"crash: {type(error).__name__}: {error}"
                return self.problem
            self._number()
            self._judge(doing)
            if self.problem is not None:
                return self.problem
        if self.example.problem.startswith("stuck"):
            dead = frozenset(self.world.sites.index(site) for site in self.example.dead)
            missing = self.world.done(self._seen(), self._clock, dead)
            self.problem = None if missing is None else f"stuck: {missing}"
        return self.problem

    def _number(self) -> None:
        for packet in self._new:
            self._flying[self._sent] = packet
            self._sent += 1
        self._new = []

    def _judge(self, doing: Doing) -> None:
        rates = self.world.rates
        if rates is not None:
            self._clock = max(self._clock, round(doing.clock / rates[self.world.sites.index(doing.site)], 9))
        errors = [site.instance.first_wire_error for site in self._sites.values() if site.instance.wire_errors]
        self.problem = f"wire-error: {errors[0]}" if errors else self.world.safe(self._seen(), self._clock)

    def _seen(self) -> tuple[Any, ...]:
        return tuple(
            self.world.observe(site.instance.core, Seen(tuple(site.own), tuple(site.delivered)))
            for site in self._sites.values()
        )

    def _take(self, site: _Site, doing: Doing) -> None:
        if doing.does == "crash" and not doing.during:
            site.restart(doing.clock)
            return
        if doing.does == "crash":
            site.crash_after = doing.after
            try:
                self._happen(site, doing, doing.during)
            except _Crashed:
                # The search numbers what left before the crash in the order of what it is.
                self._number()
                site.restart(doing.clock)
                return
            raise UsageError("the counterexample crashes a site where nothing happens any more")
        self._happen(site, doing, doing.does)

    def _happen(self, site: _Site, doing: Doing, what: str) -> None:
        if what == "request":
            message = site.instance.request(doing.clock, b"x", (next(iter(self.world.groups)),))
            site.own.append(message)
        elif what == "fire":
            timer: Any = doing.timer[0] if len(doing.timer) == 1 else doing.timer
            site.instance.handle(doing.clock, TimerFired(timer))
        else:
            known = self._flying.get(doing.packet)
            if known is None or known.receiver != site.name:
                raise UsageError(f"packet {doing.packet} is not under way to {site.name}")
            if doing.does == "deliver":
                del self._flying[doing.packet]
            site.instance.receive(doing.clock, known.sender, known.packet, Arrival(channel=known.channel))
        site.read(doing.clock)

    def trace(self) -> tuple[Run, pa.Table]:
        """The run as a trace."""
        contract = self.world.protocol.contract.with_options(self.world.options)
        header = Run(
            run=self.recorder.run,
            protocol=contract.name,
            groups={group: list(members) for group, members in self.world.groups.items()},
            guarantees=list(contract.guarantees),
            ended_at=self.time + STEP_SECONDS,
            settled=self.example.problem.startswith("stuck"),
        )
        return header, self.recorder.table()
