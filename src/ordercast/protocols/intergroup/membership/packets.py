"""What processes say to each other about views (5.2.2, corrected as the README of the protocol says), and the
handshakes of 5.3.1, which have no format in the thesis.

PAdd and PLeave are in the order of Data; all others travel outside the numbering, and are said again until they are
answered.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import msgspec

from ordercast.core import GroupId, MessageId, Multicast, Packet, SiteId, WireError
from ordercast.protocols.intergroup.packets import TIMESTAMP_MAX, ViewId, check_time
from ordercast.protocols.parts.names import NAME_CHARACTERS_MAX

SENDERS_MAX = 1024
"""Processes that a view, or a proposal, may have: sixteen times as many as were ever simulated."""

EMPTY = ViewId(0, "", 0)
"""The view of a group without senders: one for all, for there is nothing in it to differ about."""

NOWHERE = ViewId(0, "", 1)
"""Where a process is that has never been in a view."""

Sites = tuple[SiteId, ...]
Numbers = dict[SiteId, int]
"""Sender -> the number of a message."""


class Cut(msgspec.Struct, frozen=True, array_like=True, gc=False, order=True):
    """Where a view ends."""

    last: Numbers
    """Sender of the epoch -> its last number."""
    time: int
    """Of senders that do not go on, nothing later than this belongs to the view. (Else: c's m1 is lost with c; a has
    it, multicasts m2 and fails; d has m2 of a, and nobody here has m1, on which it depends: a causal hole.)"""
    heard: int
    """Up to here everything of those senders is there. Between this and `time` something may be missing on which
    messages of others depend, by way of other groups, or of services without an order."""


class PJoin(Packet, frozen=True):
    """Which processes its sender considers for the next view, and which of them it considers as failed."""

    epoch: ViewId
    """membID: the view that its last repair has installed."""
    attempt: int
    """Which of its repairs this is."""
    number: int
    """Which of its proposals within that. The newest counts."""
    procs: Sites
    fail: Sites
    """Some of `procs`. Whoever names itself resigns: it is about to leave the sender group."""
    seq: int
    """The number of its last Data message, so that whoever lacks it asks for it."""

    background: ClassVar[bool] = True


class PFailBlock(Packet, frozen=True):
    """Its sender cannot get a message from anybody."""

    epoch: ViewId
    number: int
    """The newest counts."""
    proc: SiteId
    """Whose message it is."""
    proc_seq: int
    background: ClassVar[bool] = True


class RecInfo(Packet, frozen=True):
    """How far its sender is in its old view."""

    proposal: str
    """Which agreement this is about."""
    version: int
    """The newest counts: a cut may be lowered."""
    epoch: ViewId
    """membID."""
    cut: int
    """The timestamp of the last message that was delivered, of those whose senders do not go on."""
    seq_cut: Numbers
    """Every other sender of the epoch -> the last number that can be delivered."""
    times: Numbers
    """Those of them who may have sent more -> nothing up to this time is missing."""
    first_seq: int
    """The number of the first message of the sender in the next view: it sends none before that."""

    background: ClassVar[bool] = True


class RTC(Packet, frozen=True):
    """Ready To Commit: everything before the cut is at its sender."""

    proposal: str
    epoch: ViewId
    cut: Cut
    first_seq: int
    time: int
    """Nothing that is to be delivered before the next view is later than this."""
    proxied: Numbers
    """Who multicasts through proxies -> the number of its last message that had its turn, when all before the cut
    have."""

    background: ClassVar[bool] = True


class MC(Packet, frozen=True):
    """Membership Change: install the new view."""

    group: GroupId
    """It may be an answer, which comes on no channel. (Found by its epochs: the first views of two groups of the
    configuration have one name, and the view of one would be installed in the other.)"""
    proposal: str
    view: ViewId
    """membID."""
    old: dict[SiteId, ViewId]
    """procs, and oldIDs: who is in the new view -> the epoch from which it comes."""
    cuts: tuple[tuple[ViewId, Cut], ...]
    """cutInfo: where each of these epochs ends."""
    first: Numbers
    """lastSeq: the number of the first message of each in the new view."""
    proxied: Numbers
    """Who multicasts through proxies -> the last number that had its turn in any of the epochs."""

    background: ClassVar[bool] = True

    def cut_of(self, epoch: ViewId) -> Cut | None:
        """The cut of an epoch, if somebody comes from there."""
        return next((cut for each, cut in self.cuts if each == epoch), None)

    def survivors(self, epoch: ViewId) -> Sites:
        """Who comes from there."""
        return tuple(site for site, each in self.old.items() if each == epoch)


class ViewRequest(Packet, frozen=True):
    """Bootstrap (5.3.1): which view is there? From whoever has one that is over: which MC has ended it?"""

    group: GroupId
    attempt: int
    epoch: ViewId
    time: int
    """The asker's clock."""

    background: ClassVar[bool] = True


