"""Space-time diagrams."""

import pyarrow as pa
import pytest

from ordercast.cli.diagram import count_rows, draw, draw_rich, legend, short_name
from ordercast.protocols import find_protocol
from ordercast.sim.scenario import load_scenario
from ordercast.trace.schema import EVENTS


def trace(*rows: dict[str, object]) -> pa.Table:
    """Rows of one run; seq counts by itself."""
    complete = [{"run": "r", "seq": seq} | row for seq, row in enumerate(rows)]
    return pa.Table.from_pylist(complete, schema=EVENTS)


STORY = trace(
    {"site": "a", "time": 0.0, "kind": "multicast", "message": "a:0:1", "groups": ["g"]},
    {"site": "a", "time": 0.0, "kind": "send", "peer": "b", "packet": "Data", "messages": ["a:0:1"]},
    {"site": "a", "time": 0.1, "kind": "deliver", "message": "a:0:1"},
    {"site": "b", "time": 0.2, "kind": "receive", "peer": "a", "packet": "Data", "messages": ["a:0:1"]},
    {"site": "b", "time": 0.2, "kind": "deliver", "message": "a:0:1"},
    {"site": "c", "time": 0.3, "kind": "drop", "peer": "a", "packet": "Data", "messages": ["a:0:1"], "reason": "loss"},
    {"site": "b", "time": 0.4, "kind": "fail"},
    {"site": "c", "time": 0.5, "kind": "multicast", "message": "c:0:1", "groups": ["g"]},
    {"site": "a", "time": 0.6, "kind": "receive", "peer": "c", "packet": "Data", "messages": ["c:0:1"]},
    {"site": "b", "time": 2.0, "kind": "awake", "incarnation": 1},
    {"site": "c", "time": 2.1, "kind": "receive", "peer": "a", "packet": "Null", "messages": None},
    {"site": "b", "time": 2.2, "kind": "recover", "incarnation": 1},
    {"site": "a", "time": 2.3, "kind": "deliver", "message": "c:0:1"},
    {"site": "b", "time": 2.4, "kind": "replay", "message": "a:0:1"},
)

DRAWN = """\
   seconds a              b              c
   0.0000  M a:1          │              │
   0.1000  D a:1          │              │
   0.2000  ├─────────────▶D a:1          │
   0.3000  ├──────────────┼─────────────╌x a:1
   0.4000  │              F fails        │
   0.5000  │                             M c:1
   0.6000  · c:1◀────────────────────────┤
        ⋮  │                             │
   2.0000  │              A awake        │
   2.2000  │              R recovered    │
   2.3000  D c:1          │              │
   2.4000  │              (D) a:1        │"""


def test_a_story_is_drawn_like_this() -> None:
    assert draw(STORY, width=56) == DRAWN


def test_of_some_messages_only() -> None:
    drawn = draw(STORY, {"c:0:1"}, width=56)
    assert "a:1" not in drawn
    assert "· c:1◀" in drawn
    assert "F fails" in drawn


def test_without_packets_an_arrow_leads_to_the_delivery_that_waited() -> None:
    drawn = draw(STORY, width=56, packets=False)
    assert "·" not in drawn
    assert "   2.3000  D c:1◀─────────┼──────────────┤" in drawn
    assert count_rows(STORY, packets=False) == count_rows(STORY) - 1


def test_a_window_remembers_who_was_down_before() -> None:
    drawn = draw(STORY, width=56, window=(0.5, 1.0)).splitlines()
    assert drawn[1] == "   0.5000  │                             M c:1"
    assert len(drawn) == 3


def test_an_endless_diagram_is_cut_off() -> None:
    assert draw(STORY, width=56, rows_max=3).splitlines()[-1] == "… 8 more"


def test_colours_change_no_character() -> None:
    rich = draw_rich(STORY, width=56)
    assert [line.rstrip() for line in rich.plain.splitlines()] == DRAWN.splitlines()
    assert {str(span.style) for span in rich.spans} >= {"green", "bold red", "bold cyan"}


def test_names_that_are_too_long_are_cut_and_the_groups_go_first() -> None:
    table = trace(
        {"site": "branch-office-1", "time": 0.0, "kind": "multicast", "message": "m", "groups": ["accounts"]},
        {"site": "branch-office-1", "time": 1.0, "kind": "multicast", "message": "a-very-long-name", "groups": ["h"]},
    )
    assert draw(table, width=40).splitlines()[1:] == [
        "   0.0000  M m → accounts",
        "   1.0000  M a-very-long-name → h",
    ]
    assert draw(table, width=22).splitlines() == [
        "   seconds branch-o…",
        "   0.0000  M m",
        "   1.0000  M a-very…",
    ]


@pytest.mark.parametrize(
    ("message", "short"),
    [("a:0:1", "a:1"), ("main-1:2:40", "main-1:40''"), ("a:5:1", "a:1'5"), ("m7", "m7"), ("x:y", "x:y")],
)
def test_short_names(message: str, short: str) -> None:
    assert short_name(message) == short


def test_an_empty_trace_has_an_empty_diagram() -> None:
    assert draw(EVENTS.empty_table()) == "   seconds"


def test_a_row_never_gets_wider_than_the_diagram() -> None:
    events = load_scenario("partition", find_protocol).simulation().execute().table()
    assert max(map(len, draw(events, width=80).splitlines())) <= 80


COMING_AND_GOING = trace(
    {"site": "a", "time": 0.0, "kind": "multicast", "message": "a:0:1", "groups": ["g"]},
    {"site": "c", "time": 0.8, "kind": "send", "peer": "a", "packet": "Ask", "messages": None},
    {"site": "a", "time": 0.9, "kind": "view", "view": "2", "members": ["a", "c"], "groups": ["g"]},
    {"site": "c", "time": 1.0, "kind": "join", "groups": ["g"]},
    {"site": "c", "time": 1.0, "kind": "view", "view": "2", "members": ["a", "c"], "groups": ["g"]},
    {"site": "c", "time": 1.1, "kind": "activate", "service": "fast", "groups": ["g"]},
    {"site": "a", "time": 1.2, "kind": "leave", "groups": ["g"]},
)
COMING_AND_GOING_DRAWN = """\
   seconds a              c
   0.0000  M a:1
        ⋮  │
   0.9000  V 2 → a,c      │
   1.0000  │              J g
   1.0000  │              V 2 → a,c
   1.1000  │              S fast → g
   1.2000  L g            │"""


def test_joins_leaves_views_and_services_are_drawn_and_who_comes_late_begins_late() -> None:
    assert draw(COMING_AND_GOING, width=41) == COMING_AND_GOING_DRAWN


def test_the_legend_names_what_there_is() -> None:
    assert "J joins" in legend(COMING_AND_GOING)
    assert "J joins" not in legend(STORY)
