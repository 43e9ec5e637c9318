"""A disk that crashes at any step and then shows what a real one may: synced bytes and names, and some of the rest.

It stands in the place of `os` in `ordercast.storage.disk` and works on real files.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any


class FastDisk:
    """A disk that does not wait: for tests in which no machine loses its power."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, descriptor: int) -> None:
        """Nothing."""

    fdatasync = fsync


class Crash(BaseException):
    """The machine stops here. Not an `Exception`: nothing may catch it and go on."""


class CrashingDisk:
    """Counts the steps that change something; crashes before step `crash_at`."""

    def __init__(self, crash_at: int | None = None) -> None:
        self.steps = 0
        self._crash_at = crash_at
        self._open: dict[int, Path] = {}
        self._stable: dict[Path, bytes] = {}
        """What each file that was touched holds for sure; nothing for one that was never synced."""
        self._undo: dict[Path, list[Callable[[], None]]] = {}
        """Folder -> how to take back the changes of names in it that are not synced."""

    def __getattr__(self, name: str) -> Any:
        if name not in ("fstat", "lstat", "fspath", "geteuid") and not name.startswith("O_"):
            raise AttributeError(f"the crashing disk has no {name}")
        return getattr(os, name)

    def _step(self) -> None:
        if self.steps == self._crash_at:
            raise Crash
        self.steps += 1

    # ------------------------------------------------------------------ as os has them
    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        path = Path(path)
        if flags & os.O_CREAT and not path.exists():
            self._step()
            self._stable[path] = b""
            self._undo.setdefault(path.parent, []).append(lambda: path.unlink(missing_ok=True))
        elif path.is_file():
            self._stable.setdefault(path, path.read_bytes())
        descriptor = os.open(path, flags, mode)
        # Who only reads gives the file back to the system itself.
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_DIRECTORY):
            self._open[descriptor] = path
        return descriptor

    def close(self, descriptor: int) -> None:
        self._open.pop(descriptor)
        os.close(descriptor)

    def write(self, descriptor: int, data: bytes) -> int:
        # A small disk: everything takes two writes, so that a crash finds half of it there.
        self._step()
        return os.write(descriptor, data[: len(data) // 2 + 1])

    def pwrite(self, descriptor: int, data: bytes, offset: int) -> int:
        self._step()
        return os.pwrite(descriptor, data, offset)

    def fdatasync(self, descriptor: int) -> None:
        self._step()
        path = self._open[descriptor]
        if path.is_dir():
            self._undo.pop(path, None)
        else:
            self._stable[path] = path.read_bytes()

    fsync = fdatasync

    def ftruncate(self, descriptor: int, length: int) -> None:
        self._step()
        os.ftruncate(descriptor, length)

    def mkdir(self, path: Path, mode: int) -> None:
        self._step()
        os.mkdir(path, mode)

    def replace(self, source: Path, target: Path) -> None:
        self._step()
        before = self._stable.get(target, target.read_bytes() if target.exists() else None)
        content = self._stable.pop(source)

        def undo() -> None:
            source.write_bytes(content)
            if before is None:
                target.unlink()
            else:
                target.write_bytes(before)

        os.replace(source, target)
        self._stable[target] = content
        self._undo.setdefault(target.parent, []).append(undo)

    def unlink(self, path: Path) -> None:
        content = self._stable.get(path, path.read_bytes())
        self._step()
        os.unlink(path)
        self._stable.pop(path, None)

        def undo() -> None:
            path.write_bytes(content)

        self._undo.setdefault(path.parent, []).append(undo)

    # ------------------------------------------------------------------ after the crash
    def restart_process(self) -> None:
        """Only the process was killed: the machine still has in memory what is not on the disk."""
        self._crash_at = None
        for descriptor in list(self._open):
            self.close(descriptor)

    def lose(self, random: Random) -> None:
        """Lose what was not synced, or a part of it, or turn it into garbage."""
        for descriptor in list(self._open):
            self.close(descriptor)
        for path, stable in self._stable.items():
            if path.exists():
                path.write_bytes(_after_crash(stable, path.read_bytes(), random))
        for changes in self._undo.values():
            for undo in reversed(changes):
                if random.random() < 0.5:
                    undo()


def _after_crash(stable: bytes, written: bytes, random: Random) -> bytes:
    if not written.startswith(stable):
        # Cut, or begun anew, and not synced.
        return random.choice((stable, written))
    if written == stable:
        return stable
    tail = bytearray(written[len(stable) :])
    kind = random.choice(("kept", "cut", "zeros", "garbage", "scribbled"))
    if kind == "cut":
        del tail[random.randint(0, len(tail)) :]
    elif kind == "zeros":
        zeros = random.randint(0, len(tail))
        tail[len(tail) - zeros :] = bytes(zeros)
    elif kind == "garbage":
        tail[:] = random.randbytes(len(tail))
    elif kind == "scribbled" and tail:
        at = random.randrange(len(tail))
        tail[at : at + 8] = random.randbytes(min(8, len(tail) - at))
    return stable + bytes(tail)
