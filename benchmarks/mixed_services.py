"""Do many processes with services of their own disturb each other? Views, memory, and control traffic.

    python benchmarks/mixed_services.py [--processes 64] [--groups 4] [--rate 500] [--minutes 5] [--simulate 60]
                                        [--json]

So many processes of `intergroup`, each one of its own, that find each other by IP multicast on the loopback and are in
one group each. In each group the first four send, and order all by timestamp; the others receive, with all six services
in turn. Every minute each process tells what it has seen: views, messages, memory, packets by type. There is to be no
view after the beginning, nothing may be lost where a service promises everything, and memory is to stay as it is from
the first minute on. Beside the control traffic stands that of the same groups in the simulator.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, cast

import ordercast
from ordercast.core import Packet
from ordercast.net.ports import free_ports
from ordercast.node.tuning import live_options
from ordercast.protocols import find_protocol
from ordercast.protocols.intergroup.services import SERVICES
from ordercast.sim import Simulation, Workload
from ordercast.sim.change import Change
from ordercast.sim.networks import PointToPoint
from ordercast.sim.traffic import Traffic, total
from ordercast.wire.keys import create_key_file

SENDERS = 4
"""Of each group."""
ORDERED = "group-timestamp"
RELIABLE = (ORDERED, "reliable-source")
CONTROL = ("LCon", "CCon", "GCon", "RingQuery", "SearchResponse", "CoordinatorLeave")
SIZE = 100
JOIN_SECONDS = 120.0
REST_SECONDS = 10.0
"""Until the control hierarchy has its places, and after the last message."""
BUFFER_BYTES, QUEUE_BYTES = 8 << 20, 64 << 20
"""Of a live node."""
GROWTH_MAX = 0.05


class Place:
    """What one process does."""

    def __init__(self, index: int, groups: int) -> None:
        within = index // groups
        self.name = f"p{index:02}"
        self.group = f"g{index % groups}"
        self.sends = within < SENDERS
        services = tuple(SERVICES)
        self.service = ORDERED if self.sends else services[within % len(services)]


def places(processes: int, groups: int) -> list[Place]:
    """Dealt out to the groups in turn."""
    return [Place(index, groups) for index in range(processes)]


# ------------------------------------------------------------------ a member
class Heard:
    """Counts what reaches the protocol, by type; a part that handles nothing."""

    packets = timers = records = ()

    def __init__(self, own: str) -> None:
        self.counts = Counter[str]()
        self._own = own

    def on_heard(self, sender: str, packet: Packet) -> None:
        """What a process says to itself has crossed nothing."""
        if sender != self._own:
            self.counts[type(packet).__name__] += 1


def memory_bytes() -> int:
    """What the process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


async def play(config: str, place: Place, rate: float) -> None:
    """Join, and do what is said on standard input: `go` and until when, `tell`, and its end."""
    loop = asyncio.get_running_loop()
    async with ordercast.open(config, place.name) as node:
        heard = Heard(node.process)
        node.internals.engine.core.attach(heard)
        role = "sender" if place.sends else "receiver"
        group = await node.join(place.group, role=role, service=place.service, timeout=JOIN_SECONDS)
        views, delivered, sent = Counter[int](), Counter[int](), Counter[int]()
        group.on_view(lambda _view: views.update([0]))
        group.on_batch(lambda batch: delivered.update({0: len(batch)}))

        def send(due: float, until: float) -> None:
            if due > until:
                return
            try:
                group.try_multicast(bytes(SIZE))
                sent[0] += 1
            except ordercast.WouldBlock:
                pass  # counted by whoever compares the rate
            loop.call_at(due + 1 / rate, send, due + 1 / rate, until)

        print(json.dumps({"members": len(group.members)}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            word, *rest = line.split()
            if word == "go":
                if place.sends:
                    shift = loop.time() - time.monotonic()
                    first = float(rest[0]) + int(place.name[1:]) / 64 / rate
                    loop.call_at(first + shift, send, first + shift, float(rest[1]) + shift)
                continue
            print(
                json.dumps(
                    {
                        "views": views[0],
                        "members": len(group.members),
                        "sent": sent[0],
                        "delivered": delivered[0],
                        "memory": memory_bytes(),
                        "heard": heard.counts,
                    }
                ),
                flush=True,
            )


# ------------------------------------------------------------------ whoever watches
class Watched:
    """A member as seen from outside."""

    def __init__(self, place: Place, *words: str) -> None:
        self.place = place
        self._words = words

    async def start(self) -> None:
        """Begin."""
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "--member", self.place.name, *self._words, stdin=pipe, stdout=pipe
        )

    def tell(self, line: str) -> None:
        """What it is to do."""
        if self.process.stdin is not None:
            self.process.stdin.write(f"{line}\n".encode())

    async def hear(self) -> dict[str, Any]:
        """What it says next."""
        if self.process.stdout is None:
            raise RuntimeError("a member without pipes")
        line = await self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.place.name} has ended; its last words are above")
        return cast(dict[str, Any], json.loads(line))


