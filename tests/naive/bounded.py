"""Bounded delivery and atomicity: P1 to P4 and Q1 to Q3 (Spauster 6.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from .terms import NOT_JUDGED, Outcome, Row, Run, Terms, Violation, outcome, serves, terms_of, violation

# Everything that a property obliges to: the message, the site that must deliver it, by when, the other sites concerned.
Obligation = tuple[str, str, float, tuple[str, ...]]
Obligations = Callable[[Terms, float], Iterator[Obligation]]


def _bounded(name: str, obligations: Obligations) -> Callable[[Run, list[Row]], Outcome]:
    def checker(run: Run, rows: list[Row]) -> Outcome:
        terms = terms_of(run, rows)
        bound = (terms.bounds.get("promised") or {}).get(name)
        if bound is None or (name != "P1" and terms.bounds.get("phi_n") is None):
            return NOT_JUDGED, set()
        obliged = False
        violations: set[Violation] = set()
        for message, site, deadline, _ in obligations(terms, bound):
            if deadline > terms.ended_at:
                continue
            obliged = True
            delivery = terms.first_delivery.get((site, message))
            if delivery is None or delivery["time"] > deadline:
                violations.add(violation([site], [message]))
        return outcome(obliged, violations)

    return checker


def _first_receipt(terms: Terms, site: str, message: str) -> float | None:
    return next((row["time"] for row in terms.of_kind(site, "receive") if serves(row, message)), None)


def _moments(terms: Terms, first: float, length: float, site: str, message: str) -> list[float]:
    """Every θ >= first worth asking about.

    What is asked of θ changes only where θ or θ + length meets a fail, an awake, a recover, a broken packet, the
    delivery or the end of the run. So it suffices to ask at these moments and once in between each two.
    """
    events = [row["time"] for row in terms.rows if row["kind"] in ("fail", "awake", "recover")]
    events += [sent for _, _, sent in terms.broken_packets()]
    delivery = terms.first_delivery.get((site, message))
    if delivery is not None:
        events.append(delivery["time"])
    events.append(terms.ended_at)
    turns = sorted({first, *events, *(time - length for time in events)})
    turns = [turn for turn in turns if first <= turn <= terms.ended_at]
    return turns + [(a + b) / 2 for a, b in pairwise(turns)]


def _p1(terms: Terms, bound: float) -> Iterator[Obligation]:
    for message in terms.known:
        for a in terms.due(message):
            t = _first_receipt(terms, a, message)
            if t is not None and terms.is_up(a, t, bound):
                yield message, a, t + bound, ()


def _p2(terms: Terms, bound: float) -> Iterator[Obligation]:
    for message in terms.known:
        source, t = terms.multicast_row[message]["site"], terms.multicast_row[message]["time"]
        for a in terms.due(message):
            if terms.is_up(a, t, bound) and terms.is_awake(source, t, bound) and terms.can_reach(a, source, t, bound):
                yield message, a, t + bound, (source,)


def _p3(terms: Terms, bound: float) -> Iterator[Obligation]:
    for message in terms.known:
        for a in terms.due(message):
            t = _first_receipt(terms, a, message)
            if t is None or not terms.is_up(a, t, bound):
                continue
            others = [b for b in terms.due(message) if b != a]
            needed = terms.bounds.get("p3_sites")
            if needed is None:
                needed = len(others)
            reached = [b for b in others if terms.is_awake(b, t, bound) and terms.can_reach(a, b, t, bound)]
            if len(reached) >= needed:
                yield message, a, t + bound, tuple(reached)


def _whenever_connected(
    terms: Terms, bound: float, message: str, site: str, first: float, other: str
) -> Iterator[Obligation]:
    """The site must have the message by θ + bound for each θ at which it is up and can talk with the other."""
    for theta in _moments(terms, first, bound, site, message):
        if (
            terms.is_up(site, theta, bound)
            and terms.is_awake(other, theta, bound)
            and terms.can_reach(site, other, theta, bound)
        ):
            yield message, site, theta + bound, (other,)


def _p4(terms: Terms, bound: float) -> Iterator[Obligation]:
    for message in terms.known:
        for a in terms.due(message):
            for send in terms.sends:
                if serves(send, message) and send["site"] != a and a in terms.addressed_by(send):
                    yield from _whenever_connected(terms, bound, message, a, send["time"], send["site"])


def _q1(terms: Terms, bound: float) -> Iterator[Obligation]:
    for message in terms.known:
        for a in terms.due(message):
            if (a, message) not in terms.first_delivery:
                continue
            theta = terms.first_delivery[a, message]["time"]
            for b in terms.due(message):
                if (
                    b != a
                    and terms.is_up(b, theta, bound)
                    and terms.is_awake(a, theta, bound)
                    and terms.can_reach(a, b, theta, bound)
                ):
                    yield message, b, theta + bound, (a,)


def _q2(terms: Terms, bound: float) -> Iterator[Obligation]:
    for message in terms.known:
        if not any((a, message) in terms.first_delivery for a in terms.due(message)):
            continue
        source, t = terms.multicast_row[message]["site"], terms.multicast_row[message]["time"]
        for b in terms.due(message):
            yield from _whenever_connected(terms, bound, message, b, t, source)


def _parent(terms: Terms, site: str, message: str) -> str | None:
    if (site, message) in terms.first_delivery:
        return terms.first_delivery[site, message].get("parent")
    named = {row.get("parent") for row in terms.deliveries_of.get(site, [])} - {None}
    return named.pop() if len(named) == 1 else None


def _q3(terms: Terms, bound: float) -> Iterator[Obligation]:
    for message in terms.known:
        for b in terms.due(message):
            parent = _parent(terms, b, message)
            if parent is None or parent == b or (parent, message) not in terms.first_delivery:
                continue
            t = terms.first_delivery[parent, message]["time"]
            yield from _whenever_connected(terms, bound, message, b, t, parent)


p1, p2, p3, p4 = _bounded("P1", _p1), _bounded("P2", _p2), _bounded("P3", _p3), _bounded("P4", _p4)
q1, q2, q3 = _bounded("Q1", _q1), _bounded("Q2", _q2), _bounded("Q3", _q3)
