"""The folder of one process: whose it is, which incarnation runs, and that only one process writes there."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ordercast.core import InstanceId, UsageError
from ordercast.core.agreement import explain_change
from ordercast.core.forks import disown_in_forks
from ordercast.core.memory import Memory
from ordercast.storage import disk
from ordercast.storage.end import LogEnd, read_end
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
    logs: tuple[InstanceId, ...] | None = None
    """The instances whose logs were begun; None where a version wrote this that did not note the ends of logs."""
    lost: bool = False
    """The log that was here is gone, and the others have not given everything back yet."""
    began: int = 0
    """The incarnation with which the log began: later than 0 after a repair."""
    added: dict[str, str] = {}
    """Other processes that were added while this one ran, and where they listen."""

    def write(self, folder: Path) -> None:
        """Put it in the place of the one before."""
        disk.replace_file(folder / IDENTITY, [msgspec.json.format(msgspec.json.encode(self)) + b"\n"])


def ends_folder(folder: Path) -> Path:
    """Where the ends of a process' logs are noted: beside its folder, so that they outlive what happens to that.

    No process has a name that begins like this.
    """
    return folder.with_name(f"_end.{folder.name}")


class LogFolder:
    """The open logs of one process, until `close`."""

    def __init__(self, folder: Path, lock: int, identity: _Identity, retain_bytes: int, segment_bytes: int) -> None:
        self.folder = folder
        self.incarnation = identity.starts - 1
        """0 at the first start with this folder, then one more at each."""
        self.began = identity.began
        """The incarnation with which the log began; what the process did before a repair is not in it."""
        self._identity = identity
        self._lock = lock
        self._retain_bytes = retain_bytes
        self._segment_bytes = segment_bytes
        self._logs: list[FileLog] = []
        disown_in_forks(self)

    @property
    def lost(self) -> bool:
        """Whether the process has to get everything back from the others; its log is empty then."""
        return self._identity.lost

    def settle(self) -> None:
        """The log has all that was lost: from now on it counts like any other."""
        self._change(lost=False)

    @property
    def added(self) -> dict[str, str]:
        """Other processes that were added while this one ran, and where they listen."""
        return self._identity.added

    def keep_added(self, added: dict[str, str]) -> None:
        """Remember them for the next start, which may have an older configuration."""
        self._change(added=added)

    def _change(self, **fields: Any) -> None:
        self._identity = msgspec.structs.replace(self._identity, **fields)
        try:
            self._identity.write(self.folder)
        except OSError as error:
            raise disk.disk_error(self.folder / IDENTITY, error) from error

    def log(self, instance: InstanceId, attachment: Attachment | None = None, memory: Memory | None = None) -> FileLog:
        """Open the log of one protocol instance (see `FileLog`)."""
        folder = self.folder / instance
        try:
            disk.check_folder(folder)
            log = FileLog(
                folder,
                retain_bytes=self._retain_bytes,
                segment_bytes=self._segment_bytes,
                attachment=attachment,
                memory=memory,
                end_path=ends_folder(self.folder) / instance,
                starts=self._identity.starts,
            )
            self._logs.append(log)
            self._list(instance)
        except OSError as error:
            raise _cannot_be_used(folder, error) from error
        return log

    def _list(self, instance: InstanceId) -> None:
        """Remember that there is a log, before it has records: without its end it is refused from now on."""
        logs = self._identity.logs or ()
        if instance not in logs:
            self._identity = msgspec.structs.replace(self._identity, logs=(*logs, instance))
            self._identity.write(self.folder)

    def close(self) -> None:
        """Give the files and the lock back."""
        for log in self._logs:
            log.close()
        self._logs.clear()
        self._close_lock()

    def disown(self) -> None:
        """Let go of everything: this is a fork of the process to which the folder belongs.

        (A child that lives on would keep the lock, and the process could not come back after a crash.)
        """
        self._close_lock()
        for log in self._logs:
            log.disown()

    def _close_lock(self) -> None:
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
        disk.check_folder(folder)
        disk.check_folder(ends_folder(folder))
        lock = _take_lock(folder)
    except OSError as error:
        raise _cannot_be_used(folder, error) from error
    try:
        identity = _read_identity(folder)
        ends = {} if identity is not None and identity.lost else _read_ends(ends_folder(folder))
        if identity is None:
            _refuse_leftovers(folder, ends)
            identity = _Identity(_FORMAT, cluster, process, 0, logs=())
        _check_owner(folder, identity, cluster, process)
        if identity.lost:
            identity = _without_logs(folder, identity)
        _compare(folder, identity, ends)
        if agreed is not None:
            identity = _with_agreed(folder, identity, agreed)
        # Stable before anything is sent: an incarnation that was heard of must never come again.
        identity = msgspec.structs.replace(identity, starts=identity.starts + 1)
        identity.write(folder)
    except OSError as error:
        os.close(lock)
        raise _cannot_be_used(folder, error) from error
    except BaseException:
        os.close(lock)
        raise
    return LogFolder(folder, lock, identity, retain_bytes, segment_bytes)


def begin_anew(folder: Path, cluster: str, process: str, seconds: int) -> Path | None:
    """Put an empty log in the place of one that is lost or damaged; where what was there has gone, None for nothing.

    `seconds` since 1970 are its number of starts: more than anybody can have started a process that counted from 0, so
    that no incarnation comes again. (If one does, because the clock was set back, or because the folder was lost and
    repaired twice in one second, the others refuse the process, as they do whenever an incarnation comes again.)
    """
    try:
        disk.make_folder(folder)
        disk.check_folder(folder)
        disk.check_folder(ends_folder(folder))
        lock = _take_lock(folder)
    except OSError as error:
        raise _cannot_be_used(folder, error) from error
    try:
        starts = max(seconds, _starts_before(folder, cluster, process) + 1)
        aside = _set_aside(folder, starts)
        disk.make_folder(folder)
        _Identity(_FORMAT, cluster, process, starts, logs=(), lost=True).write(folder)
    except OSError as error:
        raise _cannot_be_used(folder, error) from error
    finally:
        os.close(lock)
    return aside


def _starts_before(folder: Path, cluster: str, process: str) -> int:
    """As far as it is known; `UsageError` when the folder is somebody else's."""
    try:
        identity = _read_identity(folder)
    except UsageError:
        return 0  # damaged: that may be why it is repaired
    if identity is None:
        return 0
    _check_owner(folder, identity, cluster, process)
    return identity.starts


