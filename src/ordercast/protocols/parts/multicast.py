"""Reliable multicast (Rodrigues, Guerraoui, Schiper 1998, 3.4): if a site that is up has a message, all destinations
that are up get it; nobody gets it twice, however late a copy comes.

The source posts the message to all. Beyond that there are two ways. *Eager*, as in Chandra and Toueg (1996): whoever
gets it first posts it to all others, (d-1)² packets. *On demand*: whoever hears of a message that it does not have
asks those who do. The second needs a host that lets the others hear of it; then it costs nothing while nobody fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from ordercast.core import MessageId, Multicast, Packet, Part, Protocol, SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.parts.link import Letter, Posting

WANTED_MAX = 64
"""Messages asked for with one packet: what one burst of the link can answer."""
LOOKED_AT_MAX = 4 * WANTED_MAX
"""Wanted messages that are looked at for the next packets, those that have waited for longest: enough for a packet to
each of several sites. (All of them: whoever lacks sixteen thousand looks at as many for each 64 that it asks for.)"""
PATIENCE_MAX = 16
"""A message of which nobody has more than the name, because all who had it are gone, is asked for so much less often
after a while."""


Mark = tuple[int, MessageId]
"""A place in the host's order of delivery."""


class Data(Letter, frozen=True):
    """Source, relay or whoever was asked -> destinations: the message."""

    multicast: Multicast
    floor: tuple[int, int]
    """Incarnation and number: all earlier messages of that source are finished everywhere, so copies are old."""
    bounds: tuple[Mark | None, ...] = ()
    """How far one must have come in the order of delivery to rely on the floor, as the host says: a source that has
    given up a site calls finished what that site may still get from others."""
    began: int = 0
    """The floor says nothing of earlier incarnations than this: the source has lost its log since."""

    def served(self) -> tuple[MessageId, ...]:
        return (self.multicast.id,)


class Want(Packet, frozen=True):
    """Destination -> whoever may have them: send me these messages."""

    wanted: tuple[MessageId, ...]

    def served(self) -> tuple[MessageId, ...]:
        return self.wanted


class Finished:
    """Which messages of one source are over: all below the floor, and some above it, as many as the source's window
    at the most."""

    __slots__ = ("above", "began", "floor", "offered", "retired")

    def __init__(
        self,
        floor: tuple[int, int] = (0, 0),
        above: Iterable[tuple[int, int]] = (),
        began: int = 0,
        retired: Iterable[tuple[int, tuple[int, int]]] = (),
    ) -> None:
        self.floor = floor
        self.began = began
        """The floor is one of the messages of this incarnation and later ones."""
        self.retired = set(retired)
        """The same of earlier lives, one for each log that the source has lost."""
        self.above = set(above)
        self.offered: tuple[tuple[int, int], Mark | None] | None = None
        """A floor on which we cannot rely yet, and how far we must have come. The first one stands until then. (The
        latest: whoever is always a little behind never has one.)"""

    def raise_floor(self, floor: tuple[int, int]) -> None:
        """The source says that everything before is finished everywhere."""
        if floor > self.floor:
            self.floor = floor
            self.above = {name for name in self.above if name >= floor or name[0] < self.began}

    def begin_life(self, began: int) -> None:
        """The source has lost its log: it does not know which of its earlier messages are finished."""
        if began > self.began:
            self.retired.add((self.began, self.floor))
            self.began, self.floor, self.offered = began, (began, 0), None

    def merge(self, other: Finished) -> None:
        """What somebody else knows."""
        self.begin_life(other.began)
        self.retired |= other.retired
        if other.began < self.began:
            self.retired.add((other.began, other.floor))
        else:
            self.raise_floor(other.floor)
        self.above |= other.above

    def __contains__(self, message: MessageId) -> bool:
        name = (message.incarnation, message.number)
        if (name < self.floor and name[0] >= self.began) or name in self.above:
            return True
        return bool(self.retired) and any(began <= name[0] and name < floor for began, floor in self.retired)


