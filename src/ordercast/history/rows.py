"""From what commands print with `--json` to rows of the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from ordercast.core.errors import UsageError

HISTORY: Final = pa.schema(
    [
        ("commit", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
        ("name", pa.string()),
        ("of", pa.string()),
        ("unit", pa.string()),
        ("value", pa.float64()),
        ("count", pa.int64()),
    ]
)
"""`name` is what was found out (`latency.p99`, `verdict.integrity`), `of` what it was found out of (a protocol, a kind
of packet), `unit` in which run; rows of one name and `of` are compared. Where `count` is given, the value is the share
of so many runs."""

MEASURES: Final = {
    "latency": ("mean", "p50", "p90", "p99", "p999"),
    "throughput": ("messages_per_second", "completed_per_second", "deliveries_per_second"),
    "packets": ("packets_per_multicast", "bytes_per_multicast"),
}
"""The tables of `ordercast measure` that are kept, and of each what is compared."""
_TOLD_APART_BY: Final = ("protocol", "at", "background", "packet", "window")

Row = dict[str, Any]


def rows_of(document: Any, commit: str, time: datetime) -> list[Row]:
    """The rows of a document, which says by its form what it is."""
    match document:
        case {"trace": _, "latency": _}:
            found = _measures(document)
        case {"runs": dict(), "violated_claims": _}:
            found = _verdicts(document)
        case {"runs": int(), "violations": _, "vacuous_runs": _}:
            found = _campaign(document)
        case _:
            raise UsageError("this is not what verify, measure or simulate --campaign print with --json")
    return [{"count": None, **row, "commit": commit, "time": time} for row in found]


def _measures(document: Mapping[str, Any]) -> Iterator[Row]:
    for table, names in MEASURES.items():
        for line in document.get(table, ()):
            of = " ".join(str(line[key]) for key in _TOLD_APART_BY if line.get(key) not in (None, False))
            for name in names:
                if line.get(name) is not None:
                    unit = str(line.get("run", document["trace"]))
                    yield {"name": f"{table}.{name}", "of": of, "unit": unit, "value": float(line[name])}


def _verdicts(document: Mapping[str, Any]) -> Iterator[Row]:
    """1 where a property is violated, 0 where it holds; what was not judged, or is vacuous, says nothing."""
    for run, verdicts in document["runs"].items():
        for name, verdict in verdicts.items():
            if verdict["verdict"] in ("holds", "violated"):
                violated = float(verdict["verdict"] == "violated")
                of = "claimed" if verdict["claimed"] else "not claimed"
                yield {"name": f"verdict.{name}", "of": of, "unit": run, "value": violated}


def _campaign(document: Mapping[str, Any]) -> Iterator[Row]:
    runs, of = document["runs"], " ".join(sorted(document.get("branches", {}))) or "campaign"
    failing = len({(each.get("protocol"), each.get("seed")) for each in document["violations"]})
    shares = {"violations": failing, "vacuous_runs": document["vacuous_runs"]}
    for name, number in shares.items():
        yield {"name": f"campaign.{name}", "of": of, "unit": "campaign", "value": number / runs, "count": runs}
    if document.get("seconds"):
        yield {
            "name": "campaign.runs_per_second",
            "of": of,
            "unit": "campaign",
            "value": runs / document["seconds"],
        }