async def measure(processes: int, groups: int, rate: float, minutes: int) -> dict[str, Any]:
    """Live."""
    each = rate / (SENDERS * groups)
    with tempfile.TemporaryDirectory(prefix="ordercast-mixed-") as text:
        folder = Path(text)
        create_key_file(folder / "bench.key")
        (port,) = free_ports(1)
        config = folder / "bench.toml"
        config.write_text(
            'cluster = "bench"\nprotocol = "intergroup"\nkey_file = "bench.key"\ninterface = "127.0.0.1"\n'
            f'[discovery]\nmulticast = "239.7.7.7:{port}"\n'
        )
        members = [Watched(place, str(config), str(groups), str(each)) for place in places(processes, groups)]
        began: list[Watched] = []
        try:
            for member in members:
                await member.start()
                began.append(member)
            for member in members:
                await member.hear()
            await asyncio.sleep(REST_SECONDS)
            start = time.monotonic() + 1.0
            for member in members:
                member.tell(f"go {start} {start + 60.0 * minutes}")
            told = []
            for minute in range(minutes + 1):
                await asyncio.sleep(max(0.0, start + 60.0 * minute - time.monotonic()))
                if minute == minutes:
                    await asyncio.sleep(REST_SECONDS)
                for member in members:
                    member.tell("tell")
                told.append([await member.hear() for member in members])
        finally:
            for member in began:
                if member.process.returncode is None:
                    member.process.kill()
                    await member.process.wait()
    return summarize([member.place for member in members], told, minutes)


def summarize(spots: list[Place], told: list[list[dict[str, Any]]], minutes: int) -> dict[str, Any]:
    """From what each process said at the beginning, every minute, and in the end."""
    first, last = told[0], told[-1]
    sent = Counter[str]()
    for place, report in zip(spots, last, strict=True):
        sent[place.group] += report["sent"]
    lost = sum(
        sent[place.group] - report["delivered"]
        for place, report in zip(spots, last, strict=True)
        if place.service in RELIABLE
    )
    # What comes in the rest behind the last minute is a small part of what comes in all of them.
    seconds = 60.0 * minutes + REST_SECONDS
    control = [
        sum(after["heard"].get(name, 0) - before["heard"].get(name, 0) for name in CONTROL) / seconds
        for before, after in zip(first, last, strict=True)
    ]
    growth = [after["memory"] / before["memory"] - 1 for before, after in zip(told[1], last, strict=True)]
    return {
        "processes": len(spots),
        "view_changes": sum(after["views"] - before["views"] for before, after in zip(first, last, strict=True)),
        "members": sorted({report["members"] for report in last}),
        "messages_per_second": sum(sent.values()) / 60.0 / minutes,
        "lost": lost,
        "memory_mb": statistics.median(report["memory"] for report in last) / 1e6,
        "memory_growth_median": statistics.median(growth),
        "memory_growth_most": max(growth),
        "control_received_per_second": statistics.fmean(control),
        "control_received_per_second_most": max(control),
        "heard": dict(sum((Counter(report["heard"]) for report in last), Counter[str]())),
    }


