"""Digests spare a large run its rows, and what is wrong in one row is found all the same."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from ordercast.check import choose, judge
from ordercast.spark.verify.large import blocks as large_blocks
from ordercast.spark.verify.large import judge_large
from ordercast.spark.verify.large import order as large_order
from ordercast.spark.verify.large import tables as large_tables
from ordercast.spark.verify.large.digesting import digests, mixed, ranked, steps_back, united
from ordercast.spark.verify.large.spans import Span, _Choosing
from ordercast.spark.verify.large.tables import Limits
from ordercast.trace.schema import EVENTS, Run
from tests.spark.test_large import described

SITES = [f"s{number}" for number in range(6)]
GROUPS = {f"g{number}": [SITES[(number + step) % 6] for step in range(3)] for number in range(6)}
MESSAGES = 240
CLAIMS = ["integrity", "no-duplication", "uniform-agreement", "acyclic-order", "multiple-group-order", "source-order"]
BLOCKS = Limits(window_rows=8, knot_rows_max=5_000, part_rows=200, block_rows=20)
"""So that 720 deliveries are 36 blocks."""

Rows = list[dict[str, Any]]


def totally_ordered(seed: int = 1) -> tuple[Run, Rows]:
    """Messages with names, numbers and keys as the project's own protocols write them, in one order; sorted by site and
    seq as its own writer has them."""
    random = Random(seed)
    by_site: dict[str, Rows] = {site: [] for site in SITES}
    numbers = dict.fromkeys(SITES, 0)
    for place in range(MESSAGES):
        source, group = random.choice(SITES), random.choice(sorted(GROUPS))
        numbers[source] += 1
        about = {
            "run": "run",
            "message": f"{source}:0:{numbers[source]}",
            "source": source,
            "source_seq": numbers[source],
            "groups": [group],
        }
        by_site[source].append({**about, "kind": "multicast", "time": float(place)})
        for site in GROUPS[group]:
            key = [place // 50, place % 50]
            by_site[site].append({**about, "kind": "deliver", "time": place + 0.5, "order_key": key})
    run = Run(run="run", groups=GROUPS, settled=True, guarantees=CLAIMS)
    return run, [row | {"site": site, "seq": seq} for site in SITES for seq, row in enumerate(by_site[site])]


def of(site: str, rows: Rows) -> list[int]:
    """The places of a site's deliveries."""
    return [place for place, row in enumerate(rows) if row["site"] == site and row["kind"] == "deliver"]


def swap(rows: Rows, one: int, two: int, *names: str) -> None:
    for name in names:
        rows[one][name], rows[two][name] = rows[two][name], rows[one][name]


ABOUT = ("message", "source", "source_seq", "groups")


def neighbours_swapped(rows: Rows) -> None:
    """Of one group, so that other sites have both, and of two sources."""
    there = of("s1", rows)
    one, two = next(
        (one, two)
        for one, two in pairwise(there)
        if rows[one]["groups"] == rows[two]["groups"] and rows[one]["source"] != rows[two]["source"]
    )
    swap(rows, one, two, *ABOUT, "order_key")


def far_ones_swapped(rows: Rows) -> None:
    there = of("s1", rows)
    swap(rows, there[3], there[-3], *ABOUT, "order_key")


def far_ones_swapped_under_their_keys(rows: Rows) -> None:
    """The keys ascend, and two messages have two of them."""
    there = of("s1", rows)
    swap(rows, there[3], there[-3], *ABOUT)


def one_missing(rows: Rows) -> None:
    del rows[of("s4", rows)[20]]


def one_doubled(rows: Rows) -> None:
    place = of("s2", rows)[20]
    rows.append({**rows[place], "seq": 10_000, "time": 9_999.0})


def one_made_up(rows: Rows) -> None:
    rows[of("s2", rows)[30]]["message"] = "s9:0:1"


def one_astray(rows: Rows) -> None:
    place = next(each for each in of("s0", rows) if "s3" not in GROUPS[rows[each]["groups"][0]])
    rows.append({**rows[place], "site": "s3", "seq": 10_000, "time": 9_999.0})


def one_too_early(rows: Rows) -> None:
    rows[next(each for each in of("s2", rows) if rows[each]["source"] != "s2")]["time"] = -1.0


def one_multicast_twice_and_delivered_twice(rows: Rows) -> None:
    """Every digest agrees; only the numbers do not ascend."""
    again = [row for row in rows if row["message"] == rows[of("s2", rows)[20]]["message"]]
    rows += [{**row, "seq": 10_000, "time": 9_999.0 + (row["kind"] == "deliver")} for row in again]


def one_under_another_address(rows: Rows) -> None:
    """What a delivery says of its address is not believed, and nothing is wrong for it."""
    rows[of("s2", rows)[5]]["groups"] = ["g5"]


PLANTED: list[tuple[list[Callable[[Rows], None]], set[str]]] = [
    ([neighbours_swapped, one_under_another_address], {"acyclic-order", "multiple-group-order"}),
    ([far_ones_swapped], {"acyclic-order", "multiple-group-order", "source-order"}),
    ([far_ones_swapped_under_their_keys], {"acyclic-order", "multiple-group-order", "source-order"}),
    (
        [one_missing, one_doubled, one_made_up, one_astray, one_too_early],
        {"integrity", "no-duplication", "uniform-agreement"},
    ),
    ([one_multicast_twice_and_delivered_twice], {"no-duplication"}),
]


