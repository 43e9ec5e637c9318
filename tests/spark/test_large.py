"""A run too large for a worker gets the verdicts that the judges would give it.

ORDERCAST_LARGE_TRACES sets how many random traces of each kind are judged one by one; unless told otherwise, they are
judged side by side only, which takes a tenth of the time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.check import WITNESSES_MAX, Verdict, choose, judge
from ordercast.check.facts import Facts
from ordercast.core.errors import UsageError
from ordercast.spark.verify.large import LARGE_PROPERTIES, judge_large
from ordercast.spark.verify.large import causality as large_causality
from ordercast.spark.verify.large import order as large_order
from ordercast.spark.verify.large import tables as large_tables
from ordercast.spark.verify.large.merge import Merge, Stretch
from ordercast.spark.verify.large.order import ORDER
from ordercast.spark.verify.large.tables import Limits
from ordercast.trace.schema import EVENTS, Run
from tests.check.build import describe, events
from tests.naive import CHECKERS
from tests.naive.generate import generate
from tests.spark.plans import compiled

TRACES = int(os.environ.get("ORDERCAST_LARGE_TRACES", "0"))
PROFILES = ("order", "deliveries", "liveness", "divergence")
SENDING = ["group-source-order", "source-order"]
OF_FAILURES = [f"{name}{of}" for name in ("R1", "R2") for of in ("", "-single-source", "-multiple-source")]
OF_VIEWS = ["R2-logical", "self-inclusion", "virtual-synchrony"]
CAUSAL = ["causal-order", "reliable-timestamp-order", "timestamp-order"]
OF_PROFILE = {
    "failures": OF_FAILURES,
    "views": OF_VIEWS,
    "group-views": OF_VIEWS,
    "causality": CAUSAL,
    "group-offsets": ["offset-agreement"],
    "group-order": [*CAUSAL, "R1", "R2"],
}
"""What the traces of a profile are made for."""
OF_GROUPS = ("group-order", "group-liveness", "group-views")
ALL = sorted(LARGE_PROPERTIES)
AGREEMENT = ["acyclic-order", "multiple-group-order"]
"""Where a certificate or a merge shows; the weaker orders are compared elsewhere, and take most of the time."""
EACH_WAY = [
    *("acyclic-order", "multiple-group-order", "source-order", "R1", "no-silent-divergence", "integrity", "agreement"),
    *("no-duplication", "atomic-receipt", "reliable-source-order", "recovery", "self-inclusion", "offset-agreement"),
]
"""A property, or two, for each way of judging them."""
SMALL = Limits(window_rows=8, knot_rows_max=5_000, part_rows=40, block_rows=4)
"""So that a trace of a hundred rows has many windows and parts."""
TINY = Limits(window_rows=2, knot_rows_max=4, part_rows=10, block_rows=4)
"""So that a knot of a few messages is too large to be taken apart."""


def frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    return spark.createDataFrame(table)


def described(verdict: Verdict) -> tuple[str, int, list[Any]]:
    """What must be the same; of a thousand witnesses and more each may choose its own."""
    witnesses = (
        [] if verdict.witnesses >= WITNESSES_MAX else sorted(map(msgspec.structs.astuple, verdict.all_witnesses))
    )
    return verdict.verdict, verdict.witnesses, witnesses


def assert_same(
    spark: SparkSession, run: Run, table: pa.Table, limits: Limits = SMALL, properties: Sequence[str] = ALL
) -> dict[str, Verdict]:
    expected = judge(run, table, choose(properties))
    found = judge_large(spark, frame(spark, table), run, properties, limits)
    assert list(found) == properties
    for name in properties:
        assert described(found[name]) == described(expected[name]), name
        assert found[name].claimed == expected[name].claimed
    return found


def random_trace(profile: str, seed: int) -> tuple[Run, pa.Table]:
    described_run, rows = generate(profile, seed)
    return msgspec.convert(described_run, Run), pa.Table.from_pylist(rows, schema=EVENTS)


def side_by_side(traces: list[tuple[str, int]]) -> tuple[Run, pa.Table]:
    """Many small traces as one run: each with sites, groups and messages of its own."""
    groups: dict[str, list[str]] = {}
    rows: list[dict[str, Any]] = []
    texts = ("site", "message", "source", "peer", "packet_id", "view")
    lists = ("groups", "destinations", "messages", "members", "transitional", "depends")
    for number, (profile, seed) in enumerate(traces):
        run, own = generate(profile, seed)
        groups |= {f"{number}.{name}": [f"{number}.{site}" for site in sites] for name, sites in run["groups"].items()}
        for row in own:
            named: dict[str, Any] = {**row, "run": "run"}
            for name in texts:
                if row.get(name) is not None:
                    named[name] = f"{number}.{row[name]}"
            for name in lists:
                if row.get(name) is not None:
                    named[name] = [f"{number}.{item}" for item in row[name]]
            rows.append(named)
    Random(len(rows)).shuffle(rows)
    return Run(run="run", groups=groups, settled=True), pa.Table.from_pylist(rows, schema=EVENTS)


def total_order(sites: int, messages: int, seed: int, swaps: int = 0, keys: bool = True) -> tuple[Run, pa.Table]:
    """Messages to overlapping groups in one total order, with neighbours swapped at a site here and there."""
    random = Random(seed)
    names = [f"s{number:03d}" for number in range(sites)]
    groups = {f"g{number}": sorted(random.sample(names, 4)) for number in range(sites)}
    rows: list[dict[str, Any]] = []
    orders: dict[str, list[tuple[str, int]]] = {name: [] for name in names}
    for number in range(messages):
        group, source = random.choice(sorted(groups)), random.choice(names)
        rows.append({"site": source, "time": number, "kind": "multicast", "message": f"m{number}", "groups": [group]})
        for site in groups[group]:
            orders[site].append((f"m{number}", number))
    for _ in range(swaps):
        order = orders[random.choice(names)]
        if len(order) > 1:
            place = random.randrange(len(order) - 1)
            order[place : place + 2] = reversed(order[place : place + 2])
    for site, order in orders.items():
        for place, (message, number) in enumerate(order):
            row = {"site": site, "time": messages + place, "kind": "deliver", "message": message}
            rows.append(row | ({"order_key": [number // 10, number % 10]} if keys else {}))
    for seq, row in enumerate(sorted(rows, key=lambda row: row["time"])):
        row |= {"run": "run", "seq": seq, "time": float(str(row["time"]))}
    run = Run(run="run", groups=groups, settled=True, guarantees=["multiple-group-order"])
    return run, pa.Table.from_pylist(rows, schema=EVENTS)


def interleaved(sites: int, messages: int, seed: int, swaps: int = 0, gap: int = 0) -> tuple[Run, pa.Table]:
    """Messages in one total order, each multicast when its source has delivered what it gets of those before it; with
    neighbours swapped at a site here and there, and some messages that a site never delivers."""
    random = Random(seed)
    names = [f"s{number:03d}" for number in range(sites)]
    groups = {f"g{number}": sorted(random.sample(names, min(4, sites))) for number in range(sites)}
    orders: dict[str, list[tuple[str, int, list[str]]]] = {name: [] for name in names}
    for number in range(messages):
        group, source = random.choice(sorted(groups)), random.choice(names)
        orders[source].append(("multicast", number, [group]))
        for site in groups[group]:
            orders[site].append(("deliver", number, []))
    for _ in range(swaps):
        order = orders[random.choice(names)]
        place = random.randrange(len(order) - 1)
        order[place : place + 2] = reversed(order[place : place + 2])
    for _ in range(gap):
        order = orders[random.choice(names)]
        place = random.choice([place for place, row in enumerate(order) if row[0] == "deliver"])
        del order[place]
    rows: list[dict[str, Any]] = [
        {"run": "run", "site": site, "seq": seq, "time": float(number + (kind == "deliver")), "kind": kind}
        | {"message": f"m{number}", "groups": named or None}
        | ({"order_key": [number // 10, number % 10]} if kind == "deliver" else {})
        for site, order in orders.items()
        for seq, (kind, number, named) in enumerate(order)
    ]
    run = Run(run="run", groups=groups, settled=True, guarantees=["multiple-group-order"])
    return run, pa.Table.from_pylist(rows, schema=EVENTS)


# --- The merge by itself ----------------------------------------------------------------------------------------


def merged(orders: list[list[int]], window_rows: int, knot_rows_max: int) -> tuple[set[frozenset[int]], Merge]:
    sites = {message: sum(message in order for order in orders) for order in orders for message in order}

    def read(site: int, low: int, high: int) -> Stretch:
        part = orders[site][low:high]
        return Stretch(np.array(part, dtype=np.int64), np.array([sites[each] for each in part], dtype=np.int32))

    merge = Merge([len(order) for order in orders], read, window_rows, knot_rows_max)
    return {frozenset(messages.tolist()) for messages, _ in merge.knots()}, merge


def components(orders: list[list[int]]) -> set[frozenset[int]]:
    rows = [
        {"run": "run", "site": f"s{site}", "seq": seq, "time": 0.0, "kind": "deliver", "message": str(message)}
        for site, order in enumerate(orders)
        for seq, message in enumerate(order)
    ]
    facts = Facts(Run(run="run"), pa.Table.from_pylist(rows, schema=EVENTS))
    name = facts.columns.message_name
    return {frozenset(int(name(message)) for message in part) for part in facts.cycles.components}


def random_orders(random: Random) -> list[list[int]]:
    sites, messages = random.randint(1, 7), random.randint(0, 60)
    orders = [[m for m in range(messages) if random.random() < 0.5] for _ in range(sites)]
    for _ in range(random.choice([0, 0, 1, 2, 5])):
        order = random.choice(orders)
        if len(order) > 1:
            place = random.randrange(len(order) - 1)
            other = min(len(order) - 1, place + random.choice([1, 1, 2, 20]))
            order[place], order[other] = order[other], order[place]
    return orders


@pytest.mark.parametrize("window_rows", [1, 10, 1000])
def test_the_merge_finds_exactly_the_knots(window_rows: int) -> None:
    random = Random(window_rows)
    knotted = 0
    for _ in range(400):
        orders = random_orders(random)
        found, merge = merged(orders, window_rows, 10_000)
        assert merge.stuck_at is None
        assert found == components(orders)
        knotted += bool(found)
    assert 50 < knotted < 350


@pytest.mark.parametrize("sites", [63, 64, 127, 128, 255, 256, 512])
def test_the_merge_finds_a_knot_however_many_sites_share_a_step_of_it(sites: int) -> None:
    found, _ = merged([[0, 1], *([[1, 0]] * sites)], 10_000, 10_000)
    assert found == {frozenset({0, 1})}


def test_the_merge_gives_up_only_where_there_is_a_knot() -> None:
    random = Random(7)
    gave_up = 0
    for _ in range(400):
        orders = random_orders(random)
        found, merge = merged(orders, 2, 8)
        knots = components(orders)
        assert found <= knots
        if merge.stuck_at is None:
            assert found == knots
        else:
            gave_up += 1
            at_the_fronts = set(merge.stuck_at.tolist())
            assert components([[m for m in order if m in at_the_fronts] for order in orders])
    assert gave_up > 20


def test_the_merge_holds_no_more_than_a_window_while_sites_agree() -> None:
    """One site is a whole run ahead of the others, which all wait for it."""
    orders = [list(range(10_000)), *([[9_999, 10_000 + site] for site in range(20)])]
    widest = 0

    class Watched(Merge):
        def _load(self) -> None:
            nonlocal widest
            super()._load()
            widest = max(widest, sum(len(window.message) for window in self._windows))

    sites = {9_999: 21}

    def read(site: int, low: int, high: int) -> Stretch:
        part = orders[site][low:high]
        return Stretch(np.array(part, dtype=np.int64), np.array([sites.get(each, 1) for each in part], dtype=np.int32))

    merge = Watched([len(order) for order in orders], read, 100, 400)
    assert list(merge.knots()) == []
    assert widest <= 400


# --- The whole, on Spark ----------------------------------------------------------------------------------------


def test_a_trace_of_each_kind_is_judged_as_by_the_judges_however_small_the_parts(spark: SparkSession) -> None:
    limits = TINY._replace(knot_rows_max=1000, part_rows=60)
    assert_same(spark, *side_by_side([(profile, 0) for profile in PROFILES]), limits)


@pytest.mark.parametrize("seed", range(TRACES))
@pytest.mark.parametrize("profile", PROFILES)
def test_random_traces_are_judged_as_by_the_judges(spark: SparkSession, profile: str, seed: int) -> None:
    assert_same(spark, *random_trace(profile, seed), TINY._replace(knot_rows_max=1000))


@pytest.mark.parametrize("seed", range(TRACES))
@pytest.mark.parametrize("profile", OF_PROFILE)
def test_random_traces_are_judged_as_by_the_naive_checkers(spark: SparkSession, profile: str, seed: int) -> None:
    run, table = random_trace(profile, seed)
    found = assert_same(spark, run, table, TINY._replace(knot_rows_max=1000), OF_PROFILE[profile])
    naive = {name: CHECKERS[name](*generate(profile, seed))[0] for name in OF_PROFILE[profile]}
    assert {name: verdict.verdict for name, verdict in found.items()} == naive


@pytest.mark.parametrize("profile", OF_PROFILE)
def test_many_traces_of_one_kind_side_by_side_are_judged_as_by_the_judges(spark: SparkSession, profile: str) -> None:
    run, table = side_by_side([(profile, seed) for seed in range(100, 112)])
    limits = Limits(window_rows=100, part_rows=200)
    found = assert_same(spark, run, table, limits, OF_PROFILE[profile])
    assert "violated" in {verdict.verdict for verdict in found.values()}
    services = {"total": ["R2-logical", "virtual-synchrony", "R1", "causal-order"], "source": ["virtual-synchrony"]}
    run = msgspec.structs.replace(run, services=services)
    assert_same(spark, run, table, limits, OF_PROFILE[profile])


def test_what_is_read_again_from_the_log_counts_as_by_the_judges(spark: SparkSession) -> None:
    run, table = side_by_side([("group-offsets", seed) for seed in (252, 253, 291, 319)])
    (offsets,) = assert_same(spark, run, table, SMALL, ["offset-agreement"]).values()
    without = judge(run, table.filter(pc.field("kind") != "replay"), choose(["offset-agreement"]))
    assert described(offsets) != described(without["offset-agreement"]), "it matters in these traces"


def test_many_traces_side_by_side_are_judged_as_by_the_judges(spark: SparkSession) -> None:
    traces = side_by_side([(profile, seed) for profile in PROFILES for seed in range(100, 103)])
    found = assert_same(spark, *traces, SMALL._replace(part_rows=400), EACH_WAY)
    assert any(verdict.verdict == "violated" for verdict in found.values())


def test_groups_that_come_and_go_with_services_are_judged_as_by_the_judges(spark: SparkSession) -> None:
    run, table = side_by_side([(profile, seed) for profile in OF_GROUPS for seed in range(100, 104)])
    services = {"total": ["source-order", "agreement", "view-termination"], "source": ["source-order", "acyclic-order"]}
    run = msgspec.structs.replace(run, services=services)
    properties = [*SENDING, "acyclic-order", "agreement", "view-termination", "transitional-set", "view-agreement"]
    found = assert_same(spark, run, table, Limits(window_rows=100, part_rows=400), properties)
    assert found["source-order"].verdict == found["transitional-set"].verdict == "violated"


def test_repeated_deliveries_are_excused_as_by_the_judges(spark: SparkSession) -> None:
    run, table = side_by_side([("failures", seed) for seed in range(20)])
    properties = ["acyclic-order", "no-duplication", "source-order"]
    assert_same(spark, msgspec.structs.replace(run, guarantees=["R3"]), table, properties=properties)


IN_SPANS = Limits(window_rows=100, part_rows=500, whole_rows=0)
"""So that no run is small enough to be judged as a whole where causality is asked for."""


@pytest.mark.parametrize(("swaps", "violated"), [(0, set()), (6, set(CAUSAL))])
def test_causality_is_judged_span_by_span_where_keys_tell_the_order(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, swaps: int, violated: set[str]
) -> None:
    """A span has all that causality runs through in it, so that the witnesses are the judges' own."""
    monkeypatch.setattr(large_causality, "SAMPLE_MESSAGES", 20)
    found = assert_same(spark, *interleaved(6, 300, 11, swaps), IN_SPANS, CAUSAL)
    assert {name for name, verdict in found.items() if verdict.verdict == "violated"} == violated


