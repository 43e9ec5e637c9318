"""What the pieces of a large run say of it, put together: no Spark is needed to find that out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from ordercast.check import choose, judge
from ordercast.spark.verify.large import ascent, sending, survey
from ordercast.spark.verify.large.names import number_texts
from ordercast.spark.verify.large.parts import BY_MESSAGE
from ordercast.trace.schema import Run
from tests.spark.test_large import PROFILES, random_trace, total_order

Packs = list[tuple[int, pa.Table]]


class Pieces:
    """The rows of a run in pieces, as workers would read them."""

    def __init__(self, run: Run, table: pa.Table, pieces: int) -> None:
        self.run = run
        size = max(1, len(table) // pieces)
        self._tables = [table.slice(start, size) for start in range(0, len(table), size)]

    def pack(self, names: Iterable[str], cut: Callable[[pa.Table], Iterable[tuple[int, pa.Table]]]) -> Packs:
        return [pack for table in self._tables for pack in cut(table.select(list(names)))]


def ask_here(packs: Packs, find: Callable[[int, pa.Table], pa.Table], schema: pa.Schema) -> Any:
    of_part: dict[int, list[pa.Table]] = {}
    for part, table in packs:
        of_part.setdefault(part, []).append(table)
    found = [find(part, pa.concat_tables(own).unify_dictionaries()) for part, own in of_part.items()]
    return SimpleNamespace(toArrow=lambda: pa.concat_tables([schema.empty_table(), *found]))


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (ascent, sending, survey):
        monkeypatch.setattr(module, "ask_packs", ask_here)


def by_site(table: pa.Table) -> pa.Table:
    return table.sort_by([("site", "ascending"), ("seq", "ascending")])


def keys_of(table: pa.Table) -> dict[str, list[tuple[int, ...]]]:
    keys: dict[str, list[tuple[int, ...]]] = {}
    for row in by_site(table).to_pylist():
        if row["kind"] == "deliver":
            keys.setdefault(row["site"], []).append(tuple(row["order_key"]))
    return keys


@pytest.mark.parametrize("swaps", [0, 1, 5])
@pytest.mark.parametrize("sorted_rows", [True, False])
def test_where_keys_do_not_ascend_is_found_whatever_the_pieces(swaps: int, sorted_rows: bool) -> None:
    for seed in range(8):
        run, table = total_order(6, 80, seed, swaps)
        rows: Any = Pieces(run, by_site(table) if sorted_rows else table, 5)
        found = ascent.find_ascent(rows)
        keys = keys_of(table)
        wrong = {site for site, own in keys.items() if any(after <= before for before, after in pairwise(own))}
        assert list(found.sites) == sorted(keys)
        assert wrong <= found.doubtful
        assert not sorted_rows or found.doubtful == wrong
        descents = ascent.find_descents(rows, found, 256)
        assert descents is not None
        inverted = [(b, a) for own in keys.values() for at, a in enumerate(own) for b in own[at + 1 :] if b <= a]
        assert bool(descents.spans) == bool(inverted)
        for low, high in inverted:
            assert any(span.low <= low and high <= span.high for span in descents.spans)
            assert {low, high} & descents.odd


def test_two_far_messages_that_are_swapped_are_all_that_is_odd() -> None:
    run, table = total_order(6, 200, 1)
    own = [row for row in table.to_pylist() if row["kind"] == "deliver" and row["site"] == "s000"]
    first, last = own[3], own[-3]
    swapped = [
        row | {"seq": last["seq"] if row == first else first["seq"] if row == last else row["seq"]}
        for row in table.to_pylist()
    ]
    rows: Any = Pieces(run, by_site(pa.Table.from_pylist(swapped, schema=table.schema)), 5)
    descents = ascent.find_descents(rows, ascent.find_ascent(rows), 256)
    assert descents is not None
    assert len(descents.spans) == 1
    assert {tuple(first["order_key"]), tuple(last["order_key"])} <= descents.odd
    assert len(descents.odd) <= 4


@pytest.mark.parametrize("profile", PROFILES)
def test_the_parts_of_a_survey_find_what_the_judges_find(profile: str) -> None:
    properties = sorted(BY_MESSAGE)
    for seed in range(6):
        run, table = random_trace(profile, seed)
        rows: Any = Pieces(run, table, 4)
        said = survey.take_survey(rows, ascent.find_ascent(rows), len(table), properties, 40).toArrow().to_pylist()
        expected = judge(run, table, choose(properties))
        for name in properties:
            found = [(row["sites"], row["messages"], row["why"]) for row in said if row["property"] == name]
            witnesses = [(list(each.sites), list(each.messages), each.why) for each in expected[name].all_witnesses]
            assert sorted(each for each in found if each[2]) == sorted(witnesses)
        delivered = {row["message"] for row in table.to_pylist() if row["kind"] == "deliver"}
        assert sum(row["count"] or 0 for row in said) == len(delivered)


def sent(numbers: list[int], delivered: list[int]) -> pa.Table:
    rows = [{"site": "a", "kind": "multicast", "source_seq": number} for number in numbers]
    rows += [{"site": "b", "kind": "deliver", "source": "a", "source_seq": number} for number in delivered]
    rows = [
        {**row, "seq": seq, "run": "run", "time": 0.0, "message": str(row["source_seq"])}
        for seq, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(rows, schema=total_order(4, 1, 0)[1].schema)


@pytest.mark.parametrize(
    ("numbers", "delivered", "ascends"),
    [([1, 2, 3], [1, 2, 3], True), ([1, 2, 3], [1, 3], True), ([1, 2, 3], [1, 3, 2], False), ([2, 1], [1, 2], False)],
)
@pytest.mark.parametrize("pieces", [1, 2, 6])
def test_sending_order_is_seen_in_the_numbers(
    numbers: list[int], delivered: list[int], ascends: bool, pieces: int
) -> None:
    rows: Any = Pieces(Run(run="run"), sent(numbers, delivered), pieces)
    assert sending.sending_ascends(rows) is ascends


def test_texts_have_different_numbers_and_equal_ones_the_same() -> None:
    texts = ["", "a", "b", "ab", "ba", "a" * 8, "a" * 9, "a\0", *(f"s{n:03d}:0:{n * 7919}" for n in range(5000))]
    numbers = number_texts(pa.array([*texts, None]))
    assert len(set(numbers.tolist())) == len(texts) + 1
    assert numbers[-1] == 0
    assert number_texts(pa.array(texts).slice(100)).tolist() == numbers[100:-1].tolist()
