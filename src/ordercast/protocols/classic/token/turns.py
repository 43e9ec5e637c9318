"""Turns: what the token site adds to the one history when it acknowledges messages and passes the token on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ordercast.core import GroupId, MessageId, Multicast, SiteId

Version = tuple[int, SiteId]
"""The version of a token list: a number and the originator who chose it, so that two originators never choose the
same."""

FIRST_VERSION: Version = (0, "")
"""The list that everybody starts with: all sites. It is lower than any that an originator can choose."""


CHANGE_MARK = "~"
"""In no site's name. It begins the source of a message that changes the roster, and in a version it stands between the
originator and the lineage."""

MESSAGE_BYTES = 256
"""What a message occupies beside its payload, whoever keeps it: its name, its place, and the objects around them."""

_LIFE_SHIFT = 31
_WITHIN_LIFE = (1 << _LIFE_SHIFT) - 1


def is_change(source: SiteId) -> bool:
    """Whether messages of this source change the roster."""
    return source[:1] == CHANGE_MARK


def life_start(life: int) -> int:
    """The source number before the first one of a life.

    A site that has lost its log does not know which numbers it has used. It goes on far above them, with its
    incarnation in the upper bits, which is larger than ever before. (Counting on from what the others have seen:
    message 8 is in the backlog of a site that does not answer; its source has lost its log and gives number 8 to
    another message; turn 5 acknowledges number 8, and two sites deliver different messages for it.)
    """
    return life << _LIFE_SHIFT


def same_life_start(source_number: int) -> int:
    """The source number before the first one of the life to which this one belongs."""
    return source_number & ~_WITHIN_LIFE


def begins_life(source_number: int) -> bool:
    """Whether it is the first one of a life: it follows on whatever the source has sent before."""
    return source_number & _WITHIN_LIFE == 1


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Consecutive messages of one source."""

    source_number: int
    """Number of the first among all messages of its source, across crashes: 1, 2, 3 …, and after a lost log from
    `life_start` on."""
    first: MessageId
    count: int

    @property
    def last(self) -> int:
        """Source number of the last one."""
        return self.source_number + self.count - 1

    def identifiers(self) -> Iterator[MessageId]:
        """The messages' names; within one incarnation of the source they count up like the source numbers."""
        source, incarnation, number = self.first.source, self.first.incarnation, self.first.number
        return (MessageId(source, incarnation, number + step) for step in range(self.count))


class Turn(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One acknowledgement: the token site gives the messages the next sequence numbers, and with that passes the token
    on.

    A turn without messages is a null acknowledgement. Number and version name it: within a version each turn has
    exactly one issuer, who logs it before anybody hears of it.
    """

    number: int
    version: Version
    first_sequence: int
    runs: tuple[Run, ...]

    @property
    def messages(self) -> int:
        """How many messages it acknowledges."""
        return sum(run.count for run in self.runs)

    @property
    def is_change(self) -> bool:
        """Whether it has a new roster, and nothing else."""
        return len(self.runs) == 1 and self.runs[0].first.source[:1] == CHANGE_MARK

    def identifiers(self) -> tuple[MessageId, ...]:
        """The messages of applications that it acknowledges, in their order."""
        return () if self.is_change else tuple(message for run in self.runs for message in run.identifiers())


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A turn with the messages themselves, in the order of the turn's runs: what the history and the log consist of."""

    turn: Turn
    multicasts: tuple[Multicast, ...]

    def numbered(self) -> Iterator[tuple[SiteId, int, Multicast]]:
        """Source, source number, message."""
        at = 0
        for run in self.turn.runs:
            for step in range(run.count):
                yield run.first.source, run.source_number + step, self.multicasts[at]
                at += 1

    @property
    def bytes(self) -> int:
        """What the messages occupy."""
        return messages_bytes(self.multicasts)


def message_bytes(multicast: Multicast) -> int:
    """What a message occupies."""
    return len(multicast.payload) + MESSAGE_BYTES


def messages_bytes(multicasts: Sequence[Multicast]) -> int:
    """What messages occupy."""
    return sum([len(multicast.payload) for multicast in multicasts]) + MESSAGE_BYTES * len(multicasts)


class Summary(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a site must know of the history up to a committed turn in order to go on behind it. Committed turns are the
    same everywhere for ever, so whoever has a summary of one need not ask anybody for what lies before it."""

    number: int
    version: Version
    """In which the turn was issued."""
    message_turn: int
    """The last turn up to there that had messages."""
    sequence: int
    ordered: tuple[tuple[SiteId, int], ...]
    """Source -> number of its last message up to there."""
    counts: tuple[tuple[GroupId, int], ...]
    """Group -> application messages that were ordered in it up to there."""
