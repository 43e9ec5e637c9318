"""The bare limit: what this machine's sockets and interpreter allow, to hold a group's speed against.

    python benchmarks/live_bare.py [--size 100] [--seconds 3] [--callback message|bundle] [--rate 500]
                                   [--max-datagram 65000|1450] [--segment-offload] [--multicast] [--namespaces]
                                   [--polling] [--json]

Four processes, all sending, a fixed sequencer, bundles; no sealing, no loss recovery, no interface for applications.
Every message is appended by its sender, encoded in its bundle, decoded at every member and handed to a callback
there. What is counted is messages delivered at every member; the slowest member counts. With --rate, that many
messages a second are sent in all, each at once, and what counts is how long they take: to their senders (a round
through the sequencer) and to others.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import time
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any

import live_namespaces
from live_bare_member import STAMP, WINDOW_BYTES, Member, Settings, Stopwatch
from live_figures import Result, group_figures
from live_machine import OtherWork

try:
    from uvloop import new_event_loop

    LOOP = "uvloop"
except ModuleNotFoundError:
    from asyncio import new_event_loop  # type: ignore[assignment]

    LOOP = "asyncio"

WARM_UP_SECONDS = 0.5
SETTLE_SECONDS = 0.5
JOIN_SECONDS = 2.0
MULTICAST_GROUP = "239.255.77.1"


# --- A member's process -----------------------------------------------------------------------------------------


def keep_freed_memory() -> None:
    """Let the C library keep what is freed for the next bundle, or it gives it back and takes page faults at once.

    glibc learns from a large block that is freed: from then on it keeps twice as much at the top of its heap.
    """
    bytes(31 << 20)  # 32 MB is the most it learns from; never touched, so that it costs nothing


def run_member(index: int, settings: Settings, namespace: str | None, connection: Connection) -> None:
    if namespace is not None:
        live_namespaces.enter(namespace)
    keep_freed_memory()
    member = Member(index, settings)
    loop = new_event_loop()
    connection.send("ready")
    connection.recv()
    marks: list[tuple[float, int, float]] = []

    def mark() -> None:
        marks.append((time.perf_counter(), member.counter.messages, time.process_time()))

    def start() -> None:
        if settings.rate:
            first = loop.time() + index / settings.rate
            loop.call_at(first, send_one, first, member.members / settings.rate)
        elif member.is_sequencer:
            member.sending = True
            member.take_turn()
        else:
            member.sending = True
            member.fill_window()

    def send_one(due: float, interval: float) -> None:
        member.send_train([[STAMP.pack(time.perf_counter_ns(), index) + member.messages[0][STAMP.size :]]])
        if len(marks) < 2:
            loop.call_at(due + interval, send_one, due + interval, interval)

    def stop() -> None:
        mark()
        member.sending = False

    def poll() -> None:
        os.sched_yield()
        loop.call_soon(poll)

    if settings.polling:
        loop.call_soon(poll)
    loop.add_reader(member.receiving, member.on_readable)
    loop.call_soon(start)
    loop.call_later(WARM_UP_SECONDS, mark)
    loop.call_later(WARM_UP_SECONDS + settings.seconds, stop)
    loop.call_later(WARM_UP_SECONDS + settings.seconds + SETTLE_SECONDS, loop.stop)
    # Nothing here is cyclic; a collection in the midst would only add to the latency.
    gc.collect()
    gc.freeze()
    gc.disable()
    loop.run_forever()
    (began, before, used_before), (ended, after, used_after) = marks
    report = {
        "messages_per_second": (after - before) / (ended - began),
        "cores": (used_after - used_before) / (ended - began),
        "sent": member.sent_messages,
        "delivered": member.counter.messages,
        "nanoseconds": member.counter.nanoseconds if isinstance(member.counter, Stopwatch) else [],
    }
    connection.send(report)


# --- All of them ------------------------------------------------------------------------------------------------


def measure(
    size: int,
    seconds: float,
    *,
    nodes: int = 4,
    namespaces: list[live_namespaces.Namespace] | None = None,
    multicast: bool = False,
    **options: Any,
) -> Result:
    """The options are those of `Settings`."""
    # Not above: the members' processes read this file too, and are to have nothing of a group's in memory.
    from ordercast.net.ports import free_ports

    ports = free_ports(nodes + 1)
    hosts = [each.address for each in namespaces] if namespaces else ["127.0.0.1"] * nodes
    settings = Settings(
        addresses=list(zip(hosts, ports, strict=False)),
        multicast=(MULTICAST_GROUP, ports[-1]) if multicast else None,
        size=size,
        seconds=seconds,
        **options,
    )
    # Started one by one like a group's: processes that are forked from one have the same memory layout, and what the
    # processor has learned of its branches in one of them serves the next (a quarter less latency).
    context = multiprocessing.get_context("spawn")
    connections, processes = [], []
    for index in range(nodes):
        ours, theirs = context.Pipe()
        name = namespaces[index].name if namespaces else None
        process = context.Process(target=run_member, args=(index, settings, name, theirs), daemon=True)
        process.start()
        theirs.close()
        connections.append(ours)
        processes.append(process)
    try:
        for each in connections:
            each.recv()
        for each in connections:
            each.send("go")
        reports = [each.recv() for each in connections]
    except (EOFError, BrokenPipeError):
        raise RuntimeError("a member of the bare limit ended early; its last words are above") from None
    finally:
        for process in processes:
            process.join(JOIN_SECONDS)
            process.kill()
    return group_figures(reports) | {"loop": LOOP}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rate", type=float)
    parser.add_argument("--max-datagram", type=int, default=65000)
    parser.add_argument("--segment-offload", action="store_true")
    parser.add_argument("--multicast", action="store_true")
    parser.add_argument("--namespaces", action="store_true")
    parser.add_argument("--callback", choices=["message", "bundle"], default="message")
    parser.add_argument("--polling", action="store_true", help="never sleep")
    parser.add_argument("--window-bytes", type=int, default=WINDOW_BYTES)
    parser.add_argument("--json", action="store_true")
    arguments = vars(parser.parse_args())
    as_json, between = arguments.pop("json"), arguments.pop("namespaces")
    with ExitStack() as stack:
        if between:
            arguments["namespaces"] = stack.enter_context(live_namespaces.joined(arguments["nodes"]))
        with OtherWork() as other:
            result = measure(**arguments)
        result["other_cores"] = round(other.cores, 2)
    if as_json:
        print(json.dumps(result))
    else:
        print(result)


if __name__ == "__main__":
    main()
