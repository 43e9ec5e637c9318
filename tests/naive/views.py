"""Views: self-inclusion, virtual synchrony, and what a change of views says about itself (Berket, chapter 5)."""

from __future__ import annotations

from itertools import combinations

from .causality import stayed_in_views
from .divergence import was_refused_since
from .terms import EVERYTHING, NOT_JUDGED, Outcome, Row, Run, Terms, Violation, outcome, terms_of, violation


def _is_sent_to(multicast: Row, group: str | None) -> bool:
    if group is EVERYTHING:
        return True
    return multicast.get("destinations") is None and group in (multicast.get("groups") or [])


def self_inclusion(run: Run, rows: list[Row]) -> Outcome:
    terms = terms_of(run, rows)
    obliged = False
    violations: set[Violation] = set()
    for site in terms.sites:
        for group in terms.every_group():
            for multicast in terms.of_kind(site, "multicast"):
                view = terms.latest_view(site, group, multicast["seq"])
                if view is None or multicast.get("service") == "proxy" or not _is_sent_to(multicast, group):
                    continue
                obliged = True
                if site not in (view.get("members") or []):
                    violations.add(violation([site], []))
    return outcome(obliged, violations)


class _Between:
    """What two sites did between two views of a group, with one service."""

    def __init__(
        self,
        terms: Terms,
        group: str | None,
        service: str | None,
        rows: dict[str, list[Row]],
        ends: dict[str, Row],
    ) -> None:
        self.terms, self.group, self.service = terms, group, service
        self.rows, self.ends = rows, ends

    def delivered(self, site: str) -> set[str]:
        return {
            row["message"]
            for row in self.rows[site]
            if row["kind"] == "deliver" and row.get("service") == self.service and self.is_counted(row["message"])
        }

    def is_counted(self, message: str) -> bool:
        terms = self.terms
        if self.group is EVERYTHING:
            return message not in terms.known or set(self.rows) <= set(terms.ever_addressed(message))
        return ("group", self.group) in terms.address(message)

    def activation_point(self, site: str, message: str) -> Row | None:
        points = [row for row in self.rows[site] if row["kind"] == "activate" and self.is_about(row, message)]
        return points[-1] if points else None

    def is_about(self, activation: Row, message: str) -> bool:
        return (
            activation.get("service") == self.service
            and (self.group is EVERYTHING or not activation.get("groups") or self.group in activation["groups"])
            and activation.get("source") in (None, self.terms.source(message))
        )

    def is_before_an_activation_point(self, message: str) -> bool:
        points = {site: self.activation_point(site, message) for site in self.rows}
        times = [point["time"] for point in points.values() if point is not None]
        if message in self.terms.known and any(
            self.terms.begin(message) <= row["time"]
            for site, end in self.ends.items()
            for row in self.terms.of_kind(site, "activate")
            if row["seq"] < end["seq"] and self.is_about(row, message)
        ):
            return True
        if not times:
            return False
        for site, point in points.items():
            delivered = [row for row in self.rows[site] if row["kind"] == "deliver" and row["message"] == message]
            if point is not None and point["time"] == max(times):
                early = any(row["seq"] < point["seq"] for row in delivered)
            else:
                early = any(row["time"] < max(times) for row in delivered)
            if early or (point is not None and self._precedes_the_first(site, point, message)):
                return True
        return False

    def _precedes_the_first(self, site: str, point: Row, message: str) -> bool:
        """Whether the first message of that source that the site delivers after its activation is a later one."""
        if message not in self.terms.known:
            return False
        after = [
            row["message"]
            for row in self.rows[site]
            if row["kind"] == "deliver"
            and row["seq"] > point["seq"]
            and row.get("service") == self.service
            and row["message"] in self.terms.known
            and self.terms.source(row["message"]) == self.terms.source(message)
        ]
        return bool(after) and self.terms.multicast_before(message, after[0])


def _uses(terms: Terms, site: str, group: str | None, service: str | None) -> bool:
    services = {
        row.get("service")
        for row in terms.deliveries_of[site]
        if group is EVERYTHING or ("group", group) in terms.address(row["message"])
    } | {
        row.get("service")
        for row in terms.of_kind(site, "activate")
        if group is EVERYTHING or not row.get("groups") or group in row["groups"]
    }
    return not services or service in services


def _has(terms: Terms, w: Row, group: str | None, service: str | None, message: str) -> bool:
    """Whether a site has a service for a message's source when it installs w: it chose none, or none other last."""
    chosen = [
        row.get("service")
        for row in terms.of_kind(w["site"], "activate")
        if row["seq"] < w["seq"]
        and (group is EVERYTHING or not row.get("groups") or group in row["groups"])
        and row.get("source") in (None, terms.source(message))
    ]
    return not chosen or chosen[-1] == service


