"""One process in the membership of one group (5.3): its state, its view, and what makes it leave a state."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from ordercast.core import SiteId
from ordercast.core.effects import Activate, Broadcast, InstallView
from ordercast.protocols.intergroup.membership.bootstrap import Bootstrap, Sponsorship
from ordercast.protocols.intergroup.membership.changes import HURRY, Changes
from ordercast.protocols.intergroup.membership.mra import RepairRun
from ordercast.protocols.intergroup.membership.packets import (
    EMPTY,
    MC,
    SENDERS_MAX,
    Numbers,
    PFailBlock,
    PJoin,
    ViewRequest,
)
from ordercast.protocols.intergroup.membership.rmra import ReceiverRun
from ordercast.protocols.intergroup.membership.roles import AS_NEEDED, OUT, SENDER, InRole
from ordercast.protocols.intergroup.membership.states import WAYS, Course, State
from ordercast.protocols.intergroup.packets import Data, PAdd, ViewId
from ordercast.protocols.intergroup.senders import SenderGroup
from ordercast.protocols.intergroup.stream import Stream

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.group import ProcessGroup
    from ordercast.protocols.intergroup.protocol import InterGroup

_OUT, _SENDER = State.OUT, State.SENDER
"""Asked for with each packet and each message: an enumeration's own attributes take Python longer than the rest."""
ASLEEP = 4
"""Periods of the membership timer: if more are over when it fires, this process has stood still, or its clock was
set."""


