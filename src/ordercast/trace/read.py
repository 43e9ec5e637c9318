"""Read traces of either format, and folders of traces; refuse what does not fit, in one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ordercast.core.errors import UsageError
from ordercast.trace.conform import conform
from ordercast.trace.json_lines import decode_lines, read_json_events
from ordercast.trace.schema import EVENTS, Run


def read_runs(folder: str | Path) -> list[Run]:
    """The runs of a trace folder, or of a folder of them, by name; runs that share a name are one."""
    merged: dict[str, Run] = {}
    for trace in _trace_folders(Path(folder)):
        path = trace / "runs.jsonl"
        for run in decode_lines(path, Run):
            merged[run.run] = _merge(merged[run.run], run, path) if run.run in merged else run
    if not merged:
        raise UsageError(f"{folder}: runs.jsonl is empty; a trace has at least one run")
    return [merged[name] for name in sorted(merged)]


def read_events(folder: str | Path) -> pa.Table:
    """All events, in the order of the files."""
    runs = {run.run for run in read_runs(folder)}
    tables = []
    for file in event_files(Path(folder)):
        table = _read_file(file)
        _check_run_names(table, runs, file)
        tables.append(table)
    return pa.concat_tables(tables)


def iterate_runs(folder: str | Path) -> Iterator[tuple[Run, pa.Table]]:
    """Run after run by name, each with its events; of a large trace only a file or two are in memory at a time."""
    runs = read_runs(folder)
    names = {run.run for run in runs}
    files = event_files(Path(folder))
    # Our own writer keeps a run in one file, but the processes of a live cluster share a run, and other tools split as
    # they like: find out first which files hold what.
    found: list[set[str]] = []
    opened: dict[int, dict[str, pa.Table]] = {}
    for number, file in enumerate(files):
        if file.suffix == ".jsonl":
            # Small by purpose, and every line has to be decoded anyway.
            opened[number] = _split(_read_file(file))
            found.append(set(opened[number]))
        else:
            found.append(_run_names(file))
        unnamed = found[number] - names
        if unnamed:
            _refuse_unnamed(file, min(unnamed))
    last_use = {number: max(held) for number, held in enumerate(found) if held}
    for run in runs:
        parts = []
        for number, held in enumerate(found):
            if run.run in held:
                if number not in opened:
                    opened[number] = _split(_read_file(files[number]))
                parts.append(opened[number].pop(run.run))
                if last_use[number] == run.run:
                    del opened[number]
        yield run, pa.concat_tables(parts) if parts else EVENTS.empty_table()


def _trace_folders(folder: Path) -> list[Path]:
    """The folder itself when it is a trace, else the traces in it."""
    if not folder.exists():
        raise UsageError(f"{folder}: there is no such folder")
    if not folder.is_dir():
        raise UsageError(f"{folder}: a trace is a folder, this is a file")
    try:
        if (folder / "runs.jsonl").exists():
            return [folder]
        # Hidden folders are traces that are still being written.
        traces = sorted(
            child for child in folder.iterdir() if not child.name.startswith(".") and (child / "runs.jsonl").exists()
        )
    except OSError as error:
        raise UsageError(f"{folder}: cannot be read: {error.strerror or error}") from error
    if not traces:
        raise UsageError(f"{folder}: no runs.jsonl here or one level below; name a folder that a run was traced to")
    return traces


def event_files(folder: Path) -> list[Path]:
    """Every file with events, of a trace or of a folder of them."""
    return [file for trace in _trace_folders(folder) for file in _files_of_trace(trace)]


def _files_of_trace(trace: Path) -> list[Path]:
    lines, parts = trace / "events.jsonl", trace / "events"
    if lines.exists() and parts.exists():
        raise UsageError(f"{trace}: has both events.jsonl and events/; remove the one that is not meant")
    if lines.exists():
        return [lines]
    if not parts.is_dir():
        raise UsageError(f"{trace}: has neither events.jsonl nor a folder events/; the trace is incomplete")
    files = sorted(parts.glob("*.parquet"))
    if not files:
        raise UsageError(f"{parts}: has no .parquet file; the trace is incomplete")
    return files


def _read_file(file: Path, columns: list[str] | None = None) -> pa.Table:
    if file.suffix == ".jsonl":
        return read_json_events(file)
    try:
        # A single file, not a dataset: folder names like run=1 must not become columns.
        with pq.ParquetFile(file) as parquet:
            present = None if columns is None else [name for name in columns if name in parquet.schema_arrow.names]
            table = parquet.read(columns=present)
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{file}: is not a readable Parquet file, cut short perhaps: {reason}") from error
    return table if columns is not None else conform(table, str(file))


def _run_names(file: Path) -> set[str]:
    table = _read_file(file, ["run"])
    if "run" not in table.schema.names:
        # Says so.
        conform(table, str(file))
    return set(table.column("run").unique().to_pylist()) - {None}


def _check_run_names(table: pa.Table, runs: set[str], file: Path) -> None:
    for name in table.column("run").unique().to_pylist():
        if name not in runs:
            _refuse_unnamed(file, name)


def _refuse_unnamed(file: Path, name: str) -> None:
    raise UsageError(f"{file}: has events of run {name!r}, which runs.jsonl does not describe; add it there")


def _split(table: pa.Table) -> dict[str, pa.Table]:
    """Run -> its rows."""
    runs = table.column("run").combine_chunks().dictionary_encode()
    codes = runs.indices.to_numpy()
    if len(codes) and bool((np.diff(codes) < 0).any()):
        order = np.argsort(codes, kind="stable")
        table, codes = table.take(pa.array(order)), codes[order]
    starts = np.searchsorted(codes, np.arange(len(runs.dictionary) + 1))
    return {
        name: table.slice(starts[code], starts[code + 1] - starts[code])
        for code, name in enumerate(runs.dictionary.to_pylist())
    }


def _merge(first: Run, second: Run, path: Path) -> Run:
    """One run as several processes describe it: they agree on what was run, and each saw a part of it."""
    for field in ("protocol", "seed"):
        if getattr(first, field) != getattr(second, field):
            raise UsageError(
                f"{path}: run {second.run!r} has {field} {getattr(second, field)!r}, another process says "
                f"{getattr(first, field)!r}; keep one run per folder"
            )
    groups = {name: list(sites) for name, sites in first.groups.items()}
    for name, sites in second.groups.items():
        known = groups.setdefault(name, [])
        known.extend(site for site in sites if site not in known)
    return Run(
        run=first.run,
        protocol=first.protocol,
        seed=first.seed,
        parameters={**second.parameters, **first.parameters},
        groups=groups,
        # What only some of the processes claim (one runs without a log, say) is no claim of the run.
        guarantees=[name for name in first.guarantees if name in second.guarantees],
        ended_at=max(first.ended_at, second.ended_at),
        settled=first.settled and second.settled,
        bounds={**second.bounds, **first.bounds},
        services={**second.services, **first.services},
        rest={**second.rest, **first.rest},
    )
