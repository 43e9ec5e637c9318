"""The books of one process under chaos: what the orders did, which ones, in which order, and whether each came once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ordercast.chaos.bank import Ledger
from ordercast.core import GroupId, SiteId
from ordercast.core.intervals import IntervalSet

DOUBLED_MAX = 100
"""Orders that are named as applied twice; whoever has more has seen enough."""

MODULUS = 1 << 61


class Books(msgspec.Struct):
    """What survives: a snapshot of it stands for everything that the log has dropped."""

    ledger: Ledger = msgspec.field(default_factory=Ledger)
    digest: int = 0
    """Of all orders in the order in which they were applied."""
    gathered: int = 0
    """Of all orders, in whatever order."""
    applied: dict[str, list[tuple[int, int]]] = msgspec.field(default_factory=dict)
    """Who gave them, and in which start -> their numbers, as closed intervals: a million orders take no more room than
    one."""
    doubled: list[str] = msgspec.field(default_factory=list)
    """Orders that were applied twice."""
    skipped: int = 0
    """Messages that are no orders."""

    def apply(self, order: str) -> None:
        """One order, at its place."""
        text, _, name = order.partition(" | ")
        giver, _, number = name.rpartition(".")
        if not giver or not number.isdecimal():
            # Counted, and nothing else: it came at its place like an order, and whoever wrote it is no branch.
            self.skipped += 1
            return
        self._note(giver, int(number), name)
        self.ledger.apply(text)
        # A polynomial of what was applied so far: other orders, or the same in another order, give another number.
        value = hash_of(order)
        self.digest = (self.digest * 1_000_003 + value) % MODULUS
        self.gathered = (self.gathered + value) % MODULUS

    def _note(self, giver: str, number: int, name: str) -> None:
        intervals = self.applied.setdefault(giver, [])
        if intervals and intervals[-1][1] == number - 1:
            intervals[-1] = (intervals[-1][0], number)
            return
        numbers = IntervalSet(intervals)
        if not numbers.add(number) and len(self.doubled) < DOUBLED_MAX:
            self.doubled.append(name)
        self.applied[giver] = list(numbers.intervals())


class Kept(msgspec.Struct, frozen=True):
    """Books that a process has written in the end."""

    process: SiteId
    groups: tuple[GroupId, ...]
    """Whose orders are in them."""
    books: Mapping[str, Any]
    several: bool
    """Whether the process keeps others, too."""

    @property
    def name(self) -> str:
        """Whose books they are."""
        return f"{self.process} for {self.groups[0]}" if self.several else self.process


def find_kept(results: Mapping[SiteId, Mapping[str, Any]], groups: Mapping[GroupId, tuple[SiteId, ...]]) -> list[Kept]:
    """Of all processes: those of each group, where they keep them apart, or of all groups of theirs."""
    found = []
    for site, result in results.items():
        if "books" in result:
            found += [Kept(site, (group,), books, True) for group, books in result["books"].items()]
        else:
            own = tuple(sorted(group for group, members in groups.items() if site in members))
            found.append(Kept(site, own, result, False))
    return found


def order_name(process: str, start: int, number: int) -> str:
    """What an order is called: no other has that name, whatever a process has forgotten of its earlier starts."""
    return f"{process}.{start}.{number}"


def hash_of(order: str) -> int:
    """The same in every process, unlike `hash`."""
    return int.from_bytes(order.encode()[-24:]) % MODULUS
