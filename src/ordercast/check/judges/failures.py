"""Consistent order in the presence of failures: R1, R2 and R3 (Spauster 6.3)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ordercast.check.facts import Facts
from ordercast.check.facts.columns import Bools, Floats, Ints
from ordercast.check.facts.deliveries import Sequences, first_rows
from ordercast.check.facts.intervals import SiteOutages
from ordercast.check.facts.inversions import Excuses, Inversion, Relation, compare_two, find_inversions, related
from ordercast.check.facts.logical_failures import logical_failures
from ordercast.check.facts.valid_deliveries import ValidDeliveries
from ordercast.check.judges.witnesses import inversion_witnesses, repeated
from ordercast.check.verdict import WITNESSES_MAX, Finding


def judge_r1(relation: Relation) -> Callable[[Facts], Finding]:
    """No inverted pair and no second delivery, ever."""

    def judge(facts: Facts) -> Finding:
        result = facts.inverted[relation]
        return _finding(facts, result.obliged, result.found, facts.deliveries.duplicates)

    return judge


def judge_r2(relation: Relation) -> Callable[[Facts], Finding]:
    """No inverted pair, except for what a site delivered before it failed; no second delivery."""

    def judge(facts: Facts) -> Finding:
        result = facts.inverted[relation]
        found = result.found
        if found and facts.outages.any:
            # The plain search stops at a thousand pairs, all of which may be excused: search again.
            excuses = excused_by_fails(facts.columns.time, facts.outages.__getitem__)
            found = find_inversions(facts.deliveries.first, related(facts.messages, relation), excuses).found
        excused = len(result.found) - len(found)
        return _finding(facts, result.obliged, found, facts.deliveries.duplicates, max(0, excused))

    return judge


def excused_by_fails(time: Floats, outages: Callable[[int], SiteOutages]) -> Excuses:
    """An inversion (x: m before m'; y: m' before m) is excused when y failed between its own m and x's, or x failed
    between its own m' and y's: by then the order of the one that failed did not matter to the other."""

    def excuses(x: int, y: int, rows_at_x: Ints, rows_at_y: Ints) -> tuple[Bools, Bools]:
        at_x, at_y = time[rows_at_x], time[rows_at_y]
        return outages(y).fails_between(at_y, at_x), outages(x).fails_between(at_x, at_y)

    return excuses


def judge_r3(relation: Relation) -> Callable[[Facts], Finding]:
    """At no moment two sites that are up have an inverted pair among what they have delivered and not taken back."""

    def judge(facts: Facts) -> Finding:
        plain = facts.inverted[relation]
        states = ValidDeliveries(facts.columns, facts.deliveries)
        if not states.ever_removed and not facts.outages.any:
            return Finding(plain.obliged, inversion_witnesses(facts, plain.found))
        classes = related(facts.messages, relation)
        found: list[Inversion] = []
        for x in range(len(facts.columns.sites)):
            for y in range(x + 1, len(facts.columns.sites)):
                if len(found) < WITNESSES_MAX:
                    found += _inverted_at_some_moment(facts, states, x, y, classes, WITNESSES_MAX - len(found))
        return Finding(plain.obliged, inversion_witnesses(facts, found))

    return judge


def _inverted_at_some_moment(
    facts: Facts, states: ValidDeliveries, x: int, y: int, classes: Ints | None, room: int
) -> list[Inversion]:
    deliveries = facts.deliveries.first.messages
    if len(deliveries[x]) < 2 or len(deliveries[y]) < 2:
        return []
    found: dict[Inversion, None] = {}
    seen = (-1, -1)
    for moment in _moments(facts, states, x, y):
        # What is valid only grows from one removal to the next: the state just before each is the one to look at, and
        # only if something was delivered since the last look.
        delivered = (states.delivered_before(x, moment), states.delivered_before(y, moment))
        if delivered == seen:
            continue
        seen = delivered
        order_x, row_x = states.at(x, moment)
        order_y, row_y = states.at(y, moment)
        pair = Sequences([order_x, order_y], np.stack([row_x, row_y]))
        for inversion in compare_two(0, 1, pair, classes, room).found:
            found[Inversion((x, y), inversion.messages)] = None
        if len(found) >= room:
            break
    return list(found)[:room]


def _moments(facts: Facts, states: ValidDeliveries, x: int, y: int) -> list[float]:
    """The ends of the stretches in which both sites are up and neither takes anything back; ascending.

    Moments lie between rows, not on them: a step of a protocol that rolls back, redelivers and declares itself
    recovered writes rows of one time, and only what it leaves behind is a state of the site.
    """
    down = sorted(
        (float(fail), float(back))
        for outages in (facts.outages[x], facts.outages[y])
        for fail, back in zip(outages.fails, outages.up_again, strict=True)
    )
    ups: list[tuple[float, float]] = []
    since = -np.inf
    for fail, back in down:
        if fail > since:
            ups.append((since, fail))
        since = max(since, back)
    if since < np.inf:
        ups.append((since, np.inf))
    removals = np.unique(np.concatenate([states.removal_times(x), states.removal_times(y)]))
    moments: list[float] = []
    for start, end in ups:
        inside = removals[(removals > start) & (removals < end)]
        moments += [*inside.tolist(), end]
    return moments


def judge_r2_logical(facts: Facts) -> Finding:
    """R2 where what a site delivers outside the majority's graph does not count until it has rejoined."""
    columns, deliveries = facts.columns, facts.deliveries
    rows = deliveries.rows[~_taken_back(facts)]
    fails: dict[int, list[float]] = {}
    for site, moment, until in logical_failures(facts.views):
        fails.setdefault(site, []).append(moment)
        rows = rows[(rows < columns.site_start[site]) | (rows >= until) | (columns.time[rows] < moment)]
    sites, message = columns.site[rows], columns.message[rows]
    first = first_rows(columns, rows, sites, message)
    is_first = first[sites, message] == rows
    firsts = rows[is_first]
    starts = np.searchsorted(firsts, columns.site_start)
    orders = [columns.message[firsts[starts[code] : starts[code + 1]]] for code in range(len(columns.sites))]

    def outages(code: int) -> SiteOutages:
        real = facts.outages[code]
        return real._replace(fails=np.sort(np.concatenate([real.fails, fails[code]]))) if code in fails else real

    result = find_inversions(Sequences(orders, first), None, excused_by_fails(columns.time, outages))
    return _finding(facts, result.obliged, result.found, rows[~is_first])


def _taken_back(facts: Facts) -> Bools:
    """Of each delivery, whether a later rollback of that message at that site takes it back."""
    columns, deliveries = facts.columns, facts.deliveries
    rollbacks = columns.rows("rollback")
    rollbacks = rollbacks[columns.message[rollbacks] >= 0]
    last = np.full((len(columns.sites), columns.message_count), -1, dtype=np.int64)
    np.maximum.at(last, (columns.site[rollbacks], columns.message[rollbacks]), rollbacks)
    return last[deliveries.site, deliveries.message] > deliveries.rows


def _finding(facts: Facts, obliged: bool, found: list[Inversion], repeats: Ints, excused: int = 0) -> Finding:
    witnesses = inversion_witnesses(facts, found)
    witnesses += [repeated(facts, row) for row in repeats[: WITNESSES_MAX - len(witnesses)].tolist()]
    return Finding(obliged, witnesses, excused=excused)
