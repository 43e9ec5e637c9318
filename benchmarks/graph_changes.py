"""What does a change of the propagation graph cost those who multicast? Rates, and how long anybody stands still.

    python benchmarks/graph_changes.py [--nodes 5] [--size 100] [--seconds 20] [--json]

Live processes multicast to one group. For `--seconds` nothing changes; then, once a second, one of them joins a second
group, or leaves it, which closes the graph and opens the next one. Rates are compared while all multicast as fast as
they can; stops while each sends a message every millisecond, for in a full queue nobody sees a stop. A stop is the time
from Close to Open at a process; beside it stands the longest time between two deliveries within a second, in which the
machine has its part. A round trip is the time from a multicast to its delivery at the same process, which does not
order, while nobody else multicasts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import ordercast
from ordercast.bench.configuration import write_configuration
from ordercast.bench.load import Load
from ordercast.core import Multicast
from ordercast.protocols.propagation_graph.passage import Passage

LIST_LENGTH = 500
EVENLY_SECONDS = 0.001
WARM_UP_SECONDS = 3
ROUND_TRIPS = 200
RATE_MIN = 0.9
STOP_ROUND_TRIPS_MAX = 20


def watch_stops() -> list[float]:
    """From now on this process notes how long it stands still for each change."""
    stops: list[float] = []
    open_graph = Passage.open

    def watched(passage: Passage, sender: str, multicast: Multicast) -> None:
        since = passage._since
        open_graph(passage, sender, multicast)
        if since is not None:
            stops.append(passage._core.now - since)

    Passage.open = watched  # type: ignore[method-assign]
    return stops


class Member:
    """One process, and what it has delivered."""

    def __init__(self, node: ordercast.Node, group: ordercast.Group) -> None:
        self.node = node
        self.group = group
        self.delivered = 0
        self._last = time.perf_counter()
        self._longest = 0.0

    async def receive(self) -> None:
        """Count, and keep the longest time without a delivery."""
        async for batch in self.group.batches():
            now = time.perf_counter()
            self._longest = max(self._longest, now - self._last)
            self._last = now
            self.delivered += len(batch)

    def take_longest(self) -> float:
        """Since the last time that this was asked."""
        longest = max(self._longest, time.perf_counter() - self._last)
        self._longest, self._last = 0.0, time.perf_counter()
        return longest


async def _send(group: ordercast.Group, size: int) -> None:
    payloads = [bytes(size)] * LIST_LENGTH
    while True:
        await group.multicast_many(payloads)


async def _send_evenly(group: ordercast.Group, size: int) -> None:
    while True:
        await asyncio.sleep(EVENLY_SECONDS)
        await group.multicast(bytes(size))


async def _play(config: str, process: str, size: int, seconds: float) -> None:
    """A member process: it is told by lines what to do, and tells by lines what it has seen."""
    stops = watch_stops()
    async with ordercast.open(config, process) as node:
        await node.wait_for_peers()
        member = Member(node, await node.join("bench"))
        lines = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        receiving = asyncio.ensure_future(member.receive())
        sending: asyncio.Future[None] | None = None
        quotes: ordercast.Group | None = None
        while command := (await lines.readline()).decode().strip():
            said: dict[str, Any] = {}
            if command == "round-trips":
                said["seconds"] = await _measure_round_trips(member, size)
            elif command in ("send", "send evenly"):
                if sending is not None:
                    sending.cancel()
                send = _send if command == "send" else _send_evenly
                sending = asyncio.ensure_future(send(member.group, size))
            elif command == "change":
                if quotes is None:
                    quotes = await node.join("quotes")
                else:
                    await quotes.leave()
                    quotes = None
            said |= {"delivered": member.delivered, "longest": member.take_longest(), "stops": stops.copy()}
            stops.clear()
            print(json.dumps(said), flush=True)
            if receiving.done():
                receiving.result()


async def _measure_round_trips(member: Member, size: int) -> float:
    taken = []
    for _ in range(ROUND_TRIPS):
        before, began = member.delivered, time.perf_counter()
        await member.group.multicast(bytes(size))
        while member.delivered == before:
            await asyncio.sleep(0)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


class Process:
    """A member as seen from outside."""

    def __init__(self, command: list[str]) -> None:
        self._command = command

    async def start(self) -> None:
        """Begin."""
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe)

    async def ask(self, command: str) -> dict[str, Any]:
        """Have it do something, and hear what it has seen since the last time."""
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("a member without pipes")
        process.stdin.write(f"{command}\n".encode())
        line = await process.stdout.readline()
        if not line:
            sys.exit("a member has ended; its last words are above")
        said: dict[str, Any] = json.loads(line)
        return said

    async def end(self) -> None:
        """It is not asked any more."""
        self._process.kill()
        await self._process.wait()


class Seen(NamedTuple):
    """What all members have seen together."""

    rate: float
    """Messages a second of the slowest."""
    stops: list[float]
    """From Close to Open, of each of them for each change."""
    gaps: list[float]
    """The longest time between two deliveries, of each of them in each second."""


async def _watch(members: list[Process], seconds: float, changing: bool) -> Seen:
    first = await asyncio.gather(*(member.ask("look") for member in members))
    began, stops, gaps = time.monotonic(), [], []
    second = 0
    while time.monotonic() < began + seconds:
        second += 1
        if changing:
            stops += (await members[1 + second // 2 % (len(members) - 1)].ask("change"))["stops"]
        await asyncio.sleep(max(0.0, began + second - time.monotonic()))
        said = await asyncio.gather(*(member.ask("look") for member in members))
        stops += [stop for each in said for stop in each["stops"]]
        gaps += [each["longest"] for each in said]
    last = await asyncio.gather(*(member.ask("look") for member in members))
    taken = time.monotonic() - began
    delivered = min(b["delivered"] - a["delivered"] for a, b in zip(first, last, strict=True))
    return Seen(delivered / taken, stops, gaps)


async def _measure(nodes: int, size: int, seconds: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="ordercast-graph-") as folder:
        load = Load(nodes=nodes, size=size, protocol="propagation-graph")
        config = write_configuration(Path(folder), load)
        me = [sys.executable, __file__, "--member", str(config)]
        members = [Process([*me, name, str(size), str(seconds)]) for name in load.names]
        try:
            for member in members:
                await member.start()
            round_trip = (await members[-1].ask("round-trips"))["seconds"]
            await asyncio.gather(*(member.ask("send") for member in members))
            await asyncio.sleep(WARM_UP_SECONDS)
            before, during, after = [
                (await _watch(members, seconds, changing)).rate for changing in (False, True, False)
            ]
            await asyncio.gather(*(member.ask("send evenly") for member in members))
            await asyncio.sleep(WARM_UP_SECONDS)
            usual = await _watch(members, seconds, changing=False)
            changing = await _watch(members, seconds, changing=True)
        finally:
            await asyncio.gather(*(member.end() for member in members))
    quiet = (before + after) / 2
    return {
        "nodes": nodes,
        "size": size,
        "round_trip_ms": 1000 * round_trip,
        "rate_without": quiet,
        "rate_with": during,
        "ratio": during / quiet,
        "stop_median_ms": 1000 * statistics.median(changing.stops),
        "stop_p99_ms": 1000 * _percentile(changing.stops),
        "stop_round_trips": _percentile(changing.stops) / round_trip,
        "gap_median_ms": 1000 * statistics.median(changing.gaps),
        "gap_median_without_ms": 1000 * statistics.median(usual.gaps),
    }


def _percentile(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(0.99 * len(values)))]


def main() -> int:
    """Measure, and say whether it is good enough."""
    if sys.argv[1:2] == ["--member"]:
        config, process, size, seconds = sys.argv[2:6]
        asyncio.run(_play(config, process, int(size), float(seconds)))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = asyncio.run(_measure(arguments.nodes, arguments.size, arguments.seconds))
    if arguments.json:
        print(json.dumps(figures))
    else:
        print(
            f"{figures['nodes']} processes, {figures['size']} bytes: {figures['rate_without'] / 1e3:.0f} k messages/s "
            f"without changes, {figures['rate_with'] / 1e3:.0f} k with one a second (ratio {figures['ratio']:.2f}, "
            f"wanted {RATE_MIN}); stops: median {figures['stop_median_ms']:.1f} ms, p99 "
            f"{figures['stop_p99_ms']:.1f} ms, {figures['stop_round_trips']:.0f} round trips of "
            f"{figures['round_trip_ms']:.2f} ms (at most {STOP_ROUND_TRIPS_MAX}); longest gap of a second, median: "
            f"{figures['gap_median_ms']:.1f} ms, without changes {figures['gap_median_without_ms']:.1f} ms"
        )
    return int(figures["ratio"] < RATE_MIN or figures["stop_round_trips"] > STOP_ROUND_TRIPS_MAX)


if __name__ == "__main__":
    sys.exit(main())
