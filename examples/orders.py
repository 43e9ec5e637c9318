"""Orders with a type, and a billing that goes on where it was when its process is killed.

`ordercast config new orders.toml`, then `python orders.py orders.toml NAME` for each process in it."""

import asyncio
import sys

import msgspec

import ordercast


class Order(msgspec.Struct, frozen=True):
    article: str
    count: int


async def bill(orders: ordercast.TypedGroup[Order]) -> None:
    async for delivery in orders.consume("billing"):
        order = delivery.value
        print(f"{delivery.offset}: {order.count} x {order.article}" + (" (again)" if delivery.replayed else ""))
        await delivery.done()


async def main(config: str, process: str) -> None:
    async with ordercast.open(config, process) as node:
        orders = await node.join("everyone", type=Order)
        billing = asyncio.create_task(bill(orders))
        while line := await asyncio.to_thread(input, "ARTICLE COUNT > "):
            article, _, count = line.partition(" ")
            receipt = await orders.multicast(Order(article, int(count)), confirm=True)
            print("ordered at", receipt.offset)
        billing.cancel()


if __name__ == "__main__":
    ordercast.run(main(*sys.argv[1:]))
