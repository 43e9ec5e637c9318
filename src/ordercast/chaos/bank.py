"""The bank of the demonstration: branches multicast orders, main computers keep ledgers, all keep the table of rates.

What an order does depends on its place in the sequence: a withdrawal is refused when the balance does not suffice, and
interest is paid at the rate of the moment. Ledgers that see another sequence show other balances.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import msgspec

from ordercast.core import GroupId, SiteId

MAIN_COMPUTERS: tuple[SiteId, ...] = ("main-1", "main-2", "main-3")
BRANCHES: tuple[SiteId, ...] = ("branch-1", "branch-2", "branch-3")
GROUPS: dict[GroupId, tuple[SiteId, ...]] = {
    "accounts": MAIN_COMPUTERS,
    "rates": (*MAIN_COMPUTERS, *BRANCHES),
}
ACCOUNTS: tuple[str, ...] = ("ada", "ben", "cleo", "dora", "emil", "flo")

ORDERS_PER_SECOND = 12.0
"""Of each branch."""


INTEREST_MAX = 1 << 53
"""Balances above this bear none. (Else: after some ten thousand orders, of which each twentieth pays interest, a
balance has more digits than a snapshot of the books can hold.)"""


class Order(msgspec.Struct, frozen=True):
    """What a branch multicasts, and when."""

    time: float
    branch: SiteId
    groups: tuple[GroupId, ...]
    text: str


class Ledger(msgspec.Struct):
    """The books of one site. Amounts are in cents, rates in hundredths of a percent."""

    balances: dict[str, int] = msgspec.field(default_factory=lambda: dict.fromkeys(ACCOUNTS, 0))
    rate: int = 100
    applied: int = 0
    refused: int = 0

    def apply(self, order: str) -> None:
        """Do what an order says."""
        self.applied += 1
        match order.split():
            case ["deposit", account, cents]:
                self.balances[account] += int(cents)
            case ["withdraw", account, cents]:
                self._take(account, int(cents))
            case ["transfer", account, other, cents]:
                if self._take(account, int(cents)):
                    self.balances[other] += int(cents)
            case ["interest"]:
                for account, balance in self.balances.items():
                    if balance < INTEREST_MAX:
                        self.balances[account] = balance + balance * self.rate // 10_000
            case ["rate", hundredths]:
                self.rate = int(hundredths)
            case _:
                raise ValueError(f"no such order: {order!r}")

    def _take(self, account: str, cents: int) -> bool:
        if self.balances[account] < cents:
            self.refused += 1
            return False
        self.balances[account] -= cents
        return True


def make_orders(random: Random, seconds: float) -> Iterator[Order]:
    """The orders of a day, of all branches, in no particular order of time."""
    for branch in BRANCHES:
        time = random.expovariate(ORDERS_PER_SECOND)
        while time < seconds:
            groups, text = draw_order(random)
            yield Order(time, branch, groups, text)
            time += random.expovariate(ORDERS_PER_SECOND)


def draw_order(random: Random) -> tuple[tuple[GroupId, ...], str]:
    """What a customer wants next."""
    first, second = random.sample(ACCOUNTS, 2)
    cents = random.randrange(1_00, 500_00)
    kind = random.random()
    if kind < 0.35:
        return ("accounts",), f"deposit {first} {cents}"
    if kind < 0.65:
        return ("accounts",), f"withdraw {first} {cents}"
    if kind < 0.90:
        return ("accounts",), f"transfer {first} {second} {cents}"
    if kind < 0.95:
        return ("accounts",), "interest"
    return ("rates",), f"rate {random.randrange(50, 400)}"
