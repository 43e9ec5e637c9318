"""Witnesses that several judges call."""

from __future__ import annotations

from ordercast.check.facts import Facts
from ordercast.check.facts.inversions import Inversion
from ordercast.check.verdict import Witness


def inversion_witnesses(facts: Facts, found: list[Inversion]) -> list[Witness]:
    """Two sites that deliver two messages in different orders."""
    why = "{0} delivers {a} before {b}, {1} delivers {b} before {a}"
    return [facts.witness(inversion.sites, inversion.messages, why) for inversion in found]


def repeated(facts: Facts, row: int) -> Witness:
    """The witness for a delivery that is not the first."""
    columns = facts.columns
    return facts.witness((columns.site[row],), (columns.message[row],), "{0} delivers {a} more than once")
