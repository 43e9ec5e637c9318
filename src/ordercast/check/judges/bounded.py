"""Bounded delivery (P) and atomicity (Q): within the promised time, while sites and network hold (Spauster 6.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ordercast.check.facts import Facts
from ordercast.check.facts.columns import Floats, Ints
from ordercast.check.facts.intervals import earliest_good
from ordercast.check.verdict import NOT_JUDGED, WITNESSES_MAX, Finding, Witness


class Promises(NamedTuple):
    """For one site: these messages must be delivered there by `start` + the bound."""

    site: int
    messages: Ints
    start: Floats
    why: str
    """What began at the start, {0}: the site, {1}: the other one."""
    other: int | None = None


Rule = Callable[[Facts, float], Iterator[Promises]]


def judge_bounded(name: str) -> Callable[[Facts], Finding]:
    """The judge of P1 … P4, Q1 … Q3."""
    rule = _RULES[name]

    def judge(facts: Facts) -> Finding:
        bounds = facts.run.bounds
        bound = bounds.get("promised", {}).get(name)
        if bound is None or (name != "P1" and bounds.get("phi_n") is None):
            return NOT_JUDGED
        obliged = False
        witnesses: list[Witness] = []
        for promise in rule(facts, float(bound)):
            obliged |= len(promise.messages) > 0
            delivered = facts.deliveries.time[promise.site, promise.messages]
            late = np.flatnonzero(delivered > promise.start + bound)
            witnesses += [
                _witness(facts, promise, place, float(bound), float(delivered[place]))
                for place in late[: WITNESSES_MAX - len(witnesses)].tolist()
            ]
        return Finding(obliged, witnesses)

    return judge


def _witness(facts: Facts, promise: Promises, place: int, bound: float, delivered: float) -> Witness:
    start = float(promise.start[place])
    missed = "never does" if delivered == np.inf else f"does so at {delivered:.6g}"
    why = f"{promise.why} {start:.6g}: {{0}} must deliver {{a}} within {bound:.6g} s, but {missed}"
    sites = (promise.site,) if promise.other is None else (promise.site, promise.other)
    return facts.witness(sites, (promise.messages[place],), why)


def _from_receipt(facts: Facts, site: int, bound: float) -> tuple[Ints, Floats]:
    """Messages owed to the site that it received, and when first; where it is up and the run goes on long enough."""
    row = facts.packets.first_receive_row[site]
    messages = np.flatnonzero(facts.owed[site] & (row >= 0))
    received = facts.columns.time[row[messages]]
    judged = facts.outages[site].up(received, bound) & (received + bound <= facts.run.ended_at)
    return messages[judged], received[judged]


def _p1(facts: Facts, bound: float) -> Iterator[Promises]:
    for site in range(len(facts.columns.sites)):
        yield Promises(site, *_from_receipt(facts, site, bound), "{0} is up and has received it at")


def _p2(facts: Facts, bound: float) -> Iterator[Promises]:
    for source, chain in enumerate(facts.messages.chains):
        if not len(chain):
            continue
        sent = facts.messages.time[chain]
        judged = (sent + bound <= facts.run.ended_at) & facts.outages[source].awake(sent, bound)
        chain, sent = chain[judged], sent[judged]
        for site in range(len(facts.columns.sites)):
            due = (
                facts.owed[site, chain]
                & facts.outages[site].up(sent, bound)
                & facts.network.reach(site, source, sent, bound)
            )
            yield Promises(site, chain[due], sent[due], "{0} is up and can reach {1}, which multicasts at", source)


def _p3(facts: Facts, bound: float) -> Iterator[Promises]:
    owed = facts.owed
    members = np.count_nonzero(owed, axis=0)
    for site in range(len(facts.columns.sites)):
        messages, received = _from_receipt(facts, site, bound)
        reachable = np.zeros(len(messages), dtype=np.int64)
        for other in range(len(facts.columns.sites)):
            if other != site and len(messages):
                reachable += (
                    owed[other, messages]
                    & facts.outages[other].awake(received, bound)
                    & facts.network.reach(site, other, received, bound)
                )
        needed = facts.run.bounds.get("p3_sites")
        due = reachable >= (members[messages] - 1 if needed is None else needed)
        yield Promises(site, messages[due], received[due], "{0} is up, can reach enough members and has received it at")


def _p4(facts: Facts, bound: float) -> Iterator[Promises]:
    columns, owed = facts.columns, facts.owed
    service = facts.packets.sends
    rows, place = np.unique(service.row, return_inverse=True)
    index, receiver, _ = facts.packets.addressees(rows)
    # Every message served, times every addressee.
    order = np.argsort(index, kind="stable")
    index, receiver = index[order], receiver[order]
    low = np.searchsorted(index, place, "left")
    size = np.searchsorted(index, place, "right") - low
    each = np.repeat(low - np.cumsum(size) + size, size) + np.arange(size.sum())
    row, message, receiver = np.repeat(service.row, size), np.repeat(service.message, size), receiver[each]
    sender = columns.site[row]
    due = (receiver >= 0) & (receiver != sender)
    due[due] = owed[receiver[due], message[due]]
    row, message, receiver, sender = row[due], message[due], receiver[due], sender[due]
    pair = sender.astype(np.int64) * len(columns.sites) + receiver
    sent = columns.time[row]
    # Of several sends of a message from one site to another the first promises most.
    order = np.lexsort((sent, message, pair))
    pair, message, sent = pair[order], message[order], sent[order]
    first = np.ones(len(pair), dtype=bool)
    first[1:] = (np.diff(pair) != 0) | (np.diff(message) != 0)
    pair, message, sent = pair[first], message[first], sent[first]
    for code in np.unique(pair).tolist():
        low, high = np.searchsorted(pair, (code, code + 1))
        source, site = divmod(code, len(columns.sites))
        yield _from_good_moment(facts, bound, site, source, message[low:high], sent[low:high])


def _q1(facts: Facts, bound: float) -> Iterator[Promises]:
    owed, first = facts.owed, facts.deliveries.first_row
    for site in range(len(facts.columns.sites)):
        messages = np.flatnonzero(owed[site] & (first[site] >= 0))
        delivered = facts.columns.time[first[site, messages]]
        judged = (delivered + bound <= facts.run.ended_at) & facts.outages[site].awake(delivered, bound)
        messages, delivered = messages[judged], delivered[judged]
        for other in range(len(facts.columns.sites)):
            if other == site or not len(messages):
                continue
            due = (
                owed[other, messages]
                & facts.outages[other].up(delivered, bound)
                & facts.network.reach(site, other, delivered, bound)
            )
            yield Promises(other, messages[due], delivered[due], "{0} is up and can reach {1}, which delivers at", site)


def _q2(facts: Facts, bound: float) -> Iterator[Promises]:
    owed = facts.owed
    some_member = np.count_nonzero(owed & (facts.deliveries.first_row >= 0), axis=0) > 0
    for source, chain in enumerate(facts.messages.chains):
        chain = chain[some_member[chain]]
        if len(chain):
            for site in range(len(facts.columns.sites)):
                messages = chain[owed[site, chain]]
                yield _from_good_moment(facts, bound, site, source, messages, facts.messages.time[messages])


def _q3(facts: Facts, bound: float) -> Iterator[Promises]:
    columns, deliveries, first = facts.columns, facts.deliveries, facts.deliveries.first_row
    if not len(deliveries):
        return
    codes, names = columns.coded("parent")
    parent_site = columns.sites_in("parent")
    for site in range(len(columns.sites)):
        owed = np.flatnonzero(facts.owed[site])
        own = first[site, owed]
        parent: Ints = np.where(own >= 0, parent_site[own], -1)
        named = np.unique(codes[deliveries.rows[deliveries.site == site]])
        named = named[named >= 0]
        if len(named) == 1:
            parent[own < 0] = columns.site_code.get(names[named[0]], -1)
        for other in np.unique(parent[(parent >= 0) & (parent != site)]).tolist():
            messages = owed[parent == other]
            messages = messages[first[other, messages] >= 0]
            yield _from_good_moment(facts, bound, site, other, messages, facts.deliveries.time[other, messages])


def _from_good_moment(facts: Facts, bound: float, site: int, other: int, messages: Ints, since: Floats) -> Promises:
    """The promise from the first moment on at which the site is up and can reach the other one for long enough."""
    earliest = earliest_good(
        since,
        bound,
        facts.outages[site],
        facts.outages[other],
        facts.network.broken(site, other) if site != other else np.empty(0),
    )
    end = earliest.moment + bound
    judged = np.where(earliest.attained, end <= facts.run.ended_at, end < facts.run.ended_at)
    return Promises(
        site, messages[judged], earliest.moment[judged], "{0} is up and can reach {1} long enough from", other
    )


_RULES: dict[str, Rule] = {"P1": _p1, "P2": _p2, "P3": _p3, "P4": _p4, "Q1": _q1, "Q2": _q2, "Q3": _q3}
