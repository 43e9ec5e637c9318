"""The picture of a control process's states is drawn from the table by which it goes (Berket 2000, 2.6.2)."""

from __future__ import annotations

from collections import defaultdict
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from ordercast.protocols.intergroup.control.states import TRANSITIONS, State
from ordercast.protocols.intergroup.membership.states import RECEPTION_WAYS, REPAIR_WAYS, WAYS, Ways

PROJECT = Path(__file__).parents[2]
DOCUMENT = PROJECT / "src/ordercast/protocols/intergroup/README.md"

FROM_TO = {
    (State.START, State.COORDINATOR): 13,
    (State.START, State.CHILD): 15,
    (State.COORDINATOR, State.TO_CHILD): 12,
    (State.TO_CHILD, State.COORDINATOR): 11,
    (State.TO_CHILD, State.CHILD): 10,
    (State.TO_COORDINATOR, State.COORDINATOR): 16,
    (State.CHILD, State.TO_COORDINATOR): 6,
}
"""Each arrow of the picture, and how long it is."""


def row(*pieces: tuple[int, str]) -> str:
    """Pieces of text at their columns."""
    line = ""
    for column, text in pieces:
        line = line.ljust(column) + text
    return line


def drawn() -> str:
    """The picture with a number on each arrow for each reason to take it, and what the numbers mean."""
    numbers: defaultdict[tuple[State, State], list[str]] = defaultdict(list)
    reasons = []
    for number, ((source, cause), target) in enumerate(TRANSITIONS.items(), start=1):
        numbers[source, target].append(str(number))
        reasons.append(f"{number:2}  {source.value} -> {target.value}: {cause.value}")
    assert set(numbers) == set(FROM_TO), "the picture has an arrow for each two states, and no others"
    arrow = {ends: ",".join(numbers[ends]).center(length, "─") for ends, length in FROM_TO.items()}
    start, child, coordinator = State.START, State.CHILD, State.COORDINATOR
    to_child, to_coordinator = State.TO_CHILD, State.TO_COORDINATOR
    picture = [
        row((5, f"┌{arrow[start, coordinator]}"), (20, "START"), (26, f"{arrow[start, child]}┐")),
        row((5, "▼"), (41, "▼")),
        row((0, "COORDINATOR"), (39, "CHILD")),
        row((2, "▲  │  ▲"), (39, "▲  │")),
        row((2, f"│  │  └{arrow[to_child, coordinator]}┐"), (39, "│  │")),
        row((2, f"│  └{arrow[coordinator, to_child]}►"), (20, f"TO_CHILD {arrow[to_child, child]}┘  │")),
        row((2, f"└{arrow[to_coordinator, coordinator]}"), (20, f"TO_COORDINATOR ◄{arrow[child, to_coordinator]}┘")),
    ]
    return "\n".join([*picture, "", *reasons, ""])


def test_the_document_draws_the_states_as_the_table_has_them() -> None:
    assert f"```text\n{drawn()}```" in DOCUMENT.read_text(encoding="utf-8")


def picture(ways: Ways[Any]) -> str:
    """A table of chapter 5 as a picture: an arrow for each way, with its reason."""
    arrows = [f"    {_name(before)} --> {_name(after)}: {why}" for (before, after), why in ways.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", *arrows, "```"]).replace(";", ",")


def _name(state: Enum) -> str:
    return state.value.replace("-", "_")


@pytest.mark.parametrize("ways", [WAYS, REPAIR_WAYS, RECEPTION_WAYS], ids=["5.1-5.3", "5.4 and 5.6", "5.7"])
def test_the_pictures_of_the_membership_are_drawn_from_its_tables(ways: Ways[Any]) -> None:
    """Berket 2000, Figures 5.1 to 5.4, 5.6 and 5.7."""
    assert picture(ways) in (PROJECT / "docs/intergroup.md").read_text(encoding="utf-8")