def test_a_message_that_a_site_lacks_is_seen_in_what_follows_it(spark: SparkSession) -> None:
    found = assert_same(spark, *interleaved(6, 300, 12, gap=1), IN_SPANS, CAUSAL)
    assert {name for name, verdict in found.items() if verdict.verdict == "violated"} == {"reliable-timestamp-order"}


def test_dependencies_that_only_a_message_tells_make_spans_too(spark: SparkSession) -> None:
    rows = "a multicast m g depends=n\nb multicast n g\nc multicast k g\n"
    rows += "\n".join(f"{site} deliver {name} order_key={key}" for site in "bc" for key, name in enumerate("mkn"))
    found = assert_same(spark, describe("g:b,c"), events(rows), IN_SPANS, CAUSAL)
    assert found["causal-order"].verdict == "violated"


def test_causality_without_keys_is_judged_as_a_whole_or_not_at_all(spark: SparkSession) -> None:
    run, table = interleaved(4, 40, 13)
    bare = table.drop_columns(["order_key"])
    found = judge_large(spark, frame(spark, bare), run, CAUSAL, IN_SPANS)
    assert {verdict.verdict for verdict in found.values()} == {"not-judged"}
    assert_same(spark, run, bare, properties=CAUSAL)


@pytest.mark.parametrize("keys", [True, False])
def test_a_total_order_over_more_sites_than_a_word_has_bits_holds(spark: SparkSession, keys: bool) -> None:
    found = assert_same(spark, *total_order(70, 400, 1, keys=keys), Limits(window_rows=300, part_rows=500), AGREEMENT)
    assert found["multiple-group-order"].verdict == found["acyclic-order"].verdict == "holds"


