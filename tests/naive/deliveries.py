"""Safety of single deliveries: integrity and no-duplication."""

from __future__ import annotations

from .divergence import was_refused_between_rows
from .terms import Outcome, Row, Run, Terms, Violation, outcome, serves, terms_of, violation


def _is_premature(terms: Terms, delivery: Row) -> bool:
    site, message = delivery["site"], delivery["message"]
    if site != terms.source(message):
        return delivery["time"] < terms.begin(message)
    if delivery["seq"] > terms.multicast_row[message]["seq"]:
        return False
    sends = [row["seq"] for row in terms.of_kind(site, "send") if serves(row, message)]
    return all(delivery["seq"] < send for send in sends)


def _is_misplaced(terms: Terms, delivery: Row) -> bool:
    destinations = terms.destinations(delivery["message"])
    if destinations is not None:
        return delivery["site"] not in destinations
    return not any(terms.is_member_at(delivery, group) for group in terms.groups(delivery["message"]))


def integrity(run: Run, rows: list[Row]) -> Outcome:
    terms = terms_of(run, rows)
    obliged = False
    violations: set[Violation] = set()
    for site in terms.sites:
        for delivery in terms.deliveries_of[site]:
            obliged = True
            message = delivery["message"]
            if message not in terms.known or _is_premature(terms, delivery) or _is_misplaced(terms, delivery):
                violations.add(violation([site], [message]))
    return outcome(obliged, violations)


def no_duplication(run: Run, rows: list[Row]) -> Outcome:
    terms = terms_of(run, rows)
    claims_r3 = any(name == "R3" or name.startswith("R3-") for name in run["guarantees"])
    obliged = False
    violations: set[Violation] = set()
    for site in terms.sites:
        for delivery in terms.deliveries_of[site]:
            obliged = True
            message = delivery["message"]
            previous = [
                row["seq"]
                for row in terms.deliveries_of[site]
                if row["message"] == message and row["seq"] < delivery["seq"]
            ]
            if not previous:
                continue
            rolled_back = any(
                row["message"] == message and previous[-1] < row["seq"] < delivery["seq"]
                for row in terms.of_kind(site, "rollback")
            )
            refused = was_refused_between_rows(terms, site, previous[-1], delivery["seq"])
            if not (rolled_back if claims_r3 else refused):
                violations.add(violation([site], [message]))
    return outcome(obliged, violations)
