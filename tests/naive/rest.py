"""At rest: what is still sent, kept or waited for when everything is over."""

from __future__ import annotations

from .terms import NOT_JUDGED, Outcome, Row, Run, Terms, Violation, outcome, terms_of, violation


def _ends_at_rest(terms: Terms) -> bool:
    return all(terms.is_correct(site) for site in terms.sites)


def quiescence(run: Run, rows: list[Row]) -> Outcome:
    bounds = run["bounds"].get("rest", {})
    if not run["settled"] or "seconds" not in bounds or "packets" not in bounds:
        return NOT_JUDGED, set()
    terms = terms_of(run, rows)
    if not _ends_at_rest(terms):
        return outcome(False, set())
    violations: set[Violation] = set()
    for site in terms.sites:
        late = [r for r in terms.of_kind(site, "send") if r["time"] > run["ended_at"] - bounds["seconds"]]
        if len(late) > bounds["packets"] * bounds["seconds"] or any(row.get("messages") for row in late):
            violations.add(violation([site], []))
    return outcome(any(terms.rows_of[site] for site in terms.sites), violations)


def no_leak(run: Run, rows: list[Row]) -> Outcome:
    bounds = run["bounds"].get("rest", {})
    if not run["settled"] or "messages" not in bounds or "entries" not in bounds:
        return NOT_JUDGED, set()
    if not _ends_at_rest(terms_of(run, rows)):
        return outcome(False, set())
    obliged = False
    violations: set[Violation] = set()
    for site, kept in run["rest"].items():
        for kind in ("messages", "entries"):
            if kind in kept:
                obliged = True
                if kept[kind] > bounds[kind]:
                    violations.add(violation([site], []))
    return outcome(obliged, violations)


def credit_returned(run: Run, rows: list[Row]) -> Outcome:
    if not run["settled"]:
        return NOT_JUDGED, set()
    if not _ends_at_rest(terms_of(run, rows)):
        return outcome(False, set())
    obliged = False
    least = run["bounds"].get("rest", {}).get("credit", 1)
    violations: set[Violation] = set()
    for site, kept in run["rest"].items():
        if "waiting" in kept or "credit" in kept:
            obliged = True
            if kept.get("waiting", 0) > 0 or kept.get("credit", least) < least:
                violations.add(violation([site], []))
    return outcome(obliged, violations)
