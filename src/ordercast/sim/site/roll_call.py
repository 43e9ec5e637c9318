"""The roll call: a site that starts greets the others, and learns whether it may take part.

Below the protocol, as on a live network: every packet carries the position up to which its sender's log was stable, and
the life of the sender that sent it. A site remembers the highest position that it has heard of each of the others, with
its log. Whoever starts tells where its log ends; whoever remembers more refuses it. The instances start when everyone
has answered, or when ROLL_CALL_SECONDS have passed; a refusal that comes later still ends the site.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ordercast.core import Packet, SiteId
from ordercast.core.agreement import Agreement
from ordercast.core.memory import ROLL_CALL_SECONDS, Memory
from ordercast.sim.flight import Flight
from ordercast.sim.stamp import Stamp

if TYPE_CHECKING:
    from ordercast.sim.site.site import SimulatedSite

INSTANCE = "roll-call"
"""Greetings are between sites, whatever instances run there."""

ASK_AGAIN_SECONDS = 0.05
"""Twenty greetings within a roll call: that all are lost, of which three in ten are, does not happen."""

ASK_LATER_SECONDS = 0.5
"""After it: those who were silent are down, or cut off."""

DRIFTED = "its configuration differs from that of the others"


class Greeting(Packet, frozen=True):
    """What a site tells of itself, and whether it refuses the one that it tells it to."""

    background: ClassVar[bool] = True
    incarnation: int
    position: int
    """Where the sender's log ended when it started."""
    began: int
    """The incarnation with which that log began."""
    agreed: bytes
    """Digests of what all must agree on."""
    answers: int | None = None
    """The incarnation of the receiver whose greeting this answers; None: it asks for an answer."""
    refusal: str = ""


class RollCall:
    """The greetings of one site, through all its lives."""

    def __init__(self, site: SimulatedSite) -> None:
        self._site = site
        self._queue = site.simulation.queue
        self.memory = Memory()
        self._met: dict[SiteId, int] = {}
        """The life of each of the others that was accepted in this life; packets of another one are dropped."""
        self._answered: set[SiteId] = set()
        self._position = 0
        self._started = True

    def begin(self) -> None:
        """The site starts, with what its disk holds."""
        site = self._site
        self.memory = Memory()
        self.memory.restore(site.disk.memory())
        self._met = {}
        self._answered = set()
        self._position = site.disk.position()
        self._agreement = Agreement(site.agreed())
        self._started = False
        life = site.incarnation
        self._ask(life)
        self._queue.schedule(self._queue.now + ROLL_CALL_SECONDS, self._start, life)

    # ------------------------------------------------------------------ asking
    def _silent(self) -> tuple[SiteId, ...]:
        sites = self._site.simulation.sites.items()
        others = (name for name, site in sites if site.begun and name != self._site.name)
        return tuple(name for name in others if name not in self._answered)

    def _ask(self, life: int) -> None:
        if not self._lives(life):
            return
        if not self._silent():
            self._start(life)
            return
        self._site.processor.do(self._send_question, life)
        wait = ASK_LATER_SECONDS if self._started else ASK_AGAIN_SECONDS
        self._queue.schedule(self._queue.now + wait, self._ask, life)

    def _send_question(self, _now: float, life: int) -> None:
        if self._lives(life):
            self._send(self._silent(), None, "")

    def _send(self, to: tuple[SiteId, ...], answers: int | None, refusal: str) -> None:
        site = self._site
        greeting = Greeting(
            site.incarnation, self._position, site.log_history.began, self._agreement.digests, answers, refusal
        )
        site.simulation.network.send(site, to, greeting, INSTANCE)

    def _lives(self, life: int) -> bool:
        return self._site.up and self._site.incarnation == life

    def _start(self, life: int) -> None:
        """Everyone has answered, or the time is over."""
        if self._lives(life) and not self._started:
            self._started = True
            self._site.start_instances()

    # ------------------------------------------------------------------ hearing
    def admits(self, flight: Flight, stamp: Stamp) -> bool:
        """Whether a packet is from a life of its sender that was accepted; then its position is remembered."""
        sender = flight.envelope.sender
        if sender == self._site.name:
            return True
        if self._met.get(sender) != stamp.incarnation:
            return False
        self.memory.note(sender, stamp.position)
        return True

    def hear(self, sender: SiteId, greeting: Greeting) -> None:
        """A greeting comes."""
        site = self._site
        answers_me = greeting.answers == site.incarnation
        if greeting.refusal:
            if answers_me:
                site.refuse(f"{sender} refuses {site.name}: {greeting.refusal}")
            return
        if greeting.answers not in (None, site.incarnation):
            return
        if self.memory.has_met_later(sender, greeting.incarnation):
            return
        if greeting.agreed != self._agreement.digests:
            # Whoever has not been accepted itself may be the one that differs.
            if self._started:
                self._send((sender,), greeting.incarnation, DRIFTED)
            return
        refusal = self.memory.judge(sender, greeting.position, greeting.incarnation, greeting.began)
        if refusal is not None:
            self._send((sender,), greeting.incarnation, refusal)
            return
        self.memory.meet(sender, greeting.position, greeting.incarnation, greeting.began)
        self._met[sender] = greeting.incarnation
        if answers_me:
            self._answered.add(sender)
            if not self._silent():
                # Not within this step: starting is a step of its own.
                self._queue.schedule(site.processor.cursor, self._start, site.incarnation)
        else:
            self._send((sender,), greeting.incarnation, "")
