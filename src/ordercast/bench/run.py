"""A cluster from its start to its last words."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from ordercast.bench.configuration import write_configuration
from ordercast.bench.load import Load, Place
from ordercast.bench.member import WARM_UP_SECONDS, Work
from ordercast.bench.summary import summarize
from ordercast.core import InvariantViolation, UsageError
from ordercast.net.hub import Hub
from ordercast.net.sockets import resolve
from ordercast.node.configuration import Configuration, read_configuration

START_SECONDS = 60
"""Until every process must have met every other."""

ENDED_EARLY = "a process of the benchmark ended early; its last words are above"


def measure(load: Load) -> dict[str, Any]:
    """Start the cluster, let every process send, and measure what all of them deliver.

    Messages a second (delivered at every process), `p50_ms` and `p99_ms` from multicast to delivery, how many were
    lost, processor time, memory, and what each process dropped.
    """
    return summarize(*run_load(load)) | {
        "sealed": not load.insecure,
        "protocol": load.protocol,
        "nodes": load.nodes,
        "size": load.size,
    }


def run_load(load: Load) -> tuple[list[dict[str, Any]], Work]:
    """What each process of the cluster reports, and what one of them had to do."""
    with tempfile.TemporaryDirectory(prefix="ordercast-bench-") as folder:
        config = str(write_configuration(Path(folder), load))
        each = None if load.rate is None else load.rate / load.nodes
        groups = list(load.groups)
        works = [
            Work(config, name, load.size, load.seconds, each, load.api, groups, load.service) for name in load.names
        ]
        return asyncio.run(_run(works, list(load.place_of.values()))), works[0]


async def _run(works: list[Work], places: Sequence[Place]) -> list[dict[str, Any]]:
    with _channel(read_configuration(works[0].config, {}, {})):
        return await _run_members(works, places)


@contextmanager
def _channel(configuration: Configuration) -> Iterator[None]:
    """The hub, for protocols that need one; it takes a part of the machine, as it would of the network."""
    if configuration.channel is None:
        yield
        return
    processes = {name: resolve(*where) for name, where in configuration.processes.items()}
    hub = Hub(asyncio.get_running_loop(), resolve(*configuration.channel), processes, configuration.socket_buffer)
    try:
        yield
    finally:
        hub.close()


async def _run_members(works: list[Work], places: Sequence[Place]) -> list[dict[str, Any]]:
    members = [
        await asyncio.create_subprocess_exec(
            *place.command,
            sys.executable,
            "-m",
            "ordercast.bench.member",
            msgspec.json.encode(work).decode(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for work, place in zip(works, places, strict=True)
    ]
    try:
        async with asyncio.timeout(START_SECONDS):
            await asyncio.gather(*(_expect(member, "ready") for member in members))
        begin = time.monotonic() + 0.2
        _tell(members, f"{begin}")
        async with asyncio.timeout(START_SECONDS + WARM_UP_SECONDS + works[0].seconds * 2):
            await asyncio.gather(*(_expect(member, "done") for member in members))
            _tell(members, "end")
            if any(await asyncio.gather(*(member.wait() for member in members))):
                raise UsageError(ENDED_EARLY)
            return [json.loads(work.report.read_text()) for work in works]
    except TimeoutError:
        raise UsageError("the processes of the benchmark do not answer: is the machine overloaded?") from None
    finally:
        for member in members:
            if member.returncode is None:
                member.kill()
        await asyncio.gather(*(member.wait() for member in members))


def _tell(members: list[asyncio.subprocess.Process], line: str) -> None:
    for member in members:
        if member.stdin is not None:
            member.stdin.write(f"{line}\n".encode())


async def _line(member: asyncio.subprocess.Process) -> str:
    if member.stdout is None:
        raise InvariantViolation("a process of the benchmark was started without a pipe to hear it by")
    line = (await member.stdout.readline()).decode()
    if not line.endswith("\n"):
        raise UsageError(ENDED_EARLY)
    return line.strip()


async def _expect(member: asyncio.subprocess.Process, word: str) -> None:
    line = await _line(member)
    if line != word:
        raise UsageError(f"a process of the benchmark said {line!r} instead of {word!r}")
