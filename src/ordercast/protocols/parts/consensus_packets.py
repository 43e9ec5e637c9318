"""What the participants of a consensus say to each other, and what they write to the log."""

from __future__ import annotations

import msgspec

from ordercast.core import MessageId, Record, SiteId
from ordercast.protocols.parts.link import Letter

InstanceName = tuple[int, ...]
"""The name of one consensus; what the numbers mean is the host's business."""


Lives = tuple[tuple[SiteId, int], ...]
"""Sites that have lost their log, and the incarnation with which each has begun anew."""


class Value(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is decided: a number for each of some messages."""

    proposer: SiteId
    numbers: tuple[tuple[MessageId, int], ...]

    def messages(self) -> tuple[MessageId, ...]:
        """The messages that it is about."""
        return tuple(message for message, _ in self.numbers)


class Propose(Letter, frozen=True):
    """Coordinator -> participants, second phase: adopt this."""

    instance: InstanceName
    round: int
    value: Value

    def served(self) -> tuple[MessageId, ...]:
        return self.value.messages()


class Ack(Letter, frozen=True):
    """Participant -> coordinator, third phase: adopted, and logged."""

    instance: InstanceName
    round: int
    message: MessageId
    """One of those that it is about."""
    lives: Lives = ()
    """Whose word of an earlier life does not count beside this one."""

    def served(self) -> tuple[MessageId, ...]:
        return (self.message,)


class Decide(Letter, frozen=True):
    """Whoever knows -> whoever does not, fourth phase: this is decided."""

    instance: InstanceName
    value: Value

    def served(self) -> tuple[MessageId, ...]:
        return self.value.messages()


class Collect(Letter, frozen=True):
    """Coordinator of a later round -> participants: come to this round, and tell me your estimate."""

    instance: InstanceName
    round: int
    message: MessageId

    def served(self) -> tuple[MessageId, ...]:
        return (self.message,)


class Estimate(Letter, frozen=True):
    """Participant -> coordinator, first phase: what I have adopted, and in which round."""

    instance: InstanceName
    round: int
    adopted: int
    """-1: nothing; then the value is what the sender would propose, if anything."""
    value: Value | None
    message: MessageId
    lives: Lives = ()

    def served(self) -> tuple[MessageId, ...]:
        return (self.message,) if self.value is None else self.value.messages()


class Promised(Record, frozen=True):
    """I have gone to this round, and adopt nothing of an earlier one."""

    instance: InstanceName
    round: int
    message: MessageId


class Adopted(Record, frozen=True):
    """I have adopted this value in this round."""

    instance: InstanceName
    round: int
    value: Value


class Decided(Record, frozen=True):
    """I know the decision."""

    instance: InstanceName
    value: Value


class OpenState(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An instance without a decision, for a checkpoint."""

    instance: InstanceName
    round: int
    adopted: int
    value: Value | None
    message: MessageId | None
