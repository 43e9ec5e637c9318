"""The folder of one process: whose it is, which incarnation runs, and that only one process writes there."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ordercast.core import InstanceId, UsageError
from ordercast.core.agreement import explain_change
from ordercast.storage import disk
from ordercast.storage.file import RETAIN_BYTES, SEGMENT_BYTES, Attachment, FileLog
from ordercast.storage.segments import SUFFIX, WHAT_TO_DO

IDENTITY = "identity.json"
LOCK = "lock"
_FORMAT = 1


class _Identity(msgspec.Struct, frozen=True):
    format: int
    cluster: str
    process: str
    starts: int
    """How many times the process was started with this folder."""
    agreed: dict[str, Any] | None = None
    """With what the records were written (see `ordercast.core.agreement`); None: by a version that did not say."""


class LogFolder:
    """The open logs of one process, until `close`."""

    def __init__(self, folder: Path, lock: int, incarnation: int, retain_bytes: int, segment_bytes: int) -> None:
        self.folder = folder
        self.incarnation = incarnation
        """0 at the first start with this folder, then one more at each."""
        self._lock = lock
        self._retain_bytes = retain_bytes
        self._segment_bytes = segment_bytes
        self._logs: list[FileLog] = []

    def log(self, instance: InstanceId, attachment: Attachment | None = None) -> FileLog:
        """Open the log of one protocol instance (see `FileLog`)."""
        folder = self.folder / instance
        try:
            log = FileLog(
                folder, retain_bytes=self._retain_bytes, segment_bytes=self._segment_bytes, attachment=attachment
            )
        except OSError as error:
            raise _cannot_be_used(folder, error) from error
        self._logs.append(log)
        return log

    def close(self) -> None:
        """Give the files and the lock back."""
        for log in self._logs:
            log.close()
        self._logs.clear()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def open_log(
    folder: Path,
    cluster: str,
    process: str,
    *,
    retain_bytes: int = RETAIN_BYTES,
    segment_bytes: int = SEGMENT_BYTES,
    agreed: Mapping[str, Any] | None = None,
) -> LogFolder:
    """Open the folder of a process for a new incarnation of it; `UsageError` when it is not for this one to use, or was
    written with another configuration than the one that is `agreed` on."""
    try:
        disk.make_folder(folder)
        lock = _take_lock(folder)
    except OSError as error:
        raise _cannot_be_used(folder, error) from error
    try:
        identity = _read_identity(folder)
        if identity is None:
            if any(folder.glob(f"*/*{SUFFIX}")):
                raise UsageError(f"{folder}: has records but no {IDENTITY} that says whose; {WHAT_TO_DO}")
            identity = _Identity(_FORMAT, cluster, process, 0)
        elif (identity.cluster, identity.process) != (cluster, process):
            raise UsageError(
                f"{folder}: belongs to the process {identity.process!r} of the cluster {identity.cluster!r}, not to "
                f"{process!r} of {cluster!r}; give each its own log_directory"
            )
        if agreed is not None:
            identity = _with_agreed(folder, identity, agreed)
        # Stable before anything is sent: an incarnation that was heard of must never come again.
        counted = msgspec.structs.replace(identity, starts=identity.starts + 1)
        disk.replace_file(folder / IDENTITY, [msgspec.json.format(msgspec.json.encode(counted)) + b"\n"])
    except OSError as error:
        os.close(lock)
        raise _cannot_be_used(folder, error) from error
    except BaseException:
        os.close(lock)
        raise
    return LogFolder(folder, lock, identity.starts, retain_bytes, segment_bytes)


def _take_lock(folder: Path) -> int:
    """Held by the descriptor: the system gives it back when the process ends, however it ends."""
    path = folder / LOCK
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, disk.FILE_MODE)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(lock, 32, 0).decode("ascii", "replace").strip()
        os.close(lock)
        raise UsageError(
            f"{folder}: is in use by another process{f' ({holder})' if holder else ''}; stop that one first, or give "
            f"this one a log_directory of its own"
        ) from error
    except OSError:
        os.close(lock)
        raise
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"pid {os.getpid()}\n".encode("ascii"), 0)
    return lock


def _read_identity(folder: Path) -> _Identity | None:
    path = folder / IDENTITY
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        identity = msgspec.json.decode(content, type=_Identity)
    except msgspec.DecodeError as error:
        raise UsageError(f"{path}: is damaged; {WHAT_TO_DO}") from error
    if identity.format != _FORMAT:
        raise UsageError(f"{path}: was written by a newer version of ordercast; install that one")
    return identity


def _with_agreed(folder: Path, identity: _Identity, agreed: Mapping[str, Any]) -> _Identity:
    """The records name processes and groups, and mean what the protocol and its options make of them."""
    change = None if identity.agreed is None else explain_change(identity.agreed, agreed)
    if change is not None:
        raise UsageError(
            f"{folder}: was written with another configuration: {change}; go back to what it was then, or stop all "
            f"processes and begin anew with another log_directory"
        )
    return msgspec.structs.replace(identity, agreed=dict(agreed))


def _cannot_be_used(folder: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{folder}: cannot hold the log: {error.strerror or error}; make room, change its permissions, or name another "
        f"log_directory"
    )
