"""The memo of addresses: each is computed once, and there is a bound."""

from __future__ import annotations

import pytest

from ordercast.core import AddressMemo
from ordercast.core.memo import ADDRESSES_MAX


def test_what_follows_from_an_address_is_computed_once() -> None:
    made: list[object] = []

    def make(groups: tuple[str, ...], destinations: tuple[str, ...] | None) -> int:
        made.append((groups, destinations))
        return len(groups)

    memo = AddressMemo(make)
    assert [memo[("g", "h"), None], memo[("g", "h"), None], memo[(), ("a",)]] == [2, 2, 0]
    assert made == [(("g", "h"), None), ((), ("a",))]


def test_the_memo_is_bounded() -> None:
    memo = AddressMemo(lambda groups, _destinations: groups[0])
    for number in range(3 * ADDRESSES_MAX):
        memo[(f"g{number}",), None]
        assert len(memo) <= ADDRESSES_MAX


def test_an_address_that_makes_no_sense_is_not_remembered() -> None:
    memo = AddressMemo(lambda groups, _destinations: {"g": 1}[groups[0]])
    with pytest.raises(KeyError):
        memo[("nowhere",), None]
    assert len(memo) == 0
