"""Establishment of clusters: of the first one, of one without those who crashed, of one with those who came (back).

The paper cites it only, and aborts the cluster when a process crashes. Here a cluster is established by the agreement
that also ends an epoch after a loss; any process may propose one, of a majority of all processes, and the latest
proposal wins. Whoever has joined it takes no part in an earlier one.
"""

from __future__ import annotations

from typing import cast

from ordercast.core import Context, Packet, SiteId
from ordercast.core.effects import JoinChannel
from ordercast.core.events import Arrival, Recovered, Started, TimerFired
from ordercast.protocols.selective_total.packets import NO_EPOCH, Abort, Apply
from ordercast.protocols.selective_total.recovery import Recovery

PRESENT_PERIODS = 10
"""Whoever has applied within so many periods is there: several losses in a row are rare."""
STAGGER_PERIODS = 2
"""The second by name proposes so many periods after the first should have, the third after twice as many, …"""


class Establishment(Recovery):
    """Who is in the cluster. Silence is counted in periods and not in seconds: a clock may jump."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        options = self.options
        self.silence_periods = max(4, round(options.silence_seconds / options.receive_ready_seconds))
        self.silent: dict[SiteId, int] = dict.fromkeys(context.sites, PRESENT_PERIODS + 1)
        """Periods since anything was heard of a process."""
        self.applied: dict[SiteId, int] = {}
        """Who has applied, and how many periods ago."""
        self.tick = 0
        self.waiting = 0
        """Periods for which there has been a reason for another cluster."""

    # ------------------------------------------------------------------ life
    def on_started(self, event: Started) -> None:
        """Hear the channel, and apply."""
        self.outbox.append(JoinChannel(self.options.channel))
        self.give_credit()
        self.set_timer("tick", self.context.random.random() * self.options.receive_ready_seconds)

    def on_recovered(self, event: Recovered) -> None:
        """After a crash a process is a stranger to its cluster, and applies anew. It is not *recovered* in the sense of
        the model: what the others delivered meanwhile it never gets."""
        self.on_started(Started())

    def on_timer_fired(self, event: TimerFired) -> None:
        """Timers have the names of their handlers."""
        getattr(self, f"on_{cast(str, event.timer)}_timeout")()

    def note_heard(self, sender: SiteId, packet: Packet) -> None:
        """A process is there; and who speaks otherwise no longer applies."""
        if sender in self.silent:
            self.silent[sender] = 0
            if self.applied and not isinstance(packet, Apply):
                self.applied.pop(sender, None)

    # ------------------------------------------------------------------ the period
    def on_tick_timeout(self) -> None:
        """Repeat what may have been lost, count who is silent, and see whether there should be another cluster.

        Periods differ by a quarter, at random. (Else: all processes speak at the same moments, and small buffers
        overrun at each of them.)
        """
        options = self.options
        self.set_timer("tick", options.receive_ready_seconds * (0.75 + 0.5 * self.context.random.random()))
        self.tick += 1
        for site in self.silent:
            self.silent[site] += 1
        self.silent[self.site] = 0
        self.applied = {site: periods + 1 for site, periods in self.applied.items() if periods < PRESENT_PERIODS}
        if self.aborted:
            self.broadcast(Abort(self.epoch, self.aborted))
            return
        self.repeat()
        self.spoke = False
        self.look_for_members()

    def repeat(self) -> None:
        """What may have been lost."""
        self.sent_again.clear()
        cluster, agreement, idle = self.cluster, self.agreement, self.tick % self.options.idle_periods == 0
        if agreement is not None:
            for message in agreement.to_repeat():
                self.broadcast(message)
            self.send_orphans(agreement)
            self.ask(agreement)
        elif cluster is None:
            self.broadcast(Apply(self.seen, self.context.incarnation))
        else:
            if idle or not (self.spoke or cluster.settled):
                self.send_receive_ready()
            self.look_for_losses()

    def look_for_losses(self) -> None:
        """Others have accepted messages that never came here. They may have been for others; but when their source says
        nothing for long, they count as lost (4.1)."""
        cluster = self.cluster
        if cluster is None:
            return
        for source, member in enumerate(cluster.members):
            behind = cluster.treq[source] < max(cluster.accepted_by[source])
            if behind and self.silent[member] > self.options.loss_periods:
                self.branch("loss-by-others")
                self.start_reset()
                return

    # ------------------------------------------------------------------ members
    def on_apply(self, sender: SiteId, packet: Apply, arrival: Arrival) -> None:
        """A process is in no cluster."""
        self.seen = max(self.seen, packet.number)
        if sender in self.silent:
            self.applied[sender] = 0
            self.incarnations[sender] = max(self.incarnations[sender], packet.incarnation)

    def look_for_members(self) -> None:
        """Whether there is a reason for another cluster; if it lasts, propose one."""
        members = self.wanted_members()
        if members is None:
            self.waiting = 0
            if self.cluster is not None:
                self.say_blocked("")
            return
        if 2 * len(members) <= len(self.context.sites):
            gone = [site for site in self.context.sites if site not in members]
            self.say_blocked(f"no majority: nothing is heard of {', '.join(gone)}")
            return
        if self.cluster is not None and self.options.after_crash == "abort":
            gone = [site for site in self.cluster.members if site not in members or site in self.applied]
            self.abort(f"{', '.join(gone)} crashed" if gone else "a process applies")
            return
        self.waiting += 1
        if self.waiting > STAGGER_PERIODS * members.index(self.site):
            self.waiting = 0
            self.branch("proposed")
            self.send_reset((self.seen + 1, self.site, 0), members)

    def wanted_members(self) -> tuple[SiteId, ...] | None:
        """Who should be in another cluster; None when there is no reason for one."""
        if self.cluster is None and self.agreement is None:
            return self.founders()
        agreement = self.agreement
        if agreement is not None:
            current = agreement.members
            # Those who apply meanwhile hear of it, or are in the next; unless they have crashed in the middle of it.
            known = zip(agreement.members, agreement.incarnations, strict=False)
            new = {site for site, incarnation in known if self.incarnations[site] != incarnation}
        else:
            current = self.cluster.members if self.cluster else ()
            new = set(self.applied)
        alive = {site for site in current if self.silent[site] <= self.silence_periods} | {self.site}
        if alive == set(current) and not new:
            return None
        return tuple(sorted(alive | new))

    def founders(self) -> tuple[SiteId, ...] | None:
        """Everyone, when everyone applies; after a long silence, those who do."""
        there = {site for site, periods in self.applied.items() if periods <= PRESENT_PERIODS} | {self.site}
        others = any(self.silent[site] <= self.silence_periods for site in self.silent if site not in there)
        if len(there) == len(self.context.sites) or (self.tick > self.silence_periods and not others):
            return tuple(sorted(there))
        return None

    # ------------------------------------------------------------------ the end
    def on_abort(self, sender: SiteId, packet: Abort, arrival: Arrival) -> None:
        """The cluster is over."""
        if packet.epoch[:2] == self.epoch[:2] != NO_EPOCH[:2] and not self.aborted:
            self.abort(packet.reason)

    def abort(self, reason: str) -> None:
        """Deliver nothing more, tell the others and the application."""
        self.branch("aborted")
        self.aborted = reason
        self.agreement = None
        self.broadcast(Abort(self.epoch, reason))
        self.say_blocked(f"the cluster is aborted: {reason}")
