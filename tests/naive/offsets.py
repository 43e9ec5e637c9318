"""Where a message stands in a group: offset-agreement."""

from __future__ import annotations

from itertools import combinations

from .terms import Outcome, Row, Run, Terms, Violation, names, outcome, terms_of, violation


def _walk(terms: Terms, site: str, group: str) -> tuple[dict[str, int], int | None]:
    """At which offset each message stands at the site, and the offset at which the site is in the end."""
    at: int | None = 0 if site in terms.run["groups"].get(group, []) else None
    standing: dict[str, int] = {}
    for row in terms.rows_of[site]:
        if row["kind"] in ("join", "leave") and names(row, group):
            at = row.get("offset") if row["kind"] == "join" else None
        elif row["kind"] in ("deliver", "rollback") and ("group", group) in terms.address(row["message"]):
            if row["kind"] == "rollback":
                standing.pop(row["message"], None)
            elif at is not None:
                standing[row["message"]] = at
            if at is not None:
                at += _count(row) if row["kind"] == "deliver" else -_count(row)
    return standing, at


def _count(row: Row) -> int:
    return 1 if row.get("count") is None else row["count"]


def offset_agreement(run: Run, rows: list[Row]) -> Outcome:
    terms = terms_of(run, rows)
    obliged = False
    violations: set[Violation] = set()
    at_rest = run["settled"] and all(terms.is_correct(site) for site in terms.sites)
    for group in terms.every_group():
        if group is None:
            continue
        walks = {site: _walk(terms, site, group) for site in terms.sites}
        for x, y in combinations(terms.sites, 2):
            (standing_x, end_x), (standing_y, end_y) = walks[x], walks[y]
            for message in set(standing_x) & set(standing_y):
                obliged = True
                if standing_x[message] != standing_y[message]:
                    violations.add(violation([x, y], [message]))
            if at_rest and end_x is not None and end_y is not None:
                obliged = obliged or end_x != 0 or end_y != 0
                if end_x != end_y:
                    violations.add(violation([x, y], []))
    return outcome(obliged, violations)
