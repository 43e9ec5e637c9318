"""What a client that sends at full rate has under way, and how it hears of it."""

from __future__ import annotations

import asyncio
from typing import Any

from ordercast.client.outgoing import BYTES_A_SECOND, UNDER_WAY_BYTES_MIN, Outgoing
from ordercast.node.bundles import encode_bundle
from ordercast.node.serving.packets import (
    ANSWERS_MAX,
    RUN_BYTES_MAX,
    UNDER_WAY_MAX,
    Hello,
    Ordered,
    Request,
    Send,
    Several,
    decode_answer,
    encode,
)
from ordercast.node.serving.server import READ_BYTES
from ordercast.node.serving.session import FULL_RATE_BYTES
from ordercast.node.serving.turns import Turn
from tests.client.test_client import stalled_session
from tests.node.cluster import run


class MovedClock:
    """The loop of a test, whose clock the test moves."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.ahead = 0.0

    def time(self) -> float:
        return self._loop.time() + self.ahead

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


def test_less_is_under_way_through_a_member_that_is_near() -> None:
    def sent_through(seconds: float) -> int:
        """How many runs are under way behind one that was ordered after so long."""
        said: list[Request] = []

        def say(request: Request) -> bool:
            said.append(request)
            return True

        out, clock = Outgoing(say), MovedClock()
        out._loop = clock  # type: ignore[assignment]
        out.send_again(1 << 20)
        out.add("g", b"first")
        out.flush()
        clock.ahead = seconds
        out.on_ordered(Ordered("g", 1, 0, "", False))
        for _ in range(2 * UNDER_WAY_MAX):
            out.add("g", bytes(RUN_BYTES_MAX - 100))
            out.flush()
        return len(said) - 1

    async def main() -> None:
        for seconds, wanted in ((0.0, UNDER_WAY_BYTES_MIN), (0.02, BYTES_A_SECOND * 0.02)):
            assert wanted <= sent_through(seconds) * RUN_BYTES_MAX < wanted + 2 * RUN_BYTES_MAX
        assert sent_through(0.1) == UNDER_WAY_MAX
        assert ANSWERS_MAX * RUN_BYTES_MAX < READ_BYTES

    run(main())


def test_answers_to_full_runs_leave_together_and_nobody_else_waits() -> None:
    async def main() -> None:
        async with stalled_session() as (node, session, stream):
            written: list[bytes] = []
            assert session._transport is not None
            session._transport.write = written.append  # type: ignore[method-assign,assignment]
            session.data_received(stream.seal(encode(Hello("c"))))

            async def answers(first: int, count: int, size: int) -> int:
                """In how many pieces so many runs are answered."""
                written.clear()
                packed = memoryview(encode_bundle([bytes(size)]))
                requests = [Send("g", number, 1, packed) for number in range(first, first + count)]
                session.data_received(b"".join(stream.seal(encode(each)) for each in requests))
                async with asyncio.timeout(5.0):
                    while session._under_way:
                        await asyncio.sleep(0)
                assert node.status()["offsets"]["g"] == first + count - 1
                assert not session._answers
                return len(written)

            assert await answers(1, 4, FULL_RATE_BYTES) == 1
            (record,) = stream.receive(written[0])
            answer = decode_answer(record)
            assert isinstance(answer, Several)
            assert [each.number for each in answer.those] == [1, 2, 3, 4]
            assert await answers(5, 4, 100) == 4

    run(main())


def test_runs_that_have_come_together_wait_for_room_together() -> None:
    async def main() -> None:
        async with stalled_session() as (node, session, stream):
            waited: list[Turn] = []
            server, wait_for_room = session._server, session._server.wait_for_room

            def count(group: str, turn: Turn) -> None:
                waited.append(turn)
                wait_for_room(group, turn)

            server.wait_for_room = count  # type: ignore[method-assign]
            sender = session._internals.sender
            sender.on_credit(0)
            packed = memoryview(encode_bundle([bytes(RUN_BYTES_MAX - 100)]))
            requests = [Hello("c"), *(Send("g", number, 1, packed) for number in range(1, 41))]
            came = b"".join(stream.seal(encode(each)) for each in requests)
            for at in range(0, len(came), READ_BYTES):
                piece = came[at : at + READ_BYTES]
                session.get_buffer(-1)[: len(piece)] = piece
                session.buffer_updated(len(piece))
            assert len(waited) == 1
            sender.on_credit(8)
            async with asyncio.timeout(5.0):
                while session._under_way:
                    await asyncio.sleep(0)
            assert node.status()["offsets"]["g"] == 40
            assert len(waited) < 10

    run(main())
