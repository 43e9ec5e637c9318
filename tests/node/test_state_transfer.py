"""A state in chunks from one process to another: loss, lies, silence, and what is kept meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

import ordercast
from ordercast import Replicated
from ordercast.core import Packet, WireError
from ordercast.core.effects import EnterGroup
from ordercast.node import replica_packing
from ordercast.node.replica_packing import encode_steps
from ordercast.node.state_giving import IDLE_SECONDS, STATES_MAX, TAKERS_MAX, GivenState, Givings, Head
from ordercast.node.state_packets import (
    CHUNK_BYTES,
    FETCH_CHUNKS_MAX,
    STATE_BYTES_MAX,
    STATE_INSTANCE,
    STATE_PACKETS,
    Chunk,
    Fetch,
    NoState,
    Offer,
    Soon,
    Taken,
    recut,
)
from ordercast.node.state_taking import AHEAD_MAX, OFFER_SECONDS, SILENT_SECONDS, Taking
from ordercast.node.state_window import TARGET_SECONDS, TIMEOUT_MAX, WINDOW_MIN, Window
from ordercast.storage.states import read_state, write_state
from ordercast.wire.codec import Codec
from tests.node.cluster import make_configuration, open_nodes, run

CONTENT = Random(1).randbytes(20 * CHUNK_BYTES + 17)


def _given(content: bytes = CONTENT, offset: int = 7, group: str = "g") -> GivenState:
    return GivenState(Head(group, offset, "schema"), tuple(recut([content])), blake2b(content, digest_size=32).digest())


class _Link:
    """A giver and a taker with a network between them that loses some of what they say, on a clock of its own."""

    def __init__(self, content: bytes, loss: float = 0.0) -> None:
        self.now = 0.0
        self.counters: Counter[str] = Counter()
        self.givings = Givings(self.counters)
        self.taking = Taking("giver", 5, Window(32), self.counters, self.now)
        self.givings.give("taker", 5, _given(content), self.now)
        self.asked: Counter[int] = Counter()
        self._random, self._loss = Random(2), loss

    def run(self) -> None:
        """Until everything has come, or the giver is given up."""
        while not self.taking.is_complete and not self.taking.is_given_up(self.now):
            questions = self.taking.questions(self.now)
            self.now += 0.001
            answers = [answer for question in questions if self._arrives() for answer in self._fetch(question)]
            self.now += 0.001
            for answer in answers:
                if self._arrives():
                    self._take(answer)
            if not self.taking.is_complete:
                self.now = max(self.now, min(self.taking.deadline, self.now + (0.0 if answers else 0.01)))

    def _fetch(self, question: Fetch) -> list[Packet]:
        self.asked.update(range(question.first, question.first + question.count))
        return self.givings.on_fetch("taker", question, self.now)

    def _take(self, answer: Packet) -> None:
        if isinstance(answer, Offer):
            self.taking.on_offer(answer, self.now)
        elif isinstance(answer, Chunk):
            assert self.taking.on_chunk(answer, self.now) is None

    def _arrives(self) -> bool:
        return self._random.random() >= self._loss


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, len(CONTENT)])
def test_a_state_of_any_size_arrives_whole_and_each_chunk_is_asked_for_once(size: int) -> None:
    link = _Link(CONTENT[:size])
    link.run()
    assert link.taking.is_sound
    assert bytes(link.taking.content) == CONTENT[:size]
    assert set(link.asked.values()) <= {1}
    assert not link.counters


@pytest.mark.parametrize("loss", [0.05, 0.3])
def test_what_is_lost_is_asked_for_again(loss: float) -> None:
    link = _Link(CONTENT, loss)
    link.run()
    assert link.taking.is_sound
    assert bytes(link.taking.content) == CONTENT
    assert max(link.asked.values()) > 1


def test_a_giver_that_never_answers_is_given_up_and_one_that_falls_silent_sooner() -> None:
    link = _Link(CONTENT, loss=1.0)
    link.run()
    assert OFFER_SECONDS <= link.now < OFFER_SECONDS + 1
    taking = Taking("giver", 5, Window(32), Counter(), 0.0)
    taking.on_offer(Offer(5, 7, 100, bytes(32), ""), 3.0)
    assert not taking.is_given_up(3.0 + SILENT_SECONDS - 0.01)
    assert taking.is_given_up(3.0 + SILENT_SECONDS)


def test_chunks_that_lie_about_their_place_or_size_or_that_nobody_asked_for_are_counted_and_take_no_memory() -> None:
    counters: Counter[str] = Counter()
    taking = Taking("giver", 5, Window(4), counters, 0.0)
    assert taking.on_chunk(Chunk(5, 0, b"x"), 0.0) == "chunk 0 of 0", "before anything was offered"
    taking.on_offer(Offer(5, 7, 10 * CHUNK_BYTES + 3, bytes(32), ""), 0.0)
    assert sum(question.count for question in taking.questions(0.0)) == 4
    whole = bytes(CHUNK_BYTES)
    assert taking.on_chunk(Chunk(5, 11, whole), 0.0) == "chunk 11 of 11"
    assert taking.on_chunk(Chunk(5, 0, b"x"), 0.0) == "a chunk of 1 bytes"
    assert taking.on_chunk(Chunk(5, 10, whole), 0.0) == f"a chunk of {CHUNK_BYTES} bytes"
    assert taking.on_chunk(Chunk(5, 9, whole), 0.0) == "chunk 9, which nobody has asked for"
    assert counters == {"state-bad-chunks": 4, "state-unasked-chunks": 1}
    assert not taking.content
    assert taking.on_chunk(Chunk(5, 0, whole), 0.0) is None
    assert taking.on_chunk(Chunk(5, 0, whole), 0.0) is None
    assert counters["state-repeated-chunks"] == 1
    assert len(taking.content) == CHUNK_BYTES


def test_a_size_that_is_a_lie_costs_nothing_and_other_bytes_than_those_offered_are_not_taken() -> None:
    taking = Taking("giver", 5, Window(4), Counter(), 0.0)
    taking.on_offer(Offer(5, 7, STATE_BYTES_MAX, bytes(32), ""), 0.0)
    assert len(taking.content) == 0
    assert sum(question.count for question in taking.questions(0.0)) == 4
    taking = Taking("giver", 5, Window(4), Counter(), 0.0)
    taking.on_offer(Offer(5, 7, 1, bytes(32), ""), 0.0)
    taking.questions(0.0)
    taking.on_chunk(Chunk(5, 0, b"x"), 0.0)
    assert taking.is_complete
    assert not taking.is_sound


def test_a_late_answer_is_taken_although_the_chunk_counts_as_lost() -> None:
    taking = Taking("giver", 5, Window(2), Counter(), 0.0)
    taking.on_offer(Offer(5, 7, 2 * CHUNK_BYTES, bytes(32), ""), 0.0)
    taking.questions(0.0)
    taking._find_lost(TIMEOUT_MAX)
    taking.on_chunk(Chunk(5, 1, bytes(CHUNK_BYTES)), TIMEOUT_MAX)
    taking.on_chunk(Chunk(5, 0, bytes(CHUNK_BYTES)), TIMEOUT_MAX)
    assert taking.is_complete
    assert taking.questions(TIMEOUT_MAX) == []


def test_chunks_that_come_before_a_missing_one_are_bounded() -> None:
    taking = Taking("giver", 5, Window(AHEAD_MAX), Counter(), 0.0)
    taking.on_offer(Offer(5, 7, 10 * AHEAD_MAX * CHUNK_BYTES, bytes(32), ""), 0.0)
    asked: set[int] = set()
    for _ in range(3 * AHEAD_MAX):
        for question in taking.questions(0.0):
            for index in range(question.first, question.first + question.count):
                asked.add(index)
                if index:
                    taking.on_chunk(Chunk(5, index, bytes(CHUNK_BYTES)), 0.0)
    assert max(asked) == AHEAD_MAX - 1


def test_the_window_grows_while_answers_are_fast_shrinks_when_they_are_late_and_never_closes() -> None:
    window = Window(32)
    for _ in range(1000):
        window.on_answer(0.001)
    assert window.chunks == 32
    for _ in range(1000):
        window.on_answer(0.001 + 2 * TARGET_SECONDS)
    assert window.chunks == WINDOW_MIN
    window.on_answer(100.0)
    for _ in range(100):
        window.on_loss()
    assert window.chunks == WINDOW_MIN
    assert window.timeout == TIMEOUT_MAX
    assert Window(0).chunks == WINDOW_MIN


def test_a_giver_keeps_few_states_and_gives_one_to_several() -> None:
    givings = Givings(Counter())
    first = _given()
    assert isinstance(givings.give("a", 1, first, 0.0), Offer)
    assert givings.find("g", 7) is first
    assert givings.find("g", 8) is None, "whoever needs it lacks what was ordered at 7"
    assert givings.find("h", 7) is None
    assert not givings.is_full
    for index in range(TAKERS_MAX - 1):
        givings.give("b", index, first, 0.0)
    assert isinstance(givings.give("c", 1, first, 0.0), NoState)
    givings = Givings(Counter())
    givings.prepare("a", 1, 0.0)
    for index in range(STATES_MAX - 1):
        assert not givings.is_full
        givings.give("b", index, _given(), 0.0)
    assert givings.is_full
    givings.forget("a", 1)
    assert not givings.is_full


def test_questions_that_nobody_may_ask_are_counted_and_answered_with_nothing() -> None:
    counters: Counter[str] = Counter()
    givings = Givings(counters)
    givings.give("a", 1, _given(bytes(3 * CHUNK_BYTES)), 0.0)
    assert givings.on_fetch("b", Fetch(1, 0, 1), 0.0) == [], "it is for a"
    assert givings.on_fetch("a", Fetch(2, 0, 1), 0.0) == []
    assert givings.on_fetch("a", Fetch(1, 2, 2), 0.0) == []
    assert givings.on_fetch("a", Fetch(1, 1 << 60, 1), 0.0) == []
    assert givings.on_fetch("a", Fetch(2), 0.0) == [], "it may come before the request for the state is delivered"
    assert counters == {"state-unknown-fetches": 2, "state-bad-fetches": 2}


def test_a_giver_that_makes_its_state_ready_says_so_and_is_not_given_up() -> None:
    givings = Givings(Counter())
    givings.prepare("a", 1, 0.0)
    assert givings.on_fetch("a", Fetch(1), 0.0) == [Soon(1)]
    taking = Taking("giver", 1, Window(4), Counter(), 0.0)
    assert taking.is_given_up(OFFER_SECONDS)
    taking.on_soon(1.0)
    assert not taking.is_given_up(OFFER_SECONDS)


def test_a_state_that_nobody_fetches_is_forgotten() -> None:
    givings = Givings(Counter())
    givings.give("a", 1, _given(), 0.0)
    givings.give("b", 2, _given(), 0.0)
    givings.on_fetch("a", Fetch(1), 10.0)
    assert givings.deadline == IDLE_SECONDS
    assert givings.forget_idle(IDLE_SECONDS) == ["b"]
    assert [giving["to"] for giving in givings.progress()] == ["a"]


@pytest.mark.parametrize(
    "packet",
    [
        Fetch(1, 0, FETCH_CHUNKS_MAX + 1),
        Fetch(-1),
        Offer(1, 0, STATE_BYTES_MAX + 1, bytes(32), ""),
        Offer(1, 0, -1, bytes(32), ""),
        Offer(1, 0, 1, bytes(31), ""),
        Offer(1, 0, 1, bytes(32), "x" * 101),
        NoState(1, "x" * 201),
        Chunk(1, 0, bytes(CHUNK_BYTES + 1)),
        Chunk(1, -1, b""),
        Taken(1 << 64 - 1),
    ],
)
def test_packets_outside_their_bounds_are_malformed(packet: Packet) -> None:
    codec = Codec({STATE_INSTANCE: STATE_PACKETS})
    buffer = bytearray()
    codec.encode_into(STATE_INSTANCE, packet, buffer, 0)
    with pytest.raises(WireError):
        codec.decode(bytes(buffer))


# ------------------------------------------------------------------ on sockets
@dataclass
class Archive:
    """A large state."""

    pages: list[bytes] = field(default_factory=list)
    writes: int = 0

    def write(self, pages: int) -> int:
        self.pages.extend(_pages(pages))
        return len(self.pages)

    def touch(self) -> int:
        self.writes += 1
        return self.writes


def _pages(count: int) -> list[bytes]:
    return [bytes([index % 256]) * 100_000 for index in range(count)]


async def _archives(nodes: list[ordercast.Node], pages: int) -> list[Replicated[Archive]]:
    replicas = [await Replicated(Archive()).join(node, "g") for node in nodes]
    await replicas[0].call(Archive.write, pages)
    for replica in replicas:
        while replica.state is None or len(replica.state.pages) < pages:
            await asyncio.sleep(0)
    return replicas


async def _miss(node: ordercast.Node, other: Replicated[Archive]) -> None:
    """What is ordered now never comes to a node, as if the others had gone on without it; then it enters again."""
    missed = [node.internals.receiver.offsets()["g"]]
    deliver = node.internals.deliver
    node.internals.deliver = lambda _instance, effect: missed.append(effect.multicast.count)
    await other.call(Archive.touch)
    while sum(missed) < other.applied:
        await asyncio.sleep(0)
    node.internals.deliver = deliver
    node.internals.enter_group("main", EnterGroup("g", sum(missed)))


async def _until_begun(node: ordercast.Node, least: int = 1) -> dict[str, Any]:
    """What the status says of a transfer of which something has come."""
    while True:
        for transfer in node.status()["transfers"]:
            if transfer["bytes"] >= least:
                return dict(transfer)
        await asyncio.sleep(0)


def test_a_state_comes_in_chunks_while_the_group_goes_on_and_the_status_tells_how_far_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)

    async def main() -> None:
        async with open_nodes(make_configuration()) as nodes:
            first, second, third = await _archives(nodes, 100)
            await _miss(nodes[2], first)
            transfer = await _until_begun(nodes[2])
            assert (transfer["group"], transfer["from"]) == ("g", "b")
            assert 0 < transfer["bytes"] < transfer["of"]
            assert nodes[1].status()["transfers"][0]["to"] == "c"
            assert await first.call(Archive.touch) == 2, "while the third has no state"
            assert third.state is None
            assert await third.call(Archive.touch) == 3
            assert third.state == second.state == first.state
            assert nodes[2].status()["transfers"] == []
            while nodes[1].status()["transfers"]:
                await asyncio.sleep(0)
            assert "process c takes the state of group g, 10.0 MB, from b" in caplog.text
            assert "process c has the state of group g, 10.0 MB in" in caplog.text

    run(main())


def test_a_giver_that_dies_in_the_middle_is_replaced_by_another() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("abcd", protocol="token")) as nodes:
            replicas = await _archives(nodes, 200)
            await _miss(nodes[2], replicas[0])
            assert (await _until_begun(nodes[2]))["from"] == "b"
            nodes[1].kill()
            assert await replicas[2].call(Archive.touch) == 2
            assert replicas[2].state == replicas[0].state

    run(main())


def test_a_state_arrives_over_a_network_that_loses_and_repeats_datagrams() -> None:
    random = Random(1)

    async def main() -> None:
        async with open_nodes(make_configuration(max_datagram=1450)) as nodes:
            first, _, third = await _archives(nodes, 50)
            for node in nodes:
                node.internals.engine.transport.disturb(
                    lambda _content, _address: random.choices((0, 1, 2), (5, 90, 5))[0]
                )
            await _miss(nodes[2], first)
            assert await third.call(Archive.touch) == 2
            assert third.state is not None
            assert third.state.pages == first.state.pages  # type: ignore[union-attr]

    run(main())


@pytest.mark.parametrize("protocol", ["sequencer", "token", "two-phase", "lamport", "scalatom", "propagation-graph"])
def test_a_replica_behind_a_gap_gets_the_state_under_every_protocol(protocol: str) -> None:
    async def main() -> None:
        async with open_nodes(make_configuration(protocol=protocol)) as nodes:
            first, _, third = await _archives(nodes, 5)
            await _miss(nodes[2], first)
            assert await third.call(Archive.touch) == 2
            assert third.state == await first.read(lambda archive: archive, linearizable=True)

    run(main())


def test_replicas_that_come_at_once_ask_different_ones_and_whoever_has_no_state_says_so() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration()) as nodes:
            first, second, third = await _archives(nodes, 5)
            second._machine._on_gap(100)
            third._machine._on_gap(100)
            assert second._machine._seeker._giver == "a"
            assert third._machine._seeker._giver == "b", "which has none itself"
            for replica in (second, third):
                replica._machine._seeker.begin(first.applied)
                replica._machine._backlog.begin(first.applied)
            assert await third.call(Archive.touch) == 1
            assert await second.call(Archive.touch) == 2
            assert third.state is not None
            assert third.state.pages == first.state.pages  # type: ignore[union-attr]

    run(main())


def test_a_state_from_before_a_gap_is_not_taken(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as nodes:
            first, second = await _archives(nodes, 1)
            second._machine._on_gap(first.applied + 5)
            while "its state is too old" not in caplog.text:
                await asyncio.sleep(0)
            assert second.state is None, "what a has lacks five deliveries"
            for _ in range(5):
                await first.call(Archive.touch)
            assert await second.call(Archive.touch) == 6

    run(main())


def test_packets_of_a_transfer_that_nobody_began_are_counted_and_dropped() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as (a, b):
            site = a.internals.engine.site
            for packet in (
                Offer(1, 0, STATE_BYTES_MAX, bytes(32), ""),
                NoState(1, "no"),
                Chunk(1, 0, b"x"),
                Fetch(1, 0, 1),
                Taken(1),
            ):
                site.say("b", STATE_INSTANCE, packet)
            site.end_turn()
            while b.internals.receiver.counters["state-unknown-fetches"] < 1:
                await asyncio.sleep(0)
            assert b.status()["dropped"]["state-unasked-packets"] == 3
            assert b.status()["transfers"] == []
            site.say("nobody", STATE_INSTANCE, Taken(1))

    run(main())


def test_a_giver_whose_bytes_are_not_those_that_it_offered_is_named_once_and_another_is_asked(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Givings.give

    def lie(self: Givings, taker: str, transfer: int, state: GivenState, now: float) -> Packet:
        liar = taker == "c" and not caplog.text.count("not those that it offered")
        return honest(self, taker, transfer, msgspec.structs.replace(state, digest=bytes(32)) if liar else state, now)

    monkeypatch.setattr(Givings, "give", lie)

    async def main() -> None:
        async with open_nodes(make_configuration()) as nodes:
            first, _, third = await _archives(nodes, 5)
            await _miss(nodes[2], first)
            assert await third.call(Archive.touch) == 2
            assert third.state == first.state
            assert nodes[2].status()["dropped"]["state-bad-digests"] == 1
            assert caplog.text.count("its bytes are not those that it offered; it asks another one") == 1

    run(main())


def test_a_state_that_was_given_is_kept_beside_the_log_and_outlives_all_who_could_give_it_again(tmp_path: Path) -> None:
    async def main() -> None:
        configuration = make_configuration("ab", log_directory=str(tmp_path))
        async with open_nodes(configuration) as nodes:
            first, second = await _archives(nodes, 5)
            await _miss(nodes[1], first)
            assert await second.call(Archive.touch) == 2
            journal = nodes[1].internals.engine.journal
            while (kept := journal.kept_state("replicated g")) is None:
                await asyncio.sleep(0)
            offset, content, schema, *_ = msgspec.msgpack.decode(kept)
            given = msgspec.msgpack.decode(content, type=Archive)
            assert given.writes == 1
            assert schema == second._schema.name
            # The log of this test has what was missed, too: another state shows which of the two is read.
            other = [offset, msgspec.msgpack.encode(Archive([b"kept"], 100)), schema]
            journal.keep_state("replicated g", msgspec.msgpack.encode(other))
            nodes[0].kill()
        async with ordercast.open(configuration, "b") as again:
            replica = await Replicated(Archive()).join(again, "g")
            assert replica.state == Archive([b"kept"], 101), "and what the log has since then"

    run(main())


def test_a_gap_that_is_read_again_from_the_log_before_what_the_state_contains_is_none() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("a")) as nodes:
            (replica,) = await _archives(nodes, 1)
            replica._machine.applied += 5
            replica._machine._on_gap(replica._machine._seen + 2)
            assert replica.state is not None

    run(main())


@pytest.mark.parametrize("less", [0, 1])
def test_a_replica_that_comes_to_others_with_no_longer_a_history_takes_their_state(less: int) -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as nodes:
            first, second = await _archives(nodes, 2)
            while first.applied != second.applied:
                await asyncio.sleep(0)
            for page in [] if second.state is None else [second.state.pages]:
                page.append(b"of another history")
            second._machine._on_gap(second.applied - less)
            assert second.state is None
            assert await second.call(Archive.touch) == 1
            assert [replica.state for replica in (first, second)] == [Archive(_pages(2), 1)] * 2

    run(main())


def test_a_state_that_is_damaged_or_cannot_be_kept_is_given_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_state(tmp_path, "x", b"content")
    assert read_state(tmp_path, "x") == b"content"
    assert read_state(tmp_path, "y") is None
    (path,) = (tmp_path / "states").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    assert read_state(tmp_path, "x") is None

    async def main() -> None:
        async with open_nodes(make_configuration("a", log_directory=str(tmp_path / "log"))) as (a,):
            (tmp_path / "log" / "a" / "states").write_text("a file in the place of the folder")
            a.internals.engine.journal.keep_state("x", b"")
            assert "cannot keep the state of x" in caplog.text

    run(main())


# ------------------------------------------------------------------ packing
@dataclass
class Parts:
    """Of every kind."""

    number: int
    table: dict[Any, Any] = field(default_factory=dict)
    rows: list[Any] = field(default_factory=list)
    blob: bytes = b""
    other: Any = None


class Renamed(msgspec.Struct, rename="camel"):
    some_name: list[int]


class Tagged(msgspec.Struct, tag=True):
    rows: list[int]


PACKED = [
    Parts(1),
    Parts(1, {index: str(index) for index in range(70_000)}, [b"x" * 10] * 70_000, b"z" * 1_000_000, {1, 2}),
    Parts(2, {"deep": {"deeper": list(range(3_000))}}, [(1, [2] * 1_500)] * 1_200),
    Renamed(list(range(5_000))),
    Tagged(list(range(5_000))),
    Parts(3, rows=[Renamed([1])] * 1_001),
    5,
]


@pytest.mark.parametrize("value", PACKED, ids=range(len(PACKED)))
def test_a_state_that_is_packed_in_steps_is_the_same_as_in_one_go(value: Any) -> None:
    assert b"".join(encode_steps(value)) == msgspec.msgpack.encode(value)


def test_chunks_are_all_of_one_size_but_the_last() -> None:
    pieces = [b"a" * 10, b"b" * (3 * CHUNK_BYTES), b"c" * CHUNK_BYTES, b"", b"d"]
    chunks = list(recut(pieces))
    assert b"".join(chunks) == b"".join(pieces)
    assert [len(chunk) for chunk in chunks] == [CHUNK_BYTES] * 4 + [11]


def test_a_state_that_is_packed_stands_still_and_calls_wait_until_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the asker gets a state that never was."""
    monkeypatch.setattr(replica_packing, "TURN_SECONDS", 0.0)

    async def main() -> None:
        async with open_nodes(make_configuration("abc")) as nodes:
            replicas = await _archives(nodes, 300)
            await asyncio.gather(*(replica.call(Archive.touch) for replica in replicas))
            first, second, third = replicas
            await _miss(nodes[2], first)
            await _miss(nodes[1], first)
            calls = [asyncio.ensure_future(first.call(Archive.touch)) for _ in range(50)]
            while not calls[-1].done():
                if first._machine._packing is not None:
                    first._machine._take_snapshot()  # a log that is cut short just now
                await asyncio.sleep(0)
            writes = await third.call(Archive.touch)
            assert await second.call(Archive.touch) == writes + 1
            for replica in replicas:
                while replica.state != Archive(_pages(300), writes + 1):
                    await asyncio.sleep(0)

    run(main())
