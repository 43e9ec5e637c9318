"""A process that keeps the example's bank replicated: calls until it is told to stop, and every answer written down."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import signal
import sys
import zlib
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec

import ordercast
from ordercast.chaos.worker import Work

EXAMPLE = Path(__file__).parents[2] / "examples" / "bank.py"


def load_example() -> Any:
    """The example as a module."""
    specification = importlib.util.spec_from_file_location("bank", EXAMPLE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules["bank"] = module
    specification.loader.exec_module(module)
    return module


async def _main(work: Work) -> None:
    bank = load_example().Bank
    loop = asyncio.get_running_loop()
    stop, no_more = asyncio.Event(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGUSR1, no_more.set)
    folder = Path(work.folder)
    async with ordercast.open(work.config, work.process) as node:
        replica = await ordercast.Replicated(bank()).join(node, "accounts")
        calling = asyncio.create_task(_call(replica, bank, work, node.incarnation, no_more))
        await stop.wait()
        no_more.set()
        await asyncio.wait((calling,), timeout=2)
        calling.cancel()
    assert replica.state is not None
    balances = dict(sorted(replica.state.balances.items()))
    digest = zlib.crc32(json.dumps(balances).encode())
    (folder / f"{work.process}.json").write_text(json.dumps({"digest": digest, "balances": balances}))


async def _call(replica: Any, bank: Any, work: Work, incarnation: int, no_more: asyncio.Event) -> None:
    """Each call deposits on an account of its own, so that a lost answer shows."""
    random = Random(f"{work.seed} {work.process} {incarnation}")
    number = 0
    with (Path(work.folder) / f"{work.process}.acknowledged").open("a") as answers:
        while not no_more.is_set():
            number += 1
            account = f"{work.process}.{incarnation}.{number}"
            try:
                amount = random.randrange(1, 1000)
                balance = await replica.call(bank.deposit, account, amount)
            except ordercast.OrdercastError:
                continue
            assert balance == amount
            answers.write(f"{account} {amount}\n")
            answers.flush()
            with suppress(TimeoutError):
                await asyncio.wait_for(no_more.wait(), random.expovariate(work.rate))


if __name__ == "__main__":
    the_work = msgspec.json.decode(sys.argv[1], type=Work)
    logging.basicConfig(filename=str(Path(the_work.folder) / f"{the_work.process}.log"), level=logging.INFO)
    ordercast.run(_main(the_work))
