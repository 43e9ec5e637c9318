"""After the mutants: a table of who was caught by what."""

from __future__ import annotations

from statistics import median

import pytest

from tests.mutants.registry import CAUGHT


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not CAUGHT or terminalreporter.config.getoption("markexpr") != "mutants":
        return
    terminalreporter.section("mutants")
    terminalreporter.line(f"{'mutant':<58} {'seeds':>5}  caught by")
    for name, (properties, seeds) in CAUGHT.items():
        terminalreporter.line(f"{name:<58} {seeds:>5}  {properties}")
    terminalreporter.line(f"{len(CAUGHT)} caught; median {median(seeds for _, seeds in CAUGHT.values()):g} seeds")
