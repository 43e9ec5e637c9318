"""Records what happens at a live process, as JSON lines that the system has before their effects leave.

So the trace of a process that is killed is complete up to the kill: whoever kills it writes its `fail`, and a process
that finds none when it starts again writes it itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from ordercast.core import GroupId, MessageId, Multicast, SiteId, StorageError, UsageError
from ordercast.core.effects import Activate, Deliver, InstallView, Replay, Rollback
from ordercast.trace.interface import Envelope, is_before
from ordercast.trace.schema import REFUSED, Event, Run

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Event).decode

EXPECTED = ".expected"
"""Beside the events: messages that the application has handed over.

(A process logs a message and is killed before it has sent it. The next incarnation finds it in the log and sends it:
from here it knows what to write as `multicast`, which it could not have written before: a crash may also lose it.)
"""

EXPECTED_BYTES_MAX = 1 << 20
"""When the file is larger and nothing is expected, it begins anew."""

_TAIL_BYTES = 1 << 16
"""How much of a trace is read at first to find its last line: several lines."""

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_FOLDER_MODE = 0o700
_FILE_MODE = 0o600
"""As the log has them: who talks to whom is nobody else's business."""


def epoch_clock(monotonic: Callable[[], float] = time.monotonic) -> Callable[[], float]:
    """The monotonic clock, mapped to seconds since 1970 once: it never jumps, and processes can be compared."""
    offset = time.time() - monotonic()
    return lambda: offset + monotonic()


