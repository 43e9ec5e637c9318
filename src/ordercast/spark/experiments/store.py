"""The runs of an experiment that are done, on disk: an interrupted one goes on where it was.

A file of JSON lines that is only ever added to. Each line stands for itself, under the key of its run; what a killed
process left half written is not a line, and is made again.
"""

from __future__ import annotations

import fcntl
from pathlib import Path

import msgspec

from ordercast.core import StorageError, UsageError


class Record(msgspec.Struct, frozen=True):
    """One run that is done."""

    key: str
    values: dict[str, float | None]
    seconds: float
    """That it took, on whatever machine it was."""


class Store:
    """The records by key; with no path they are in memory only."""

    def __init__(self, path: Path | None) -> None:
        self.records: dict[str, Record] = {}
        self._file = None
        self._encoder = msgspec.json.Encoder()
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b")
        except OSError as error:
            raise StorageError(f"{path}: {error.strerror}; name another folder") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise UsageError(f"{path}: another process is at work on it; wait, or name another folder") from error
        self._file.seek(0)
        lines = self._file.read()
        decoder = msgspec.json.Decoder(Record)
        for line in lines.splitlines():
            try:
                record = decoder.decode(line)
            except msgspec.MsgspecError:
                continue
            self.records[record.key] = record
        if lines and not lines.endswith(b"\n"):
            self._file.write(b"\n")

    def add(self, records: list[Record]) -> None:
        """Keep these; they are with the operating system before this returns."""
        self.records.update((record.key, record) for record in records)
        if self._file is not None:
            try:
                self._file.write(self._encoder.encode_lines(records))
                self._file.flush()
            except OSError as error:
                raise StorageError(f"{self._file.name}: {error.strerror}; make room and run it again") from error

    def close(self) -> None:
        """Another process may have it."""
        if self._file is not None:
            self._file.close()
