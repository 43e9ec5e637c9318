"""Who is measured: the bare limit, groups through `ordercast bench`, the peers, and the disk.

Every contestant has a `measure()` that returns figures or raises `Absent`, and a key, so that a contestant that
several rows ask for runs once a round.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Protocol

import live_bare
import live_disk
import live_namespaces
from live_figures import Result
from live_peers import Peer, PeerError

NODES = 4
SMALL_DATAGRAM = 1450
# Beyond what is measured: starting, warming up, ending.
PATIENCE_SECONDS = 60.0


class Absent(Exception):
    """Not here, or not working; why, in one line."""


class Contestant(Protocol):
    @property
    def key(self) -> str: ...

    def measure(self, seconds: float) -> Result: ...


@dataclass(frozen=True)
class Bare:
    size: int
    rate: float | None = None
    max_datagram: int = 65000
    segment_offload: bool = False
    multicast: bool = False
    callback: str = "message"
    polling: bool = False

    @property
    def key(self) -> str:
        words = ["bare", f"{self.size} B"]
        words += [f"{self.rate:g}/s"] if self.rate else []
        words += [f"{self.max_datagram}-byte datagrams"] if self.max_datagram != 65000 else []
        words += ["offload"] if self.segment_offload else []
        words += ["multicast"] if self.multicast else []
        words += ["a callback a bundle"] if self.callback == "bundle" else []
        words += ["polling"] if self.polling else []
        return ", ".join(words)

    def measure(self, seconds: float) -> Result:
        with network(self.max_datagram) as namespaces:
            try:
                return live_bare.measure(seconds=seconds, nodes=NODES, namespaces=namespaces, **asdict(self))
            except RuntimeError as error:
                raise Absent(str(error)) from None


@dataclass(frozen=True)
class Group:
    """Some of our own nodes."""

    size: int
    protocol: str = "sequencer"
    api: str = "batches"
    rate: float | None = None
    log: bool = False
    insecure: bool = False
    max_datagram: int = 65000
    busy_poll: int | None = None  # microseconds; None: the default, a fraction of a millisecond
    nodes: int = NODES
    service: str = ""

    @property
    def key(self) -> str:
        words = ["ordercast", self.protocol, self.api, f"{self.size} B"]
        words += [self.service] if self.service else []
        words += [f"{self.nodes} processes"] if self.nodes != NODES else []
        words += [f"{self.rate:g}/s"] if self.rate else []
        words += [f"{self.max_datagram}-byte datagrams"] if self.max_datagram != 65000 else []
        words += ["log"] if self.log else []
        words += ["unsealed"] if self.insecure else []
        words += [f"busy_poll {self.busy_poll}"] if self.busy_poll is not None else []
        return ", ".join(words)

    def command(self, seconds: float, namespaces: list[live_namespaces.Namespace] | None) -> list[str]:
        words = [*ORDERCAST, "bench", "--nodes", str(self.nodes), "--size", str(self.size), "--seconds", str(seconds)]
        words += ["--protocol", self.protocol, "--api", self.api]
        words += ["--service", self.service] if self.service else []
        words += ["--rate", str(self.rate)] if self.rate else []
        words += ["--log"] if self.log else []
        words += ["--insecure"] if self.insecure else []
        words += ["--busy-poll", str(self.busy_poll)] if self.busy_poll is not None else []
        words += ["--max-datagram", str(self.max_datagram)] if self.max_datagram != 65000 else []
        if namespaces:
            words += ["--namespaces", ",".join(f"{each.name}={each.address}" for each in namespaces)]
        return [*words, "--json"]

    def measure(self, seconds: float) -> Result:
        with network(self.max_datagram) as namespaces:
            return run_json(self.command(seconds, namespaces), seconds)


@dataclass(frozen=True)
class PeerGroup:
    peer: Peer
    size: int
    rate: float | None = None

    @property
    def key(self) -> str:
        return ", ".join([self.peer.name, f"{self.size} B"] + ([f"{self.rate:g}/s"] if self.rate else []))

    def measure(self, seconds: float) -> Result:
        try:
            return self.peer.measure(self.size, seconds, self.rate, NODES)
        except PeerError as error:
            raise Absent(str(error)) from None


@dataclass(frozen=True)
class Disk:
    """What the disk takes when as many processes as there are nodes append and sync."""

    chunk_bytes: int
    folder: Path = field(default_factory=live_disk.log_folder)

    @property
    def key(self) -> str:
        return f"disk, synced every {self.chunk_bytes // 1000} kB"

    def measure(self, seconds: float) -> Result:
        return live_disk.measure(self.folder, self.chunk_bytes, seconds, NODES)


# --- Where datagrams go -----------------------------------------------------------------------------------------


@cache
def why_not_between_namespaces() -> str | None:
    """Datagrams of an Ethernet frame's size go between network namespaces, where that is possible for both sides."""
    words = subprocess.run([*ORDERCAST, "bench", "--help"], capture_output=True, text=True).stdout
    if "--namespaces" not in words:
        return "`ordercast bench` has no --namespaces"
    return live_namespaces.obstacle()


@contextmanager
def network(max_datagram: int) -> Iterator[list[live_namespaces.Namespace] | None]:
    """Where the members live: None is the loopback interface."""
    if max_datagram == SMALL_DATAGRAM and why_not_between_namespaces() is None:
        with live_namespaces.joined(NODES) as namespaces:
            yield namespaces
    else:
        yield None


def where_small_datagrams_go() -> str:
    why_not = why_not_between_namespaces()
    where = "between network namespaces on a bridge" if why_not is None else f"over the loopback interface ({why_not})"
    return f"{SMALL_DATAGRAM}-byte datagrams go {where}"


# --- The command ------------------------------------------------------------------------------------------------

ORDERCAST = [str(Path(sys.executable).parent / "ordercast")]


def run_json(command: list[str], seconds: float) -> Result:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        raise Absent(f"no result after {seconds + PATIENCE_SECONDS:.0f} seconds") from None
    if done.returncode:
        lines = done.stderr.strip(" \n╰─╯│").splitlines() or [f"exit code {done.returncode}"]
        raise Absent(lines[-1].strip(" │"))
    try:
        result: Result = json.loads(done.stdout)
    except ValueError:
        raise Absent("no JSON came out of it") from None
    return result
