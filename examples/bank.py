"""A replicated bank: `ordercast config new bank.toml`, then `python bank.py bank.toml NAME` for each process in it."""

import asyncio
import sys
from dataclasses import dataclass, field

import ordercast


@dataclass
class Bank:
    balances: dict[str, int] = field(default_factory=dict)

    def deposit(self, account: str, amount: int) -> int:
        self.balances[account] = self.balances.get(account, 0) + amount
        return self.balances[account]

    def transfer(self, source: str, target: str, amount: int) -> None:
        if self.balances.get(source, 0) < amount:
            raise ValueError(f"{source} has less than {amount}")
        self.deposit(source, -amount)
        self.deposit(target, amount)


async def main(config: str, process: str) -> None:
    async with ordercast.open(config, process) as node:
        bank = await ordercast.Replicated(Bank(), timeout=10.0).join(node, "everyone")
        while line := await asyncio.to_thread(input, "deposit ACCOUNT AMOUNT | transfer FROM TO AMOUNT | show > "):
            try:
                match line.split():
                    case ["deposit", account, amount]:
                        print(account, "has", await bank.call(Bank.deposit, account, int(amount)))
                    case ["transfer", source, target, amount]:
                        await bank.call(Bank.transfer, source, target, int(amount))
                    case _:
                        print(bank.state)
            except (ValueError, TimeoutError, ordercast.GroupBlocked) as error:
                print(error)


if __name__ == "__main__":
    ordercast.run(main(*sys.argv[1:]))
