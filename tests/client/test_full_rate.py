"""What a client that sends at full rate has under way, and how it hears of it."""

from __future__ import annotations

import asyncio
from typing import Any

from ordercast.client.outgoing import UNDER_WAY_NEAR_BYTES, Outgoing
from ordercast.node.bundles import encode_bundle
from ordercast.node.serving.packets import RUN_BYTES_MAX, UNDER_WAY_MAX, Hello, Ordered, Request, Send, encode
from ordercast.node.serving.session import FULL_RATE_BYTES
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
        near = sent_through(0.0)
        assert UNDER_WAY_NEAR_BYTES <= near * RUN_BYTES_MAX < 2 * UNDER_WAY_NEAR_BYTES
        assert sent_through(0.1) == UNDER_WAY_MAX

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
            assert await answers(5, 4, 100) == 4

    run(main())
