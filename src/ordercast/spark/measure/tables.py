"""All measures of a trace: a table each, and their rows as plain values."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it

from ordercast.spark.measure.cells import Grouping, cells, place
from ordercast.spark.measure.drops import arrivals, drops_by_reason
from ordercast.spark.measure.latency import latencies
from ordercast.spark.measure.load import load_by_site, packet_ends
from ordercast.spark.measure.messages import deliveries, multicasts
from ordercast.spark.measure.packets import packets_by_type, sends
from ordercast.spark.measure.prepare import Prepared
from ordercast.spark.measure.quantiles import EXACT_MAX, count_lines, latency_curve, summarize_latency
from ordercast.spark.measure.retransmissions import carried, repetitions, retransmissions
from ordercast.spark.measure.throughput import throughput, throughput_units
from ordercast.spark.measure.views import installations, view_changes
from ordercast.spark.tasks import ask_together

Rows = list[dict[str, Any]]


def latency_table(trace: Prepared, grouping: Grouping, exact_max: int = EXACT_MAX) -> tuple[DataFrame, bool]:
    """The latencies in the window in which their message was multicast, and whether their quantiles are exact."""
    placed = place(latencies(trace.messages), "multicast_at", trace.spans, grouping)
    sizes = count_lines(placed, [*grouping.keys, "at"])
    exact = sizes.largest <= exact_max
    return summarize_latency(placed, grouping, sizes, exact), exact


def latency_rows(trace: Prepared, grouping: Grouping) -> tuple[Rows, bool]:
    """As they are printed."""
    table, exact = latency_table(trace, grouping)
    return rows_of(table, [*grouping.keys, "at"], grouping), exact


def curve_rows(trace: Prepared, grouping: Grouping) -> Rows:
    """The distributions of the latencies."""
    placed = place(latencies(trace.messages), "multicast_at", trace.spans, grouping)
    keys = [*grouping.keys, "at"]
    exact = count_lines(placed, keys).largest <= EXACT_MAX
    return rows_of(latency_curve(placed, keys, exact), keys, grouping)


def throughput_rows(trace: Prepared, grouping: Grouping) -> Rows:
    """Throughput, a row for each window in which the run was busy, also where nothing happened."""
    completed = trace.messages.where(F.col("completed_at").isNotNull())
    units = throughput_units(
        cells(trace.spans, grouping),
        _placed_multicasts(trace, grouping),
        place(completed, "completed_at", trace.spans, grouping),
        place(deliveries(trace.messages), "delivered_at", trace.spans, grouping),
    )
    return rows_of(throughput(units, grouping), grouping.keys, grouping)


def packets_rows(trace: Prepared, grouping: Grouping) -> Rows:
    """Packets by type."""
    table = packets_by_type(_placed_sends(trace, grouping), _placed_multicasts(trace, grouping), grouping)
    return rows_of(table, [*grouping.keys, "background", "packet"], grouping)


def load_rows(trace: Prepared, grouping: Grouping) -> Rows:
    """Load by site."""
    ends = place(packet_ends(trace.events), "time", trace.spans, grouping)
    table = load_by_site(ends, _placed_multicasts(trace, grouping), grouping)
    return rows_of(table, [*grouping.keys, "site"], grouping)


def retransmission_rows(trace: Prepared, grouping: Grouping) -> Rows:
    """Retransmissions by type."""
    repeated = place(repetitions(carried(sends(trace.events), trace.events)), "time", trace.spans, grouping)
    table = retransmissions(repeated, _placed_sends(trace, grouping), grouping)
    return rows_of(table, [*grouping.keys, "packet"], grouping)


def drop_rows(trace: Prepared, grouping: Grouping) -> Rows:
    """Drops by reason."""
    table = drops_by_reason(place(arrivals(trace.events), "time", trace.spans, grouping), grouping)
    return rows_of(table, [*grouping.keys, "reason"], grouping)


def view_rows(trace: Prepared, grouping: Grouping) -> Rows:
    """View changes."""
    table = view_changes(place(installations(trace.events), "view_began", trace.spans, grouping), grouping)
    return rows_of(table, grouping.keys, grouping)


def measure_trace(trace: Prepared, grouping: Grouping) -> tuple[dict[str, Rows], bool]:
    """The rows of every measure, and whether the quantiles are exact."""
    trace.check(grouping)
    others = {
        "throughput": throughput_rows,
        "packets": packets_rows,
        "load": load_rows,
        "retransmissions": retransmission_rows,
        "drops": drop_rows,
        "views": view_rows,
    }
    # Latency first: it takes longest.
    (latency, exact), *rows = ask_together(
        trace.events.sparkSession, [partial(measure, trace, grouping) for measure in (latency_rows, *others.values())]
    )
    return {"latency": latency, **dict(zip(others, rows, strict=True))}, exact


def rows_of(table: DataFrame, order: list[str], grouping: Grouping) -> Rows:
    """The rows as plain values, sorted; a window as its ends in seconds, what is not a number as None."""
    # Sorted here: they are few, and a sort in Spark is one more shuffle.
    rows = sorted((row.asDict() for row in table.collect()), key=lambda row: tuple(row[name] for name in order))
    return [_plain(row, order, grouping.window_seconds) for row in rows]


def _plain(row: dict[str, Any], order: list[str], window_seconds: float | None) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name in [*order, *(name for name in row if name not in order)]:
        value = row[name]
        if name == "window" and window_seconds is not None:
            plain |= {"from": value * window_seconds, "to": (value + 1) * window_seconds}
        else:
            plain[name] = None if isinstance(value, float) and not math.isfinite(value) else value
    return plain


def _placed_multicasts(trace: Prepared, grouping: Grouping) -> DataFrame:
    return place(multicasts(trace.messages), "multicast_at", trace.spans, grouping)


def _placed_sends(trace: Prepared, grouping: Grouping) -> DataFrame:
    return place(sends(trace.events), "time", trace.spans, grouping)
