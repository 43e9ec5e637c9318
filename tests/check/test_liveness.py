"""Agreement, termination and selective information."""

import pytest

from tests.check.build import outcome, verdict_of

AGREEMENT = ("uniform-agreement", "atomic-receipt")
ALL = "a multicast m g\na deliver m\nb deliver m\nc deliver m"


@pytest.mark.parametrize("name", [*AGREEMENT, "termination", "selective-information"])
def test_delivery_at_all_destinations_holds(name: str) -> None:
    assert outcome(name, ALL) == "holds"


@pytest.mark.parametrize("name", [*AGREEMENT, "termination", "selective-information"])
def test_a_delivery_missing_at_one_correct_site_violates(name: str) -> None:
    verdict = verdict_of(name, "a multicast m g\na deliver m\nb deliver m")
    assert verdict.verdict == "violated"
    assert verdict.witnesses == 1
    assert verdict.first is not None
    assert (verdict.first.sites, verdict.first.messages) == (("c",), ("m",))


@pytest.mark.parametrize("name", [*AGREEMENT, "termination"])
def test_liveness_is_not_judged_in_a_run_that_did_not_settle(name: str) -> None:
    assert outcome(name, ALL, settled=False) == "not-judged"


@pytest.mark.parametrize("name", AGREEMENT)
def test_agreement_needs_a_delivery_at_another_site(name: str) -> None:
    assert outcome(name, "a multicast m g") == "vacuous"
    assert outcome(name, "a multicast m g\na deliver m", "g:a") == "vacuous"


@pytest.mark.parametrize("name", AGREEMENT)
def test_a_delivery_at_a_site_that_crashed_obliges_the_others(name: str) -> None:
    assert verdict_of(name, "a multicast m g\na deliver m\na fail").witnesses == 2


@pytest.mark.parametrize("name", [*AGREEMENT, "termination"])
def test_nothing_is_owed_to_a_site_that_stays_down(name: str) -> None:
    assert outcome(name, "a multicast m g\na deliver m\nb deliver m\nc fail") == "holds"
    assert outcome(name, "a multicast m g\na deliver m\nb deliver m\nc fail\nc recover") == "violated"
    assert outcome(name, "a multicast m g\na deliver m\nb deliver m\nc fail\nc awake") == "holds"


def test_termination_owes_nothing_for_a_source_that_crashed() -> None:
    assert outcome("termination", "a multicast m g\na fail") == "vacuous"
    assert outcome("termination", "a multicast m g\na fail\na recover") == "violated"


@pytest.mark.parametrize(
    ("rows", "owed"),
    [
        ("d join g\na multicast m g", 4),  # joined before
        ("a multicast m g\nd join g", 3),  # joined too late
        ("a send p peer=b messages=m\nd join g\na multicast m g", 3),  # it began with its first send
        ("c leave g\na multicast m g", 2),  # left before
        ("a multicast m g\nc leave g", 2),  # left after
        ("c leave g\nc join g\na multicast m g", 3),
        ("a multicast m g\nc leave g\nc join g", 2),
        ("c leave g\na multicast m destinations=c", 1),
        ("c leave g\na multicast m g,h", 3),  # still in h
    ],
)
def test_a_destination_is_owed_what_began_while_it_was_a_member_and_stayed(rows: str, owed: int) -> None:
    assert verdict_of("termination", rows, "g:a,b,c h:c").witnesses == owed


def test_selective_information_forbids_delivery_elsewhere_even_in_a_run_that_did_not_settle() -> None:
    rows = "a multicast m destinations=b\nb deliver m\nc deliver m"
    verdict = verdict_of("selective-information", rows, settled=False)
    assert verdict.verdict == "violated"
    assert verdict.first is not None
    assert verdict.first.sites == ("c",)
    assert outcome("selective-information", "a multicast m destinations=b,c\nb deliver m", settled=False) == "holds"


def test_selective_information_takes_any_membership_during_the_run() -> None:
    assert outcome("selective-information", "a multicast m g\nb leave g\nb deliver m", settled=False) == "holds"
    assert outcome("selective-information", "a multicast m g\nd deliver m\nd join g", settled=False) == "holds"
    assert outcome("selective-information", "a multicast m g\nd deliver m\nd join h", settled=False) == "violated"


