"""Where a view ends: what belongs to it, and where it is told that messages of the gone may be missing."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ordercast.protocols.intergroup.membership.order import Entry, ViewOrder
from ordercast.protocols.intergroup.membership.packets import Cut


class Telling(ViewOrder):
    """Writes down what has its turn, and what is told between."""

    def __init__(self, members: str, waiting: dict[tuple[str, int], int]) -> None:
        """`waiting`: sender and number -> timestamp."""
        self.said: list[str] = []
        super().__init__(cast(Any, SimpleNamespace(members=tuple(members), tell_holes=self._note)))
        for (sender, seq), timestamp in waiting.items():
            self.put(
                cast(Any, SimpleNamespace(sender=sender)), cast(Any, SimpleNamespace(timestamp=timestamp, seq=seq))
            )

    def _note(self, senders: Iterable[str]) -> None:
        self.said.append(f"holes of {', '.join(senders)}")

    def _settle(self, entry: Entry) -> None:
        self.said.append(f"{entry[1]}{entry[2]}")


@pytest.mark.parametrize(
    ("heard", "said"),
    [
        pytest.param(1, ["a1", "holes of a", "d7", "holes of d", "b3", "b4"], id="behind-the-last-of-each"),
        pytest.param(2, ["a1", "d7", "holes of a, d", "b3", "b4"], id="not-before-what-is-complete"),
        pytest.param(9, ["a1", "d7", "b3", "b4"], id="not-where-nothing-is-missing"),
    ],
)
def test_the_hole_of_a_sender_that_is_gone_is_told_behind_its_last_message(heard: int, said: list[str]) -> None:
    order = Telling("abd", {("a", 1): 1, ("d", 7): 2, ("b", 3): 5, ("b", 4): 9})
    order.flush(Cut({"a": 1, "b": 4, "d": 7}, 9, heard), "b")
    assert order.said == said


def test_what_is_behind_the_cut_is_dropped_and_ends_nothing() -> None:
    order = Telling("abd", {("d", 7): 2, ("d", 8): 3, ("b", 3): 5})
    order.flush(Cut({"a": 0, "b": 3, "d": 7}, 9, 1), "b")
    assert order.said == ["holes of a", "d7", "holes of d", "b3"]
