"""One user of building blocks under chaos: holds a lock and writes to what it protects, leads, works on a queue,
changes a map, counts, and asks the others.

`python -m ordercast.chaos.blocks_worker WORK`, as in `ordercast.chaos.worker`. What it does with the blocks it writes
down (`ordercast.trace.uses`), and nothing here judges it.
"""

from __future__ import annotations

import asyncio
import hashlib
import signal
from pathlib import Path

import msgspec

import ordercast
from ordercast.blocks import Shared
from ordercast.blocks.state import State
from ordercast.chaos.tenants import LIVES, Tenant
from ordercast.chaos.tenants.tenant import PATIENCE_SECONDS
from ordercast.chaos.tenants.values import KEY
from ordercast.chaos.worker import Work, run_worker


def write_result(tenant: Tenant) -> None:
    """What a process has in the end; the same as all others."""
    state = tenant.shared.replica.state
    if state is None:
        raise ordercast.UsageError("no other process has given its blocks")
    line = state.queues.get("queue")
    _write_left(tenant, state)
    digest = hashlib.sha256(msgspec.msgpack.encode(state)).digest()
    changes = state.fences + state.revision + sum(state.counters.values()) + (0 if line is None else line.next)
    document = {
        "process": tenant.work.process,
        "blocked": tenant.blocked,
        "digest": int.from_bytes(digest[:7]),
        "gathered": int.from_bytes(digest[:7]),
        "ledger": {"applied": changes, "refused": tenant.refused},
    }
    (Path(tenant.work.folder) / f"{tenant.work.process}.json").write_bytes(msgspec.json.encode(document))


def _write_left(tenant: Tenant, state: State) -> None:
    line = state.queues.get("queue")
    for number in () if line is None else (*line.waiting, *line.given):
        tenant.write("queue", "left", number)
    stored = state.maps.get("map", {}).get(KEY)
    if stored is not None:
        tenant.write("map", "left", msgspec.msgpack.decode(stored.value, type=int))
    if "counter" in state.counters:
        tenant.write("counter", "left", state.counters["counter"])


async def _main(work: Work) -> None:
    loop = asyncio.get_running_loop()
    stop, no_more = asyncio.Event(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, lambda: None)  # Ctrl-C is for whoever started us, and ends us in good order
    loop.add_signal_handler(signal.SIGUSR1, no_more.set)
    async with ordercast.open(work.config, work.process) as node:
        shared, name = Shared(timeout=PATIENCE_SECONDS), next(iter(node.groups))

        async def live() -> Tenant:
            await shared.join(node, name)
            tenant = Tenant(shared, len(node.members(name)), work, no_more)
            await asyncio.gather(*(LIVES[block](tenant) for block in work.blocks or LIVES))
            return tenant

        living = asyncio.create_task(live())
        ended = asyncio.create_task(node.wait_failed())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((ended, stopping), return_when=asyncio.FIRST_COMPLETED)
        no_more.set()
        if ended.done():
            living.cancel()
            ended.result()
        ended.cancel()
        async with asyncio.timeout(3 * PATIENCE_SECONDS):
            write_result(await living)


if __name__ == "__main__":
    run_worker(_main)
