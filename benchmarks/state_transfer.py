"""What does it cost the others when a replica gets a large state, and does it get it when the giver dies?

    python benchmarks/state_transfer.py [--protocol token] [--nodes 4] [--megabytes 100] [--seconds 5] [--json]

All processes but one are in a group that no file names and keep a replicated state of so many megabytes. They call it
as fast as they can, and then at half that rate. The last process is started, joins the group, and asks for the state.
The rate of the others until it has it is compared with their rate at the same load in the seconds before. Then the same
again, and the giver is killed when a third of the state has come.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ordercast
from ordercast.net.ports import free_ports
from ordercast.wire.keys import create_key_file

RATIO_MIN = 0.7
PAGE_BYTES = 10_000
CALLS_MAX = 64
"""Of each process, under way at a time."""
FULL_RATE = 1e6
"""More than a process can do."""
TICK_SECONDS = 0.01
SAY_SECONDS = 0.1
START_SECONDS_MAX = 30.0
TRANSFER_SECONDS_MAX = 60.0
GROUP = "bench"


# ------------------------------------------------------------------ a member
@dataclass
class Archive:
    """Pages, and how often each of some counters was called."""

    pages: list[bytes] = field(default_factory=list)
    counters: dict[int, int] = field(default_factory=dict)

    def count(self, which: int, text: str) -> int:
        """One more; the text only takes room."""
        self.counters[which] = self.counters.get(which, 0) + 1
        return self.counters[which]


class Pace:
    """Lets so many calls a second begin, from all tasks together; at first none."""

    def __init__(self) -> None:
        self.rate = 0.0
        self.longest = 0.0
        """For how long the event loop did something else, at the most, since it was last told to call so often."""
        self._allowed = 0.0
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Count on."""
        before = time.monotonic()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            self.longest = max(self.longest, now - before - TICK_SECONDS)
            # What could not begin in a second is not made up for.
            self._allowed = min(self._allowed, self.rate) + self.rate * (now - before)
            before = now
            self._changed.set()

    async def wait(self) -> None:
        """Until the next may begin."""
        while self._allowed < 1:
            self._changed.clear()
            await self._changed.wait()
        self._allowed -= 1


