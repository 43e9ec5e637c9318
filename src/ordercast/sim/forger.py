"""Packets that no site has sent, and what becomes of them at the site that they reach."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Union

import msgspec

from ordercast.core import MAIN_INSTANCE, OrdercastError, Packet, encode
from ordercast.sim.flight import Flight
from ordercast.trace.interface import Envelope

if TYPE_CHECKING:
    from ordercast.sim.simulation import Simulation
    from ordercast.sim.site import SimulatedSite

BYTES_MAX = 200


class Stray(Packet, frozen=True):
    """Stands in the trace for whatever came."""

    background: ClassVar[bool] = True


class Forger:
    """Sends such packets to one site."""

    def __init__(self, random: Random, simulation: Simulation, site: SimulatedSite) -> None:
        self._random = random
        self._simulation = simulation
        self._site = site
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(
            Union[simulation.protocol.packets]  # noqa: UP007
        )
        self._stranger = next(name for name in ("stranger", "another-stranger") if name not in simulation.sites)

    def send(self) -> bool:
        """One packet comes; whether anybody is there."""
        if not self._site.up:
            return False
        data = self._forge()
        try:
            self._decoder.decode(data)
            # The site's own name for it is all that is wrong: nobody of that name is one of the others.
            reason = "unknown-process"
        # Besides its own errors, msgspec raises UnicodeDecodeError (a ValueError) and RecursionError; a packet may
        # check its fields and raise ours.
        except (msgspec.MsgspecError, ValueError, RecursionError, OrdercastError):
            reason = "garbage"
        envelope = Envelope(self._stranger, MAIN_INSTANCE, Stray(), Stray.__name__, None, len(data))
        self._site.drop(self._simulation.network.stray(envelope, self._site), reason)
        return True

    def _forge(self) -> bytes:
        random = self._random
        genuine = [flight.envelope.packet for flight in self._simulation.queue.waiting(Flight)]
        if not genuine or random.random() < 0.25:
            return random.randbytes(random.randint(0, BYTES_MAX))
        data = bytearray(encode(random.choice(genuine)))
        how = random.choice(("whole", "cut", "changed"))
        if how == "cut":
            del data[random.randrange(len(data)) :]
        elif how == "changed":
            for _ in range(random.randint(1, 4)):
                data[random.randrange(len(data))] = random.randrange(256)
        return bytes(data)
