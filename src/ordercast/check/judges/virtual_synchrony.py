"""Have those who go on from one view to the next together delivered the same messages in it (InterGroup 5)?"""

from __future__ import annotations

from itertools import combinations
from math import inf
from typing import NamedTuple

import numpy as np

from ordercast.check.facts import Facts
from ordercast.check.facts.activations import Activation
from ordercast.check.facts.columns import Bools, Floats, Ints
from ordercast.check.facts.views import Series
from ordercast.check.verdict import WITNESSES_MAX, Finding, Witness

_DIFFERENT = "{0} delivers {a} in view {view} (service: {service}), {1} does not, and both install {next} after it"


def judge_virtual_synchrony(facts: Facts) -> Finding:
    """Sites that install the same two views of a group in a row have delivered the same messages of it in the first."""
    view_names = facts.columns.coded("view")[1]
    obliged = False
    witnesses: dict[Witness, None] = {}
    for series in facts.views.series:
        uses = _uses(facts, series.group)
        for (view, following), those in _stays(facts, series).items():
            for x, y in combinations(those, 2):
                if x.site == y.site:
                    continue
                pair = _Pair(facts, series.group, x, y)
                for service in np.flatnonzero(uses[x.site] & uses[y.site]).tolist():
                    counted, different = pair.difference(service)
                    obliged |= counted
                    names = {
                        "view": view_names[view],
                        "next": view_names[following],
                        "service": facts.activations.service_names[service],
                    }
                    for message, holder, other in different[: WITNESSES_MAX - len(witnesses)]:
                        witnesses[facts.witness((holder, other), (message,), _DIFFERENT, **names)] = None
    return Finding(obliged, list(witnesses))


class _Stay(NamedTuple):
    """What one site did between two views that it installed one after the other."""

    site: int
    messages: Ints
    services: Ints
    """Of the deliveries that count, in their order."""
    all_messages: Ints
    all_services: Ints
    all_rows: Ints
    all_times: Floats
    """Of all deliveries."""
    activations: list[Activation]
    """For the group."""
    chosen: list[Activation]
    """The same, and those before; but for what only says which services a site uses."""

    def has(self, service: int, source: int) -> bool:
        """Whether the site has the service for a source when the view ends. (A site that has chosen another one since
        is accused of nothing; whoever never chose has any that it uses.)"""
        own = [each for each in self.chosen if each.is_about(None, source)]
        return not own or own[-1].service == service

    def point(self, service: int, source: int) -> Activation | None:
        """The activation of the service from which on messages of a source count."""
        own = [each for each in self.activations if each.service == service and each.is_about(None, source)]
        return own[-1] if own else None

    def chosen_at(self, service: int, source: int) -> float:
        """When it has chosen the service last for a source, in this view or before it."""
        return max(
            (each.time for each in self.chosen if each.service == service and each.is_about(None, source)), default=-inf
        )

    def delivered_before(self, messages: Ints, point: Activation | None, moment: float) -> Bools:
        """Of each message, whether it was delivered here before that moment, at which a service was activated, here or
        at the other site."""
        # Rows of one site are ordered by seq, those of two sites by time.
        by_seq = point is not None and point.time == moment
        earlier = self.all_rows < point.row if point is not None and by_seq else self.all_times < moment
        return np.isin(messages, self.all_messages[earlier])


