"""All measures of a trace, computed in this process: a table each (what they mean: docs/measure.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ordercast.measure.bootstrap import SAMPLE_MAX, quantile_line
from ordercast.measure.cells import CELL, busy_spans, cells, place
from ordercast.measure.grouping import Grouping
from ordercast.measure.intervals import Ratios, ratio_line
from ordercast.measure.measures import ALL, COSTS, COUNTS, CURVE, EACH, QUANTILES, RATES, Rows, plain_rows
from ordercast.measure.messages import of_kinds, take_messages
from ordercast.measure.retransmissions import repetitions
from ordercast.trace.schema import Run


class LocalMeasures:
    """The tables of a trace that fits into memory (see `ordercast.measure.Measures`). Quantiles are exact."""

    def __init__(self, events: pa.Table, runs: Sequence[Run]) -> None:
        self._events = events
        self._messages = take_messages(events, runs)
        spans = events.group_by("run").aggregate([("time", "min"), ("time", "max")]).to_pylist()
        self.times = {row["run"]: (row["time_min"], row["time_max"]) for row in spans}
        self._spans = busy_spans(self._messages, {run.run: run.protocol for run in runs if run.run in self.times})

    def everything(self, grouping: Grouping) -> dict[str, Rows]:
        """The rows of every measure."""
        grouping.check(self.times)
        return {
            "latency": self.latency(grouping)[0],
            "throughput": self.throughput(grouping),
            "packets": self.packets(grouping),
            "load": self.load(grouping),
            "retransmissions": self.retransmissions(grouping),
            "drops": self.drops(grouping),
            "views": self.views(grouping),
        }

    def latency(self, grouping: Grouping) -> tuple[Rows, bool]:
        """A row for each line and `at`, and that the quantiles are exact."""
        keys = [*grouping.keys, "at"]
        lines = []
        for frame in _lines(self._latencies(grouping), keys):
            values = frame["latency"].to_numpy()
            counted = frame.rename(columns={"latency": "total"}).assign(count=1)
            line = ratio_line(counted, keys, ("count", "total"), {"mean": ("total", "count")})
            del line["total"]
            line |= {"negative": int((values < 0).sum()), "min": values.min(), "max": values.max()}
            line |= dict(zip(QUANTILES, np.quantile(values, list(QUANTILES.values())).tolist(), strict=True))
            lines.append(line | quantile_line(_sample(frame), keys, "latency", QUANTILES))
        return _rows(lines, keys, grouping), True

    def curves(self, grouping: Grouping) -> Rows:
        """The distributions of the latencies."""
        keys = [*grouping.keys, "at"]
        lines = [
            {
                **{key: frame[key].iloc[0] for key in keys},
                "probabilities": list(CURVE),
                "latencies": np.quantile(frame["latency"].to_numpy(), CURVE).tolist(),
            }
            for frame in _lines(self._latencies(grouping), keys)
        ]
        return _rows(lines, keys, grouping)

    def throughput(self, grouping: Grouping) -> Rows:
        """A row for each window in which a run was busy, also where nothing happened. A message counts when it is
        multicast, a completion when its last destination has it, a delivery when it happens."""
        completed = self._messages.multicasts.dropna(subset=["completed_at"])
        asked = self._placed_multicasts(grouping)
        parts = [
            cells(self._spans, grouping),
            asked[CELL].assign(multicasts=1, messages=asked["count"]),
            _counted(place(completed, "completed_at", self._spans, grouping), "completed"),
            _counted(place(self._messages.deliveries, "delivered_at", self._spans, grouping), "deliveries"),
        ]
        units = pd.concat(parts, ignore_index=True).fillna(0).astype(dict.fromkeys(COUNTS, "int64"))
        return self._ratio_rows(units, grouping.keys, grouping.keys, ("seconds", *COUNTS), RATES, grouping)

    def packets(self, grouping: Grouping) -> Rows:
        """Packets and bytes by type. The cells in which something was multicast stand once for every type, so that a
        slice without a packet of some type counts as one with none of them."""
        types = [*grouping.keys, "packet", "background"]
        asked = self._placed_multicasts(grouping).groupby(CELL, as_index=False).size()
        asked = asked.rename(columns={"size": "multicasts"})
        sent = place(self._sends, "time", self._spans, grouping)
        totals = sent.groupby(list(dict.fromkeys([*CELL, *types])), as_index=False).agg(
            packets=("size", "size"), bytes=("size", "sum")
        )
        below = asked.merge(totals[types].drop_duplicates(), on=grouping.keys)
        units = pd.concat([totals, below], ignore_index=True)
        units = units.fillna({"packets": 0, "bytes": 0, "multicasts": 0})
        units = units.astype({"packets": "int64", "bytes": "int64", "multicasts": "int64"})
        order = [*grouping.keys, "background", "packet"]
        return self._ratio_rows(units, types, order, ("packets", "bytes", "multicasts"), COSTS, grouping)

    def load(self, grouping: Grouping) -> Rows:
        """What each site sends and receives, background traffic included."""
        ends = of_kinds(self._events, "send", "receive").select(["run", "site", "time", "kind", "size"]).to_pandas()
        placed = place(ends, "time", self._spans, grouping)
        keys = [*grouping.keys, "site"]
        placed = placed.assign(sends=placed["kind"] == "send", receives=placed["kind"] == "receive")
        table = placed.groupby(keys, as_index=False).agg(
            sends=("sends", "sum"), receives=("receives", "sum"), bytes=("size", "sum")
        )
        table["bytes"] = table["bytes"].astype("int64")
        table["load"] = table["sends"] + table["receives"]
        asked = self._placed_multicasts(grouping).groupby(grouping.keys, as_index=False).size()
        table = table.merge(asked, on=grouping.keys, how="left")
        table["load_per_multicast"] = table["load"] / table["size"]
        return _rows(table.drop(columns="size").to_dict("records"), keys, grouping)

    def retransmissions(self, grouping: Grouping) -> Rows:
        """`packets` are those that repeat at least one message, `repeated_messages` the repetitions that they carry,
        `share` the part of all packets of the type that `packets` are."""
        types = [*grouping.keys, "packet"]
        serving = self._sends[~self._sends["background"]].merge(
            repetitions(self._events), on=["run", "site", "seq"], how="left"
        )
        serving["repeated"] = serving["repeated"].fillna(0).astype("int64")
        placed = place(serving, "time", self._spans, grouping).assign(repeats=lambda rows: rows["repeated"] > 0)
        table = placed.groupby(types, as_index=False).agg(
            packets=("repeats", "sum"), repeated_messages=("repeated", "sum"), all=("repeats", "size")
        )
        table["share"] = table["packets"] / table["all"]
        return _rows(table.drop(columns="all").to_dict("records"), types, grouping)

    def drops(self, grouping: Grouping) -> Rows:
        """Packets that did not make it, by the reason; the share is of all packets received or dropped."""
        arrived = of_kinds(self._events, "receive", "drop").select(["run", "time", "kind", "reason"]).to_pandas()
        arrived["reason"] = arrived["reason"].fillna("unknown")
        placed = place(arrived, "time", self._spans, grouping)
        everything = placed.groupby(grouping.keys, as_index=False).size().rename(columns={"size": "all"})
        keys = [*grouping.keys, "reason"]
        lost = placed[placed["kind"] == "drop"].groupby(keys, as_index=False).size()
        table = lost.rename(columns={"size": "packets"}).merge(everything, on=grouping.keys)
        table["share"] = table["packets"] / table["all"]
        return _rows(table.drop(columns="all").to_dict("records"), keys, grouping)

    def views(self, grouping: Grouping) -> Rows:
        """How many view changes, and how long it takes until all who install a view have it. A view belongs to the
        window in which the first site installed it."""
        found = of_kinds(self._events, "view").select(["run", "site", "seq", "groups", "view", "time"]).to_pandas()
        # A null is a list of its own here: views that name no group.
        found["groups"] = [None if groups is None else tuple(groups) for groups in found["groups"]]
        earliest = found.groupby(["run", "site", "groups"], dropna=False)["seq"].transform("min")
        found["changes"] = found["seq"] > earliest
        found["view_began"] = found.groupby(["run", "view"], dropna=False)["time"].transform("min")
        placed = place(found, "view_began", self._spans, grouping)
        placed["spread"] = placed["time"] - placed["view_began"]
        per_view = placed.groupby(
            list(dict.fromkeys([*grouping.keys, "run", "view"])), as_index=False, dropna=False
        ).agg(installations=("site", "size"), changes=("changes", "sum"), spread=("spread", "max"))
        table = per_view.groupby(grouping.keys, as_index=False).agg(
            views=("view", "size"),
            installations=("installations", "sum"),
            changes=("changes", "sum"),
            spread_mean=("spread", "mean"),
            spread_max=("spread", "max"),
        )
        return _rows(table.to_dict("records"), grouping.keys, grouping)

    @cached_property
    def _sends(self) -> pd.DataFrame:
        """A row a packet that was sent. A packet that serves no message in particular (null, not an empty list) is
        background traffic: acknowledgements of many messages at once, heartbeats, membership."""
        sent = of_kinds(self._events, "send")
        frame = sent.select(["run", "site", "seq", "time", "packet", "size"]).to_pandas()
        frame["packet"] = frame["packet"].fillna("")
        frame["size"] = frame["size"].fillna(0).astype("int64")
        return frame.assign(background=sent.column("messages").is_null().to_numpy())

    def _latencies(self, grouping: Grouping) -> pd.DataFrame:
        """Both kinds, of the messages whose multicast is known."""
        each = self._messages.deliveries.dropna(subset=["multicast_at"])
        whole = self._messages.multicasts.dropna(subset=["completed_at"])
        both = pd.concat(
            [
                each.assign(latency=each["delivered_at"] - each["multicast_at"], at=EACH),
                whole.assign(latency=whole["completed_at"] - whole["multicast_at"], at=ALL, site=""),
            ],
            ignore_index=True,
        )
        return place(
            both[["run", "message", "site", "multicast_at", "latency", "at"]], "multicast_at", self._spans, grouping
        )

    def _placed_multicasts(self, grouping: Grouping) -> pd.DataFrame:
        return place(self._messages.multicasts, "multicast_at", self._spans, grouping)

    def _ratio_rows(
        self,
        units: pd.DataFrame,
        keys: list[str],
        order: list[str],
        sums: tuple[str, ...],
        ratios: Ratios,
        grouping: Grouping,
    ) -> Rows:
        small = units.groupby(list(dict.fromkeys([*keys, "run", "slice"])), as_index=False)[list(sums)].sum()
        return _rows([ratio_line(frame, keys, sums, ratios) for frame in _lines(small, keys)], order, grouping)


def _counted(placed: pd.DataFrame, name: str) -> pd.DataFrame:
    return placed[CELL].assign(**{name: placed["count"]})


def _lines(frame: pd.DataFrame, keys: list[str]) -> Iterator[pd.DataFrame]:
    for _, line in frame.groupby(keys, sort=True):
        yield line


def _sample(frame: pd.DataFrame) -> pd.DataFrame:
    """About SAMPLE_MAX rows, evenly, and always the same: chosen by a hash of what tells one latency from another."""
    if len(frame) <= SAMPLE_MAX:
        return frame
    number = pd.util.hash_pandas_object(frame[["run", "message", "site", "at"]], index=False) % (1 << 32)
    return frame[number < SAMPLE_MAX / len(frame) * (1 << 32)]


def _rows(lines: Sequence[Mapping[Any, Any]], order: list[str], grouping: Grouping) -> Rows:
    """The rows as plain values, sorted."""
    return plain_rows(({str(name): _plain(value) for name, value in line.items()} for line in lines), order, grouping)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
