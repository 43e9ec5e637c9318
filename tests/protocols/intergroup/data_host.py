"""One InterGroup core in the test's hands, and scenarios whose hierarchy is quick."""

from __future__ import annotations

from random import Random
from typing import Any, TypeVar

from ordercast.core import Context, Multicast
from ordercast.core.effects import Effect
from ordercast.core.events import Arrival, MulticastRequested, Received, ServiceChosen, Started, TimerFired
from ordercast.core.identifiers import MessageId
from ordercast.core.packets import Packet
from ordercast.protocols import find_protocol
from ordercast.protocols.intergroup import InterGroup, InterGroupOptions
from ordercast.protocols.intergroup.group import channel_of
from ordercast.protocols.intergroup.packets import Data, KeepAlive, ViewId
from ordercast.sim.scenario import Scenario, parse_scenario

AnyEffect = TypeVar("AnyEffect", bound=Effect)

VIEW = ViewId(0, "a", 0)

QUICK: dict[str, Any] = {
    "control_seconds_min": 0.1,
    "start_seconds": 0.2,
    "search_seconds": 0.3,
    "check_seconds": 0.1,
    "silence_seconds": 0.5,
    "stale_seconds": 1.2,
    "state_change_low_seconds": 0.1,
    "state_change_high_seconds": 0.3,
    "distance_seconds_unknown": 0.005,
}
"""A hierarchy for runs of a few seconds."""


class Desk:
    """A core of site `a` in the group `g` of `a`, `b` and `c`, all of them senders."""

    def __init__(self, **options: Any) -> None:
        groups = {"g": ("a", "b", "c")}
        context = Context("a", groups, ("a", "b", "c"), InterGroupOptions(**options), Random(1))
        self.core = InterGroup(context)
        self.now = 1.0
        self._number = 0
        self.effects: list[Effect] = []
        self._step(Started())

    def _step(self, event: Any) -> list[Effect]:
        self.now += 0.001
        try:
            self.core.step(self.now, event)
        finally:
            done, self.core.outbox = self.core.outbox, []
            self.effects += done
        self.core.check_invariants()
        return done

    def receive(self, sender: str, packet: Packet, group: str | None = "g") -> list[Effect]:
        channel = None if group is None else channel_of(group)
        return self._step(Received(sender, packet, Arrival(channel)))

    def multicast(self, payload: bytes = b"") -> list[Effect]:
        self._number += 1
        return self._step(MulticastRequested(Multicast(MessageId("a", 0, self._number), ("g",), payload)))

    def choose(self, service: str, *sources: str) -> list[Effect]:
        return self._step(ServiceChosen("g", service, sources))

    def fire(self, timer: Any) -> list[Effect]:
        return self._step(TimerFired(timer))


def data(sender: str, seq: int, timestamp: int, group: str = "g", payload: bytes = b"") -> Data:
    multicast = Multicast(MessageId(sender, 0, seq), (group,), payload)
    return Data(VIEW, sender, seq, timestamp, multicast)


def keep_alive(seq: int, timestamp: int) -> KeepAlive:
    return KeepAlive(VIEW, "b", seq, timestamp)


def only(kind: type[AnyEffect], effects: list[Effect]) -> list[AnyEffect]:
    return [effect for effect in effects if isinstance(effect, kind)]


def scenario(**tables: Any) -> Scenario:
    options = {"views": "fixed", **QUICK, **tables.pop("options", {})}
    document = {
        "protocol": "intergroup",
        "duration": 10.0,
        "settle": 8.0,
        "groups": {"g": ["a", "b", "c"]},
        "network": {"kind": "point-to-point", "latency": 0.005},
        "options": options,
    }
    return parse_scenario(document | tables, find_protocol)
