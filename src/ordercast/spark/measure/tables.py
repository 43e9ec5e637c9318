"""All measures of a trace on Spark: a table each, and their rows as plain values."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it

from ordercast.measure.grouping import Grouping
from ordercast.measure.measures import Rows, plain_rows
from ordercast.spark.measure.cells import cells, place
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


def latency_table(trace: Prepared, grouping: Grouping, exact_max: int = EXACT_MAX) -> tuple[DataFrame, bool]:
    """The latencies in the window in which their message was multicast, and whether their quantiles are exact."""
    placed = place(latencies(trace.messages), "multicast_at", trace.spans, grouping)
    sizes = count_lines(placed, [*grouping.keys, "at"])
    exact = sizes.largest <= exact_max
    return summarize_latency(placed, grouping, sizes, exact), exact


class SparkMeasures:
    """The tables of a prepared trace, computed by Spark's workers (see `ordercast.measure.Measures`)."""

    def __init__(self, trace: Prepared) -> None:
        self._trace = trace
        self.times = trace.times

    def everything(self, grouping: Grouping) -> tuple[dict[str, Rows], bool]:
        """The rows of every measure, and whether the quantiles are exact; several are asked for side by side."""
        grouping.check(self.times)
        others = {
            "throughput": self.throughput,
            "packets": self.packets,
            "load": self.load,
            "retransmissions": self.retransmissions,
            "drops": self.drops,
            "views": self.views,
        }
        # Latency first: it takes longest.
        (latency, exact), *rows = ask_together(
            self._trace.events.sparkSession,
            [partial(measure, grouping) for measure in (self.latency, *others.values())],
        )
        return {"latency": latency, **dict(zip(others, rows, strict=True))}, exact

    def latency(self, grouping: Grouping) -> tuple[Rows, bool]:
        """A row for each line and `at`, and whether the quantiles are exact."""
        table, exact = latency_table(self._trace, grouping)
        return rows_of(table, [*grouping.keys, "at"], grouping), exact

    def curves(self, grouping: Grouping) -> Rows:
        """The distributions of the latencies."""
        placed = place(latencies(self._trace.messages), "multicast_at", self._trace.spans, grouping)
        keys = [*grouping.keys, "at"]
        exact = count_lines(placed, keys).largest <= EXACT_MAX
        return rows_of(latency_curve(placed, keys, exact), keys, grouping)

    def throughput(self, grouping: Grouping) -> Rows:
        """A row for each window in which a run was busy, also where nothing happened."""
        trace = self._trace
        completed = trace.messages.where(F.col("completed_at").isNotNull())
        units = throughput_units(
            cells(trace.spans, grouping),
            self._placed_multicasts(grouping),
            place(completed, "completed_at", trace.spans, grouping),
            place(deliveries(trace.messages), "delivered_at", trace.spans, grouping),
        )
        return rows_of(throughput(units, grouping), grouping.keys, grouping)

    def packets(self, grouping: Grouping) -> Rows:
        """Packets and bytes by type."""
        table = packets_by_type(self._placed_sends(grouping), self._placed_multicasts(grouping), grouping)
        return rows_of(table, [*grouping.keys, "background", "packet"], grouping)

    def load(self, grouping: Grouping) -> Rows:
        """What each site sends and receives."""
        ends = place(packet_ends(self._trace.events), "time", self._trace.spans, grouping)
        table = load_by_site(ends, self._placed_multicasts(grouping), grouping)
        return rows_of(table, [*grouping.keys, "site"], grouping)

    def retransmissions(self, grouping: Grouping) -> Rows:
        """Packets that carry a message again, by type."""
        events = self._trace.events
        repeated = place(repetitions(carried(sends(events), events)), "time", self._trace.spans, grouping)
        table = retransmissions(repeated, self._placed_sends(grouping), grouping)
        return rows_of(table, [*grouping.keys, "packet"], grouping)

    def drops(self, grouping: Grouping) -> Rows:
        """Packets that did not make it, by the reason."""
        table = drops_by_reason(place(arrivals(self._trace.events), "time", self._trace.spans, grouping), grouping)
        return rows_of(table, [*grouping.keys, "reason"], grouping)

    def views(self, grouping: Grouping) -> Rows:
        """How many view changes, and how long they take."""
        installed = place(installations(self._trace.events), "view_began", self._trace.spans, grouping)
        return rows_of(view_changes(installed, grouping), grouping.keys, grouping)

    def _placed_multicasts(self, grouping: Grouping) -> DataFrame:
        return place(multicasts(self._trace.messages), "multicast_at", self._trace.spans, grouping)

    def _placed_sends(self, grouping: Grouping) -> DataFrame:
        return place(sends(self._trace.events), "time", self._trace.spans, grouping)


def rows_of(table: DataFrame, order: list[str], grouping: Grouping) -> Rows:
    """The rows as plain values, sorted."""
    # Sorted here: they are few, and a sort in Spark is one more shuffle.
    return plain_rows((row.asDict() for row in table.collect()), order, grouping)
