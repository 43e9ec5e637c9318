"""The source's part: collect priorities, decide, announce, and repeat all that until everyone is done."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, MessageId, Multicast, Part, SiteId, WireError
from ordercast.core.effects import Credit
from ordercast.core.events import Arrival
from ordercast.protocols.classic.two_phase.address import Address
from ordercast.protocols.classic.two_phase.packets import Acknowledge, Data, Decided, Final, Noted, Proposal, Sent
from ordercast.protocols.parts.back_off import BackOff, ticks_in

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
        "others",
        "sent_tick",
        "unacknowledged",
    )

    def __init__(self, multicast: Multicast, address: Address, number: int, tick: int) -> None:
        self.multicast = multicast
        self.message = multicast.id
        self.destinations = address.sites
        self.others = address.others
        self.missing = set(address.others)
        """Who has not proposed a priority."""
        self.maximum = number
        """The highest priority proposed."""
        self.final = 0
        """The priority decided; 0 when it is not."""
        self.noted: set[SiteId] = set()
        """Who has the final priority for certain, and only has to deliver."""
        self.ahead = 0
        """At how many destinations an earlier message is undecided."""
        self.unacknowledged = len(address.sites)
        self.sent_tick = self.born_tick = tick


class Peer:
    """What a source knows of one destination."""

    __slots__ = ("back_off", "last_final", "unacknowledged", "undecided")

    def __init__(self, wait_ticks_max: int) -> None:
        self.undecided: deque[Outgoing] = deque()
        self.unacknowledged: deque[Outgoing] = deque()
        """Both in the order of sending."""
        self.last_final = 0
        self.back_off = BackOff(wait_ticks_max, RESEND_MAX)


class Source(Part):
    """A site that multicasts, member or not."""

    packets = (Proposal, Noted, Acknowledge)
    records = (Sent,)
    branches = ("decided", "waited-for-earlier", "raised", "sent-again", "announced-again", "window-full")

    def __init__(self, core: TwoPhase) -> None:
        self._core = core
        self._wait_ticks_max = ticks_in(core.options.retransmit_seconds_max, core.options.retransmit_seconds)
        self.pending: dict[MessageId, Outgoing] = {}
        """Not yet taken by the application of every destination, in the order of sending."""
        self.pending_bytes = 0
        """Of their payloads."""
        self.peers: dict[SiteId, Peer] = {}
        self._recalled: list[Outgoing] = []
        """After a crash: what was multicast since the checkpoint."""

    # ------------------------------------------------------------------ first phase
    def multicast(self, multicast: Multicast) -> None:
        """Log and send a message; when this site is a destination, give it a priority on the way."""
        core = self._core
        address = core.addresses[multicast.groups, multicast.destinations]
        number = core.destination.give_number() if core.site in address.sites else 0
        core.append(Sent(multicast, number))
        outgoing = self.keep(multicast, address, number)
        if number:
            core.destination.enqueue(multicast, number)
        if len(self.pending) == core.options.window_messages:
            core.branch("window-full")
        if self.pending_bytes >= core.options.window_bytes_max:
            self.give_credit()
        core.send(address.others, Data(multicast))
        core.waiting.keep_ticking()
        self._decide_if_possible(outgoing)

    def keep(self, multicast: Multicast, address: Address, number: int) -> Outgoing:
        """Remember a message until every destination is done with it."""
        outgoing = Outgoing(multicast, address, number, self._core.waiting.tick)
        self.pending[outgoing.message] = outgoing
        self.pending_bytes += len(multicast.payload)
        for site in address.sites:
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
            peer = self.peers[site] = Peer(self._wait_ticks_max)
        return peer

    def on_proposal(self, sender: SiteId, packet: Proposal, arrival: Arrival) -> None:
        """A destination has given a priority."""
        outgoing = self.pending.get(packet.message)
        if outgoing is None or sender not in outgoing.missing:
            return
        outgoing.missing.discard(sender)
        if packet.number > outgoing.maximum:
            outgoing.maximum = packet.number
        self.peers[sender].back_off.begin_anew()
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
            core.send(outgoing.others, Final(outgoing.message, number))
            entry = core.destination.entries.get(outgoing.message)
            if entry is not None:
                core.destination.finalize(entry, number)

    def settle(self, outgoing: Outgoing, number: int) -> list[Outgoing]:
        """Note a decision; the messages that only waited for this one.

        A later message to a common destination gets no lower number: with equal numbers the names decide.
        """
        outgoing.final = number
        outgoing.missing.clear()
        outgoing.sent_tick = self._core.waiting.tick
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

    def on_noted(self, sender: SiteId, packet: Noted, arrival: Arrival) -> None:
        """A destination has the final priority, and others before it to deliver."""
        outgoing = self.pending.get(packet.message)
        if outgoing is None or not outgoing.final or sender not in outgoing.destinations:
            return
        if sender not in outgoing.noted:
            outgoing.noted.add(sender)
            self.peers[sender].back_off.begin_anew()

    def on_acknowledge(self, sender: SiteId, packet: Acknowledge, arrival: Arrival) -> None:
        """The application of a destination has taken messages of ours."""
        if packet.through.source != self._core.site:
            raise WireError(f"{sender} acknowledged somebody else's message")
        self.note_taken(sender, packet.through)

    def note_taken(self, site: SiteId, through: MessageId) -> None:
        """A destination, perhaps this site itself, is done with our messages up to one."""
        peer = self.peers.get(site)
        if peer is None:
            return
        unacknowledged = peer.unacknowledged
        finished = False
        while unacknowledged and unacknowledged[0].message <= through and unacknowledged[0].final:
            outgoing = unacknowledged.popleft()
            outgoing.unacknowledged -= 1
            peer.back_off.begin_anew()
            if not outgoing.unacknowledged:
                del self.pending[outgoing.message]
                self.pending_bytes -= len(outgoing.multicast.payload)
                finished = True
        if finished:
            self.give_credit()

    def give_credit(self) -> None:
        """Tell the application how much it may send."""
        self._core.outbox.append(Credit(self._room()))

    def _room(self) -> int:
        """How many more messages may be under way."""
        options = self._core.options
        if self.pending_bytes >= options.window_bytes_max:
            return 0
        return max(0, options.window_messages - len(self.pending))

    # ------------------------------------------------------------------ repetition
    def resend(self) -> None:
        """Say again what was not answered for a while, in one packet to all who have not."""
        core = self._core
        tick = core.waiting.tick
        silent: dict[Outgoing, list[SiteId]] = {}
        for site, peer in self.peers.items():
            if site == core.site or not peer.unacknowledged or tick < peer.back_off.next_tick:
                continue
            repeated = self._unanswered(site, peer)
            for outgoing in repeated:
                silent.setdefault(outgoing, []).append(site)
            if repeated:
                peer.back_off.note_attempt(tick)
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
        tick = self._core.waiting.tick
        unanswered = []
        for outgoing in peer.unacknowledged:
            # Sent in the last interval: it has not waited for a whole one.
            if tick - outgoing.sent_tick < 2 or site in outgoing.noted:
                continue
            if outgoing.final or site in outgoing.missing:
                unanswered.append(outgoing)
                if len(unanswered) == peer.back_off.burst:
                    break
        first = peer.unacknowledged[0]
        if not unanswered and site in first.noted and tick - first.sent_tick >= 2:
            unanswered.append(first)
        return unanswered

    # ------------------------------------------------------------------ crash and recovery
    def recall_sent(self, record: Sent) -> None:
        """A message that was multicast; when this site is a destination, it was given a priority on the way."""
        core = self._core
        multicast, number = record.multicast, record.number
        address = core.addresses[multicast.groups, multicast.destinations]
        self._recalled.append(self.keep(multicast, address, number))
        if number:
            core.destination.enqueue(multicast, number)

    def resume(self) -> None:
        """After a crash: send what the log has and nobody may have heard of, decide what only we have to decide.

        To ourselves as well, so that the order in which messages leave is the order in which they were multicast even
        for one that is addressed to this site alone.
        """
        recalled, self._recalled = self._recalled, []
        for outgoing in recalled:
            if not outgoing.final or outgoing.destinations == (self._core.site,):
                self._core.send(outgoing.destinations, Data(outgoing.multicast))
        for outgoing in list(self.pending.values()):
            if not outgoing.final and not outgoing.missing and not outgoing.ahead:
                self._decide_if_possible(outgoing)
        self.give_credit()

    # ------------------------------------------------------------------ blocking
    def find_undecided(self) -> tuple[SiteId, str] | None:
        """For whom a message waits that is not decided, and why; None when none waits for long."""
        for site, peer in self.peers.items():
            if not peer.undecided:
                continue
            oldest = peer.undecided[0]
            if site in oldest.missing and self._core.waiting.is_long(oldest.born_tick):
                return site, f"site {site} has not given {oldest.message} a priority"
        return None

    def find_untaken(self) -> tuple[SiteId, str] | None:
        """For whom the application waits that may not send, and why; None when it may, or has not waited for long."""
        if not self._room():
            for site, peer in self.peers.items():
                if peer.unacknowledged and self._core.waiting.is_long(peer.unacknowledged[0].born_tick):
                    return site, f"the window is full: site {site} has not taken {peer.unacknowledged[0].message}"
        return None

    def whom_we_hold_up(self) -> set[SiteId]:
        """The sites that have given a message of ours a priority which others have not."""
        held: set[SiteId] = set()
        for peer in self.peers.values():
            if peer.undecided and peer.undecided[0].missing:
                held.update(set(peer.undecided[0].others) - peer.undecided[0].missing)
        return held

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