def test_selective_information_without_known_messages_is_vacuous() -> None:
    assert outcome("selective-information", "b deliver m", settled=False) == "vacuous"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("a multicast m g", "vacuous"),
        ("b fail", "vacuous"),
        ("b fail reason=refused", "vacuous"),
        ("b fail\nb awake\nb fail", "vacuous"),
        ("b awake", "vacuous"),
        ("b fail\nb awake\nb recover", "holds"),
        ("b fail\nb recover", "holds"),
        ("b fail\nb awake\nb fail\nb awake\nb recover", "holds"),
        ("b fail\nb awake", "violated"),
        ("b fail\nb recover\nb fail\nb awake", "violated"),
        ("b fail\nb awake\nb recover\nc fail\nc awake", "violated"),
    ],
)
def test_whoever_comes_back_must_take_part_fully_in_the_end(rows: str, expected: str) -> None:
    assert outcome("recovery", rows) == expected
    assert outcome("recovery", rows, settled=False) == "not-judged"


def test_the_site_that_never_recovers_is_named() -> None:
    verdict = verdict_of("recovery", "b fail\nb awake\nc fail")
    assert [witness.sites for witness in verdict.all_witnesses] == [("b",)]
    assert verdict.first is not None
    assert verdict.first.why == "b comes back at 2 s, and never takes part fully again"


def test_agreement_forgives_what_only_a_crashed_site_has_delivered_or_what_was_taken_back() -> None:
    assert outcome("agreement", ALL) == "holds"
    assert outcome("agreement", "a multicast m g\na deliver m\na fail") == "vacuous"
    assert outcome("agreement", "a multicast m g\na deliver m\na rollback m") == "vacuous"
    assert verdict_of("agreement", "a multicast m g\na deliver m").witnesses == 2
    assert verdict_of("agreement", "a multicast m g\na deliver m\na rollback m\na deliver m").witnesses == 2
    assert outcome("agreement", ALL, settled=False) == "not-judged"


def test_agreement_does_not_count_a_delivery_that_its_site_has_taken_back() -> None:
    assert outcome("uniform-agreement", ALL + "\nc rollback m") == "holds"
    verdict = verdict_of("agreement", ALL + "\nc rollback m")
    assert verdict.first is not None
    assert (verdict.first.sites, verdict.first.messages) == (("c",), ("m",))
    assert outcome("agreement", ALL + "\nc rollback m\nc deliver m") == "holds"


ORDERED = (
    "a multicast k g\na multicast m g\na deliver k\nb deliver k\n{}a deliver m\nb deliver m\n"
    "a multicast n g\na deliver n\nb deliver n\n"
)


@pytest.mark.parametrize("name", [*AGREEMENT, "agreement", "termination"])
def test_whoever_joins_late_is_owed_what_begins_after_its_join_and_may_deliver_more(name: str) -> None:
    joined = ORDERED.format("d join g\n")
    assert verdict_of(name, joined, "g:a,b").witnesses == 1
    assert outcome(name, joined + "d deliver n", "g:a,b") == "holds"
    for claimed in (name, "R1", "multiple-group-order", "acyclic-order", "integrity"):
        assert outcome(claimed, joined + "d deliver m\nd deliver n", "g:a,b") == "holds"
    assert outcome("R1", joined + "d deliver n\nd deliver m", "g:a,b") == "violated"


@pytest.mark.parametrize("name", [*AGREEMENT, "agreement", "termination"])
def test_whoever_leaves_early_is_owed_nothing_more_and_delivers_nothing_more(name: str) -> None:
    left = ORDERED.format("c deliver k\nc leave g\n")
    for claimed in (name, "R1", "multiple-group-order", "acyclic-order", "integrity"):
        assert outcome(claimed, left, "g:a,b,c") == "holds"
    assert outcome(name, left.replace("c deliver k\n", ""), "g:a,b,c") == "holds"
    assert outcome("integrity", left + "c deliver m", "g:a,b,c") == "violated"
