"""What must happen in the end: agreement, termination, recovery and selective information."""

from __future__ import annotations

from .divergence import was_refused_since
from .terms import NOT_JUDGED, Outcome, Row, Run, Terms, Violation, outcome, terms_of, violation


def uniform_agreement(run: Run, rows: list[Row]) -> Outcome:
    if not run["settled"]:
        return NOT_JUDGED, set()
    terms = terms_of(run, rows)
    obliged = False
    violations: set[Violation] = set()
    for message in terms.known:
        for site in terms.due(message):
            delivered_elsewhere = any((x, message) in terms.first_delivery for x in terms.sites if x != site)
            if terms.is_correct(site) and delivered_elsewhere:
                obliged = True
                if (site, message) not in terms.first_delivery:
                    violations.add(violation([site], [message]))
    return outcome(obliged, violations)


def agreement(run: Run, rows: list[Row]) -> Outcome:
    if not run["settled"]:
        return NOT_JUDGED, set()
    terms = terms_of(run, rows)

    def stands(site: str, message: str) -> bool:
        own = [row["kind"] for row in terms.of_kind(site, "deliver", "rollback") if row["message"] == message]
        return bool(own) and own[-1] == "deliver"

    obliged = False
    violations: set[Violation] = set()
    for message in terms.known:
        for y in terms.due(message):
            if terms.is_correct(y) and any(x != y and terms.is_correct(x) and stands(x, message) for x in terms.sites):
                obliged = True
                if not stands(y, message):
                    violations.add(violation([y], [message]))
    return outcome(obliged, violations)


def _judge_termination(terms: Terms) -> tuple[bool, set[Violation]]:
    obliged = False
    violations: set[Violation] = set()
    for message in terms.known:
        row = terms.multicast_row[message]
        if not terms.is_correct(row["site"]) or was_refused_since(terms, row["site"], terms.begin(message)):
            continue
        for site in terms.due(message):
            if terms.is_correct(site):
                obliged = True
                if (site, message) not in terms.first_delivery:
                    violations.add(violation([site], [message]))
    return obliged, violations


def termination(run: Run, rows: list[Row]) -> Outcome:
    if not run["settled"]:
        return NOT_JUDGED, set()
    return outcome(*_judge_termination(terms_of(run, rows)))


def recovery(run: Run, rows: list[Row]) -> Outcome:
    if not run["settled"]:
        return NOT_JUDGED, set()
    terms = terms_of(run, rows)
    obliged = False
    violations: set[Violation] = set()
    for site in terms.sites:
        since_fail: list[str] | None = None
        for row in terms.rows_of[site]:
            if row["kind"] == "fail":
                since_fail = []
            elif since_fail is not None:
                since_fail.append(row["kind"])
        if since_fail is not None and ("awake" in since_fail or "recover" in since_fail):
            obliged = True
            if "recover" not in since_fail:
                violations.add(violation([site], []))
    return outcome(obliged, violations)


def _is_addressed(terms: Terms, site: str, message: str) -> bool:
    destinations = terms.destinations(message)
    if destinations is not None:
        return site in destinations
    return any(terms.was_ever_member(site, group) for group in terms.groups(message))


def selective_information(run: Run, rows: list[Row]) -> Outcome:
    terms = terms_of(run, rows)
    obliged, violations = _judge_termination(terms) if run["settled"] else (False, set())
    for site in terms.sites:
        for delivery in terms.deliveries_of[site]:
            if delivery["message"] in terms.known:
                obliged = True
                if not _is_addressed(terms, site, delivery["message"]):
                    violations.add(violation([site], [delivery["message"]]))
    return outcome(obliged, violations)
