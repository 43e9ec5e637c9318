"""Who is behind the majority, by the views that sites install; such a site counts as failed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ordercast.check.facts.views import ViewRows


class LogicalFailure(NamedTuple):
    """A site that is behind the majority from some moment on, until it installs what the majority has."""

    site: int
    moment: float
    until: int
    """The row at which it does; that behind its last one where it never does."""


def logical_failures(views: ViewRows) -> list[LogicalFailure]:
    """By the view rows of all sites."""
    columns = views.columns
    installed = _majority_installed(views)
    found: list[LogicalFailure] = []
    for view, moment in installed.items():
        current = {other for other, later in installed.items() if later > moment} | {view}
        for site in range(len(columns.sites)):
            own = views.at(site)
            names, view_rows = views.names[own], views.rows[own]
            if ((names == view) & (columns.time[view_rows] <= moment)).any():
                continue
            rejoins = view_rows[np.isin(names, list(current))]
            if not len(rejoins):
                found.append(LogicalFailure(site, moment, int(columns.site_start[site + 1])))
            elif columns.time[rejoins[0]] > moment:
                found.append(LogicalFailure(site, moment, int(rejoins[0])))
            # Else it was ahead of the majority, not behind.
    return found


def _majority_installed(views: ViewRows) -> dict[int, float]:
    """View -> the moment when a majority had installed it: at first of the sites of the initial groups, then of the
    members of the view of which that was true last."""
    columns = views.columns
    electorate = frozenset(site for members in columns.run.groups.values() for site in members)
    installed: dict[int, set[str]] = {}
    moments: dict[int, float] = {}
    times = columns.time[views.rows]
    # Rows are numbered by site, then seq.
    for place in np.argsort(times, kind="stable").tolist():
        view = int(views.names[place])
        if view < 0 or view in moments:
            continue
        own = installed.setdefault(view, set())
        own.add(columns.sites[columns.site[views.rows[place]]])
        if 2 * len(own & electorate) > len(electorate):
            moments[view] = float(times[place])
            electorate = views.member_names[place]
    return moments
