"""What a person wants to see of one run: the rows about some messages, and how deliveries went over time.

Taken out where the files are read, so that only what is shown reaches whoever asks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ordercast.trace.pieces import Gather, Trace
from ordercast.trace.schema import EVENTS
from ordercast.verify.files import iterate_events
from ordercast.verify.plan import Assignment, assign

ALWAYS = ("fail", "awake", "recover", "view", "join", "leave")
"""Kinds that explain what happens to any message."""
ROWS_MAX = 5_000
"""More than a picture can show; a message that is retransmitted for ever must not flood the driver."""

CURVE_STEPS = 200
"""As many points as a curve of ten centimetres shows."""

_CURVES = pa.schema([("site", pa.string()), ("kind", pa.string()), ("time", pa.float64()), ("count", pa.int64())])


class _Wanted(msgspec.Struct, frozen=True):
    assignment: Assignment
    messages: list[str] = []


def events_about(gather: Gather, trace: Trace, run: str, messages: Sequence[str]) -> pa.Table:
    """The rows of a run that concern these messages, and those that say who was up and who belonged to what."""
    wanted = _Wanted(_assignment(trace, run), list(messages))
    return gather([msgspec.msgpack.encode(wanted)], _take_events, EVENTS)


def delivery_curves(gather: Gather, trace: Trace, run: str) -> pa.Table:
    """site, kind, time, count: multicasts and deliveries in steps of time, and every failure and recovery."""
    return gather([msgspec.msgpack.encode(_Wanted(_assignment(trace, run)))], _count, _CURVES)


def _assignment(trace: Trace, run: str) -> Assignment:
    (found,) = assign(trace.runs, {run: trace.pieces_of_runs()[run]})
    return found


def _take_events(piece: bytes) -> Iterator[pa.RecordBatch]:
    wanted = msgspec.msgpack.decode(piece, type=_Wanted)
    names = pa.array(wanted.messages, pa.string())
    for _, events in iterate_events([wanted.assignment]):
        kinds, own = events.column("kind").cast(pa.string()), events.column("message").cast(pa.string())
        keep = pc.or_(pc.is_in(kinds, value_set=pa.array(ALWAYS)), pc.is_in(own, value_set=names))
        mask = pc.fill_null(keep, False).to_numpy().copy()
        served = events.column("messages").combine_chunks()
        hits = pc.is_in(pc.list_flatten(served), value_set=names)
        mask[pc.list_parent_indices(served).filter(hits).to_numpy()] = True
        rows = pa.array(np.flatnonzero(mask)[:ROWS_MAX])
        yield from events.take(rows).table().combine_chunks().to_batches()


def _count(piece: bytes) -> Iterator[pa.RecordBatch]:
    wanted = msgspec.msgpack.decode(piece, type=_Wanted)
    for _, events in iterate_events([wanted.assignment]):
        table = events.table(["site", "kind", "time"])
        times = table.column("time").to_numpy()
        if not len(times):
            return
        edges = np.linspace(times.min(), max(times.max(), times.min() + 1e-9), CURVE_STEPS + 1)
        rows = []
        for site in sorted(table.column("site").unique().to_pylist()):
            here = table.filter(pc.equal(table.column("site"), site))
            for kind in ("multicast", "deliver"):
                of_kind = here.filter(pc.equal(here.column("kind"), kind)).column("time").to_numpy()
                counts, _ = np.histogram(of_kind, edges)
                rows += [
                    {"site": site, "kind": kind, "time": float(edges[at + 1]), "count": int(counts[at])}
                    for at in np.flatnonzero(counts).tolist()
                ]
            for change in here.filter(pc.is_in(here.column("kind"), value_set=pa.array(ALWAYS[:3]))).to_pylist():
                rows.append({**change, "count": 1})
        yield pa.RecordBatch.from_pylist(rows, schema=_CURVES)