def test_swapped_neighbours_are_found_whatever_the_keys_say(spark: SparkSession) -> None:
    with compiled(spark):
        found = assert_same(
            spark, *total_order(20, 300, 2, swaps=40), Limits(window_rows=300, part_rows=500), AGREEMENT
        )
    assert found["multiple-group-order"].verdict == found["acyclic-order"].verdict == "violated"


def test_a_certificate_spares_the_merge(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_order, "find_knots", None)
    run, table = total_order(8, 60, 3)
    verdicts = judge_large(spark, frame(spark, table), run, AGREEMENT)
    assert {verdict.verdict for verdict in verdicts.values()} == {"holds"}


def test_a_certificate_is_checked_and_not_believed(spark: SparkSession) -> None:
    """Both sites have ascending keys, but not the same ones for the same messages."""
    rows = "a deliver m order_key=1\na deliver n order_key=2\nb deliver n order_key=1\nb deliver m order_key=2"
    found = assert_same(spark, describe("g:a,b"), events(rows), properties=AGREEMENT)
    assert found["multiple-group-order"].verdict == "violated"


@pytest.mark.parametrize(
    "rows",
    [
        "a deliver m order_key=2\na deliver n order_key=1\nb deliver m order_key=2\nb deliver n order_key=1",
        "a deliver m order_key=1\na deliver n order_key=2\nb deliver m order_key=1\nb deliver n",
        "a deliver m order_key=1\na deliver n order_key=1,2\nb deliver m order_key=1\nb deliver n order_key=1,2",
        "a deliver m order_key=1\na deliver n order_key=2\na deliver m order_key=1\nb deliver m order_key=1",
    ],
)
def test_keys_that_certify_nothing_do_no_harm(spark: SparkSession, rows: str) -> None:
    found = assert_same(spark, describe("g:a,b"), events(rows), properties=AGREEMENT)
    assert found["acyclic-order"].verdict == "holds"


