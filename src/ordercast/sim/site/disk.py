"""A site's disk: the logs of its instances, and the time that a sync takes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from ordercast.core import MAIN_INSTANCE, InstanceId
from ordercast.runtime import Instance, MemoryLog
from ordercast.sim.kernel import EventQueue
from ordercast.sim.site.processor import Processor
from ordercast.sim.site.rewindable import RewindableLog


class Disk:
    """Keeps what was synced over a crash. A sync takes `sync_seconds`; with 0 a record is stable as soon as it is
    written."""

    def __init__(
        self,
        queue: EventQueue,
        processor: Processor,
        sync_seconds: float,
        random: Random,
        recall: Callable[[], bytes] | None = None,
    ) -> None:
        """`random` decides what a torn crash leaves; `recall` tells what the site remembers of the others, where that
        is to be kept as well."""
        self.logs: dict[InstanceId, MemoryLog] = {}
        self._recall = recall
        self._queue = queue
        self._processor = processor
        self._sync_seconds = sync_seconds
        self._random = random

    def log(self, instance: InstanceId) -> MemoryLog:
        """The log of an instance, empty when it never had one."""
        if instance not in self.logs:
            instant = self._sync_seconds <= 0
            self.logs[instance] = MemoryLog(instant) if self._recall is None else RewindableLog(instant, self._recall)
        return self.logs[instance]

    def start_sync(self, instance: Instance, position: int) -> None:
        """Make the instance's log stable up to a position; a sync that is under way in a crash is lost."""
        log = self.logs.get(instance.name)
        if isinstance(log, RewindableLog):
            log.begin_sync()
        self._queue.schedule(self._processor.cursor + self._sync_seconds, self._synced, instance, position)

    def _synced(self, instance: Instance, position: int) -> None:
        if instance.alive:
            self._processor.do(lambda _now, instance: instance.on_synced(position), instance)

    def crash(self, instance: InstanceId, torn: bool) -> None:
        """Lose what was not synced (torn: but for a random part of it)."""
        if torn:
            self.logs[instance].crash_torn(self._random)
        else:
            self.logs[instance].crash()

    # ------------------------------------------------------------------ what others rely on, and what can happen to it
    def position(self) -> int:
        """How many records there are, of all instances together."""
        return sum(log.position for log in self.logs.values())

    def stable_position(self) -> int:
        """How many of them survive a crash."""
        return sum(log.synced for log in self.logs.values())

    def memory(self) -> list[bytes]:
        """What is remembered of the others even after a crash, in pieces."""
        return [log.memory for log in self.logs.values() if isinstance(log, RewindableLog) and log.memory]

    def rewind(self, below: int, random: Random) -> bool:
        """Put the main instance's log back to an earlier state, so that there are fewer records than `below`; whether
        there was such a state."""
        log = self.logs.get(MAIN_INSTANCE)
        if not isinstance(log, RewindableLog):
            return False
        return log.rewind(below - self.position() + log.position, random)

    def erase(self) -> None:
        """Lose everything."""
        self.logs.clear()
