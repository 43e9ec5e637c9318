"""Turns: what the token site adds to the one history when it acknowledges messages and passes the token on."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ordercast.core import MessageId, Multicast, SiteId

Version = tuple[int, SiteId]
"""The version of a token list: a number and the originator who chose it, so that two originators never choose the
same."""

FIRST_VERSION: Version = (0, "")
"""The list that everybody starts with: all sites. It is lower than any that an originator can choose."""


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Consecutive messages of one source."""

    source_number: int
    """Number of the first among all messages of its source, across crashes: 1, 2, 3 …"""
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

    def identifiers(self) -> tuple[MessageId, ...]:
        """The messages that it acknowledges, in their order."""
        return tuple(message for run in self.runs for message in run.identifiers())


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
