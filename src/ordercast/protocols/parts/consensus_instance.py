"""What a participant knows of one consensus."""

from __future__ import annotations

from ordercast.core import MessageId, SiteId
from ordercast.protocols.parts.consensus_packets import InstanceName, Value

NOTHING = -1
"""The round in which nothing was adopted."""


class Instance:
    """One consensus without a decision, at one participant."""

    __slots__ = (
        "acks",
        "active",
        "adopted",
        "caller",
        "estimates",
        "name",
        "proposed",
        "round",
        "topic",
        "value",
        "watching",
    )

    def __init__(self, name: InstanceName) -> None:
        self.name = name
        self.round = 0
        self.adopted = NOTHING
        self.value: Value | None = None
        """What was adopted."""
        self.topic: MessageId | None = None
        """A message that the instance is about, by which its packets can be judged."""
        self.active = False
        """Whether we want a decision: then we watch the coordinator."""
        self.watching: SiteId | None = None
        self.caller: SiteId | None = None
        """Who has called us to the present round, or proposed in it. (Else: we answer before we can tell whose turn it
        is; our word is dropped with other letters, and when it asks, we do not know that it waits for us.)"""
        # At the coordinator of the present round:
        self.proposed = False
        self.estimates: dict[SiteId, tuple[int, Value | None]] = {}
        self.acks: set[SiteId] = set()

    def enter(self, round_: int) -> None:
        """Another round: nothing was said in it yet."""
        self.round = round_
        self.proposed = False
        self.estimates = {}
        self.acks = set()

    def adopt(self, value: Value) -> None:
        """Take over what was proposed in the present round."""
        self.adopted = self.round
        self.value = value
        self.topic = value.numbers[0][0]
