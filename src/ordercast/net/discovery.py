"""Finding the other processes of a cluster in which none is configured, and going on looking for ever.

A process announces itself: by IP multicast, to the addresses of seeds, and to where those were whom it has lost.
Whoever hears that and does not know it says hello. Peers tell each other of their peers, so that it is enough to find
one. Looking never ends: a network that was split may heal, and a process that has found nobody must not stay alone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Any

from ordercast.core import Packet, SiteId, UsageError
from ordercast.net.packets import KNOWN_MAX, NET_INSTANCE, Goodbye, Known
from ordercast.net.sockets import Resolved
from ordercast.net.transport import Transport
from ordercast.wire.endpoint import Endpoint
from ordercast.wire.whereabouts import Address, is_usable

logger = logging.getLogger("ordercast.net")

SETTLE_SECONDS = 1.0
"""After so long, who is there and can be found was found."""

FOUND_SECONDS = 0.25
"""How much longer a process with a log waits for what the others know of its history, when somebody was found: they
tell of each other at once."""

ANNOUNCE_SECONDS_MIN = 0.05
ANNOUNCE_SECONDS_MAX = 1.0
"""Between two announcements at the start, doubled from the first to the second, and as long as nobody was found."""

ANNOUNCE_SECONDS = 3.0
"""Between two announcements when somebody was: for those who are still to come, or on the other side of a split."""

ANNOUNCE_TTL = 32
"""Routers that an announcement may pass, where they let its address pass at all."""

SEEK_SECONDS_MIN = 0.05
SEEK_SECONDS_MAX = 1.0
"""Between two hellos to a process of which a peer has told."""

SEEK_SECONDS = 10.0
"""After so long without an answer it is forgotten, until somebody tells of it again."""

SOUGHT_MAX = 256
"""Processes of which peers have told and that have not answered yet."""

LOST_MAX = 64
"""Addresses of processes that were known once; the oldest is forgotten first."""

LOST_AT_ONCE = 4
"""To so many of them a process announces itself each time, in turn."""

RELAYED_TO = 8
"""Peers that are told at once of one that was found. The others are told by and by."""

ANSWERS_SECONDS = 0.2
"""Between two announcements to those whom a broadcast has shown to be there."""

GOODBYES = 2
"""Nobody is there to say it again when it is lost."""


class _Sought:
    """A process of which a peer has told."""

    __slots__ = ("due", "since", "wait_seconds", "where")

    def __init__(self, where: Address, now: float) -> None:
        self.where = where
        self.since = self.due = now
        self.wait_seconds = SEEK_SECONDS_MIN


class Discovery:
    """Looks for the others of one process."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        endpoint: Endpoint,
        transport: Transport,
        seeds: Mapping[str, Resolved | None],
        random: Random | None = None,
    ) -> None:
        """`seeds` are addresses as they are configured, and what they mean; None for one that is not known yet. By IP
        multicast a process announces itself where the transport has an address for that."""
        self.settled = False
        """The search has had its time."""
        self._loop = loop
        self._endpoint = endpoint
        self._transport = transport
        self._seeds: dict[str, Address | None] = {text: _plain(where) for text, where in seeds.items()}
        self._random = Random() if random is None else random
        self._sought: dict[SiteId, _Sought] = {}
        self._lost: dict[Address, SiteId] = {}
        self._how: dict[SiteId, str] = {}
        self._found: dict[SiteId, Address] = {}
        """Who was found, and where."""
        self._ended: set[SiteId] = set()
        """Of those, who has said goodbye."""
        self._handles: dict[str, asyncio.Handle] = {}
        self._announce_seconds = ANNOUNCE_SECONDS_MIN
        self._answered_at = 0.0
        self._enter: Callable[..., None] = lambda *_: None
        self._tell: Callable[[tuple[SiteId, ...], bool], None] = lambda _sites, _settled: None

    # ------------------------------------------------------------------ life
    def start(self, enter: Callable[..., None], tell: Callable[[tuple[SiteId, ...], bool], None]) -> None:
        """Begin to look. `enter` makes a turn of something that is done by itself; `tell` is told of those who were
        found, whenever that changes, and when the search has had its time."""
        self._enter = enter
        self._tell = tell
        self._endpoint.on_peer = self._on_peer
        self._later("settle", SETTLE_SECONDS, self._settle)
        self._announce(self._loop.time())

    def stop(self) -> None:
        """Look no more, and let the others know that this process has ended."""
        for handle in self._handles.values():
            handle.cancel()
        self._seeds.clear()
        self._endpoint.on_peer = lambda _site: None
        # (In a fork of the process nothing can be said in its name.)
        with suppress(UsageError):
            for _ in range(GOODBYES):
                self._endpoint.send(tuple(sorted(self._endpoint.established)), NET_INSTANCE, Goodbye())
                for outgoing in self._endpoint.flush():
                    if outgoing.where is None and outgoing.channel is None:
                        self._transport.send(outgoing.to, outgoing.buffer, outgoing.segment)

    def _later(self, what: str, seconds: float, function: Callable[[float], None]) -> None:
        before = self._handles.get(what)
        if before is not None:
            before.cancel()
        self._handles[what] = self._loop.call_later(seconds, self._enter, function)

    def set_seed(self, text: str, where: Resolved) -> None:
        """The name of a seed's host has an address now."""
        self._seeds[text] = _plain(where)
        self._announce_seconds = ANNOUNCE_SECONDS_MIN
        self._later("announce", 0.0, self._announce)

    # ------------------------------------------------------------------ announcing
    def _announce(self, now: float) -> None:
        """Say to whoever may hear it that this process is there."""
        group = self._transport.multicast_address
        if group is not None:
            self._transport.send_hops(group, self._endpoint.announce(), None, ANNOUNCE_TTL)
        for where in self._missing_seeds().values():
            if where is not None:
                self._transport.send_to(where, self._endpoint.announce())
        for where in list(self._lost)[:LOST_AT_ONCE]:
            self._transport.send_to(where, self._endpoint.announce())
            self._lost[where] = self._lost.pop(where)
        if self._found:
            wait = ANNOUNCE_SECONDS * (0.75 + self._random.random() / 2)
            self._gossip()
        else:
            wait = self._announce_seconds
            self._announce_seconds = min(2 * wait, ANNOUNCE_SECONDS_MAX)
        self._later("announce", wait, self._announce)

    def _settle(self, _now: float) -> None:
        self.settled = True
        if not self._found:
            logger.warning("no other process was found yet; looking for %s", ", ".join(self._looked_for()) or "nobody")
        self.tell()

    # ------------------------------------------------------------------ those who were heard of
    def take_sightings(self, now: float, multicast: bool) -> None:
        """Greet those who have announced themselves and are not known here."""
        sightings, self._endpoint.sightings = self._endpoint.sightings, []
        for sighting in sightings:
            if sighting.name is None:
                # Something was broadcast by a process that is not known here: so that it says hello.
                if now >= self._answered_at + ANSWERS_SECONDS:
                    self._answered_at = now
                    self._transport.send_to(sighting.where, self._endpoint.announce())
            else:
                # Also when it is known: only a start that has no session here is told of, so it is another life of it.
                # (Else: killed and started again, it is met only when its first life is forgotten, and it has founded
                # a group of its own by then.)
                self._note(sighting.name, "multicast" if multicast else "came")
                self._endpoint.greet(sighting.name, sighting.where, now)

    def on_packet(self, sender: SiteId, packet: Packet) -> None:
        """A peer tells of its peers, or that it has ended."""
        if isinstance(packet, Goodbye):
            # (It is said twice, and both may come in one piece.)
            if sender in self._endpoint.established:
                self._ended.add(sender)
                self._endpoint.remove_site(sender)
        elif isinstance(packet, Known):
            now = self._loop.time()
            for name, host, port in packet.processes:
                self._hear_of(name, (host, port), sender, now)
            self._seek(now)

    def _hear_of(self, name: SiteId, where: Address, teller: SiteId, now: float) -> None:
        if name in self._sought or name in self._endpoint.established or name == self._endpoint.process:
            return
        if is_usable(where) and 0 < len(name.encode()) < 256 and len(self._sought) < SOUGHT_MAX:
            self._sought[name] = _Sought(where, now)
            self._note(name, f"told by {teller}")

    def _seek(self, now: float) -> None:
        """Say hello to those of whom peers have told, with longer and longer waits."""
        due = now + SEEK_SECONDS_MAX
        for name, sought in tuple(self._sought.items()):
            if name in self._endpoint.established or now >= sought.since + SEEK_SECONDS:
                del self._sought[name]
                continue
            if sought.due <= now:
                self._endpoint.greet(name, sought.where, now)
                sought.due = now + sought.wait_seconds
                sought.wait_seconds = min(2 * sought.wait_seconds, SEEK_SECONDS_MAX)
            due = min(due, sought.due)
        if self._sought:
            self._later("seek", due - now, self._seek)

    def _note(self, name: SiteId, how: str) -> None:
        if len(self._how) >= 2 * SOUGHT_MAX:
            for other in [other for other in self._how if other not in self._found]:
                del self._how[other]
        self._how.setdefault(name, how)

    # ------------------------------------------------------------------ those who were found
    def _on_peer(self, site: SiteId) -> None:
        """Somebody has come, moved, or is forgotten: in the middle of something, so the rest waits for its end."""
        where = self._endpoint.address_of(site)
        if where is None:
            self._transport.forget(site)
        else:
            self._transport.meet(site, where)
        self._later("change", 0.0, self._on_change)

    def _on_change(self, _now: float) -> None:
        before = self._found
        addresses = {site: self._endpoint.address_of(site) for site in sorted(self._endpoint.established)}
        self._found = {site: where for site, where in addresses.items() if where is not None}
        for site, where in self._found.items():
            if site not in before:
                self._on_found(site, where)
        for site, where in before.items():
            if site not in self._found:
                self._on_lost(site, where)
        self._ended.clear()
        if self._found.keys() != before.keys():
            self.tell()

    def _on_found(self, site: SiteId, where: Address) -> None:
        if where in self._seeds.values():
            self._how[site] = "seed"
        self._lost.pop(where, None)
        self._sought.pop(site, None)
        logger.info("process %s is at %s (%s)", site, _show(where), self._how.setdefault(site, "came"))
        others = [other for other in self._found if other != site]
        self._tell_known(site, others)
        told = self._random.sample(others, min(len(others), RELAYED_TO))
        if told:
            self._endpoint.send(tuple(sorted(told)), NET_INSTANCE, Known(((site, *where),)))

    def _on_lost(self, site: SiteId, where: Address) -> None:
        self._how.pop(site, None)
        if site in self._ended:
            logger.info("process %s has ended", site)
            return
        logger.info("process %s at %s does not answer any more; it is looked for", site, _show(where))
        self._lost[where] = site
        if len(self._lost) > LOST_MAX:
            del self._lost[next(iter(self._lost))]

    def _gossip(self) -> None:
        """Tell somebody of the others: what was told before may have been lost."""
        to = self._random.choice(list(self._found))
        self._tell_known(to, [site for site in self._found if site != to])

    def _tell_known(self, to: SiteId, sites: list[SiteId]) -> None:
        present = set(self._endpoint.present)
        told = self._random.sample(sites, min(len(sites), KNOWN_MAX))
        known = tuple((site, *self._found[site]) for site in told if site in present)
        if known:
            self._endpoint.send((to,), NET_INSTANCE, Known(known))

    def tell(self) -> None:
        """Tell who was found so far."""
        self._tell(tuple(self._found), self.settled)

    # ------------------------------------------------------------------ what can be seen of it
    def seeds(self) -> dict[str, SiteId | None]:
        """Every seed that is not this process itself -> who was found there."""
        names = {where: name for name, where in self._found.items()}
        own = self._transport.is_own
        return {
            text: names.get(where) if where else None
            for text, where in self._seeds.items()
            if where is None or not own(where)
        }

    def _missing_seeds(self) -> dict[str, Address | None]:
        """Those at whose addresses nobody was found, and that are not this process itself."""
        known = set(self._found.values())
        return {
            text: where
            for text, where in self._seeds.items()
            if where is None or not (where in known or self._transport.is_own(where))
        }

    def _looked_for(self) -> list[str]:
        seeds = [f"seed {text}" for text in self._missing_seeds()]
        told = [f"{name} at {_show(sought.where)}" for name, sought in sorted(self._sought.items())]
        lost = [f"{name} at {_show(where)}" for where, name in self._lost.items()]
        address = self._transport.multicast_address
        anybody = [] if address is None else [f"anybody on multicast {address[0]}:{address[1]}"]
        return seeds + told + lost + anybody

    def status(self) -> dict[str, Any]:
        """Who was found, and how; who is looked for."""
        found = {
            site: {"address": _show(where), "how": self._how.get(site, "came")} for site, where in self._found.items()
        }
        return {
            "settled": self.settled,
            "multicast": self._transport.multicast_address is not None,
            "found": found,
            "looked_for": self._looked_for(),
            "foreign": self._endpoint.counters["foreign"],
        }


def _plain(where: Resolved | None) -> Address | None:
    return None if where is None else (where.address[0], where.address[1])


def _show(where: Address) -> str:
    return f"[{where[0]}]:{where[1]}" if ":" in where[0] else f"{where[0]}:{where[1]}"