class ReliableMulticast(Part):
    """What one site sends, relays, has finished, and misses. The bodies are its host's."""

    packets = (Data, Want)
    timers = ("want",)
    branches = ("relayed", "wanted", "old")

    def __init__(
        self,
        host: Protocol,
        link: Posting,
        *,
        eager: bool,
        want_seconds: float,
        destinations: Callable[[Multicast], tuple[SiteId, ...]],
        find: Callable[[MessageId], Multicast | None],
        on_delivered: Callable[[Multicast], None],
        on_old: Callable[[SiteId, MessageId], None],
        bounds: Callable[[Multicast], tuple[Mark | None, ...]] = lambda multicast: (),
        bound_here: Callable[[Multicast, tuple[Mark | None, ...]], Mark | None] = lambda multicast, bounds: None,
        has_reached: Callable[[Mark | None], bool] = lambda mark: True,
    ) -> None:
        self._host = host
        self._link = link
        self._eager = eager
        self._want_seconds = want_seconds
        self._sites = frozenset(host.context.sites)
        self._destinations = destinations
        self._find = find
        self._on_delivered = on_delivered
        self._on_old = on_old
        self._bounds = bounds
        """What goes with the floor in a message of ours."""
        self._bound_here = bound_here
        """Which of these concerns our site."""
        self._has_reached = has_reached
        """Whether our site has come so far."""
        self.finished: dict[SiteId, Finished] = {}
        self.floor = (0, 0)
        """Of our own messages."""
        self.began = 0
        """The incarnation with which our log begins."""
        self._wanted: dict[MessageId, list[SiteId]] = {}
        """Message that we have only heard of -> whom to ask, the next one first."""
        self._asked: set[MessageId] = set()
        """Those for which the last packets have asked."""
        self._patience = 1

    # ------------------------------------------------------------------ sending
    def multicast(self, multicast: Multicast, to: tuple[SiteId, ...]) -> None:
        """Post a message of ours to these of its destinations."""
        if to:
            self._link.post(to, self.letter(multicast))

    def letter(self, multicast: Multicast) -> Data:
        """A message of ours as it leaves."""
        return Data(self._link.next, multicast, self.floor, self._bounds(multicast), self.began)

    def relay(self, multicast: Multicast, but: SiteId) -> None:
        """Post somebody else's message to the other destinations."""
        self._host.branch("relayed")
        source = multicast.id.source
        others = (s for s in self._destinations(multicast) if s not in (self._host.site, source, but))
        self._post_copy(tuple(others), multicast)

    def _post_copy(self, to: tuple[SiteId, ...], multicast: Multicast) -> None:
        """Only the source says which floor it has, since it knows who may rely on that."""
        if multicast.id.source == self._host.site:
            self.multicast(multicast, to)
        elif to:
            self._link.post(to, Data(self._link.next, multicast, (0, 0)))

    # ------------------------------------------------------------------ receiving
    def on_data(self, sender: SiteId, data: Data, arrival: Arrival) -> None:
        """A message, new or not. The host logs a new one before it is confirmed."""
        multicast = data.multicast
        message = multicast.id
        if message.source not in self._sites:
            raise WireError(f"{message.source} is not a site of the system")
        if self._host.site not in self._destinations(multicast):
            raise WireError(f"{sender} sent {message} to {self._host.site}, which is no destination of it")
        self._take(sender, multicast, self._hear_source(data))
        self._link.acknowledge(sender, data)

    def is_news(self, sender: SiteId, data: Data) -> bool:
        """For a host that is a destination of a message, does not have it, and takes it by itself: whether it is not
        over."""
        message = data.multicast.id
        if message.source not in self._sites:
            raise WireError(f"{message.source} is not a site of the system")
        finished = self._hear_source(data)
        return self._is_new(sender, message, finished) if self._wanted or message in finished else True

    def _hear_source(self, data: Data) -> Finished:
        """What we know of the messages of a source, with what it says with this one."""
        source = data.multicast.id.source
        finished = self.finished.get(source) or self.source(source)
        if data.floor > finished.floor or data.began != finished.began or finished.offered is not None:
            self._take_floor(finished, data)
        return finished

    def _take_floor(self, finished: Finished, data: Data) -> None:
        """Rely on the floor as soon as we have come far enough."""
        finished.begin_life(data.began)
        if finished.offered is None and data.began == finished.began and data.floor > finished.floor:
            finished.offered = (data.floor, self._bound_here(data.multicast, data.bounds))
        if finished.offered is not None and self._has_reached(finished.offered[1]):
            finished.raise_floor(finished.offered[0])
            finished.offered = None

    def take(self, sender: SiteId, multicast: Multicast) -> None:
        """Deliver a message that came, unless it is known."""
        self._take(sender, multicast, self.finished.get(multicast.id.source))

    def _take(self, sender: SiteId, multicast: Multicast, known: Finished | None) -> None:
        if self._find(multicast.id) is None and self._is_new(sender, multicast.id, known):
            self._on_delivered(multicast)
            if self._eager:
                self.relay(multicast, sender)

    def _is_new(self, sender: SiteId, message: MessageId, known: Finished | None) -> bool:
        if known is not None and message in known:
            self._host.branch("old")
            self._on_old(sender, message)
            return False
        if self._wanted and self._wanted.pop(message, None) is not None:
            self._on_wanted_came(message)
        return True

    # ------------------------------------------------------------------ asking
    def want(self, message: MessageId, holders: tuple[SiteId, ...]) -> None:
        """We have heard of a message; soon we ask these sites in turn, unless it comes by itself."""
        if message in self._wanted:
            return
        if not self._wanted or self._patience > 1:
            self._patience = 1
            self._host.set_timer("want", self._want_seconds)
        self._wanted[message] = [site for site in holders if site != self._host.site]

    def _on_wanted_came(self, message: MessageId) -> None:
        """Somebody answers: be patient no longer; and when all has come for which we have asked, ask for the rest.

        (Else: a site that lacks sixteen thousand messages asks for 64 of them every 16 intervals.)
        """
        self._patience = 1
        if message in self._asked:
            self._asked.discard(message)
            if not self._asked:
                self.ask_at_once()

    def ask_at_once(self) -> None:
        """What is wanted does not come by itself."""
        if self._wanted and not self._asked:
            self._host.set_timer("want", 0.0)

    def on_want_timeout(self) -> None:
        """Ask for what has not come."""
        self._asked.clear()
        asked: dict[SiteId, list[MessageId]] = {}
        for message, holders in list(islice(self._wanted.items(), LOOKED_AT_MAX)):
            if self._find(message) is not None or self.is_finished(message):
                # It was in the log, after something that names it; or we have heard from whoever goes on without it
                # that it is over. (Else: a start names m, we are told to go on behind m, and ask for it for ever.)
                del self._wanted[message]
                continue
            wanted = asked.setdefault(holders[0], []) if holders else []
            if holders and len(wanted) < WANTED_MAX:
                wanted.append(message)
                self._asked.add(message)
                # To the end. (Else: messages that nobody has any more are the only ones that are ever asked for.)
                del self._wanted[message]
                self._wanted[message] = holders[1:] + holders[:1]
        for site, wanted in asked.items():
            self._host.branch("wanted")
            self._host.send((site,), Want(tuple(wanted)))
        if self._wanted:
            self._patience = min(2 * self._patience, PATIENCE_MAX)
            self._host.set_timer("want", self._patience * self._want_seconds)

    @property
    def missing(self) -> int:
        """So many messages are known by name only."""
        return len(self._wanted)

    def on_want(self, sender: SiteId, want: Want, arrival: Arrival) -> None:
        """Send what we have to whoever is a destination of it."""
        for message in want.wanted[:WANTED_MAX]:
            multicast = self._find(message)
            if multicast is not None and sender in self._destinations(multicast):
                self._post_copy((sender,), multicast)

    # ------------------------------------------------------------------ what is over
    def source(self, site: SiteId) -> Finished:
        """What we know of the messages of a source."""
        known = self.finished.get(site)
        if known is None:
            known = self.finished[site] = Finished()
        return known

    def finish(self, message: MessageId) -> None:
        """Everyone has it: every copy that still comes is old."""
        self.finish_all((message,))

    def finish_all(self, messages: Iterable[MessageId]) -> None:
        """The same of many."""
        finished, is_any_wanted = self.finished, self._wanted or self._asked
        for message in messages:
            known = finished.get(message.source) or self.source(message.source)
            known.above.add((message.incarnation, message.number))
            if is_any_wanted:
                self.forget(message)

    def forget(self, message: MessageId) -> None:
        """Nobody has it, or everyone: it is not wanted any more."""
        if self._wanted:
            self._wanted.pop(message, None)
        if self._asked:
            self._asked.discard(message)

    def is_finished(self, message: MessageId) -> bool:
        """Whether it is over."""
        known = self.finished.get(message.source)
        return known is not None and message in known
