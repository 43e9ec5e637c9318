"""What a node keeps on its disk: the protocol's log, and where the application stood."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ordercast.core import MAIN_INSTANCE, GroupId, MessageId, SiteId, StorageError, UsageError
from ordercast.core.memory import Memory
from ordercast.net.site import LiveSite
from ordercast.node.addresses import HostPort, show_address, split_address
from ordercast.node.bundles import Piece
from ordercast.node.configuration import Configuration
from ordercast.node.deliveries import Batch
from ordercast.node.keys import KeysAt
from ordercast.node.surroundings import first_incarnation
from ordercast.runtime import Instance
from ordercast.storage.commit import GroupCommit
from ordercast.storage.file import FileLog
from ordercast.storage.folder import LogFolder, open_log
from ordercast.storage.states import read_state, remove_state, write_state
from ordercast.storage.volatile import VolatileLog

logger = logging.getLogger("ordercast.node")


class Untaken(msgspec.Struct, frozen=True, array_like=True):
    """A batch that was delivered and that the application had not finished with."""

    inbox: GroupId
    bundle: MessageId
    groups: tuple[GroupId, ...]
    count: int
    offset: int
    packed: bytes
    whole: bool
    """Whether it is one large message and not a bundle."""
    view: str = ""
    """Like the next: logs of earlier versions do not have it."""
    ordinal: int = 0
    places: tuple[int, ...] | None = None
    """Which messages of the bundle there are; None: all."""
    held: bool = False
    """Whether that is not known before others have told which keys were used."""

    def batch(self, counters: Counter[str]) -> Batch:
        """As the application gets it."""
        unpacked = [self.packed] if self.whole else None
        return Batch(
            self.bundle,
            self.groups,
            self.count,
            self.offset,
            self.packed,
            unpacked,
            self.ordinal,
            lambda: None,
            counters,
            self.view,
            self.places,
            replayed=True,
        )


class Attachment(msgspec.Struct, frozen=True):
    """Where the application stood when the log was last cut short."""

    offsets: dict[GroupId, int] = {}
    """The offset of each group's next delivery."""
    untaken: list[Untaken] = []
    snapshot: bytes | None = None
    """What the application itself wanted kept."""
    named: dict[str, bytes] = {}
    """The same, for those who share the process with others and have a name."""
    pieces: list[Piece] = []
    """Of large messages of which others had not come."""
    keys: dict[GroupId, KeysAt] = {}
    """Those that were used in each group."""
    lacking: list[GroupId] = []
    """Groups whose keys others have to tell."""


class Journal:
    """The log of one process, or none."""

    def __init__(
        self,
        configuration: Configuration,
        process: SiteId,
        loop: asyncio.AbstractEventLoop,
        attachment: Callable[[], Attachment],
        on_error: Callable[[Exception], None],
    ) -> None:
        self.incarnation = 0
        self.began = 0
        """The incarnation with which the log began."""
        self.lost = False
        """Whether the log is gone, and the others are to give everything back."""
        self.memory = Memory()
        """What was heard of the others' logs: durable with this one."""
        self.attachment = Attachment()
        self.log: FileLog | VolatileLog
        self.site: LiveSite | None = None
        self._folder: LogFolder | None = None
        self._commit: GroupCommit | None = None
        if configuration.log_directory is None:
            self.stable = False
            self.incarnation = first_incarnation(configuration)
            self.log = VolatileLog()
            logger.info(
                "no log_directory: a process that restarts cannot come back into its groups, and what only it had "
                "delivered is lost"
            )
            return
        self.stable = True
        self._folder = open_log(
            Path(configuration.log_directory) / process,
            configuration.cluster,
            process,
            retain_bytes=configuration.retain_bytes,
            agreed=configuration.agreed(),
        )
        self.incarnation, self.began, self.lost = self._folder.incarnation, self._folder.began, self._folder.lost
        try:
            self.log = self._folder.log(MAIN_INSTANCE, lambda: msgspec.msgpack.encode(attachment()), self.memory)
            self._read_attachment(self.log)
        except BaseException:
            self._folder.close()
            raise
        self._commit = GroupCommit(loop.call_soon, loop.call_soon_threadsafe, on_error)

    def _read_attachment(self, log: FileLog) -> None:
        if log.dropped_bytes:
            logger.warning("the log ended in the middle of a record: %d bytes dropped", log.dropped_bytes)
        if log.attachment is not None:
            try:
                self.attachment = msgspec.msgpack.decode(log.attachment, type=Attachment)
            except msgspec.DecodeError as error:
                raise UsageError(f"the log's last checkpoint is of another version: {error}") from None

    def keep_state(self, name: str, content: bytes) -> None:
        """Write down a state that another process gave, which is in no record; may be called in any thread."""
        try:
            self.write_state(name, content)
        except OSError as error:
            # The next start gets it from the others again.
            where = "" if self._folder is None else self._folder.folder
            logger.warning("%s: cannot keep the state of %s: %s", where, name, error.strerror or error)

    def write_state(self, name: str, content: bytes) -> None:
        """Write something down beside the log; may be called in any thread. `OSError` when the disk does not take
        it."""
        if self._folder is not None:
            write_state(self._folder.folder, name, content)

    def kept_state(self, name: str) -> bytes | None:
        """What was written down under this name last."""
        return None if self._folder is None else read_state(self._folder.folder, name)

    def forget_state(self, name: str) -> None:
        """Whatever was kept under this name, with the log or beside it, is of no use any more."""
        self.attachment.named.pop(name, None)
        if self._folder is not None:
            remove_state(self._folder.folder, name)

    def start_sync(self, instance: Instance, position: int) -> None:
        """Make the log stable, then let what waited for it leave."""
        if self._commit is not None and isinstance(self.log, FileLog):
            self._commit.start_sync(self.log, lambda stable: self._synced(instance, stable))

    def _synced(self, instance: Instance, position: int) -> None:
        if self.site is not None:
            self.site.synced(instance, position)

    def status(self) -> dict[str, Any] | None:
        """For `Node.status`; None without a log."""
        if self._folder is None or self._commit is None or not isinstance(self.log, FileLog):
            return None
        return {
            "bytes": sum(file.stat().st_size for file in self._folder.folder.rglob("*") if file.is_file()),
            "unsynced_bytes": self.log.unsynced_bytes,
            "sync_seconds": self._commit.sync_seconds,
            "sync_seconds_max": self._commit.sync_seconds_max,
        }

    @property
    def added(self) -> dict[SiteId, HostPort]:
        """Other processes that were added while this one ran, in this or an earlier start with its log."""
        kept = {} if self._folder is None else self._folder.added
        return {name: split_address(where) for name, where in kept.items()}

    def keep_added(self, added: dict[SiteId, HostPort]) -> None:
        """Remember them for the next start."""
        if self._folder is not None:
            self._folder.keep_added({name: show_address(where) for name, where in added.items()})

    def settle(self) -> None:
        """The protocol has everything again that was lost: from now on the log counts."""
        if self.lost and self._folder is not None:
            self._folder.settle()
            self.lost = False

    def close(self, settled: bool) -> None:
        """Give the files back; what was handed over to the disk is written first, and in good order also what was heard
        since."""
        if self._commit is not None:
            self._commit.close()
            self._commit = None
            if settled and isinstance(self.log, FileLog):
                with suppress(StorageError):  # nothing relies on it
                    self.log.keep_memory()
        if self._folder is not None:
            self._folder.close()
            self._folder = None
