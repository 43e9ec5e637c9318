"""A site's disk: the logs of its instances, and the time that a sync takes."""

from __future__ import annotations

from random import Random

from ordercast.core import InstanceId
from ordercast.runtime import Instance, MemoryLog
from ordercast.sim.kernel import EventQueue
from ordercast.sim.site.processor import Processor


class Disk:
    """Keeps what was synced over a crash. A sync takes `sync_seconds`; with 0 a record is stable as soon as it is
    written."""

    def __init__(self, queue: EventQueue, processor: Processor, sync_seconds: float, random: Random) -> None:
        """`random` decides what a torn crash leaves."""
        self.logs: dict[InstanceId, MemoryLog] = {}
        self._queue = queue
        self._processor = processor
        self._sync_seconds = sync_seconds
        self._random = random

    def log(self, instance: InstanceId) -> MemoryLog:
        """The log of an instance, empty when it never had one."""
        return self.logs.setdefault(instance, MemoryLog(instant=self._sync_seconds <= 0))

    def start_sync(self, instance: Instance, position: int) -> None:
        """Make the instance's log stable up to a position; a sync that is under way in a crash is lost."""
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
