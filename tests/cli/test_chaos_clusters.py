"""`ordercast chaos --clusters`: who is near whom, and what crosses between clusters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ordercast.chaos.proxy import FLAT, Terrain
from ordercast.cli.chaos.clusters import describe_crossings, make_terrain, options_for
from ordercast.core import UsageError
from ordercast.protocols import find_protocol

NAMES = ["p1", "p2", "p3", "p4", "p5"]


def test_clusters_are_as_equal_as_possible() -> None:
    terrain = make_terrain(NAMES, 3, 0.05, one_channel=False)
    assert [sorted(cluster) for cluster in terrain.clusters] == [["p1"], ["p2", "p3"], ["p4", "p5"]]
    assert terrain.seconds("p2", "p3") == 0.0
    assert terrain.seconds("p1", "p3") == terrain.seconds("p5", "p2") == 0.05
    assert make_terrain(NAMES, 1, 0.05, one_channel=False) == FLAT
    assert FLAT.seconds("p1", "p5") == 0.0


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be in 6 clusters"):
        make_terrain(NAMES, 6, 0.05, one_channel=False)
    with pytest.raises(UsageError, match="equally far away"):
        make_terrain(NAMES, 2, 0.05, one_channel=True)


def test_the_broadcast_tree_is_to_find_the_clusters_itself() -> None:
    terrain = make_terrain(NAMES, 2, 0.05, one_channel=False)
    tree, token = find_protocol("broadcast-tree"), find_protocol("token")
    assert options_for(tree, terrain) == {"clusters": "transit-time", "transit_seconds": 0.025}
    assert options_for(tree, FLAT) == options_for(token, terrain) == {}


def test_packets_that_cross_are_counted_for_each_message_and_the_others_apart(tmp_path: Path) -> None:
    def row(site: str, seq: int, kind: str, **rest: Any) -> dict[str, Any]:
        return {"run": "r", "site": site, "seq": seq, "time": float(seq), "kind": kind} | rest

    rows = [
        row("a", 0, "multicast", message="a:0:1", source="a", groups=["g"]),
        row("a", 1, "send", packet="Data", packet_id="1", peer="b", messages=["a:0:1"]),
        row("a", 2, "send", packet="Data", packet_id="2", peer="c", messages=["a:0:1"]),
        row("a", 3, "send", packet="Control", packet_id="3", peer="c"),
        row("c", 0, "deliver", message="a:0:1", source="a", parent="a"),
        row("b", 4, "deliver", message="a:0:1", source="a", parent="a"),
        row("c", 1, "send", packet="Data", packet_id="4", peer="d", messages=["a:0:1"]),
        row("d", 5, "deliver", message="a:0:1", source="a", parent="c"),
    ]
    (tmp_path / "runs.jsonl").write_text(json.dumps({"run": "r", "groups": {"g": ["a", "b", "c", "d"]}}) + "\n")
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    terrain = Terrain((frozenset("ab"), frozenset("cd")), 0.05)
    found = describe_crossings(tmp_path, terrain, datagrams=5, seconds=2.0)
    assert found["expensive_packets_least"] == found["expensive_packets_median"] == found["expensive_packets_mean"] == 1
    assert found["other_expensive_datagrams_per_second"] == 2.0
    # Of the three deliveries, the later ones: b's and d's.
    assert found["from_whom"]["b"] == found["from_whom"]["d"] == {"inside": 1, "outside": 0}
