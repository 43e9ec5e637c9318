"""Consensus at one participant that is driven by hand, second part: suspicions, decisions that are passed on, and what
is said again after a crash, an absence or a lost log."""

from __future__ import annotations

import pytest

from ordercast.core import WireError
from ordercast.protocols.parts.consensus_instance import NOTHING, Instance
from ordercast.protocols.parts.consensus_packets import (
    Ack,
    Adopted,
    Collect,
    Decide,
    Decided,
    Estimate,
    Promised,
    Propose,
    Value,
)
from tests.protocols.parts.test_consensus_rules import (
    HERE,
    NAME,
    OTHER,
    OWN,
    SITES,
    THIRD,
    Desk,
    coordinator_of_round_five,
    value,
)


class Posts(Desk):
    """The same, and to whom each letter goes."""

    def __init__(self, site: str = "a", estimate: Value | None = None, impossible: Value | None = None) -> None:
        self.posts: list[tuple[tuple[str, ...], object]] = []
        super().__init__(site, estimate, impossible)

    def post(self, to: tuple[str, ...], letter: object) -> None:
        super().post(to, letter)
        self.posts.append((to, letter))


# ---------------------------------------------------------------------- suspicions
def test_who_suspects_the_coordinator_that_it_waits_for_goes_on_without_it_and_nobody_else_does() -> None:
    desk = Posts("d", value("d"))
    desk.part.start(NAME, OTHER)
    desk.suspected.add("b")
    desk.part.on_suspected("b")
    assert desk.instance.round == 0
    desk.suspected.add("a")
    desk.part.on_suspected("a")
    assert desk.instance.round == 2
    assert desk.branches["round-changed"] == 1
    assert desk.posts == [(("c",), Estimate(1, NAME, 2, NOTHING, value("d"), OTHER))]
    assert +desk.watched == {"c": 1}


def test_who_wants_no_decision_watches_nobody_and_goes_nowhere() -> None:
    desk = Posts("d")
    desk.collected("b", 1)
    assert not +desk.watched
    desk.suspected |= {"a", "b"}
    desk.part.on_suspected("b")
    assert desk.instance.round == 1


def test_who_becomes_coordinator_by_its_own_suspicion_asks_everyone_and_watches_nobody() -> None:
    desk = Posts("b", value("b"))
    desk.part.start(NAME, OTHER)
    desk.suspected.add("a")
    desk.part.on_suspected("a")
    assert desk.instance.round == 1
    assert desk.posts == [(("a", "c", "d", "e"), Collect(1, NAME, 1, OTHER))]
    assert desk.instance.estimates == {"b": (NOTHING, value("b"))}
    assert not +desk.watched


def test_a_coordinator_that_was_asked_for_goes_to_that_round_and_asks_everyone() -> None:
    desk = Posts("b", value("b"))
    desk.part.start(NAME, OTHER)
    desk.estimated("c", 1)
    assert desk.instance.round == 1
    assert desk.posts[0] == (("a", "c", "d", "e"), Collect(1, NAME, 1, OTHER))
    assert set(desk.instance.estimates) == {"b", "c"}
    assert not +desk.watched
    # An estimate of an earlier round is none, of the first round neither: nobody asks for any there.
    desk.estimated("d", 0)
    assert set(desk.instance.estimates) == {"b", "c"}
    assert desk.branches["stale-round"] == 1
    first = Posts("a")
    first.estimated("c", 0)
    assert first.instance.estimates == {}


def test_who_is_called_to_an_earlier_round_does_not_go() -> None:
    desk = Posts("d")
    desk.collected("c", 2)
    desk.done.clear()
    desk.collected("b", 1)
    assert (desk.instance.round, desk.instance.caller) == (2, "c")
    assert desk.done == []
    assert desk.branches["stale-round"] == 1
    # To the present one it goes again, and says the same, and has promised it before.
    desk.collected("c", 2)
    assert [type(each) for each in desk.done] == [Estimate]
    assert len(desk.acknowledged) == 3


def test_without_participants_nobody_goes_to_another_round() -> None:
    desk = Posts("d", value("d"))
    desk.part.start(NAME, OTHER)
    desk.participants = None
    desk.part.on_suspected("a")
    assert desk.instance.round == 0


# ---------------------------------------------------------------------- what is ruled out
def test_who_has_proposed_what_is_ruled_out_since_leaves_it_to_the_next() -> None:
    ruled_out = value("a", OWN)
    desk = Posts("a", ruled_out)
    desk.part.start(NAME, OWN)
    desk.part.reconsider()
    assert desk.instance.round == 0
    desk.part._is_possible = lambda name, offered: False
    desk.part.reconsider()
    assert desk.instance.round == 1
    follower = Posts("c", impossible=ruled_out)
    follower.part._is_possible = lambda name, offered: True
    follower.proposed(0, ruled_out)
    follower.part._is_possible = lambda name, offered: False
    follower.part.reconsider()
    assert follower.instance.round == 0