def virtual_synchrony(run: Run, rows: list[Row]) -> Outcome:
    terms = terms_of(run, rows)
    # What a site delivers with a service that does not count still says which services it uses, and what it has.
    of_all = Terms(run, run.get("all rows", rows))
    services = {row.get("service") for row in rows if row["kind"] in ("deliver", "activate")}
    obliged = False
    violations: set[Violation] = set()
    for group in terms.every_group():
        for x, y in combinations(terms.sites, 2):
            for v_at_x, w_at_x in terms.view_changes(x, group):
                for v_at_y, w_at_y in terms.view_changes(y, group):
                    if (v_at_x["view"], w_at_x["view"]) != (v_at_y["view"], w_at_y["view"]):
                        continue
                    if group is not EVERYTHING and not all(terms.is_member_at(w, group) for w in (w_at_x, w_at_y)):
                        continue
                    for service in services:
                        if not (_uses(of_all, x, group, service) and _uses(of_all, y, group, service)):
                            continue
                        between, among_all = (
                            _Between(
                                each,
                                group,
                                service,
                                {
                                    x: [row for row in each.rows_of[x] if v_at_x["seq"] < row["seq"] < w_at_x["seq"]],
                                    y: [row for row in each.rows_of[y] if v_at_y["seq"] < row["seq"] < w_at_y["seq"]],
                                },
                                {x: w_at_x, y: w_at_y},
                            )
                            for each in (terms, of_all)
                        )
                        at_x, at_y = (
                            {
                                m
                                for m in between.delivered(site)
                                if not among_all.is_before_an_activation_point(m)
                                and all(_has(of_all, w, group, service, m) for w in (w_at_x, w_at_y))
                            }
                            for site in (x, y)
                        )
                        obliged = obliged or bool(at_x or at_y)
                        violations |= {violation([x, y], [message]) for message in at_x ^ at_y}
    return outcome(obliged, violations)


def transitional_set(run: Run, rows: list[Row]) -> Outcome:
    terms = terms_of(run, rows)
    obliged = False
    violations: set[Violation] = set()
    for group in terms.every_group():
        for q in terms.sites:
            for v, w in terms.view_changes(q, group):
                obliged = True
                transitional, members = set(w.get("transitional") or []), set(w.get("members") or [])
                if not transitional <= members:
                    violations.add(violation([q], []))
                for p in members & set(terms.sites):
                    if not any(row["view"] == w["view"] for row in terms.views_of(p, group)):
                        continue
                    comes_along = any(
                        (before["view"], after["view"]) == (v["view"], w["view"])
                        for before, after in terms.view_changes(p, group)
                    )
                    if comes_along != (p in transitional):
                        violations.add(violation([q], []))
    return outcome(obliged, violations)


def view_agreement(run: Run, rows: list[Row]) -> Outcome:
    if not run["settled"]:
        return NOT_JUDGED, set()
    terms = terms_of(run, rows)
    obliged = False
    violations: set[Violation] = set()
    for group in terms.every_group():
        if group is EVERYTHING:
            continue
        present = [site for site in terms.sites if terms.is_correct(site) and terms.has_joined(site, group)]
        last = {site: terms.latest_view(site, group) for site in present}
        obliged = obliged or any(view is not None for view in last.values())
        described = {
            site: None if view is None else (view["view"], frozenset(view.get("members") or []))
            for site, view in last.items()
        }
        violations |= {violation([x, y], []) for x, y in combinations(present, 2) if described[x] != described[y]}
        for site, view in last.items():
            if view is not None and not set(view.get("members") or []) <= set(present):
                violations.add(violation([site], []))
    return outcome(obliged, violations)


def view_termination(run: Run, rows: list[Row]) -> Outcome:
    if not run["settled"]:
        return NOT_JUDGED, set()
    terms = terms_of(run, rows)
    obliged = False
    violations: set[Violation] = set()
    for message in terms.known:
        p = terms.multicast_row[message]["site"]
        if was_refused_since(terms, p, terms.begin(message)):
            continue
        for q in terms.owed(message):
            if not (terms.is_correct(p) and terms.is_correct(q) and terms.is_active_for(q, message)):
                continue
            if stayed_in_views(terms, q, p, message, terms.begin(message)):
                obliged = True
                if (q, message) not in terms.first_delivery:
                    violations.add(violation([q], [message]))
    return outcome(obliged, violations)