def test_a_knot_too_large_to_be_taken_apart_is_still_found(spark: SparkSession) -> None:
    """Two sites, one the other way round: one knot of everything, and every pair inverted."""
    names = [f"m{number}" for number in range(12)]
    rows = [f"{site} deliver {name}" for site, order in (("a", names), ("b", names[::-1])) for name in order]
    run, table = describe("g:a,b"), events("\n".join(rows))
    properties = sorted(ORDER)
    found = judge_large(spark, frame(spark, table), run, properties, TINY)
    expected = judge(run, table, choose(properties))
    assert {name: verdict.verdict for name, verdict in found.items()} == {
        name: verdict.verdict for name, verdict in expected.items()
    }
    assert described(found["multiple-group-order"]) == described(expected["multiple-group-order"])
    assert found["acyclic-order"].first is not None


@pytest.mark.parametrize("limits", [SMALL, TINY])
def test_a_divergence_is_found_and_excused_however_large_the_knot(spark: SparkSession, limits: Limits) -> None:
    names = [f"m{number}" for number in range(12)]
    text = [f"a multicast {name} g" for name in names]
    text += [f"a deliver {name}" for name in names] + ["a fail reason=refused"]
    text += [f"{site} deliver {name}" for site in "bc" for name in names[::-1][: 6 if site == "b" else 12]]
    found = assert_same(
        spark, describe("g:a,b,c", settled=False), events("\n".join(text)), limits, ["no-silent-divergence"]
    )
    assert found["no-silent-divergence"].verdict == "holds"
    silent = [line for line in text if "refused" not in line]
    found = assert_same(
        spark, describe("g:a,b,c", settled=False), events("\n".join(silent)), limits, ["no-silent-divergence"]
    )
    assert found["no-silent-divergence"].witnesses > 60