def frame_of(spark: SparkSession, rows: Rows) -> Any:
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=EVENTS)).coalesce(1)


@pytest.mark.parametrize(("plants", "violated"), PLANTED, ids=lambda each: getattr(next(iter(each)), "__name__", ""))
def test_wrong_rows_are_found_as_the_judges_find_them(
    spark: SparkSession, plants: list[Callable[[Rows], None]], violated: set[str]
) -> None:
    run, rows = totally_ordered()
    for plant in plants:
        plant(rows)
    expected = judge(run, pa.Table.from_pylist(rows, schema=EVENTS), choose(CLAIMS))
    assert violated <= {name for name, verdict in expected.items() if verdict.verdict == "violated"}
    found = judge_large(spark, frame_of(spark, rows), run, CLAIMS, BLOCKS)
    assert {name: described(found[name]) for name in CLAIMS} == {name: described(expected[name]) for name in CLAIMS}


def test_where_digests_agree_no_table_of_messages_is_made_and_few_rows_are_judged(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the shuffle of all deliveries nor the merge is needed; the judges see two blocks at the most."""
    seen: dict[str, list[int]] = {"judged": [], "grouped": []}

    def counted(name: str, function: Any) -> Any:
        def count(rows: Any, *rest: Any) -> Any:
            seen[name].append(rows.count())
            return function(rows, *rest)

        return count

    monkeypatch.setattr(large_blocks, "judge_by_message", counted("judged", large_blocks.judge_by_message))
    monkeypatch.setattr(large_tables, "_by_message", counted("grouped", large_tables._by_message))
    monkeypatch.setattr(large_order, "find_knots", None)
    run, rows = totally_ordered()
    found = judge_large(spark, frame_of(spark, rows), run, CLAIMS, BLOCKS)
    assert {verdict.verdict for verdict in found.values()} == {"holds"}
    assert seen["judged"]
    assert max(seen["judged"] + seen["grouped"]) < len(rows) // 8


def test_a_span_too_large_for_a_worker_is_seen_in_a_share_of_its_messages(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_order, "find_knots", None)
    run, rows = totally_ordered()
    far_ones_swapped(rows)
    limits = BLOCKS._replace(knot_rows_max=100, part_rows=150)
    order = ["acyclic-order", "multiple-group-order"]
    found = judge_large(spark, frame_of(spark, rows), run, order, limits)
    assert {verdict.verdict for verdict in found.values()} == {"violated"}
    expected = judge(run, pa.Table.from_pylist(rows, schema=EVENTS), choose(order))
    assert set(found["multiple-group-order"].all_witnesses) <= set(expected["multiple-group-order"].all_witnesses)


# --- Without Spark ----------------------------------------------------------------------------------------------


def test_a_digest_is_that_of_the_rows_in_any_order_and_of_no_others() -> None:
    random = np.random.default_rng(1)
    site, address, block = (random.integers(0, 3, 500) for _ in range(3))
    ids = random.integers(-(2**62), 2**62, 500)

    def summed(chosen: np.ndarray, ids: np.ndarray) -> set[tuple[int, ...]]:
        found = digests(site[chosen], address[chosen], block[chosen], mixed(ids[chosen]))
        return set(zip(*(column.tolist() for column in found.values()), strict=True))

    whole = np.arange(500)
    assert summed(random.permutation(whole), ids) == summed(whole, ids)
    other = ids.copy()
    other[250] += 1
    assert len(summed(whole, other) ^ summed(whole, ids)) == 2
    assert len(summed(whole[1:], ids) ^ summed(whole, ids)) in (1, 2)


@pytest.mark.parametrize("seed", range(20))
def test_every_inversion_lies_within_a_span_and_spans_do_not_overlap(seed: int) -> None:
    random = np.random.default_rng(seed)
    rank = np.arange(60)
    for _ in range(3):
        one, two = random.integers(0, 60, 2)
        rank[[one, two]] = rank[[two, one]]
    spans = list(zip(*(ends.tolist() for ends in steps_back(rank)), strict=True))
    assert all(before[1] < after[0] for before, after in pairwise(spans))
    for early in range(60):
        for late in range(early + 1, 60):
            if rank[early] > rank[late]:
                assert any(low <= rank[late] and rank[early] <= high for low, high in spans)
    assert united(np.array([5, 1]), np.array([6, 5]))[0].tolist() == [1]


def test_keys_of_several_numbers_are_ranked_and_found_in_spans_as_tuples_are() -> None:
    random = np.random.default_rng(3)
    keys = [random.integers(0, 4, 200), random.integers(-3, 3, 200)]
    tuples = list(zip(*(key.tolist() for key in keys), strict=True))
    rank, with_rank = ranked(keys)
    order = {key: number for number, key in enumerate(sorted(set(tuples)))}
    assert rank.tolist() == [order[key] for key in tuples]
    assert [column.tolist() for column in with_rank(rank)] == [key.tolist() for key in keys]
    spans = [Span((0, 1), (1, -2)), Span((2, 0), (2, 0)), Span((3, -3), (3, 5))]
    expected = [next((n for n, span in enumerate(spans) if span.low <= key <= span.high), -1) for key in tuples]
    assert _Choosing(spans).part_of(keys).tolist() == expected
