"""Where a row counts: for which protocol or run, in which time window, and in which slice of that."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ordercast.measure.grouping import SLICES, Grouping
from ordercast.measure.messages import Messages

CELL = ["protocol", "run", "window", "slice"]
"""The smallest piece of a run's time."""


def busy_spans(messages: Messages, protocols: Mapping[str, str]) -> pd.DataFrame:
    """run, protocol, busy_from, busy_to; not a number where nothing was multicast.

    A run is busy from its first multicast to its last multicast or first delivery of a message: the time that a
    scenario lets it settle, in which nothing is asked of it, is not held against its throughput.
    """
    asked = messages.multicasts.groupby("run")["multicast_at"]
    last = pd.concat([asked.max(), messages.deliveries.groupby("run")["delivered_at"].max()], axis=1).max(axis=1)
    spans = pd.DataFrame({"run": list(protocols), "protocol": list(protocols.values())}, dtype="object")
    return spans.assign(busy_from=spans["run"].map(asked.min()), busy_to=spans["run"].map(last))


def place(rows: pd.DataFrame, time: str, spans: pd.DataFrame, grouping: Grouping) -> pd.DataFrame:
    """The rows with `protocol`, `window` and `slice`, by their column `time`."""
    placed = rows.merge(spans, on="run")
    placed["window"] = _window_of(placed[time], grouping)
    begin, seconds = _busy_part(placed, grouping)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.floor(SLICES * (placed[time].to_numpy() - begin) / seconds)
    placed["slice"] = np.where(seconds > 0, np.clip(part, 0, SLICES - 1), 0).astype("int32")
    return placed.drop(columns=["busy_from", "busy_to"])


def cells(spans: pd.DataFrame, grouping: Grouping) -> pd.DataFrame:
    """protocol, run, window, slice, seconds: all the time in which runs were busy, cut up."""
    busy = spans.dropna(subset=["busy_from"]).copy()
    first, last = (_window_of(busy[name], grouping) for name in ("busy_from", "busy_to"))
    busy["window"] = [list(range(low, high + 1)) for low, high in zip(first, last, strict=True)]
    busy = busy.explode("window").astype({"window": "int64"})
    _, seconds = _busy_part(busy, grouping)
    busy["seconds"] = seconds / SLICES
    return busy.merge(pd.DataFrame({"slice": np.arange(SLICES, dtype="int32")}), how="cross")[[*CELL, "seconds"]]


def _window_of(time: pd.Series, grouping: Grouping) -> np.ndarray:
    """The number of the window."""
    if grouping.window_seconds is None:
        return np.zeros(len(time), dtype="int64")
    return np.floor(time.to_numpy() / grouping.window_seconds).astype("int64")


def _busy_part(rows: pd.DataFrame, grouping: Grouping) -> tuple[np.ndarray, np.ndarray]:
    """Of the columns busy_from, busy_to and window: when the busy part of the window begins, and how long it is."""
    begin, end = rows["busy_from"].to_numpy(), rows["busy_to"].to_numpy()
    if grouping.window_seconds is not None:
        window = rows["window"].to_numpy()
        begin = np.maximum(begin, window * grouping.window_seconds)
        end = np.minimum(end, (window + 1) * grouping.window_seconds)
    return begin, np.maximum(end - begin, 0.0)
