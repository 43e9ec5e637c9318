"""Mutants of InterGroup's membership (Berket 2000, chapter 5): the sixteen rules that are easiest to get wrong.

Each breaks one method of the objects that a core makes as views come and go, which no subclass of the core reaches, and
is shown by a run of its own: most of these rules decide one campaign run in hundreds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from ordercast.core import SiteId
from ordercast.protocols.intergroup.membership.bootstrap import Bootstrap
from ordercast.protocols.intergroup.membership.changes import Changes
from ordercast.protocols.intergroup.membership.detector import Detector
from ordercast.protocols.intergroup.membership.member import Member
from ordercast.protocols.intergroup.membership.mra import RepairRun
from ordercast.protocols.intergroup.membership.packets import MC, RTC, Cut, PJoin, ViewAnswer
from ordercast.protocols.intergroup.membership.states import Repair, State
from ordercast.protocols.intergroup.membership.view import InView
from ordercast.protocols.intergroup.packets import Data, PLeave, ViewId
from ordercast.protocols.intergroup.stream import Stream


class BrokenRule(NamedTuple):
    """One rule, and how it is broken."""

    name: str
    breaks: str
    plant: Callable[[pytest.MonkeyPatch], None]


RULES: dict[str, BrokenRule] = {}


def broken_rule(function: Callable[[pytest.MonkeyPatch], None]) -> Callable[[pytest.MonkeyPatch], None]:
    """Register it."""
    name = function.__name__
    RULES[name] = BrokenRule(name, " ".join((function.__doc__ or "").split()), function)
    return function


# ---------------------------------------------------------------------- Consensus
@broken_rule
def equal_sets_storm(patch: pytest.MonkeyPatch) -> None:
    """Figure 5.5 as printed (E8): a PJoin with equal sets is answered by another one, and consensus is never tested."""
    sound = RepairRun.on_pjoin

    def on_pjoin(self: RepairRun, sender: SiteId, packet: PJoin) -> None:
        if set(packet.procs) == self.procs and set(packet.fail) == self.failed and self.state is Repair.CONSENSUS:
            self._say(self._proposals[self._core.site])
        else:
            sound(self, sender, packet)

    patch.setattr(RepairRun, "on_pjoin", on_pjoin)


@broken_rule
def own_failure_from_a_stale_proposal(patch: pytest.MonkeyPatch) -> None:
    """A PJoin of a repair that is over counts as though it were new, also one in which this process has failed."""
    sound = Member.on_pjoin

    def on_pjoin(self: Member, sender: SiteId, packet: PJoin) -> None:
        self.newest.clear()
        self.agreed.clear()
        sound(self, sender, packet)

    patch.setattr(Member, "on_pjoin", on_pjoin)


@broken_rule
def no_consensus_timeout(patch: pytest.MonkeyPatch) -> None:
    """Whoever is heard and does not agree is waited for."""
    sound = RepairRun._awaited

    def awaited(self: RepairRun) -> set[SiteId]:
        return set() if self.state is Repair.CONSENSUS else sound(self)

    patch.setattr(RepairRun, "_awaited", awaited)


@broken_rule
def block_set_ignored(patch: pytest.MonkeyPatch) -> None:
    """5.2.3: whoever did not agree is considered again at once."""
    patch.setattr(Member, "is_blocked", lambda self, site: False)


# ---------------------------------------------------------------------- where a view ends, and where the next begins
@broken_rule
def cut_without_receivers(patch: pytest.MonkeyPatch) -> None:
    """5.4.2: what only a receiver has does not count."""
    sound = RepairRun._inform

    def inform(self: RepairRun) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(self._core.control, "cut_of", lambda *_: None)
            sound(self)

    patch.setattr(RepairRun, "_inform", inform)
    patch.setattr(RepairRun, "_cut_has_come", lambda self: True)


@broken_rule
def cut_below_what_was_delivered(patch: pytest.MonkeyPatch) -> None:
    """E9: of a sender that has failed, what all survivors have, and not what any of them has."""
    sound = RepairRun._compute_cut

    def compute_cut(self: RepairRun) -> None:
        infos = self._infos
        if self.proposal is not None and set(infos) >= set(self.proposal.members):
            mine = [info for info in infos.values() if info.epoch == self._member.epoch]
            least = {
                sender: min(info.seq_cut.get(sender, 0) for info in mine)
                for sender in self._member.members
                if sender not in infos
            }
            self._infos = {
                site: replace(info, seq_cut={**info.seq_cut, **least}) if info in mine else info
                for site, info in infos.items()
            }
        sound(self)

    patch.setattr(RepairRun, "_compute_cut", compute_cut)


@broken_rule
def view_begins_before_a_cut(patch: pytest.MonkeyPatch) -> None:
    """The time of the new view is that of the leader's old one, whatever was delivered since."""
    sound = RepairRun.on_rtc

    def early(self: RepairRun, packet: RTC) -> RTC:
        return replace(packet, time=self._member.epoch.start_time)

    def on_rtc(self: RepairRun, sender: SiteId, packet: RTC) -> None:
        sound(self, sender, early(self, packet))

    commit = RepairRun._commit

    def committed(self: RepairRun) -> None:
        self._readies = {site: early(self, ready) for site, ready in self._readies.items()}
        commit(self)

    patch.setattr(RepairRun, "on_rtc", on_rtc)
    patch.setattr(RepairRun, "_commit", committed)


