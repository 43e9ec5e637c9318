"""The two ends of a stream of messages from one source to one group."""

from __future__ import annotations

from collections.abc import Iterator

from ordercast.core import InvariantViolation, Multicast, SiteId
from ordercast.protocols.parts.numbered import Incoming, Outgoing


class Room:
    """Bytes that are free for what came early, of all streams of a site."""

    __slots__ = ("_users", "free_bytes")

    def __init__(self, free_bytes: int) -> None:
        self.free_bytes = free_bytes
        self._users: dict[IncomingStream, None] = {}
        """Streams with something early, the one first for which nothing came for longest."""

    def take(self, stream: IncomingStream, size: int) -> bool:
        """Whether there is room for so many bytes; if need be, at the expense of other streams, as if the network had
        lost what they keep.

        (Else: what came early of a source that was cut off, and has nothing more to say, fills the room for good, and
        of all others whatever comes early is dropped, the last message of each until P2 runs out.)
        """
        users = self._users
        while size > self.free_bytes:
            other = next((user for user in users if user is not stream), None)
            if other is None:
                return False
            other.forget_all()
        users.pop(stream, None)
        users[stream] = None
        self.free_bytes -= size
        return True

    def give_back(self, stream: IncomingStream, size: int) -> None:
        """So much of a stream is not kept any more."""
        self.free_bytes += size
        if not stream.early:
            self._users.pop(stream, None)


class IncomingStream(Incoming[Multicast]):
    """What a destination knows of one source's messages to one group: L and P of the thesis (6.4.2) are `released` and
    `early`."""

    __slots__ = ("_room", "up")

    def __init__(self, room: Room, up: bool = True) -> None:
        super().__init__()
        self._room = room
        self.up = up
        """False from a crash until fragment (C) has found the place to go on."""

    def keep(self, number: int, multicast: Multicast) -> None:
        """It came before its turn. What does not fit is dropped, as if the network had lost it."""
        if (
            number in self.early
            or len(self.early) >= self.early_max
            or not self._room.take(self, len(multicast.payload))
        ):
            self.announce(number)
        else:
            super().keep(number, multicast)

    def forget(self, number: int) -> Multicast | None:
        """What came early with this number, which is not needed any more."""
        multicast = self.early.pop(number, None)
        if multicast is not None:
            self._room.give_back(self, len(multicast.payload))
        return multicast

    def forget_all(self) -> None:
        """Another stream needs the room."""
        for number in list(self.early):
            self.forget(number)

    def release(self) -> Iterator[Multicast]:
        """What came early and has its turn now, one after the other."""
        while (multicast := self.forget(self.released + 1)) is not None:
            self.released += 1
            yield multicast

    def skip_to(self, number: int) -> None:
        """Set L; what P holds up to there will never be delivered."""
        self.released = number
        for kept in [kept for kept in self.early if kept <= number]:
            self.forget(kept)

    @property
    def early_bytes(self) -> int:
        """Of the payloads of what came early."""
        return sum(len(multicast.payload) for multicast in self.early.values())

    def check_invariants(self) -> None:
        """P lies above L, and L+1 is not in it."""
        if self.up:
            super().check_invariants()


class OutgoingStream(Outgoing[Multicast]):
    """What a source knows of its messages to one group: the last number, and its log for retransmissions.

    One stream to all members: it counts as acknowledged what the source no longer keeps for any of them.
    """

    __slots__ = ("delivered", "kept_bytes", "largest", "members")

    def __init__(self, members: tuple[SiteId, ...]) -> None:
        super().__init__()
        self.members = members
        self.delivered: dict[SiteId, int] = dict.fromkeys(members, 0)
        """Member -> the number up to which it has acknowledged."""
        self.kept_bytes = 0
        """Of the payloads of what is kept."""
        self.largest = 0
        """Payload, in bytes, that was ever kept."""

    def number(self, multicast: Multicast, keep: bool) -> int:
        """Give the next number to a message."""
        number = next(self.numbers)
        if keep:
            self.keep(multicast)
        else:
            self.acknowledged = number
        return number

    def keep(self, multicast: Multicast) -> None:
        """The message has the next number."""
        self.kept.append(multicast)
        size = len(multicast.payload)
        self.kept_bytes += size
        if size > self.largest:
            self.largest = size

    def acknowledge(self, through: int) -> list[Multicast]:
        """Forget what nobody needs any more."""
        forgotten = super().acknowledge(through)
        for multicast in forgotten:
            self.kept_bytes -= len(multicast.payload)
        return forgotten

    def drop_oldest(self, messages_max: int, bytes_max: int) -> None:
        """Keep so much at the most."""
        self.acknowledge(self.highest - messages_max)
        while self.kept_bytes > bytes_max:
            self.acknowledge(self.acknowledged + 1)

    def on_acknowledge(self, site: SiteId, delivered: int) -> None:
        """Forget what every member has."""
        if site in self.delivered:
            self.delivered[site] = max(self.delivered[site], delivered)
            self.acknowledge(min(min(self.delivered.values()), self.highest))

    def check_invariants(self) -> None:
        """The bytes are those of what is kept."""
        super().check_invariants()
        if self.kept_bytes != sum(len(multicast.payload) for multicast in self.kept):
            raise InvariantViolation(f"{self.kept_bytes} bytes are not what is kept")
