"""How a choice of properties travels, and what it means for a run."""

import msgspec
import pytest

from ordercast.check import CLAIMED, EVERYTHING, PROPERTIES, Choice, choose
from ordercast.check.choice import check_claims
from ordercast.core.errors import UsageError
from tests.check.build import describe

RUN = describe("g:b,c", ("termination", "integrity"))


def test_without_a_word_each_run_is_judged_by_its_claims_and_every_property_is_listed() -> None:
    assert choose() == CLAIMED
    assert CLAIMED.judged(RUN) == ("termination", "integrity")
    assert CLAIMED.listed == PROPERTIES
    assert not CLAIMED.unclaimed_too


def test_everything_is_judged_of_any_run() -> None:
    assert choose(everything=True) == EVERYTHING
    assert EVERYTHING.judged(RUN) == EVERYTHING.listed == PROPERTIES
    assert EVERYTHING.unclaimed_too


def test_names_are_judged_claimed_or_not_in_the_order_in_which_they_were_given_and_once() -> None:
    choice = choose(["R1", "integrity", "R1"], everything=True)
    assert choice.judged(RUN) == choice.listed == ("R1", "integrity")
    assert choice.unclaimed_too


def test_no_name_at_all_is_a_choice_of_nothing() -> None:
    assert choose([]).judged(RUN) == choose([]).listed == ()


@pytest.mark.parametrize("choice", [CLAIMED, EVERYTHING, choose(["R1", "integrity"])])
def test_a_choice_reaches_a_worker_as_it_was(choice: Choice) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(choice), type=Choice) == choice


def test_a_name_that_no_judge_has_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match=r"asked for the unknown property 'integrty'; .* 'integrity'"):
        choose(["integrty"])


def test_a_run_that_claims_what_no_judge_has_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="claims the unknown property 'R4'"):
        check_claims([RUN, describe("g:a", ("R4",))])
