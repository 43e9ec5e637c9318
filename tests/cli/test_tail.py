"""What `ordercast tail` shows of a payload."""

from __future__ import annotations

import pytest

from ordercast.cli.tail import printable


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        ("deposit 42 100", "deposit 42 100"),
        ("über 日本　€ 👍", "über 日本　€ 👍"),
        ("\x1b[31mred\x1b]0;title\x07", "\\x1b[31mred\\x1b]0;title\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("one\n       7  b  forged", "one\\n       7  b  forged"),
        ("back\rover\b\x7f\x00", "back\\rover\\x08\\x7f\\x00"),
        ("\u202eright to left\u2028", "\\u202eright to left\\u2028"),
        ("C:\\x1b", "C:\\x1b"),
    ],
)
def test_a_terminal_is_shown_what_it_would_obey(payload: str, shown: str) -> None:
    assert printable(payload) == shown
