"""The figures of a node for machines: OpenMetrics, and health, by HTTP.

They are made of `Node.status()` when somebody asks; nothing is counted for them while nobody does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from ordercast.core import UsageError
from ordercast.core.forks import disown_in_forks
from ordercast.node.addresses import HostPort, show_address
from ordercast.node.control import stop_listening

REQUEST_BYTES_MAX = 8192
REQUEST_SECONDS = 5.0
"""For a request and its answer; then the connection is closed."""

CONNECTIONS_MAX = 32
"""At a time: one scraper, or a few, and somebody who looks."""

OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class _Metric:
    """One name, its kind, and what it says for each of its labels."""

    def __init__(self, name: str, kind: str, about: str) -> None:
        self._name = f"ordercast_{name}"
        self._kind = kind
        self._about = about

    def lines(self, values: Mapping[str, float] | float, label: str, constant: str) -> Iterator[str]:
        """As they are written; `label` names the keys of the values."""
        yield f"# TYPE {self._name} {self._kind}"
        yield f"# HELP {self._name} {self._about}"
        suffix = "_total" if self._kind == "counter" else ""
        for key, value in values.items() if isinstance(values, Mapping) else [("", values)]:
            own = f',{label}="{_escape(key)}"' if label else ""
            yield f"{self._name}{suffix}{{{constant}{own}}} {value}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def render(status: Mapping[str, Any]) -> str:
    """What `Node.status()` says, as OpenMetrics."""
    clients = status["clients"] or {"connected": 0, "cut": {}}
    members = {group: len(about["members"]) for group, about in status["groups"].items()}
    transfers, sending = status["transfers"], status["sending"]
    log = status["log"] or {"bytes": 0, "sync_seconds": 0.0}
    up = {site: float(about["state"] == "up") for site, about in status["members"].items()}
    rows: list[tuple[_Metric, Mapping[str, float] | float, str]] = [
        (_Metric("up_seconds", "gauge", "Since the process was opened."), status["up_seconds"], ""),
        (_Metric("incarnation", "gauge", "Starts of the process before this one."), status["incarnation"], ""),
        (_Metric("memory_bytes", "gauge", "The most memory that it had."), status["memory_bytes"], ""),
        (_Metric("log_bytes", "gauge", "Of the log, on the disk."), log["bytes"], ""),
        (_Metric("log_sync_seconds", "gauge", "What a commit of the log takes, lately."), log["sync_seconds"], ""),
        (_Metric("credit", "gauge", "Bundles that it may send now."), _known(sending["credit"]), ""),
        (_Metric("sending_bytes", "gauge", "Messages that have not left."), sending["waiting_bytes"], ""),
        (
            _Metric("round_trip_seconds", "gauge", "Until a bundle of it is taken by everybody, lately."),
            _known(sending["round_trip_seconds"]),
            "",
        ),
        (_Metric("member_up", "gauge", "0 for a process that is suspected or gone."), up, "member"),
        (_Metric("retransmissions", "counter", "Sent or asked for once more."), status["retransmissions"], "cause"),
        (_Metric("blocked", "gauge", "1 while a group cannot go on."), float(status["blocked"] is not None), ""),
        (_Metric("idle", "gauge", "1 while everything that was sent is accepted."), float(status["idle"]), ""),
        (_Metric("peers", "gauge", "Processes that this one talks with."), len(status["peers"]), ""),
        (_Metric("refused_peers", "gauge", "Processes that it refuses."), len(status["refused"]), ""),
        (_Metric("transfers", "gauge", "States that are given or fetched."), len(transfers), ""),
        (_Metric("clients", "gauge", "Clients that are connected."), clients["connected"], ""),
        (_Metric("clients_cut", "counter", "Clients that were sent away."), clients["cut"], "why"),
        (_Metric("delivered", "counter", "The offset of the next delivery."), status["offsets"], "group"),
        (
            _Metric("waiting_bytes", "gauge", "Deliveries that were not taken yet."),
            status["waiting"],
            "group",
        ),
        (_Metric("members", "gauge", "Members of a group, as this process knows them."), members, "group"),
        (_Metric("dropped", "counter", "What was not taken, and why."), status["dropped"], "why"),
        (_Metric("branches", "counter", "What the protocol has done."), status["branches"], "branch"),
    ]
    constant = f'cluster="{_escape(status["cluster"])}",process="{_escape(status["process"])}"'
    lines = [line for metric, values, label in rows for line in metric.lines(values, label, constant)]
    return "\n".join([*lines, "# EOF", ""])


def _known(value: float | None) -> float:
    return float("nan") if value is None else value


def health(status: Mapping[str, Any], failure: str) -> tuple[int, dict[str, Any]]:
    """200 while the process goes on, 503 while it does not."""
    why = failure or status["blocked"]
    return (503 if why else 200), {"process": status["process"], "healthy": not why, "why": why or None}


class MetricsServer:
    """Answers `GET /metrics` and `GET /health`, to whoever reaches its address."""

    def __init__(self, where: HostPort, status: Callable[[], Mapping[str, Any]], failure: Callable[[], str]) -> None:
        self._where = where
        self._status = status
        self._failure = failure
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        disown_in_forks(self)

    async def start(self) -> None:
        """Begin to listen; `UsageError` when that cannot be."""
        try:
            self._server = await asyncio.start_server(self._serve, *self._where, limit=REQUEST_BYTES_MAX)
        except OSError as error:
            reason = error.strerror or str(error)
            raise UsageError(
                f"cannot show figures on {show_address(self._where)} ({reason}): correct [metrics]"
            ) from None

    def disown(self) -> None:
        """A fork of the process does not listen."""
        stop_listening(self._server)

    def stop(self) -> None:
        """Answer nobody any more."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            if len(self._tasks) <= CONNECTIONS_MAX:
                async with asyncio.timeout(REQUEST_SECONDS):
                    request = await reader.readuntil(b"\r\n\r\n")
                    writer.write(self._answer(request.split(b"\r\n", 1)[0].decode("ascii", "replace").split()))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            with suppress(OSError):
                writer.close()

    def _answer(self, words: list[str]) -> bytes:
        method, path = (words[0], words[1].partition("?")[0]) if len(words) == 3 else ("", "")
        kind, status = "text/plain; charset=utf-8", 200
        if method not in ("GET", "HEAD"):
            status, text = 405, "ask with GET\n"
        elif path == "/metrics":
            kind, text = OPEN_METRICS, render(self._status())
        elif path == "/health":
            status, answer = health(self._status(), self._failure())
            kind, text = "application/json", json.dumps(answer) + "\n"
        else:
            status, text = 404, "there is /metrics and /health\n"
        body = text.encode()
        head = f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}"
        return f"{head}\r\nConnection: close\r\n\r\n".encode() + (b"" if method == "HEAD" else body)


_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}
