"""How long does a cluster stand still when the process that orders is killed, under load, again and again?

    python benchmarks/failover.py [--protocol three-step] [--nodes 3] [--kills 20] [--rate 2000] [--no-peers] [--json]
    python benchmarks/failover.py --calm 600     # nobody is killed: is anybody suspected wrongly at full load?

All processes multicast and deliver, with logs, on the loopback. Whoever orders is killed; the time counts from the kill
until the slowest of the others delivers again. It is to be at most the suspicion, four packet delays and 20 ms. The
killed process is started again, and three seconds later it is the turn of whoever orders then. How long the others
stand still while it gets what it has missed is told apart. Peers (etcd, and JGroups with its SEQUENCER) are treated
alike, where they are installed; else one line says what is missing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

import failover_etcd
import live_peers

import ordercast
from ordercast.net.ports import free_ports
from ordercast.protocols import find_protocol
from ordercast.wire.keys import create_key_file

GROUP = "bench"
PAYLOAD = bytes(100)
GAP_SECONDS = 0.03
"""Shorter silences are not told: they come from the machine."""
TELL_SECONDS = 0.1
REST_SECONDS = 3.0
"""Between the return of a process and the next kill."""
STILL_SECONDS = 0.5
"""Who was not seen to deliver for so long stands still: whatever it waits for counts as what the last kill has cost."""
LAG_MAX = 3000
"""Messages by which the process that was killed before may be behind the others: half a second's."""
START_SECONDS_MAX = 30.0
GO_ON_SECONDS_MAX = 60.0
"""Whoever is back reads its whole history first, which grows from kill to kill."""
ALLOWANCE_SECONDS = 0.02
PACKET_DELAYS = 4


# ------------------------------------------------------------------ a member
class Member:
    """One process: multicasts at a rate, and tells of silences, of leading, and of suspicions."""

    def __init__(self, node: ordercast.Node, group: ordercast.Group, rate: float) -> None:
        self._node = node
        self._group = group
        self._rate = rate
        self._last = time.monotonic()
        self._delivered = 0
        group.on_batch(self._on_batch)

    def _on_batch(self, batch: ordercast.Batch) -> None:
        now = time.monotonic()
        if now - self._last > GAP_SECONDS:
            tell({"gap": [self._last, now]})
        self._last = now
        self._delivered += len(batch)

    async def send(self) -> None:
        """At the rate, or as fast as it goes."""
        due = time.monotonic()
        while True:
            try:
                if not self._rate:
                    await self._group.multicast_many([PAYLOAD] * 100)
                    continue
                await self._group.multicast(PAYLOAD)
            except ordercast.GroupBlocked:
                await asyncio.sleep(0.01)
            due = max(due + 1 / self._rate, time.monotonic() - 0.1) if self._rate else due
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def report(self) -> None:
        """What the protocol thinks, from time to time."""
        core: Any = self._node.internals.engine.core
        while True:
            primary = getattr(core, "primary", None)
            suspected = 0 if primary is None else core.branches["suspected"]
            epoch = 0 if primary is None else primary.promised
            leads = self._node.process == "p0" if primary is None else primary.leads
            offset = self._group.offset
            tell(
                {
                    "leads": leads,
                    "epoch": epoch,
                    "suspected": suspected,
                    "delivered": self._delivered,
                    "offset": offset,
                }
            )
            await asyncio.sleep(TELL_SECONDS)


