"""Each message once, with its multicast, its first delivery at each site, and when its last destination had it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ordercast.trace.schema import Run

MESSAGE = ["run", "message"]
"""What names a message."""


class Messages(NamedTuple):
    """What was asked for, and what came of it."""

    multicasts: pd.DataFrame
    """run, message, multicast_at, count, completed_at: the earliest multicast of each message; where a destination
    never delivered it, `completed_at` is not a number."""
    deliveries: pd.DataFrame
    """run, message, site, multicast_at, delivered_at, count: the first delivery of each message at each site. Where the
    multicast is not known, `multicast_at` is not a number."""


def take_messages(events: pa.Table, runs: Sequence[Run]) -> Messages:
    """From all events: a redelivery adds nothing, and a replay is no delivery."""
    columns = ["run", "message", "site", "seq", "time", "count"]
    asked = of_kinds(events, "multicast").select([*columns, "groups", "destinations"]).to_pandas()
    asked = asked.sort_values(["run", "message", "time", "site", "seq"]).drop_duplicates(MESSAGE)
    asked["count"] = asked["count"].fillna(1).astype("int64")
    asked = asked.rename(columns={"time": "multicast_at"})
    first = of_kinds(events, "deliver").select(columns).to_pandas()
    first = first.sort_values(["run", "message", "site", "seq", "time"]).drop_duplicates([*MESSAGE, "site"])
    first = first.rename(columns={"time": "delivered_at", "count": "own_count"}).drop(columns="seq")
    first = first.merge(asked[[*MESSAGE, "multicast_at", "count"]], on=MESSAGE, how="left")
    # The number of application messages may be told by the multicast only.
    first["count"] = first["own_count"].fillna(first["count"]).fillna(1).astype("int64")
    completed = _completed_at(asked, first, _memberships(events, runs))
    asked = asked[[*MESSAGE, "multicast_at", "count"]].assign(completed_at=completed)
    return Messages(asked.reset_index(drop=True), first.drop(columns="own_count"))


def of_kinds(events: pa.Table, *kinds: str) -> pa.Table:
    """The rows of these kinds."""
    return events.filter(pc.is_in(events.column("kind"), value_set=pa.array(kinds)))


class _Membership(NamedTuple):
    """Of one run."""

    owed: dict[str, dict[str, float]]
    """Group -> site -> since when a message to the group has been owed to it without a break."""
    down: set[str]
    """Sites with a failure and no recovery after it."""


def _memberships(events: pa.Table, runs: Sequence[Run]) -> dict[str, _Membership]:
    """A message to a group is owed to those who were members when it was multicast and have not left since. So all that
    matters of a site's joins and leaves is the stretch after its last leave, and one number says when that began."""
    found = {
        run.run: _Membership({group: dict.fromkeys(sites, -np.inf) for group, sites in run.groups.items()}, set())
        for run in runs
    }
    moves = of_kinds(events, "join", "leave", "fail", "recover")
    for row in moves.select(["run", "site", "seq", "time", "kind", "groups"]).sort_by("seq").to_pylist():
        of_run = found[row["run"]]
        if row["kind"] == "fail":
            of_run.down.add(row["site"])
        elif row["kind"] == "recover":
            of_run.down.discard(row["site"])
        for group in (row["groups"] or []) if row["kind"] in ("join", "leave") else []:
            members = of_run.owed.setdefault(group, {})
            if row["kind"] == "leave":
                members.pop(row["site"], None)
            else:
                members[row["site"]] = min(members.get(row["site"], np.inf), row["time"])
    return found


def _completed_at(asked: pd.DataFrame, first: pd.DataFrame, memberships: Mapping[str, _Membership]) -> np.ndarray:
    """Of each multicast when the last destination delivered.

    A destination that is down at the end of the run is not waited for; else one site that crashes for good in the first
    second would leave nothing to measure. If it delivered the message before, that delivery counts as any other.
    """
    got: dict[tuple[str, str], tuple[set[str], float]] = {}
    for run, message, site, time in zip(
        first["run"], first["message"], first["site"], first["delivered_at"], strict=True
    ):
        sites, last = got.get((run, message), (set(), -np.inf))
        sites.add(site)
        got[run, message] = (sites, max(last, time))
    completed = np.full(len(asked), np.nan)
    rows = zip(
        asked["run"], asked["message"], asked["multicast_at"], asked["groups"], asked["destinations"], strict=True
    )
    for place, (run, message, at, groups, destinations) in enumerate(rows):
        sites, last = got.get((run, message), (set(), np.nan))
        of_run = memberships[run]
        # Explicit destinations are the address; an empty list is none.
        if destinations is not None and len(destinations):
            wanted = set(destinations)
        else:
            members = (of_run.owed.get(group, {}) for group in (groups if groups is not None else ()))
            wanted = {site for each in members for site, since in each.items() if since <= at}
        if wanted - of_run.down <= sites:
            completed[place] = last
    return completed
