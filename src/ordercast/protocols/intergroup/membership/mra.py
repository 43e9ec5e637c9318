"""The membership repair algorithm (5.4, Figures 5.4 to 5.6) of one process, from Initial to Deliver and Install."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING

from ordercast.core import Packet, SiteId, WireError
from ordercast.core.effects import Broadcast
from ordercast.protocols.intergroup.membership.packets import (
    MC,
    RTC,
    SENDERS_MAX,
    Cut,
    Numbers,
    PFailBlock,
    PJoin,
    Proposal,
    RecInfo,
    highest,
)
from ordercast.protocols.intergroup.membership.states import REPAIR_WAYS, Course, Repair, State
from ordercast.protocols.intergroup.packets import TIMESTAMP_MAX, ViewId

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.membership.member import Member


class RepairRun:
    """One execution."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._core = member.core
        self.course = Course(Repair.INITIAL, REPAIR_WAYS, member.core.branch)
        self._since = member.core.now
        """When the present state was entered."""
        self._progress_at = member.core.now
        """When something that was missing has come, in Recovery."""
        site = member.core.site
        self.procs: set[SiteId] = {*member.members, site}
        """procSet."""
        self.failed: set[SiteId] = set()
        """failSet."""
        self._number = 0
        self._proposals: dict[SiteId, PJoin] = {}
        """lastProcTable and lastFailTable."""
        self.proposal: Proposal | None = None
        """What was agreed on, after Consensus."""
        self._version = 0
        self._own_info: RecInfo | None = None
        self._infos: dict[SiteId, RecInfo] = {}
        self._lowered: Numbers = {}
        """Sender -> the last number that is not given up with its only holder."""
        self._accused: tuple[SiteId, int] | None = None
        self._resigned: Numbers = {}
        """Who has resigned -> its last number."""
        self._cut = Cut({}, 0, 0)
        self._ready: RTC | None = None
        """Ours: while there is one, everything before the cut is ready. Rolling back is to have none."""
        self._readies: dict[SiteId, RTC] = {}
        self._message: MC | None = None

    # ------------------------------------------------------------------ what others ask
    @property
    def state(self) -> Repair:
        """Where it is in Figure 5.4."""
        return self.course.state

    @property
    def proposed(self) -> list[SiteId]:
        """The proposed membership, sorted."""
        return sorted(self.procs - self.failed)

    @property
    def leads(self) -> bool:
        """Whether this process leads the proposed membership, or would lead it if all agreed."""
        return self.proposed[0] == self._core.site

    def begin(self, considered: Iterable[SiteId], failed: Collection[SiteId]) -> None:
        """Delivery is halted; propose the current view, with some who are new, or without some."""
        for site in considered:
            self._consider(site)
        self.procs.update(failed)
        self.failed.update(failed)
        self._go(Repair.CONSENSUS)
        self._announce()

    def _go(self, state: Repair) -> None:
        self.course.go(state)
        self._since = self._core.now

    def _say(self, packet: Packet) -> None:
        self._core.outbox.append(Broadcast(self._member.group.channel, packet))

    def tick(self) -> None:
        """Say again what was not answered; give up whoever does not answer."""
        for packet in (self._proposals[self._core.site], self._own_info, self._ready, self._message):
            if packet is not None:
                self._say(packet)
        if self._accused is not None:
            proc, seq = self._accused
            self._say(PFailBlock(self._member.epoch, self._member.attempts, proc, seq))
        self._give_up_the_silent()
        self.go_on()

    def _give_up_the_silent(self) -> None:
        """A process that is heard and does not agree would hold everyone up for ever."""
        core, options = self._core, self._core.membership.options
        elapsed = core.now - self._since
        state = self.state
        if state is Repair.RECOVERY:
            if core.now - self._progress_at > options.recovery_seconds:
                lacking = self._member.missing(self._cut.last)
                if lacking is not None and lacking != self._accused:
                    self._accused = lacking
                    self._member.accuse(*lacking)
            return
        if state is Repair.GATHER_CUT:
            return
        patience = options.consensus_seconds
        if state in (Repair.GATHER_READY, Repair.WAIT_FOR_MESSAGE):
            patience += 2 * options.recovery_seconds
        elif state is Repair.GATHER_RECOVERY:
            patience += options.cut_seconds
        if 0 <= elapsed <= patience:
            return
        silent = self._awaited()
        if not silent:
            self._since = core.now
            return
        core.branch("given-up")
        for site in silent:
            self._member.block(site, disagrees=True)
        self.failed |= silent
        self._start_over()

    def _awaited(self) -> set[SiteId]:
        """Who has not said what this process waits for."""
        site, state = self._core.site, self.state
        if state is Repair.CONSENSUS:
            return {each for each in self.proposed if each != site and not self._agrees(each)}
        if self.proposal is None:
            return set()
        if state is Repair.GATHER_RECOVERY:
            return set(self.proposal.members) - set(self._infos)
        if state is Repair.GATHER_READY:
            return set(self.proposal.members) - set(self._readies)
        if state is Repair.WAIT_FOR_MESSAGE:
            return {self.proposal.leader} - {site}
        return set()

    # ------------------------------------------------------------------ Consensus (Figure 5.5)
    def _announce(self) -> None:
        """Multicast a PJoin."""
        member, core = self._member, self._core
        self._number += 1
        sending = member.group.sending
        packet = PJoin(
            member.epoch,
            member.attempts,
            self._number,
            tuple(sorted(self.procs)),
            tuple(sorted(self.failed)),
            0 if sending is None else sending.seq,
        )
        self._proposals[core.site] = packet
        self._say(packet)
        self._test()

    def _start_over(self) -> None:
        """The sets have grown: back to Consensus, and everything that was ready is rolled back."""
        if self.state is not Repair.CONSENSUS:
            self._roll_back()
            self.proposal = None
            self._own_info = None
            self._infos = {}
            self._accused = None
            self._go(Repair.CONSENSUS)
        self._announce()

    def _roll_back(self) -> None:
        if self._ready is not None:
            self._core.branch("rolled-back")
        self._ready = None
        self._readies = {}
        self._message = None

    def fail(self, sites: Collection[SiteId]) -> None:
        """PFailure."""
        new = set(sites) - self.failed - {self._core.site}
        if new:
            self.procs |= new
            self.failed |= new
            self._start_over()

    def consider(self, sites: Iterable[SiteId]) -> None:
        """PForeign."""
        before = len(self.procs)
        for site in sites:
            if not self._member.is_blocked(site):
                self._consider(site)
        if len(self.procs) != before:
            self._start_over()

    def _consider(self, site: SiteId) -> None:
        if site not in self.procs and len(self.procs) < SENDERS_MAX:
            self.procs.add(site)
            self._member.detector.refresh(site)

    def on_pjoin(self, sender: SiteId, packet: PJoin) -> None:
        """processJoin of Figure 5.5."""
        site = self._core.site
        if not packet.procs:
            self._say(self._proposals[site])
            return
        if sender in self.failed:
            return
        if len(self.procs | set(packet.procs)) > SENDERS_MAX:
            raise WireError(f"more than {SENDERS_MAX} processes are considered")
        if site in packet.fail:
            self._core.branch("failed-by-another")
            self.procs.add(sender)
            self.failed.add(sender)
            self._start_over()
            return
        if sender in packet.fail:
            self._resigned[sender] = packet.seq
        before = (len(self.procs), len(self.failed))
        for each in (sender, *packet.procs):
            self._consider(each)
        self.failed |= set(packet.fail)
        # Whoever is blocked is not considered; but all have to agree on that.
        self.failed |= {each for each in packet.procs if self._member.is_blocked(each) and each != site}
        known = self._proposals.get(sender)
        if known is None or (packet.attempt, packet.number) >= (known.attempt, known.number):
            self._proposals[sender] = packet
        if before != (len(self.procs), len(self.failed)):
            self._start_over()
        elif self.state is Repair.CONSENSUS:
            self._test()
        elif self.proposal is not None and sender in self.proposal.members and self._name() != self.proposal.name:
            # It has begun anew, with the same sets.
            self._start_over()

    def _agrees(self, site: SiteId) -> bool:
        packet = self._proposals.get(site)
        return packet is not None and set(packet.procs) == self.procs and set(packet.fail) == self.failed

    def _name(self) -> str:
        """Of what is agreed on: who, and in which of their repairs."""
        attempts = [(site, self._proposals[site].attempt) for site in self.proposed if site in self._proposals]
        described = repr((attempts, sorted(self.procs), sorted(self.failed)))
        return blake2b(described.encode(), digest_size=8).hexdigest()

    def _test(self) -> None:
        """consensusReached of Figure 5.5."""
        if self.state is Repair.CONSENSUS and all(self._agrees(site) for site in self.proposed):
            self._core.branch("consensus")
            self.proposal = Proposal(self._name(), tuple(self.proposed))
            self._go(Repair.GATHER_CUT)
            self.go_on()

    # ------------------------------------------------------------------ Gather Cut
    def go_on(self) -> None:
        """Take every step that can be taken now."""
        if self.state is Repair.GATHER_CUT and self._cut_has_come():
            self._go(Repair.GATHER_RECOVERY)
            self._inform()
        if self.state is Repair.GATHER_RECOVERY:
            self._compute_cut()
        if self.state is Repair.RECOVERY:
            self._recover()
        if self.state is Repair.GATHER_READY:
            self._commit()
        if self._message is not None and self.state in (Repair.RECOVERY, Repair.WAIT_FOR_MESSAGE):
            self._install()

    def _cut_has_come(self) -> bool:
        """Whether the hierarchy has told what all receivers have; nobody waits longer than `cut_seconds`."""
        member, core = self._member, self._core
        name = member.group.name
        if core.control.receivers(name) <= len(member.members) or not member.members:
            return True
        report = core.control.cut_of(name, member.epoch.key)
        gone = sum(site in self.failed for site in member.members)
        if report is not None and report.reporters >= core.control.receivers(name) - gone:
            return True
        if 0 <= core.now - self._since < core.membership.options.cut_seconds:
            return False
        core.branch("cut-not-awaited")
        return True

    # ------------------------------------------------------------------ Gather Recovery
    def _inform(self) -> None:
        """Send a RecInfo."""
        member, core = self._member, self._core
        proposal = self.proposal
        if proposal is None:
            return
        sending = member.group.sending
        self._version += 1
        report = core.control.cut_of(member.group.name, member.epoch.key)
        numbers = member.numbers
        if member.group.own is None and core.site not in member.left:
            # Else its PLeave counts. (e leaves, wants to send again, and goes on alone: a receiver that lacks that
            # PLeave would end the view without it, and e has ended it with it.)
            numbers.pop(core.site, None)
        heard = {} if report is None else report.last
        resigned = {sender: seq for sender, seq in self._resigned.items() if sender in numbers}
        for sender, seq in (*heard.items(), *resigned.items()):
            if sender != core.site:
                numbers[sender] = max(numbers.get(sender, 0), seq)
        times = self._times(numbers)
        for sender, most in self._lowered.items():
            if numbers.get(sender, 0) > most:
                numbers[sender] = most
                times[sender] = 0
        delivered = max(
            [stream.ordered_at for each, stream in member.group.streams.items() if each not in proposal.members],
            default=0,
        )
        # What our messages may depend on counts as delivered: another group, or a service without an order, may have
        # brought it before its turn here. (Else: f is silent in g; c's m1 to g waits, c's m2 to h does not; a has m2,
        # multicasts m3 to g, and goes on without c and f: m3 belongs to the view, and m1 does not.)
        depends = 0 if sending is None else sending.depends
        delivered = max(delivered, member.order.last[0], depends, 0 if report is None else report.time)
        first = 1 if sending is None else sending.seq + 1
        self._own_info = RecInfo(proposal.name, self._version, member.epoch, delivered, numbers, times, first)
        self._infos[core.site] = self._own_info
        self._say(self._own_info)

    def _times(self, numbers: Numbers) -> Numbers:
        """Up to which time nothing is missing of each sender; whoever has left, or resigns, sends nothing more."""
        member = self._member
        times: Numbers = {}
        for sender in numbers:
            stream = member.group.streams.get(sender)
            if stream is not None and self._resigned.get(sender, stream.last + 1) > stream.last:
                times[sender] = stream.passed
            elif stream is None and sender not in member.left:
                times[sender] = 0
        return times

    def on_rec_info(self, sender: SiteId, packet: RecInfo) -> None:
        """How far another one is."""
        proposal = self.proposal
        if proposal is None or packet.proposal != proposal.name or sender not in proposal.members:
            return
        known = self._infos.get(sender)
        if known is not None and known.version >= packet.version:
            return
        self._infos[sender] = packet
        if self.state in (Repair.RECOVERY, Repair.GATHER_READY, Repair.WAIT_FOR_MESSAGE) and packet.epoch == (
            self._member.epoch
        ):
            self._roll_back()
            self._go(Repair.GATHER_RECOVERY)
        self.go_on()

    def _compute_cut(self) -> None:
        """E9: of each survivor everything before its first number in the next view, of each other sender of the epoch
        as much as any survivor has."""
        proposal, member = self.proposal, self._member
        if proposal is None or set(self._infos) < set(proposal.members):
            return
        infos = {sender: info for sender, info in self._infos.items() if info.epoch == member.epoch}
        cut: Numbers = {}
        times: Numbers = {}
        for info in infos.values():
            for sender, seq in info.seq_cut.items():
                cut[sender] = max(cut.get(sender, 0), seq)
                times[sender] = max(times.get(sender, 0), info.times.get(sender, TIMESTAMP_MAX - 1))
        for sender, info in infos.items():
            # Whoever was no sender there, and only wants to be one, has sent nothing there.
            if sender in cut:
                cut[sender] = info.first_seq - 1
        for sender, most in self._lowered.items():
            if sender in cut and sender not in proposal.members:
                cut[sender] = min(cut[sender], most)
        # What somebody has delivered counts in any case: everything before it is here, too.
        time = min([times[sender] for sender in cut if sender not in infos], default=TIMESTAMP_MAX - 1)
        self._cut = Cut(cut, max(time, *(info.cut for info in infos.values())), time)
        self._progress_at = self._core.now
        self._go(Repair.RECOVERY)

    # ------------------------------------------------------------------ Recovery
    def _recover(self) -> None:
        member, core, proposal = self._member, self._core, self.proposal
        if proposal is None or member.missing(self._cut.last) is not None:
            return
        core.branch("recovered")
        sending = member.group.sending
        first = 1 if sending is None else sending.seq + 1
        survivors = [site for site, info in self._infos.items() if info.epoch == member.epoch]
        proxied = member.order.proxied_before(self._cut, survivors)
        self._ready = RTC(proposal.name, member.epoch, self._cut, first, core.clock.tick(core.now), proxied)
        self._readies[core.site] = self._ready
        self._say(self._ready)
        self._go(Repair.GATHER_READY if proposal.leader == core.site else Repair.WAIT_FOR_MESSAGE)

    def note_progress(self) -> None:
        """Something that was missing has come."""
        self._progress_at = self._core.now

    def on_pfail_block(self, sender: SiteId, packet: PFailBlock) -> None:
        """Somebody cannot get a message: either it lies, or the holder of the message has failed (Figure 5.5)."""
        member, core = self._member, self._core
        stream = member.group.streams.get(packet.proc)
        delivered = 0 if stream is None else stream.taken
        failed = sender if delivered >= packet.proc_seq or packet.proc in member.left else packet.proc
        if failed == core.site:
            return
        if failed not in self.failed:
            member.block(failed)
        if failed in self.procs - self.failed:
            core.branch("accuser-failed" if failed == sender else "holder-failed")
            self.failed.add(failed)
            self._start_over()
            return
        # Also of a sender of which nobody here knows but the hierarchy. (Else: c sponsors p, and b hears neither of
        # them; a receiver's report tells b of p's messages; b, alone in its repair, lacks them for ever.)
        most = 0 if stream is None else packet.proc_seq - 1
        if failed == packet.proc and self._lowered.get(failed, packet.proc_seq) > most:
            core.branch("cut-lowered")
            self._lowered[failed] = most
            if self.state in (Repair.RECOVERY, Repair.GATHER_READY, Repair.WAIT_FOR_MESSAGE):
                self._roll_back()
                self._go(Repair.GATHER_RECOVERY)
            if self.state is Repair.GATHER_RECOVERY:
                self._inform()
                self.go_on()

    # ------------------------------------------------------------------ Gather Ready To Commit
    def on_rtc(self, sender: SiteId, packet: RTC) -> None:
        """Another one is ready."""
        proposal = self.proposal
        if proposal is None or packet.proposal != proposal.name or sender not in proposal.members:
            return
        self._readies[sender] = packet
        self.go_on()

    def _commit(self) -> None:
        """Everyone is ready: choose a name, and tell all."""
        proposal, core, member = self.proposal, self._core, self._member
        if proposal is None or set(self._readies) < set(proposal.members):
            return
        cuts: dict[ViewId, Cut] = {}
        for ready in self._readies.values():
            if cuts.setdefault(ready.epoch, ready.cut) != ready.cut:
                # Somebody knows of a cut that was lowered, and somebody does not yet.
                return
        readies = {site: self._readies[site] for site in proposal.members}
        time = max(ready.time for ready in readies.values()) + 1
        core.clock.observe(time, core.now)
        self._message = MC(
            member.group.name,
            proposal.name,
            ViewId(time, core.site, member.attempts),
            {site: ready.epoch for site, ready in readies.items()},
            tuple(sorted(cuts.items())),
            {site: ready.first_seq for site, ready in readies.items()},
            highest([ready.proxied for ready in readies.values()]),
        )
        self._say(self._message)
        self._go(Repair.WAIT_FOR_MESSAGE)

    # ------------------------------------------------------------------ Wait for Membership Change, Deliver and Install
    def on_mc(self, packet: MC) -> None:
        """The leader says that everyone is ready."""
        proposal = self.proposal
        if proposal is None or packet.proposal != proposal.name or packet.view.leader != proposal.leader:
            return
        if set(packet.old) != set(proposal.members):
            raise WireError("an MC that does not fit its proposal")
        if self._ready is not None or self.state is Repair.RECOVERY:
            self._message = packet
            self.go_on()

    def _install(self) -> None:
        message, member = self._message, self._member
        if message is None:
            return
        cut = message.cut_of(member.epoch)
        if cut is None or member.missing(cut.last) is not None:
            return
        if self.state is Repair.RECOVERY:
            self._go(Repair.WAIT_FOR_MESSAGE)
        self._go(Repair.DELIVER_AND_INSTALL)
        member.agreed = {
            site: (packet.attempt, packet.number)
            for site, packet in self._proposals.items()
            if site in message.old and site != self._core.site
        }
        member.repair = None
        member.deliver_and_install(message)
        member.course.go(State.SENDER)
        self._core.transmission.begin_sending(member.group)
        member.follow_wish()
