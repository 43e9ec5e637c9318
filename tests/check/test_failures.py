"""R1, R2, R3 and R2-logical: order in the presence of failures."""

import re

import pytest

from tests.check.build import outcome, verdict_of

SENT = "a multicast m g\na multicast n g\n"
AGREED = SENT + "b deliver m\nb deliver n\nc deliver m\nc deliver n"
SWAPPED = SENT + "b deliver m\nb deliver n\nc deliver n\nc deliver m"
STRENGTHS = ("R1", "R2", "R3")
VARIANTS = ("", "-single-source", "-multiple-source")


@pytest.mark.parametrize("strength", [*STRENGTHS, "R2-logical"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_without_failures_all_strengths_ask_for_the_same_order(strength: str, variant: str) -> None:
    name = strength if strength == "R2-logical" else strength + variant
    assert outcome(name, AGREED) == "holds"
    verdict = verdict_of(name, SWAPPED)
    assert verdict.verdict == "violated"
    assert verdict.first is not None
    assert (verdict.first.sites, verdict.first.messages) == (("b", "c"), ("m", "n"))
    assert outcome(name, SENT + "b deliver m\nc deliver m") == "vacuous"


@pytest.mark.parametrize("strength", STRENGTHS)
def test_variants_look_at_related_messages_only(strength: str) -> None:
    groups = "g:b,c h:b,c"
    other_group = SWAPPED.replace("a multicast n g", "a multicast n h")
    assert outcome(strength, other_group, groups) == "violated"
    assert outcome(f"{strength}-multiple-source", other_group, groups) == "vacuous"
    other_source = SWAPPED.replace("a multicast n g", "b multicast n g")
    assert outcome(f"{strength}-multiple-source", other_source) == "violated"
    assert outcome(f"{strength}-single-source", other_source) == "vacuous"


@pytest.mark.parametrize("name", ["R1", "R1-single-source", "R2", "R2-multiple-source", "R2-logical"])
def test_a_second_delivery_violates_r1_and_r2(name: str) -> None:
    verdict = verdict_of(name, AGREED + "\nc deliver n")
    assert verdict.verdict == "violated"
    assert verdict.witnesses == 1
    assert verdict.first is not None
    assert verdict.first.why == "c delivers n more than once"


def test_a_second_delivery_in_the_same_order_is_fine_for_r3() -> None:
    assert outcome("R3", AGREED + "\nc deliver n") == "holds"


# c delivers n before m and fails; only then b begins, with m: c's order was of no consequence to b.
ALLOWED_ANOMALY = SENT + "c deliver n\nc deliver m\nc fail\nb deliver m\nb deliver n\nc recover"
# The twin: b has delivered m when c fails.
FORBIDDEN_TWIN = SENT + "c deliver n\nc deliver m\nb deliver m\nc fail\nb deliver n\nc recover"


def test_r2_excuses_what_a_site_delivered_before_it_failed() -> None:
    assert outcome("R2", ALLOWED_ANOMALY) == "holds"
    assert outcome("R2-single-source", ALLOWED_ANOMALY) == "holds"
    assert outcome("R1", ALLOWED_ANOMALY) == "violated"


def test_r2_forbids_the_same_when_the_failure_came_too_late() -> None:
    verdict = verdict_of("R2", FORBIDDEN_TWIN)
    assert verdict.verdict == "violated"
    assert verdict.first is not None
    assert (verdict.first.sites, verdict.first.messages) == (("b", "c"), ("m", "n"))


def test_the_excuse_is_the_same_whichever_of_the_two_sites_failed() -> None:
    def mirrored(rows: str) -> str:
        return re.sub(r"^[bc]", lambda site: {"b": "c", "c": "b"}[site[0]], rows, flags=re.MULTILINE)

    assert outcome("R2", mirrored(ALLOWED_ANOMALY)) == "holds"
    assert outcome("R2", mirrored(FORBIDDEN_TWIN)) == "violated"


def test_an_excused_pair_does_not_hide_another_one() -> None:
    # p and q are excused by c's failure, but m and n are not.
    rows = SENT + "c deliver q\nc deliver p\nc fail\nc recover\nc deliver n\nc deliver m\n"
    rows += "b deliver p\nb deliver q\nb deliver m\nb deliver n"
    verdict = verdict_of("R2", rows)
    assert [witness.messages for witness in verdict.all_witnesses] == [("m", "n")]
    assert verdict.excused == 1


def test_what_r2_excuses_is_counted_and_what_it_forbids_is_not() -> None:
    assert verdict_of("R2", ALLOWED_ANOMALY).excused == 1
    assert verdict_of("R2-single-source", ALLOWED_ANOMALY).excused == 1
    assert verdict_of("R2", FORBIDDEN_TWIN).excused == 0
    assert verdict_of("R2", AGREED).excused == 0


def test_a_failure_at_the_very_time_of_a_delivery_is_no_excuse() -> None:
    rows = SENT + "@3 c deliver n\n@4 c deliver m\n@4 c fail\n@5 b deliver m\n@6 b deliver n"
    assert outcome("R2", rows) == "violated"


def test_r3_forgives_what_is_rolled_back_while_the_site_is_down() -> None:
    rows = (
        SENT
        + "c deliver n\nc fail\nb deliver m\nb deliver n\nc awake\nc rollback n\nc deliver m\nc deliver n\nc recover"
    )
    assert outcome("R3", rows) == "holds"
    assert outcome("R1", rows) == "violated"


def test_r3_forgives_an_inversion_that_no_two_running_sites_ever_showed() -> None:
    # When c delivers m, b has failed for good.
    rows = SENT + "b deliver m\nb deliver n\nc deliver n\nb fail\nc deliver m"
    assert outcome("R3", rows) == "holds"


def test_r3_does_not_forgive_an_inversion_between_recovery_and_rollback() -> None:
    rows = SENT + "c deliver n\nb deliver m\nb deliver n\nc fail\nc deliver m\nc recover\nc rollback n\nc deliver n"
    verdict = verdict_of("R3", rows)
    assert verdict.verdict == "violated"
    assert verdict.first is not None
    assert (verdict.first.sites, verdict.first.messages) == (("b", "c"), ("m", "n"))


def test_r3_sees_only_what_a_step_leaves_behind() -> None:
    # Rolled back, delivered again and recovered, all in one step at one time.
    rows = SENT + "c deliver n\nc deliver m\nc fail\nb deliver m\nb deliver n\n"
    rows += "@9 c rollback m\n@9 c rollback n\n@9 c deliver m\n@9 c deliver n\n@9 c recover"
    assert outcome("R3", rows) == "holds"


def test_r3_finds_an_inversion_that_a_later_redelivery_repairs() -> None:
    rows = SWAPPED + "\nc rollback n\nc deliver n"
    assert outcome("R3", rows) == "violated"


GROUPS = "g:b,c,d"


def test_r2_logical_does_not_count_what_was_rolled_back() -> None:
    rows = SWAPPED + "\nc rollback n"
    assert outcome("R2", rows) == "violated"
    assert outcome("R2-logical", rows) == "vacuous"
    assert outcome("R2-logical", rows + "\nc deliver n") == "holds"


def test_r2_logical_does_not_count_what_a_site_delivers_outside_the_view_of_the_majority() -> None:
    views = "b view v members=b,d\nd view v members=b,d\n"
    assert outcome("R2", SENT + views + "b deliver m\nb deliver n\nc deliver n\nc deliver m", GROUPS) == "violated"
    assert (
        outcome("R2-logical", SENT + views + "b deliver m\nb deliver n\nc deliver n\nc deliver m", GROUPS) == "vacuous"
    )


def test_r2_logical_counts_again_from_the_view_on_that_the_site_installs() -> None:
    rows = SENT + "b view v members=b,d\nd view v members=b,d\nc view v members=b,c,d\n"
    assert outcome("R2-logical", rows + "b deliver m\nb deliver n\nc deliver n\nc deliver m", GROUPS) == "violated"


def test_r2_logical_takes_the_moment_of_the_majority_for_a_failure() -> None:
    # c has delivered both before the majority went on without it.
    rows = SENT + "c deliver n\nc deliver m\nb view v members=b,d\nd view v members=b,d\nb deliver m\nb deliver n"
    assert outcome("R2", rows, GROUPS) == "violated"
    assert outcome("R2-logical", rows, GROUPS) == "holds"


def test_a_view_of_half_of_the_sites_is_no_majority() -> None:
    rows = SENT + "b view v members=b\nb deliver m\nb deliver n\nc deliver n\nc deliver m"
    assert outcome("R2-logical", rows, "g:b,c") == "violated"


def test_the_majority_is_that_of_the_last_view_that_a_majority_has_installed() -> None:
    # Five become three; two of the three are a majority then, and the third goes its own way.
    three = "".join(f"{site} view v members=b,c,d\n" for site in "bcd")
    two = "b view w members=b,d\nd view w members=b,d\n"
    swapped = "b deliver m\nb deliver n\nc deliver n\nc deliver m"
    assert outcome("R2-logical", SENT + three + two + swapped, "g:a,b,c,d,e") == "vacuous"
    # Without the view of the three, two of five are none.
    assert outcome("R2-logical", SENT + two + swapped, "g:a,b,c,d,e") == "violated"
    # And sites that join count: of the five in this view, two are none.
    five = "".join(f"{site} view v members=b,c,d,x,y\n" for site in "bcdxy")
    assert outcome("R2-logical", SENT + five + two + swapped, "g:b,c,d") == "violated"


@pytest.mark.parametrize("name", ["P0", "Q0", "R0"])
def test_what_promises_nothing_holds_always(name: str) -> None:
    assert outcome(name, "") == outcome(name, SWAPPED) == "holds"
