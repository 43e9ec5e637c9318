"""Maps, locks, elections, queues and counters of live processes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

import ordercast
from ordercast import Shared, UsageError
from ordercast.blocks import Change
from ordercast.blocks.state import State
from tests.node.cluster import make_configuration, open_nodes, run

LEASE = 0.5


@asynccontextmanager
async def share(names: str = "abc") -> AsyncIterator[tuple[list[ordercast.Node], list[Shared]]]:
    """A majority lives on when one of three is killed."""
    async with open_nodes(make_configuration(names, protocol="token")) as nodes:
        yield nodes, [await Shared().join(node, "g") for node in nodes]


class Setting(msgspec.Struct, frozen=True):
    text: str


def test_a_map_is_the_same_everywhere_and_tells_who_watches() -> None:
    async def main() -> None:
        async with share("ab") as (_, (first, second)):
            one, other = first.map("settings", Setting), second.map("settings", Setting)
            watching = other.watch("colour")
            news = asyncio.ensure_future(anext(watching))
            await asyncio.sleep(0)
            await one.put("size", Setting("large"))
            version = await one.put("colour.sky", Setting("blue"))
            assert await news == Change("colour.sky", Setting("blue"), version)
            assert await other.get("size", linearizable=True) == Setting("large")
            assert not await other.compare_and_set("colour.sky", Setting("grey"), version - 1)
            assert await other.compare_and_set("colour.sky", Setting("grey"), version)
            assert await one.remove("size")
            assert await one.items(linearizable=True) == {"colour.sky": Setting("grey")}
            changed = await anext(watching)
            assert (changed.key, changed.value) == ("colour.sky", Setting("grey"))
            entry = await one.entry("colour.sky")
            assert entry is not None
            assert entry.version == changed.version

    run(main())


def test_who_watches_from_long_ago_is_shown_what_there_is() -> None:
    async def main() -> None:
        async with share("a") as (_, (shared,)):
            numbers = shared.map("numbers", int)
            await asyncio.gather(*(numbers.put(f"{index % 3}", index) for index in range(2100)))
            seen = {}
            async for change in numbers.watch(since=0):
                seen[change.key] = change.value
                if len(seen) == 3:
                    break
            assert seen == {"0": 2097, "1": 2098, "2": 2099}

    run(main())


def test_a_lock_passes_from_one_to_the_next_and_its_numbers_grow() -> None:
    async def main() -> None:
        async with share() as (_, shareds):
            inside, fences = 0, []

            async def work(shared: Shared) -> None:
                nonlocal inside
                for _ in range(5):
                    async with shared.lock("l") as fence:
                        inside += 1
                        assert inside == 1
                        fences.append(fence)
                        await asyncio.sleep(0)
                        inside -= 1

            await asyncio.gather(*map(work, shareds))
            assert fences == sorted(set(fences))
            assert len(fences) == 15
            lock = shareds[0].lock("l")
            assert await lock.try_acquire() > fences[-1]
            assert await shareds[1].lock("l").try_acquire() == 0
            with pytest.raises(TimeoutError):
                await shareds[1].lock("l").acquire(timeout=0.01)
            for again in (lock.acquire, lock.try_acquire):
                with pytest.raises(UsageError, match="had already"):
                    await again()
            assert await lock.release()

    run(main())


def test_the_lock_of_a_process_that_dies_goes_to_another_after_its_lease() -> None:
    async def main() -> None:
        async with share() as (nodes, shareds):
            held = await shareds[2].lock("l", lease=LEASE).acquire()
            leading = shareds[2].election("boss", lease=LEASE)
            term = await leading.win()
            nodes[2].kill()
            assert await shareds[0].lock("l", lease=LEASE).acquire() > held
            election = shareds[0].election("boss", lease=LEASE)
            assert await election.win() > term
            assert election.leader == "a"
            assert shareds[1].election("boss").leader in ("a", "c")  # perhaps it has not heard of it yet
            await asyncio.wait_for(leading.lost.wait(), 20)
            assert not leading.is_leader

    run(main())


def test_whoever_has_lost_a_lock_is_told_and_can_have_it_again() -> None:
    async def main() -> None:
        async with share("ab") as (_, (first, second)):
            lock = first.lock("l", lease=LEASE)
            lost = await lock.acquire()
            # As after a pause that was longer than the lease: another one is given it.
            assert await first.replica.call(State.release, "l", lock._holder, LEASE)
            between = second.lock("l")
            assert await between.acquire() > lost
            await asyncio.wait_for(lock.lost.wait(), 20)
            assert (lock.is_held, lock.lost.is_set()) == (False, True)
            waiting = asyncio.create_task(lock.acquire())
            await between.release()
            assert await waiting > between.fence
            assert (lock.is_held, lock.lost.is_set()) == (True, False)

    run(main())


def test_a_lock_that_cannot_be_given_back_in_time_does_not_hide_what_was_raised_under_it() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab", protocol="token")) as nodes:
            first, _ = [await Shared(timeout=0.5).join(node, "g") for node in nodes]

            async def fail() -> None:
                async with first.lock("l"):
                    nodes[1].kill()
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await fail()

    run(main())


def test_an_election_tells_who_leads() -> None:
    async def main() -> None:
        async with share("ab") as (_, (first, second)):
            one, other = first.election("boss"), second.election("boss")
            leaders = other.leaders()
            assert await anext(leaders) is None
            await one.win()
            assert await anext(leaders) == "a"
            waiting = asyncio.create_task(other.win())
            while not waiting.done():
                await asyncio.sleep(0)
                if one.is_leader:
                    await one.resign()
            assert other.is_leader
            assert await anext(leaders) in ("b", None)

    run(main())


def test_each_item_of_a_queue_goes_to_one_member() -> None:
    async def main() -> None:
        async with share() as (nodes, shareds):
            done: list[int] = []

            async def work(shared: Shared) -> None:
                queue = shared.queue("q", int)
                while True:
                    job = await queue.get()
                    if await job.done():
                        done.append(job.item)

            working = [asyncio.create_task(work(shared)) for shared in shareds]
            queue = shareds[0].queue("q", int, lease=LEASE)
            for item in range(30):
                await queue.put(item)
            while len(done) < 30:
                await asyncio.wait(working, timeout=0.01)
            assert sorted(done) == list(range(30))
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)
            await queue.put(30)
            taken = await shareds[2].queue("q", int, lease=LEASE).get()
            assert (taken.item, taken.attempt) == (30, 1)
            nodes[2].kill()
            again = await queue.get()
            assert (again.item, again.attempt) == (30, 2)
            assert await again.done()

    run(main())


def test_a_counter_gives_each_number_once() -> None:
    async def main() -> None:
        async with share() as (_, shareds):
            counters = [shared.counter("c") for shared in shareds]
            given = await asyncio.gather(*(counters[index % 3].add() for index in range(30)))
            assert sorted(given) == list(range(1, 31))
            assert await counters[1].value(linearizable=True) == 30

    run(main())


def test_blocks_that_are_in_no_group_say_so() -> None:
    with pytest.raises(UsageError, match="in no group"):
        Shared().lock("l")


def test_a_value_of_another_type_is_refused_to_whoever_puts_it_and_named_to_whoever_reads_it() -> None:
    async def main() -> None:
        async with share("a") as (_, (shared,)):
            settings, letters = shared.map("settings", str), shared.queue("letters", str)
            for wrong in (settings.put("size", 3), settings.compare_and_set("size", 3, 0), letters.put(3)):  # type: ignore[arg-type]
                with pytest.raises(TypeError, match="not of type str: Expected `str`, got `int`"):
                    await wrong
            assert await settings.items() == {}
            assert len(letters) == 0
            await shared.map("settings", int).put("size", 3)
            with pytest.raises(ValueError, match="map settings, key 'size': not of type str: Expected `str`"):
                await settings.get("size")
            await shared.queue("letters", int).put(3)
            with pytest.raises(ValueError, match="queue letters, item 1: not of type str: Expected `str`"):
                await letters.get()
            with pytest.raises(UsageError, match="neither a msgspec struct nor a dataclass nor a TypedDict"):
                shared.map("clocks", asyncio.Event)

    run(main())


def test_who_has_waited_long_enough_is_told_for_what() -> None:
    async def main() -> None:
        async with share("a") as (_, (shared,)):
            async with shared.lock("backup"):
                with pytest.raises(TimeoutError, match=r"lock backup is not had: a\.0\.1 has it, after 0\.1 s"):
                    await shared.lock("backup").acquire(timeout=0.1)
            with pytest.raises(TimeoutError, match=r"queue letters has nothing for this worker, after 0\.1 s"):
                await shared.queue("letters").get(timeout=0.1)
            await shared.queue("letters").put("dear all")
            assert repr(await shared.queue("letters").get()) == "Job(number=1, item='dear all', attempt=1)"

    run(main())
