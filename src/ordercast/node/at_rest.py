"""The log of a process that does not run, read for what was delivered to it.

What a log means only its protocol knows, so the core recovers from it as it would at a start, without a network, and
what it hands to the application is kept. A start writes to the log (the number of starts, a torn tail that is cut off),
so that is done with a copy, and the log itself stays as it is.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from ordercast.core import MAIN_INSTANCE, Context, GroupId, SiteId, UsageError
from ordercast.core.effects import Deliver, EnterGroup, Replay, Rollback
from ordercast.node.configuration import Configuration
from ordercast.node.deliveries import View
from ordercast.node.history import History
from ordercast.node.journal import Attachment
from ordercast.node.receiver import Receiver, keeps_sending_order
from ordercast.node.tuning import live_options
from ordercast.node.views import INITIAL
from ordercast.protocols import find_protocol
from ordercast.runtime import Instance
from ordercast.runtime.instance import MessageNumbers
from ordercast.storage.folder import LOCK, LogFolder, ends_folder, open_log

_EVERYTHING = 1 << 62
"""Bytes of a group that are kept: as many as the log has."""


def read_at_rest(configuration: Configuration, process: SiteId) -> dict[GroupId, History]:
    """What the log of a process has of each group; `UsageError` in one line when there is none, or the process runs."""
    if configuration.log_directory is None:
        raise UsageError(f"cluster {configuration.cluster!r} has no log_directory: its groups are read from its nodes")
    folder = Path(configuration.log_directory) / process
    if not folder.is_dir():
        raise UsageError(f"{folder}: there is no log of {process}")
    with tempfile.TemporaryDirectory(prefix="ordercast-log-") as temporary:
        copy = Path(temporary) / process
        with _at_rest(folder, process):
            try:
                shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(LOCK), copy_function=shutil.copyfile)
                if ends_folder(folder).is_dir():
                    shutil.copytree(ends_folder(folder), ends_folder(copy), copy_function=shutil.copyfile)
            except (OSError, shutil.Error) as error:
                raise UsageError(f"{folder}: cannot be read: {_reason(error)}") from error
        for path in (copy, *(each for each in copy.rglob("*") if each.is_dir()), ends_folder(copy)):
            if path.exists():
                path.chmod(0o700)
        opened = open_log(copy, configuration.cluster, process, agreed=configuration.agreed())
        try:
            return _replay(configuration, process, opened)
        finally:
            opened.close()


@contextmanager
def _at_rest(folder: Path, process: SiteId) -> Iterator[None]:
    """While nobody writes there. A process that is started in this moment finds the folder taken, and says so."""
    try:
        lock = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:  # a folder that was moved without it
        yield
        return
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {_reason(error)}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UsageError(f"{process} runs with the log {folder}: read its groups from the node") from None
    finally:
        os.close(lock)


def _reason(error: OSError) -> str:
    return error.strerror or str(error).splitlines()[0]


def _replay(configuration: Configuration, process: SiteId, folder: LogFolder) -> dict[GroupId, History]:
    log = folder.log(MAIN_INSTANCE)
    attachment = Attachment()
    if log.attachment is not None:
        try:
            attachment = msgspec.msgpack.decode(log.attachment, type=Attachment)
        except msgspec.DecodeError as error:
            raise UsageError(f"the log's last checkpoint is of another version: {error}") from None
    protocol = find_protocol(configuration.protocol)
    groups = {name: tuple(sorted(members)) for name, members in configuration.groups.items()}
    is_named = process in configuration.processes
    context = Context(
        site=process,
        groups=groups if is_named else {},
        sites=tuple(sorted(configuration.processes)) if is_named else (process,),
        options=live_options(
            protocol,
            dict(configuration.options),
            configuration.socket_buffer,
            configuration.queue_bytes,
            len(configuration.addresses),
        ),
        # Whatever it draws, nobody hears of it.
        random=Random(0),
        incarnation=folder.incarnation,
        began=0,
        stable=True,
    )
    own = [View(INITIAL, name, members).follow(()) for name, members in groups.items() if process in members]
    receiver = Receiver(
        own,
        configuration.payload_max,
        attachment,
        _EVERYTHING,
        on_taken=lambda: None,
        in_source_order=keeps_sending_order(protocol.contract),
    )
    core = protocol(context)
    Instance(core, _Silence(receiver), log, None, MessageNumbers()).start(0.0)
    return receiver.histories


class _Silence:
    """A driver without a network, timers or a disk: only what goes to the application is taken."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    def trace_time(self) -> float:
        return 0.0

    def seconds_since(self, time: float) -> float:
        return 0.0

    def deliver(self, instance: Instance, effect: Deliver | Replay) -> None:
        self._receiver.deliver(instance.name, effect)

    def rollback(self, instance: Instance, effect: Rollback) -> None:
        self._receiver.take_back(effect.multicast)

    def enter_group(self, instance: Instance, effect: EnterGroup) -> None:
        if self._receiver.find(effect.group) is None:
            self._receiver.open(effect.group, effect.offset)
        else:
            self._receiver.enter(effect.group, effect.offset)

    def start_sync(self, instance: Instance, position: int) -> None:
        """What is not stable is not read: a start would do more with it, and nobody starts."""

    def _nothing(self, instance: Instance, effect: Any) -> None:
        """Nobody is there who could hear of it."""

    send = broadcast = join_channel = leave_channel = set_timer = cancel_timer = _nothing
    install_view = exit_group = join_refused = activate = service_unavailable = _nothing
    credit = blocked = declared_failed = recovered = _nothing