# ------------------------------------------------------------------ the simulator
def simulate(processes: int, groups: int, rate: float, seconds: float) -> dict[str, Any]:
    """The same groups, senders and services there, with the options of a live node."""
    protocol = find_protocol("intergroup")
    spots = places(processes, groups)
    names = {f"g{number}": tuple(each.name for each in spots if each.group == f"g{number}") for number in range(groups)}
    senders = tuple(each.name for each in spots if each.sends)
    given = dict(protocol.arrangement.unlisted) | {"senders": list(senders)}
    simulation = Simulation(
        protocol,
        names,
        PointToPoint(processing=0.000001, latency=0.0002),
        options=live_options(protocol, given, BUFFER_BYTES, QUEUE_BYTES, 0),
        changes=[
            Change(kind="service", at=0.0, sites=(each.name,), group=each.group, service=each.service) for each in spots
        ],
        workloads=[
            Workload(
                sources=(each.name,), groups=(each.group,), rate=rate / len(senders), size=SIZE, arrivals="regular"
            )
            for each in spots
            if each.sends
        ],
        duration=REST_SECONDS + seconds,
        settle=0.0,
        stable=False,
        tracing=False,
        counting=True,
        check_invariants=False,
    )
    before: list[Traffic] = []
    simulation.queue.schedule(REST_SECONDS, lambda: before.append(cast(Traffic, simulation.traffic).copy()))
    simulation.execute()
    after = cast(Traffic, simulation.traffic)

    def received(traffic: Traffic, site: str) -> int:
        return total(traffic.received, lambda each, name: each == site and name in CONTROL).packets

    control = [(received(after, each.name) - received(before[0], each.name)) / seconds for each in spots]
    return {"control_received_per_second": statistics.fmean(control), "control_received_per_second_most": max(control)}


def main() -> int:
    """Measure, and say whether it is as it should be."""
    if sys.argv[1:2] == ["--member"]:
        name, config, groups, rate = sys.argv[2:6]
        asyncio.run(play(config, Place(int(name[1:]), int(groups)), float(rate)))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--rate", type=float, default=500.0, help="messages a second in all")
    parser.add_argument("--minutes", type=int, default=5)
    parser.add_argument("--simulate", type=float, default=60.0, metavar="SECONDS", help="0: only live")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.processes < (SENDERS + 1) * arguments.groups:
        parser.error(f"each group needs {SENDERS} senders and a receiver")
    figures = asyncio.run(measure(arguments.processes, arguments.groups, arguments.rate, arguments.minutes))
    if arguments.simulate:
        figures["simulated"] = simulate(arguments.processes, arguments.groups, arguments.rate, arguments.simulate)
    if arguments.json:
        print(json.dumps(figures))
    else:
        print(
            f"{figures['processes']} processes on {os.cpu_count()} processors, {figures['messages_per_second']:.0f} "
            f"messages a second for {arguments.minutes} min: {figures['view_changes']} changes of views (wanted 0), "
            f"{figures['lost']} lost; memory {figures['memory_mb']:.0f} MB, {figures['memory_growth_median']:+.1%} "
            f"since the first minute (median; {figures['memory_growth_most']:+.1%} at the most)\n"
            f"control packets that a process receives a second: {figures['control_received_per_second']:.1f} "
            f"(at the most {figures['control_received_per_second_most']:.1f})"
        )
        if "simulated" in figures:
            theirs = figures["simulated"]
            print(
                f"simulated: {theirs['control_received_per_second']:.1f} "
                f"(at the most {theirs['control_received_per_second_most']:.1f})"
            )
    good = not figures["view_changes"] and not figures["lost"] and figures["memory_growth_median"] <= GROWTH_MAX
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
