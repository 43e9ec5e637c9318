"""The terminal, or the pipe, to which commands speak."""

from __future__ import annotations

import sys

from rich.console import Console

PIPE_WIDTH = 120
"""Wide enough for a table not to break."""


def make_console() -> Console:
    """For people, on standard output."""
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)