class LiveRecorder:
    """The trace of one process (see `ordercast.trace.interface.SiteTrace`). It goes on where an earlier incarnation of
    the process ended. The times in its rows are its own clock's."""

    def __init__(
        self,
        folder: Path,
        run: Run,
        site: SiteId,
        incarnation: int,
        clock: Callable[[], float],
        lost: bool = False,
        forgets: bool = False,
    ) -> None:
        """`folder` is the cluster's; each process has a folder of its own in it. `lost`: the log of earlier lives is
        gone, and others have to give everything back. `forgets`: there is no log, and what the process had joined it is
        no longer in."""
        self.site = site
        self.incarnation = incarnation
        self._run = run
        self._clock = clock
        self._folder = folder / site
        self._seq = 0
        self._last_time = -inf
        """That of the last row."""
        self._rows: list[bytes] = []
        self._expected: dict[MessageId, dict[str, Any]] = {}
        """What the application has handed over and nobody has heard of yet: the log may have it, or may lose it."""
        self._expected_rows: list[bytes] = []
        self._since_multicast: list[str] = []
        self._delivered_before: dict[str, str | None] = {}
        """What earlier incarnations delivered; needed until this one has recovered."""
        self._in: set[GroupId] = {group for group, members in run.groups.items() if site in members}
        """Groups in which the process is."""
        self._torn = False
        """Whether the disk has refused a line."""
        try:
            self._folder.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
            # Earlier versions let everybody read them.
            self._folder.chmod(_FOLDER_MODE)
            path = self._folder / "events.jsonl"
            last = self._read_earlier(path)
            self._file = _open(path)
            self._expected_file = _open(self._folder / EXPECTED)
            self._write_run()
        except OSError as error:
            raise UsageError(
                f"{self._folder}: cannot hold the trace: {error.strerror or error}; name another trace_directory"
            ) from error
        if last is not None:
            if last.kind != "fail" or (lost and last.reason != REFUSED):
                reason = REFUSED if lost else None
                self._write("fail", time=last.time, incarnation=last.incarnation, reason=reason)
            self._write("awake")
            if forgets:
                self._forget()
        self.flush()

    def _read_earlier(self, path: Path) -> Event | None:
        """Find out where the trace stands, and cut off a line that was torn by a full disk."""
        if not path.exists():
            return None
        last = None
        whole = 0
        multicast: set[str] = set()
        with path.open("rb+") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                try:
                    last = _decode(line)
                except msgspec.DecodeError as error:
                    raise UsageError(
                        f"{path}: is no trace ({error}); move it away, or name another trace_directory"
                    ) from None
                whole += len(line)
                if last.kind == "deliver" and last.message is not None:
                    self._delivered_before[last.message] = last.view
                elif last.kind == "rollback" and last.message is not None:
                    self._delivered_before.pop(last.message, None)
                elif last.kind == "multicast" and last.message is not None:
                    multicast.add(last.message)
                elif last.kind == "leave":
                    self._in.difference_update(last.groups or ())
                elif last.kind == "join":
                    self._in.update(last.groups or ())
            file.truncate(whole)
        self._read_expected(multicast)
        if last is not None:
            self._seq = last.seq + 1
            self._last_time = last.time
        return last

    def _forget(self) -> None:
        """A process without a log comes back as a new one. It is in no group but those of the configuration, and where
        no configuration names any it takes part fully: it has nothing to make up for."""
        for group in sorted(self._in.difference(self._run.groups)):
            self.leave(0.0, group)
        if not self._run.groups:
            self._write("recover")

    def _read_expected(self, multicast: set[str]) -> None:
        path = self._folder / EXPECTED
        if not path.exists():
            return
        for line in path.read_bytes().splitlines():
            try:
                row = msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.DecodeError:
                break  # torn, and so was what it announced
            if row["message"] not in multicast:
                source, incarnation, number = row["message"].rsplit(":", 2)
                self._expected[MessageId(source, int(incarnation), int(number))] = row

    def _write_run(self) -> None:
        content = _encode(self._run) + b"\n"
        temporary = self._folder / "runs.jsonl.new"
        temporary.unlink(missing_ok=True)
        temporary.touch(_FILE_MODE)
        temporary.write_bytes(content)
        temporary.replace(self._folder / "runs.jsonl")

    # ------------------------------------------------------------------ rows
    def _write(self, kind: str, time: float | None = None, incarnation: int | None = None, **rest: Any) -> None:
        self._last_time = self._clock() if time is None else time
        row = Event(
            self._run.run,
            self.site,
            self._seq,
            self._last_time,
            kind,  # type: ignore[arg-type]
            self.incarnation if incarnation is None else incarnation,
            **rest,
        )
        self._seq += 1
        self._rows.append(_encode(row))

    def flush(self) -> None:
        """Hand the rows so far to the system; called before anything that they describe leaves the process.

        `StorageError` when the disk is full: a process of which the trace says nothing more must not go on.
        """
        try:
            if self._expected_rows:
                if (
                    len(self._expected) == len(self._expected_rows)
                    and os.fstat(self._expected_file).st_size > EXPECTED_BYTES_MAX
                ):
                    os.ftruncate(self._expected_file, 0)
                _write_lines(self._expected_file, self._expected_rows)
            if self._rows:
                _write_lines(self._file, self._rows)
        except OSError as error:
            self._torn = True
            raise StorageError(
                f"{self._folder}: cannot hold the trace any longer ({error.strerror or error}): free some space, or "
                f"leave trace_directory out"
            ) from error

    def close(self, settled: bool, refused: bool = False) -> None:
        """The process ends in good order; whether everything had come to rest, and whether it ends because it was told
        that it must not take part."""
        try:
            if self._torn:
                # The next incarnation cuts off what there is of the last line; behind it nothing may follow.
                return
            if refused:
                self._write("fail", reason=REFUSED)
            self.flush()
            self._run.ended_at = self._clock()
            self._run.settled = settled
            self._write_run()
        finally:
            os.close(self._file)
            os.close(self._expected_file)

    # ------------------------------------------------------------------ packets
    def send(self, _time: float, peer: SiteId | None, envelope: Envelope, _number: int | None = None) -> None:
        """A packet leaves."""
        if self._expected and envelope.served:
            for message in envelope.served:
                self._announce(message)
        self._write_packet("send", peer, envelope)

    def receive(self, _time: float, envelope: Envelope, _number: int | None = None, _cost: int = 0) -> None:
        """A packet reaches the protocol."""
        self._write_packet("receive", envelope.sender, envelope)

    def _write_packet(self, kind: str, peer: SiteId | None, envelope: Envelope) -> None:
        served = None if envelope.served is None else [str(message) for message in envelope.served]
        self._write(kind, peer=peer, packet=envelope.name, messages=served, size=envelope.size)

    # ------------------------------------------------------------------ messages
    def expect(self, multicast: Multicast) -> None:
        """The application has handed over a message that is not stable yet."""
        described = self._expected[multicast.id] = self._described(multicast)
        self._expected_rows.append(_encode(described))

    def multicast(self, _time: float, multicast: Multicast, service: str | None = None) -> None:
        """The source multicasts, perhaps through a proxy; recorded before the first send of it."""
        if service is not None and multicast.id in self._expected:
            self._expected[multicast.id]["service"] = service
        self._announce(multicast.id)

    def recall(self, _time: float, multicast: Multicast) -> None:
        """An own message stands in the log after a restart; it is recorded as multicast unless it was."""
        self._announce(multicast.id)

    def _announce(self, message: MessageId) -> None:
        described = self._expected.pop(message, None)
        if described is not None:
            depends, self._since_multicast = self._since_multicast, []
            self._write("multicast", **described, depends=depends)

    def deliver(self, _time: float, effect: Deliver | Replay) -> None:
        """A message goes to the application."""
        message = effect.multicast.id
        self._announce(message)
        self._since_multicast.append(str(message))
        self._write("deliver", **self._described(effect.multicast), **self._details(effect))

    def has_seen(self, message: MessageId, before: str | None = None) -> bool:
        """Whether the message was delivered to the application before, and not taken back; `before` that view."""
        name = str(message)
        return name in self._delivered_before and is_before(self._delivered_before[name], before)

    def replay(self, _time: float, effect: Replay) -> bool:
        """A message from the log goes to the application, again or for the first time after all.

        False in either case: the application does not know it, for it has lost its memory with the process.
        """
        if str(effect.multicast.id) not in self._delivered_before:
            self.deliver(0.0, effect)
        else:
            self._write("replay", **self._described(effect.multicast), **self._details(effect))
        return False

    def rollback(self, _time: float, effect: Rollback) -> None:
        """A delivery is taken back."""
        self._delivered_before.pop(str(effect.multicast.id), None)
        self._write("rollback", **self._described(effect.multicast))

    @staticmethod
    def _described(multicast: Multicast) -> dict[str, Any]:
        message = multicast.id
        return {
            "message": str(message),
            "source": message.source,
            "source_seq": message.source_seq,
            "groups": list(multicast.groups),
            "destinations": None if multicast.destinations is None else list(multicast.destinations),
            "count": multicast.count,
            "size": len(multicast.payload),
        }

    @staticmethod
    def _details(effect: Deliver | Replay) -> dict[str, Any]:
        return {
            "parent": effect.parent,
            "order_key": None if effect.order_key is None else list(effect.order_key),
            "service": effect.service,
            "view": effect.view,
        }

    # ------------------------------------------------------------------ the process and its views
    def declare_failed(self, _time: float, seconds: float) -> None:
        """The process has counted as failed for so many seconds, but not for longer than since its last row; it is
        awake."""
        self._write("fail", time=max(self._clock() - seconds, self._last_time))
        self._write("awake")

    def recover(self, _time: float) -> None:
        """The process takes part fully again."""
        self._write("recover")
        self._delivered_before.clear()

    def view(self, _time: float, effect: InstallView) -> None:
        """A view is installed."""
        self._write(
            "view",
            view=effect.view,
            members=list(effect.members),
            transitional=list(effect.transitional),
            groups=list(effect.groups),
        )

    def join(self, _time: float, group: GroupId, offset: int) -> None:
        """The process delivers what is ordered in a group in which it was not, from this offset on."""
        if group not in self._in:
            self._in.add(group)
            self._write("join", groups=[group], offset=offset)

    def leave(self, _time: float, group: GroupId) -> None:
        """The process is owed nothing more of the group."""
        self._in.discard(group)
        self._write("leave", groups=[group])

    def activate(self, _time: float, effect: Activate) -> None:
        """The process' deliveries have a service from here on."""
        self._write("activate", groups=[effect.group], service=effect.service, source=effect.source)


