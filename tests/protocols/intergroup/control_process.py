"""A control process that is led by hand: what it hears, and what it says then."""

from __future__ import annotations

from random import Random
from typing import Any, TypeVar

from ordercast.core import Context, Packet
from ordercast.core.effects import Broadcast, CancelTimer, JoinChannel, LeaveChannel, Send, SetTimer
from ordercast.core.events import Arrival, Event, Received, Started, TimerFired
from ordercast.protocols.intergroup.control import Control, ControlOptions
from ordercast.protocols.intergroup.control.packets import (
    COORDINATORS,
    CCon,
    CoordinatorLeave,
    GCon,
    LCon,
    SearchResponse,
    TimestampPair,
    local_channel,
)
from ordercast.protocols.intergroup.control.report import ControlData
from ordercast.protocols.intergroup.control.states import State
from tests.protocols.intergroup.control_host import ControlHost

Kind = TypeVar("Kind", bound=Packet)

ME = "p"

UNTOLD = TimestampPair(0.0, -1e6)
"""Of whoever is listed: nobody can tell a distance from it."""


def gcon(
    *listed: str, num_coords: int = 2, num_local: int = 0, time: float = 0.0, leaving: bool = False, **data: Any
) -> GCon:
    pairs = dict.fromkeys(listed, UNTOLD)
    return GCon(time, num_local, num_coords, pairs, ControlData(data), leaving)


def ccon(
    *listed: str, num_coords: int = 9, num_local: int = 3, time: float = 0.0, coords: tuple[str, ...] = (), **data: Any
) -> CCon:
    pairs = dict.fromkeys(listed, UNTOLD)
    distances = dict.fromkeys(coords, 0.01)
    return CCon(1, time, 0.01, num_local, num_coords, pairs, {}, distances, ControlData(data))


def lcon(coordinator: str = ME, *listed: str, time: float = 0.0, **data: Any) -> LCon:
    pairs = dict.fromkeys(listed, UNTOLD)
    return LCon(1, time, coordinator, 1, pairs, ControlData(data))


class Process:
    """One core without a runtime; its timers fire when they are told to."""

    def __init__(self, options: ControlOptions | None = None, seed: int = 0, **changed: Any) -> None:
        chosen = options or ControlOptions(**changed)
        self.host = ControlHost(Context(ME, {"g": (ME,)}, (ME,), chosen, Random(seed)))
        self.now = 0.0
        self.timers: dict[Any, float] = {}
        self.channels: set[str] = set()
        self.said: list[Broadcast | Send] = []
        self.step(Started())

    @property
    def control(self) -> Control:
        return self.host.control

    def state(self) -> State:
        """A method: what it returned last, a type checker would take for granted."""
        return self.control.state

    # ------------------------------------------------------------------ what happens
    def step(self, event: Event) -> None:
        self.host.step(self.now, event)
        self.host.check_invariants()
        for effect in self.host.outbox:
            match effect:
                case SetTimer(timer, seconds):
                    self.timers[timer] = self.now + seconds
                case CancelTimer(timer):
                    self.timers.pop(timer, None)
                case JoinChannel(channel):
                    self.channels.add(channel)
                case LeaveChannel(channel):
                    self.channels.discard(channel)
                case Broadcast() | Send():
                    self.said.append(effect)
        self.host.outbox.clear()

    def fire(self, timer: str) -> None:
        """A timer runs out now, and time is when it does."""
        self.now = max(self.now, self.timers.pop(timer))
        self.step(TimerFired(timer))

    def wait(self, seconds: float, *silent: str) -> None:
        """Time passes, and with it the timers; those that are named do not fire."""
        until = self.now + seconds
        while due := [
            (time, str(timer)) for timer, time in self.timers.items() if time <= until and timer not in silent
        ]:
            self.fire(min(due)[1])
        self.now = until

    def hear(self, sender: str, packet: Packet, channel: str | None = None, hops: int = 1) -> None:
        self.step(Received(sender, packet, Arrival(channel, hops=hops)))

    # ------------------------------------------------------------------ what it says
    def take(self, kind: type[Kind]) -> list[Kind]:
        """What it has said of a kind since somebody asked for anything."""
        said, self.said = self.said, []
        return [effect.packet for effect in said if isinstance(effect.packet, kind)]

    def take_broadcasts(self, kind: type[Kind]) -> list[tuple[str, int | None, Kind]]:
        """The same, with channel and TTL."""
        said, self.said = self.said, []
        return [
            (effect.channel, effect.ttl, effect.packet)
            for effect in said
            if isinstance(effect, Broadcast) and isinstance(effect.packet, kind)
        ]

    # ------------------------------------------------------------------ how it gets somewhere
    def become_coordinator(self, *others: str, hops: int = 1) -> Process:
        """Start as one, beside others."""
        self.fire("control-start")
        assert self.state() is State.COORDINATOR
        for other in others:
            self.hear_gcon(other, hops=hops)
        self.said.clear()
        return self

    def hear_gcon(self, sender: str, *, hops: int = 1, leaving: bool = False, **more: Any) -> None:
        """A coordinator talks that is 10 ms away."""
        pair = {ME: TimestampPair(self.now - 0.02, self.now - 0.01)}
        packet = GCon(self.now - 0.01, 0, more.pop("num_coords", 2), pair, ControlData(more), leaving)
        self.hear(sender, packet, COORDINATORS, hops)

    def search(self, *answers: tuple[str, int], num_coords: int = 9) -> None:
        """The search that is under way gets these answers, from so many hops away; with none it goes on to its
        end."""
        if not answers:
            while "control-ring" in self.timers:
                self.fire("control-ring")
            return
        number = self.control.hierarchy.search.number
        for site, hops in answers:
            self.hear(site, SearchResponse(number, 3, num_coords), None, hops)
        self.fire("control-ring")

    def become_child(self, coordinator: str = "a", hops: int = 1, **said: Any) -> Process:
        """Start as a child of a coordinator."""
        self.hear("z", gcon(num_coords=min(100, self.control.options.processes_max)), COORDINATORS)
        self.fire("control-start")
        self.search((coordinator, hops))
        self.hear_ccon(coordinator, hops=hops, **said)
        assert self.state() is State.CHILD
        self.said.clear()
        return self

    def hear_ccon(self, coordinator: str = "a", hops: int = 1, **said: Any) -> None:
        """A coordinator lists this process."""
        self.hear(coordinator, ccon(ME, time=self.now, **said), local_channel(coordinator), hops)

    def hear_lcon(self, child: str, coordinator: str = ME, **data: Any) -> None:
        """A process says that it is a child of a coordinator, in the local group of this one."""
        self.hear(child, lcon(coordinator, time=self.now, **data), local_channel(ME))

    def hear_leave(self, coordinator: str) -> None:
        """A coordinator wants its children to leave."""
        self.hear(coordinator, CoordinatorLeave(), local_channel(coordinator))


def wait_as_child(process: Process, hops: int, **said: Any) -> None:
    """Wait until the timer of Table 2.4 has run out."""
    for _ in range(60):
        process.wait(0.5, "control-ring")
        process.hear_ccon("a", hops=hops, **said)
        if process.control.hierarchy.search.purpose is not None:
            return


def child_with_distances() -> Process:
    """A child 10 ms from its coordinator a, which is 20 ms from its child x and 30 ms from the coordinator b."""
    process = Process().become_child()
    packet = CCon(1, process.now - 0.01, 0.02, 2, 2, {ME: TimestampPair(0.0, 0.01)}, {ME: 0.01, "x": 0.02}, {"b": 0.03})
    process.hear("a", packet, local_channel("a"))
    return process