async def _member(config: str, process: str, size: int, pages: int) -> None:
    async with ordercast.open(config, process) as node:
        # (The others begin with the same; whoever joins a group that has a history does not use it.)
        state = Archive([index.to_bytes(4) * (PAGE_BYTES // 4) for index in range(pages)])
        replica = ordercast.Replicated(state)
        pace = Pace()
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        joining = asyncio.ensure_future(replica.join(node, GROUP))
        tasks = [asyncio.ensure_future(work) for work in (pace.run(), _obey(reader, pace))]
        tasks += [asyncio.ensure_future(_call(joining, replica, pace, size, index)) for index in range(CALLS_MAX)]
        while True:
            await asyncio.sleep(SAY_SECONDS)
            for task in tasks:
                if task.done():
                    task.result()
            said = {
                "applied": replica.applied,
                "pages": len(replica.state.pages) if replica.state is not None and joining.done() else 0,
                "transfers": node.status()["transfers"],
                "stall": pace.longest,
                "time": time.monotonic(),
            }
            print(json.dumps(said), flush=True)


async def _obey(reader: asyncio.StreamReader, pace: Pace) -> None:
    while line := await reader.readline():
        pace.rate, pace.longest = float(line), 0.0
    sys.exit()


async def _call(
    joining: asyncio.Future[Any], replica: ordercast.Replicated[Archive], pace: Pace, size: int, index: int
) -> None:
    text = "x" * size
    await joining
    while True:
        await pace.wait()
        with contextlib.suppress(ordercast.GroupBlocked):
            await replica.call(Archive.count, index, text)


# ------------------------------------------------------------------ whoever watches
class Watched:
    """A member as seen from outside: what it has said last."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self.said: dict[str, Any] = {"applied": 0, "pages": 0, "transfers": [], "time": 0.0, "stall": 0.0}

    async def start(self) -> None:
        """Begin."""
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe)
        self._listening = asyncio.ensure_future(self._listen())

    async def _listen(self) -> None:
        while self.process.stdout is not None and (line := await self.process.stdout.readline()):
            self.said = json.loads(line)

    def pace(self, rate: float) -> None:
        """Call so often."""
        if self.process.stdin is not None:
            self.process.stdin.write(f"{rate}\n".encode())

    async def kill(self) -> None:
        """Without a word."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        await self._listening


def _mark(members: list[Watched]) -> list[tuple[float, int]]:
    return [(member.said["time"], member.said["applied"]) for member in members]


def _rate(members: list[Watched], since: list[tuple[float, int]]) -> float:
    """Calls a second of the slowest."""
    marks = zip(_mark(members), since, strict=True)
    return min((applied - before) / (now - began) for (now, applied), (began, before) in marks)


async def _until(members: list[Watched], what: Any, seconds: float, problem: str) -> float:
    """Wait until something is so; for how long."""
    began = time.monotonic()
    while not what():
        if time.monotonic() > began + seconds:
            sys.exit(f"{problem} in {seconds:.0f} s: {members[-1].said}")
        if any(member.process.returncode not in (None, -9) for member in members):
            sys.exit("a member has ended; its last words are above")
        await asyncio.sleep(0.02)
    return time.monotonic() - began


def _write_configurations(folder: Path, protocol: str, names: list[str]) -> None:
    """One for each process, which knows where those are who begin the state, and not who they are; the last one joins
    them later. (They would wait for a seed that is not there.)"""
    create_key_file(folder / "bench.key")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    for name, port in ports.items():
        seeds = [f"127.0.0.1:{ports[other]}" for other in names[:-1] if other != name]
        lines = [
            'cluster = "bench"',
            f'protocol = "{protocol}"',
            'key_file = "bench.key"',
            "[discovery]",
            f'listen = "127.0.0.1:{port}"',
            f"seeds = {json.dumps(seeds)}",
        ]
        (folder / f"{name}.toml").write_text("\n".join(lines) + "\n")


async def _measure(protocol: str, nodes: int, size: int, pages: int, seconds: float, kill: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="ordercast-state-") as folder:
        names = [f"p{index:02}" for index in range(nodes)]
        _write_configurations(Path(folder), protocol, names)
        me = [sys.executable, __file__, "--member"]
        members = [
            Watched([*me, name, f"{folder}/{name}.toml", str(size), str(0 if name == names[-1] else pages)])
            for name in names
        ]
        *others, joiner = members
        began: list[Watched] = []
        try:
            for member in others:
                began.append(member)
                await member.start()
            await _until(others, lambda: all(each.said["pages"] for each in others), START_SECONDS_MAX, "no start")
            full = await _rate_at(others, FULL_RATE, seconds)
            before = await _rate_at(others, full / 2 / len(others), seconds)
            usual = max(each.said["stall"] for each in others)
            for member in others:
                member.pace(full / 2 / len(others))
            began.append(joiner)
            await joiner.start()
            # (Before, it is in the group and asks; that the others notice is not the transfer's.)
            await _until(began, lambda: _giver(joiner), START_SECONDS_MAX, "no transfer")
            mark = _mark(others)
            giver = names.index(_giver(joiner))
            if kill:
                await _until(began, lambda: _share(joiner) >= 1 / 3, TRANSFER_SECONDS_MAX, "no third of the state")
                await members[giver].kill()
                mark.pop(giver)
                others.pop(giver)
            taken = await _until(began, lambda: joiner.said["pages"], TRANSFER_SECONDS_MAX, "no state")
            during = _rate(others, mark)
            if joiner.said["pages"] != pages:
                sys.exit("this is not the state of the others")
            return {
                "protocol": protocol,
                "nodes": nodes,
                "megabytes": pages * PAGE_BYTES / 1e6,
                "giver_killed": kill,
                "full": full,
                "before": before,
                "during": during,
                "ratio": during / before,
                "transfer_seconds": taken,
                "usual_stall_seconds": usual,
                "giver_stall_seconds": None if kill else members[giver].said["stall"],
            }
        finally:
            for member in began:
                await member.kill()


async def _rate_at(members: list[Watched], rate: float, seconds: float) -> float:
    for member in members:
        member.pace(rate)
    await asyncio.sleep(seconds / 2)
    mark = _mark(members)
    await asyncio.sleep(seconds)
    return _rate(members, mark)


def _giver(joiner: Watched) -> str:
    """Who gives it the state; empty before somebody has offered it."""
    return next((each["from"] for each in joiner.said["transfers"] if each["of"]), "")


def _share(joiner: Watched) -> float:
    return max((each["bytes"] / each["of"] for each in joiner.said["transfers"] if each["of"]), default=0.0)


def main() -> int:
    """Measure, and say whether it is good enough."""
    if sys.argv[1:2] == ["--member"]:
        process, config, size, pages = sys.argv[2:6]
        asyncio.run(_member(config, process, int(size), int(pages)))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", default="token")
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--megabytes", type=float, default=100.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    page_count = int(arguments.megabytes * 1e6 / PAGE_BYTES)
    good = True
    for kill in (False, True):
        figures = asyncio.run(
            _measure(arguments.protocol, arguments.nodes, arguments.size, page_count, arguments.seconds, kill)
        )
        good &= kill or figures["ratio"] >= RATIO_MIN
        if arguments.json:
            print(json.dumps(figures))
        else:
            print(
                f"{figures['protocol']}, {figures['nodes']} processes, {figures['megabytes']:.0f} MB"
                f"{', giver killed' if kill else ''}: {figures['full']:,.0f} calls/s at full load, "
                f"{figures['before']:,.0f} at half, {figures['during']:,.0f} while one gets the state "
                f"(ratio {figures['ratio']:.2f}{'' if kill else f', wanted {RATIO_MIN}'}), which takes "
                f"{figures['transfer_seconds']:.1f} s"
                + ("" if kill else f"; the loop of the giver stood still for {figures['giver_stall_seconds']:.3f} s ")
                + ("" if kill else f"at the longest, and before that for {figures['usual_stall_seconds']:.3f} s")
            )
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
