"""Judges of views (InterGroup 5): a sender is in its own view, those who go on together say so, and all have the same
in the end."""

from __future__ import annotations

import numpy as np

from ordercast.check.facts import Facts
from ordercast.check.facts.columns import Bools, Ints
from ordercast.check.facts.views import Series
from ordercast.check.verdict import NOT_JUDGED, WITNESSES_MAX, Finding, Witness

_PROXY = "proxy"
"""The service of a multicast that a member makes for a process that is none."""


def judge_self_inclusion(facts: Facts) -> Finding:
    """A sender is in its own view of the group that it sends to."""
    views, columns = facts.views, facts.columns
    if not len(views):
        return Finding(obliged=False)
    rows = columns.rows("multicast")
    codes, names = columns.coded("service")
    if _PROXY in names:
        rows = rows[codes[rows] != names.index(_PROXY)]
    sending = [views.latest(rows[_sent_to(facts, rows, series)], series) for series in views.series]
    senders = np.unique(np.concatenate(sending))
    senders = senders[senders >= 0]
    missing = senders[~views.includes_own_site[senders]]
    why = "{0} multicasts in the view {view}, of which it is no member"
    witnesses = [
        facts.witness((columns.site[views.rows[view]],), (), why, view=view_name(facts, view))
        for view in missing[:WITNESSES_MAX].tolist()
    ]
    return Finding(len(senders) > 0, witnesses)


def _sent_to(facts: Facts, rows: Ints, series: Series) -> Bools:
    """Of each multicast row, whether it is addressed to the group of these views."""
    if series.group is None:
        return np.ones(len(rows), dtype=bool)
    sent = facts.columns.name_in_list("groups", rows, series.group)
    explicit, _ = facts.columns.lists("destinations", rows)
    sent[np.searchsorted(rows, explicit)] = False
    return sent


def view_name(facts: Facts, view: int) -> str:
    """The name of a view, given by the number of a view row."""
    code = facts.views.names[view]
    return facts.columns.coded("view")[1][code] if code >= 0 else "without a name"


def judge_transitional_set(facts: Facts) -> Finding:
    """Whoever is said to come along from the previous view does, and whoever does is said to."""
    views, columns = facts.views, facts.columns
    transitional = views.names_in("transitional")
    sites = [columns.sites[code] for code in columns.site[views.rows].tolist()]
    obliged = False
    witnesses: list[Witness] = []
    for series in views.series:
        names, before = views.names[series.views].tolist(), views.names[series.previous].tolist()
        changes = [
            (view, name, previous)
            for view, name, last, previous in zip(
                series.views.tolist(), names, series.previous.tolist(), before, strict=True
            )
            if last >= 0
        ]
        installed: dict[int, set[str]] = {}
        for view, name in zip(series.views.tolist(), names, strict=True):
            installed.setdefault(name, set()).add(sites[view])
        came: dict[tuple[int, int], set[str]] = {}
        for view, name, previous in changes:
            came.setdefault((name, previous), set()).add(sites[view])
        for view, name, previous in changes:
            obliged = True
            members, said = views.member_names[view], transitional[view]
            wrong = (said - members) | (members & installed[name] & (said ^ came[name, previous]))
            if wrong and len(witnesses) < WITNESSES_MAX:
                why = "{0} installs the view {view}, and is wrong about whether {who} comes along from its previous one"
                named = {"view": view_name(facts, view), "who": min(wrong)}
                witnesses.append(facts.witness((int(columns.site[views.rows[view]]),), (), why, **named))
    return Finding(obliged, witnesses)


def judge_view_agreement(facts: Facts) -> Finding:
    """In the end all who are up and have joined a group have the same view of it, in which there is nobody else."""
    if not facts.run.settled:
        return NOT_JUDGED
    views, columns = facts.views, facts.columns
    obliged = False
    witnesses: list[Witness] = []
    for series in views.series:
        if series.group is None:
            continue
        present = np.flatnonzero(facts.outages.correct & _joined_in_the_end(facts, series.group))
        last = [_last_view(facts, series, site) for site in present.tolist()]
        those = [(site, view) for site, view in zip(present.tolist(), last, strict=True) if view >= 0]
        if not those:
            continue
        obliged = True
        first, expected = those[0]
        described = (views.names[expected], views.member_names[expected])
        for site, view in zip(present.tolist(), last, strict=True):
            if view < 0:
                why = "{0} ends in the view {view} of {group}, {1} has joined it and has no view"
                named = {"view": view_name(facts, expected), "group": series.group}
                witnesses.append(facts.witness((first, site), (), why, **named))
            elif (views.names[view], views.member_names[view]) != described:
                why = "{0} ends in the view {view} of {group}, {1} in {other}"
                named = {"view": view_name(facts, expected), "group": series.group, "other": view_name(facts, view)}
                witnesses.append(facts.witness((first, site), (), why, **named))
        here = {columns.sites[site] for site in present.tolist()}
        for site, view in those:
            for absent in sorted(views.member_names[view] - here)[:1]:
                why = "{0} ends in the view {view} of {group} with {absent}, which is down or has not joined"
                named = {"view": view_name(facts, view), "group": series.group, "absent": absent}
                witnesses.append(facts.witness((site,), (), why, **named))
    return Finding(obliged, witnesses[:WITNESSES_MAX])


def _joined_in_the_end(facts: Facts, group: str) -> Bools:
    sites = np.arange(len(facts.columns.sites))
    return facts.membership.joined(group, sites, facts.columns.site_start[1:])


def _last_view(facts: Facts, series: Series, site: int) -> int:
    """The latest view at the end of the run; -1 where there is none."""
    views, columns = facts.views, facts.columns
    low, high = columns.site_start[site : site + 2]
    place = int(np.searchsorted(views.rows[series.views], high)) - 1
    if place < 0 or views.rows[series.views[place]] < low:
        return -1
    view = int(series.views[place])
    left = series.leaves[(series.leaves > views.rows[view]) & (series.leaves < high)]
    return -1 if len(left) else view
