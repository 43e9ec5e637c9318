"""Order without regard to failures: every pair of sites, every pair of messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

from .terms import Outcome, Row, Run, Terms, Violation, outcome, terms_of, violation

Relation = Callable[[Terms, str, str], bool]


def same_source_and_address(terms: Terms, message: str, other: str) -> bool:
    """A message without a multicast row has no source, so it shares none."""
    return (
        terms.source(message) is not None
        and terms.source(message) == terms.source(other)
        and terms.address(message) == terms.address(other)
    )


def same_address(terms: Terms, message: str, other: str) -> bool:
    return terms.address(message) == terms.address(other)


def any_pair(terms: Terms, message: str, other: str) -> bool:
    return True


def common_pairs(terms: Terms, related: Relation) -> Iterator[tuple[str, str, str, str]]:
    """Two sites and two related messages, both delivered at both: x, y, m, m'."""
    for message, other in combinations(terms.delivered_messages, 2):
        if not related(terms, message, other):
            continue
        for x, y in combinations(terms.sites, 2):
            if all((site, m) in terms.first_delivery for site in (x, y) for m in (message, other)):
                yield x, y, message, other


def _pairwise(related: Relation) -> Callable[[Run, list[Row]], Outcome]:
    def checker(run: Run, rows: list[Row]) -> Outcome:
        terms = terms_of(run, rows)
        obliged = False
        violations: set[Violation] = set()
        for x, y, message, other in common_pairs(terms, related):
            obliged = True
            if terms.delivered_before(x, message, other) != terms.delivered_before(y, message, other):
                violations.add(violation([x, y], [message, other]))
        return outcome(obliged, violations)

    return checker


single_source_order = _pairwise(same_source_and_address)
multiple_source_order = _pairwise(same_address)
multiple_group_order = _pairwise(any_pair)


def group_source_order(run: Run, rows: list[Row]) -> Outcome:
    terms = terms_of(run, rows)
    obliged = False
    violations: set[Violation] = set()
    for message, other in combinations(terms.known, 2):
        if not same_source_and_address(terms, message, other):
            continue
        for site in terms.sites:
            if (site, message) in terms.first_delivery and (site, other) in terms.first_delivery:
                obliged = True
                if terms.delivered_before(site, message, other) != terms.multicast_before(message, other):
                    violations.add(violation([site], [message, other]))
    return outcome(obliged, violations)


def precedences(terms: Terms) -> set[tuple[str, str, str]]:
    """Site, m, m' where the site delivers m before m'."""
    return {
        (site, message, other)
        for site in terms.sites
        for message in terms.delivered_messages
        for other in terms.delivered_messages
        if (site, message) in terms.first_delivery
        and (site, other) in terms.first_delivery
        and terms.delivered_before(site, message, other)
    }


def transitive_closure(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    closure = set(pairs)
    while True:
        longer = {(a, d) for a, b in closure for c, d in closure if b == c} - closure
        if not longer:
            return closure
        closure |= longer


def acyclic_order(run: Run, rows: list[Row]) -> Outcome:
    """One violation per strongly connected component: all its messages, and the sites that order two of them."""
    terms = terms_of(run, rows)
    edges = precedences(terms)
    before = transitive_closure({(message, other) for _, message, other in edges})
    violations: set[Violation] = set()
    for message in terms.delivered_messages:
        if (message, message) in before:
            component = {o for o in terms.delivered_messages if (message, o) in before and (o, message) in before}
            sites = {site for site, m, other in edges if m in component and other in component}
            violations.add(violation(sites, component))
    return outcome(bool(edges), violations)
