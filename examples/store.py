"""A key-value store with locks and watches: `python store.py store.toml NAME` for each process of a configuration.

get KEY | set KEY VALUE | watch PREFIX | lock NAME | unlock NAME"""

import asyncio
import sys

import ordercast
from ordercast.blocks import Lock, Map


async def watch(store: Map[str], prefix: str) -> None:
    async for change in store.watch(prefix):
        print(change.key, "is removed" if change.value is None else f"= {change.value}", flush=True)


async def main(config: str, process: str) -> None:
    async with ordercast.open(config, process) as node:
        shared = await ordercast.Shared(timeout=10.0).join(node, "everyone")
        store, locks, watches = shared.map("store", str), dict[str, Lock](), list[asyncio.Task[None]]()
        while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
            try:
                match line.split(maxsplit=2):
                    case ["get", key]:
                        print(await store.get(key, linearizable=True), flush=True)
                    case ["set", key, value]:
                        print("version", await store.put(key, value), flush=True)
                    case ["watch", prefix]:
                        watches.append(asyncio.create_task(watch(store, prefix)))
                    case ["lock", name]:
                        print("fence", await locks.setdefault(name, shared.lock(name)).acquire(), flush=True)
                    case ["unlock", name]:
                        print("unlocked", await locks.pop(name).release(), flush=True)
            except (KeyError, TimeoutError, ordercast.OrdercastError) as error:
                print(error, flush=True)


if __name__ == "__main__":
    ordercast.run(main(*sys.argv[1:]))
