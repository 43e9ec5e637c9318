"""What does it cost to go on without a process that fails? `propagation-graph` with `delivery = "non-atomic"`.

    python benchmarks/graph_failures.py [--only packets stops rate kills sites rejoin] [--kills 15] [--rounds 3]
                                        [--rejoin skip|rollback] [--json]

- `packets`: simulated, five sites, as many multicasts as 1,000 for each renewal of the lease, nobody fails: the packets
  against those of `delivery = "atomic"`.
- `stops`: simulated, two groups of six that share three; one process of each three crashes and comes back five seconds
  later, with both forms of delivery and with `scalatom`: the longest time for which a group is not delivered at one of
  the others.
- `rate`: live, five processes with logs send as fast as they can: the rate against that of `atomic`, in turns.
- `kills`: live, three groups that overlap: one process after the other is killed and started again; the time from the
  kill until every group is delivered again at all who are left, against suspicion and lease.
- `sites`: simulated, 200 sites, the manager dies, then the root: processor seconds for each run.
- `rejoin`: live, one process is killed, stays away for ten seconds and comes back while the others have half of their
  highest rate: their rate from its start until it has caught up, three seconds at least, against the one before.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import failover

import ordercast
from ordercast.bench.load import Load
from ordercast.bench.run import measure as measure_rate
from ordercast.net.ports import free_ports
from ordercast.papers.spauster.reconfiguration_cost_runs import run_failure
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation, Workload
from ordercast.sim.faults import Crash
from ordercast.sim.networks import PointToPoint
from ordercast.wire.keys import create_key_file

PROTOCOL = "propagation-graph"
GROUPS = {"accounts": ["p1", "p2", "p3", "p4"], "rates": ["p1", "p2", "p5"], "audit": ["p1", "p3", "p5"]}
PROCESSES = [f"p{index}" for index in range(1, 6)]
SUSPICION_SECONDS, LEASE_SECONDS = 0.5, 1.0
RENEWALS = 8
"""Of the lease, while it lasts."""
PACKETS_MAX, RATE_MIN, MEDIAN_MAX, WORST_MAX, PROCESSOR_MAX, REJOIN_MIN = 1.05, 0.9, 1.2, 2.0, 60.0, 0.9
SIMULATED_SECONDS = 1.0
STOP_GROUPS = {"accounts": tuple("abcdef"), "rates": tuple("defghi")}
"""Of each three, any two are a majority."""
STOP_FAILED = ("a", "d", "g")
STOP_RATE = 10.0
STOP_RUN_SECONDS, STOP_AT_SECONDS, STOP_AWAY_SECONDS = 8.0, 2.0, 5.0
PAYLOAD = bytes(100)
LIST_LENGTH = 500
EACH_GROUP_RATE = 100.0
TELL_SECONDS = 0.1
GAP_SECONDS = 0.05
"""Shorter silences are not told."""
REST_SECONDS = 3.0
WARM_UP_SECONDS = 3.0
AWAY_SECONDS = 10.0
BACK_SECONDS_MAX = 60.0
Result = dict[str, Any]


# ------------------------------------------------------------------ simulated
def measure_packets() -> Result:
    """The same messages with both forms of delivery."""
    rate = 1000 * RENEWALS / LEASE_SECONDS / len(PROCESSES)
    sent = {}
    for delivery in ("atomic", "non-atomic"):
        options = find_protocol(PROTOCOL).contract.options(
            delivery=delivery, suspicion_seconds=SUSPICION_SECONDS, lease_seconds=LEASE_SECONDS
        )
        run = Simulation(
            find_protocol(PROTOCOL),
            GROUPS,
            PointToPoint(1e-6, 0.0005),
            workloads=[
                Workload(
                    sources=(site,),
                    groups=tuple(group for group, members in GROUPS.items() if site in members),
                    choose=1,
                    count=round(rate * SIMULATED_SECONDS),
                    rate=rate,
                )
                for site in PROCESSES
            ],
            options=options,
            settle=0.5,
            check_invariants=False,
        ).execute()
        rows = run.table()
        columns = (rows.column(name).to_pylist() for name in ("kind", "time"))
        sent[delivery] = sum(kind == "send" and at < SIMULATED_SECONDS for kind, at in zip(*columns, strict=True))
    ratio = sent["non-atomic"] / sent["atomic"]
    return {**sent, "ratio": round(ratio, 3), "wanted_at_most": PACKETS_MAX, "fine": ratio <= PACKETS_MAX}


def measure_stops() -> Result:
    """The same failures three times. What `atomic` makes of them is the price that is saved, and has no bound."""
    forms: dict[str, tuple[str, dict[str, Any]]] = {
        "atomic": (PROTOCOL, {"delivery": "atomic"}),
        "non-atomic": (PROTOCOL, {"delivery": "non-atomic", "lease_seconds": LEASE_SECONDS}),
        "scalatom": ("scalatom", {}),
    }
    stops = {
        form: {site: _stop(protocol, options, site) for site in STOP_FAILED}
        for form, (protocol, options) in forms.items()
    }
    wanted = WORST_MAX * (SUSPICION_SECONDS + LEASE_SECONDS)
    return {**stops, "wanted_at_most": wanted, "fine": max(stops["non-atomic"].values()) <= wanted}


def _stop(protocol: str, options: dict[str, Any], failed: str) -> float:
    """Seconds from one delivery to the next of the same group at the same process, at the most."""
    run = Simulation(
        find_protocol(protocol),
        STOP_GROUPS,
        PointToPoint(1e-6, 0.0005),
        workloads=[
            Workload(sources=(site,), groups=(group,), rate=STOP_RATE, count=round(STOP_RATE * STOP_RUN_SECONDS))
            for group, members in STOP_GROUPS.items()
            for site in members
        ],
        faults=[Crash(sites=(failed,), from_=STOP_AT_SECONDS, to=STOP_AT_SECONDS + STOP_AWAY_SECONDS)],
        options=find_protocol(protocol).contract.options(**options),
        settle=5.0,
        check_invariants=False,
    ).execute()
    rows = sorted(run.table().to_pylist(), key=lambda row: (row["time"], row["seq"]))
    groups = {row["message"]: row["groups"][0] for row in rows if row["kind"] == "multicast"}
    seen: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["kind"] == "deliver" and row["site"] != failed:
            seen.setdefault((row["site"], groups[row["message"]]), []).append(row["time"])
    return round(max(after - before for times in seen.values() for before, after in pairwise(times)), 3)


def measure_sites() -> Result:
    """How long this processor needs for a run in which 200 sites make another graph."""
    taken = {}
    for failed in ("manager", "root"):
        began = time.process_time()
        stopped = run_failure({"sites": 200, "failed": failed}, 1)["stop_seconds"]
        taken[failed] = {"processor_seconds": round(time.process_time() - began, 1), "stop_seconds": stopped}
    worst = max(each["processor_seconds"] or 0.0 for each in taken.values())
    return {**taken, "wanted_at_most": PROCESSOR_MAX, "fine": worst <= PROCESSOR_MAX}


# ------------------------------------------------------------------ live, at full rate
def measure_rates(rounds: int) -> Result:
    """Both forms in turns."""
    rates: dict[str, list[float]] = {"atomic": [], "non-atomic": []}
    for _ in range(rounds):
        for delivery, seen in rates.items():
            load = Load(nodes=5, seconds=4.0, protocol=PROTOCOL, log=True, options=(f'delivery = "{delivery}"',))
            seen.append(measure_rate(load)["messages_per_second"])
    ratio = statistics.median(rates["non-atomic"]) / statistics.median(rates["atomic"])
    return {**rates, "ratio": round(ratio, 3), "wanted_at_least": RATE_MIN, "fine": ratio >= RATE_MIN}


# ------------------------------------------------------------------ live: a member
class Member:
    """One process, and what it delivers of each of its groups."""

    def __init__(self, node: ordercast.Node, groups: list[ordercast.Group], rate: float) -> None:
        self._node = node
        self._groups = groups
        self._rate = rate
        self._last = {group.name: time.monotonic() for group in groups}
        self._delivered = 0
        for group in groups:
            group.on_batch(self._watch(group.name))

    def _watch(self, name: str) -> Callable[[ordercast.Batch], None]:
        def on_batch(batch: ordercast.Batch) -> None:
            now = time.monotonic()
            if now - self._last[name] > GAP_SECONDS:
                failover.tell({"gap": [self._last[name], now]})
            self._last[name] = now
            self._delivered += len(batch)

        return on_batch

    async def send(self, group: ordercast.Group) -> None:
        """At the rate of this process for each group; a negative one: as fast as it goes."""
        sent, began = 0, time.monotonic()
        while True:
            due = LIST_LENGTH if self._rate < 0 else int((time.monotonic() - began) * self._rate) - sent
            if due > 0:
                with contextlib.suppress(ordercast.GroupBlocked):
                    await group.multicast_many([PAYLOAD] * min(due, LIST_LENGTH))
                sent += min(due, LIST_LENGTH)
            if due < LIST_LENGTH:
                await asyncio.sleep(0.01)

    async def report(self) -> None:
        """How far it is, from time to time."""
        while True:
            status = self._node.status()
            standing, branches = status["graph"] or {}, status["branches"]
            failover.tell(
                {
                    "leads": standing.get("manager") == self._node.process,
                    "epoch": standing.get("number", 0),
                    "delivered": self._delivered,
                    "offset": sum(group.offset for group in self._groups),
                    "out": sorted(standing.get("out", {})),
                    "delivers": standing.get("delivers", False),
                    "back_by": [way for way in ("skip", "rollback", "fallback") if branches.get(f"rejoined-by-{way}")],
                }
            )
            await asyncio.sleep(TELL_SECONDS)


async def be_member(config: str, process: str, rate: float) -> None:
    """Until it is killed."""
    async with ordercast.open(config, process) as node:
        groups = [await node.join(group) for group, members in GROUPS.items() if process in members]
        member = Member(node, groups, rate)
        await asyncio.gather(member.report(), *(member.send(group) for group in groups))


# ------------------------------------------------------------------ live: whoever measures
class Process(failover.Process):
    """A member as a process."""

    said: Result

    async def _read(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            told = json.loads(line)
            if "gap" in told:
                begin, end = told["gap"]
                self.gaps.append((begin, end))
            else:
                self.said = told
                self._told.set()

    def is_back(self) -> bool:
        """Whether it delivers, and nobody is out."""
        return bool(self.said["delivers"]) and not self.said["out"]


def _start(folder: Path, rates: dict[str, float], rejoin: str) -> dict[str, Process]:
    create_key_file(folder / "cluster.key")
    lines = [
        'cluster = "failures"',
        f'protocol = "{PROTOCOL}"',
        'key_file = "cluster.key"',
        'log_directory = "log"',
        "[processes]",
        *(f'{name} = "127.0.0.1:{port}"' for name, port in zip(PROCESSES, free_ports(len(PROCESSES)), strict=True)),
        "[groups]",
        *(f"{group} = {json.dumps(members)}" for group, members in GROUPS.items()),
        "[options]",
        'delivery = "non-atomic"',
        f'rejoin = "{rejoin}"',
        f"suspicion_seconds = {SUSPICION_SECONDS}",
        f"lease_seconds = {LEASE_SECONDS}",
    ]
    config = folder / "cluster.toml"
    config.write_text("\n".join(lines) + "\n", encoding="utf-8")
    me = [sys.executable, __file__, "--member", str(config)]
    return {name: Process(*me, name, str(rates[name])) for name in PROCESSES}


@contextlib.asynccontextmanager
async def _cluster(rates: dict[str, float], rejoin: str) -> Any:
    with tempfile.TemporaryDirectory(prefix="ordercast-failures-") as folder:
        members = _start(Path(folder), rates, rejoin)
        starting = [asyncio.create_task(member.start()) for member in members.values()]
        try:
            for each in starting:
                await each
            await _until_back(members)
            await asyncio.sleep(WARM_UP_SECONDS)
            yield members
        finally:
            for member in members.values():
                with contextlib.suppress(ProcessLookupError, AttributeError):
                    await member.kill()


async def _until_back(members: dict[str, Process]) -> None:
    deadline = time.monotonic() + BACK_SECONDS_MAX
    while not all(member.is_back() for member in members.values()):
        if time.monotonic() > deadline:
            raise SystemExit(f"not all are back: { ({name: member.said for name, member in members.items()}) }")
        await asyncio.sleep(TELL_SECONDS)


async def _kill_in_turn(kills: int, rejoin: str) -> list[dict[str, Any]]:
    seen = []
    async with _cluster(dict.fromkeys(PROCESSES, EACH_GROUP_RATE), rejoin) as members:
        for turn in range(kills):
            name = PROCESSES[turn % len(PROCESSES)]
            others = [member for other, member in members.items() if other != name]
            for member in others:
                member.gaps.clear()
            managed = members[name].said["leads"]
            killed = await members[name].kill()
            await asyncio.sleep(REST_SECONDS)
            ends = [end for member in others for begin, end in member.gaps if end > killed]
            seen.append(
                {
                    "killed": name,
                    "managed": managed,
                    "out": all(name in member.said["out"] for member in others),
                    "seconds": round(max(ends, default=killed) - killed, 3),
                }
            )
            await members[name].start()
            await _until_back(members)
            await asyncio.sleep(REST_SECONDS / 2)
    return seen


def measure_kills(kills: int, rejoin: str) -> Result:
    """From each kill until all groups are delivered again."""
    seen = ordercast.run(_kill_in_turn(kills, rejoin))
    whole = SUSPICION_SECONDS + LEASE_SECONDS
    shares = sorted(each["seconds"] / whole for each in seen)
    return {
        "kills": seen,
        "median": round(statistics.median(shares), 3),
        "worst": round(shares[-1], 3),
        "wanted_at_most": [MEDIAN_MAX, WORST_MAX],
        "fine": statistics.median(shares) <= MEDIAN_MAX
        and shares[-1] <= WORST_MAX
        and all(each["out"] for each in seen),
    }


async def _count(members: list[Process], seconds: float) -> float:
    """Messages a second of the slowest."""
    before, began = [member.said["delivered"] for member in members], time.monotonic()
    await asyncio.sleep(seconds)
    taken = time.monotonic() - began
    return min((member.said["delivered"] - b) / taken for member, b in zip(members, before, strict=True))


async def _come_back(rejoin: str, absent: str) -> Result:
    others = [name for name in PROCESSES if name != absent]
    places = sum(len([name for name in members if name != absent]) for members in GROUPS.values())
    async with _cluster({**dict.fromkeys(others, -1.0), absent: 0.0}, rejoin) as members:
        # Of all messages, for half of the load is to be offered: each is counted once, wherever it is delivered.
        before = [member.said["offset"] for member in members.values()]
        await asyncio.sleep(REST_SECONDS)
        most = sum(member.said["offset"] - b for member, b in zip(members.values(), before, strict=True))
    shares = sum(len(group) for group in GROUPS.values()) / len(GROUPS)
    each = most / REST_SECONDS / shares / places / 2
    async with _cluster({**dict.fromkeys(others, each), absent: 0.0}, rejoin) as members:
        staying = [members[name] for name in others]
        usual = await _count(staying, 5.0)
        await members[absent].kill()
        await asyncio.sleep(AWAY_SECONDS)
        for member in staying:
            member.gaps.clear()
        began = time.monotonic()
        counted = [member.said["delivered"] for member in staying]
        await members[absent].start()
        while not (
            members[absent].said["back_by"]
            and all(member.is_back() for member in members.values())
            and time.monotonic() > began + REST_SECONDS
        ):
            if time.monotonic() > began + BACK_SECONDS_MAX:
                break
            await asyncio.sleep(TELL_SECONDS)
        taken = time.monotonic() - began
        rate = min((member.said["delivered"] - c) / taken for member, c in zip(staying, counted, strict=True))
        back = members[absent].said["back_by"]
        return {
            "absent": absent,
            "rejoin": rejoin,
            "offered": round(each * places),
            "usual": round(usual),
            "meanwhile": round(rate),
            "seconds": round(taken, 1),
            "back_by": back,
            "longest_stop": round(max(member.stood_still(began) for member in staying), 3),
            "ratio": round(rate / usual, 3),
            "wanted_at_least": REJOIN_MIN,
            "fine": rate >= REJOIN_MIN * usual and bool(back),
        }


def measure_rejoin(rejoin: str) -> Result:
    """One that only receives, and the one that orders."""
    runs = [ordercast.run(_come_back(rejoin, absent)) for absent in ("p4", "p1")]
    return {"runs": runs, "fine": all(run["fine"] for run in runs)}


def main() -> int:
    """Measure, and say whether it is good enough."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=["packets", "stops", "rate", "kills", "sites", "rejoin"])
    parser.add_argument("--kills", type=int, default=15)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rejoin", choices=["skip", "rollback"], default="skip")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    # So that those who are measured end with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows: dict[str, Callable[[], Result]] = {
        "packets": measure_packets,
        "stops": measure_stops,
        "rate": lambda: measure_rates(arguments.rounds),
        "kills": lambda: measure_kills(arguments.kills, arguments.rejoin),
        "sites": measure_sites,
        "rejoin": lambda: measure_rejoin(arguments.rejoin),
    }
    document = {}
    for name in arguments.only:
        document[name] = rows[name]()
        if not arguments.json:
            print(f"{name}: {document[name]}", flush=True)
    if arguments.json:
        print(json.dumps(document, indent=2))
    return 0 if all(result["fine"] for result in document.values()) else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--member"]:
        ordercast.run(be_member(sys.argv[2], sys.argv[3], float(sys.argv[4])))
    else:
        sys.exit(main())
