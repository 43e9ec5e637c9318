"""The services of InterGroup (Berket 1.3) and causality, on which they rest: by group, and anew at each activation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations
from math import inf

from .order import transitive_closure
from .terms import EVERYTHING, Outcome, Row, Run, Terms, Violation, names, outcome, terms_of, violation

Checker = Callable[[Run, list[Row]], Outcome]


class Messages:
    """The messages of one group, or all of them."""

    def __init__(self, terms: Terms, group: str | None) -> None:
        self.terms, self.group = terms, group

    def __contains__(self, message: str) -> bool:
        if self.group is EVERYTHING:
            return True
        terms = self.terms
        return message in terms.known and (
            terms.destinations(message) is not None or self.group in terms.groups(message)
        )

    def in_one_stretch(self, site: str, message: str, other: str) -> bool:
        """Whether two deliveries of the site have no activation between them that concerns the source of either."""
        first, last = sorted(self.terms.first_delivery[site, each]["seq"] for each in (message, other))
        sources = [self.terms.source(message), self.terms.source(other)]
        return not any(
            first < row["seq"] < last
            and (self.group is EVERYTHING or not row.get("groups") or names(row, self.group))
            and (row.get("source") is None or row["source"] in sources)
            for row in self.terms.of_kind(site, "activate")
        )

    def delivered_together(self, site: str, message: str, other: str) -> bool:
        delivered = self.terms.first_delivery
        return (site, message) in delivered and (site, other) in delivered and self.in_one_stretch(site, message, other)


def judged_apart(terms: Terms) -> Iterable[Messages]:
    addresses = {
        group for message in terms.known if terms.destinations(message) is None for group in terms.groups(message)
    }
    groups = addresses | set(terms.run["groups"])
    if "multiple-group-order" in terms.run["guarantees"] or not groups:
        return [Messages(terms, EVERYTHING)]
    return [Messages(terms, group) for group in sorted(groups)]


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


def stayed_in_views(terms: Terms, site: str, other: str, message: str, start: float, end: float = inf) -> bool:
    """Whether `other` stayed in the views of `site` of the message between a moment and one of its own rows."""
    groups = [] if terms.destinations(message) is not None else terms.groups(message)
    for group in [*groups, EVERYTHING]:
        views = terms.views_of(site, group)
        at_start = [row for row in views if row["time"] <= start]
        later = [row for row in views if start < row["time"] and row["seq"] < end]
        if not all(other in (row.get("members") or []) for row in at_start[-1:] + later):
            return False
    return True


Found = Iterator[tuple[bool, Violation]]


def _judged(search: Callable[[Terms, Messages], Found]) -> Checker:
    """Each obligation is whether it is broken, and by what."""

    def checker(run: Run, rows: list[Row]) -> Outcome:
        terms = terms_of(run, rows)
        found = [each for messages in judged_apart(terms) for each in search(terms, messages)]
        return outcome(bool(found), {broken for is_broken, broken in found if is_broken})

    return checker


def _source_order(terms: Terms, messages: Messages) -> Found:
    for message, other in combinations([m for m in terms.known if m in messages], 2):
        if terms.source(message) == terms.source(other):
            for q in terms.sites:
                if messages.delivered_together(q, message, other):
                    wrong = terms.delivered_before(q, message, other) != terms.multicast_before(message, other)
                    yield wrong, violation([q], [message, other])


def _causal_order(terms: Terms, messages: Messages) -> Found:
    for message, other in causal_precedence(terms):
        for q in terms.sites:
            if message in messages and other in messages and messages.delivered_together(q, message, other):
                yield terms.delivered_before(q, other, message), violation([q], [message, other])


def _timestamp_order(terms: Terms, messages: Messages) -> Found:
    yield from _causal_order(terms, messages)
    for message, other in combinations([m for m in terms.delivered_messages if m in messages], 2):
        for x, y in combinations(terms.sites, 2):
            if messages.delivered_together(x, message, other) and messages.delivered_together(y, message, other):
                wrong = terms.delivered_before(x, message, other) != terms.delivered_before(y, message, other)
                yield wrong, violation([x, y], [message, other])


def _lacks_before(terms: Terms, site: str, message: str, other: str) -> bool:
    return (site, message) not in terms.first_delivery or not terms.delivered_before(site, message, other)


def _reliable_source_order(terms: Terms, messages: Messages) -> Found:
    for q in terms.sites:
        for later in terms.known:
            if (q, later) not in terms.first_delivery or later not in messages:
                continue
            p = terms.multicast_row[later]["site"]
            activation_point = next(
                row["message"]
                for row in terms.deliveries_of[q]
                if terms.source(row["message"]) == p
                and row["message"] in messages
                and messages.in_one_stretch(q, row["message"], later)
            )
            for message in terms.known:
                if (
                    message in messages
                    and terms.source(message) == p
                    and terms.multicast_before(message, later)
                    and q in terms.owed(message)
                    and not terms.multicast_before(message, activation_point)
                    and stayed_in_views(
                        terms, q, p, message, terms.begin(message), terms.first_delivery[q, later]["seq"]
                    )
                ):
                    yield _lacks_before(terms, q, message, later), violation([q], [message, later])


def _reliable_timestamp_order(terms: Terms, messages: Messages) -> Found:
    for message, later in causal_precedence(terms):
        if message not in messages or later not in messages:
            continue
        p, p_prime = terms.multicast_row[message]["site"], terms.multicast_row[later]["site"]
        for q in terms.owed(message):
            if (q, later) not in terms.first_delivery:
                continue
            activated = any(
                other in messages
                and terms.source(other) == p
                and (other == message or terms.multicast_before(other, message))
                and messages.delivered_together(q, other, later)
                for other in terms.known
            )
            start, end = terms.begin(message), terms.first_delivery[q, later]["seq"]
            if (
                activated
                and stayed_in_views(terms, q, p, message, start, end)
                and stayed_in_views(terms, q, p_prime, later, start, end)
            ):
                yield _lacks_before(terms, q, message, later), violation([q], [message, later])


source_order = _judged(_source_order)
causal_order = _judged(_causal_order)
timestamp_order = _judged(_timestamp_order)
reliable_source_order = _judged(_reliable_source_order)
reliable_timestamp_order = _judged(_reliable_timestamp_order)
