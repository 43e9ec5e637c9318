"""A trace as a log that a person can read: who multicast, sent, lost, delivered what, and when."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from ordercast.cli.diagram import short_name

_PLAIN = {"fail": "fails", "awake": "is awake", "recover": "takes part again"}
_OF_A_MESSAGE = {"deliver": "delivers", "replay": "replays", "rollback": "takes back"}
_OF_A_GROUP = {"join": "joins", "leave": "leaves", "activate": "chooses a service for"}


def narrate(events: pa.Table) -> Iterator[str]:
    """One line an event, in order of time; sends of the same thing to several sites are one line."""
    rows = sorted(events.to_pylist(), key=lambda row: (row["time"], row["site"], row["seq"]))
    for row in _with_merged_sends(rows):
        yield f"{row['time']:8.4f}  {row['site']} {_words(row)}"


def _with_merged_sends(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    merged: list[dict[str, Any]] = []
    last_at: dict[str, dict[str, Any]] = {}
    for row in rows:
        last = last_at.get(row["site"])
        same = last is not None and all(last[key] == row[key] for key in ("kind", "packet", "messages", "size"))
        if row["kind"] == "send" and last is not None and same and row["peer"] not in last["peers"]:
            last["peers"].append(row["peer"])
            continue
        merged.append(row | {"peers": [row["peer"]]})
        last_at[row["site"]] = merged[-1]
    return merged


def _words(row: dict[str, Any]) -> str:
    kind = row["kind"]
    if kind in _PLAIN:
        return _PLAIN[kind] if row["reason"] is None else f"{_PLAIN[kind]} ({row['reason']})"
    if kind == "multicast":
        return f"multicasts {short_name(row['message'])} to {', '.join(row['groups'])}"
    if kind in _OF_A_MESSAGE:
        return f"{_OF_A_MESSAGE[kind]} {short_name(row['message'])}"
    if kind == "view":
        return f"installs view {row['view']} of {', '.join(row['members'])}"
    if kind in _OF_A_GROUP:
        return f"{_OF_A_GROUP[kind]} {', '.join(row['groups'])}"
    packet = " ".join([row["packet"], *map(short_name, row["messages"] or ())])
    if kind == "send":
        return f"sends {packet} to {', '.join(peer or 'all' for peer in row['peers'])}"
    if kind == "receive":
        return f"receives {packet} from {row['peer']}"
    return f"misses {packet} from {row['peer']} ({row['reason']})"
