"""Judges of causal order and of order without holes (InterGroup 1.2 to 1.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ordercast.check.facts import Facts
from ordercast.check.facts.columns import Bools, Columns, Floats, Ints
from ordercast.check.facts.views import ViewRows
from ordercast.check.judges.witnesses import inversion_witnesses
from ordercast.check.verdict import WITNESSES_MAX, Finding, Witness


def judge_causal_order(facts: Facts) -> Finding:
    """A message is never delivered before one that causally precedes it."""
    first = facts.deliveries.first
    obliged = False
    witnesses: list[Witness] = []
    why = "{0} delivers {b} before {a}, which causally precedes it"
    for site in range(len(facts.columns.sites)):
        later = first.messages[site][facts.messages.known[first.messages[site]]]
        if len(later) < 2:
            continue
        rows = first.row[site, later]
        for place, source in enumerate(facts.past.sources):
            chain = facts.messages.chains[source]
            past = facts.past.counts[place, later]
            asked = _Asked(facts, later, source, past)
            there = first.row[site, chain]
            obliged |= asked.any_among(there >= 0)
            wrong = asked.prefix_maximum(there) > rows
            for index in np.flatnonzero(wrong)[: WITNESSES_MAX - len(witnesses)].tolist():
                cause = chain[int(np.argmax(there[: past[index]]))]
                witnesses.append(facts.witness((site,), (cause, later[index]), why))
    return Finding(obliged, witnesses)


def judge_timestamp_order(facts: Facts) -> Finding:
    """The same order everywhere, and causality kept."""
    same = facts.inverted["multiple-group"]
    causal = judge_causal_order(facts)
    return Finding(same.obliged or causal.obliged, [*inversion_witnesses(facts, same.found), *causal.witnesses])


def judge_reliable_source_order(facts: Facts) -> Finding:
    """No gap in the source order from the first message that a site delivers on, while the source is in its views."""
    columns, messages, first = facts.columns, facts.messages, facts.deliveries.first
    found = _Holes(facts)
    for site in range(len(columns.sites)):
        stays = _Stays(columns, facts.views, site)
        for source, chain in enumerate(messages.chains):
            there = first.row[site, chain]
            delivered = np.flatnonzero(there >= 0)
            if not len(delivered):
                continue
            activation = int(delivered[np.argmin(there[delivered])])
            due = facts.membership.owed[site, chain] & (np.arange(len(chain)) >= activation)
            later = chain[delivered]
            asked = _Asked(facts, later, source, delivered)
            found.look(site, asked, stays.judge((source,), messages.begin[chain], there[delivered]), due)
    return found.finding()


def judge_reliable_timestamp_order(facts: Facts) -> Finding:
    """No causal hole: what precedes a message is delivered before it, while both sources stay in the views."""
    columns, messages, first = facts.columns, facts.messages, facts.deliveries.first
    found = _Holes(facts)
    for site in range(len(columns.sites)):
        known = first.messages[site][messages.known[first.messages[site]]]
        if not len(known):
            continue
        stays = _Stays(columns, facts.views, site)
        # With views the answer depends on the source of the later message too; without them all go at once.
        sources = np.unique(messages.source[known]).tolist() if stays.matters else [None]
        for place, source in enumerate(facts.past.sources):
            chain = messages.chains[source]
            delivered = np.flatnonzero(first.row[site, chain] >= 0)
            if not len(delivered):
                continue
            due = facts.membership.owed[site, chain] & (np.arange(len(chain)) >= delivered[0])
            for other in sources:
                later = known if other is None else known[messages.source[known] == other]
                asked = _Asked(facts, later, source, facts.past.counts[place, later])
                both = (source,) if other is None else (source, other)
                found.look(site, asked, stays.judge(both, messages.begin[chain], first.row[site, later]), due)
    return found.finding()


class _Asked(NamedTuple):
    """Later messages, and for each how many messages of one source (the first so many) it is compared with."""

    facts: Facts
    later: Ints
    source: int
    prefix: Ints

    def any_among(self, counted: Bools) -> bool:
        """Whether some later message has a counted one before it, other than itself."""
        before = np.concatenate([[0], np.cumsum(counted)])[self.prefix]
        number = self.facts.messages.number[self.later]
        # A message can be in its own past only where causality runs in a circle.
        own = (self.facts.messages.source[self.later] == self.source) & (number < self.prefix)
        if own.any():
            before[own] -= counted[number[own]]
        return bool((before > 0).any())

    def prefix_maximum(self, values: Ints) -> Ints:
        """Of each later message, the largest value among those it is compared with; -1 where there are none."""
        return np.concatenate([[-1], np.maximum.accumulate(values)])[self.prefix]


class _Holes:
    """Collects messages that should have been delivered before a later one, and were not."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.obliged = False
        self.witnesses: list[Witness] = []

    def look(self, site: int, asked: _Asked, allowed: Iterator[tuple[Ints, Bools]], due: Bools) -> None:
        """`due`: which messages of the source count; `allowed`: per part of the later ones, which the views allow."""
        facts = self.facts
        chain = facts.messages.chains[asked.source]
        row = facts.deliveries.first.row[site]
        never = facts.columns.length
        there = np.where(row[chain] >= 0, row[chain], never)
        for part, in_views in allowed:
            counted = due & in_views
            if not counted.any():
                continue
            some = asked._replace(later=asked.later[part], prefix=asked.prefix[part])
            self.obliged |= some.any_among(counted)
            expected = np.where(counted, there, -1)
            wrong = some.prefix_maximum(expected) > row[some.later]
            for index in np.flatnonzero(wrong)[: WITNESSES_MAX - len(self.witnesses)].tolist():
                missing = chain[int(np.argmax(expected[: some.prefix[index]]))]
                why = "{0} delivers {b} without having delivered {a} before it"
                self.witnesses.append(facts.witness((site,), (missing, some.later[index]), why))

    def finding(self) -> Finding:
        return Finding(self.obliged, self.witnesses)


class _Stays:
    """Whether sources stayed in the views of one site between two moments."""

    def __init__(self, columns: Columns, views: ViewRows, site: int) -> None:
        own = views.at(site)
        self.rows: Ints = views.rows[own]
        self.matters: bool = len(self.rows) > 0
        if self.matters:
            self.times: Floats = columns.time[self.rows]
            self.member: Bools = views.member[own]

    def judge(self, sources: tuple[int, ...], begin: Floats, until: Ints) -> Iterator[tuple[Ints, Bools]]:
        """Parts of the later messages (delivered at rows `until`), each with those of the earlier ones (begun at
        `begin`) for which the sources stayed all the time between."""
        if not self.matters:
            yield np.arange(len(until)), np.ones(len(begin), dtype=bool)
            return
        together: Bools = np.logical_and.reduce(self.member[:, list(sources)], axis=1)
        # From the last view at or before the beginning, if there is one, else from the first view on.
        since = np.searchsorted(self.times, begin, "right") - 1
        present = (since < 0) | together[since]
        since = np.maximum(since, 0)
        # To the last view before the delivery; of those up to it only the last without a source matters.
        gone = np.maximum.accumulate(np.where(together, -1, np.arange(len(together))))
        last_gone = np.concatenate([[-1], gone])[np.searchsorted(self.rows, until)]
        for place in np.unique(last_gone).tolist():
            yield np.flatnonzero(last_gone == place), present & (since > place)
