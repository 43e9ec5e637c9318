"""Traces for the benchmark of the pipeline: big, the same every time, and written as the project's own writer would.

Every run is totally ordered: a message has one place in the order of its run, goes to one group, and is delivered at
all members of the group in that order. What is asked of the judges is to find that out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ordercast.trace import Run
from ordercast.trace.write import write_part

GROUP_SIZE = 4
"""Members of a group: each delivery is then met by three others of the same message."""
STEP = 0.001
"""Seconds from one message of a run to the next."""
ROWS_PER_FILE = 1 << 20
"""Where the project's own writer begins a new file."""


class Shape(NamedTuple):
    """How many deliveries, and over how many runs and sites they are spread."""

    rows: int
    runs: int
    sites: int
    order_key: bool = True

    @property
    def name(self) -> str:
        return f"{self.rows}-{self.runs}-{self.sites}{'' if self.order_key else '-bare'}"


def write_traces(root: Path, shape: Shape) -> Path:
    """The folder of the trace; made when it is not there yet."""
    folder = root / shape.name
    if (folder / "runs.jsonl").exists():
        return folder
    (folder / "events").mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    part = 0
    pending: list[pa.Table] = []
    for number in range(shape.runs):
        run, tables = make_run(shape, number)
        runs.append(run)
        # A run stays in one file unless it is the whole trace.
        for table in tables:
            pending.append(table)
            if shape.runs == 1 and sum(map(len, pending)) >= ROWS_PER_FILE:
                part, pending = _write(folder, part, pending)
        if sum(map(len, pending)) >= ROWS_PER_FILE:
            part, pending = _write(folder, part, pending)
    if pending:
        _write(folder, part, pending)
    lines = b"".join(msgspec.json.encode(run) + b"\n" for run in runs)
    # Last, so that a trace that was interrupted is made again.
    (folder / "runs.jsonl").write_bytes(lines)
    return folder


def make_run(shape: Shape, number: int) -> tuple[Run, Iterator[pa.Table]]:
    """One run, and its events, a site at a time: a run of 10^8 rows is never in memory as a whole."""
    random = np.random.default_rng((shape.rows, number))
    sites = [f"s{site:03d}" for site in range(shape.sites)]
    size = min(GROUP_SIZE, shape.sites)
    members = np.array([np.sort(random.choice(shape.sites, size, replace=False)) for _ in sites])
    name = f"run-{number:05d}"
    groups = {f"g{group:03d}": [sites[site] for site in members[group]] for group in range(len(members))}
    claims = ["integrity", "no-duplication", "multiple-group-order", "acyclic-order", "uniform-agreement"]
    count = shape.rows // shape.runs // size
    run = Run(
        run=name, groups=groups, guarantees=claims, ended_at=(count + 1000) * STEP, settled=True, protocol="benchmark"
    )
    return run, _site_tables(shape, name, sites, members, count, random)


def _site_tables(
    shape: Shape, run: str, sites: list[str], members: np.ndarray, count: int, random: np.random.Generator
) -> Iterator[pa.Table]:
    group = random.integers(0, len(members), count, dtype=np.int16)
    source = random.integers(0, len(sites), count, dtype=np.int16)
    source_seq = np.empty(count, dtype=np.int64)
    for site in range(len(sites)):
        own = np.flatnonzero(source == site)
        source_seq[own] = np.arange(1, len(own) + 1)
    group_names = pa.array([f"g{number:03d}" for number in range(len(members))])
    is_member = np.zeros((len(sites), len(members)), dtype=bool)
    is_member[members.T, np.arange(len(members))] = True
    for site in range(len(sites)):
        delivered = np.flatnonzero(is_member[site][group])
        multicast = np.flatnonzero(source == site)
        message = np.concatenate([multicast, delivered])
        delivers = np.arange(len(message)) >= len(multicast)
        # Delivered at each site some constant time after the multicast: in the total order.
        time = message * STEP + np.where(delivers, 0.005 + 0.0007 * site, 0.0)
        order = np.argsort(time, kind="stable")
        message, delivers, time = message[order], delivers[order], time[order]
        rows = len(message)
        columns = {
            "run": pa.repeat(run, rows),
            "site": pa.repeat(sites[site], rows),
            "seq": pa.array(np.arange(rows)),
            "time": pa.array(time),
            "kind": pa.array(["multicast", "deliver"]).take(pa.array(delivers.astype(np.int8))),
            "message": _names(sites, source[message], source_seq[message]),
            "source": pa.array(sites).take(pa.array(source[message])),
            "source_seq": pa.array(source_seq[message]),
            "groups": _singletons(group_names.take(pa.array(group[message]))),
            "size": pa.array(np.full(rows, 100, dtype=np.int32)),
            "delivery": pa.array(np.ones(rows, dtype=np.int32), mask=~delivers),
        }
        if shape.order_key:
            columns["order_key"] = _singletons(pa.array(message), delivers)
        yield pa.table(columns)


def _names(sites: list[str], source: np.ndarray, source_seq: np.ndarray) -> pa.Array:
    """SOURCE:INCARNATION:NUMBER, as everywhere in the project."""
    heads = pa.array([f"{site}:0:" for site in sites]).take(pa.array(source))
    return pc.binary_join_element_wise(heads, pa.array(source_seq).cast(pa.string()), "")


def _singletons(values: pa.Array, present: np.ndarray | None = None) -> pa.ListArray:
    """A column of lists of one element; null where it is not present."""
    if present is None:
        return pa.ListArray.from_arrays(pa.array(np.arange(len(values) + 1, dtype=np.int32)), values)
    offsets = np.concatenate([[0], np.cumsum(present)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values.filter(pa.array(present)), mask=pa.array(~present))


def _write(folder: Path, part: int, tables: list[pa.Table]) -> tuple[int, list[pa.Table]]:
    """Write a file; the number of the next one, and what is left for it."""
    write_part(pa.concat_tables(tables).combine_chunks(), folder / "events" / f"part-{part:05d}.parquet")
    return part + 1, []
