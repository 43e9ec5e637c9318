"""The few things that storage asks of a disk; everything that changes a file goes through here.

A name is stable when its folder is synced, a file's bytes when the file is. Tests put a disk that crashes in place of
`os`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from ordercast.core import StorageError, UsageError

TEMPORARY_SUFFIX = ".new"
"""A file of that name was being written when the process ended; it never counted."""

READ_BYTES = 1 << 20

FOLDER_MODE = 0o700
FILE_MODE = 0o600
"""The log holds what the application multicasts: nobody else's business."""


_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW
"""A link in the place of a file could name any file of the process' owner."""


def make_folder(folder: Path) -> None:
    """Make the folder and those above it that are missing, and their names stable."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    try:
        os.mkdir(folder, FOLDER_MODE)
    except FileExistsError:  # another process of this machine was faster, or it is no folder
        if not folder.is_dir():
            raise
    sync_folder(folder.parent)


def check_folder(folder: Path) -> None:
    """`UsageError` when others could have put something there, or can change it; a folder that is missing is none."""
    try:
        found, above = os.lstat(folder), os.lstat(folder.resolve().parent)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode):
        raise UsageError(f"{folder}: is a link or a file; a log is a folder of its own: move it there itself")
    if found.st_uid != os.geteuid():
        raise UsageError(
            f"{folder}: belongs to the user {found.st_uid}, and the process runs as {os.geteuid()}; run it as its "
            f"owner, or name another log_directory"
        )
    if found.st_mode & 0o022:
        raise UsageError(f"{folder}: can be written by others (mode {found.st_mode & 0o777:o}); chmod go-w {folder}")
    if above.st_mode & 0o002 and not above.st_mode & stat.S_ISVTX:
        raise UsageError(f"{folder}: can be replaced by others; chmod o-w {folder.parent}")


def open_to_read(path: Path) -> BinaryIO:
    """The file, from its beginning."""
    return open(path, "rb", buffering=READ_BYTES, opener=lambda name, flags: os.open(name, flags | _FLAGS))


def open_to_append(path: Path) -> int:
    """A descriptor at the end of the file, which is made when it is missing."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _FLAGS, FILE_MODE)


def open_to_change(path: Path) -> int:
    """A descriptor of a file that is there, to write at any place."""
    return os.open(path, os.O_WRONLY | _FLAGS)


def write_at(descriptor: int, data: bytes, offset: int) -> None:
    """Put the bytes, a sector at the most, in the place of others: in one piece, or the disk is broken."""
    if os.pwrite(descriptor, data, offset) != len(data):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write everything: a disk may take less at a time (2 GiB at most on Linux)."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_data(descriptor: int) -> None:
    """Make the file's bytes and its length stable; its times need not be."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(descriptor)
    else:  # macOS
        os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Make the names in the folder stable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | _FLAGS)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, parts: Iterable[bytes]) -> None:
    """Give the file a new content: after a crash at any step, it has the old one or the new one.

    Without the first sync the name could become stable before the bytes (an empty file under the right name); without
    the second, what is deleted next because of the new file could be gone while the old file is back.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FLAGS, FILE_MODE)
    try:
        for part in parts:
            write_all(descriptor, part)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)
    sync_folder(path.parent)


def rename(path: Path, target: Path) -> None:
    """Give a folder another name, in another folder perhaps."""
    os.replace(path, target)
    sync_folder(path.parent)
    sync_folder(target.parent)


def cut_file(path: Path, length: int) -> None:
    """Shorten the file, and make what is left of it stable: a process that crashed may have left it unsynced."""
    descriptor = os.open(path, os.O_WRONLY | _FLAGS)
    try:
        os.ftruncate(descriptor, length)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_file(path: Path) -> None:
    """Remove the file; it does not matter when it is gone already."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def length(descriptor: int) -> int:
    """How many bytes the file has."""
    return os.fstat(descriptor).st_size


def close(descriptor: int) -> None:
    """Give a descriptor back."""
    os.close(descriptor)


def disk_error(path: Path, error: OSError) -> StorageError:
    """What went wrong with the disk, and what to do."""
    reason = error.strerror or str(error)
    return StorageError(
        f"{path}: the log cannot be written: {reason}; the process stops, and nothing was delivered that is not in "
        f"the log: make room or change the disk, then start it again"
    )
