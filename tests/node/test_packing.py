"""Bytes of a state, made in turns of the event loop."""

from __future__ import annotations

import asyncio

from ordercast.node.replica_packing import Packing, encode_steps


def test_a_state_that_has_no_bytes_is_told_of_and_nobody_waits_for_it() -> None:
    async def pack(value: object) -> tuple[list[list[bytes] | None], list[BaseException]]:
        done: list[list[bytes] | None] = []
        failed: list[BaseException] = []
        over = asyncio.Event()

        def on_done(content: list[bytes] | None) -> None:
            done.append(content)
            over.set()

        def on_failed(error: BaseException) -> None:
            failed.append(error)
            over.set()

        Packing(value, on_done, encode_steps, on_failed)
        await asyncio.wait_for(over.wait(), 10)
        return done, failed

    done, failed = asyncio.run(pack({"balance": 1 << 64}))
    assert done == []
    assert [type(error) for error in failed] == [OverflowError]
    done, failed = asyncio.run(pack({"balance": 1}))
    assert (len(done), failed) == (1, [])
