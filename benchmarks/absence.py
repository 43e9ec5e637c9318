"""What does it cost the others when a member is away for long? Their rate and memory before, during and after.

    python benchmarks/absence.py [--protocol token] [--nodes 4] [--size 100] [--seconds 600] [--rate N] [--json]

All processes have a log and multicast as fast as they can, or with --rate so many messages a second, all but the one
that will be away together. One of them is killed, stays away for `--seconds`, and is
started again with its log; it is back when its offset has caught up with the others'. The rate before is measured with
all of them there, so the others have one process less to share the machine with while it is away: the ratio says that
they do not stop or slow down, not that absence is a gain. The disk is written to by all of them all the time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ordercast
from ordercast.bench.configuration import write_configuration
from ordercast.bench.load import Load

BEFORE_SECONDS = 30
WARM_UP_SECONDS = 5
"""After a change nobody is measured for so long: members find out, buffers fill."""
RETURN_SECONDS_MAX = 120
BEHIND_SECONDS_MAX = 1.0
"""Who is no further behind than what the others deliver in so long has caught up."""
RATIO_MIN = 0.9
GROWTH_MAX = 1.1
"""Memory at the end of the absence, against that after its first tenth."""
LIST_LENGTH = 500
EVENLY_SECONDS = 0.01


# ------------------------------------------------------------------ a member
async def _member(config: str, process: str, size: int, rate: float) -> None:
    async with ordercast.open(config, process) as node:
        group = await node.join("bench")
        receiving = asyncio.ensure_future(_receive(group))
        sending = asyncio.ensure_future(_send(group, size) if rate < 0 else _send_evenly(group, size, rate))
        while True:
            await asyncio.sleep(1)
            for task in (receiving, sending):
                if task.done():
                    task.result()
            said = {"offset": group.offset, "resident": _resident_megabytes(), "blocked": node.status()["blocked"]}
            print(json.dumps(said), flush=True)


async def _receive(group: ordercast.Group) -> None:
    async for batch in group.batches():
        sum(map(len, batch))


async def _send(group: ordercast.Group, size: int) -> None:
    payloads = [index.to_bytes(8) + bytes(size - 8) for index in range(LIST_LENGTH)]
    while True:
        try:
            await group.multicast_many(payloads)
        except ordercast.GroupBlocked:
            await asyncio.sleep(0.1)


async def _send_evenly(group: ordercast.Group, size: int, rate: float) -> None:
    sent, began = 0, time.monotonic()
    while True:
        await asyncio.sleep(EVENLY_SECONDS)
        due = int((time.monotonic() - began) * rate) - sent
        if due > 0:
            await group.multicast_many([bytes(size)] * due)
            sent += due


def _resident_megabytes() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1e3
    return 0.0


# ------------------------------------------------------------------ whoever watches
class Watched:
    """A member as seen from outside: what it has said last."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self.said: dict[str, Any] = {"offset": 0, "resident": 0.0, "blocked": None}
        self.heard = 0

    async def start(self) -> None:
        """Begin, or begin again."""
        self.process = await asyncio.create_subprocess_exec(*self._command, stdout=asyncio.subprocess.PIPE)
        self.heard = 0
        self._listening = asyncio.ensure_future(self._listen())

    async def _listen(self) -> None:
        while self.process.stdout is not None and (line := await self.process.stdout.readline()):
            self.said = json.loads(line)
            self.heard += 1

    async def kill(self) -> None:
        """Without a word."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        await self._listening


async def _rates(members: list[Watched], seconds: float) -> tuple[list[float], list[float]]:
    """Messages a second of the slowest, and the memory of the largest, once in five seconds."""
    rates, memory = [], []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before, began = [member.said["offset"] for member in members], time.monotonic()
        await asyncio.sleep(5)
        taken = time.monotonic() - began
        rates.append(min((m.said["offset"] - b) / taken for m, b in zip(members, before, strict=True)))
        memory.append(max(member.said["resident"] for member in members))
        ended = [member for member in members if member.process.returncode is not None]
        if ended:
            sys.exit("a member has ended; its last words are above")
        print(f"  {rates[-1] / 1e6:.3f} M/s, {memory[-1]:.0f} MB", file=sys.stderr)
    return rates, memory


async def _measure(protocol: str, nodes: int, size: int, seconds: float, rate: float | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="ordercast-absence-") as folder:
        load = Load(nodes=nodes, size=size, protocol=protocol, log=True)
        config = write_configuration(Path(folder), load)
        me = [sys.executable, __file__, "--member"]
        # Whoever will be away multicasts nothing then: the others have the whole rate before and after.
        each = [-1.0] * nodes if rate is None else [*[rate / (nodes - 1)] * (nodes - 1), 0.0]
        members = [
            Watched([*me, name, str(config), str(size), str(own)]) for name, own in zip(load.names, each, strict=True)
        ]
        try:
            for member in members:
                await member.start()
            await asyncio.sleep(WARM_UP_SECONDS)
            before, _ = await _rates(members, BEFORE_SECONDS)
            *others, absent = members
            await absent.kill()
            print("away", file=sys.stderr)
            await asyncio.sleep(WARM_UP_SECONDS)
            during, memory = await _rates(others, seconds)
            early = statistics.median(memory[: max(1, len(memory) // 10)])
            missed = max(member.said["offset"] for member in others) - absent.said["offset"]
            print("back", file=sys.stderr)
            began = time.monotonic()
            await absent.start()
            back = await _wait_until_back(absent, others, statistics.median(during), began)
            after, _ = await _rates(members, 15) if back is not None else ([0.0], [])
            caught_up = None if back is None else missed / back / statistics.median(during) + 1
            return {
                "protocol": protocol,
                "nodes": nodes,
                "size": size,
                "away_seconds": seconds,
                "missed_messages": missed,
                "before": statistics.median(before),
                "during": statistics.median(during),
                "during_slowest": min(during),
                "after": statistics.median(after),
                "ratio": statistics.median(during) / statistics.median(before),
                "catch_up_ratio": caught_up,
                "memory_mb_early": early,
                "memory_mb_end": statistics.median(memory[-max(1, len(memory) // 10) :]),
                "memory_mb_most": max(memory),
                "back_after_seconds": back,
            }
        finally:
            for member in members:
                await member.kill()


async def _wait_until_back(absent: Watched, others: list[Watched], rate: float, began: float) -> float | None:
    while time.monotonic() < began + RETURN_SECONDS_MAX:
        await asyncio.sleep(0.2)
        if absent.process.returncode is not None:
            return None
        behind = max(member.said["offset"] for member in others) - absent.said["offset"]
        if absent.heard and behind <= rate * (1 + BEHIND_SECONDS_MAX):
            return time.monotonic() - began
    return None


def main() -> int:
    """Measure, and say whether it is good enough."""
    if sys.argv[1:2] == ["--member"]:
        process, config, size, rate = sys.argv[2:6]
        asyncio.run(_member(config, process, int(size), float(rate)))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", default="token")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--rate", type=float, help="messages a second, of all together; by default as many as can be")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    figures = asyncio.run(
        _measure(arguments.protocol, arguments.nodes, arguments.size, arguments.seconds, arguments.rate)
    )
    growth = figures["memory_mb_end"] / max(1.0, figures["memory_mb_early"])
    back = figures["back_after_seconds"]
    if arguments.json:
        print(json.dumps(figures))
    else:
        print(
            f"{figures['protocol']}, {figures['nodes']} processes, {figures['size']} bytes: "
            f"{figures['before'] / 1e6:.3f} M messages/s with all, {figures['during'] / 1e6:.3f} without one for "
            f"{figures['away_seconds']:.0f} s (ratio {figures['ratio']:.2f}, wanted {RATIO_MIN}); memory "
            f"{figures['memory_mb_early']:.0f} -> {figures['memory_mb_end']:.0f} MB (ratio {growth:.2f}, at most "
            f"{GROWTH_MAX}); {figures['missed_messages']:,} messages missed; "
            + (
                "it did not come back"
                if back is None
                else f"back after {back:.1f} s, at {figures['catch_up_ratio']:.1f} times the rate"
            )
        )
    return int(figures["ratio"] < RATIO_MIN or growth > GROWTH_MAX or back is None)


if __name__ == "__main__":
    sys.exit(main())