def _open(path: Path) -> int:
    """A descriptor at the end of a file that only its owner can read."""
    file = os.open(path, _FLAGS, _FILE_MODE)
    os.fchmod(file, _FILE_MODE)
    return file


def _write_lines(file: int, lines: list[bytes]) -> None:
    lines.append(b"")
    data = memoryview(b"\n".join(lines))
    lines.clear()
    while data:
        data = data[os.write(file, data) :]


def record_failure(folder: Path, site: SiteId) -> None:
    """Whoever kills a process says so in its trace. (The process can no longer.)"""
    with (folder / site / "events.jsonl").open("rb+") as file:
        line, end = _last_line(file)
        if not line:
            return
        last = _decode(line)
        row = Event(last.run, site, last.seq + 1, max(last.time, epoch_clock()()), "fail", last.incarnation)
        file.truncate(end)
        file.seek(end)
        file.write(_encode(row) + b"\n")


def _last_line(file: BinaryIO) -> tuple[bytes, int]:
    """The last line that was written as a whole, and where it ends; empty when there is none. Only the end is read: the
    trace of a long run takes longer to read than others may wait."""
    size = file.seek(0, os.SEEK_END)
    length = _TAIL_BYTES
    while True:
        start = max(0, size - length)
        file.seek(start)
        tail = file.read()
        end = tail.rfind(b"\n") + 1
        begin = tail.rfind(b"\n", 0, max(0, end - 1)) + 1
        if begin or not start:
            return tail[begin:end], start + end
        length *= 2


def record_rest(folder: Path, site: SiteId) -> None:
    """Whoever has killed a process for good, and seen the others come to rest, says so in its place."""
    path = folder / site / "runs.jsonl"
    run = msgspec.json.decode(path.read_bytes(), type=Run)
    run.settled = True
    run.ended_at = epoch_clock()()
    path.write_bytes(_encode(run) + b"\n")