def test_what_nobody_can_tell_any_more_is_closed_and_nothing_else() -> None:
    desk = Posts("c", value("c"))
    desk.part.start(NAME, THIRD)
    desk.part.start((2,), THIRD)
    desk.part.abandon(lambda name: name == NAME)
    assert set(desk.part.open) == {(2,)}
    assert +desk.watched == {"a": 1}


# ---------------------------------------------------------------------- decisions
def test_who_asks_about_what_is_decided_hears_the_decision() -> None:
    desk = Posts("c")
    desk.part.recall_decided(Decided(NAME, value("b")))
    desk.collected("d", 1)
    desk.estimated("e", 2)
    desk.proposed(3, value("d"))
    assert desk.posts == [((site,), Decide(1, NAME, value("b"))) for site in "ded"]
    desk.posts.clear()
    desk.acked("d", 2)
    desk.part.on_decide("d", Decide(1, NAME, value("b")), HERE)
    assert desk.posts == []
    assert desk.branches["decision-told"] == 3
    assert len(desk.acknowledged) == 5


def test_a_stranger_takes_no_part() -> None:
    desk = Posts("c")
    with pytest.raises(WireError):
        desk.collected("x", 1)
    with pytest.raises(WireError):
        desk.part.on_decide("a", Decide(1, NAME, Value("x", ((OTHER, 1),))), HERE)
    with pytest.raises(WireError):
        desk.part.learn(NAME, Value("x", ((OTHER, 1),)))
    assert desk.part.open == {}


def test_a_decision_is_passed_on_to_everyone_by_whoever_may_be_waited_for() -> None:
    asked = Posts("c")
    asked.collected("b", 1)
    asked.posts.clear()
    asked.part.on_decide("b", Decide(1, NAME, value("b")), HERE)
    assert asked.posts == [(("a", "b", "d", "e"), Decide(1, NAME, value("b")))]
    silent = Posts("c")
    silent.part.on_decide("b", Decide(1, NAME, value("b")), HERE)
    assert silent.posts == []
    unknown = Posts("c")
    unknown.participants = None
    unknown.part.learn(NAME, value("b"))
    assert unknown.posts == [(("a", "b", "d", "e"), Decide(1, NAME, value("b")))]


def test_who_has_come_to_our_round_and_tells_a_decision_of_before_its_crash_hears_it_again() -> None:
    # 1. c decides, tells b, and crashes before that is logged. 2. c is back, and waits for b in the round of b.
    # 3. The word of c comes.
    desk = Posts("b", value("b"))
    desk.part.start(NAME, OTHER)
    desk.estimated("c", 1)
    desk.posts.clear()
    desk.part.on_decide("c", Decide(1, NAME, value("c")), HERE)
    assert desk.posts == [(("a", "c", "d", "e"), Decide(1, NAME, value("c")))]
    # Whoever cannot have asked us for anything, and does not know whom it would ask, is not told again.
    unknown = Posts("c")
    unknown.participants = None
    unknown.part.on_decide("b", Decide(1, NAME, value("b")), HERE)
    assert unknown.posts == [(("a", "d", "e"), Decide(1, NAME, value("b")))]


def test_who_is_eager_passes_every_decision_on() -> None:
    desk = Posts("c")
    desk.part._eager = True
    desk.part.on_decide("b", Decide(1, NAME, value("b")), HERE)
    assert desk.posts == [(("a", "d", "e"), Decide(1, NAME, value("b")))]


def test_what_is_learned_twice_is_decided_once() -> None:
    desk = Posts("c")
    for _ in range(2):
        desk.part.learn(NAME, value("b"))
        desk.part.on_decide("a", Decide(1, NAME, value("b")), HERE)
    assert desk.decisions == [value("b")]
    stale = Posts("c")
    stale.is_over = True
    stale.part._is_news = lambda name, chosen: False
    stale.part.learn(NAME, value("b"))
    stale.part.on_decide("a", Decide(1, NAME, value("b")), HERE)
    assert stale.decisions == []


# ---------------------------------------------------------------------- after a crash
def test_a_coordinator_that_comes_back_proposes_again_what_it_had_adopted_in_its_round() -> None:
    desk = Posts("a")
    desk.part.recall_adopted(Adopted(NAME, 0, value("a", OWN)))
    desk.part.resume()
    assert desk.posts == [(("b", "c", "d", "e"), Propose(1, NAME, 0, value("a", OWN)))]
    assert (desk.instance.proposed, desk.instance.acks) == (True, {"a"})
    desk.acked("b", 0)
    desk.acked("c", 0)
    assert desk.decisions == [value("a", OWN)]


