"""What no site says that keeps to the rules of three steps is refused; nothing is kept of it, and no epoch begins."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ordercast.core import Context, MessageId, Multicast, Packet, WireError
from ordercast.core.effects import Append, Deliver, SetTimer
from ordercast.core.events import Received, Started, TimerFired
from ordercast.protocols.parts.multicast import Data
from ordercast.protocols.parts.primary import PLACES_MAX, TIMESTAMP_MAX
from ordercast.protocols.parts.primary_packets import Collect, Doubt, Over, Passed, Place, Promise, Resumption, Start
from ordercast.protocols.three_step import ThreeStep, ThreeStepOptions
from ordercast.protocols.three_step.packets import (
    Answer,
    Ask,
    Asked,
    GoOn,
    Placed,
    Proposal,
    Propose,
    Taken,
    Told,
    Word,
)
from ordercast.protocols.three_step.refusals import EARLY_MAX, NAMED_MAX

GROUPS = {"g": ("a", "b", "c"), "h": ("d", "e", "f")}
SITES = (*"abcdef", "x")
OWN, OTHER, BOTH = (0,), (1,), (0, 1)


def name(number: int, source: str = "x", incarnation: int = 0) -> MessageId:
    return MessageId(source, incarnation, number)


class Site:
    """One site of three steps; what it is told, its timers say to themselves at once."""

    def __init__(self, site: str = "b") -> None:
        self.core = ThreeStep(Context(site, GROUPS, SITES, ThreeStepOptions(), Random(1)))
        self.delivered: list[MessageId] = []
        self.step(Started())

    def step(self, event: Any) -> None:
        self.core.step(0.0, event)
        self.turn()

    def turn(self) -> None:
        effects = list(self.core.outbox)
        self.core.outbox.clear()
        for effect in effects:
            if isinstance(effect, Deliver):
                self.delivered.append(effect.multicast.id)
            elif isinstance(effect, SetTimer) and effect.timer == "turn":
                self.step(TimerFired(effect.timer))

    def hear(self, sender: str, packet: Packet) -> None:
        self.step(Received(sender, packet))

    def refuse(self, sender: str, packet: Packet) -> None:
        """The packet is refused, and the site is as it was."""
        before = self.memory()
        with pytest.raises(WireError):
            self.core.step(0.0, Received(sender, packet))
        effects = [effect for effect in self.core.outbox if not isinstance(effect, SetTimer)]
        assert effects == [], "it says or logs something"
        self.turn()
        assert self.memory() == before

    def memory(self) -> tuple[Any, ...]:
        """Everything that grows."""
        core = self.core
        ordering = core.ordering
        return (
            (core.primary.promised, core.primary.started),
            ordering.report(),
            dict(ordering._early),
            {
                entry.message: (dict(entry.standings), dict(entry.fixed), entry.sequence)
                for entry in core.entries.values()
            },
            core.multicast.missing,
            {cell: dict(voices._waiting) for cell, voices in ordering.voices.items()},
            core.delivery.mark,
            {site: (finished.floor, len(finished.above)) for site, finished in core.multicast.finished.items()},
        )

    def data(self, number: int, groups: tuple[str, ...] = ("g",), source: str = "x") -> None:
        self.hear(source, Data(0, Multicast(name(number, source), groups, b"body"), (0, 0)))

    def accept(self, count: int) -> None:
        """Messages 1 to count stand at places of the first epoch, with timestamps 10, 20 and so on."""
        for number in range(1, count + 1):
            self.data(number)
            self.hear("a", Propose(0, OWN, (Proposal(number, name(number), 10 * number),)))
        assert self.core.ordering.count == count


def test_the_site_of_these_tests_takes_part() -> None:
    site = Site()
    site.accept(3)
    assert site.delivered == [name(1), name(2), name(3)]


def placed(proposal: Proposal, epoch: int = 0, groups: tuple[str, ...] = ("g",)) -> Placed:
    """What a primary says of a small message."""
    letter = Data(0, Multicast(proposal.message, groups, b"body"), (0, 0))
    return Placed(letter, epoch, proposal.place, proposal.timestamp, False)


def test_a_message_that_comes_with_its_place_is_taken_at_once_or_when_its_turn_has_come() -> None:
    site = Site()
    site.hear("a", placed(Proposal(2, name(2), 20)))
    assert site.delivered == []
    site.hear("a", placed(Proposal(1, name(1), 10)))
    site.turn()
    assert site.delivered == [name(1), name(2)]


# ---------------------------------------------------------------------- cells
@pytest.mark.parametrize(
    ("sender", "packet"),
    [
        ("d", Propose(0, OTHER, (Proposal(1, name(1), 1),))),
        ("d", Propose(0, OWN, (Proposal(1, name(1), 1),))),
        ("a", Propose(0, OTHER, (Proposal(1, name(1), 1),))),
        ("x", Propose(0, OWN, (Proposal(1, name(1), 1),))),
        ("a", Propose(0, (7,), (Proposal(1, name(1), 1),))),
        ("a", Propose(0, (1, 0), (Proposal(1, name(1), 1),))),
        ("d", placed(Proposal(1, name(1), 1))),
        ("x", placed(Proposal(1, name(1), 1))),
        ("a", placed(Proposal(1, name(1), 1), groups=("g", "h"))),
        ("a", placed(Proposal(1, name(1), 1), groups=("h",))),
        ("a", placed(Proposal(1, name(1), 1), groups=("nowhere",))),
        ("x", Word(0, 1, 1, ())),
        ("d", Doubt(0)),
        ("d", Collect(1)),
        ("x", Collect(1)),
        ("d", Promise(1, 0, 0, (), 0)),
        ("d", Start(1, 0, (), 0)),
        ("d", GoOn(Resumption((1, name(1)), (1, name(1)), (), (), (), ()))),
        ("d", Ask(0, 0, 0, None, (Asked(name(1), OTHER, True),))),
        ("e", Ask(0, 0, 0, None, (Asked(name(1), OWN, True),))),
    ],
)
def test_packets_of_a_cell_that_one_is_not_in(sender: str, packet: Packet) -> None:
    Site().refuse(sender, packet)


# ---------------------------------------------------------------------- places and timestamps
@pytest.mark.parametrize(
    "proposals",
    [
        (Proposal(EARLY_MAX + 4, name(9), 99),),
        (Proposal(4, name(4), 40), Proposal(EARLY_MAX + 4, name(9), 99)),
        (Proposal(5, name(5), 50), Proposal(4, name(4), 60)),
        (Proposal(4, name(4), 40), Proposal(4, name(5), 50)),
        (Proposal(0, name(4), 40),),
        (Proposal(-1, name(4), 40),),
    ],
)
def test_places_that_skip_too_far_or_do_not_ascend(proposals: tuple[Proposal, ...]) -> None:
    site = Site()
    site.accept(3)
    site.refuse("a", Propose(0, OWN, proposals))
    if len(proposals) == 1:
        site.refuse("a", placed(*proposals))


@pytest.mark.parametrize(
    "proposal",
    [
        Proposal(4, name(4), 30),
        Proposal(4, name(4), 0),
        Proposal(4, name(4), 1 << 63),
        Proposal(5, name(5), 29),
        Proposal(3, name(3), 31),
        Proposal(3, name(4), 30),
        Proposal(2, name(3), 30),
        Proposal(4, name(3), 40),
    ],
)
def test_timestamps_below_what_is_accepted_and_other_places_for_it(proposal: Proposal) -> None:
    site = Site()
    site.accept(3)
    site.refuse("c", Propose(0, OWN, (proposal,)))
    site.refuse("a", placed(proposal))


def test_another_timestamp_for_what_is_fixed_in_another_cell() -> None:
    site = Site()
    site.data(1, ("g", "h"))
    site.hear("d", Propose(0, BOTH, (Proposal(1, name(1), 5),)))
    site.hear("e", Word(0, 1, 5, (name(1),)))
    assert site.core.entries[name(1)].fixed == {1: 5}
    site.refuse("e", Propose(1, BOTH, (Proposal(1, name(1), 4),)))
    site.refuse("e", Propose(0, BOTH, (Proposal(1, name(1), 6),)))
    site.hear("e", Propose(1, BOTH, (Proposal(7, name(1), 5),)))
    site.refuse("d", Answer((Told(name(1), 4, True),), None, None))


def test_a_proposal_that_came_before_its_epoch_and_is_below_the_start_is_not_accepted() -> None:
    follower = Site("c")
    follower.accept(3)
    follower.data(4)
    follower.hear("a", Propose(1, OWN, (Proposal(4, name(4), 25),)))
    follower.hear("b", Start(1, 0, tuple(Place(name(n), 10 * n) for n in (1, 2, 3)), 30))
    assert follower.core.primary.started == 1
    assert follower.core.ordering.count == 3
    follower.hear("b", Start(4, 0, tuple(Place(name(n), 10 * n) for n in (1, 2, 3, 4)), 40))
    assert follower.core.ordering.count == 4


def test_a_final_timestamp_before_what_is_delivered() -> None:
    site = Site()
    site.accept(3)
    site.data(4)
    site.refuse("a", Answer((Told(name(4), 29, True),), None, None))
    site.refuse("a", Answer((Told(name(4), 1 << 63, True),), None, None))


def test_more_is_taken_than_was_delivered() -> None:
    site = Site()
    site.accept(3)
    site.refuse("a", Answer((), None, (10, name(1))))
    site.refuse("a", Answer((), (10, name(1)), (20, name(2))))


@pytest.mark.parametrize(
    ("sender", "through"), [("x", (10, name(1))), ("a", (0, name(1))), ("a", (TIMESTAMP_MAX + 1, name(1)))]
)
def test_what_nobody_can_have_taken(sender: str, through: tuple[int, MessageId]) -> None:
    site = Site()
    site.accept(1)
    site.refuse(sender, Taken(through))


@pytest.mark.parametrize("message", [name(1, "nobody"), name(0), name(1, "x", -1)])
def test_names_that_nobody_can_have_given(message: MessageId) -> None:
    site = Site()
    site.refuse("a", Propose(0, OWN, (Proposal(1, name(1), 1), Proposal(2, message, 2))))
    site.refuse("a", Ask(0, 0, 0, None, (Asked(name(1), OWN, True), Asked(message, OWN, True))))
    site.refuse("c", Start(2, 0, (Place(message, 1),), 1))


# ---------------------------------------------------------------------- epochs
@pytest.mark.parametrize(
    ("sender", "packet"),
    [
        ("a", Start(1, 0, (), 0)),
        ("c", Start(1, 0, (), 0)),
        ("a", Promise(2, 0, 0, (), 0)),
        ("a", Promise(1, 1, 0, (), 0)),
        ("c", Start(2, -1, (), 0)),
        ("c", Start(2, 0, (), -1)),
        ("c", Start(2, 0, (Place(name(1), 2), Place(name(2), 2)), 9)),
        ("c", Start(2, 0, (Place(name(1), 2), Place(name(1), 3)), 9)),
        ("c", Start(2, 0, (Place(name(1), 2),), 1)),
        ("a", Collect(-1)),
        ("a", Word(-1, 0, 0, ())),
        ("a", Propose(-3, OWN, (Proposal(1, name(1), 1),))),
        ("a", placed(Proposal(1, name(1), 1), epoch=-3)),
        ("a", Ask(-1, 0, 0, None, ())),
    ],
)
def test_an_epoch_of_anothers_primary_and_starts_that_cannot_be(sender: str, packet: Packet) -> None:
    site = Site()
    site.accept(3)
    site.refuse(sender, packet)


@pytest.mark.parametrize("kind", [Start, Promise])
def test_a_hundred_thousand_places(kind: type[Packet]) -> None:
    places = tuple(Place(name(number), number) for number in range(1, 100_001))
    assert len(places) > PLACES_MAX
    site = Site()
    if kind is Start:
        site.refuse("c", Start(2, 0, places, 100_000))
    else:
        site.refuse("a", Promise(1, 0, 0, places, 100_000))


def test_a_hundred_thousand_proposals() -> None:
    site = Site()
    site.refuse("a", Propose(0, OWN, tuple(Proposal(number, name(number), number) for number in range(1, 100_001))))
    site.refuse("d", Propose(0, BOTH, tuple(Proposal(number, name(number), number) for number in range(1, 100_001))))


def test_a_start_whose_bodies_nobody_has_begins_no_epoch_and_is_forgotten_with_the_next() -> None:
    site = Site()
    site.accept(3)
    known = tuple(Place(name(number), 10 * number) for number in (1, 2, 3))
    unknown = tuple(Place(name(number), 10 * number) for number in range(4, 1000))
    site.hear("c", Start(2, 0, known + unknown, 10_000))
    assert site.core.primary.started == 0
    assert site.core.ordering.count == 3
    site.hear("c", Collect(5))
    assert site.core.primary.promised == 5
    site.hear("c", Start(5, 0, known, 10_000))
    assert site.core.primary.started == 5
    assert site.core.multicast.missing == 0
    assert set(site.core.entries) <= {name(1), name(2), name(3)}


# ---------------------------------------------------------------------- memory
def test_messages_that_are_known_by_name_only_have_a_bound() -> None:
    site = Site()
    for first in range(1, 2 * NAMED_MAX, 256):
        proposals = tuple(Proposal(number, name(number), number) for number in range(first, first + 256))
        if first < NAMED_MAX:
            site.hear("d", Propose(0, BOTH, proposals))
        else:
            with pytest.raises(WireError):
                site.core.step(0.0, Received("d", Propose(0, BOTH, proposals)))
    assert len(site.core.entries) == NAMED_MAX
    site.refuse("d", Ask(0, 0, 0, None, (Asked(name(1 << 20), BOTH, True),)))


def test_one_message_in_ten_thousand_epochs_takes_the_room_of_some() -> None:
    site = Site()
    for epoch in range(10_000):
        site.hear("d", Propose(epoch, BOTH, (Proposal(1, name(1), epoch + 1),)))
    assert len(site.core.entries) == 1
    assert sum(map(len, site.core.ordering.voices[1]._waiting.values())) <= 65


@pytest.mark.parametrize(
    "resumption",
    [
        Resumption((99, name(9)), (98, name(8)), (("g", 9),), (), (), ()),
        Resumption((99, name(9)), (99, name(9)), (("h", 9),), (), (), ()),
        Resumption((99, name(9)), (99, name(9)), (("g", 1),), (), (), ()),
        Resumption((99, name(9)), (99, name(9)), (("g", 9),), (Over("x", (0, 0), ((0, 1, 1 << 60),)),), (), ()),
        Resumption((99, name(9)), (99, name(9)), (("g", 9),), (Over("x", (0, 0), ((0, 9, 1),)),), (), ()),
        Resumption((99, name(9)), (99, name(9)), (("g", 9),), (Over("nobody", (0, 0), ()),), (), ()),
        Resumption((99, name(9)), (99, name(9)), (("g", 9),), (), (Passed(name(5), OTHER, 5),), ()),
        Resumption((99, name(9)), (99, name(9)), (("g", 9),), (), (), (("nobody", (1, name(1))),)),
    ],
)
def test_a_state_in_which_no_site_of_the_cell_can_be(resumption: Resumption) -> None:
    site = Site()
    site.accept(3)
    site.refuse("a", GoOn(resumption))
    site.refuse("c", Start(2, 0, (), 30, resumption))


def test_nothing_of_what_is_refused_is_logged() -> None:
    site = Site()
    site.accept(1)
    with pytest.raises(WireError):
        site.core.step(0.0, Received("a", Propose(4, OWN, (Proposal(2, name(2), 20), Proposal(3, name(3), 3)))))
    assert not any(isinstance(effect, Append) for effect in site.core.outbox)
    assert site.core.primary.promised == 0
