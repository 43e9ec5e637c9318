"""Views: self-inclusion and virtual synchrony (Berket, chapter 5)."""

from __future__ import annotations

from itertools import combinations, pairwise

from .terms import Outcome, Row, Run, Terms, Violation, outcome, terms_of, violation


def self_inclusion(run: Run, rows: list[Row]) -> Outcome:
    terms = terms_of(run, rows)
    obliged = False
    violations: set[Violation] = set()
    for site in terms.sites:
        for view in terms.of_kind(site, "view"):
            next_view = min(
                (row["seq"] for row in terms.of_kind(site, "view") if row["seq"] > view["seq"]), default=float("inf")
            )
            multicasts = [row for row in terms.of_kind(site, "multicast") if view["seq"] < row["seq"] < next_view]
            if multicasts:
                obliged = True
                if site not in (view.get("members") or []):
                    violations.add(violation([site], []))
    return outcome(obliged, violations)


def _uses(terms: Terms, site: str, service: str | None) -> bool:
    return any(row.get("service") == service for row in terms.of_kind(site, "deliver", "activate"))


def _rows_in_view(terms: Terms, site: str, view: Row, next_view: Row) -> list[Row]:
    return [row for row in terms.rows_of[site] if view["seq"] < row["seq"] < next_view["seq"]]


def _delivered(rows: list[Row], service: str | None) -> set[str]:
    return {row["message"] for row in rows if row["kind"] == "deliver" and row.get("service") == service}


def _before_later_activation(rows_at_x: list[Row], rows_at_y: list[Row], service: str | None) -> set[str]:
    """The messages that either site delivered before the later of the two sites' activation points."""
    activations = [row for row in rows_at_x + rows_at_y if row["kind"] == "activate" and row.get("service") == service]
    if not activations:
        return set()
    moment = max(row["time"] for row in activations)

    def precedes(delivery: Row) -> bool:
        own = [row["seq"] for row in activations if row["site"] == delivery["site"] and row["time"] == moment]
        return delivery["seq"] < max(own) if own else delivery["time"] < moment

    return {row["message"] for row in rows_at_x + rows_at_y if row["kind"] == "deliver" and precedes(row)}


def virtual_synchrony(run: Run, rows: list[Row]) -> Outcome:
    terms = terms_of(run, rows)
    services = {row.get("service") for row in rows if row["kind"] in ("deliver", "activate")}
    obliged = False
    violations: set[Violation] = set()
    for x, y in combinations(terms.sites, 2):
        for v_at_x, w_at_x in pairwise(terms.of_kind(x, "view")):
            for v_at_y, w_at_y in pairwise(terms.of_kind(y, "view")):
                if (v_at_x["view"], w_at_x["view"]) != (v_at_y["view"], w_at_y["view"]):
                    continue
                rows_at_x = _rows_in_view(terms, x, v_at_x, w_at_x)
                rows_at_y = _rows_in_view(terms, y, v_at_y, w_at_y)
                for service in services:
                    if not (_uses(terms, x, service) and _uses(terms, y, service)):
                        continue
                    excluded = _before_later_activation(rows_at_x, rows_at_y, service)
                    at_x = _delivered(rows_at_x, service) - excluded
                    at_y = _delivered(rows_at_y, service) - excluded
                    if at_x or at_y:
                        obliged = True
                    for message in at_x ^ at_y:
                        violations.add(violation([x, y], [message]))
    return outcome(obliged, violations)
