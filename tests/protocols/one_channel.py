"""Cores of selective total order on one channel that is led by hand: frames in one order, and whoever shall loses
some."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random

from ordercast.core import Context, MessageId, Multicast, Packet
from ordercast.core.effects import Broadcast, Credit, Deliver, SetTimer
from ordercast.core.events import Event, MulticastRequested, Received, Started, TimerFired
from ordercast.protocols.selective_total import SelectiveTotal, SelectiveTotalOptions

Loses = Callable[[str, Packet], bool]
"""Whether a process loses a frame."""


def loses_nothing(site: str, packet: Packet) -> bool:
    return False


class OneChannel:
    """Frames wait on the channel until `run`; timers fire when they are told to."""

    def __init__(
        self,
        sites: str = "123",
        options: SelectiveTotalOptions | None = None,
        protocol: type[SelectiveTotal] = SelectiveTotal,
    ) -> None:
        self.frames: deque[tuple[str, Packet]] = deque()
        self.heard: list[tuple[str, Packet]] = []
        """All frames so far, in the order of the channel."""
        self.delivered: dict[str, list[str]] = {site: [] for site in sites}
        self.credit: dict[str, int] = {}
        self.timers: dict[str, set[object]] = {site: set() for site in sites}
        self.names: dict[MessageId, str] = {}
        self.down: set[str] = set()
        self._options = options or SelectiveTotalOptions()
        self._sites = tuple(sorted(sites))
        self._protocol = protocol
        self._numbers = dict.fromkeys(sites, 0)
        self.cores = {site: self._core(site, 0) for site in self._sites}
        for site in self._sites:
            self.step(site, Started())

    def _core(self, site: str, incarnation: int) -> SelectiveTotal:
        random = Random(int(incarnation) + self._sites.index(site))
        context = Context(site, {"all": self._sites}, self._sites, self._options, random, incarnation=incarnation)
        return self._protocol(context)

    def step(self, site: str, event: Event) -> None:
        """One event at one process; what it broadcasts waits on the channel."""
        if site in self.down:
            return
        core = self.cores[site]
        core.step(0.0, event)
        core.check_invariants()
        effects, core.outbox = core.outbox, []
        for effect in effects:
            if isinstance(effect, Broadcast):
                self.frames.append((site, effect.packet))
            elif isinstance(effect, Deliver):
                message = effect.multicast.id
                self.delivered[site].append(self.names.get(message, str(message)))
            elif isinstance(effect, SetTimer):
                self.timers[site].add(effect.timer)
            elif isinstance(effect, Credit):
                self.credit[site] = effect.available

    def multicast(self, source: str, name: str, destinations: str) -> MessageId:
        """A process sends a message, with a name for the test, to some processes."""
        self._numbers[source] += 1
        message = MessageId(source, 0, self._numbers[source])
        self.names[message] = name
        self.step(source, MulticastRequested(Multicast(message, (), b"", tuple(sorted(destinations)))))
        return message

    def run(self, loses: Loses = loses_nothing) -> list[tuple[str, Packet]]:
        """Bring all frames to everyone, those that are sent meanwhile, too; the frames that were brought."""
        begin = len(self.heard)
        while self.frames:
            sender, message = self.frames.popleft()
            self.heard.append((sender, message))
            for site in self._sites:
                if not loses(site, message):
                    self.step(site, Received(sender, message))
        return self.heard[begin:]

    def fire(self, site: str, timer: str) -> None:
        """A timer runs out."""
        self.timers[site].discard(timer)
        self.step(site, TimerFired(timer))

    def tick(self, times: int = 1, loses: Loses = loses_nothing) -> None:
        """A period passes everywhere, and whatever that leads to."""
        for _ in range(times):
            for site in self._sites:
                self.fire(site, "tick")
                self.run(loses)
            self.acknowledge(loses)

    def acknowledge(self, loses: Loses = loses_nothing) -> None:
        """Everyone who waits to acknowledge something does."""
        while waiting := [site for site in self._sites if "acknowledge" in self.timers[site] and site not in self.down]:
            self.fire(waiting[0], "acknowledge")
            self.run(loses)

    def establish(self) -> None:
        """The first cluster, of everyone."""
        while any(core.cluster is None for core in self.cores.values()):
            self.tick()
        self.tick(2)

    def log(self, site: str) -> str:
        """The names of what is accepted and not delivered, in order."""
        return " ".join(self.names[entry.data.multicast.id] for entry in self.cores[site].receipt.log)
