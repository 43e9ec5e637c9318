"""The checkpoint of one instance's log: a file of its own, replaced as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec

from ordercast.core import UsageError
from ordercast.storage.disk import open_to_read, replace_file
from ordercast.storage.framing import frame, read_frames
from ordercast.storage.segments import WHAT_TO_DO

NAME = "checkpoint"
_FORMAT = 1
_CHUNK_BYTES = 1 << 24
"""A state or a snapshot may be larger than any record; it lies in frames of that size."""


class _Header(msgspec.Struct, frozen=True):
    format: int
    position: int
    state_bytes: int
    attachment_bytes: int | None
    memory: bytes = b""


class StoredCheckpoint(msgspec.Struct, frozen=True):
    """A state that stands for the records before a position, and what the node keeps with it."""

    position: int
    state: bytes
    attachment: bytes | None
    memory: bytes = b""
    """What was heard of other processes until then; nothing where a version wrote this that did not remember."""

    def write(self, folder: Path) -> None:
        """Put it in the place of the one before."""
        replace_file(folder / NAME, self._parts())

    def _parts(self) -> Iterator[bytes]:
        attachment = self.attachment
        attachment_bytes = None if attachment is None else len(attachment)
        header = _Header(_FORMAT, self.position, len(self.state), attachment_bytes, self.memory)
        for content in (msgspec.msgpack.encode(header), self.state, attachment or b""):
            for start in range(0, len(content), _CHUNK_BYTES):
                yield frame(content[start : start + _CHUNK_BYTES])


def read_checkpoint(folder: Path) -> StoredCheckpoint | None:
    """The checkpoint of a log, None when there is none yet; `UsageError` when it is damaged.

    It was stable before it got its name: no crash can have torn it.
    """
    path = folder / NAME
    try:
        file = open_to_read(path)
    except FileNotFoundError:
        return None
    with file:
        chunks = (body for _, body in read_frames(file))
        try:
            header = msgspec.msgpack.decode(next(chunks, b""), type=_Header)
        except msgspec.DecodeError as error:
            raise UsageError(f"{path}: is damaged at its beginning; {WHAT_TO_DO}") from error
        if header.format != _FORMAT:
            raise UsageError(f"{path}: was written by a newer version of ordercast; install that one")
        state = b"".join(islice(chunks, -(-header.state_bytes // _CHUNK_BYTES)))
        attachment = b"".join(chunks)
    if (len(state), len(attachment)) != (header.state_bytes, header.attachment_bytes or 0):
        raise UsageError(f"{path}: is damaged; {WHAT_TO_DO}")
    return StoredCheckpoint(
        header.position, state, None if header.attachment_bytes is None else attachment, header.memory
    )