class ViewAnswer(Packet, frozen=True):
    """The answer of a sender: the view, and where its answerer is in it."""

    group: GroupId
    attempt: int
    epoch: ViewId
    view: ViewId
    members: Sites
    came: dict[SiteId, ViewId]
    """Member -> its view before this one."""
    first: Numbers
    """Sender of the epoch -> the number of the first message to be delivered."""
    time: int
    """Those have later timestamps; the view is installed at this time."""
    left: Numbers
    """Who was a sender in the epoch and has left -> its last number."""
    count: int
    """How many application messages the group has delivered so far."""
    proxied: Numbers
    """Who multicasts through proxies -> the number of its last message that had its turn."""

    background: ClassVar[bool] = True


class SponsorRequest(Packet, frozen=True):
    """To Sender (5.3.1): send a PAdd for me."""

    group: GroupId
    epoch: ViewId
    first_seq: int

    background: ClassVar[bool] = True


class SponsorAnswer(Packet, frozen=True):
    """The request is confirmed: the PAdd is on its way."""

    group: GroupId
    epoch: ViewId

    background: ClassVar[bool] = True


class ProxyRequest(Packet, frozen=True):
    """Chapter 8: multicast this for me, for I am no sender."""

    group: GroupId
    number: int
    """Among what its sender multicasts through proxies."""
    before: int
    """The number of the message before it that has not had its turn yet; 0: there is none."""
    time: int
    """The clock of its sender: the message is later."""
    anew: bool
    """Whether its sender has lost its view since the message before."""
    multicast: Multicast

    def served(self) -> tuple[MessageId, ...]:
        """The message."""
        return (self.multicast.id,)


def check_sites(sites: Sites) -> None:
    """Raise `WireError` unless these are names, each once, and not more than a view may have."""
    if len(sites) > SENDERS_MAX or len(set(sites)) != len(sites):
        raise WireError(f"{len(sites)} processes, or one of them twice")
    if any(not 0 < len(site) <= NAME_CHARACTERS_MAX for site in sites):
        raise WireError("a name that is none")


def check_numbers(numbers: Numbers) -> None:
    """Raise `WireError` unless these are numbers of messages, for not more senders than a view may have."""
    check_sites(tuple(numbers))
    if any(not 0 <= seq < TIMESTAMP_MAX for seq in numbers.values()):
        raise WireError("a number that no message has")


def check_pjoin(packet: PJoin) -> None:
    """Refuse what contradicts itself."""
    check_sites(packet.procs)
    check_sites(packet.fail)
    if not set(packet.fail) <= set(packet.procs):
        raise WireError("somebody has failed who is not considered")
    if packet.attempt < 1 or packet.number < 1 or packet.seq < 0:
        raise WireError(f"a proposal of the attempt {packet.attempt}, number {packet.number}")


def check_lives(site: SiteId, procs: Sites) -> None:
    """Raise `WireError` when a later life of this very process is considered: there is none."""
    name, _, life = site.partition("#")
    for each in procs:
        other, _, later = each.partition("#")
        if other == name and later.isdecimal() and int(later) > int(life or 0):
            raise WireError(f"{each} is considered, and {site} is here")


def highest(tables: Iterable[Numbers]) -> Numbers:
    """The highest number of each; of so many as a message may name."""
    found: Numbers = {}
    for table in tables:
        for source, number in table.items():
            found[source] = max(found.get(source, 0), number)
    return dict(sorted(found.items())[:SENDERS_MAX])


def check_own(site: SiteId, last: Numbers, seq: int) -> None:
    """Raise `WireError` when somebody has more of a process than that has sent."""
    if last.get(site, 0) > seq:
        raise WireError(f"somebody has the message {last[site]} of {site}, whose last one is {seq}")


def check_mc(packet: MC) -> None:
    """Refuse what contradicts itself."""
    check_sites(tuple(packet.old))
    check_numbers(packet.first)
    check_numbers(packet.proxied)
    check_time(packet.view.start_time)
    if set(packet.first) != set(packet.old) or not packet.old:
        raise WireError("a view whose members have no first numbers")
    if len(packet.cuts) > SENDERS_MAX or {epoch for epoch, _ in packet.cuts} != set(packet.old.values()):
        raise WireError("a view whose members come from nowhere")
    for _, cut in packet.cuts:
        check_numbers(cut.last)
        check_time(cut.time)
        check_time(cut.heard)


def check_answer(packet: ViewAnswer) -> None:
    """Refuse what contradicts itself."""
    check_sites(packet.members)
    check_numbers(packet.first)
    check_numbers(packet.left)
    check_numbers(packet.proxied)
    check_time(packet.time)
    check_sites(tuple(packet.came))
    if not set(packet.members) <= set(packet.first) or packet.count < 0:
        raise WireError("a view whose members have no first numbers")


class Proposal(msgspec.Struct, frozen=True):
    """What the members of a proposed membership have agreed on."""

    name: str
    members: Sites
    """Sorted: the first one leads."""

    @property
    def leader(self) -> SiteId:
        """The one with the lowest identifier."""
        return self.members[0]
