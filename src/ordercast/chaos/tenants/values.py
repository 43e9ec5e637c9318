"""Who changes a key of a map by compare-and-set, who watches it, and who adds to a counter.

Every change is by one, so a value says which change it is: nobody else may have made it, and whoever watches sees all
of them, one after the other.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from ordercast.blocks import Counter, Map
from ordercast.chaos.tenants.tenant import NO_ANSWER, Tenant

KEY = "count"

RATE_SHARE = 0.1
"""Of the rate of a process, for each of what it does here: all of them wait for the same key."""

READ_SHARE = 0.3
"""Of what is done to a counter, that only asks for its value."""


async def change_map(tenant: Tenant) -> None:
    """Change the key, and watch it meanwhile."""
    content = tenant.shared.map("map", int)
    watching = asyncio.create_task(_watch(tenant, content))
    try:
        await asyncio.gather(_swap(tenant, content), _read(tenant, content))
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def _swap(tenant: Tenant, content: Map[int]) -> None:
    random = tenant.random("map")
    while await tenant.pause(random, RATE_SHARE * tenant.work.rate):
        call = tenant.next_number()
        try:
            entry = await content.entry(KEY)
            value, version = (0, 0) if entry is None else (entry.value, entry.version)
            tenant.write("map", "changing", value + 1, call)
            is_set = await content.compare_and_set(KEY, value + 1, version)
        except NO_ANSWER:
            await tenant.rest()
        else:
            tenant.write("map", "changed" if is_set else "late", value + 1, call)


async def _read(tenant: Tenant, content: Map[int]) -> None:
    random = tenant.random("reading")
    while await tenant.pause(random, READ_SHARE * RATE_SHARE * tenant.work.rate):
        call = tenant.next_number()
        tenant.write("map", "reading", 0, call)
        try:
            value = await content.get(KEY, linearizable=True)
        except NO_ANSWER:
            await tenant.rest()
        else:
            tenant.write("map", "read", value or 0, call)


async def _watch(tenant: Tenant, content: Map[int]) -> None:
    since: int | None = None
    while True:
        try:
            async for change in content.watch(KEY, since):
                since = change.version
                tenant.write("map", "seen", change.value or 0)
            return
        except NO_ANSWER:
            await tenant.rest()


async def count(tenant: Tenant) -> None:
    """Add to the counter, and ask for its value."""
    counter, random = tenant.shared.counter("counter"), tenant.random("counter")
    while await tenant.pause(random, RATE_SHARE * tenant.work.rate):
        reads = random.random() < READ_SHARE
        try:
            await (_ask_for(tenant, counter) if reads else _add(tenant, counter))
        except NO_ANSWER:
            await tenant.rest()


async def _ask_for(tenant: Tenant, counter: Counter) -> None:
    call = tenant.next_number()
    tenant.write("counter", "reading", 0, call)
    tenant.write("counter", "read", await counter.value(linearizable=True), call)


async def _add(tenant: Tenant, counter: Counter) -> None:
    call = tenant.next_number()
    tenant.write("counter", "changing", 0, call)
    tenant.write("counter", "changed", await counter.add(), call)