def _set_aside(folder: Path, number: int) -> Path | None:
    """Move a process' folders out of the way, where there is something in them."""
    ends = ends_folder(folder)
    if not ends.exists() and {path.name for path in folder.iterdir()} <= {LOCK}:
        return None
    # No process has a name that begins like this.
    aside = folder.with_name(f"_lost.{folder.name}.{number}")
    disk.make_folder(aside)
    for moved in (ends, folder):
        if moved.exists():
            disk.rename(moved, aside / moved.name)
    return aside


def _without_logs(folder: Path, identity: _Identity) -> _Identity:
    """Throw away what an earlier start wrote that had not got everything back: the next begins with an empty log too.

    Nobody relies on it: until then the process has counted for nothing.
    """
    for path in (*folder.glob("*/*"), *ends_folder(folder).glob("*")):
        disk.remove_file(path)
    return msgspec.structs.replace(identity, logs=(), began=identity.starts)


def _check_owner(folder: Path, identity: _Identity, cluster: str, process: str) -> None:
    if (identity.cluster, identity.process) != (cluster, process):
        raise UsageError(
            f"{folder}: belongs to the process {identity.process!r} of the cluster {identity.cluster!r}, not to "
            f"{process!r} of {cluster!r}; give each its own log_directory"
        )


def _take_lock(folder: Path) -> int:
    """Held by the descriptor: the system gives it back when the process ends, however it ends."""
    path = folder / LOCK
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, disk.FILE_MODE)
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
        with disk.open_to_read(path) as file:
            content = file.read()
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


def _read_ends(folder: Path) -> dict[InstanceId, LogEnd]:
    ends = {}
    for path in folder.glob("*"):
        end = None if path.suffix == disk.TEMPORARY_SUFFIX else read_end(path)
        if end is not None:
            ends[path.name] = end
    return ends


def _refuse_leftovers(folder: Path, ends: dict[InstanceId, LogEnd]) -> None:
    """A folder without an identity must be a new one: else incarnations would be counted from 0 again."""
    if any(folder.glob(f"*/*{SUFFIX}")):
        raise UsageError(f"{folder}: has records but no {IDENTITY} that says whose; {WHAT_TO_DO}")
    for instance, end in ends.items():
        raise UsageError(
            f"{folder}: has no {IDENTITY} and no log, but {ends_folder(folder)} says that {instance!r} had "
            f"{end.position} records in {end.starts} starts; {WHAT_TO_DO}"
        )


def _compare(folder: Path, identity: _Identity, ends: dict[InstanceId, LogEnd]) -> None:
    """Refuse a folder that is older than what is noted beside it, or that lost what was noted."""
    for instance in identity.logs or ():
        if instance not in ends:
            raise UsageError(
                f"{ends_folder(folder) / instance}: is missing, and with it where the log of {folder} ends; put it "
                f"back; {WHAT_TO_DO}"
            )
    for end in ends.values():
        if end.starts > identity.starts:
            raise UsageError(
                f"{folder}: was started {identity.starts} times, but {ends_folder(folder)} knows of {end.starts} "
                f"starts: it is an old copy; {WHAT_TO_DO}"
            )


def _cannot_be_used(folder: Path, error: OSError) -> UsageError:
    if error.errno == errno.ELOOP:
        return UsageError(f"{error.filename}: is a link, which a log does not follow; put the file itself there")
    return UsageError(
        f"{folder}: cannot hold the log: {error.strerror or error}; make room, change its permissions, or name another "
        f"log_directory"
    )
