"""What an application sees is what is meant for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ordercast
from tests.node.cluster import make_configuration, open_nodes, run

NODE = {
    "configuration",
    "direct",
    "flush",
    "groups",
    "incarnation",
    "internals",  # the one door to everything that is not for applications
    "join",
    "keep_snapshot",
    "kill",
    "members",
    "multicast",
    "multicast_many",
    "place",
    "process",
    "status",
    "try_multicast",
    "wait_failed",
    "wait_for_peers",
}
GROUP = {
    "ask",
    "batches",
    "choose",
    "choose_role",
    "consume",
    "events",
    "flush",
    "leave",
    "members",
    "multicast",
    "multicast_many",
    "name",
    "names",
    "offset",
    "on_batch",
    "on_caught_up",
    "on_delivery",
    "on_end",
    "on_gap",
    "on_question",
    "on_rollback",
    "on_view",
    "try_multicast",
    "views",
    "waiting_bytes",
}
SYNCHRONOUS_NODE = {
    "flush",
    "internals",  # as that of a node
    "join",
    "members",
    "multicast",
    "multicast_many",
    "replicate",
    "status",
    "try_multicast",
}
SYNCHRONOUS_GROUP = {
    "ask",
    "batches",
    "choose",
    "choose_role",
    "consume",
    "events",
    "leave",
    "members",
    "multicast",
    "multicast_many",
    "name",
    "on_question",
    "try_multicast",
    "views",
}
SYNCHRONOUS_TYPED_GROUP = {
    "consume",
    "deliveries",
    "leave",
    "members",
    "multicast",
    "multicast_many",
    "name",
    "try_multicast",
    "views",
}


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def test_a_node_and_a_group_show_what_is_for_applications() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("a")) as (node,):
            assert public(node) == NODE
            assert public(await node.join("g")) == GROUP

    run(main())


def test_a_node_shows_the_same_before_it_is_entered() -> None:
    assert public(ordercast.open(make_configuration("a"), "a")) == NODE


def test_a_synchronous_node_and_its_groups_show_what_is_for_applications() -> None:
    with ordercast.open_synchronous(make_configuration("a"), "a") as node:
        assert public(node) == SYNCHRONOUS_NODE
        group = node.join("g")
        assert public(group) == SYNCHRONOUS_GROUP
        group.leave()
        assert public(node.join("g", type=int)) == SYNCHRONOUS_TYPED_GROUP


@pytest.mark.parametrize("name", ordercast.__all__)
def test_what_the_package_shows_is_there(name: str) -> None:
    assert getattr(ordercast, name).__name__ == name


def test_the_package_shows_what_it_exports_before_and_after_anything_is_imported() -> None:
    assert public(ordercast) == set(ordercast.__all__)
    fresh = subprocess.run(
        [sys.executable, "-c", "import ordercast; print(*dir(ordercast)); print(*ordercast.__all__)"],
        capture_output=True,
        text=True,
        check=True,
    )
    shown, exported = (set(line.split()) for line in fresh.stdout.splitlines())
    assert shown == exported | {"__version__"}
