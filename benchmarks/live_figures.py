"""From the members' own reports to the figures of a group: the slowest counts."""

from __future__ import annotations

from typing import Any

Result = dict[str, Any]


def percentile(values: list[float], part: float) -> float | None:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))] if values else None


def latencies(reports: list[Result]) -> Result:
    """In milliseconds: everywhere, at the senders themselves (a round), at the others."""
    at_sender: list[float] = []
    at_others: list[float] = []
    for index, report in enumerate(reports):
        for origin, nanoseconds in report["nanoseconds"]:
            (at_sender if origin == index else at_others).append(nanoseconds / 1e6)
    figures: Result = {}
    for name, values in (("", at_sender + at_others), ("sender_", at_sender), ("others_", at_others)):
        figures |= {f"{name}p50_ms": percentile(values, 0.5), f"{name}p99_ms": percentile(values, 0.99)}
    return figures


def group_figures(reports: list[Result]) -> Result:
    """Reports have messages_per_second, sent, delivered, cores, and nanoseconds: pairs of origin and latency."""
    sent = sum(report["sent"] for report in reports)
    figures: Result = {
        "messages_per_second": min(report["messages_per_second"] for report in reports),
        "lost": sent - min(report["delivered"] for report in reports),
        "shares": [round(report["sent"] / sent, 3) if sent else 0.0 for report in reports],
        "cores": round(sum(report["cores"] for report in reports), 2),
    }
    if any(report["nanoseconds"] for report in reports):
        figures |= latencies(reports)
    return figures
