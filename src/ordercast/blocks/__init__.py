"""What applications use every day, on one replicated state: maps with watches, locks, elections, queues, counters."""

from ordercast.blocks.election import Election
from ordercast.blocks.lock import Lock
from ordercast.blocks.map import Change, Entry, Map
from ordercast.blocks.queue import Counter, Job, Queue
from ordercast.blocks.shared import Shared
from ordercast.blocks.synchronous import (
    SynchronousCounter,
    SynchronousElection,
    SynchronousJob,
    SynchronousLock,
    SynchronousMap,
    SynchronousQueue,
    SynchronousShared,
)

__all__ = [
    "Change",
    "Counter",
    "Election",
    "Entry",
    "Job",
    "Lock",
    "Map",
    "Queue",
    "Shared",
    "SynchronousCounter",
    "SynchronousElection",
    "SynchronousJob",
    "SynchronousLock",
    "SynchronousMap",
    "SynchronousQueue",
    "SynchronousShared",
]
