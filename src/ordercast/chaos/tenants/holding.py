"""Who holds a lock and writes to what it protects, and who leads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from ordercast.chaos.tenants.tenant import LEASE_SECONDS, NO_ANSWER, PATIENCE_SECONDS, Tenant
from ordercast.chaos.worker import wait
from ordercast.trace.uses import Block

USE_SECONDS = 0.02
"""Between two looks whether it is still held."""

HOLD_SECONDS = 0.4
"""On average: some hold for longer than a lease, and renew it."""


async def hold(tenant: Tenant) -> None:
    """Hold the lock again and again, and write with its fencing number."""
    lock = tenant.shared.lock("lock", lease=LEASE_SECONDS)
    while not tenant.no_more.is_set():
        try:
            fence = await lock.acquire(PATIENCE_SECONDS)
        except NO_ANSWER:
            await tenant.rest()
            continue
        await _use(tenant, "lock", fence, lambda: lock.is_held, lock.lost)
        with suppress(*NO_ANSWER):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await lock.release()


async def lead(tenant: Tenant) -> None:
    """Lead again and again."""
    election = tenant.shared.election("election", lease=LEASE_SECONDS)
    while not tenant.no_more.is_set():
        try:
            term = await election.win(PATIENCE_SECONDS)
        except NO_ANSWER:
            await tenant.rest()
            continue
        await _use(tenant, "election", term, lambda: election.is_leader, election.lost)
        with suppress(*NO_ANSWER):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await election.resign()


async def _use(tenant: Tenant, block: Block, number: int, is_held: Callable[[], bool], lost: asyncio.Event) -> None:
    until = time.monotonic() + tenant.random(f"{block} {number}").expovariate(1 / HOLD_SECONDS)
    while not (tenant.no_more.is_set() or lost.is_set()) and time.monotonic() < until:
        # The clock is read first: who is stopped behind the question has held it at that time all the same.
        now = time.monotonic()
        if is_held():
            tenant.write(block, "held", number, at=now)
        if block == "lock":
            # Without asking again: whoever is stopped between asking and writing does just that.
            _write(tenant, number)
        await wait(tenant.no_more, USE_SECONDS)


def _write(tenant: Tenant, fence: int) -> None:
    written = tenant.register.write(fence)
    if written is not None:
        is_taken, place = written
        tenant.refused += not is_taken
        tenant.write("register", "written" if is_taken else "refused", fence, place)
