"""The msgBuffer of 3.2.2: messages that may still be asked for, per group, in messages and bytes."""

from __future__ import annotations

from collections import deque

from ordercast.core import InvariantViolation, SiteId
from ordercast.protocols.intergroup.packets import Data


class MessageBuffer:
    """What a process keeps of one group.

    Its own messages it keeps until they are stable; nobody else may have them. Those of others it keeps as long as
    there is room, the latest ones.
    """

    __slots__ = (
        "_changed",
        "_found",
        "_messages_max",
        "_others",
        "_own_site",
        "bytes",
        "bytes_max",
        "cleared",
        "own",
        "own_bytes",
    )

    def __init__(self, site: SiteId, messages_max: int, bytes_max: int) -> None:
        self._changed = False
        """Since its invariants were checked."""
        self._own_site = site
        self._messages_max = messages_max
        self.bytes_max = bytes_max
        self._found: dict[SiteId, dict[int, Data]] = {}
        """Sender -> number -> message."""
        self.own: deque[Data] = deque()
        self.own_bytes = 0
        self._others: deque[tuple[SiteId, Data]] = deque()
        """As they came, with whoever has numbered them."""
        self.bytes = 0
        """Of the payloads of others."""
        self.cleared = 0
        """stableTime: messages with smaller timestamps are not kept."""

    def __len__(self) -> int:
        return len(self.own) + len(self._others)

    def find(self, sender: SiteId, seq: int) -> Data | None:
        """The message, if it is here."""
        found = self._found.get(sender)
        return None if found is None else found.get(seq)

    def keep_own(self, data: Data) -> None:
        """A message of this process."""
        self._changed = True
        self._found.setdefault(self._own_site, {})[data.seq] = data
        self.own.append(data)
        self.own_bytes += len(data.multicast.payload)

    def keep(self, sender: SiteId, data: Data) -> None:
        """A message of another process: once, unless it is stable."""
        if data.timestamp < self.cleared:
            return
        found = self._found.get(sender)
        if found is None:
            found = self._found[sender] = {}
        if data.seq in found:
            return
        self._changed = True
        found[data.seq] = data
        others = self._others
        others.append((sender, data))
        self.bytes += len(data.multicast.payload)
        while len(others) > self._messages_max or self.bytes > self.bytes_max:
            self._forget_oldest()

    def clear(self, stable: int) -> list[Data]:
        """Everyone has what was sent before this time; those of this process that are forgotten now."""
        if stable <= self.cleared:
            return []
        self._changed = True
        self.cleared = stable
        others, own = self._others, self.own
        # One that came late may stand behind a later one, and goes when that does.
        while others and others[0][1].timestamp < stable:
            self._forget_oldest()
        forgotten = []
        while own and own[0].timestamp < stable:
            data = own.popleft()
            self.own_bytes -= len(data.multicast.payload)
            del self._found[self._own_site][data.seq]
            forgotten.append(data)
        return forgotten

    def _forget_oldest(self) -> None:
        sender, data = self._others.popleft()
        self.bytes -= len(data.multicast.payload)
        del self._found[sender][data.seq]

    def check_invariants(self) -> None:
        """Within the bounds, and counted right."""
        if not self._changed:
            return
        self._changed = False
        if len(self._others) > self._messages_max or self.bytes > self.bytes_max:
            raise InvariantViolation(f"{len(self._others)} messages of {self.bytes} bytes are kept for repairs")
        if self.bytes != sum(len(data.multicast.payload) for _, data in self._others):
            raise InvariantViolation(f"{self.bytes} bytes are not what is kept of others")
        if self.own_bytes != sum(len(data.multicast.payload) for data in self.own):
            raise InvariantViolation(f"{self.own_bytes} bytes are not what is kept of this process")
