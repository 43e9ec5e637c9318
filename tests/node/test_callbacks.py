"""An application's callbacks, and what must not happen while one of them runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.core.events import Event
from ordercast.protocols.classic.sequencer.protocol import Sequencer
from ordercast.storage.file import FileLog
from tests.node.cluster import make_configuration, open_nodes, run


class Watched:
    """Lets checkpoints come with every record, and notes what reaches the core while one is taken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.checkpoints = 0
        self.steps: list[Event] = []
        self._cuts = False
        self._step, self._checkpoint = Sequencer.step, FileLog.checkpoint
        monkeypatch.setattr(Sequencer, "checkpoint_records", 1)
        monkeypatch.setattr(Sequencer, "checkpoint_messages", lambda _core: 0)
        monkeypatch.setattr(Sequencer, "step", lambda core, now, event: self._watch(core, now, event))
        monkeypatch.setattr(FileLog, "checkpoint", lambda log, state, position: self._cut(log, state, position))

    def _watch(self, core: Sequencer, now: float, event: Event) -> None:
        if self._cuts:
            self.steps.append(event)
        self._step(core, now, event)

    def _cut(self, log: Any, state: Any, position: int) -> None:
        log._retain_bytes = 0
        self._cuts = True
        self._checkpoint(log, state, position)
        self._cuts = False
        self.checkpoints += 1


def test_a_callback_that_multicasts_during_a_checkpoint_does_not_enter_the_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The core was asked for a state, and then changed before that was written with what the application had."""
    watched = Watched(monkeypatch)

    async def main() -> None:
        async with open_nodes(make_configuration("a", log_directory=str(tmp_path))) as (a,):
            group, enough = await a.join("g"), asyncio.Event()

            def answer(delivery: ordercast.Delivery) -> None:
                if delivery.offset < 20:
                    group.try_multicast(b"%d" % (delivery.offset + 1))
                else:
                    enough.set()

            group.on_delivery(answer)
            await group.multicast(b"0")
            await enough.wait()

    run(main())
    assert watched.checkpoints
    assert watched.steps == []


def test_a_snapshot_that_multicasts_does_not_enter_the_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)

    async def main() -> None:
        async with open_nodes(make_configuration("a", log_directory=str(tmp_path))) as (a,):
            group, snapshots = await a.join("g"), 0

            def take() -> bytes:
                nonlocal snapshots
                snapshots += 1
                if snapshots < 20:
                    group.try_multicast(b"%d" % snapshots)
                return b""

            a.keep_snapshot(take)
            await group.multicast(b"first")
            async for delivery in group:
                if delivery.payload == b"19":
                    break

    run(main())
    assert watched.steps == []
