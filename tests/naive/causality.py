"""Causality, and the services of InterGroup that rest on it (Berket 1.3)."""

from __future__ import annotations

from .order import multiple_group_order, transitive_closure
from .terms import HOLDS, VACUOUS, VIOLATED, Outcome, Row, Run, Terms, Violation, outcome, terms_of, violation


def causal_precedence(terms: Terms) -> set[tuple[str, str]]:
    """m, m' where m causally precedes m', both known and different."""
    direct: set[tuple[str, str]] = set()
    for message in terms.known:
        for other in terms.known:
            other_row = terms.multicast_row[other]
            delivery = terms.first_delivery.get((other_row["site"], message))
            if (
                (terms.source(message) == other_row["site"] and terms.multicast_before(message, other))
                or (delivery is not None and delivery["seq"] < other_row["seq"])
                or message in (other_row.get("depends") or [])
            ):
                direct.add((message, other))
    return {(message, other) for message, other in transitive_closure(direct) if message != other}


def stayed_in_views(terms: Terms, site: str, other: str, start: float, end: Row) -> bool:
    """Whether `other` stayed in the views of `site` between a moment and one of its own rows."""
    views = terms.of_kind(site, "view")
    at_start = [row for row in views if row["time"] <= start]
    later = [row for row in views if start < row["time"] and row["seq"] < end["seq"]]
    return all(other in (row.get("members") or []) for row in at_start[-1:] + later)


def causal_order(run: Run, rows: list[Row]) -> Outcome:
    terms = terms_of(run, rows)
    obliged = False
    violations: set[Violation] = set()
    for message, other in causal_precedence(terms):
        for q in terms.sites:
            if (q, message) in terms.first_delivery and (q, other) in terms.first_delivery:
                obliged = True
                if terms.delivered_before(q, other, message):
                    violations.add(violation([q], [message, other]))
    return outcome(obliged, violations)


def timestamp_order(run: Run, rows: list[Row]) -> Outcome:
    """Both halves together: an obligation of either will do, a violation of either is one."""
    same_order, inverted = multiple_group_order(run, rows)
    causal, causally_inverted = causal_order(run, rows)
    if VIOLATED in (same_order, causal):
        return VIOLATED, inverted | causally_inverted
    return (HOLDS if HOLDS in (same_order, causal) else VACUOUS), set()


def _has_before(terms: Terms, site: str, message: str, other: str) -> bool:
    return (site, message) in terms.first_delivery and terms.delivered_before(site, message, other)


def reliable_source_order(run: Run, rows: list[Row]) -> Outcome:
    terms = terms_of(run, rows)
    obliged = False
    violations: set[Violation] = set()
    for q in terms.sites:
        for later in terms.known:
            if (q, later) not in terms.first_delivery:
                continue
            p = terms.multicast_row[later]["site"]
            activation_point = next(
                row["message"] for row in terms.deliveries_of[q] if terms.source(row["message"]) == p
            )
            for message in terms.known:
                if (
                    terms.source(message) == p
                    and terms.multicast_before(message, later)
                    and q in terms.owed(message)
                    and not terms.multicast_before(message, activation_point)
                    and stayed_in_views(terms, q, p, terms.begin(message), terms.first_delivery[q, later])
                ):
                    obliged = True
                    if not _has_before(terms, q, message, later):
                        violations.add(violation([q], [message, later]))
    return outcome(obliged, violations)


def reliable_timestamp_order(run: Run, rows: list[Row]) -> Outcome:
    terms = terms_of(run, rows)
    obliged = False
    violations: set[Violation] = set()
    for message, later in causal_precedence(terms):
        p, p_prime = terms.multicast_row[message]["site"], terms.multicast_row[later]["site"]
        for q in terms.owed(message):
            if (q, later) not in terms.first_delivery:
                continue
            activated = any(
                terms.source(other) == p
                and (other == message or terms.multicast_before(other, message))
                and (q, other) in terms.first_delivery
                for other in terms.known
            )
            start, end = terms.begin(message), terms.first_delivery[q, later]
            if (
                activated
                and stayed_in_views(terms, q, p, start, end)
                and stayed_in_views(terms, q, p_prime, start, end)
            ):
                obliged = True
                if not _has_before(terms, q, message, later):
                    violations.add(violation([q], [message, later]))
    return outcome(obliged, violations)