@broken_rule
def data_leaves_during_a_repair(patch: pytest.MonkeyPatch) -> None:
    """Messages are sent between RecInfo and the installation of the view."""
    may_send = property(lambda self: self.state in (State.SENDER, State.MRA))
    patch.setattr(Member, "may_send", may_send)
    patch.setattr(Member, "gives_credit", property(lambda self: self.takes_messages and self.may_send))


@broken_rule
def leader_does_not_wait_for_all(patch: pytest.MonkeyPatch) -> None:
    """The leader installs the view when it is ready itself."""
    sound = RepairRun._commit

    def commit(self: RepairRun) -> None:
        own = self._ready
        if self.proposal is not None and own is not None:
            for site in self.proposal.members:
                info = self._infos[site]
                cut = own.cut if info.epoch == own.epoch else Cut({}, 0, 0)
                self._readies.setdefault(site, RTC(own.proposal, info.epoch, cut, info.first_seq, own.time, {}))
        sound(self)

    patch.setattr(RepairRun, "_commit", commit)


# ---------------------------------------------------------------------- views
@broken_rule
def view_tag_ignored(patch: pytest.MonkeyPatch) -> None:
    """What is said in another view is taken for this one."""
    sound = Member.hear
    patch.setattr(Member, "hear", lambda self, sender, epoch: sound(self, sender, self.epoch))


@broken_rule
def new_sender_is_foreign(patch: pytest.MonkeyPatch) -> None:
    """What a new sender says before its PAdd has had its turn starts a repair."""
    sound = Member.hear

    def hear(self: Member, sender: SiteId, epoch: ViewId) -> Stream | None:
        if epoch == self.epoch and sender not in self.members:
            self.on_foreign(sender)
        return sound(self, sender, epoch)

    patch.setattr(Member, "hear", hear)


@broken_rule
def first_number_one_too_high(patch: pytest.MonkeyPatch) -> None:
    """5.3.1: a joiner begins behind the first message of each sender that it should deliver."""
    sound = Bootstrap.on_answer

    def on_answer(self: Bootstrap, packet: ViewAnswer) -> None:
        sound(self, replace(packet, first={sender: seq + 1 for sender, seq in packet.first.items()}))

    patch.setattr(Bootstrap, "on_answer", on_answer)


@broken_rule
def transitional_set_by_intersection(patch: pytest.MonkeyPatch) -> None:
    """Whoever is in both views is said to have come along."""
    sound = InView._last_view_of

    def last_view_of(self: InView, sender: SiteId, message: MC, epoch: ViewId) -> ViewId:
        return self.group.senders.view if sender in self.members else sound(self, sender, message, epoch)

    patch.setattr(InView, "_last_view_of", last_view_of)


@broken_rule
def leaver_leaves_early(patch: pytest.MonkeyPatch) -> None:
    """5.3.3: a PLeave takes effect where it comes, and not where it has its turn."""
    take = Member.take

    def taken(self: Member, stream: Stream, data: Data) -> None:
        if isinstance(data.change, PLeave) and not self.order.halted:
            Changes.apply(self.changes, stream.sender, data)
        else:
            take(self, stream, data)

    patch.setattr(Member, "take", taken)


@broken_rule
def joiner_that_died_stays(patch: pytest.MonkeyPatch) -> None:
    """Whoever was let in and was never heard is not suspected."""
    sound, hear, hear_packet = Detector.suspect, Detector.hear, Member.hear
    heard: set[tuple[int, SiteId]] = set()

    def note(self: Detector, site: SiteId) -> None:
        heard.add((id(self), site))
        hear(self, site)

    def note_packet(self: Member, sender: SiteId, epoch: ViewId) -> Stream | None:
        heard.add((id(self.detector), sender))
        return hear_packet(self, sender, epoch)

    def suspect(self: Detector, sites: Iterable[SiteId]) -> set[SiteId]:
        return sound(self, [site for site in sites if (id(self), site) in heard])

    patch.setattr(Detector, "hear", note)
    patch.setattr(Member, "hear", note_packet)
    patch.setattr(Detector, "suspect", suspect)


@broken_rule
def goes_on_in_its_old_view(patch: pytest.MonkeyPatch) -> None:
    """A process that has stood still sends in its old view, though it hears the others in another one."""
    patch.setattr(Member, "_be_overtaken", lambda self, sender: None)
