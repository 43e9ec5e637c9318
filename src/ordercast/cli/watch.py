"""`ordercast watch`: the guarantees of a running cluster, looked after while it runs."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ordercast.core import UsageError
from ordercast.node.configuration import read_configuration
from ordercast.spark.session import open_session
from ordercast.spark.tasks import plain_errors
from ordercast.spark.watch import Outlets, begin_watch
from ordercast.trace.read import read_runs
from ordercast.watch import Alert, Settings

LOOK_SECONDS = 0.5
"""Between two looks whether the query has ended."""
FEW_PARTITIONS = {"spark.sql.shuffle.partitions": "2"}
"""There is one state a run, and traces of running clusters have one run."""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("watch")(watch)


def watch(
    trace: Annotated[
        str | None, typer.Argument(metavar="TRACE", help="A trace that is being written, or a folder of such traces.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Instead of TRACE: the cluster's configuration.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="DIR", help="Go on from here after a restart; else from the beginning.")
    ] = None,
    lag: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="How long a member may lack what others have.")
    ] = Settings().lag_seconds,
    interval: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="Between two looks at the trace.")] = 1.0,
    table: Annotated[str | None, typer.Option(metavar="TABLE", help="Add alerts to this table, too.")] = None,
    table_format: Annotated[
        str, typer.Option(metavar="FORMAT", help="Of the table: parquet, or what else Spark has, such as delta.")
    ] = "parquet",
    webhook: Annotated[str, typer.Option(metavar="URL", help="Send alerts there as JSON, too.")] = "",
    once: Annotated[bool, typer.Option("--once", help="Look at what there is now, and end.")] = False,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="On this Spark master; else ORDERCAST_MASTER, else this machine.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
) -> int:
    """Watch the traces of a running cluster, and tell of every violation of its order and of members that lag.

    Ends with Ctrl-C. Exit code 1 when there was an alert.

    Example: ordercast watch --config bank.toml --checkpoint watched
    """
    folder = _folder(trace, config)
    outlets = Outlets(_show_json if as_json else _show, table, table_format, webhook)
    runs = read_runs(folder)
    with (
        _checkpoint(checkpoint) as place,
        contextlib.suppress(KeyboardInterrupt),
        open_session("watch", master, FEW_PARTITIONS) as spark,
        plain_errors(),
    ):
        query = begin_watch(
            spark,
            folder,
            runs,
            Settings(lag_seconds=lag),
            outlets,
            checkpoint=place,
            interval_seconds=None if once else interval,
        )
        try:
            while not query.awaitTermination(LOOK_SECONDS):
                pass
        finally:
            query.stop()
    return int(outlets.alerts > 0)


def _folder(trace: str | None, config: Path | None) -> str:
    if (trace is None) == (config is None):
        raise UsageError("name the traces to watch: ordercast watch TRACE, or ordercast watch --config FILE")
    if trace is not None:
        return trace
    folder = read_configuration(str(config), os.environ, {}).trace_directory
    if folder is None:
        raise UsageError(f'{config} has no `trace_directory`, so nothing is traced: add trace_directory = "trace"')
    return str(folder)


@contextlib.contextmanager
def _checkpoint(chosen: str | None) -> Iterator[str]:
    if chosen is not None:
        yield str(Path(chosen).resolve())
        return
    with tempfile.TemporaryDirectory(prefix="ordercast-watch-", ignore_cleanup_errors=True) as folder:
        yield folder


def _show(alert: Alert) -> None:
    when = datetime.fromtimestamp(alert.time, UTC).isoformat(timespec="milliseconds")
    print(f"{when}  {alert.property}: {alert.why}", flush=True)


def _show_json(alert: Alert) -> None:
    print(json.dumps(msgspec.to_builtins(alert)), flush=True)
