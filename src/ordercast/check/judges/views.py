"""Judges of views (InterGroup 5): a sender is in its own view, and those who go on together have delivered the same."""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np

from ordercast.check.facts import Facts
from ordercast.check.facts.columns import Bools, Floats, Ints
from ordercast.check.verdict import WITNESSES_MAX, Finding, Witness


def judge_self_inclusion(facts: Facts) -> Finding:
    """A sender is in its own view."""
    views, columns = facts.views, facts.columns
    sending = np.unique(views.latest(columns.rows("multicast")))
    sending = sending[sending >= 0]
    missing = sending[~views.includes_own_site[sending]]
    names = columns.coded("view")[1]
    witnesses = []
    for view in missing[:WITNESSES_MAX].tolist():
        name = names[views.names[view]] if views.names[view] >= 0 else "without a name"
        why = "{0} multicasts in the view {view}, of which it is no member"
        witnesses.append(facts.witness((columns.site[views.rows[view]],), (), why, view=name))
    return Finding(len(sending) > 0, witnesses)


_DIFFERENT = "{0} delivers {a} in view {view} (service: {service}), {1} does not, and both install {next} after it"


class _Stay(NamedTuple):
    """What one site delivered between two views that it installed one after the other."""

    site: int
    messages: Ints
    services: Ints
    times: Floats
    activations: dict[int, tuple[float, int]]
    """Service -> when it was last activated in this view, and how many of the messages were delivered before that."""

    def delivered_before_activation(self, service: int, moment: float) -> Ints:
        """What was delivered here before a service was activated, at that moment, here or at another site."""
        own_moment, count = self.activations.get(service, (None, 0))
        # Rows of one site are ordered by seq, those of two sites by time.
        return self.messages[:count] if own_moment == moment else self.messages[self.times < moment]


def judge_virtual_synchrony(facts: Facts) -> Finding:
    """Sites that install the same two views in a row have delivered the same messages in the first."""
    stays = _stays(facts)
    uses = _uses(facts)
    service_names = [*facts.columns.coded("service")[1], "none"]
    view_names = facts.columns.coded("view")[1]
    obliged = False
    witnesses: list[Witness] = []
    for (view, following), those in stays.items():
        for x, y in combinations(those, 2):
            if x.site == y.site:
                continue
            for service in np.flatnonzero(uses[x.site] & uses[y.site]).tolist():
                counted, different = _difference(x, y, service)
                obliged |= counted
                for message, holder, other in different[: WITNESSES_MAX - len(witnesses)]:
                    names = {"view": view_names[view], "next": view_names[following], "service": service_names[service]}
                    witnesses.append(facts.witness((holder, other), (message,), _DIFFERENT, **names))
    return Finding(obliged, witnesses)


def _difference(x: _Stay, y: _Stay, service: int) -> tuple[bool, list[tuple[int, int, int]]]:
    """Whether any message counts, and those that only one of the two delivered: message, who did, who did not."""
    of_x, of_y = (stay.messages[stay.services == service] for stay in (x, y))
    activations = [stay.activations[service][0] for stay in (x, y) if service in stay.activations]
    if activations:
        # What either delivered before the later of the two chose the service, with whatever service, does not count.
        earlier = np.concatenate([stay.delivered_before_activation(service, max(activations)) for stay in (x, y)])
        of_x, of_y = of_x[~np.isin(of_x, earlier)], of_y[~np.isin(of_y, earlier)]
    if np.array_equal(of_x, of_y):
        return len(of_x) > 0, []
    different = [(message, x.site, y.site) for message in np.setdiff1d(of_x, of_y).tolist()]
    different += [(message, y.site, x.site) for message in np.setdiff1d(of_y, of_x).tolist()]
    return True, different


def _stays(facts: Facts) -> dict[tuple[int, int], list[_Stay]]:
    """(view, next view) -> what the sites that installed both delivered between."""
    columns, views, deliveries = facts.columns, facts.views, facts.deliveries
    stays: dict[tuple[int, int], list[_Stay]] = {}
    if len(views) < 2:
        return stays
    services = _service_codes(facts, deliveries.rows)
    activations = columns.rows("activate")
    activated = _service_codes(facts, activations)
    site = columns.site[views.rows]
    bounds = np.searchsorted(deliveries.rows, views.rows)
    for place in np.flatnonzero((site[1:] == site[:-1]) & (views.names[1:] >= 0) & (views.names[:-1] >= 0)).tolist():
        low, high = int(bounds[place]), int(bounds[place + 1])
        first, last = np.searchsorted(activations, views.rows[place : place + 2])
        own = {
            int(activated[index]): (
                float(columns.time[activations[index]]),
                int(np.searchsorted(deliveries.rows[low:high], activations[index])),
            )
            for index in range(int(first), int(last))
        }
        key = (int(views.names[place]), int(views.names[place + 1]))
        messages, times = deliveries.message[low:high], columns.time[deliveries.rows[low:high]]
        stays.setdefault(key, []).append(_Stay(int(site[place]), messages, services[low:high], times, own))
    return stays


def _uses(facts: Facts) -> Bools:
    """[site, service]: whether the site delivered anything with the service in the whole run, or activated it."""
    columns, deliveries = facts.columns, facts.deliveries
    uses = np.zeros((len(columns.sites), len(columns.coded("service")[1]) + 1), dtype=bool)
    uses[deliveries.site, _service_codes(facts, deliveries.rows)] = True
    activations = columns.rows("activate")
    uses[columns.site[activations], _service_codes(facts, activations)] = True
    return uses


def _service_codes(facts: Facts, rows: Ints) -> Ints:
    """Codes of services; no service is one too, the last."""
    codes, names = facts.columns.coded("service")
    return np.where(codes[rows] >= 0, codes[rows], len(names))
