"""The state behind the building blocks. Every method is a replicated call, and looks at nothing but its arguments, the
state, and the `Context` of the call."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from ordercast.node import Context

CHANGES_MAX = 1_000
"""Of all maps together, for those who watch. Whoever is further behind is shown what there is instead."""

WAITERS_MAX = 10_000
"""Of one lock. Who comes then asks again later, without a place in the line."""


class Stored(msgspec.Struct, frozen=True, array_like=True):
    """A value of a map."""

    value: bytes
    version: int


class Changed(msgspec.Struct, frozen=True, array_like=True):
    """What has become of a key."""

    revision: int
    map: str
    key: str
    value: bytes | None
    """None: it was removed."""


class Held(msgspec.Struct, array_like=True):
    """Who has a lock, and who waits for it."""

    holder: str
    fence: int
    until: float
    """The lease ends at this time of the group."""
    waiting: list[str] = []


class Given(msgspec.Struct, frozen=True, array_like=True):
    """An item that somebody works on."""

    item: bytes
    holder: str
    until: float
    attempt: int


class Line(msgspec.Struct, array_like=True):
    """The items of a queue."""

    next: int = 0
    waiting: dict[int, tuple[bytes, int]] = {}
    """Number -> the item and how often it was given, the first one first."""
    given: dict[int, Given] = {}


@dataclass
class State:
    """All blocks of a group, by their names."""

    revision: int = 0
    """Counts the changes of all maps; a version is the revision of a key's last change."""
    fences: int = 0
    """Counts the grants of all locks: no number is given twice."""
    maps: dict[str, dict[str, Stored]] = field(default_factory=dict)
    changes: list[Changed] = field(default_factory=list)
    locks: dict[str, Held] = field(default_factory=dict)
    queues: dict[str, Line] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)

    # ------------------------------------------------------------------ maps
    def put(self, name: str, key: str, value: bytes, version: int | None) -> int | None:
        """Set a key, if it has this version (0: if it is not there; None: in any case); its new version, or None."""
        content = self.maps.setdefault(name, {})
        if version is not None and version != (content[key].version if key in content else 0):
            return None
        self._note(name, key, value)
        content[key] = Stored(value, self.revision)
        return self.revision

    def remove(self, name: str, key: str, version: int | None) -> bool:
        """Remove a key, if it has this version (None: in any case); whether it was removed."""
        content = self.maps.get(name, {})
        if key not in content or version not in (None, content[key].version):
            return False
        self._note(name, key, None)
        del content[key]
        if not content:
            del self.maps[name]
        return True

    def _note(self, name: str, key: str, value: bytes | None) -> None:
        self.revision += 1
        self.changes.append(Changed(self.revision, name, key, value))
        if len(self.changes) > 2 * CHANGES_MAX:
            del self.changes[:CHANGES_MAX]

    # ------------------------------------------------------------------ locks
    def acquire(self, context: Context, name: str, holder: str, lease: float, waits: bool) -> int:
        """Have a lock, or go on having it, for so many seconds from now; its fencing number, or 0 when another one has
        it. Who waits keeps its place in the line, and the line is served when the lease of the holder ends."""
        lock = self.locks.get(name)
        if lock is None:
            self.fences += 1
            self.locks[name] = Held(holder, self.fences, context.time + lease)
            return self.fences
        if lock.holder != holder:
            if lock.until > context.time or (lock.waiting and lock.waiting[0] != holder and lock.holder):
                if waits and holder not in lock.waiting and len(lock.waiting) < WAITERS_MAX:
                    lock.waiting.append(holder)
                # The first of the line may be gone: then its turn ends like a lease.
                if lock.until <= context.time:
                    self._pass_on(lock, context.time + lease)
                return lock.fence if lock.holder == holder else 0
            self.fences += 1
            lock.holder, lock.fence = holder, self.fences
            if holder in lock.waiting:
                lock.waiting.remove(holder)
        lock.until = context.time + lease
        return lock.fence

    def release(self, context: Context, name: str, holder: str, lease: float) -> bool:
        """Give a lock back, or wait for it no more; whether this one had it. The next one of the line has it then."""
        lock = self.locks.get(name)
        if lock is None:
            return False
        if lock.holder != holder:
            if holder in lock.waiting:
                lock.waiting.remove(holder)
            return False
        if lock.waiting:
            self._pass_on(lock, context.time + lease)
        else:
            del self.locks[name]
        return True

    def _pass_on(self, lock: Held, until: float) -> None:
        self.fences += 1
        lock.holder, lock.fence, lock.until = lock.waiting.pop(0), self.fences, until

    # ------------------------------------------------------------------ queues and counters
    def enqueue(self, name: str, item: bytes) -> int:
        """Put an item at the end of a queue; its number."""
        line = self.queues.setdefault(name, Line())
        line.next += 1
        line.waiting[line.next] = (item, 0)
        return line.next

    def dequeue(self, context: Context, name: str, holder: str, lease: float) -> tuple[int, bytes, int] | None:
        """Have the first item that nobody works on, for so many seconds: its number, the item, and which attempt it
        is."""
        line = self.queues.get(name)
        if line is None:
            return None
        late = [number for number, given in line.given.items() if given.until <= context.time]
        for number in late:
            given = line.given.pop(number)
            line.waiting[number] = (given.item, given.attempt)
        if not line.waiting:
            return None
        number = min(line.waiting) if late else next(iter(line.waiting))
        item, attempts = line.waiting.pop(number)
        line.given[number] = Given(item, holder, context.time + lease, attempts + 1)
        return number, item, attempts + 1

    def finish(self, name: str, number: int, holder: str, attempt: int, again: bool) -> bool:
        """The work on an item is done, or is to be done `again` by somebody; False when it was given to another one
        meanwhile."""
        line = self.queues.get(name)
        given = None if line is None else line.given.get(number)
        if line is None or given is None or (given.holder, given.attempt) != (holder, attempt):
            return False
        del line.given[number]
        if again:
            line.waiting = {number: (given.item, given.attempt), **line.waiting}
        return True

    def add(self, name: str, amount: int) -> int:
        """Change a counter; its new value."""
        self.counters[name] = self.counters.get(name, 0) + amount
        return self.counters[name]
