"""One agreement in the making: what each member has said so far, stage by stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ordercast.core import Packet, SiteId
from ordercast.protocols.selective_total.packets import (
    NO_EPOCH,
    Data,
    Epoch,
    Reset,
    ResetAck,
    ResetPreAck,
    Vector,
)
from ordercast.protocols.selective_total.plan import Plan, effective_base

PRE_ACKNOWLEDGED = 1
"""The stage of a member that has said RST_PAK; with its n-th RST_ACK it is n stages further."""
RESTORED = 1 << 30
"""The stage of a member that has said `Restored`: the last one."""


class Agreement:
    """RST, then a RST_PAK of everyone, then one or more rounds of RST_ACK until all draw the same line, then what was
    lost again, then a `Restored` of everyone."""

    def __init__(
        self,
        identifier: Epoch,
        members: tuple[SiteId, ...],
        incarnations: Vector,
        resets: Mapping[SiteId, Reset],
    ) -> None:
        self.identifier = identifier
        self.members = members
        self.incarnations = incarnations
        self.resets = dict(resets)
        """What those said who have found a loss, as far as it was known when this site joined."""
        self.pre_acks: dict[SiteId, ResetPreAck] = {}
        self.rounds: list[dict[SiteId, ResetAck]] = []
        self.restored: set[SiteId] = set()
        self.said: list[Packet] = []
        """What this site has said in it, one packet a stage."""
        self.stage: dict[SiteId, int] = dict.fromkeys(members, 0)
        """How far each member is known to be."""
        self.base: Epoch = NO_EPOCH
        self.participants: tuple[SiteId, ...] = ()
        """The members who were in the epoch that ends; the others are new."""
        self.plan: Plan | None = None
        self.aside: dict[tuple[int, int], Data] = {}
        """What was sent again, until the logs are put in order: place of the source, TSEQ."""
        self.asked: set[tuple[int, int]] = set()
        """What this site has asked for: place of the source, partial number."""
        self.acks_said = 0
        self.has_said_restored = False

    # ------------------------------------------------------------------ what others say
    def take_pre_ack(self, sender: SiteId, packet: ResetPreAck) -> None:
        """A member has joined. What it says stays as it was said first: others have reckoned with it."""
        self.pre_acks.setdefault(sender, packet)
        self.stage[sender] = max(self.stage[sender], PRE_ACKNOWLEDGED)

    def take_ack(self, sender: SiteId, packet: ResetAck) -> None:
        """A member's line of one round; of a round to come, when the others are ahead."""
        while len(self.rounds) < packet.round:
            self.rounds.append({})
        self.rounds[packet.round - 1].setdefault(sender, packet)
        self.stage[sender] = max(self.stage[sender], PRE_ACKNOWLEDGED + packet.round)

    def take_restored(self, sender: SiteId) -> None:
        """A member has everything."""
        self.restored.add(sender)
        self.stage[sender] = RESTORED

    # ------------------------------------------------------------------ what was lost
    def note_asked(self, messages: Iterable[tuple[int, int]]) -> None:
        """This site asks for these: place of the source, partial number."""
        self.asked = set(messages)

    def put_aside(self, source: int, data: Data, number: int) -> None:
        """A message has come again; with this partial number, it was asked for."""
        self.aside.setdefault((source, data.tseq), data)
        self.asked.discard((source, number))

    # ------------------------------------------------------------------ where it stands
    def hears(self, sender: SiteId) -> bool:
        """Whether frames of the old epoch still count. Of those who have joined nothing more comes; of those who are
        not members nothing more counts."""
        return sender in self.stage and sender not in self.pre_acks

    @property
    def has_all_pre_acks(self) -> bool:
        """Whether everyone has joined: then nothing more comes of the old epoch."""
        return len(self.pre_acks) == len(self.members)

    def resolve(self) -> None:
        """Everyone has joined: which epoch ends."""
        self.base, self.participants = effective_base(self.members, self.pre_acks)

    def round_of_participants(self, number: int) -> dict[SiteId, ResetAck] | None:
        """A round, when it is complete: the lines of those who were in the epoch that ends."""
        if len(self.rounds) < number or len(self.rounds[number - 1]) < len(self.members):
            return None
        return {site: self.rounds[number - 1][site] for site in self.participants}

    @property
    def is_restored(self) -> bool:
        """Whether everyone has everything."""
        return len(self.restored) == len(self.members)

    def to_repeat(self) -> list[Packet]:
        """What the member that is furthest behind may not have heard; that can be this site itself.

        Whoever has reached a stage has heard all of the stage before it.
        """
        behind = min(self.stage.values())
        return self.said[max(0, behind - 1) :] if behind < RESTORED else self.said[-1:]
