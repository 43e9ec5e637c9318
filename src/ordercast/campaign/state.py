"""What a campaign has done so far, on disk: an interrupted one goes on where it was.

The file's name holds a hash of the source, for an outcome is worth nothing under other code.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from ordercast.campaign.outcome import Outcome
from ordercast.campaign.profile import Profile
from ordercast.core import StorageError
from ordercast.protocols import find_protocol

DEFAULT_FOLDER = Path(".ordercast") / "campaign"

Job = tuple[str, int]
"""Protocol and seed."""


def code_version(protocols: Iterable[str] = ()) -> str:
    """A hash of everything that decides what a seed does: the package's source, that of packages which bring these
    protocols, and the version of Python."""
    digest = hashlib.blake2b(sys.version.encode(), digest_size=8)
    brought = {find_protocol(protocol).__module__.partition(".")[0] for protocol in protocols}
    for package in ("ordercast", *sorted(brought - {"ordercast"})):
        origin = Path(sys.modules[package].__file__ or "")
        folder = origin.parent
        for file in sorted(folder.rglob("*.py")) if origin.name == "__init__.py" else [origin]:
            digest.update(file.relative_to(folder).as_posix().encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def default_path(protocols: Iterable[str], profile: Profile = "usual") -> Path:
    """Where a campaign keeps its outcomes unless it is told where; one of another profile has other runs."""
    return DEFAULT_FOLDER / f"{code_version(protocols)}{'' if profile == 'usual' else f'-{profile}'}.jsonl"


class State:
    """The outcomes of a campaign in the making; with a path of None they are kept in memory only."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._encoder = msgspec.json.Encoder()
        self.outcomes: dict[Job, Outcome] = {}
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._load(path)
                self._file = path.open("ab")
            except OSError as error:
                raise StorageError(f"{path}: {error.strerror}; name another file with --state") from error

    def _load(self, path: Path) -> None:
        if not path.exists():
            return
        decoder = msgspec.json.Decoder(Outcome)
        good = []
        for line in path.read_bytes().splitlines():
            try:
                outcome = decoder.decode(line)
            except msgspec.MsgspecError:
                continue  # what an interruption cut off in the middle
            self.outcomes[outcome.protocol, outcome.seed] = outcome
            good.append(line + b"\n")
        # Beside it and renamed: a kill in the middle must not lose what a campaign of hours has found.
        beside = path.with_name(f".{path.name}.new")
        beside.write_bytes(b"".join(good))
        beside.replace(path)

    def missing(self, jobs: Iterable[Job]) -> list[Job]:
        """What is left to do."""
        return [job for job in jobs if job not in self.outcomes]

    def add(self, outcome: Outcome) -> None:
        """Keep an outcome; it is in the file before this returns."""
        self.outcomes[outcome.protocol, outcome.seed] = outcome
        if self._path is not None:
            self._file.write(self._encoder.encode(outcome) + b"\n")
            self._file.flush()

    def close(self, finished: bool) -> None:
        """The campaign ends; one that is finished leaves no file behind, for the next one begins anew."""
        if self._path is not None:
            self._file.close()
            if finished:
                self._path.unlink(missing_ok=True)
                # Our own folders go as well, as far as they are empty.
                with suppress(OSError):
                    if self._path.parent == DEFAULT_FOLDER:
                        DEFAULT_FOLDER.rmdir()
                        DEFAULT_FOLDER.parent.rmdir()
