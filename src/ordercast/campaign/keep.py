"""The traces of failing runs, for whoever wants to look at them with other tools."""

from __future__ import annotations

from pathlib import Path

from ordercast.campaign.campaign import Report
from ordercast.campaign.outcome import run_draw
from ordercast.core import StorageError
from ordercast.sim.scenario import dump_scenario
from ordercast.trace.write import TraceWriter

KEPT_MAX = 100
"""A broken protocol fails in every run; nobody reads more, and each is a megabyte at the most."""


def keep_failures(report: Report, folder: Path) -> int:
    """Write the first failing runs by their names: `token-17/` is the trace, `token-17.toml` the scenario. How many it
    were.

    They are run again here, for a seed is the whole run: nothing but seeds had to come from wherever they failed.
    """
    kept = report.failing[:KEPT_MAX]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for outcome in kept:
            name = str(outcome.draw).replace(":", "-")
            if not (folder / name).exists():
                trial = run_draw(outcome.draw)
                (folder / f"{name}.toml").write_text(dump_scenario(trial.scenario), encoding="utf-8")
                with TraceWriter(folder / name) as writer:
                    writer.write(trial.run, trial.table)
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror or error}; name another folder with --keep") from error
    return len(kept)
