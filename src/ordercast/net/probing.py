"""Asks again and again who hears this process' IP multicasts, and answers those who ask."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ordercast.core import Packet, SiteId
from ordercast.net.multicast import Reach
from ordercast.net.packets import NET_INSTANCE, Heard, Probe
from ordercast.net.transport import Transport
from ordercast.wire.endpoint import Endpoint

logger = logging.getLogger("ordercast.net")


class Prober:
    """Finds out whether IP multicast reaches everyone (see `Reach`)."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        endpoint: Endpoint,
        transport: Transport,
        others: tuple[SiteId, ...],
        end_turn: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._endpoint = endpoint
        self._transport = transport
        self._end_turn = end_turn
        self._reach = Reach(others)
        self._next: asyncio.TimerHandle | None = None
        self._stopped = False

    def set_others(self, others: tuple[SiteId, ...]) -> None:
        """These are to be reached from now on."""
        self._reach.others = others
        self._reach.judge()
        if self._next is not None and not self._reach.everyone:
            self._next.cancel()
            self._next = self._loop.call_later(self._reach.seconds_to_next(), self.ask)

    @property
    def reaches_everyone(self) -> bool:
        """Whether multicast can be used."""
        return self._reach.everyone

    def ask(self) -> None:
        """Send a probe, now and whenever the next is due."""
        reach = self._reach
        self._end_turn()
        if self._stopped:
            return  # what left woke the application, and that failed
        self._endpoint.send(reach.others, NET_INSTANCE, Probe(reach.next_probe()))
        # Only the probe is in there, and it goes by multicast whatever is known.
        for outgoing in self._endpoint.flush():
            self._transport.send_multicast(outgoing.buffer, outgoing.segment)
        missing = reach.news()
        if missing:
            logger.warning(
                "IP multicast does not reach %s: everything is sent to each process by unicast", ", ".join(missing)
            )
        elif missing is not None:
            logger.info("IP multicast reaches every process")
        self._next = self._loop.call_later(reach.seconds_to_next(), self.ask)

    def stop(self) -> None:
        """Ask no more."""
        self._stopped = True
        if self._next is not None:
            self._next.cancel()

    def on_packet(self, sender: SiteId, packet: Packet, multicast: bool) -> None:
        """Somebody asks, or answers; only who was heard by IP multicast is answered."""
        if isinstance(packet, Probe):
            if multicast:
                self._endpoint.send((sender,), NET_INSTANCE, Heard(packet.number))
        elif isinstance(packet, Heard):
            self._reach.on_heard(sender, packet.number)
