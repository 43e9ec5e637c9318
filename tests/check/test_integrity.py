"""Single deliveries: integrity and no-duplication."""

import pytest

from tests.check.build import outcome, verdict_of


def test_a_delivery_of_a_multicast_message_at_a_member_holds() -> None:
    assert outcome("integrity", "a multicast m g\na deliver m\nb deliver m") == "holds"


def test_without_a_delivery_integrity_is_vacuous() -> None:
    assert outcome("integrity", "a multicast m g") == "vacuous"


def test_a_message_that_nobody_has_multicast_violates_integrity() -> None:
    verdict = verdict_of("integrity", "b deliver m")
    assert verdict.verdict == "violated"
    assert verdict.first is not None
    assert (verdict.first.sites, verdict.first.messages) == (("b",), ("m",))
    assert verdict.first.why == "b delivers m, which nobody has multicast"


def test_a_delivery_before_the_multicast_violates_integrity() -> None:
    verdict = verdict_of("integrity", "b deliver m\na multicast m g")
    assert verdict.verdict == "violated"
    assert verdict.first is not None
    assert verdict.first.why == "b delivers m before it is multicast or sent"


def test_a_delivery_after_the_first_send_may_precede_the_multicast_row() -> None:
    assert outcome("integrity", "a send p1 peer=b messages=m\nb deliver m\na multicast m g") == "holds"


def test_at_the_source_the_order_of_rows_decides_and_not_the_time() -> None:
    assert outcome("integrity", "@1 a multicast m g\n@1 a deliver m") == "holds"
    assert outcome("integrity", "@1 a deliver m\n@1 a multicast m g") == "violated"
    assert outcome("integrity", "@1 a send p messages=m\n@1 a deliver m\n@1 a multicast m g") == "holds"
    # Somebody else's send of the message is no excuse for the source.
    assert outcome("integrity", "@1 b send p messages=m\n@1 a deliver m\n@1 a multicast m g") == "violated"


def test_a_delivery_outside_the_group_violates_integrity() -> None:
    verdict = verdict_of("integrity", "a multicast m g\nd deliver m")
    assert verdict.verdict == "violated"
    assert verdict.first is not None
    assert verdict.first.sites == ("d",)
    assert verdict.first.why == "d delivers m, which is not addressed to it"


def test_one_group_of_several_is_enough() -> None:
    assert outcome("integrity", "a multicast m g,h\nd deliver m", "g:a,b h:d") == "holds"


def test_explicit_destinations_count_and_groups_then_do_not() -> None:
    assert outcome("integrity", "a multicast m destinations=d\nd deliver m") == "holds"
    assert outcome("integrity", "a multicast m destinations=d\nb deliver m") == "violated"
    assert outcome("integrity", "a multicast m g destinations=d\nb deliver m") == "violated"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("a multicast m g\nd join g\nd deliver m", "holds"),
        ("a multicast m g\nd join h\nd deliver m", "violated"),
        ("a multicast m g\nb leave g\nb deliver m", "violated"),
        ("a multicast m g\nb leave g\nb join g\nb deliver m", "holds"),
        ("a multicast m g\nb deliver m\nb leave g", "holds"),
        ("a multicast m g\nd join g\nd leave g\nd join h\nd deliver m", "violated"),
        ("a multicast m g,h\nb join h\nb leave g\nb deliver m", "holds"),
    ],
)
def test_join_and_leave_before_the_delivery_decide_membership(rows: str, expected: str) -> None:
    assert outcome("integrity", rows) == expected


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("a multicast m g\nd view v members=a,d groups=g\nd deliver m", "holds"),
        ("a multicast m g\nd view v members=a,b groups=g\nd deliver m", "violated"),
        ("a multicast m g\nd view v members=a,d groups=g\nd view w members=a groups=g\nd deliver m", "violated"),
        ("a multicast m g\nd view v members=a,d groups=g\nd view w members=a groups=h\nd deliver m", "holds"),
        ("a multicast m g\nd deliver m\nd view v members=a,d groups=g", "violated"),
        ("a multicast m g\nd view v members=a,d groups=g\nd leave g\nd deliver m", "violated"),
        ("a multicast m g\nd view v members=a,d groups=g\nd leave h\nd deliver m", "holds"),
        ("a multicast m g\nd leave g\nd view v members=a,d groups=g\nd deliver m", "holds"),
        ("a multicast m g\nc view v members=c,d groups=g\nd deliver m", "violated"),
    ],
)
def test_the_last_view_of_a_group_that_names_the_site_makes_it_a_member(rows: str, expected: str) -> None:
    assert outcome("integrity", rows) == expected


@pytest.mark.parametrize("name", ["integrity", "selective-information"])
@pytest.mark.parametrize(
    ("groups", "expected"),
    [("", "violated"), ("groups=h", "violated"), ("groups=nobody-knows-it", "violated"), ("groups=h,g", "holds")],
)
def test_a_view_makes_members_of_the_groups_that_it_names_and_of_no_others(
    name: str, groups: str, expected: str
) -> None:
    rows = f"c view v members=a,b,c {groups}\na multicast m g\na deliver m\nb deliver m\nc deliver m"
    assert outcome(name, rows, "g:a,b h:b,c") == expected


def test_delivering_each_message_once_holds() -> None:
    assert outcome("no-duplication", "a multicast m g\na deliver m\nb deliver m") == "holds"


def test_a_replay_is_no_delivery() -> None:
    assert outcome("no-duplication", "a multicast m g\nb deliver m\nb fail\nb replay m\nb recover") == "holds"


def test_without_a_delivery_no_duplication_is_vacuous() -> None:
    assert outcome("no-duplication", "a multicast m g\nb replay m") == "vacuous"


def test_a_duplicate_delivery_is_found_even_across_a_failure() -> None:
    verdict = verdict_of("no-duplication", "a multicast m g\nb deliver m\nb fail\nb recover\nb deliver m")
    assert verdict.verdict == "violated"
    assert verdict.witnesses == 1
    assert verdict.first is not None
    assert (verdict.first.sites, verdict.first.messages) == (("b",), ("m",))


def test_a_redelivery_after_a_rollback_is_allowed_only_where_r3_is_claimed() -> None:
    rows = "a multicast m g\nb deliver m\nb rollback m\nb deliver m"
    assert outcome("no-duplication", rows) == "violated"
    assert outcome("no-duplication", rows, guarantees=("R3",)) == "holds"
    assert outcome("no-duplication", rows, guarantees=("R3-single-source",)) == "holds"


def test_the_rollback_must_stand_between_the_two_deliveries_and_be_of_that_message() -> None:
    for rows in (
        "b rollback m\nb deliver m\nb deliver m",
        "b deliver m\nb rollback n\nb deliver m",
        "b deliver m\nc rollback m\nb deliver m",
        "b deliver m\nb rollback m\nb deliver m\nb deliver m",
    ):
        assert verdict_of("no-duplication", f"a multicast m g\n{rows}", guarantees=("R3",)).witnesses == 1
