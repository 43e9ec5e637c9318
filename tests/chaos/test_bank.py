"""The bank under chaos: its books stay what a snapshot can hold."""

from __future__ import annotations

from random import Random

from ordercast.chaos.bank import INTEREST_MAX, draw_order
from ordercast.chaos.books import Books
from ordercast.core import encode


def test_the_books_can_be_written_however_many_orders_there_were() -> None:
    """Interest upon interest: without a bound, thirty thousand orders make balances of more than 64 bits."""
    random, books = Random(1), Books()
    for number in range(40_000):
        books.apply(f"{draw_order(random)[1]} | p1.0.{number}")
    assert max(books.ledger.balances.values()) > INTEREST_MAX / 2, "the bound was reached"
    assert encode(books)