def test_a_coordinator_that_comes_back_asks_again_for_the_round_that_it_had_promised() -> None:
    desk = Posts("a", value("a", OWN))
    desk.part.recall_adopted(Adopted(NAME, 1, value("b")))
    desk.part.recall_promised(Promised(NAME, 5, OTHER))
    desk.part.resume()
    assert desk.posts == [(("b", "c", "d", "e"), Collect(1, NAME, 5, OTHER))]
    assert desk.instance.estimates == {"a": (1, value("b"))}
    first = Posts("a")
    first.part._instance(NAME)
    first.part.resume()
    assert first.posts == []


def test_a_participant_that_comes_back_says_again_what_it_has_adopted_or_would_adopt() -> None:
    desk = Posts("c", value("c", THIRD))
    desk.part.recall_adopted(Adopted(NAME, 1, value("b")))
    desk.part.resume()
    assert desk.posts == [(("b",), Ack(1, NAME, 1, OTHER))]
    desk.posts.clear()
    desk.part.recall_promised(Promised(NAME, 3, OTHER))
    desk.part.resume()
    assert desk.posts == [(("d",), Estimate(1, NAME, 3, 1, value("b"), OTHER))]
    nothing = Posts("c", value("c", THIRD))
    nothing.part._instance(NAME)
    nothing.part.resume()
    assert nothing.posts == []
    nothing.participants = None
    nothing.part.resume()
    assert nothing.posts == []


# ---------------------------------------------------------------------- somebody else comes back
def test_whoever_comes_back_hears_again_what_it_coordinates_and_what_was_proposed_to_it() -> None:
    desk = Posts("c")
    desk.proposed(1, value("b"))
    desk.posts.clear()
    desk.part.resume_with("d")
    assert desk.posts == []
    desk.part.resume_with("b")
    assert desk.posts == [(("b",), Ack(1, NAME, 1, OTHER))]
    leader = Posts("a", value("a", OWN))
    leader.part.start(NAME, OWN)
    leader.posts.clear()
    leader.part.resume_with("d")
    assert leader.posts == [(("d",), Propose(1, NAME, 0, value("a", OWN)))]
    leader.posts.clear()
    leader.part.resume_with("x")
    assert leader.posts == []


def test_a_coordinator_that_still_collects_calls_whoever_comes_back_to_its_round() -> None:
    desk = Posts("a")
    desk.estimated("c", 5)
    desk.posts.clear()
    desk.part.resume_with("d")
    assert desk.posts == [(("d",), Collect(1, NAME, 5, OTHER))]
    first = Posts("a")
    first.part._instance(NAME).topic = OTHER
    first.part.resume_with("d")
    assert first.posts == []


def test_who_cannot_tell_whose_turn_it_is_answers_whoever_has_called_it() -> None:
    desk = Posts("c")
    desk.participants = None
    desk.collected("b", 1)
    desk.posts.clear()
    desk.part.resume_with("d")
    assert desk.posts == []
    desk.part.resume_with("b")
    assert [to for to, _ in desk.posts] == [("b",)]


# ---------------------------------------------------------------------- a lost log
def test_who_has_lost_its_log_leads_no_round_that_it_may_have_led_and_says_where_it_stands_in_others() -> None:
    desk = Posts("a", value("a", OWN))
    instance = desk.part._instance(NAME)
    instance.topic = OTHER
    desk.part.resume_without_log()
    assert desk.instance.round == 1
    assert [to for to, _ in desk.posts] == [("b",)]
    follower = Posts("c", value("c", THIRD))
    follower.part.recall_promised(Promised(NAME, 1, OTHER))
    follower.part.resume_without_log()
    assert follower.posts == [(("b",), Estimate(1, NAME, 1, NOTHING, value("c", THIRD), THIRD))]
    silent = Posts("a", value("a", OWN))
    silent.part._instance(NAME)
    silent.part.resume_without_log()
    assert (silent.instance.round, silent.posts) == (0, [])
    unknown = Posts("c")
    unknown.participants = None
    unknown.part.recall_promised(Promised(NAME, 1, OTHER))
    unknown.part.resume_without_log()
    assert unknown.posts == []


def test_nobody_says_anything_of_which_it_does_not_know_what_it_is_about() -> None:
    desk = Posts("c")
    instance = Instance(NAME)
    desk.part._send_collect(instance, SITES)
    desk.part._send_estimate(instance, "b")
    assert desk.posts == []


def test_what_was_proposed_and_left_is_not_proposed_again_in_the_next_round() -> None:
    desk = coordinator_of_round_five()
    desk.collected("b", 6)
    assert not desk.instance.proposed
    desk.take(Propose)
    desk.part.start(NAME, OWN)
    assert desk.take(Propose) == []
