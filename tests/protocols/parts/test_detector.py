"""The failure detector alone: in the end it suspects exactly those who are gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ordercast.campaign.rare import RARE_KINDS
from ordercast.campaign.swarm import Arena, draw_deaths, draw_faults, draw_kinds
from ordercast.core import Context, Packet, SiteId, random_stream
from ordercast.core.events import Arrival
from ordercast.protocols.parts.detector import FailureDetector, Ping
from ordercast.sim import Simulation
from ordercast.sim.networks import WideArea
from tests.mutants.registry import break_part
from tests.protocols.parts.hosts import HostOptions
from tests.protocols.parts.quiet_hosts import DetectorHost

SITES = ("a", "b", "c", "d")
DURATION, SETTLE, QUIET = 4.0, 20.0, 6.0
SEEDS = range(12)


def complaints(seed: int, host: type[DetectorHost] = DetectorHost) -> list[str]:
    """What is wrong at the end of a run with random faults, in which up to two sites die."""
    random = random_stream(seed, "detector")
    dead = tuple(sorted(random.sample(SITES, random.randint(0, 2))))
    arena = Arena(random, SITES, tuple(site for site in SITES if site not in dead), DURATION)
    kinds = draw_kinds(random, (kind for kind in host.contract.faults if kind not in RARE_KINDS))
    # Shorter than a round trip, and than its jitter, so that suspicions are wrong even without faults.
    options = HostOptions(suspicion_seconds=random.choice((0.05, 0.1)))
    jitter = random.choice((0.0, 0.3))
    simulation = Simulation(
        host,
        {"g": SITES},
        WideArea({"everywhere": SITES}, {"everywhere": {"everywhere": 0.05}}, jitter=jitter),
        seed=seed,
        options=options,
        faults=(*draw_faults(arena, kinds), *draw_deaths(arena, dead)),
        duration=DURATION,
        settle=SETTLE,
        tracing=False,
    ).execute()
    found = []
    for name, site in simulation.sites.items():
        if name in dead:
            continue
        core = site.instances["main"].core
        assert isinstance(core, host)
        wrong = core.detector.suspected - set(dead)
        late = [suspect for time, suspect in core.suspicions if time > core.now - QUIET and suspect not in dead]
        if wrong or late:
            found.append(f"{name} suspects {sorted(wrong)}, or did lately: {late[:3]}")
        if set(dead) - core.detector.suspected:
            found.append(f"{name} does not suspect {sorted(set(dead) - core.detector.suspected)}")
    return found


@pytest.mark.campaign
@pytest.mark.parametrize("seed", SEEDS)
def test_in_the_end_exactly_the_dead_are_suspected(seed: int) -> None:
    assert complaints(seed) == []


# ---------------------------------------------------------------------- mutants
def does_not_learn(self: FailureDetector, site: SiteId) -> None:
    """No more patience after a wrong suspicion: it is repeated for ever."""
    self.suspected.discard(site)


def does_not_answer(self: FailureDetector, sender: SiteId, ping: Ping, arrival: Arrival) -> None:
    """Nobody answers: everyone is suspected."""


def suspects_nobody(self: FailureDetector, site: SiteId) -> None:
    """The dead are waited for."""


def is_unforgiving(self: FailureDetector, sender: SiteId, packet: Packet) -> None:
    """Who is suspected stays so."""
    if sender in self._silent:
        self._silent[sender] = 0


def asks_once(self: FailureDetector) -> None:
    """An interval without a question, once everyone has been asked."""
    before = len(self._host.outbox)
    FailureDetector.on_detector_timeout(self)
    if self.__dict__.setdefault("asked", False):
        kept = [effect for effect in self._host.outbox[before:] if not isinstance(getattr(effect, "packet", 0), Ping)]
        self._host.outbox[before:] = kept
    self.__dict__["asked"] = True


MUTANTS: list[tuple[str, Callable[..., None]]] = [
    ("trust", does_not_learn),
    ("on_ping", does_not_answer),
    ("suspect", suspects_nobody),
    ("on_heard", is_unforgiving),
    ("on_detector_timeout", asks_once),
]


@pytest.mark.parametrize(("method", "function"), MUTANTS, ids=[function.__name__ for _, function in MUTANTS])
def test_a_broken_detector_is_caught(method: str, function: Callable[..., None]) -> None:
    class Broken(DetectorHost):
        def __init__(self, context: Any) -> None:
            super().__init__(context)
            break_part(self, self.detector, method, function)

    assert any(complaints(seed, Broken) for seed in SEEDS)


# ---------------------------------------------------------------------- patience
class Back(Packet, frozen=True):
    """Somebody is back after a crash."""


def watching(calm_ticks: int = 0) -> FailureDetector:
    """A site that suspects b after three intervals of silence."""
    host = DetectorHost(Context("a", {"g": SITES}, SITES, HostOptions(), random_stream(1, "detector")))
    detector = FailureDetector(
        host,
        ping_seconds=0.1,
        suspicion_seconds=0.3,
        suspicion_seconds_max=10.0,
        on_suspected=lambda site: None,
        is_return=lambda packet: isinstance(packet, Back),
        calm_ticks=calm_ticks,
    )
    detector.watch("b")
    return detector


def wait_until_suspected(detector: FailureDetector) -> int:
    """So many intervals."""
    for tick in range(1, 100):
        detector.on_detector_timeout()
        if "b" in detector.suspected:
            return tick
    raise AssertionError("never suspected")


def test_a_wrong_suspicion_doubles_the_patience() -> None:
    detector = watching()
    assert wait_until_suspected(detector) == 4
    detector.on_heard("b", Ping())
    assert wait_until_suspected(detector) == 7


def test_who_was_down_and_is_back_is_missed_as_soon_as_before() -> None:
    detector = watching()
    for _ in range(5):
        assert wait_until_suspected(detector) == 4
        detector.on_heard("b", Back())
        assert detector.suspected == set()


def test_what_comes_before_the_word_of_a_return_does_not_make_the_suspicion_wrong() -> None:
    detector = watching()
    for _ in range(3):
        assert wait_until_suspected(detector) == 4
        detector.on_heard("b", Ping())
        detector.on_heard("b", Back())


def test_patience_that_nobody_has_needed_for_long_goes() -> None:
    detector = watching(calm_ticks=10)
    for _ in range(2):
        wait_until_suspected(detector)
        detector.on_heard("b", Ping())
    assert detector.patience == {"b": 12}
    for _ in range(30):
        detector.on_detector_timeout()
        detector.on_heard("b", Ping())
    assert detector.patience == {}


def test_patience_stays_where_long_silences_are_usual() -> None:
    detector = watching(calm_ticks=10)
    for _ in range(2):
        wait_until_suspected(detector)
        detector.on_heard("b", Ping())
    for tick in range(100):
        detector.on_detector_timeout()
        if tick % 6 == 5:
            detector.on_heard("b", Ping())
    assert detector.patience == {"b": 12}
    assert detector.suspected == set()