def tell(document: dict[str, Any]) -> None:
    """One line to whoever measures."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


async def be_member(config: str, process: str, rate: float) -> None:
    """Until it is killed."""
    async with ordercast.open(config, process) as node:
        group = await node.join(GROUP)
        member = Member(node, group, rate)
        await asyncio.gather(member.send(), member.report())


# ------------------------------------------------------------------ whoever measures
class Process:
    """A member as a process."""

    def __init__(self, *command: str) -> None:
        self.gaps: list[tuple[float, float]] = []
        self.views: list[tuple[float, int]] = []
        """When each was there, and how many members it has; of whoever tells that."""
        self.leads = False
        self.epoch = self.suspected = self.delivered = self.offset = 0
        self.moved = 0.0
        """When it was last seen to have delivered more."""
        self._command = command

    async def start(self) -> None:
        self.leads = False
        self._told = asyncio.Event()
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdout=asyncio.subprocess.PIPE, start_new_session=True
        )
        self._reading = asyncio.create_task(self._read())
        await asyncio.wait_for(self._told.wait(), START_SECONDS_MAX)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            told = json.loads(line)
            if "gap" in told:
                self.gaps.append(tuple(told["gap"]))
            elif "view" in told:
                self.views.append((told["view"], told["members"]))
            else:
                self.leads, self.epoch, self.suspected = told["leads"], told["epoch"], told.get("suspected", 0)
                if told["delivered"] != self.delivered:
                    self.moved = time.monotonic()
                self.delivered, self.offset = told["delivered"], told["offset"]
                self._told.set()

    async def kill(self) -> float:
        """When it was killed."""
        # With whatever it has started.
        os.killpg(self._process.pid, signal.SIGKILL)
        when = time.monotonic()
        await self._process.wait()
        await self._reading
        self.leads = False
        return when

    def stood_still(self, since: float, until: float = inf) -> float:
        """How long nothing was delivered here that should have been; 0: nothing that could be told from the usual."""
        gaps = (end - max(begin, since) for begin, end in self.gaps if end > since and begin < until)
        return max(gaps, default=0.0)


async def measure(processes: list[Process], kills: int, calm: float) -> dict[str, Any]:
    """The times of all kills; or what a cluster that nobody disturbs believes."""
    for starting in [asyncio.create_task(process.start()) for process in processes]:
        await starting
    try:
        await asyncio.sleep(REST_SECONDS)
        if calm:
            return await _be_calm(processes, calm)
        stops = []
        leader = await _find_leader(processes)
        for _ in range(kills):
            killed, leader = await _kill(leader, processes)
            stops.append(killed)
        return {"seconds": [killed for killed, _ in stops], "when_it_is_back": [back for _, back in stops]}
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                await process.kill()


async def _be_calm(processes: list[Process], seconds: float) -> dict[str, Any]:
    before = sum(process.delivered for process in processes)
    suspected = sum(process.suspected for process in processes)
    await asyncio.sleep(seconds)
    return {
        "wrong_suspicions": sum(process.suspected for process in processes) - suspected,
        "epochs": max(process.epoch for process in processes),
        "delivered_per_second": round((sum(p.delivered for p in processes) - before) / len(processes) / seconds),
        "longest_silence_seconds": round(max(process.stood_still(0.0) for process in processes), 3),
    }


def _lag(processes: list[Process]) -> int:
    """By how many messages the last is behind the first."""
    offsets = [process.offset for process in processes]
    return max(offsets) - min(offsets)


def _leaders(processes: list[Process]) -> list[Process]:
    """Who leads, of the latest epoch: who is back may not have heard of it."""
    latest = max(process.epoch for process in processes)
    return [process for process in processes if process.leads and process.epoch == latest]


async def _find_leader(processes: list[Process]) -> Process:
    """Who leads, when everybody has been delivering for a while, whoever was killed before included."""
    deadline = time.monotonic() + GO_ON_SECONDS_MAX
    while True:
        now = time.monotonic()
        leaders = _leaders(processes)
        goes_on = all(now - process.moved < STILL_SECONDS for process in processes)
        if len(leaders) == 1 and goes_on and _lag(processes) <= LAG_MAX:
            return leaders[0]
        if now > deadline:
            raise SystemExit(f"no single process leads, or one is {_lag(processes)} behind: is the machine overloaded?")
        await asyncio.sleep(TELL_SECONDS)


async def _kill(leader: Process, processes: list[Process]) -> tuple[tuple[float, float], Process]:
    """How long the others stand still without it, and from when it is back, with all that it has missed, until the next
    one can be killed; and who that is."""
    others = [process for process in processes if process is not leader]
    for process in processes:
        process.gaps.clear()
    killed = await leader.kill()
    await asyncio.sleep(REST_SECONDS)
    started = time.monotonic()
    await leader.start()
    await asyncio.sleep(REST_SECONDS)
    following = await _find_leader(processes)
    return (
        max(process.stood_still(killed, started) for process in others),
        max(process.stood_still(started) for process in others),
    ), following


# ------------------------------------------------------------------ who is measured
def members_of_ours(folder: Path, protocol: str, nodes: int, rate: float) -> list[Process]:
    """Processes of ordercast."""
    config = str(write_configuration(folder, protocol, nodes))
    return [Process(sys.executable, __file__, "--member", config, f"p{index}", str(rate)) for index in range(nodes)]


def members_of_etcd(folder: Path, rate: float) -> list[Process]:
    """Three servers, each with a client that writes through it; `PeerError` when there is no etcd."""
    if shutil.which("etcd") is None:
        raise live_peers.PeerError("no `etcd` command (Debian: etcd-server)")
    names = failover_etcd.NAMES
    failover_etcd.write_ports(folder, free_ports(2 * len(names)))
    return [Process(sys.executable, failover_etcd.__file__, str(folder), name, str(rate)) for name in names]


def members_of_jgroups(folder: Path, rate: float) -> list[Process]:
    """Three members with SEQUENCER; `PeerError` when there is no JGroups."""
    peer = live_peers.Jgroups(folder)
    why_not = peer.obstacle()
    if why_not:
        raise live_peers.PeerError(why_not)
    sources = live_peers.SOURCES
    live_peers.call("javac", "-cp", str(peer.jar), "-d", str(folder), str(sources / "JgroupsFailover.java"))
    (port,) = free_ports(1)
    start = [
        "java",
        "-Djava.net.preferIPv4Stack=true",
        f"-Dbench.port={port}",
        "-cp",
        f"{peer.jar}{os.pathsep}{folder}",
    ]
    start += ["JgroupsFailover", str(sources / "jgroups-failover.xml")]
    return [Process(*start, f"p{index}", str(rate)) for index in range(3)]


PEERS = {"etcd": members_of_etcd, "JGroups": members_of_jgroups}


def measure_peers(kills: int, rate: float) -> dict[str, dict[str, Any]]:
    """The same for whoever else is installed; else why not."""
    figures: dict[str, dict[str, Any]] = {}
    for name, members in PEERS.items():
        with tempfile.TemporaryDirectory(prefix="ordercast-failover-") as folder:
            try:
                figures[name] = summarize(ordercast.run(measure(members(Path(folder), rate), kills, 0.0)))
            except (live_peers.PeerError, TimeoutError) as error:
                figures[name] = {"not_measured": str(error) or "it does not start"}
    return figures


def summarize(figures: dict[str, Any]) -> dict[str, Any]:
    """The median and the worst of all kills."""
    seconds = sorted(figures["seconds"])
    return figures | {"median": median(seconds), "worst": seconds[-1]}


def write_configuration(folder: Path, protocol: str, nodes: int) -> Path:
    """A cluster on free ports, sealed, with logs."""
    create_key_file(folder / "cluster.key")
    names = [f"p{index}" for index in range(nodes)]
    lines = [
        'cluster = "failover"',
        f'protocol = "{protocol}"',
        'key_file = "cluster.key"',
        'log_directory = "log"',
        "[processes]",
        *(f'{name} = "127.0.0.1:{port}"' for name, port in zip(names, free_ports(nodes), strict=True)),
        "[groups]",
        f"{GROUP} = {json.dumps(names)}",
    ]
    path = folder / "cluster.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def main() -> int:
    """Measure, and compare with the bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", default="three-step")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rate", type=float, default=2000.0, help="messages a second of each process; 0: the most")
    parser.add_argument("--delay-ms", type=float, default=1.0, help="what a packet takes under this load")
    parser.add_argument("--calm", type=float, default=0.0, help="for so many seconds nobody is killed")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    # So that those who are measured end with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="ordercast-failover-") as folder:
        rate = 0.0 if arguments.calm else arguments.rate
        members = members_of_ours(Path(folder), arguments.protocol, arguments.nodes, rate)
        figures = ordercast.run(measure(members, arguments.kills, arguments.calm))
    document = {"protocol": arguments.protocol, "nodes": arguments.nodes} | figures
    is_fine = not figures.get("wrong_suspicions")
    if "seconds" in figures:
        options: Any = find_protocol(arguments.protocol).contract.options()
        suspicion = getattr(options, "suspicion_seconds", 0.0)
        bound = suspicion + PACKET_DELAYS * arguments.delay_ms / 1000 + ALLOWANCE_SECONDS
        document |= summarize(figures) | {"bound": bound}
        document["peers"] = {} if arguments.no_peers else measure_peers(arguments.kills, rate)
        is_fine = document["worst"] <= bound
    if arguments.json:
        print(json.dumps(document, indent=2))
        return 0 if is_fine else 1
    if "seconds" in figures:
        print(
            f"{arguments.protocol}, {arguments.nodes} processes, {arguments.kills} kills of the one that orders: the "
            f"slowest of the others delivers again after {document['median']:.3f} s (median), "
            f"{document['worst']:.3f} s (worst); bound {bound:.3f} s; when it is back they stand still for "
            f"{median(figures['when_it_is_back']):.3f} s (median), {max(figures['when_it_is_back']):.3f} s (worst)"
        )
        for name, theirs in document["peers"].items():
            if "not_measured" in theirs:
                print(f"{name}: not measured: {theirs['not_measured']}")
            else:
                print(f"{name}, 3 processes: {theirs['median']:.3f} s (median), {theirs['worst']:.3f} s (worst)")
    else:
        print(", ".join(f"{name} {value}" for name, value in document.items()))
    return 0 if is_fine else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--member"]:
        ordercast.run(be_member(sys.argv[2], sys.argv[3], float(sys.argv[4])))
    else:
        sys.exit(main())
