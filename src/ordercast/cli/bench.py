"""`ordercast bench`: throughput and latency of a live protocol on this machine."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from ordercast.cli.bench_member import WARM_UP_SECONDS, Work
from ordercast.core import UsageError
from ordercast.net.hub import Hub
from ordercast.net.ports import free_ports
from ordercast.net.sockets import resolve
from ordercast.node.configuration import Configuration, read_configuration
from ordercast.protocols import find_protocol
from ordercast.wire.keys import key_text, new_key

START_SECONDS = 60
"""Until every process must have met every other."""

ENDED_EARLY = "a process of the benchmark ended early; its last words are above"


class Interface(StrEnum):
    """How the receiving application takes deliveries."""

    batches = "batches"
    callback = "callback"
    iterate = "iterate"


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("bench")(bench)


def bench(
    nodes: Annotated[int, typer.Option(min=1, max=64, help="Processes, all of them senders and members.")] = 4,
    size: Annotated[int, typer.Option(min=1, help="Bytes of a message.")] = 100,
    seconds: Annotated[float, typer.Option(min=0.1, help="Measured, after a second of warming up.")] = 5.0,
    protocol: Annotated[str, typer.Option(help="See `ordercast protocols`.")] = "sequencer",
    rate: Annotated[
        float | None, typer.Option(min=0.1, help="Messages a second of all processes together; default: the most.")
    ] = None,
    api: Annotated[Interface, typer.Option(help="How deliveries are taken.")] = Interface.batches,
    insecure: Annotated[bool, typer.Option("--insecure", help="Without sealing.")] = False,
    log: Annotated[bool, typer.Option("--log", help="With a stable log.")] = False,
    max_datagram: Annotated[int, typer.Option(help="Bytes of a datagram; 1450 on a 1500-byte network.")] = 65000,
    busy_poll: Annotated[
        int, typer.Option(metavar="MICROSECONDS", help="Look so long for the next datagram before sleeping.")
    ] = 200,
    overlap: Annotated[
        bool,
        typer.Option("--overlap", help="Two groups, each without one process; lists go to them in turn."),
    ] = False,
    multicast: Annotated[str | None, typer.Option(metavar="ADDRESS:PORT", help="Use this IP multicast group.")] = None,
    namespaces: Annotated[
        str | None,
        typer.Option(metavar="NAME=ADDRESS,…", help="Network namespaces in which the processes run, one each."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of the protocol, as in a configuration; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> int:
    """Start a cluster on this machine, let every process send, and measure what all of them deliver.

    Example: ordercast bench --nodes 4 --size 100 --seconds 5 --protocol sequencer
    """
    options: dict[str, Any] = {"insecure": insecure, "log": log, "max_datagram": max_datagram, "multicast": multicast}
    options |= {"busy_poll": busy_poll, "option": option or []}
    if overlap and nodes < 3:
        raise UsageError("--overlap needs at least 3 nodes")
    places = _places(namespaces, nodes, protocol)
    with tempfile.TemporaryDirectory(prefix="ordercast-bench-") as folder:
        names = [f"p{index:02}" for index in range(nodes)]
        groups = {"first": names[:-1], "last": names[1:]} if overlap else {"bench": names}
        addresses = dict(zip(names, [place.address for place in places], strict=True))
        config = _write_config(Path(folder), addresses, groups, protocol, options)
        configuration = read_configuration(config, {}, {})
        each = None if rate is None else rate / nodes
        works = [Work(str(config), name, size, seconds, each, api.value, list(groups)) for name in names]
        reports = asyncio.run(_run(works, configuration, places))
    result = summarize(reports, works[0]) | {"sealed": not insecure, "protocol": protocol, "nodes": nodes, "size": size}
    if as_json:
        print(json.dumps(result))
    else:
        _show(result)
    return 0


class Place(msgspec.Struct, frozen=True):
    """Where one of the processes runs."""

    address: str = "127.0.0.1"
    namespace: str | None = None

    @property
    def command(self) -> list[str]:
        """What stands before the command that starts it."""
        return [] if self.namespace is None else ["ip", "netns", "exec", self.namespace]


def _places(namespaces: str | None, nodes: int, protocol: str) -> list[Place]:
    if namespaces is None:
        return [Place()] * nodes
    pairs = [part.partition("=") for part in namespaces.split(",")]
    if len(pairs) != nodes or not all(name and address for name, _, address in pairs):
        raise UsageError(f"--namespaces needs NAME=ADDRESS for each of the {nodes} nodes, separated by commas")
    if find_protocol(protocol).contract.one_channel:
        raise UsageError(f"{protocol} needs a hub, which is not in any of the namespaces: leave --namespaces out")
    return [Place(address, name) for name, _, address in pairs]


def _write_config(
    folder: Path, addresses: dict[str, str], groups: dict[str, list[str]], protocol: str, options: dict[str, Any]
) -> Path:
    lines = ['cluster = "bench"', f'protocol = "{protocol}"']
    lines += [f"{key} = {options[key]}" for key in ("max_datagram", "busy_poll")]
    if options["insecure"]:
        lines.append("insecure = true")
    else:
        key = folder / "bench.key"
        key.touch(mode=0o600)
        key.write_text(key_text(new_key()))
        lines.append('key_file = "bench.key"')
    if options["log"]:
        lines.append('log_directory = "log"')
    if find_protocol(protocol).contract.one_channel:
        lines.append(f'channel = "127.0.0.1:{free_ports(1)[0]}"')
    if options["multicast"]:
        lines.append(f'multicast = "{options["multicast"]}"')
    lines.append("[processes]")
    ports = free_ports(len(addresses))
    lines += [f'{name} = "{address}:{port}"' for (name, address), port in zip(addresses.items(), ports, strict=True)]
    lines += ["[groups]", *(f"{group} = {json.dumps(members)}" for group, members in groups.items())]
    lines += ["[options]", *options["option"]]
    path = folder / "bench.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


async def _run(works: list[Work], configuration: Configuration, places: list[Place]) -> list[dict[str, Any]]:
    with _channel(configuration):
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


async def _run_members(works: list[Work], places: list[Place]) -> list[dict[str, Any]]:
    members = [
        await asyncio.create_subprocess_exec(
            *place.command,
            sys.executable,
            "-m",
            "ordercast.cli.bench_member",
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
    assert member.stdout is not None
    line = (await member.stdout.readline()).decode()
    if not line.endswith("\n"):
        raise UsageError(ENDED_EARLY)
    return line.strip()


async def _expect(member: asyncio.subprocess.Process, word: str) -> None:
    line = await _line(member)
    if line != word:
        raise UsageError(f"a process of the benchmark said {line!r} instead of {word!r}")


def summarize(reports: list[dict[str, Any]], work: Work) -> dict[str, Any]:
    """What the slowest member of each group saw, and how long messages took."""
    sent: Counter[str] = Counter()
    for report in reports:
        sent.update(report["sent"])
    delivered = sum(
        min(report["within"].get(group, 0) for report in reports if group in report["groups"]) for group in work.groups
    )
    lost = sum(sum(sent[group] for group in report["groups"]) - report["delivered"] for report in reports)
    # Everyone's to the same measure: one that stands for two counts as much as two.
    every = max(report["latencies_every"] for report in reports)
    latencies = sorted(
        latency / 1e6 for report in reports for latency in report["latencies"][:: every // report["latencies_every"]]
    )
    quantiles = statistics.quantiles(latencies, n=100, method="inclusive") if len(latencies) > 1 else []
    return {
        "messages_per_second": round(delivered / work.seconds, 1),
        "p50_ms": round(quantiles[49], 4) if quantiles else None,
        "p99_ms": round(quantiles[98], 4) if quantiles else None,
        "lost": lost,
        "cpu_seconds": round(sum(report["cpu_seconds"] for report in reports), 2),
        "memory_mb": [[round(peak, 1) for peak in report["memory_mb"]] for report in reports],
        "counters": [report["counters"] for report in reports],
    }


def _show(result: dict[str, Any]) -> None:
    print(
        f"{result['protocol']}, {result['nodes']} processes, {result['size']}-byte messages, "
        f"{'sealed' if result['sealed'] else 'not sealed'}"
    )
    print(
        f"  {result['messages_per_second']:,.0f} messages a second, delivered at every process; lost: {result['lost']}"
    )
    early, late = (max(peaks[at] for peaks in result["memory_mb"]) for at in (0, -1))
    print(f"  memory of a process, at the most: {early} MB after a fifth of the time, {late} MB at the end")
    if result["p50_ms"] is not None:
        print(f"  from multicast to delivery: half within {result['p50_ms']} ms, 99 % within {result['p99_ms']} ms")
