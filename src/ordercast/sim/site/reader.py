"""The application as a reader: it takes what is delivered, at once or slowly, and the instance learns of it."""

from __future__ import annotations

from ordercast.core import InstanceId
from ordercast.core.events import Consumed
from ordercast.runtime import Instance
from ordercast.sim.kernel import EventQueue
from ordercast.sim.site.processor import Processor


class Reader:
    """Takes one delivery after the other, `seconds` for each; with 0, all that there are at once."""

    def __init__(self, queue: EventQueue, processor: Processor) -> None:
        self.seconds = 0.0
        self._queue = queue
        self._processor = processor
        self._unread: dict[InstanceId, int] = {}

    def deliver(self, instance: Instance) -> None:
        """There is one more to read."""
        unread = self._unread.get(instance.name, 0)
        self._unread[instance.name] = unread + 1
        if unread == 0:
            self._queue.schedule(self._processor.cursor + self.seconds, self._read, instance)

    def forget(self, instance: InstanceId) -> None:
        """The instance has crashed, and its application with it."""
        self._unread.pop(instance, None)

    def _read(self, instance: Instance) -> None:
        if instance.alive:
            self._processor.do(self._tell, instance)

    def _tell(self, now: float, instance: Instance) -> None:
        unread = self._unread.get(instance.name, 0)
        taken = 1 if self.seconds > 0 else unread
        self._unread[instance.name] = unread - taken
        if unread > taken:
            self._queue.schedule(self._processor.cursor + self.seconds, self._read, instance)
        instance.handle(now, Consumed(taken))
