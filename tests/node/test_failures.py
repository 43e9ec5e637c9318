"""Whatever raises on a message's way ends the node, once, with its cause; nothing is skipped."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.core import MAIN_INSTANCE
from tests.node.cluster import make_configuration, open_nodes, run


def failing_at(bad: bytes, seen: list[bytes]) -> Callable[[ordercast.Delivery], None]:
    """A callback of an application with a mistake."""

    def on_delivery(delivery: ordercast.Delivery) -> None:
        if delivery.payload == bad:
            raise ValueError("the application's own mistake")
        seen.append(delivery.payload)

    return on_delivery


@pytest.mark.parametrize("protocol", ["sequencer", "two-phase", "fan-1"])
def test_an_exception_in_a_callback_ends_the_node_with_a_log_too_and_nothing_is_skipped(
    protocol: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        options = {"sources": ["a"]} if protocol == "fan-1" else {}
        configuration = make_configuration("ab", log_directory=str(tmp_path), protocol=protocol, options=options)
        async with open_nodes(configuration) as (a, b):
            seen: list[bytes] = []
            (await a.join("g")).on_batch(lambda _: None)
            (await b.join("g")).on_delivery(failing_at(b"3", seen))
            for index in range(8):
                await a.multicast(b"%d" % index, ["g"])
                while len(seen) <= index and not b.internals.over.is_set():
                    await asyncio.sleep(0)
            with pytest.raises(ordercast.NodeFailed, match="the application's own mistake") as failed:
                await b.wait_failed()
            assert isinstance(failed.value.__cause__, ValueError)
            assert seen == [b"0", b"1", b"2"]
            a.kill()

    with caplog.at_level(logging.ERROR):
        run(main())
    assert [record.getMessage() for record in caplog.records] == ["process b stops: the application's own mistake"]


@pytest.mark.parametrize("error", [ValueError, ordercast.UsageError, asyncio.CancelledError])
def test_an_exception_in_a_callback_is_no_answer_to_whoever_multicasts(error: type[BaseException]) -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("a")) as (a,):

            def on_delivery(delivery: ordercast.Delivery) -> None:
                raise error("the application's own mistake")

            (await a.join("g")).on_delivery(on_delivery)
            with pytest.raises(ordercast.NodeFailed, match="the application's own mistake"):
                await a.multicast(b"x", ["g"])
            with pytest.raises(ordercast.NodeFailed):
                await a.wait_failed()

    run(main())


def test_an_exception_at_what_waited_for_the_callback_ends_the_node() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("a")) as (a,):
            for payload in (b"0", b"1", b"2"):
                await a.multicast(payload, ["g"])
                await a.flush()
            group = await a.join("g")
            seen: list[bytes] = []
            with pytest.raises(ValueError, match="own mistake"):
                group.on_delivery(failing_at(b"1", seen))
            with pytest.raises(ordercast.NodeFailed, match="own mistake"):
                await a.wait_failed()
            assert seen == [b"0"]

    run(main())


WAYS_IN: dict[str, Callable[[Any], object]] = {
    "a socket": lambda site: site.on_drained(),
    "the endpoint's timer": lambda site: site.tick(),
    "a timer": lambda site: site._on_timer_due(MAIN_INSTANCE, "no such timer"),
    "the disk": lambda site: site.synced(site.instances[MAIN_INSTANCE], 0),
    "what was taken": lambda site: (site.consumed(), site._consumed_due()),
    "the application": lambda site: site.request(b"x", ("g",), None, 1),
}


@pytest.mark.parametrize("way", WAYS_IN)
def test_whatever_raises_at_the_end_of_a_turn_ends_the_node_by_whichever_way_the_turn_began(way: str) -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as (a, b):
            site: Any = a.internals.engine.site

            def end_turn() -> None:
                raise OSError("no space")

            site.end_turn = end_turn
            site.instances[MAIN_INSTANCE].handle = lambda *_: None
            site.instances[MAIN_INSTANCE].on_synced = lambda *_: None
            WAYS_IN[way](site)
            with pytest.raises(ordercast.NodeFailed, match="no space"):
                await a.wait_failed()
            b.kill()

    run(main())


def test_a_callback_that_multicasts_sees_the_rest_of_its_batch_before_what_it_has_sent() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("a")) as (a,):
            group = await a.join("g")
            seen: list[bytes] = []

            def on_delivery(delivery: ordercast.Delivery) -> None:
                seen.append(delivery.payload)
                if delivery.payload.isdigit():
                    group.try_multicast(b"answer to " + delivery.payload)

            group.on_delivery(on_delivery)
            await group.multicast_many([b"0", b"1", b"2"])
            while len(seen) < 6:
                await asyncio.sleep(0)
            assert seen == [b"0", b"1", b"2", b"answer to 0", b"answer to 1", b"answer to 2"]

    run(main())


async def take_all(group: ordercast.Group) -> list[bytes]:
    """Everything up to the end."""
    return [delivery.payload async for delivery in group]


def test_a_full_disk_under_a_trace_ends_the_node_with_one_line_and_nobody_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        configuration = make_configuration("ab", log_directory=str(tmp_path / "log"), groups={"g": ["a"], "h": ["b"]})
        async with (
            ordercast.open(configuration, "b") as b,
            ordercast.open(configuration, "a", trace_directory=str(tmp_path / "trace")) as a,
        ):
            await a.wait_for_peers()
            recorder = a.internals.engine.recorder
            assert recorder is not None
            reader = asyncio.create_task(take_all(await a.join("g")))
            waiter = asyncio.create_task(a.wait_failed())
            await asyncio.sleep(0)
            with open("/dev/full", "wb") as full:
                os.dup2(full.fileno(), recorder._file)
            (tmp_path / "trace" / "a" / "runs.jsonl.new").mkdir()  # nor can the last line be written
            with pytest.raises(ordercast.NodeFailed, match="cannot hold the trace any longer"):
                await asyncio.gather(a.multicast(b"x", ["g"]), a.flush())
            for task in (reader, waiter):
                with pytest.raises(ordercast.NodeFailed, match="No space left on device"):
                    await task
            # The others go on, and the process' address, log and trace can be opened again.
            await b.multicast(b"y", ["h"])
            assert not b.internals.over.is_set()
            async with ordercast.open(configuration, "a"):
                pass
            b.kill()

    with caplog.at_level(logging.ERROR):
        run(main())
    line = f"process a stops: {tmp_path}/trace/a: cannot hold the trace any longer (No space left on device): "
    line += "free some space, or leave trace_directory out"
    assert [record.getMessage() for record in caplog.records] == [line]


def test_a_trace_that_was_torn_by_a_full_disk_is_not_written_on_when_there_is_room_again(tmp_path: Path) -> None:
    async def main() -> None:
        configuration = make_configuration("a", trace_directory=str(tmp_path))
        async with open_nodes(configuration) as (a,):
            recorder = a.internals.engine.recorder
            assert recorder is not None
            os.write(recorder._file, b'{"torn')
            with open("/dev/full", "wb") as full:
                os.dup2(full.fileno(), recorder._expected_file)
            with pytest.raises(ordercast.NodeFailed):
                await a.multicast(b"x", ["g"])
        assert (tmp_path / "a" / "events.jsonl").read_bytes().endswith(b'{"torn')

    run(main())


def test_the_end_runs_every_step_whatever_the_others_raise(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        configuration = make_configuration("a", groups={"g": ["a"], "h": ["a"]})
        async with open_nodes(configuration) as (a,):

            def broken(*_: object) -> None:
                raise RuntimeError("broken")

            g, h = await a.join("g"), await a.join("h")
            g.on_end(broken)
            readers = [asyncio.create_task(take_all(group)) for group in (g, h)]
            peers = asyncio.create_task(a.wait_for_peers())
            await asyncio.sleep(0)
            internals = a.internals
            for part in (internals.obstacles, internals.engine.journal, internals.engine.site):
                part_end = "close" if hasattr(part, "close") else "stop"
                setattr(part, part_end, broken)
            a.kill()
            assert await asyncio.gather(*readers) == [[], []]
            await peers
            with pytest.raises(ordercast.NodeClosed):
                await a.multicast(b"x", ["g"])
        async with open_nodes(configuration):
            pass

    with caplog.at_level(logging.ERROR):
        run(main())
    assert "process a did not end in good order: broken" in caplog.text


def test_a_node_that_cannot_open_its_sockets_closes_its_trace_and_its_log(tmp_path: Path) -> None:
    async def main() -> None:
        configuration = make_configuration("a", trace_directory=str(tmp_path / "t"), log_directory=str(tmp_path / "l"))
        async with ordercast.open(configuration | {"trace_directory": None, "log_directory": None}, "a"):
            before = len(os.listdir("/proc/self/fd"))
            with pytest.raises(ordercast.UsageError, match="cannot listen"):
                async with ordercast.open(configuration, "a"):
                    pass
            assert len(os.listdir("/proc/self/fd")) == before

    run(main())
