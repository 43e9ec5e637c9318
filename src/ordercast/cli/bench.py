"""`ordercast bench`: throughput and latency of a live protocol on this machine."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer

from ordercast.bench.load import Load, Place
from ordercast.bench.run import measure
from ordercast.core import UsageError
from ordercast.core.tables import nearest
from ordercast.protocols import find_protocol


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
    seconds: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Measured, after a second of warming up.")
    ] = 5.0,
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
    service: Annotated[str, typer.Option(metavar="NAME", help="For protocols that have services.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> int:
    """Start a cluster on this machine, let every process send, and measure what all of them deliver.

    Example: ordercast bench --nodes 4 --size 100 --seconds 5 --protocol sequencer
    """
    if overlap and nodes < 3:
        raise UsageError("--overlap needs at least 3 nodes")
    contract = find_protocol(protocol).contract
    one_channel = contract.one_channel
    if service and service not in contract.services:
        raise UsageError(f"{protocol} has no service {service!r}; {nearest(service, contract.services)}")
    load = Load(
        nodes=nodes,
        size=size,
        seconds=seconds,
        protocol=protocol,
        rate=rate,
        api=api.value,
        insecure=insecure,
        log=log,
        max_datagram=max_datagram,
        busy_poll=busy_poll,
        overlap=overlap,
        multicast=multicast,
        one_channel=one_channel,
        options=tuple(option or ()),
        service=service,
        places=_read_places(namespaces, nodes, protocol, one_channel),
    )
    result = measure(load)
    if as_json:
        print(json.dumps(result))
    else:
        _show(result)
    return 0


def _read_places(namespaces: str | None, nodes: int, protocol: str, one_channel: bool) -> tuple[Place, ...] | None:
    if namespaces is None:
        return None
    pairs = [part.partition("=") for part in namespaces.split(",")]
    if len(pairs) != nodes or not all(name and address for name, _, address in pairs):
        raise UsageError(f"--namespaces needs NAME=ADDRESS for each of the {nodes} nodes, separated by commas")
    if one_channel:
        raise UsageError(f"{protocol} needs a hub, which is not in any of the namespaces: leave --namespaces out")
    return tuple(Place(address, name) for name, _, address in pairs)


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
