"""States that others gave to a process: kept beside its log, which has only what was delivered since."""

from __future__ import annotations

from contextlib import suppress
from hashlib import blake2b, sha256
from pathlib import Path

from ordercast.storage import disk

FOLDER = "states"
"""Beside the folders of the logs, and thrown away with them."""
DIGEST_BYTES = 32


def write_state(folder: Path, name: str, content: bytes) -> None:
    """Put a state in the place of the one before of that name; `OSError` when the disk does not take it."""
    path = _path(folder, name)
    disk.make_folder(path.parent)
    disk.replace_file(path, [_digest(content), content])


def read_state(folder: Path, name: str) -> bytes | None:
    """The state of that name; None when there is none, or it is damaged."""
    try:
        with disk.open_to_read(_path(folder, name)) as file:
            content = file.read()
    except FileNotFoundError:
        return None
    digest, content = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
    return content if _digest(content) == digest else None


def remove_state(folder: Path, name: str) -> None:
    """Forget the state of that name, where there is one."""
    with suppress(OSError):  # it stays, and somebody who begins anew does not look at it
        disk.remove_file(_path(folder, name))


def _path(folder: Path, name: str) -> Path:
    """A name may have any characters, and a file may not."""
    return folder / FOLDER / sha256(name.encode()).hexdigest()[:32]


def _digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=DIGEST_BYTES).digest()
