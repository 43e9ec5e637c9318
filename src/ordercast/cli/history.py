"""`ordercast history`: what verify, measure and campaigns found at each commit, kept and compared."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.table import Table
from rich.text import Text

from ordercast import history as kept
from ordercast.cli.terminal import make_console
from ordercast.core import UsageError


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("history")(history)


def history(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table: a folder, made where there is none.")],
    before: Annotated[str | None, typer.Argument(metavar="BEFORE", help="Compare this commit …")] = None,
    after: Annotated[str | None, typer.Argument(metavar="AFTER", help="… with this one.")] = None,
    add: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Add what verify, measure or simulate --campaign printed; repeatable."),
    ] = None,
    commit: Annotated[
        str | None, typer.Option(metavar="C", help="Of what is added; else the commit that is checked out here.")
    ] = None,
    regression: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:PERCENT]",
            help="Exit with 1 when this, or what begins so, is significantly worse, by more than PERCENT; repeatable.",
        ),
    ] = None,
    table_format: Annotated[
        str, typer.Option(metavar="FORMAT", help="Of the table: parquet, or what else Spark has, such as delta.")
    ] = "parquet",
    everything: Annotated[bool, typer.Option("--all", help="Also what has not changed significantly.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> int:
    """Keep verdicts, measures and campaign results in a table by commit, and tell what changed between two commits.

    A change is significant when its bootstrap interval (95 %) leaves out no change at all; it takes at least two values
    of each commit: two runs, or the same run added twice.

    Example: ordercast history results v0.4 HEAD~0 --regression latency.p99:10 --regression verdict
    """
    if (before is None) != (after is None):
        raise UsageError("two commits are compared: BEFORE and AFTER")
    if regression and after is None:
        raise UsageError("--regression asks what has become worse between two commits: BEFORE and AFTER")
    asked = [_read_regression(text) for text in regression or ()]
    place = _Table(table, table_format)
    if add:
        known = commit or _commit_here()
        now = datetime.now(UTC)
        place.append([row for file in add for row in _read_rows(file, known, now)])
    if before is None or after is None:
        return _show_commits(place.read(), as_json)
    changes = kept.compare(place.read(), before, after)
    for each in asked:
        each.check(changes)
    regressions = [change for change in changes if any(each.is_seen_in(change) for each in asked)]
    _show_changes(changes, regressions, everything, as_json)
    return 1 if regressions else 0


@dataclass(frozen=True)
class _Regression:
    name: str
    share: float

    def check(self, changes: Sequence[kept.Change]) -> None:
        """`UsageError` where nothing is called so: a name that is misspelt would never be worse."""
        if not any(map(self._is_about, changes)):
            names = sorted({change.name for change in changes})
            groups = sorted({name.partition(".")[0] for name in names})
            near = get_close_matches(self.name, [*names, *groups], 1, cutoff=0.0)
            raise UsageError(
                f"--regression: nothing that is compared is called {self.name!r}; the nearest is {near[0]!r}"
            )

    def is_seen_in(self, change: kept.Change) -> bool:
        return self._is_about(change) and change.is_worse_by(self.share)

    def _is_about(self, change: kept.Change) -> bool:
        return change.name == self.name or change.name.startswith(f"{self.name}.")


def _read_regression(text: str) -> _Regression:
    name, _, percent = text.partition(":")
    try:
        share = float(percent or 0) / 100
    except ValueError:
        share = math.nan
    if not 0 <= share < math.inf:
        raise UsageError(f"--regression: {percent!r} is not a number of percent, 0 or more")
    return _Regression(name, share)


@dataclass(frozen=True)
class _Table:
    path: str
    form: str

    def append(self, rows: Sequence[dict[str, Any]]) -> None:
        if self.form == "parquet":
            kept.append(self.path, rows)
            return
        from ordercast.spark.history import append_rows
        from ordercast.spark.session import BRIEF, open_session

        with open_session("history", None, BRIEF) as spark:
            append_rows(spark, self.path, rows, self.form)

    def read(self) -> pa.Table:
        if self.form == "parquet":
            return kept.read(self.path)
        from ordercast.spark.history import read_rows
        from ordercast.spark.session import BRIEF, open_session

        with open_session("history", None, BRIEF) as spark:
            return read_rows(spark, self.path, self.form)


def _commit_here() -> str:
    try:
        said = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError("--commit: say which commit these results are of; this folder is not in git") from error
    return said.stdout.strip()


def _read_json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{file}: is not JSON: {error}") from error


def _read_rows(file: Path, commit: str, time: datetime) -> list[dict[str, Any]]:
    document = _read_json(file)
    try:
        return kept.rows_of(document, commit, time)
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from error


def _show_commits(table: pa.Table, as_json: bool) -> int:
    commits: dict[str, dict[str, Any]] = {}
    for row in table.to_pylist():
        of = commits.setdefault(row["commit"], {"first": row["time"], "values": 0})
        of["last"], of["values"] = row["time"], of["values"] + 1
    if as_json:
        told = {name: {**of, "first": str(of["first"]), "last": str(of["last"])} for name, of in commits.items()}
        print(json.dumps({"commits": told}, indent=2))
        return 0
    shown = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    for heading in ("commit", "added", "values"):
        shown.add_column(heading, justify="right" if heading == "values" else "left")
    for name, of in commits.items():
        shown.add_row(Text(name, "bold"), f"{of['last']:%Y-%m-%d %H:%M}", f"{of['values']:,}")
    make_console().print(shown)
    return 0


def _show_changes(
    changes: Sequence[kept.Change], regressions: Sequence[kept.Change], everything: bool, as_json: bool
) -> None:
    if as_json:
        fields = [change._asdict() | {"significant": change.significant} for change in changes]
        names = [[change.name, change.of] for change in regressions]
        print(json.dumps({"changes": _without_nan(fields), "regressions": names}, indent=2))
        return
    console = make_console()
    shown = Table(box=None, padding=(0, 3, 0, 0), header_style="dim")
    for heading in ("what", "of", "before", "after", "change", "95 %"):
        shown.add_column(heading, justify="left" if heading in ("what", "of") else "right")
    told = [change for change in changes if everything or change.significant or change in regressions]
    for change in told:
        interval = "one value" if not change.has_interval else f"{change.low:+.1%} … {change.high:+.1%}"
        worse = change in regressions
        shown.add_row(
            Text(change.name, "bold red" if worse else "bold" if change.significant else ""),
            change.of,
            f"{change.before:.4g}",
            f"{change.after:.4g}",
            f"{change.change:+.1%}",
            interval,
        )
    if told:
        console.print(shown)
    quiet = [change for change in changes if change not in told]
    single = sum(not change.has_interval for change in quiet)
    if len(quiet) > single:
        console.print(Text(f"{len(quiet) - single:,} of {len(changes):,} have not changed significantly", "dim"))
    if single:
        console.print(
            Text(
                f"{single:,} of {len(changes):,} have one value in a commit, which says nothing: add several runs",
                "dim",
            )
        )
    if regressions:
        console.print(Text(f"{len(regressions):,} regressions that were asked for", "bold red"))


def _without_nan(fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """JSON knows no NaN."""
    return [{name: None if value != value else value for name, value in each.items()} for each in fields]