def test_a_cycle_with_a_step_that_256_sites_share_is_told(spark: SparkSession) -> None:
    back = "\n".join(f"b{number:03d} deliver m2\nb{number:03d} deliver m1" for number in range(256))
    rows = events(f"a deliver m1\na deliver m2\n{back}")
    found = assert_same(spark, describe(""), rows, Limits(), ["acyclic-order"])
    assert found["acyclic-order"].verdict == "violated"


def test_a_circle_too_large_to_be_taken_apart_inverts_no_pair(spark: SparkSession) -> None:
    """Every two sites agree, all together run in a circle."""
    rows = [f"s{number} deliver m{number}\ns{number} deliver m{(number + 1) % 9}" for number in range(9)]
    run, table = describe("g:s0,s1"), events("\n".join(rows))
    found = judge_large(spark, frame(spark, table), run, AGREEMENT, TINY)
    assert found["multiple-group-order"].verdict == "vacuous"
    assert found["acyclic-order"].verdict == "violated"


def test_witnesses_stop_at_a_thousand(spark: SparkSession) -> None:
    names = [f"m{number:03d}" for number in range(80)]
    rows = [f"{site} deliver {name}" for site, order in (("a", names), ("b", names[::-1])) for name in order]
    properties = ["integrity", "multiple-group-order"]
    found = assert_same(spark, describe("g:a,b"), events("\n".join(rows)), Limits(), properties)
    assert found["multiple-group-order"].witnesses == WITNESSES_MAX
    assert found["integrity"].witnesses == 160


