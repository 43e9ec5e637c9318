"""The rules of consensus one by one, at one participant that is driven by hand: each breach of one loses agreement, or
a decision, in some run, and most of these runs are too rare for a campaign."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ordercast.core import InvariantViolation, MessageId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.parts.consensus import Consensus
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
from ordercast.protocols.parts.quorum import Quorum

SITES = ("a", "b", "c", "d", "e")
NAME = (1,)
HERE = Arrival()
OWN, OTHER, THIRD = (MessageId(site, 0, 1) for site in "abc")


def value(proposer: str, message: MessageId = OTHER) -> Value:
    return Value(proposer, ((message, 1),))


class Desk:
    """Host, link and detector of one participant, and all that it wants done, in order."""

    def __init__(self, site: str = "a", estimate: Value | None = None, impossible: Value | None = None) -> None:
        self.site = site
        self.done: list[Any] = []
        self.acknowledged: list[Any] = []
        self.branches: Counter[str] = Counter()
        self.suspected: set[str] = set()
        self.watched: Counter[str] = Counter()
        self.estimate = estimate
        self.refused: list[tuple[str, Value]] = []
        self.decisions: list[Value] = []
        self.is_over = False
        self.may_begin = True
        self.participants: tuple[str, ...] | None = SITES
        self.next = 1
        quorum = Quorum([SITES])
        host: Any = self
        self.part = Consensus(
            host,
            host,
            host,
            eager=False,
            participants=lambda name: self.participants,
            quorum=lambda name: quorum,
            estimate=lambda name: self.estimate,
            on_decided=lambda name, chosen: self.decisions.append(chosen),
            on_recalled=lambda name, chosen: None,
            is_over=lambda name: self.is_over,
            is_news=lambda name, chosen: True,
            may_begin=lambda name: self.may_begin,
            is_possible=lambda name, offered: offered != impossible,
            on_impossible=lambda sender, name, offered: self.refused.append((sender, offered)),
        )

    def append(self, record: Any) -> None:
        self.done.append(record)

    def post(self, to: tuple[str, ...], letter: Any) -> None:
        self.done.append(letter)

    def acknowledge(self, sender: str, letter: Any) -> None:
        self.acknowledged.append(letter)

    def branch(self, name: str) -> None:
        self.branches[name] += 1

    def watch(self, site: str) -> None:
        self.watched[site] += 1

    def unwatch(self, site: str) -> None:
        self.watched[site] -= 1

    # ------------------------------------------------------------------ what comes
    def proposed(self, round_: int, chosen: Value, sender: str | None = None) -> None:
        self.part.on_propose(sender or SITES[round_ % 5], Propose(1, NAME, round_, chosen), HERE)

    def acked(self, sender: str, round_: int) -> None:
        self.part.on_ack(sender, Ack(1, NAME, round_, OTHER), HERE)

    def collected(self, sender: str, round_: int) -> None:
        self.part.on_collect(sender, Collect(1, NAME, round_, OTHER), HERE)

    def estimated(self, sender: str, round_: int, adopted: int = NOTHING, chosen: Value | None = None) -> None:
        self.part.on_estimate(sender, Estimate(1, NAME, round_, adopted, chosen, OTHER), HERE)

    @property
    def instance(self) -> Instance:
        return self.part.open[NAME]

    def take(self, kind: type[Any]) -> list[Any]:
        """What it wanted of one kind, since the last time."""
        taken = [each for each in self.done if type(each) is kind]
        self.done = [each for each in self.done if type(each) is not kind]
        return taken


def coordinator_of_round_five() -> Desk:
    """a has led round 0, which b has acknowledged, and leads round 5."""
    desk = Desk(estimate=value("a", OWN))
    desk.part.start(NAME, OWN)
    desk.acked("b", 0)
    desk.collected("b", 1)
    desk.estimated("c", 5)
    desk.estimated("d", 5)
    return desk


# ---------------------------------------------------------------------- the start
@pytest.mark.parametrize("forgotten", [False, True])
def test_what_is_decided_is_not_begun_again(forgotten: bool) -> None:
    desk = Desk(estimate=value("a", OWN))
    if forgotten:
        desk.is_over = True
    else:
        desk.part.recall_decided(Decided(NAME, value("b")))
    desk.part.start(NAME, OWN)
    assert desk.part.open == {}
    assert desk.done == []


def test_a_decision_that_everyone_knows_is_forgotten_and_only_that_one() -> None:
    desk = Desk()
    for name in (NAME, (2,)):
        desk.part.recall_decided(Decided(name, value("b")))
    desk.part.forget(NAME)
    desk.part.forget((3,))
    assert desk.part.decisions == {(2,): value("b")}


def test_who_starts_again_with_another_message_keeps_to_the_first() -> None:
    desk = Desk("c")
    desk.part.start(NAME, THIRD)
    desk.part.start(NAME, OTHER)
    assert desk.instance.topic == THIRD


def test_who_does_not_know_the_participants_yet_says_nothing_and_watches_nobody() -> None:
    desk = Desk(estimate=value("a", OWN))
    desk.participants = None
    desk.suspected.add("a")
    desk.part.start(NAME, OWN)
    assert desk.instance.active
    assert desk.done == []
    assert not desk.watched


def test_who_may_have_proposed_in_the_first_round_and_forgotten_it_goes_to_the_next() -> None:
    desk = Desk(estimate=value("a", OWN))
    desk.may_begin = False
    desk.part.start(NAME, OWN)
    assert desk.instance.round == 1
    assert [type(each) for each in desk.done] == [Promised, Estimate]


def test_in_a_later_round_it_does_not_matter_who_may_begin() -> None:
    desk = Desk()
    desk.may_begin = False
    desk.estimated("c", 5)
    desk.estimated("d", 5)
    desk.done.clear()
    desk.estimate = value("a", OWN)
    desk.part.start(NAME, OWN)
    assert desk.instance.round == 5
    assert desk.take(Propose) == [Propose(1, NAME, 5, value("a", OWN))]


def test_who_suspects_the_coordinator_from_the_start_goes_to_the_next_that_it_does_not() -> None:
    desk = Desk("d", value("d"))
    desk.suspected |= {"a", "b"}
    desk.part.start(NAME, OTHER)
    assert desk.instance.round == 2
    assert +desk.watched == {"c": 1}
    assert desk.take(Estimate) == [Estimate(1, NAME, 2, NOTHING, value("d"), OTHER)]


def test_where_all_are_suspected_it_is_the_turn_of_the_very_next() -> None:
    desk = Desk("d", value("d"))
    desk.suspected |= set(SITES)
    desk.part.start(NAME, OTHER)
    assert desk.instance.round == 1


# ---------------------------------------------------------------------- acknowledgements
def test_what_was_acknowledged_in_an_earlier_round_does_not_count() -> None:
    desk = coordinator_of_round_five()
    assert desk.instance.proposed
    assert desk.instance.acks == {"a"}
    desk.acked("c", 5)
    assert desk.decisions == []
    desk.acked("d", 5)
    assert desk.decisions == [value("a", OWN)]


def test_an_acknowledgement_of_another_round_that_comes_late_does_not_count() -> None:
    desk = coordinator_of_round_five()
    for sender in "bcde":
        desk.acked(sender, 0)
        desk.acked(sender, 10)
    assert desk.instance.acks == {"a"}
    assert desk.decisions == []
    assert sum(type(letter) is Ack for letter in desk.acknowledged) == 9


def test_an_acknowledgement_does_not_count_where_nothing_was_proposed() -> None:
    desk = Desk()
    desk.proposed(1, value("b"))
    desk.estimated("c", 5)
    assert not desk.instance.proposed
    for sender in "bcd":
        desk.acked(sender, 5)
    assert desk.decisions == []


def test_who_goes_to_a_later_round_by_a_proposal_forgets_what_it_led() -> None:
    desk = coordinator_of_round_five()
    desk.acked("c", 5)
    desk.proposed(6, value("b"))
    assert (desk.instance.proposed, desk.instance.estimates, desk.instance.acks) == (False, {}, set())
    assert (desk.instance.round, desk.instance.adopted, desk.instance.value) == (6, 6, value("b"))


def test_who_is_called_to_a_later_round_forgets_what_it_led_and_logs_that_before_it_answers() -> None:
    desk = coordinator_of_round_five()
    desk.acked("c", 5)
    desk.done.clear()
    desk.collected("b", 6)
    assert (desk.instance.proposed, desk.instance.estimates, desk.instance.acks) == (False, {}, set())
    assert [type(each) for each in desk.done] == [Promised, Estimate]
    assert desk.done[0] == Promised(NAME, 6, OTHER)


def test_a_decision_is_told_and_logged_once_and_the_instance_is_closed() -> None:
    desk = coordinator_of_round_five()
    desk.part.start(NAME, OWN)
    desk.done.clear()
    for sender in "cde":
        desk.acked(sender, 5)
    assert [type(each) for each in desk.done] == [Decide, Decided]
    assert NAME not in desk.part.open
    assert desk.part.decisions == {NAME: value("a", OWN)}


def test_who_hears_the_decision_no_longer_watches_the_coordinator() -> None:
    desk = Desk("c", value("c"))
    desk.part.start(NAME, THIRD)
    assert +desk.watched == {"a": 1}
    desk.part.on_decide("a", Decide(1, NAME, value("a", OWN)), HERE)
    assert not +desk.watched
    assert desk.decisions == [value("a", OWN)]


@pytest.mark.parametrize("learns", [False, True])
def test_a_decision_of_what_is_over_is_taken_where_it_is_news(learns: bool) -> None:
    desk = Desk("c")
    desk.is_over = True
    if learns:
        desk.part.learn(NAME, value("a", OWN))
    else:
        desk.part.on_decide("a", Decide(1, NAME, value("a", OWN)), HERE)
    assert desk.decisions == [value("a", OWN)]
    assert desk.take(Decided) == [Decided(NAME, value("a", OWN))]


# ---------------------------------------------------------------------- proposals
def test_a_proposal_of_a_round_that_was_left_is_not_adopted_but_its_letter_is_confirmed() -> None:
    desk = Desk("c")
    desk.collected("b", 1)
    desk.proposed(0, value("a", OWN))
    assert desk.instance.adopted == NOTHING
    assert desk.take(Adopted) == desk.take(Ack) == []
    assert len(desk.acknowledged) == 2
    assert desk.branches["stale-round"] == 1


def test_a_proposal_that_comes_again_is_logged_once_and_acknowledged_again() -> None:
    desk = Desk("c")
    desk.proposed(0, value("a", OWN))
    desk.proposed(0, value("a", OWN))
    assert [type(each) for each in desk.done] == [Adopted, Ack, Ack]
    assert desk.take(Adopted) == [Adopted(NAME, 0, value("a", OWN))]
    assert desk.take(Ack) == [Ack(1, NAME, 0, OWN)] * 2
    assert desk.instance.topic == OWN
    assert desk.instance.caller == "a"


def test_whoever_wants_a_decision_watches_the_coordinator_whose_proposal_took_it_to_a_later_round() -> None:
    desk = Desk("c", value("c"))
    desk.part.start(NAME, THIRD)
    desk.proposed(1, value("b"))
    assert +desk.watched == {"b": 1}


def test_what_is_ruled_out_is_not_adopted_and_the_proposer_hears_why() -> None:
    ruled_out = value("b")
    desk = Desk("c", impossible=ruled_out)
    desk.proposed(1, ruled_out)
    assert desk.refused == [("b", ruled_out)]
    assert desk.instance.adopted == NOTHING
    assert desk.take(Ack) == []


@pytest.mark.parametrize("malformed", [Value("x", ((OTHER, 1),)), Value("b", ())])
def test_a_value_of_a_stranger_or_about_nothing_is_malformed(malformed: Value) -> None:
    desk = Desk("c")
    with pytest.raises(WireError):
        desk.proposed(1, malformed)
    assert NAME not in desk.part.open


def test_the_first_round_has_one_proposal_whatever_the_host_would_propose_later() -> None:
    desk = Desk(estimate=value("a", OWN))
    desk.part.start(NAME, OWN)
    desk.estimate = value("a", THIRD)
    desk.part.start(NAME, THIRD)
    assert desk.take(Propose) == [Propose(1, NAME, 0, value("a", OWN))]
    assert desk.instance.acks == {"a"}


def test_who_has_adopted_in_the_first_round_before_a_crash_proposes_nothing_else_in_it() -> None:
    desk = Desk(estimate=value("a", THIRD))
    desk.part.recall_adopted(Adopted(NAME, 0, value("a", OWN)))
    desk.part.start(NAME, THIRD)
    assert desk.take(Propose) == desk.take(Adopted) == []


def test_who_has_nothing_to_propose_proposes_nothing() -> None:
    desk = Desk()
    desk.part.start(NAME, OWN)
    assert desk.done == []


def test_a_proposal_is_logged_before_it_is_told() -> None:
    desk = Desk(estimate=value("a", OWN))
    desk.part.start(NAME, OWN)
    assert [type(each) for each in desk.done] == [Adopted, Propose]


# ---------------------------------------------------------------------- estimates
def test_who_has_adopted_nothing_says_what_it_would_propose_and_about_what() -> None:
    desk = Desk("c", value("c", THIRD))
    desk.collected("b", 1)
    assert desk.take(Estimate) == [Estimate(1, NAME, 1, NOTHING, value("c", THIRD), THIRD)]


def test_who_has_adopted_something_says_that_whatever_it_would_propose() -> None:
    desk = Desk("c", value("c", THIRD))
    desk.proposed(0, value("a", OWN))
    desk.collected("b", 1)
    assert desk.take(Estimate) == [Estimate(1, NAME, 1, 0, value("a", OWN), OWN)]


def test_what_was_adopted_last_is_proposed_and_nothing_without_a_quorum_of_estimates() -> None:
    desk = Desk("b", value("b"))
    desk.estimated("c", 6, 0, value("a", OWN))
    assert desk.take(Propose) == []
    desk.estimated("d", 6, 2, value("c", THIRD))
    assert desk.take(Propose) == [Propose(1, NAME, 6, value("c", THIRD))]
    desk.estimated("e", 6, 3, value("d"))
    assert desk.take(Propose) == []


def test_what_is_ruled_out_counts_as_if_it_had_not_been_adopted() -> None:
    ruled_out = value("c", THIRD)
    desk = Desk("b", value("b"), impossible=ruled_out)
    desk.estimated("c", 6, 2, ruled_out)
    desk.estimated("d", 6, 0, value("a", OWN))
    assert desk.take(Propose) == [Propose(1, NAME, 6, value("a", OWN))]


def test_nobody_goes_to_a_later_round_without_saying_what_it_is_about() -> None:
    desk = Desk()
    with pytest.raises(InvariantViolation):
        desk.part._enter(Instance(NAME), 1)


# ---------------------------------------------------------------------- crash and recovery
def test_a_checkpoint_holds_promises_and_what_was_adopted() -> None:
    before = Desk("c")
    before.proposed(1, value("b"))
    before.collected("d", 3)
    after = Desk("c")
    after.part.restore(before.part.state())
    kept, again = before.instance, after.instance
    assert (again.round, again.adopted, again.value, again.topic) == (3, 1, value("b"), OTHER)
    assert (again.round, again.adopted, again.value, again.topic) == (
        kept.round,
        kept.adopted,
        kept.value,
        kept.topic,
    )


@pytest.mark.parametrize("adopts", [False, True])
def test_a_checkpoint_has_what_was_promised_and_what_was_adopted_in_the_first_round_and_nothing_else(
    adopts: bool,
) -> None:
    desk = Desk("c")
    desk.part.start(NAME, THIRD)
    assert desk.part.state() == ()
    if adopts:
        desk.proposed(0, value("a", OWN))
    else:
        desk.collected("b", 1)
    assert len(desk.part.state()) == 1


def test_records_bring_back_promises_adopted_values_and_decisions() -> None:
    desk = Desk("c")
    desk.part.recall_adopted(Adopted(NAME, 1, value("b")))
    assert desk.instance.topic == OTHER
    desk.part.recall_promised(Promised(NAME, 3, THIRD))
    instance = desk.instance
    assert (instance.round, instance.adopted, instance.value, instance.topic) == (3, 1, value("b"), THIRD)
    desk.proposed(2, value("c"))
    assert instance.adopted == 1
    desk.part.recall_decided(Decided(NAME, value("b")))
    assert desk.part.open == {}
    assert desk.part.decisions == {NAME: value("b")}
