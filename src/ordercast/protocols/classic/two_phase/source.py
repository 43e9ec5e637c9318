"""The source's part: collect priorities, decide, announce, and repeat all that until everyone is done."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, MessageId, Multicast, SiteId
from ordercast.core.effects import Credit
from ordercast.protocols.classic.two_phase.packets import Data, Decided, Final, Proposal, Sent

if TYPE_CHECKING:
    from ordercast.protocols.classic.two_phase.protocol import TwoPhase

RESEND_MAX = 64
"""Packets repeated to one site at a time: a quarter of the default window, so that a site that comes back has all of
it after four rounds, and is not drowned."""


class Outgoing:
    """A message under way."""

    __slots__ = (
        "ahead",
        "born_tick",
        "destinations",
        "final",
        "maximum",
        "message",
        "missing",
        "multicast",
        "noted",
        "sent_tick",
        "unacknowledged",
    )

    def __init__(self, multicast: Multicast, destinations: tuple[SiteId, ...], others: tuple[SiteId, ...], tick: int):
        self.multicast = multicast
        self.message = multicast.id
        self.destinations = destinations
        self.missing = set(others)
        """Who has not proposed a priority."""
        self.maximum = 0
        """The highest priority proposed."""
        self.final = 0
        """The priority decided; 0 when it is not."""
        self.noted: set[SiteId] = set()
        """Who has the final priority for certain, and only has to deliver."""
        self.ahead = 0
        """At how many destinations an earlier message is undecided."""
        self.unacknowledged = len(destinations)
        self.sent_tick = self.born_tick = tick


class Peer:
    """What a source knows of one destination."""

    __slots__ = ("burst", "last_final", "next_tick", "unacknowledged", "undecided", "wait_ticks")

    def __init__(self) -> None:
        self.undecided: deque[Outgoing] = deque()
        self.unacknowledged: deque[Outgoing] = deque()
        """Both in the order of sending."""
        self.last_final = 0
        self.next_tick = 0
        self.wait_ticks = 1
        self.burst = RESEND_MAX

    def on_progress(self) -> None:
        """The site is there: repeat soon, and as much as it takes."""
        self.next_tick = 0
        self.wait_ticks = 1
        self.burst = RESEND_MAX

    def back_off(self, tick: int, wait_ticks_max: int) -> None:
        """Something was repeated: wait twice as long with the next time, and then try with less."""
        self.next_tick = tick + self.wait_ticks
        self.wait_ticks = min(2 * self.wait_ticks, wait_ticks_max)
        self.burst = max(1, self.burst // 4)


class Source:
    """A site that multicasts, member or not."""

    def __init__(self, core: TwoPhase) -> None:
        self._core = core
        self.pending: dict[MessageId, Outgoing] = {}
        """Not yet taken by the application of every destination, in the order of sending."""
        self.peers: dict[SiteId, Peer] = {}

    # ------------------------------------------------------------------ first phase
    def multicast(self, multicast: Multicast) -> None:
        """Log and send a message; when this site is a destination, give it a priority on the way."""
        core = self._core
        destinations = core.destinations(multicast)
        number = core.destination.give_number() if core.site in destinations else 0
        core.append(Sent(multicast, number))
        outgoing = self.keep(multicast, destinations, number)
        if number:
            core.destination.enqueue(multicast, number)
        if len(self.pending) == core.options.window_messages:
            core.branch("window-full")
        core.send(core.others(destinations), Data(multicast))
        core.keep_ticking()
        self._decide_if_possible(outgoing)

    def keep(self, multicast: Multicast, destinations: tuple[SiteId, ...], number: int) -> Outgoing:
        """Remember a message until every destination is done with it."""
        core = self._core
        outgoing = Outgoing(multicast, destinations, core.others(destinations), core.tick)
        outgoing.maximum = number
        self.pending[outgoing.message] = outgoing
        for site in destinations:
            peer = self.peer(site)
            if peer.undecided:
                outgoing.ahead += 1
            peer.undecided.append(outgoing)
            peer.unacknowledged.append(outgoing)
        return outgoing

    def peer(self, site: SiteId) -> Peer:
        """What we know of a destination."""
        peer = self.peers.get(site)
        if peer is None:
            peer = self.peers[site] = Peer()
        return peer

    def on_proposal(self, site: SiteId, proposal: Proposal) -> None:
        """A destination has given a priority."""
        outgoing = self.pending.get(proposal.message)
        if outgoing is None or site not in outgoing.missing:
            return
        outgoing.missing.discard(site)
        if proposal.number > outgoing.maximum:
            outgoing.maximum = proposal.number
        self.peers[site].on_progress()
        self._decide_if_possible(outgoing)

    # ------------------------------------------------------------------ second phase
    def _decide_if_possible(self, outgoing: Outgoing) -> None:
        """Decide when all priorities are there and no earlier message to one of the destinations is undecided.

        The second half gives source order. (Else: m1 and m2 go to d, m1 is lost on the way, m2 gets its final
        priority and is delivered, m1 is sent again and is delivered after it.)
        """
        core = self._core
        if outgoing.missing:
            return
        if outgoing.ahead:
            core.branch("waited-for-earlier")
            return
        ready = deque((outgoing,))
        while ready:
            outgoing = ready.popleft()
            number = max(outgoing.maximum, max(self.peers[site].last_final for site in outgoing.destinations))
            if number > outgoing.maximum:
                core.branch("raised")
            # Stable before anyone hears of it. (Else: 5, which d gave, is announced to d, which delivers and remembers
            # only that it is done; crash; the source asks again, and e, which gave 4, is the only one to answer.)
            core.append(Decided(outgoing.message, number))
            core.branch("decided")
            ready.extend(self.settle(outgoing, number))
            core.send(core.others(outgoing.destinations), Final(outgoing.message, number))
            entry = core.destination.entries.get(outgoing.message)
            if entry is not None:
                core.destination.finalize(entry, number)

    def settle(self, outgoing: Outgoing, number: int) -> list[Outgoing]:
        """Note a decision; the messages that only waited for this one.

        A later message to a common destination gets no lower number: with equal numbers the names decide.
        """
        outgoing.final = number
        outgoing.missing.clear()
        outgoing.sent_tick = self._core.tick
        freed = []
        for site in outgoing.destinations:
            peer = self.peers[site]
            peer.undecided.popleft()
            peer.last_final = number
            if peer.undecided:
                following = peer.undecided[0]
                following.ahead -= 1
                if not following.ahead and not following.missing:
                    freed.append(following)
        return freed

    def on_noted(self, site: SiteId, message: MessageId) -> None:
        """A destination has the final priority, and others before it to deliver."""
        outgoing = self.pending.get(message)
        if outgoing is None or not outgoing.final or site not in outgoing.destinations:
            return
        if site not in outgoing.noted:
            outgoing.noted.add(site)
            self.peers[site].on_progress()

    def on_acknowledge(self, site: SiteId, through: MessageId) -> None:
        """A destination is done with our messages up to one."""
        peer = self.peers.get(site)
        if peer is None:
            return
        unacknowledged = peer.unacknowledged
        finished = False
        while unacknowledged and unacknowledged[0].message <= through and unacknowledged[0].final:
            outgoing = unacknowledged.popleft()
            outgoing.unacknowledged -= 1
            peer.on_progress()
            if not outgoing.unacknowledged:
                del self.pending[outgoing.message]
                finished = True
        if finished:
            self.give_credit()

    def give_credit(self) -> None:
        """Tell the application how much it may send."""
        self._core.outbox.append(Credit(max(0, self._core.options.window_messages - len(self.pending))))

    # ------------------------------------------------------------------ repetition
    def resend(self) -> None:
        """Say again what was not answered for a while, in one packet to all who have not."""
        core = self._core
        tick = core.tick
        silent: dict[Outgoing, list[SiteId]] = {}
        for site, peer in self.peers.items():
            if site == core.site or not peer.unacknowledged or tick < peer.next_tick:
                continue
            repeated = self._unanswered(site, peer)
            for outgoing in repeated:
                silent.setdefault(outgoing, []).append(site)
            if repeated:
                peer.back_off(tick, core.wait_ticks_max)
        for outgoing, sites in silent.items():
            outgoing.sent_tick = tick
            if outgoing.final:
                core.branch("announced-again")
                core.send(tuple(sites), Final(outgoing.message, outgoing.final))
            else:
                core.branch("sent-again")
                core.send(tuple(sites), Data(outgoing.multicast))

    def _unanswered(self, site: SiteId, peer: Peer) -> list[Outgoing]:
        """What to repeat to a site now, at most a burst.

        Messages whose priority the site has noted it can only finish when others before them are. When it has noted
        everything the first of them is repeated: perhaps only its acknowledgement was lost. (Repeating the first ones
        whether noted or not: the site has noted m1 and m2 and delivers neither, since m3, which it gave a lower
        priority, is before them, and m3 is never repeated.)
        """
        tick = self._core.tick
        unanswered = []
        for outgoing in peer.unacknowledged:
            # Sent in the last interval: it has not waited for a whole one.
            if tick - outgoing.sent_tick < 2 or site in outgoing.noted:
                continue
            if outgoing.final or site in outgoing.missing:
                unanswered.append(outgoing)
                if len(unanswered) == peer.burst:
                    break
        first = peer.unacknowledged[0]
        if not unanswered and site in first.noted and tick - first.sent_tick >= 2:
            unanswered.append(first)
        return unanswered

    def resume(self, sent: list[Outgoing]) -> None:
        """After a crash: send what the log has and nobody may have heard of, decide what only we have to decide.

        To ourselves as well, so that the order in which messages leave is the order in which they were multicast even
        for one that is addressed to this site alone.
        """
        for outgoing in sent:
            if not outgoing.final or outgoing.destinations == (self._core.site,):
                self._core.send(outgoing.destinations, Data(outgoing.multicast))
        for outgoing in list(self.pending.values()):
            if not outgoing.final and not outgoing.missing and not outgoing.ahead:
                self._decide_if_possible(outgoing)
        self.give_credit()

    # ------------------------------------------------------------------ blocking
    def whom_we_wait_for(self) -> str:
        """The reason why a message is not decided, or the application may not send; empty when neither lasts long."""
        core = self._core
        for site, peer in self.peers.items():
            if not peer.undecided:
                continue
            oldest = peer.undecided[0]
            if site in oldest.missing and self._is_overdue(oldest):
                return f"site {site} has not given {oldest.message} a priority"
        if len(self.pending) >= core.options.window_messages:
            for site, peer in self.peers.items():
                if peer.unacknowledged and self._is_overdue(peer.unacknowledged[0]):
                    return f"the window is full: site {site} has not taken {peer.unacknowledged[0].message}"
        return ""

    def _is_overdue(self, outgoing: Outgoing) -> bool:
        core = self._core
        return core.ticks_as_seconds(core.tick - outgoing.born_tick) >= core.options.blocked_seconds

    def check_invariants(self) -> None:
        """Undecided messages stand in line at each destination, in order; what is decided is above what was before."""
        for site, peer in self.peers.items():
            if peer.undecided and peer.undecided[0].final:
                raise InvariantViolation(f"{peer.undecided[0].message} is decided and holds up others at {site}")
            if len(peer.undecided) > len(peer.unacknowledged) or len(peer.unacknowledged) > len(self.pending):
                raise InvariantViolation(f"{site} has more messages to decide or to acknowledge than there are")
        for outgoing in self.pending.values():
            if outgoing.final and outgoing.final < outgoing.maximum:
                raise InvariantViolation(
                    f"{outgoing.message} has the final priority {outgoing.final}, below a given one"
                )
            if not (outgoing.final or outgoing.missing or outgoing.ahead):
                raise InvariantViolation(f"{outgoing.message} could be decided")
