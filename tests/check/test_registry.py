"""Which properties are judged, and what the verdicts look like."""

import json

import pyarrow as pa
import pytest

from ordercast.check import EVERYTHING, PROPERTIES, choose, judge
from ordercast.core.errors import UsageError
from ordercast.trace.schema import EVENTS
from tests.check.build import describe, events

ROWS = "a multicast m g\nb deliver m\nc deliver m\nd deliver m"

BOUNDS = {
    "phi_n": 1.0,
    "message_size": 1,
    "promised": dict.fromkeys(PROPERTIES, 1.0),
    "rest": {"seconds": 5.0, "packets": 1.0, "messages": 1, "entries": 1},
}
"""Some of every kind, so that nothing is not judged for want of one."""


def test_claimed_properties_are_judged_and_the_others_are_not() -> None:
    verdicts = judge(describe("g:b,c", ("integrity",)), events(ROWS))
    assert tuple(verdicts) == PROPERTIES
    assert verdicts["integrity"].claimed
    assert verdicts["integrity"].verdict == "violated"
    assert {verdict.verdict for name, verdict in verdicts.items() if name != "integrity"} == {"not-judged"}


def test_everything_is_judged_when_asked_for() -> None:
    verdicts = judge(describe("g:b,c"), events(ROWS), EVERYTHING)
    assert verdicts["integrity"].verdict == "violated"
    assert not verdicts["integrity"].claimed
    assert verdicts["uniform-agreement"].verdict == "holds"
    assert verdicts["P1"].verdict == "not-judged"


def test_named_properties_are_judged_and_no_others_are_mentioned() -> None:
    verdicts = judge(describe("g:b,c"), events(ROWS), choose(["termination", "integrity"]))
    assert [(name, verdict.verdict) for name, verdict in verdicts.items()] == [
        ("termination", "holds"),
        ("integrity", "violated"),
    ]


def test_an_unknown_property_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(UsageError, match=r"'integrty'.*'integrity'"):
        choose(["integrty"])
    with pytest.raises(UsageError, match=r"run 'run' claims .*'R4'"):
        judge(describe("g:a", ("R4",)), events(ROWS))


def test_a_verdict_becomes_json_as_promised() -> None:
    verdict = judge(describe("g:b,c", ("integrity",)), events(ROWS))["integrity"]
    assert json.loads(json.dumps(verdict.as_json())) == {
        "claimed": True,
        "verdict": "violated",
        "witnesses": 1,
        "first": {"sites": ["d"], "messages": ["m"], "why": "d delivers m, which is not addressed to it"},
    }


@pytest.mark.parametrize("name", PROPERTIES)
def test_an_empty_run_proves_nothing(name: str) -> None:
    expected = "holds" if name in ("P0", "Q0", "R0") else "vacuous"
    for groups in ("", "g:a,b"):
        run = describe(groups, bounds=BOUNDS)
        assert judge(run, EVENTS.empty_table(), choose([name]))[name].verdict == expected


@pytest.mark.parametrize("name", PROPERTIES)
def test_the_order_of_the_rows_in_the_table_does_not_matter(name: str) -> None:
    rows = """
    a multicast m g
    a send p1 peer=b messages=m
    b receive p1 messages=m
    b view v members=a,b
    b deliver m parent=a
    b multicast n g depends=m
    c deliver n
    c fail
    c recover
    c deliver m
    d join g
    d deliver m
    b deliver n
    a deliver m
    a deliver n
    """
    run, table = describe("g:a,b,c", bounds=BOUNDS), events(rows)
    backwards = table.take(pa.array(range(len(table) - 1, -1, -1)))
    in_pieces = pa.concat_tables([table.slice(place, 4) for place in range(0, len(table), 4)])
    expected = judge(run, table, choose([name]))[name]
    for other in (backwards, in_pieces):
        assert judge(run, other, choose([name]))[name].verdict == expected.verdict
        assert judge(run, other, choose([name]))[name].first == expected.first


@pytest.mark.parametrize("name", PROPERTIES)
def test_columns_that_a_foreign_table_lacks_are_null(name: str) -> None:
    table = events("a multicast m g\nb deliver m").select(["run", "site", "seq", "time", "kind", "message", "groups"])
    assert judge(describe("g:b", bounds=BOUNDS), table, choose([name]))[name].verdict in ("holds", "vacuous")


@pytest.mark.parametrize("index", [pa.int8(), pa.uint8(), pa.int16(), pa.uint32()], ids=str)
def test_texts_that_a_caller_has_encoded_narrowly_are_judged_like_others(index: pa.DataType) -> None:
    names = [f"m{number}" for number in range(127)]
    rows = [f"a multicast {name} g" for name in names] + [f"a send p{name} peer=b messages={name}" for name in names]
    rows += [f"{site} deliver {name} service=s{name}" for site in "bca" for name in names]
    rows += ["b view v1 members=a,b", "b deliver m0", "c deliver m127", "b view v2 members=b"]
    table = events("\n".join(rows))
    encoded = pa.table(
        {
            name: column.cast(pa.dictionary(index, pa.string())) if pa.types.is_string(column.type) else column
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
    )
    run = describe("g:a,b,c", bounds={"phi_n": 1.0, "promised": {"P1": 1.0, "Q1": 1.0}})
    assert judge(run, encoded, EVERYTHING) == judge(run, table, EVERYTHING)
