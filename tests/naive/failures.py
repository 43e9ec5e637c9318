"""Consistent order in the presence of failures: R1, R2, R3 and R2-logical (Spauster 6.3 and 7.3)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from .divergence import was_refused_between_rows
from .order import Relation, any_pair, common_pairs, same_address, same_source_and_address
from .terms import Outcome, Row, Run, Terms, Violation, outcome, terms_of, violation

Checker = Callable[[Run, list[Row]], Outcome]


def second_deliveries(terms: Terms) -> set[Violation]:
    return {
        violation([site], [message])
        for site in terms.sites
        for message in {row["message"] for row in terms.deliveries_of[site]}
        for one, another in pairwise(row for row in terms.deliveries_of[site] if row["message"] == message)
        if not was_refused_between_rows(terms, site, one["seq"], another["seq"])
    }


def _r1(related: Relation) -> Checker:
    def checker(run: Run, rows: list[Row]) -> Outcome:
        terms = terms_of(run, rows)
        obliged = False
        violations = second_deliveries(terms)
        for x, y, message, other in common_pairs(terms, related):
            obliged = True
            if terms.delivered_before(x, message, other) != terms.delivered_before(y, message, other):
                violations.add(violation([x, y], [message, other]))
        return outcome(obliged, violations)

    return checker


def _judge_r2(terms: Terms, related: Relation, fails_of: dict[str, list[float]]) -> Outcome:
    obliged = False
    violations = second_deliveries(terms)
    for x, y, message, other in common_pairs(terms, related):
        obliged = True
        if terms.delivered_before(x, message, other) == terms.delivered_before(y, message, other):
            continue
        # Name them as the definition does: x has m before m', y has m' before m.
        m, m_prime = (message, other) if terms.delivered_before(x, message, other) else (other, message)

        def time_of(site: str, delivered: str) -> float:
            return terms.first_delivery[site, delivered]["time"]

        excused_by_y = any(time_of(y, m) < fail < time_of(x, m) for fail in fails_of[y])
        excused_by_x = any(time_of(x, m_prime) < fail < time_of(y, m_prime) for fail in fails_of[x])
        if not (excused_by_y or excused_by_x):
            violations.add(violation([x, y], [message, other]))
    return outcome(obliged, violations)


def _r2(related: Relation) -> Checker:
    def checker(run: Run, rows: list[Row]) -> Outcome:
        terms = terms_of(run, rows)
        return _judge_r2(terms, related, terms.fails_of)

    return checker


def majority_installed(terms: Terms) -> dict[str, float]:
    """When each view that ever gets there is installed by a majority of the electorate of that moment."""
    electorate = {site for members in terms.run["groups"].values() for site in members}
    views = [row for row in terms.rows if row["kind"] == "view"]
    moments: dict[str, float] = {}
    seen: list[Row] = []
    for row in sorted(views, key=lambda row: (row["time"], row["site"], row["seq"])):
        seen.append(row)
        installed = {earlier["site"] for earlier in seen if earlier["view"] == row["view"]}
        if row["view"] not in moments and 2 * len(installed & electorate) > len(electorate):
            moments[row["view"]] = row["time"]
            electorate = set(row.get("members") or [])
    return moments


def logical_failures(terms: Terms) -> dict[str, list[tuple[float, float]]]:
    """Per site the periods in which it is logically failed: from what time until what `seq` of its own."""
    moments = majority_installed(terms)
    periods: dict[str, list[tuple[float, float]]] = {site: [] for site in terms.sites}
    for name, moment in moments.items():
        for site in terms.sites:
            views = terms.of_kind(site, "view")
            if any(row["view"] == name and row["time"] <= moment for row in views):
                continue
            ends = [
                row
                for row in views
                if row["view"] == name or (row["view"] in moments and moments[row["view"]] > moment)
            ]
            if any(row["time"] <= moment for row in ends):
                continue  # It has overtaken the majority.
            periods[site].append((moment, min((row["seq"] for row in ends), default=float("inf"))))
    return periods


def r2_logical(run: Run, rows: list[Row]) -> Outcome:
    terms = terms_of(run, rows)
    periods = logical_failures(terms)

    def counts(row: Row) -> bool:
        if row["kind"] != "deliver":
            return True
        taken_back = any(
            rollback["message"] == row["message"] and rollback["seq"] > row["seq"]
            for rollback in terms.of_kind(row["site"], "rollback")
        )
        logically_failed = any(start <= row["time"] and row["seq"] < end for start, end in periods[row["site"]])
        return not taken_back and not logically_failed

    fails_of = {site: terms.fails_of[site] + [start for start, _ in periods[site]] for site in terms.sites}
    return _judge_r2(Terms(run, [row for row in rows if counts(row)]), any_pair, fails_of)


def _valid_delivery(terms: Terms, site: str, message: str, moment: float) -> Row | None:
    valid = None
    for row in terms.of_kind(site, "deliver", "rollback"):
        if row["message"] == message and row["time"] < moment:
            valid = row if row["kind"] == "deliver" else None
    return valid


def _r3(related: Relation) -> Checker:
    def checker(run: Run, rows: list[Row]) -> Outcome:
        terms = terms_of(run, rows)
        # Between two consecutive times nothing changes: one moment in each gap stands for all. (Rows of one time are
        # one step of a site, and what holds in the middle of a step is no state of the site.)
        times = sorted({row["time"] for row in rows if row["kind"] in ("deliver", "rollback", "fail", "recover")})
        moments = [(a + b) / 2 for a, b in pairwise([*times, terms.ended_at + 1.0])]
        up = {(site, moment): terms.is_up(site, moment, 0) for site in terms.sites for moment in moments}
        obliged = False
        violations: set[Violation] = set()
        for x, y, message, other in common_pairs(terms, related):
            obliged = True
            for moment in moments:
                if not (up[x, moment] and up[y, moment]):
                    continue
                at_x, other_at_x = (_valid_delivery(terms, x, m, moment) for m in (message, other))
                at_y, other_at_y = (_valid_delivery(terms, y, m, moment) for m in (message, other))
                if at_x is None or other_at_x is None or at_y is None or other_at_y is None:
                    continue
                if (at_x["seq"] < other_at_x["seq"]) != (at_y["seq"] < other_at_y["seq"]):
                    violations.add(violation([x, y], [message, other]))
        return outcome(obliged, violations)

    return checker


r1, r1_single_source, r1_multiple_source = (_r1(r) for r in (any_pair, same_source_and_address, same_address))
r2, r2_single_source, r2_multiple_source = (_r2(r) for r in (any_pair, same_source_and_address, same_address))
r3, r3_single_source, r3_multiple_source = (_r3(r) for r in (any_pair, same_source_and_address, same_address))
