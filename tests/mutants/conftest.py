"""After the mutants: a table of who was caught by what."""

from __future__ import annotations

import json
import os
from statistics import median

import pytest

from tests.mutants.registry import CAUGHT, KNOWN_SEEDS, MUTANTS, REWRITE_SEEDS, SEEDS_FILE, SHOWN


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not CAUGHT or terminalreporter.config.getoption("markexpr") != "mutants":
        return
    if os.environ.get(REWRITE_SEEDS):
        known = KNOWN_SEEDS | SHOWN
        chosen = {name: known[name] for name in sorted(map(str, MUTANTS)) if name in known}
        SEEDS_FILE.write_text(json.dumps(chosen, indent=1) + "\n", encoding="utf-8")
    terminalreporter.section("mutants")
    terminalreporter.line(f"{'mutant':<58} {'seeds':>5}  caught by")
    for name, (properties, seeds) in CAUGHT.items():
        terminalreporter.line(f"{name:<58} {seeds:>5}  {properties}")
    terminalreporter.line(f"{len(CAUGHT)} caught; median {median(seeds for _, seeds in CAUGHT.values()):g} seeds")
