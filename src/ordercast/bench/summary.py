"""What the processes saw, put together."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import Any

from ordercast.bench.member import Work


def milliseconds_to_the_last(reports: list[dict[str, Any]]) -> list[float]:
    """Of each message that every process has delivered while it was measured: from its multicast to its last delivery.
    Of paced runs that are short enough for every latency to be kept."""
    slowest: dict[int, int] = {}
    seen: Counter[int] = Counter()
    for report in reports:
        for stamp, latency in zip(report["stamps"], report["latencies"], strict=True):
            slowest[stamp] = max(slowest.get(stamp, 0), latency)
            seen[stamp] += 1
    return sorted(latency / 1e6 for stamp, latency in slowest.items() if seen[stamp] == len(reports))


def summarize(reports: list[dict[str, Any]], work: Work) -> dict[str, Any]:
    """What the slowest member of each group saw, and how long messages took."""
    sent: Counter[str] = Counter()
    for report in reports:
        sent.update(report["sent"])
    delivered = sum(
        min(report["within"].get(group, 0) for report in reports if group in report["groups"]) for group in work.groups
    )
    lost = sum(sum(sent[group] for group in report["groups"]) - report["delivered"] for report in reports)
    # Everyone's to the same measure: one that stands for two counts as much as two.
    every = max(report["latencies_every"] for report in reports)
    latencies = sorted(
        latency / 1e6 for report in reports for latency in report["latencies"][:: every // report["latencies_every"]]
    )
    quantiles = statistics.quantiles(latencies, n=100, method="inclusive") if len(latencies) > 1 else []
    return {
        "messages_per_second": round(delivered / work.seconds, 1),
        "p50_ms": round(quantiles[49], 4) if quantiles else None,
        "p99_ms": round(quantiles[98], 4) if quantiles else None,
        "lost": lost,
        "cpu_seconds": round(sum(report["cpu_seconds"] for report in reports), 2),
        "memory_mb": [[round(peak, 1) for peak in report["memory_mb"]] for report in reports],
        "counters": [report["counters"] for report in reports],
    }
