"""The order of a view: how far it is, what names the next one, and where it ends: what belongs to it, and where it is
told that messages of the gone may be missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ordercast.core import InvariantViolation
from ordercast.core.effects import Activate
from ordercast.protocols.intergroup.group import ProcessGroup
from ordercast.protocols.intergroup.membership.changes import Changes
from ordercast.protocols.intergroup.membership.order import Entry, ViewOrder
from ordercast.protocols.intergroup.membership.packets import Cut
from ordercast.protocols.intergroup.membership.view import InView
from ordercast.protocols.intergroup.options import InterGroupOptions
from ordercast.protocols.intergroup.packets import ViewId
from ordercast.protocols.intergroup.senders import SenderGroup


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

    def _settle(self, entries: Sequence[Entry]) -> None:
        self.said += [f"{entry[1]}{entry[2]}" for entry in entries]


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


def test_all_who_come_along_share_a_hole_so_that_a_state_that_they_share_stays_one() -> None:
    service = SimpleNamespace(name="group-timestamp", reliable=True, means=lambda sender: sender != "c")
    core = SimpleNamespace(outbox=[], branch=lambda name: None)
    view = SimpleNamespace(core=core, group=SimpleNamespace(name="g", service=service))
    InView.tell_holes(cast(Any, view), ["b", "c"])
    assert core.outbox == [Activate("g", "group-timestamp", "b", shared=True)]


def group_of(*senders: str) -> ProcessGroup:
    """As one of them sees it."""
    view = ViewId(0, senders[0], 0)
    return ProcessGroup("g", senders[0], senders, SenderGroup(view, view, senders, {}), InterGroupOptions())


def checksum(left: dict[str, int], **ordered: int) -> int:
    """Of a process that has delivered so much of each sender."""
    group = group_of("a", "b", "c")
    for sender, seq in ordered.items():
        group.streams.setdefault(sender, group.new_stream(sender)).ordered = seq
    changes = Changes(cast(Any, SimpleNamespace(group=group, left=left)))
    return changes.checksum(("a", "b", "c"))


def test_views_after_one_change_are_told_apart_by_what_was_delivered_before_it() -> None:
    assert checksum({"d": 7}, a=3, b=5, c=0) == checksum({"d": 7}, c=0, b=5, a=3)
    others = [checksum({"d": 7}, a=3, b=4, c=0), checksum({"d": 6}, a=3, b=5, c=0), checksum({}, a=3, b=5, c=0)]
    assert len({checksum({"d": 7}, a=3, b=5, c=0), *others}) == 4


def test_what_a_sender_has_said_that_is_not_in_the_view_yet_names_none() -> None:
    assert checksum({}, a=3, b=5, c=0, e=9) == checksum({}, a=3, b=5, c=0)


def test_nothing_has_its_turn_before_what_has_had_it() -> None:
    group = group_of("a", "b")
    group.service = cast(Any, SimpleNamespace(settle=lambda stream, data: None))
    order = ViewOrder(cast(Any, SimpleNamespace(group=group)))

    def settle(*places: tuple[int, str]) -> None:
        data = cast(Any, SimpleNamespace(change=None, proxied=None, multicast=SimpleNamespace(count=2)))
        order._settle([(timestamp, sender, timestamp, group.streams["b"], data) for timestamp, sender in places])

    settle((1, "b"), (2, "b"))
    assert (order.count, order.last, order.reached) == (4, (2, "b"), 2)
    for late in [(2, "b"), (2, "a"), (1, "b")]:
        with pytest.raises(InvariantViolation, match="has its turn after"):
            settle(late)


def test_the_horizon_is_that_of_the_slowest_sender_whoever_that_is() -> None:
    random = Random(1)
    view = ViewId(0, "a", 0)
    senders = SenderGroup(view, view, ("a", "b", "c", "d"), {})
    group = ProcessGroup("g", "a", senders.members, senders, InterGroupOptions())
    for _ in range(300):
        stream = random.choice(group.others)
        stream.passed += random.randrange(3)
        assert group.passed(10**9) == min(stream.passed for stream in group.others)
    group.install(SenderGroup(view, view, ("a",), {}))
    assert group.passed(10**9) == 10**9
