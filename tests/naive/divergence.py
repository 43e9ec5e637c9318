"""Histories that differ although nobody was refused: no-silent-divergence."""

from __future__ import annotations

from .terms import Outcome, Row, Run, Terms, Violation, outcome, terms_of, violation


def was_refused_since(terms: Terms, site: str, low: float) -> bool:
    return _was_refused_between(terms, site, low, float("inf"))


def was_refused_between_rows(terms: Terms, site: str, low: int, high: int) -> bool:
    return any(low < row["seq"] < high for row in terms.of_kind(site, "fail") if row.get("reason") == "refused")


def _was_refused_between(terms: Terms, site: str, low: float, high: float) -> bool:
    return any(low < row["time"] < high for row in terms.of_kind(site, "fail") if row.get("reason") == "refused")


def _is_excused(terms: Terms, x: str, y: str, message: str, other: str) -> bool:
    at_x, at_y = terms.first_delivery[x, message]["time"], terms.first_delivery[y, other]["time"]
    return _was_refused_between(terms, x, at_x, at_y) or _was_refused_between(terms, y, at_y, at_x)


def _judge_order_and_gaps(terms: Terms) -> tuple[bool, set[Violation]]:
    obliged = False
    violations: set[Violation] = set()
    for x in terms.sites:
        for y in terms.sites:
            if x == y:
                continue
            for message in terms.delivered_messages:
                for other in terms.delivered_messages:
                    if message == other or (x, message) not in terms.first_delivery:
                        continue
                    if (x, other) not in terms.first_delivery or (y, other) not in terms.first_delivery:
                        continue
                    if not terms.delivered_before(x, message, other):
                        continue
                    has_it = (y, message) in terms.first_delivery
                    if not has_it and y not in terms.due(message):
                        continue
                    obliged = True
                    in_order = has_it and terms.delivered_before(y, message, other)
                    if not in_order and not _is_excused(terms, x, y, message, other):
                        violations.add(violation([x, y], [message, other]))
    return obliged, violations


def _judge_the_end(terms: Terms) -> tuple[bool, set[Violation]]:
    obliged = False
    violations: set[Violation] = set()
    if not terms.run["settled"] or not all(terms.is_correct(site) for site in terms.sites):
        return obliged, violations
    for message in terms.known:
        for y in terms.due(message):
            stands = [
                x
                for x in terms.sites
                if x != y
                and (x, message) in terms.first_delivery
                and not _was_refused_between(terms, x, terms.first_delivery[x, message]["time"], float("inf"))
            ]
            if stands:
                obliged = True
                if (y, message) not in terms.first_delivery:
                    violations.add(violation([y], [message]))
    return obliged, violations


def no_silent_divergence(run: Run, rows: list[Row]) -> Outcome:
    terms = terms_of(run, rows)
    obliged, violations = _judge_order_and_gaps(terms)
    obliged_at_the_end, missing = _judge_the_end(terms)
    return outcome(obliged or obliged_at_the_end, violations | missing)
