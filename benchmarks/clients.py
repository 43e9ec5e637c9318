"""Clients on this machine: what they cost a member, how long they wait, and exactly once while members are killed.

    python benchmarks/clients.py rate            8 clients at full rate, against a member's own full rate
    python benchmarks/clients.py watched         a member's own full rate, unseen, and asked for status and metrics
    python benchmarks/clients.py many            2,000 clients of one member, one message a second each
    python benchmarks/clients.py once            10,000 numbered messages while members are killed ten times
    python benchmarks/clients.py once --gateway  the same by HTTP, through `ordercast gateway`

Every process is a process of its own, on the loopback, sealed. `--json` prints one document.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import ordercast
from ordercast.net.ports import free_ports
from ordercast.node.control import ask_once
from ordercast.wire.keys import create_key_file

NAMES = ("a", "b", "c")
SIZE = 100
CHUNK = 500


def make_cluster(folder: Path, protocol: str, log: bool) -> Path:
    """A cluster of three that listen for clients."""
    create_key_file(folder / "key")
    ports = free_ports(3 * len(NAMES))
    processes = "\n".join(f'{name} = "127.0.0.1:{port}"' for name, port in zip(NAMES, ports, strict=False))
    clients, metrics = (
        "\n".join(f'{name} = "127.0.0.1:{port}"' for name, port in zip(NAMES, chosen, strict=True))
        for chosen in (ports[len(NAMES) : 2 * len(NAMES)], ports[2 * len(NAMES) :])
    )
    path = folder / "cluster.toml"
    path.write_text(
        f'cluster = "clients"\nprotocol = "{protocol}"\nkey_file = "key"\ncontrol = "unix:{{process}}.sock"\n'
        + ('log_directory = "log"\n' if log else "")
        + f'[processes]\n{processes}\n[groups]\ng = ["a", "b", "c"]\n[metrics]\n{metrics}\n[clients]\n{clients}\n'
    )
    return path


def addresses(config: Path, names: tuple[str, ...] = NAMES) -> list[str]:
    lines = config.read_text().partition("[clients]")[2].split("\n")
    known = dict(line.replace('"', "").split(" = ") for line in lines if line)
    return [known[name] for name in names]


class Members:
    """Processes of the cluster, which can be killed and started again."""

    def __init__(self, config: Path) -> None:
        self._config = config
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.killed = 0
        self.orderers_killed = 0

    def start(self, name: str) -> None:
        words = [sys.executable, "-m", "ordercast", "node", "--config", str(self._config), "--process", name, "--json"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.running[name] = process
        if process.stdout is None or not process.stdout.readline():
            raise SystemExit(f"{name} did not start")

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def kill_next(self, member: str | None) -> str:
        """In turns the one that somebody is connected with, and the one that orders; who it was."""
        orderer = self.status(next(iter(self.running)))["orders"]
        victim = member if member and self.killed % 2 == 0 else orderer
        self.kill(victim)
        self.killed += 1
        self.orderers_killed += victim == orderer
        return victim

    def status(self, name: str) -> dict[str, Any]:
        return asyncio.run(ask_once(self._config.parent / f"{name}.sock", {"command": "status"}))


@contextmanager
def members(config: Path, names: tuple[str, ...] = NAMES) -> Iterator[Members]:
    """They run meanwhile."""
    cluster = Members(config)
    try:
        for name in names:
            cluster.start(name)
        yield cluster
    finally:
        for name in tuple(cluster.running):
            cluster.kill(name)


# ---------------------------------------------------------------------- full rate
async def load_as_member(config: Path, seconds: float) -> float:
    """Messages a second that the member b sends and delivers by itself."""
    async with ordercast.open(config, "b") as node:
        group = await node.join("g")
        group.on_batch(lambda batch: None)
        await node.wait_for_peers()
        payloads, began = [bytes(SIZE)] * CHUNK, time.monotonic()
        while time.monotonic() - began < seconds:
            await group.multicast_many(payloads)
        await group.multicast(b"last", confirm=True)
        return group.offset / (time.monotonic() - began)


async def load_as_client(where: list[str], key: Path, seconds: float) -> tuple[int, float]:
    """How many messages one client had ordered, and in which time. It begins when it is told to."""
    async with ordercast.connect(where, key) as client:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        group, sent = client.group("g"), 0
        payloads, began = [bytes(SIZE)] * CHUNK, time.monotonic()
        while time.monotonic() - began < seconds:
            await group.multicast_many(payloads)
            sent += CHUNK
        await client.flush()
        return sent, time.monotonic() - began


def rate(clients: int, seconds: float, protocol: str) -> dict[str, Any]:
    """Both, one after the other, each with a new cluster."""
    own = _with_cluster(protocol, lambda config: _own_rate(config, seconds))
    theirs = _with_cluster(protocol, lambda config: _client_rate(config, clients, seconds))
    return {"own": own, "clients": clients, "rate": theirs, "ratio": theirs / own, "protocol": protocol, "size": SIZE}


def _own_rate(config: Path, seconds: float) -> float:
    with members(config, ("a", "c")):
        return float(_run_self("load-member", "--config", str(config), "--seconds", str(seconds)))


# ---------------------------------------------------------------------- seen from outside
def watched(pairs: int, seconds: float, protocol: str) -> dict[str, Any]:
    """In turns, so that a machine that becomes slower does not count for one of them."""
    alone, seen = [], []
    for _ in range(pairs):
        alone.append(_with_cluster(protocol, lambda config: _own_rate(config, seconds)))
        seen.append(_with_cluster(protocol, lambda config: _watched_rate(config, seconds)))
    ratios = [with_it / without for with_it, without in zip(seen, alone, strict=True)]
    return {"unseen": statistics.median(alone), "seen": statistics.median(seen), "ratio": statistics.median(ratios)}


def _watched_rate(config: Path, seconds: float) -> float:
    over, looks, question = threading.Event(), list[Any](), {"command": "status"}

    def look() -> None:
        table = config.read_text().partition("[metrics]")[2].partition("[clients]")[0]
        addresses = [line.split('"')[1] for line in table.splitlines() if line]
        while not over.wait(1.0):
            with suppress(OSError, ordercast.UsageError):  # the member b comes a moment later, and ends first
                looks.extend(asyncio.run(ask_once(config.parent / f"{name}.sock", question)) for name in NAMES)
                for address in addresses:
                    connection = HTTPConnection(address, timeout=5.0)
                    connection.request("GET", "/metrics")
                    looks.append(connection.getresponse().read())

    looking = threading.Thread(target=look)
    looking.start()
    try:
        return _own_rate(config, seconds)
    finally:
        over.set()
        looking.join()
        if len(looks) < 2 * len(NAMES):
            raise SystemExit("nobody looked")


def _client_rate(config: Path, clients: int, seconds: float) -> float:
    with members(config):
        words = ("load-client", "--config", str(config), "--seconds", str(seconds))
        running = [_start_self(*words) for _ in range(clients)]
        # Eight interpreters that start on two processors are done one after the other: all begin when all are there.
        for process in running:
            if process.stdout is None or process.stdout.readline() != "ready\n":
                raise SystemExit("a client did not connect")
        for process in running:
            print(file=process.stdin, flush=True)
        results = [json.loads(process.communicate()[0]) for process in running]
    return sum(sent for sent, _ in results) / max(elapsed for _, elapsed in results)


def _start_self(*words: str) -> subprocess.Popen[str]:
    words = (sys.executable, __file__, *words)
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _run_self(*words: str) -> str:
    process = _start_self(*words)
    printed, _ = process.communicate()
    if process.returncode:
        raise SystemExit(process.returncode)
    return printed


def _with_cluster(protocol: str, work: Any, log: bool = False) -> Any:
    with tempfile.TemporaryDirectory(prefix="oc-") as folder:
        return work(make_cluster(Path(folder), protocol, log))


# ---------------------------------------------------------------------- many clients
async def send_each_second(where: list[str], key: Path, count: int, seconds: float) -> list[float]:
    """So many clients in this process; how long each message took until its receipt was there."""
    took: list[float] = []

    async def one(index: int) -> None:
        await asyncio.sleep(index / count * 5.0)  # not all connect in the same moment
        async with ordercast.connect(where, key, timeout=60.0) as client:
            group, loop = client.group("g"), asyncio.get_running_loop()
            # Everybody is there before anything is measured.
            due = began + 8.0 + index / count
            while due < began + 8.0 + seconds:
                await asyncio.sleep(max(0.0, due - loop.time()))
                sent = time.perf_counter()  # (that of the loop stands still within a turn)
                await group.multicast(bytes(SIZE), confirm=True)
                took.append(time.perf_counter() - sent)
                due += 1.0

    began = asyncio.get_running_loop().time()
    await asyncio.gather(*(one(index) for index in range(count)))
    return took


def many(clients: int, seconds: float, protocol: str) -> dict[str, Any]:
    """All of them at the member b."""

    def work(config: Path) -> dict[str, Any]:
        with members(config) as cluster:
            before = cluster.status("b")["memory_bytes"]
            words = ("send-each-second", "--config", str(config), "--seconds", str(seconds), "--clients", str(clients))
            took = sorted(json.loads(_run_self(*words)))
            after = cluster.status("b")
            return {
                "clients": clients,
                "messages": len(took),
                "p50_ms": 1e3 * statistics.median(took),
                "p99_ms": 1e3 * took[int(0.99 * len(took))],
                "memory_before_mb": before / 1e6,
                "memory_mb": after["memory_bytes"] / 1e6,
                "kb_a_client": (after["memory_bytes"] - before) / clients / 1e3,
                "protocol": protocol,
                "size": SIZE,
            }

    result: dict[str, Any] = _with_cluster(protocol, work)
    return result


# ---------------------------------------------------------------------- exactly once
async def send_numbered(config: Path, count: int, kills: int, cluster: Members, key: Path) -> dict[str, Any]:
    """Send numbers while members are killed."""
    began = time.monotonic()
    async with ordercast.connect(addresses(config), key, timeout=60.0) as client:
        group = client.group("g")
        for number in range(count):
            await group.multicast(b"%d" % number)
            if number % (count // kills) == count // kills // 2:
                # It is killed with messages of which nobody knows how far they got.
                victim = await asyncio.to_thread(cluster.kill_next, client.member)
                await group.multicast(b"kill", confirm=True)
                await asyncio.to_thread(cluster.start, victim)
        await client.flush()
        connections = client.connections
    found = await judge_numbered(config, count, key)
    return found | {"connections": connections, "seconds": time.monotonic() - began}


async def judge_numbered(config: Path, count: int, key: Path) -> dict[str, Any]:
    """What the group has of the numbers."""
    seen: list[bytes] = []
    async with ordercast.connect(addresses(config), key, timeout=60.0) as client:
        end = await client.group("g").multicast(b"end", confirm=True)
        async for delivery in client.group("g").subscribe(0):
            if delivery.payload not in (b"kill", b"end"):
                seen.append(delivery.payload)
            if delivery.offset >= end.offset:
                break
    wanted = [b"%d" % number for number in range(count)]
    return {
        "messages": count,
        "lost": len(set(wanted) - set(seen)),
        "doubled": len(seen) - len(set(seen)),
        "in_order": seen == wanted,
    }


class Gateway:
    """`ordercast gateway` as a process, and whoever speaks HTTP with it."""

    def __init__(self, config: Path) -> None:
        self._port = free_ports(1)[0]
        words = ("gateway", "--config", str(config), "--listen", f"127.0.0.1:{self._port}", "--json")
        command = [sys.executable, "-m", "ordercast", *words]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if self._process.stdout is None or not self._process.stdout.readline():
            raise SystemExit("the gateway did not start")
        self._connection = HTTPConnection("127.0.0.1", self._port, timeout=30.0)
        self.retries = 0

    def publish(self, payload: bytes) -> None:
        """Until it is ordered. The key is the message itself, and makes sending again harmless."""
        while True:
            status, answer = self._ask("POST", "/groups/g/messages", payload, {"Idempotency-Key": payload.decode()})
            if status in (200, 201):
                return
            if status != 503:
                raise SystemExit(f"the gateway says {status}: {answer}")
            self.retries += 1
            time.sleep(0.1)

    @property
    def member(self) -> str | None:
        """With which it is connected."""
        answer: str | None = json.loads(self._ask("GET", "/health")[1])["member"]
        return answer

    def _ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        for attempt in range(50):
            try:
                self._connection.request(method, path, body, headers or {})
                answer = self._connection.getresponse()
                return answer.status, answer.read()
            except (OSError, HTTPException):
                self._connection.close()
                if attempt:
                    time.sleep(0.1)
        raise SystemExit("the gateway does not answer")

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(10.0)


def send_numbered_by_gateway(config: Path, count: int, kills: int, cluster: Members, key: Path) -> dict[str, Any]:
    """The same through a gateway, one message at a time: each is there before the next one is sent."""
    began, gateway = time.monotonic(), Gateway(config)
    try:
        for number in range(count):
            gateway.publish(b"%d" % number)
            if number % (count // kills) == count // kills // 2:
                victim = cluster.kill_next(gateway.member)
                gateway.publish(b"%d" % number)  # sent again: of all messages with this key the first one counts
                cluster.start(victim)
    finally:
        gateway.stop()
    found = ordercast.run(judge_numbered(config, count, key))
    return found | {"retries": gateway.retries, "seconds": time.monotonic() - began}


def once(count: int, kills: int, protocol: str, by_gateway: bool) -> dict[str, Any]:
    """With real processes, their logs, and SIGKILL."""

    def work(config: Path) -> dict[str, Any]:
        with members(config) as cluster:
            key = config.parent / "key"
            if by_gateway:
                found = send_numbered_by_gateway(config, count, kills, cluster, key)
            else:
                found = ordercast.run(send_numbered(config, count, kills, cluster, key))
            killed = {"kills": cluster.killed, "kills_of_the_orderer": cluster.orderers_killed}
            return found | killed | {"protocol": protocol, "by_gateway": by_gateway}

    result: dict[str, Any] = _with_cluster(protocol, work, log=True)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "what", choices=["rate", "watched", "many", "once", "load-member", "load-client", "send-each-second"]
    )
    parser.add_argument("--clients", type=int)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--protocol")
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--gateway", action="store_true")
    parser.add_argument("--config", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    match given.what:
        case "load-member":
            print(ordercast.run(load_as_member(given.config, given.seconds)))
            return 0
        case "load-client":
            where, key = addresses(given.config, ("b",)), given.config.parent / "key"
            print(json.dumps(ordercast.run(load_as_client(where, key, given.seconds))))
            return 0
        case "send-each-second":
            where, key = addresses(given.config, ("b",)), given.config.parent / "key"
            print(json.dumps(ordercast.run(send_each_second(where, key, given.clients, given.seconds))))
            return 0
        case "rate":
            result = rate(given.clients or 8, given.seconds, given.protocol or "sequencer")
        case "watched":
            result = watched(given.pairs, given.seconds, given.protocol or "sequencer")
        case "many":
            result = many(given.clients or 2_000, given.seconds, given.protocol or "sequencer")
        case _:
            result = once(given.messages, given.kills, given.protocol or "three-step", given.gateway)
    if given.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:>18}  {value:.2f}" if isinstance(value, float) else f"{name:>18}  {value}")
    return 1 if result.get("lost") or result.get("doubled") or result.get("in_order") is False else 0


if __name__ == "__main__":
    sys.exit(main())
