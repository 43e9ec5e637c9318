"""Who puts items into a queue, and who works on them."""

from __future__ import annotations

import asyncio

from ordercast.blocks import Queue
from ordercast.chaos.tenants.tenant import LEASE_SECONDS, NO_ANSWER, PATIENCE_SECONDS, Tenant
from ordercast.chaos.worker import wait

ITEMS_WAITING_MAX = 50
"""Then nobody puts more: what is judged is who gets them."""

SLOW_SHARE = 0.05
"""Of the items, those on which somebody works for longer than its lease."""


async def work(tenant: Tenant) -> None:
    """Both, and in the end what is left."""
    queue = tenant.shared.queue("queue", str, lease=LEASE_SECONDS)
    await asyncio.gather(_fill(tenant, queue), _empty(tenant, queue))


async def _fill(tenant: Tenant, queue: Queue[str]) -> None:
    random = tenant.random("queue")
    while await tenant.pause(random, tenant.work.rate):
        if len(queue) < ITEMS_WAITING_MAX:
            try:
                number = await queue.put(tenant.work.process)
            except NO_ANSWER:
                await tenant.rest()
            else:
                tenant.write("queue", "put", number)


async def _empty(tenant: Tenant, queue: Queue[str]) -> None:
    random = tenant.random("work")
    while not tenant.no_more.is_set():
        try:
            job = await queue.get(PATIENCE_SECONDS)
        except NO_ANSWER:
            await tenant.rest()
            continue
        tenant.write("queue", "given", job.number, job.attempt)
        await wait(tenant.no_more, 1.5 * LEASE_SECONDS if random.random() < SLOW_SHARE else 0.0)
        tenant.write("queue", "finishing", job.number, job.attempt)
        try:
            is_done = await job.done()
        except NO_ANSWER:
            await tenant.rest()
        else:
            tenant.write("queue", "done" if is_done else "late", job.number, job.attempt)
