"""A process whose log was repaired is taken back by everyone, and its protocol is told what it lacks."""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from pathlib import Path

import msgspec
import pytest

import ordercast
from ordercast.core import MAIN_INSTANCE
from ordercast.core.effects import DeclareRecovered
from ordercast.core.events import Event, Recovered, Started
from ordercast.protocols import find_protocol
from ordercast.runtime import Instance
from ordercast.storage.folder import IDENTITY, begin_anew
from tests.node.cluster import make_configuration, open_nodes, run
from tests.node.test_amnesia import exchange, expect_refusal, join_all

Starts = list[tuple[str, Started | Recovered]]


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Starts:
    """What each core was told when it began, in a protocol that claims to repair."""
    token = find_protocol("token")
    monkeypatch.setattr(token, "contract", msgspec.structs.replace(token.contract, repairs=True))
    told: Starts = []
    handle = Instance.handle

    def noted(instance: Instance, now: float, event: Event) -> None:
        if isinstance(event, Started | Recovered):
            told.append((instance.context.site, event))
        handle(instance, now, event)

    monkeypatch.setattr(Instance, "handle", noted)
    return told


def is_marked(folder: Path) -> bool:
    """Whether the log still counts as lost."""
    return bool(msgspec.json.decode((folder / IDENTITY).read_bytes())["lost"])


async def deliver_own(group: ordercast.Group) -> None:
    """Multicast until a message is delivered here. (One that was ordered while the process was being repaired lies in
    the gap behind which it goes on.)"""
    delivered = asyncio.ensure_future(anext(aiter(group)))
    while not delivered.done():
        await group.multicast(b"m")
        await asyncio.wait({delivered}, timeout=0.5)
    await delivered


def test_a_process_with_a_lost_log_is_told_how_to_repair_it_and_taken_back_when_it_was(
    tmp_path: Path, starts: Starts
) -> None:
    async def main() -> None:
        configuration = make_configuration(protocol="token", log_directory=str(tmp_path))
        async with open_nodes(configuration, "bc") as others:
            async with open_nodes(configuration, "a") as (a,):
                await exchange(await join_all(a, *others), 5)
                a.kill()
            shutil.rmtree(tmp_path / "a")
            shutil.rmtree(tmp_path / "_end.a")
            line = await expect_refusal(configuration, "a", *others)
            assert "run `ordercast repair CONFIG --process a`" in line
            now = int(time.time())
            begin_anew(tmp_path / "a", "test", "a", now)
            async with ordercast.open(configuration, "a") as a:
                await a.wait_for_peers()
                await a.internals.wait_started()
                assert starts[-1] == ("a", Recovered((), None, lost=True))
                assert a.incarnation == now
                # The others know it as soon as its response is there.
                while any("a" in other.status()["refused"] for other in others):
                    await asyncio.sleep(0)
                a.kill()
            for other in others:
                other.kill()

    run(main())


def test_the_mark_goes_when_the_core_has_everything_and_not_before(
    tmp_path: Path, starts: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = make_configuration("abc", protocol="token", log_directory=str(tmp_path))
    interpret = Instance._interpret

    def without_recovery(instance: Instance) -> None:
        instance.core.outbox = [effect for effect in instance.core.outbox if not isinstance(effect, DeclareRecovered)]
        interpret(instance)

    async def live() -> Recovered:
        async with ordercast.open(configuration, "a") as a:
            await deliver_own(await a.join("g"))
            a.kill()
        event = next(event for name, event in reversed(starts) if name == "a")
        assert isinstance(event, Recovered)
        return event

    async def main() -> None:
        begin_anew(tmp_path / "a", "test", "a", int(time.time()))
        async with open_nodes(configuration, "bc") as others:
            for other in others:
                (await other.join("g")).on_batch(lambda _batch: None)
            with monkeypatch.context() as patch:
                patch.setattr(Instance, "_interpret", without_recovery)
                assert await live() == Recovered((), None, lost=True)
                assert await live() == Recovered((), None, lost=True)
            assert await live() == Recovered((), None, lost=True)
            event = await live()
            assert not event.lost
            assert event.records

    run(main())


def test_who_was_away_during_the_repair_takes_the_process_back_later(tmp_path: Path, starts: Starts) -> None:
    async def main() -> None:
        configuration = make_configuration("abcde", protocol="token", log_directory=str(tmp_path))
        async with open_nodes(configuration) as nodes:
            await exchange(await join_all(*nodes), 5)
            for node in nodes:
                node.kill()
        begin_anew(tmp_path / "a", "test", "a", int(time.time()))
        # Whoever has lost its log is repaired by a majority without it: three of five, while e is away.
        async with open_nodes(configuration, "abcd") as nodes:
            for node in nodes:
                await node.internals.wait_started()
            while is_marked(tmp_path / "a"):  # until then it is told again that its log is lost
                await asyncio.sleep(0)
            for node in nodes:
                node.kill()
        async with open_nodes(configuration) as nodes:
            a, *_, e = nodes
            await a.internals.wait_started()
            told = [event for name, event in starts if name == "a"]
            assert told.count(Recovered((), None, lost=True)) == 1
            assert told[-1] != Recovered((), None, lost=True)
            assert re.match(r"\d{10}$", str(a.incarnation))
            await e.wait_for_peers()
            assert e.status()["refused"] == {}
            for node in nodes:
                node.kill()

    run(main())


def test_a_repaired_log_that_is_rolled_back_later_is_refused_too(tmp_path: Path, starts: Starts) -> None:
    async def main() -> None:
        configuration = make_configuration("abc", protocol="token", log_directory=str(tmp_path / "log"))
        begin_anew(tmp_path / "log" / "a", "test", "a", int(time.time()))
        async with open_nodes(configuration, "bc") as (b, c):
            async with ordercast.open(configuration, "a") as a:
                groups = await join_all(a, b, c)
                await deliver_own(groups[0])
                while is_marked(tmp_path / "log" / "a"):  # a copy with the mark would be a lost log, and welcome
                    await asyncio.sleep(0)
                for name in ("_end.a", "a"):
                    shutil.copytree(tmp_path / "log" / name, tmp_path / "copy" / name)
                await groups[0].multicast(b"after the copy")
                async for delivery in groups[1]:
                    if delivery.payload == b"after the copy":
                        break
                a.kill()
            for name in ("_end.a", "a"):
                shutil.rmtree(tmp_path / "log" / name)
                shutil.copytree(tmp_path / "copy" / name, tmp_path / "log" / name)
            assert (tmp_path / "log" / "a" / MAIN_INSTANCE).exists()
            await expect_refusal(configuration, "a", b)
            b.kill()

    run(main())


def test_a_process_of_scalatom_gets_its_lost_log_back_and_takes_part(tmp_path: Path) -> None:
    async def main() -> None:
        configuration = make_configuration(protocol="scalatom", log_directory=str(tmp_path))
        async with open_nodes(configuration, "bc") as others:
            async with open_nodes(configuration, "a") as (a,):
                groups = await join_all(a, *others)
                await exchange(groups, 5)
                a.kill()
            shutil.rmtree(tmp_path / "a")
            shutil.rmtree(tmp_path / "_end.a")
            begin_anew(tmp_path / "a", "test", "a", int(time.time()))
            async with ordercast.open(configuration, "a") as a:
                await exchange([*await join_all(a), *groups[1:]], 5)
                a.kill()
            for other in others:
                other.kill()

    run(main())
