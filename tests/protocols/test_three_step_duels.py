"""Rules of three steps that only show when primaries are lost all the time: the sound protocol keeps its promises, and
each of these mutants breaks one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ordercast.check import judge
from ordercast.core import Context, InvariantViolation, MessageId, Packet, SiteId
from ordercast.core.events import TimerFired
from ordercast.protocols.parts.primary import Primary
from ordercast.protocols.parts.primary_packets import Place, Promise
from ordercast.protocols.three_step import ThreeStep
from ordercast.protocols.three_step.delivery import Delivery
from ordercast.protocols.three_step.ordering import Ordering
from ordercast.protocols.three_step.packets import Accepted, Propose, Word
from ordercast.protocols.three_step.voices import Voices
from tests.mutants.registry import break_part
from tests.protocols.classic_runs import Hand, delivered, sent
from tests.protocols.three_step_duels import EVEN_GROUPS, GROUPS, duel
from tests.protocols.three_step_runs import data, message, propose


def broken_claims(
    protocol: type[ThreeStep], seed: int, layouts: tuple[dict[str, tuple[str, ...]], ...] = GROUPS
) -> set[str]:
    simulation = duel(protocol, seed, layouts)
    try:
        simulation.execute()
    except InvariantViolation:
        return {"invariant"}
    verdicts = judge(simulation.header(), simulation.table())
    broken = {name for name, verdict in verdicts.items() if verdict.claimed and verdict.verdict == "violated"}
    return broken | {"wire-error"} if simulation.wire_errors else broken


def b_starts_with_its_own_clock(self: Primary, reports: list[Promise]) -> int:
    """(b) The clock of the new primary is its own, not the highest that was reported."""
    own = reports[-1]
    return max((own.clock, *(place.timestamp for place in Primary.choose(self, reports).places)))


def d_does_not_wait_for_a_quorum(self: Delivery, t: int) -> bool:
    """(d) Without (ii): the clock of the primary counts, though it may be alone with it."""
    return True


def f_counts_words_of_later_epochs(self: Delivery, t: int) -> bool:
    """(f) For (ii) words of later epochs count, which were said after the promise."""
    voices = self._core.ordering.own_voices
    clocks = [voice.clock for voice in voices.said.values() if voice.epoch >= self._core.primary.started]
    return sum(clock >= t for clock in clocks) >= voices.quorum


def h_adds_words_of_two_epochs(
    self: Ordering, voices: Voices, site: SiteId, epoch: int, count: int, clock: int
) -> bool:
    """(h) A timestamp is fixed when a majority has accepted so many places, of whichever epochs."""
    is_news = Ordering._hear(self, voices, site, epoch, count, clock)
    voices._count = sorted(voice.count for voice in voices.said.values())[-voices.quorum]
    return is_news


def i_forgets_its_clock(self: Ordering, record: Accepted) -> None:
    """(i) After a crash the clock knows the timestamps that were accepted, not those of other cells that raised it."""
    Ordering.recall_accepted(self, Accepted(record.first, record.acceptances, 0))


def k_starts_without_bodies(self: Ordering, holder: SiteId, places: tuple[Place, ...]) -> bool:
    """(k) A report counts, and a start is taken, when the messages are known by name only."""
    return True


MUTANTS: list[tuple[str, Callable[..., Any], int]] = [
    ("delivery.is_quorum_past", d_does_not_wait_for_a_quorum, 39),
    ("ordering.recall_accepted", i_forgets_its_clock, 9),
    ("ordering.has_bodies", k_starts_without_bodies, 201),
]


def mutated(method: str, function: Callable[..., Any]) -> type[ThreeStep]:
    part, _, name = method.partition(".")

    def begin(self: ThreeStep, context: Context) -> None:
        ThreeStep.__init__(self, context)
        break_part(self, getattr(self, part), name, function)

    return type("Mutant", (ThreeStep,), {"__init__": begin})


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_every_promise_is_kept_when_primaries_are_lost_all_the_time(first: int) -> None:
    for seed in range(first, first + 10):
        assert broken_claims(ThreeStep, seed) == set(), seed


@pytest.mark.parametrize(("method", "function", "seed"), MUTANTS, ids=[each.__name__ for _, each, _ in MUTANTS])
def test_the_mutant_is_caught_when_primaries_are_lost_all_the_time(
    method: str, function: Callable[..., Any], seed: int
) -> None:
    assert broken_claims(ThreeStep, seed) == set()
    assert broken_claims(mutated(method, function), seed)


class StartsWithHalf(ThreeStep):
    """The reports of half of an even cell are enough for a start, as half of it is for a timestamp. (a and b have fixed
    place 4 with each other; c starts with the report of d, and gives place 4 to another message.)"""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.primary.majority = max(1, len(self.primary.cell) // 2)


@pytest.mark.campaign
def test_every_promise_is_kept_by_even_cells_when_primaries_are_lost_all_the_time() -> None:
    for seed in range(24):
        assert broken_claims(ThreeStep, seed, EVEN_GROUPS) == set(), seed


def test_half_of_an_even_cell_cannot_start_an_epoch() -> None:
    seed = 9
    assert broken_claims(ThreeStep, seed, EVEN_GROUPS) == set()
    assert broken_claims(StartsWithHalf, seed, EVEN_GROUPS)


@pytest.mark.parametrize("protocol", [ThreeStep, mutated("ordering._hear", h_adds_words_of_two_epochs)])
def test_a_place_of_one_epoch_and_another_of_the_next_are_no_majority(protocol: type[ThreeStep]) -> None:
    """(h) The old primary a is cut off with d and gives two places alone, one to a message of its cell; b, of the next
    epoch, gives another first place, and nobody has accepted it yet. A campaign hardly ever brings that together."""
    d = Hand(protocol, "d", {"g": ("a", "b", "c"), "h": ("d",)}, ("a", "b", "c", "d", "x"))
    placed = message("x", 1)

    def deliveries(sender: str, packet: Packet) -> list[MessageId]:
        return delivered(d.receive(sender, packet)) + delivered(d.step(TimerFired("turn")))

    assert deliveries("x", data("x", 1, "g", "h")) == []
    assert deliveries("a", propose(0, (2, placed, 8), cells=(0, 1))) == []
    by_two_epochs = deliveries("b", propose(1, (1, placed, 3), cells=(0, 1)))
    assert by_two_epochs == ([] if protocol is ThreeStep else [placed])
    by_a_majority = deliveries("c", Word(1, 1, 3, (placed,)))
    assert [*by_two_epochs, *by_a_majority] == [placed]


@pytest.mark.parametrize("protocol", [ThreeStep, mutated("primary.clock_of", b_starts_with_its_own_clock)])
def test_a_new_primary_gives_nothing_below_a_clock_that_was_said(protocol: type[ThreeStep]) -> None:
    """(b) Another cell has raised the clock of c to 7, and a, with whom c was a majority, has delivered 7 and is gone.
    Runs bring that together once in hundreds."""
    b = Hand(protocol, "b", {"g": ("a", "b", "c"), "h": ("d",)}, ("a", "b", "c", "d", "x"))
    b.receive("x", data("x", 1))
    b.receive("c", Promise(1, 0, 0, (), 7))
    said = [packet for _, packet in sent(b.step(TimerFired("turn")))]
    given = [proposal.timestamp for packet in said if isinstance(packet, Propose) for proposal in packet.proposals]
    assert given == ([8] if protocol is ThreeStep else [1])


@pytest.mark.parametrize("protocol", [ThreeStep, mutated("delivery.is_quorum_past", f_counts_words_of_later_epochs)])
def test_words_of_a_later_epoch_are_no_majority_for_a_clock(protocol: type[ThreeStep]) -> None:
    """(f) Only a and e have said a clock of 7 in epoch 0. What b says in epoch 1 it says after its promise, and d,
    which gives places later with the reports of b, c and itself, may know of nothing above 2. Runs bring
    that together once in fifty."""
    e = Hand(protocol, "e", {"g": ("a", "b", "c", "d", "e"), "h": ("f",)}, (*"abcdef", "x"))
    m = message("x", 1)
    e.receive("x", data("x", 1, "g", "h"))
    e.receive("a", propose(0, (1, m, 1), cells=(0, 1)))
    e.receive("f", propose(0, (1, m, 7), cells=(0, 1)))
    e.step(TimerFired("turn"))
    e.receive("a", Word(0, 1, 7, (m,)))
    e.receive("c", Word(0, 1, 2, (m,)))
    assert delivered(e.step(TimerFired("turn"))) == [], "accepted by three, and two have said 7"
    e.receive("b", Word(1, 1, 9, (m,)))
    assert delivered(e.step(TimerFired("turn"))) == ([] if protocol is ThreeStep else [m])
