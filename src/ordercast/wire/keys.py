"""The cluster key: 32 bytes that every process of a cluster has, and nobody else."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
from pathlib import Path

from ordercast.core import UsageError

KEY_BYTES = 32

KEYS_MAX = 2
"""One in use, and one more while a key is rotated: the next one, then the last one."""

FILE_BYTES_MAX = 1024
"""Far more than two lines of 44 characters; not a file that somebody named by mistake."""


class ClusterKeys:
    """The key to seal with, and those to open with. It never shows them."""

    __slots__ = ("accepted", "used")

    def __init__(self, used: bytes, also_accepted: bytes | None = None) -> None:
        self.used = used
        self.accepted: tuple[bytes, ...] = (used,) if also_accepted is None else (used, also_accepted)
        for key in self.accepted:
            if len(key) != KEY_BYTES:
                raise UsageError(
                    f"a cluster key has {KEY_BYTES} bytes, not {len(key)}: make one with `ordercast key new`"
                )

    def __repr__(self) -> str:
        return f"ClusterKeys({', '.join(map(fingerprint, self.accepted))})"


def new_key() -> bytes:
    """A key that nobody can guess."""
    return secrets.token_bytes(KEY_BYTES)


def fingerprint(key: bytes) -> str:
    """Tells keys apart without giving them away: 128 bits of a hash, since a key has 256 random ones."""
    return hashlib.blake2b(key, digest_size=16, person=b"ordercast key").hexdigest()


def key_text(key: bytes) -> str:
    """A key as a line of a key file."""
    return base64.b64encode(key).decode() + "\n"


def create_key_file(path: Path) -> bytes:
    """Write a new key where there is no file yet, for its owner's eyes only; the key."""
    key = new_key()
    try:
        # The mode is there from the first moment, and an existing file (or a link to one) is never opened.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(f"{path} exists: name another file, or remove it if no process uses it any more") from None
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror}): name a file in a folder of yours") from None
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(key_text(key))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        # Half a key would be refused wherever it is read, and would stand in the way of the next attempt.
        path.unlink(missing_ok=True)
        raise UsageError(f"cannot write {path} ({error.strerror}): make room, then try again") from None
    return key


def read_keys(path: Path) -> ClusterKeys:
    """The keys of a file: its first line is used, a second line is accepted as well."""
    lines = _read_private(path).split()
    if not lines:
        raise UsageError(f"{path} holds no key: make one with `ordercast key new FILE`")
    if len(lines) > KEYS_MAX:
        raise UsageError(f"{path} holds {len(lines)} keys: keep the one in use, and one more while you rotate")
    keys = [_parse(line, path) for line in lines]
    if len(keys) == KEYS_MAX and keys[0] == keys[1]:
        raise UsageError(f"{path} holds the same key twice: remove the second line")
    return ClusterKeys(*keys)


def _read_private(path: Path) -> bytes:
    """The contents of a file that nobody but its owner can read."""
    try:
        with path.open("rb") as file:
            # Of the open file: the path could name another one by now.
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid():
                raise UsageError(
                    f"{path} belongs to another user ({status.st_uid}), who can read and change it: "
                    f"chown {os.geteuid()} {path}, or run the process as its owner"
                )
            mode = status.st_mode
            if mode & 0o077:
                raise UsageError(f"{path} can be read or written by others (mode {mode & 0o777:o}): chmod 600 {path}")
            content = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise UsageError(f"there is no key file {path}: make one with `ordercast key new {path}`") from None
    except OSError as error:
        raise UsageError(f"cannot read the key file {path} ({error.strerror}): correct key_file") from None
    if len(content) > FILE_BYTES_MAX:
        raise UsageError(f"{path} is too long for a key file: correct key_file, or see `ordercast key new --help`")
    return content


def _parse(line: bytes, path: Path) -> bytes:
    try:
        key = base64.b64decode(line, validate=True)
    except binascii.Error:
        raise UsageError(f"{path} is no key file (not base64): make one with `ordercast key new FILE`") from None
    if len(key) != KEY_BYTES:
        raise UsageError(
            f"{path} holds a key of {len(key)} bytes, not {KEY_BYTES}: make one with `ordercast key new FILE`"
        )
    return key
