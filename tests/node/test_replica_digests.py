"""Replicas compare their states at one place of the order: where tails may come again it is not the same everywhere."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ordercast.node.internals import Internals
from ordercast.node.replica_digests import Digests
from ordercast.node.replica_messages import Check, Digest

CHECK = Check("a", 7)


class Replica:
    """What one replica compares, and says."""

    def __init__(self, *guarantees: str) -> None:
        self.failures: list[Exception] = []
        self.said: list[Check | Digest] = []
        internals: Any = SimpleNamespace(
            process="c",
            engine=SimpleNamespace(
                contract=SimpleNamespace(guarantees=guarantees),
                journal=SimpleNamespace(keep_state=lambda _name, _content: None),
            ),
            over=SimpleNamespace(is_set=lambda: False),
            failed=self.failures.append,
            views=SimpleNamespace(members=lambda _group: ("a", "b", "c")),
        )
        self.digests = Digests(cast(Internals, internals), "g", self.said.append)

    def check(self, view: str, offset: int, state: bytes) -> Digest:
        """The check is delivered here, and this is what the replica says."""
        self.digests.on_check(CHECK, offset, view, 1)([state])
        (said,) = self.said
        assert isinstance(said, Digest)
        self.digests.on_digest(said)
        return said


@pytest.mark.parametrize("guarantee", ["R1", "R2"])
def test_replicas_that_differ_at_the_same_place_stop(guarantee: str) -> None:
    replica = Replica(guarantee)
    place = replica.check("1", 50, b"own").place
    for other in "ab":
        replica.digests.on_digest(Digest(other, "a", 7, b"other", place))
    assert replica.failures


@pytest.mark.parametrize("elsewhere", [("0", 50), ("1", 49)])
def test_what_others_had_at_another_place_is_not_compared(elsewhere: tuple[str, int]) -> None:
    """a and b are cut off with the check in their tail; c delivers it again, behind other calls."""
    before = Replica("R2").check(*elsewhere, b"other").place
    replica = Replica("R2")
    replica.check("1", 50, b"own")
    for other in "ab":
        replica.digests.on_digest(Digest(other, "a", 7, b"other", before))
    assert not replica.failures


def test_where_every_delivery_stands_the_place_is_the_same_everywhere() -> None:
    assert not Replica("R1").check("1", 50, b"own").place
