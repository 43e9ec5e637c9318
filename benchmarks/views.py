"""How long until all others have a view without a process that is killed, under load, again and again?

    python benchmarks/views.py [--nodes 5] [--kills 20] [--rate 100] [--no-peers] [--json]

Processes of `intergroup` that no file names are in one group, all of them senders, with the options of a live node. One
of them is killed; the time counts from the kill until the last of the others has a view without it, and is to be at
most one and a half times the fault detector's timeout in the median. Then it is started again, as another process, and
when everybody is in the group it is the turn of the next. JGroups, where it is installed, is treated alike: heartbeats
with the same timeout, and what they say is checked once more before it is believed (500 ms).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import live_peers
from failover import GROUP, Member, Process, tell

import ordercast
from ordercast.net.ports import free_ports
from ordercast.protocols import find_protocol
from ordercast.wire.keys import create_key_file

TIMEOUTS_MAX = 1.5
REST_SECONDS = 2.0
"""Between the last view and the next kill."""
VIEW_SECONDS_MAX = 60.0
HEARTBEATS = 4
"""Of JGroups, in its timeout."""


# ------------------------------------------------------------------ a member
async def be_member(config: str, process: str, rate: float) -> None:
    """Until it is killed."""
    async with ordercast.open(config, process) as node:
        group = await node.join(GROUP, role="sender")
        group.on_view(lambda view: tell({"view": time.monotonic(), "members": len(view.members)}))
        member = Member(node, group, rate)
        await asyncio.gather(member.send(), member.report())


# ------------------------------------------------------------------ whoever measures
async def measure(processes: list[Process], kills: int) -> list[float]:
    """Seconds from each kill to the last view without the killed process."""
    random = Random(1)
    seconds = []
    try:
        for process in processes:
            await process.start()
        for _ in range(kills):
            await _wait_for_view(processes, 0.0, len(processes))
            await asyncio.sleep(REST_SECONDS)
            killed = random.choice(processes)
            others = [process for process in processes if process is not killed]
            when = await killed.kill()
            killed.views.clear()
            seconds.append(await _wait_for_view(others, when, len(others)) - when)
            await killed.start()
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError, AttributeError):
                await process.kill()
    return seconds


async def _wait_for_view(processes: list[Process], since: float, members: int) -> float:
    """When the last of them had its first view of so many since then, and has no other one now."""
    deadline = time.monotonic() + VIEW_SECONDS_MAX
    while True:
        times = [[at for at, count in each.views if at > since and count == members] for each in processes]
        if all(times) and all(each.views[-1][1] == members for each in processes):
            return max(map(min, times))
        if time.monotonic() > deadline:
            raise SystemExit(
                f"no view of {members} after {VIEW_SECONDS_MAX:.0f} s: {[each.views for each in processes]}"
            )
        await asyncio.sleep(0.01)


# ------------------------------------------------------------------ who is measured
def timeout_seconds() -> float:
    """Of the fault detector, with the options of a live node, beside distances."""
    protocol = find_protocol("intergroup")
    options: Any = protocol.contract.options(**protocol.arrangement.unlisted)
    return float(options.silent_keep_alives * max(options.keep_alive_seconds, options.membership_seconds / 2))


def members_of_ours(folder: Path, nodes: int, rate: float) -> list[Process]:
    """Processes of ordercast that know each other's addresses as seeds."""
    create_key_file(folder / "cluster.key")
    ports = free_ports(nodes)
    members = []
    for index, port in enumerate(ports):
        seeds = json.dumps([f"127.0.0.1:{each}" for each in ports if each != port])
        config = folder / f"p{index}.toml"
        config.write_text(
            'cluster = "views"\nprotocol = "intergroup"\nkey_file = "cluster.key"\n[discovery]\n'
            f'listen = "127.0.0.1:{port}"\nseeds = {seeds}\n'
        )
        members.append(Process(sys.executable, __file__, "--member", str(config), f"p{index}", str(rate)))
    return members


def members_of_jgroups(folder: Path, nodes: int, rate: float) -> list[Process]:
    """The same of JGroups; `PeerError` when there is none."""
    peer = live_peers.Jgroups(folder)
    why_not = peer.obstacle()
    if why_not:
        raise live_peers.PeerError(why_not)
    sources = live_peers.SOURCES
    live_peers.call("javac", "-cp", str(peer.jar), "-d", str(folder), str(sources / "JgroupsFailover.java"))
    (port,) = free_ports(1)
    timeout = round(1000 * timeout_seconds())
    logging = folder / "logging.properties"
    logging.write_text(".level = SEVERE\n")
    properties = {"port": port, "timeout": timeout, "interval": timeout // HEARTBEATS}
    start = ["java", "-Djava.net.preferIPv4Stack=true", f"-Djava.util.logging.config.file={logging}"]
    start += [f"-Dbench.{name}={value}" for name, value in properties.items()]
    start += ["-cp", f"{peer.jar}{os.pathsep}{folder}", "JgroupsFailover", str(sources / "jgroups-views.xml")]
    return [Process(*start, f"p{index}", str(rate)) for index in range(nodes)]


def main() -> int:
    """Measure, and compare with the bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--rate", type=float, default=100.0, help="messages a second of each process")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    # So that those who are measured end with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    bound = TIMEOUTS_MAX * timeout_seconds()
    document: dict[str, Any] = {"timeout": timeout_seconds(), "bound": bound, "nodes": arguments.nodes}
    ways = {"intergroup": members_of_ours} | ({} if arguments.no_peers else {"JGroups": members_of_jgroups})
    for name, members in ways.items():
        with tempfile.TemporaryDirectory(prefix="ordercast-views-") as folder:
            try:
                started = members(Path(folder), arguments.nodes, arguments.rate)
                seconds = ordercast.run(measure(started, arguments.kills))
            except live_peers.PeerError as error:
                document[name] = {"not_measured": str(error)}
                continue
        document[name] = {"seconds": seconds, "median": median(seconds), "worst": max(seconds)}
    is_fine = document["intergroup"]["median"] <= bound
    if arguments.json:
        print(json.dumps(document, indent=2))
        return 0 if is_fine else 1
    for name in ways:
        found = document[name]
        if "not_measured" in found:
            print(f"{name}: not measured: {found['not_measured']}")
            continue
        print(
            f"{name}, {arguments.nodes} processes, {arguments.kills} kills: the last of the others has a view without "
            f"the killed process after {found['median']:.3f} s (median), {found['worst']:.3f} s (worst)"
        )
    print(f"timeout {timeout_seconds():g} s; wanted: at most {bound:g} s in the median")
    return 0 if is_fine else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--member"]:
        ordercast.run(be_member(sys.argv[2], sys.argv[3], float(sys.argv[4])))
    else:
        sys.exit(main())
