"""Causal order, and order without holes."""

import pytest

from tests.check.build import outcome, verdict_of

# m is delivered at b before b multicasts n: m causally precedes n.
CAUSE = "a multicast m g\nb deliver m\nb multicast n g\n"


def test_the_cause_before_its_effect_holds() -> None:
    assert outcome("causal-order", CAUSE + "c deliver m\nc deliver n") == "holds"


def test_the_effect_before_its_cause_violates_causal_order() -> None:
    verdict = verdict_of("causal-order", CAUSE + "c deliver n\nc deliver m")
    assert verdict.verdict == "violated"
    assert verdict.first is not None
    assert (verdict.first.sites, verdict.first.messages) == (("c",), ("m", "n"))
    assert verdict.first.why == "c delivers n before m, which causally precedes it"


def test_causal_order_needs_both_messages_at_one_site() -> None:
    assert outcome("causal-order", CAUSE + "c deliver n") == "vacuous"
    # Delivered after the multicast: concurrent.
    assert (
        outcome("causal-order", "a multicast m g\nb multicast n g\nb deliver m\nc deliver n\nc deliver m") == "vacuous"
    )


def test_the_order_of_one_source_is_causal() -> None:
    assert outcome("causal-order", "a multicast m g\na multicast n g\nc deliver n\nc deliver m") == "violated"


def test_causes_reach_through_other_messages_and_sites() -> None:
    rows = "a multicast m g\nb deliver m\nb multicast x g\nd deliver x\nd multicast n g\nc deliver n\nc deliver m"
    verdict = verdict_of("causal-order", rows)
    assert [witness.messages for witness in verdict.all_witnesses] == [("m", "n")]


def test_depends_tells_causes_without_deliveries() -> None:
    rows = "a multicast m g\nb multicast n g depends=m\nc deliver n\nc deliver m"
    assert outcome("causal-order", rows) == "violated"
    assert outcome("causal-order", rows.replace(" depends=m", "")) == "vacuous"


def test_causality_in_a_circle_is_judged_and_does_not_hang() -> None:
    rows = "b deliver m\nb multicast n g\na deliver n\na multicast m g\nc deliver m\nc deliver n"
    assert outcome("causal-order", rows) == "violated"
    # n is in its own past, and m reaches it through x all the same.
    own = "a multicast m g\nb multicast x g depends=m\nb deliver n\nb multicast n g\nc deliver n\nc deliver m"
    assert verdict_of("causal-order", own).first is not None


def test_timestamp_order_is_one_order_that_keeps_causality() -> None:
    assert outcome("timestamp-order", CAUSE + "c deliver m\nc deliver n") == "holds"
    assert outcome("timestamp-order", CAUSE + "c deliver n\nc deliver m") == "violated"
    concurrent = "a multicast m g\nb multicast n g\na deliver m\na deliver n\nc deliver n\nc deliver m"
    assert outcome("causal-order", concurrent) == "vacuous"
    assert outcome("timestamp-order", concurrent) == "violated"
    assert outcome("timestamp-order", "a multicast m g\nb deliver m") == "vacuous"


THREE = "a multicast m1 g\na multicast m2 g\na multicast m3 g\n"
SOURCE = "reliable-source-order"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("c deliver m1\nc deliver m2\nc deliver m3", "holds"),
        ("c deliver m2\nc deliver m3", "holds"),  # the activation point is m2
        ("c deliver m3", "vacuous"),
        ("c deliver m1\nc deliver m3", "violated"),
        ("c deliver m1\nc deliver m3\nc deliver m2", "violated"),
        ("d deliver m1\nd deliver m3", "vacuous"),  # nothing is owed to d but what it got
    ],
)
def test_no_gap_in_the_source_order_from_the_activation_point_on(rows: str, expected: str) -> None:
    assert outcome(SOURCE, THREE + rows) == expected


def test_the_gap_is_named() -> None:
    verdict = verdict_of(SOURCE, THREE + "c deliver m1\nc deliver m3")
    assert verdict.witnesses == 1
    assert verdict.first is not None
    assert (verdict.first.sites, verdict.first.messages) == (("c",), ("m2", "m3"))


VIEWS = """
c view v1 members=a,c
a multicast m1 g
a multicast m2 g
c deliver m1
{change}
a multicast m3 g
c deliver m3
"""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("", "violated"),
        ("c view v2 members=a,b,c", "violated"),
        ("c view v2 members=c\nc view v3 members=a,c", "vacuous"),  # the source was away in between
        ("b view v2 members=b", "violated"),  # not c's view
    ],
)
def test_a_gap_is_forgiven_when_the_source_left_the_views_between(change: str, expected: str) -> None:
    assert outcome(SOURCE, VIEWS.format(change=change)) == expected


def test_a_view_after_the_delivery_at_the_same_time_does_not_count() -> None:
    assert outcome(SOURCE, VIEWS.format(change="") + "@6 c view v2 members=c") == "violated"


HOLE = "reliable-timestamp-order"


def test_a_causal_hole_is_found() -> None:
    rows = "a multicast m0 g\na multicast m g\nb deliver m\nb multicast n g\nc deliver m0\nc deliver n"
    verdict = verdict_of(HOLE, rows)
    assert verdict.verdict == "violated"
    assert verdict.first is not None
    assert (verdict.first.sites, verdict.first.messages) == (("c",), ("m", "n"))
    assert outcome("causal-order", rows) == "holds"


def test_delivering_the_causes_first_leaves_no_hole() -> None:
    rows = "a multicast m0 g\na multicast m g\nb deliver m\nb multicast n g\nc deliver m0\nc deliver m\nc deliver n"
    assert outcome(HOLE, rows) == "holds"


def test_a_site_that_has_delivered_nothing_of_the_source_before_is_not_obliged() -> None:
    assert outcome(HOLE, CAUSE + "c deliver n") == "vacuous"
    assert outcome(HOLE, CAUSE + "c deliver n\nc deliver m") == "violated"


@pytest.mark.parametrize(
    ("members", "expected"), [("a,b,c", "violated"), ("a,c", "vacuous"), ("b,c", "vacuous"), ("c", "vacuous")]
)
def test_a_hole_counts_only_while_both_sources_are_in_the_views(members: str, expected: str) -> None:
    rows = f"c view v members={members}\n" + CAUSE + "c deliver n\nc deliver m"
    assert outcome(HOLE, rows) == expected