class Member(InRole):
    """Where one process is in one group's membership."""

    __slots__ = (
        "_asking_since",
        "_disagreed",
        "_holds",
        "_invited_at",
        "_said_at",
        "_ticked_at",
        "_waited",
        "attempts",
        "blocked",
        "bootstrap",
        "changes",
        "course",
        "newest",
        "reception",
        "repair",
        "sponsorship",
    )

    def __init__(self, core: InterGroup, group: ProcessGroup, wants: str, role: str = AS_NEEDED) -> None:
        super().__init__(core, group, wants, role)
        self.course = Course(State.BOOTSTRAP_RECEIVER, WAYS, core.branch)
        self.changes = Changes(self)
        self.bootstrap: Bootstrap | None = None
        self.sponsorship: Sponsorship | None = None
        self.repair: RepairRun | None = None
        self.reception: ReceiverRun | None = None
        self.attempts = 0
        self.blocked: dict[SiteId, float] = {}
        """blockSet: who is not considered for a view -> since when."""
        self._disagreed: dict[SiteId, int] = {}
        """Who of them is there because it did not agree -> its newest attempt then."""
        self.newest: dict[SiteId, tuple[int, int]] = {}
        """Process -> attempt and number of the newest PJoin that has come from it."""
        self._said_at = -1.0e9
        """When MC was said again."""
        self._invited_at = -1.0e9
        """When somebody from outside has started a repair."""
        self._ticked_at = core.now
        self._waited = 0
        """Periods for which a process has waited until it may leave."""
        self._asking_since = core.now
        """Since when a receiver asks what became of senders that are silent."""
        self._holds: dict[SiteId, tuple[int, float]] = {}
        """Newcomers to whom this process has told its view -> the time at which they begin, and when that was."""

    # ------------------------------------------------------------------ what others ask
    @property
    def state(self) -> State:
        """Where this process is in the membership."""
        return self.course.state

    @property
    def may_send(self) -> bool:
        """Whether Data may leave. Not from the beginning of a repair until it has installed a view: else a message
        before firstSeq would have a timestamp above the time of the new view. Nor when the others are known to have
        gone on without this process (`_be_overtaken`)."""
        return self.course.state is _SENDER and not self.order.halted

    @property
    def gives_credit(self) -> bool:
        """Whether it should: not while a repair is under way. (Else: b's m1 to this group waits until that is over, its
        m2 to another group does not; c has m2, multicasts m3 to this group, and m3 has the earlier timestamp.)"""
        return self.takes_messages and self.may_send

    def is_blocked(self, site: SiteId) -> bool:
        """Whether it is in the blockSet (5.2.3)."""
        return site in self.blocked

    def _unblock(self) -> None:
        """Take out whoever has been there for long enough; not while a repair is under way."""
        if self.repair is None and self.blocked:
            now, over = self.core.now, self.core.membership.options.block_seconds
            self.blocked = {site: at for site, at in self.blocked.items() if 0 <= now - at < over}

    @property
    def is_out(self) -> bool:
        """Whether it has left the group."""
        return self.state is State.OUT

    def block(self, site: SiteId, *, disagrees: bool = False) -> None:
        """Put it there; because it did not agree, or because it cannot be believed."""
        if len(self.blocked) < SENDERS_MAX:
            self.blocked[site] = self.core.now
            self._disagreed.pop(site, None)
            if disagrees:
                self._disagreed[site] = self.newest.get(site, (0, 0))[0]

    def _reconsider(self, sender: SiteId, packet: PJoin) -> None:
        """Whoever did not agree, and considers this process in a later repair, hears it now. (Blocked all the same: two
        parts that block each other in turns, each while the other one asks, never come together.)"""
        is_later = packet.attempt > self._disagreed.get(sender, packet.attempt)
        if is_later and self.core.site in packet.procs and self.core.site not in packet.fail:
            self.core.branch("unblocked-again")
            del self._disagreed[sender]
            self.blocked.pop(sender, None)

    # ------------------------------------------------------------------ beginning
    def begin_configured(self, senders: SenderGroup) -> None:
        """The group is in the configuration: all of its processes begin in its first view."""
        self.group.install(senders)
        self.came = {}
        for stream in self.group.others:
            stream.begin(senders.activation_points[stream.sender], senders.start_time)
        self.entered = True
        self.last_view = senders.view
        self.course.state = State.SENDER if self.core.site in senders.members else State.RECEIVER
        self.detector.watch(senders.members)
        self.core.outbox.append(InstallView(self.group.view, senders.members, senders.members, (self.group.name,)))
        self.core.outbox.append(Activate(self.group.name, self.group.service.name))

    def begin_bootstrap(self, lost: tuple[SiteId, ...] = ()) -> None:
        """Look for a sender (5.3.1)."""
        self.bootstrap = Bootstrap(self, lost)

    def tick(self) -> None:
        """The membership timer: say again what was not answered, and see who is silent."""
        core = self.core
        period = core.membership.options.membership_seconds
        if not 0 <= core.now - self._ticked_at <= ASLEEP * period:
            core.branch("asleep")
            self.detector.begin_anew()
            self._foreign.clear()
        self._ticked_at = core.now
        self._unblock()
        self.changes.tick()
        if self.state is State.OUT:
            return
        watched = self.members if self.repair is None else self.repair.proposed
        silent = self.detector.suspect(watched)
        if silent:
            core.branch("suspected")
            self.on_failure(silent)
        for run in (self.bootstrap, self.sponsorship, self.repair, self.reception):
            if run is not None:
                run.tick()
        self._ask_for_the_silent()
        self.proxying.tick()
        self.cease_when_idle()
        self.follow_wish()

    # ------------------------------------------------------------------ the wish of the application
    def follow_wish(self) -> None:
        """In a stable state: do what the application wants."""
        state = self.state
        if state is State.RECEIVER and self.wants == OUT:
            # Not before what it has multicast through a proxy has had its turn, if that does not take too long.
            self._waited += 1
            if not self.proxying.pending or self._waited > HURRY:
                self.exit()
        elif self.order.halted or self.proxying.pending:
            # What is said in a view that is over reaches nobody; and what this process sends itself would overtake
            # what is under way through a proxy.
            return
        elif state is State.SENDER and self.wants != SENDER:
            self.changes.leave()
        elif state is State.RECEIVER and self.wants == SENDER:
            self.course.go(State.TO_SENDER)
            self.begin_sponsorship()
        elif state is State.RECEIVER:
            self.core.transmission.give_credit(self.group)

    def begin_sponsorship(self) -> None:
        """Look for a sponsor."""
        self.sponsorship = Sponsorship(self)
        self.sponsorship.tick()

    def exit(self) -> None:
        """Be out of the group, and answer those who still miss something for a while."""
        if self.state is State.BOOTSTRAP_RECEIVER:
            self.bootstrap = None
        self.course.go(State.OUT)
        self.reception = None
        self.order.halted = True
        # What it has taken and not delivered is delivered no more.
        self.group.service.close()
        self.core.membership.exit(self)

    # ------------------------------------------------------------------ Data and Keep Alives
    def hear(self, sender: SiteId, epoch: ViewId) -> Stream | None:
        """A sender has said something in an epoch: its stream, when it is a sender of the same epoch here."""
        if self.course.state is _OUT:
            return None
        detector, group = self.detector, self.group
        if sender in detector.heard and not detector.suspected:
            # As it would do itself, without a call for each packet.
            detector.heard[sender] = self.core.now
        else:
            detector.hear(sender)
        if epoch == group.senders.epoch:
            stream = group.streams.get(sender)
            if self._foreign and stream is not None:
                self._foreign.pop(sender, None)
            return stream
        if self.bootstrap is not None:
            self.bootstrap.hear(sender)
        elif not self.is_blocked(sender) and (sender in self._foreign or len(self._foreign) < SENDERS_MAX):
            if sender in self.members and epoch.start_time > self.epoch.start_time:
                self._be_overtaken(sender)
            # For a while it may only be later than we are, or we may be.
            since = self._foreign.setdefault(sender, self.core.now)
            if not 0 <= self.core.now - since < self.foreign_patience:
                self.core.branch("foreign")
                self.on_foreign(sender)
        return None

    def _be_overtaken(self, sender: SiteId) -> None:
        """A member of the view is in a later one: from now on nothing is delivered and sent in this one. (Else: b
        stands still, the others go on without it; b is back, and sends m before it has found out. m is delivered by b
        alone, at the end of a view in which nobody else is, though b's next view has all of them.)"""
        if not self.order.halted:
            self.core.branch("view-over")
            self.order.halted = True
            self.core.transmission.give_credit(self.group)
        if self.state in (State.RECEIVER, State.TO_RECEIVER):
            self.wait_for_change()
        if self.reception is not None:
            self.reception.on_overtaken(sender)

    def take(self, stream: Stream, data: Data) -> None:
        """A message has its turn in the order of its source."""
        if data.change is not None and isinstance(data.change, PAdd):
            self.changes.expect(data.change)
        self.order.put(stream, data)

    def go_on(self) -> None:
        """Something has come while nothing is delivered."""
        if self.repair is not None:
            self.repair.go_on()
        elif self.reception is not None:
            self.reception.go_on()

    def on_change(self, sender: SiteId, data: Data) -> None:
        """A PAdd or a PLeave has its turn in the order of the group."""
        self.changes.apply(sender, data)

    def hold(self, site: SiteId) -> None:
        """A newcomer begins where this process is: what comes behind that is acknowledged when the newcomer has had the
        time to be counted."""
        if len(self._holds) < SENDERS_MAX:
            self._holds[site] = (self.order.reached, self.core.now)

    def holds(self) -> list[int]:
        """The times that newcomers began at."""
        now, seconds = self.core.now, 2 * self.core.control.round_seconds()
        self._holds = {site: held for site, held in self._holds.items() if 0 <= now - held[1] < seconds}
        return [held[0] for held in self._holds.values()]

    def on_gone(self, sender: SiteId, seq: int) -> None:
        """A sender no longer has what this process lacks of it."""
        stream = self.group.streams.get(sender)
        if stream is None or stream.state != "active" or seq <= stream.last + 1:
            return
        self.core.branch("began-anew")
        if self.state in (State.SENDER, State.TO_SENDER):
            self.accuse(sender, stream.last + 1)
        elif self.state is State.RECEIVER:
            self.lose_all()

    # ------------------------------------------------------------------ PFailure, PForeign
    def on_failure(self, sites: set[SiteId]) -> None:
        """PFailure: they have been silent for too long."""
        state = self.state
        if state in (State.SENDER, State.TO_SENDER):
            self.start_repair(failed=sites)
        elif self.repair is not None:
            self.repair.fail(sites)
        elif state is State.TO_RECEIVER:
            self.wait_for_change()
        elif state is State.RECEIVER and all(self.detector.is_suspected(each) for each in self.members):
            self.lose_all()

    def _ask_for_the_silent(self) -> None:
        """A receiver does not repair: when some senders are silent, and others go on in the same view, it asks those.
        (Else: c is cut off while a leaves; a has said its PLeave often enough, and c waits for a for ever.)"""
        core, options = self.core, self.core.membership.options
        there = [site for site in self.members if not self.detector.is_suspected(site)]
        if self.state is not State.RECEIVER or len(there) == len(self.members):
            self._asking_since = core.now
        elif not 0 <= core.now - self._asking_since <= options.change_seconds:
            self.lose_all()
        elif there and core.now - self._asking_since > options.change_seconds / 4:
            # By now a repair would have begun.
            core.branch("asked-for-silent")
            core.send((there[0],), ViewRequest(self.group.name, 0, self.epoch, core.clock.read(core.now)))

    def on_left(self, left: Numbers) -> None:
        """A sender tells who has left in this epoch: what is missing of those, up to their PLeave, is asked for."""
        for sender, seq in left.items():
            stream = self.group.streams.get(sender)
            if stream is not None:
                self.core.reception.detect(self.group, stream, seq)

    def lose_all(self) -> None:
        """All senders have failed, or are gone for good: as though this process had just come (5.3.2)."""
        if self.group.own is not None:
            self.end_alone()
        lost = self.members
        self.course.go(State.BOOTSTRAP_RECEIVER)
        self.reception = None
        self.order.halted = True
        if self.wants == OUT:
            self.exit()
        else:
            self.begin_bootstrap(lost)

    def on_foreign(self, site: SiteId) -> None:
        """PForeign: it is in another view."""
        state = self.state
        strangers = self._strangers(site)
        if state in (State.SENDER, State.TO_SENDER):
            self.start_repair(considered=strangers)
        elif self.repair is not None:
            self.repair.consider(strangers)
        elif self.reception is not None:
            # A stranger does not know what has ended this view.
            if site in self.members:
                self.reception.on_foreign(site)
        elif state in (State.RECEIVER, State.TO_RECEIVER) and site in self.members:
            # (A leaver that does nothing: the others have gone on without it, its PLeave never has its turn, they are
            # heard, and so it waits for ever.)
            self.wait_for_change().on_foreign(site)
        elif state is State.RECEIVER and not self.members:
            self.course.go(State.BOOTSTRAP_RECEIVER)
            self.begin_bootstrap()

    def _strangers(self, site: SiteId) -> list[SiteId]:
        """It, and who else has been in another view for as long as the most impatient waits. (One at a time: 32
        processes and 32 others meet again, each proposes another stranger, and each of the 64 says twenty times that
        its sets have grown.)"""
        self._foreign.pop(site, None)
        long_since = self.core.now - self.core.membership.options.foreign_seconds
        strangers = [each for each, since in self._foreign.items() if since <= long_since and not self.is_blocked(each)]
        for each in strangers:
            del self._foreign[each]
        return [site, *strangers]

    # ------------------------------------------------------------------ repairs
    def start_repair(self, considered: Iterable[SiteId] = (), failed: Collection[SiteId] = ()) -> RepairRun | None:
        """Enter the membership repair algorithm (5.4), with some who are new, or without some; None when that is over
        already, for a process that is alone."""
        if self.state is not State.BOOTSTRAP_SENDER:
            self.course.go(State.MRA)
        self.sponsorship = None
        self.core.transmission.prepare(self.group)
        self.attempts += 1
        self.order.halted = True
        self.core.transmission.give_credit(self.group)
        self.repair = RepairRun(self)
        self.repair.begin(considered, failed)
        return self.repair

    def wait_for_change(self) -> ReceiverRun:
        """Enter the receivers' algorithm (5.5)."""
        resigns = self.state is State.TO_RECEIVER
        self.course.go(State.WAIT_FOR_CHANGE)
        self.order.halted = True
        self.reception = ReceiverRun(self, resigns)
        return self.reception

    def on_pjoin(self, sender: SiteId, packet: PJoin) -> None:
        """Somebody repairs."""
        self.detector.hear(sender)
        self._unblock()
        mark = (packet.attempt, packet.number)
        if mark < self.newest.get(sender, (0, 0)):
            self.core.branch("stale")
            return
        if sender in self.newest or len(self.newest) < SENDERS_MAX:
            self.newest[sender] = mark
        if mark <= self.agreed.get(sender, (0, 0)):
            self.say_again(packet.epoch)
            return
        if self.is_blocked(sender):
            self._reconsider(sender, packet)
        if self.is_blocked(sender):
            self.core.branch("blocked-out")
            return
        stream = self.group.streams.get(sender)
        if packet.epoch == self.epoch and stream is not None:
            self.core.reception.detect(self.group, stream, packet.seq)
        state = self.state
        if self.repair is not None:
            self.repair.on_pjoin(sender, packet)
        elif state in (State.SENDER, State.TO_SENDER):
            if stream is not None or self._is_invited(sender, packet):
                run = self.start_repair(considered=[sender])
                if run is not None:
                    run.on_pjoin(sender, packet)
        elif sender in self.members and packet.epoch == self.epoch:
            if state in (State.RECEIVER, State.TO_RECEIVER):
                self.wait_for_change()
            if self.reception is not None:
                self.reception.on_pjoin(packet)

    def _is_invited(self, sender: SiteId, packet: PJoin) -> bool:
        """Whether somebody who is not in the view may start a repair: it considers this process, and there has been
        none of its kind for a while. (Else: whoever holds the key and floods keeps a group in repairs for ever.)"""
        core = self.core
        if core.site in packet.fail or not set(self.members).isdisjoint(packet.fail):
            # It goes on without this process. (Joined now, the repair would fail whoever fails this process, and end
            # alone; by then the other one has ended, too, and hears of this one: out of step for ever.) Or without a
            # member of this view. (Else: b was away, and believes that it is a who has failed; c, who joins b, fails a
            # on the word of a stranger, a fails c for that, and the view falls apart.)
            return False
        if (
            core.site not in packet.procs
            or 0 <= core.now - self._invited_at < core.membership.options.consensus_seconds
        ):
            return False
        core.branch("invited")
        self._invited_at = core.now
        return True

    def on_pfail_block(self, sender: SiteId, packet: PFailBlock) -> None:
        """Somebody cannot get a message."""
        self.detector.hear(sender)
        if packet.epoch != self.epoch or (sender not in self.group.streams and sender != self.core.site):
            return
        state = self.state
        if state in (State.SENDER, State.TO_SENDER):
            self.start_repair()
        if self.repair is not None:
            self.repair.on_pfail_block(sender, packet)
        elif state in (State.RECEIVER, State.TO_RECEIVER):
            self.wait_for_change()

    def accuse(self, proc: SiteId, seq: int) -> None:
        """Tell everyone that a message cannot be had."""
        core = self.core
        core.branch("accused")
        packet = PFailBlock(self.epoch, self.attempts, proc, seq)
        core.outbox.append(Broadcast(self.group.channel, packet))
        self.on_pfail_block(core.site, packet)

    def say_again(self, epoch: ViewId) -> None:
        """Somebody has not heard that the repair is over."""
        core, message = self.core, self.installed
        period = core.membership.options.membership_seconds
        if message is None or epoch == self.epoch or 0 <= core.now - self._said_at < period / 2:
            return
        core.branch("said-again")
        self._said_at = core.now
        core.outbox.append(Broadcast(self.group.channel, message))

    def on_mc(self, sender: SiteId, packet: MC) -> None:
        """A new view."""
        self.detector.hear(sender)
        if self.repair is not None:
            self.repair.on_mc(packet)
        elif packet.cut_of(self.epoch) is not None and self.epoch != EMPTY:
            if self.state in (State.RECEIVER, State.TO_RECEIVER):
                self.wait_for_change()
            if self.reception is not None:
                self.reception.on_mc(packet)
