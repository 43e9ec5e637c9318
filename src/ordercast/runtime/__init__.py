"""The one interpreter of effects; the simulator and the live node drive it."""

from ordercast.runtime.instance import Driver, Instance, MessageNumbers
from ordercast.storage import MemoryLog, Recovery

__all__ = ["Driver", "Instance", "MemoryLog", "MessageNumbers", "Recovery"]