class _Pair:
    """Two sites between the same two views."""

    def __init__(self, facts: Facts, group: str | None, x: _Stay, y: _Stay) -> None:
        self._facts = facts
        self._x, self._y = x, y
        self._common: Bools | None = None
        if group is None:
            # A view of everything says nothing about who gets what.
            addressed = facts.membership.destinations_of_messages
            self._common = (addressed[x.site] & addressed[y.site]) | ~facts.messages.known

    def difference(self, service: int) -> tuple[bool, list[tuple[int, int, int]]]:
        """Whether any message counts, and those that only one of the two delivered: message, who did, who did not."""
        x, y = self._x, self._y
        of_x, of_y = (self._counted(stay, service) for stay in (x, y))
        if np.array_equal(of_x, of_y):
            return len(of_x) > 0, []
        different = [(message, x.site, y.site) for message in np.setdiff1d(of_x, of_y).tolist()]
        different += [(message, y.site, x.site) for message in np.setdiff1d(of_y, of_x).tolist()]
        return True, different

    def _counted(self, stay: _Stay, service: int) -> Ints:
        messages = stay.messages[stay.services == service]
        if self._common is not None:
            messages = messages[self._common[messages]]
        messages = messages[self._is_had(messages, service)]
        if not any(each.service == service for own in (self._x, self._y) for each in own.chosen):
            return messages
        source = self._facts.messages.source[messages]
        early = np.zeros(len(messages), dtype=bool)
        for one in np.unique(source).tolist():
            early[source == one] = self._is_before_an_activation_point(messages[source == one], service, one)
        return messages[~early]

    def _is_had(self, messages: Ints, service: int) -> Bools:
        """Of each message, whether both sites have the service for its source when the view ends."""
        had = np.ones(len(messages), dtype=bool)
        if self._x.chosen or self._y.chosen:
            source = self._facts.messages.source[messages]
            for one in np.unique(source).tolist():
                if not (self._x.has(service, one) and self._y.has(service, one)):
                    had[source == one] = False
        return had

    def _is_before_an_activation_point(self, messages: Ints, service: int, source: int) -> Bools:
        points = [(stay, stay.point(service, source)) for stay in (self._x, self._y)]
        moments = [point.time for _, point in points if point is not None]
        # What had begun by then, others may deliver later, also in a later view; here it may have been delivered with
        # the service before.
        chosen_at = max(stay.chosen_at(service, source) for stay in (self._x, self._y))
        before: Bools = self._facts.messages.begin[messages] <= chosen_at
        if not moments:
            return before
        for stay, point in points:
            before |= stay.delivered_before(messages, point, max(moments))
            if point is not None and source >= 0:
                before |= self._facts.messages.number[messages] < self._first_number(stay, point, source)
        return before

    def _first_number(self, stay: _Stay, point: Activation, source: int) -> int:
        """The number, among those of the source, of the first message that the site delivers after its activation."""
        messages = self._facts.messages
        after = (stay.all_rows > point.row) & (stay.all_services == point.service)
        delivered = stay.all_messages[after]
        delivered = delivered[messages.source[delivered] == source]
        return int(messages.number[delivered[0]]) if len(delivered) else -1


def _stays(facts: Facts, series: Series) -> dict[tuple[int, int], list[_Stay]]:
    """(view, next view) -> what those members of the group that installed both did between."""
    views, columns = facts.views, facts.columns
    named = (series.previous >= 0) & (views.names[series.views] >= 0) & (views.names[series.previous] >= 0)
    member = facts.membership.is_member(series, views.rows[series.views])
    stays: dict[tuple[int, int], list[_Stay]] = {}
    if not (named & member).any():
        return stays
    every, counted = facts.whole.deliveries, facts.deliveries
    of_group = _of_group(facts, series.group)
    every_service = facts.activations.service_codes(every.rows)
    counted_service = facts.activations.service_codes(counted.rows)
    for view, previous in zip(
        series.views[named & member].tolist(), series.previous[named & member].tolist(), strict=True
    ):
        begin, end = int(views.rows[previous]), int(views.rows[view])
        site = int(columns.site[end])
        low, high = np.searchsorted(counted.rows, (begin, end))
        those = slice(low, high)
        if of_group is not None:
            those = low + np.flatnonzero(of_group[counted.message[low:high]])
        all_of_it = slice(*np.searchsorted(every.rows, (begin, end)))
        about = [each for each in facts.activations.by_site.get(site, ()) if each.is_about_group(series.group)]
        stay = _Stay(
            site,
            counted.message[those],
            counted_service[those],
            every.message[all_of_it],
            every_service[all_of_it],
            every.rows[all_of_it],
            columns.time[every.rows[all_of_it]],
            [each for each in about if begin < each.row < end],
            [each for each in about if each.row < end and not each.is_told],
        )
        stays.setdefault((int(views.names[previous]), int(views.names[view])), []).append(stay)
    return stays


def _of_group(facts: Facts, group: str | None) -> Bools | None:
    """Of each message, whether its address names the group; None: all count."""
    if group is None:
        return None
    membership = facts.membership
    return membership.address_groups[facts.messages.address, membership.group_code[group]]


def _uses(facts: Facts, group: str | None) -> Bools:
    """[site, service]: whether the site uses the service in the group; whoever names none may use any."""
    columns, deliveries = facts.columns, facts.whole.deliveries
    uses = np.zeros((len(columns.sites), len(facts.activations.service_names)), dtype=bool)
    of_group = _of_group(facts, group)
    counted = slice(None) if of_group is None else of_group[deliveries.message]
    uses[deliveries.site[counted], facts.activations.service_codes(deliveries.rows[counted])] = True
    for site, activations in facts.activations.by_site.items():
        uses[site, [each.service for each in activations if each.is_about_group(group)]] = True
    uses[~uses.any(axis=1)] = True
    return uses