def test_names_with_the_same_hash_are_told_apart(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first hash takes all messages for one, the second one does not."""

    def poor(good: Any, message: Column, salt: int) -> Column:
        return F.lit(5).cast("long") if salt == 1 else good(message, salt)

    monkeypatch.setattr(large_tables, "_hash", partial(poor, large_tables._hash))
    run, table = total_order(6, 40, 5, swaps=3)
    assert_same(spark, run, table, properties=[*AGREEMENT, "source-order"])


@pytest.mark.parametrize("rows", ["", "a multicast m g", "a multicast m g\na deliver m"])
def test_a_run_with_next_to_nothing_in_it_is_judged(spark: SparkSession, rows: str) -> None:
    assert_same(spark, describe("g:a,b"), events(rows), properties=EACH_WAY)


def test_other_runs_and_missing_columns_do_not_matter(spark: SparkSession) -> None:
    run, table = total_order(6, 40, 6)
    others = events("a deliver m0\nb deliver m1\nb deliver m0\na deliver m1", run="other")
    both = pa.concat_tables([table, others]).select(["run", "site", "seq", "time", "kind", "message", "groups"])
    expected = judge(run, table, choose(EACH_WAY))
    found = judge_large(spark, frame(spark, both), run, EACH_WAY, SMALL)
    assert {name: described(found[name]) for name in EACH_WAY} == {name: described(expected[name]) for name in EACH_WAY}


def test_what_cannot_be_judged_of_a_large_run_is_refused_by_name(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="genuineness"):
        judge_large(spark, frame(spark, EVENTS.empty_table()), Run(run="run"), ["genuineness"])
