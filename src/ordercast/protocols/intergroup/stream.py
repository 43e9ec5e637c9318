"""What comes from one sender of a group: the variables of Figures 4.1 to 4.3, and what of it waits."""

from __future__ import annotations

from collections import deque
from typing import Literal

from ordercast.core import InvariantViolation, SiteId
from ordercast.protocols.intergroup.packets import Data

State = Literal["idle", "joining", "active"]
"""Not followed: what is lost is lost. A handshake is under way: the activation point is not known yet. An active
source: whatever is missing from the activation point on is asked for."""


class Stream:
    """One sender, as a receiver sees it."""

    __slots__ = (
        "_early_max",
        "coordinator",
        "delivered",
        "early",
        "first",
        "gaps",
        "heard",
        "high",
        "last",
        "ordered",
        "ordered_at",
        "parked_seq",
        "parked_time",
        "passed",
        "rank",
        "sender",
        "state",
        "unread",
    )

    def __init__(self, sender: SiteId, early_max: int) -> None:
        self.sender = sender
        self._early_max = early_max
        self.rank: tuple[int, ...] | None = None
        """The place of the sender among those with the same timestamp, once something of it was delivered."""
        self.coordinator: SiteId = sender
        """The last one that the sender has told."""
        self.state: State = "idle"
        self.first = 1
        """The activation point."""
        self.last = 0
        """lastSeq: everything from the activation point to this number has been passed on."""
        self.high = 0
        """highSeq: the largest number that was heard of."""
        self.heard = 0
        """The latest time that was heard, gaps or not."""
        self.passed = 0
        """highTime, of what was passed on: nothing with a timestamp up to this is still to come."""
        self.early: dict[int, Data] = {}
        """Stored, for something before it is missing."""
        self.parked_seq = 0
        self.parked_time = 0
        """The newest Keep Alive that waits until everything up to its number has been passed on."""
        self.delivered = 0
        """The largest number that was delivered, with any service."""
        self.gaps: set[int] = set()
        """The numbers of the last messages before gaps of which the application has to be told, while those messages
        wait for their turn."""
        self.ordered = 0
        """The number of the last message that has had its turn among those of all senders, where views change."""
        self.ordered_at = 0
        """The timestamp of the latest one that has, or that was delivered before its turn by a reliable service."""
        self.unread: deque[int] = deque()
        """The timestamps of what was delivered reliably and the application has not taken."""

    @property
    def taken(self) -> int:
        """The number up to which everything has had its turn, or was delivered in the order of the source. (Not what a
        service without reliability has delivered over a gap: whoever lacks 32 and has delivered 33 lacks 32.)"""
        return max(self.ordered, min(self.delivered, self.last))

    # ------------------------------------------------------------------ beginning
    def begin(self, activation_point: int, time: int) -> None:
        """The source is active: the message with this number is the first one to be passed on, and later than the
        time."""
        self.first = activation_point = max(activation_point, self.delivered + 1)
        self.state = "active"
        # Before the activation point, not at it: else the first message would be skipped.
        self.last = self.high = self.ordered = activation_point - 1
        self.passed = max(self.passed, time)
        self.early = {seq: data for seq, data in self.early.items() if seq > self.last}
        if self.parked_seq <= self.last:
            self.passed = max(self.passed, self.parked_time)

    def begin_handshake(self, time: int) -> None:
        """The activation point is asked for; nothing up to the time matters to this process."""
        self.state = "joining"
        self.passed = max(self.passed, time)

    def end(self) -> list[Data]:
        """The source is no longer followed; what was stored of it, ascending."""
        self.state = "idle"
        left = [self.early[seq] for seq in sorted(self.early)]
        self.early = {}
        self.parked_seq = self.parked_time = 0
        return left

    # ------------------------------------------------------------------ what comes
    def is_old(self, seq: int) -> bool:
        """Whether the message was passed on, or is stored."""
        return seq in self.early or (seq <= self.last and self.state == "active")

    def missing_below(self, seq: int) -> tuple[int, int] | None:
        """Figure 4.1: the numbers up to this one of which nobody had heard, before it raises `high`."""
        if self.state != "active" or seq <= self.high:
            return None
        first, self.high = self.high + 1, seq
        return first, seq

    def store(self, data: Data) -> bool:
        """Keep what comes early; False when there is no room, so that it counts as not having come."""
        if len(self.early) >= self._early_max:
            return False
        self.early[data.seq] = data
        return True

    def following(self) -> Data | None:
        """What was stored behind the last one, now that this was taken; None when that is still to come."""
        following = self.early.pop(self.last + 1, None) if self.early else None
        # One whose timestamp the sender's clock has passed counts as not having come.
        if following is not None and following.timestamp > self.passed:
            return following
        if self.parked_time > self.passed and self.last >= self.parked_seq:
            self.passed = self.parked_time
        return None

    def hear_time(self, seq: int, time: int) -> None:
        """A Keep Alive: nothing up to that time is still to come when everything up to that number has been passed on.

        (Believed over a gap: the message with the timestamp 3 is lost, the Keep Alive with 9 arrives, and a message of
        somebody else with 5 is delivered before it.)
        """
        if seq <= self.last and self.state == "active":
            if time > self.passed:
                self.passed = time
        elif time > self.parked_time:
            self.parked_seq, self.parked_time = seq, time

    def check_invariants(self) -> None:
        """Stored is what cannot be passed on yet."""
        if self.state == "active" and self.early and not all(seq > self.last + 1 for seq in self.early):
            raise InvariantViolation(f"{min(self.early)} of {self.sender} is stored, and {self.last} was passed on")
        if len(self.early) > self._early_max:
            raise InvariantViolation(f"{len(self.early)} messages of {self.sender} are stored")
        if self.state == "active" and self.high < self.last:
            raise InvariantViolation(f"{self.last} of {self.sender} was passed on and never heard of")
