"""Judges of causal order and of order without holes (InterGroup 1.2 to 1.4), group by group, and anew at each
activation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, combinations_with_replacement
from typing import NamedTuple

import numpy as np

from ordercast.check.facts import Facts
from ordercast.check.facts.activations import Stretches
from ordercast.check.facts.columns import Bools, Ints
from ordercast.check.facts.inversions import Inversion, Inversions, compare_two, find_inversions
from ordercast.check.facts.streams import Stream
from ordercast.check.judges.witnesses import inversion_witnesses
from ordercast.check.verdict import WITNESSES_MAX, Finding, Witness

_OTHERS = -3
"""All sources that no activation names, taken together."""


def judge_causal_order(facts: Facts) -> Finding:
    """A message is never delivered before one that causally precedes it."""
    obliged = False
    witnesses: dict[Witness, None] = {}
    for stream in facts.streams:
        for site, messages in enumerate(facts.deliveries.first.messages):
            if len(messages) > 1:
                found = _against_causality(facts, stream, site, WITNESSES_MAX - len(witnesses))
                obliged |= found.obliged
                witnesses |= dict.fromkeys(found.witnesses)
    return Finding(obliged, list(witnesses))


def _against_causality(facts: Facts, stream: Stream, site: int, room: int) -> Finding:
    row = facts.deliveries.first.row[site]
    obliged = False
    witnesses: list[Witness] = []
    why = "{0} delivers {b} before {a}, which causally precedes it"
    delivered = _delivered(facts, stream, site)
    for place, source in enumerate(facts.past.sources):
        chain = facts.messages.chains[source]
        of_stream = np.where(stream.messages[chain], row[chain], -1)
        for later, there in _in_stretches(facts, stream, site, delivered, source, of_stream):
            past = facts.past.counts[place, later]
            asked = _Asked(facts, later, source, past)
            obliged |= asked.any_among(there >= 0)
            wrong = asked.prefix_maximum(there) > row[later]
            for index in np.flatnonzero(wrong)[: room - len(witnesses)].tolist():
                cause = chain[int(np.argmax(there[: past[index]]))]
                witnesses.append(facts.witness((site,), (cause, later[index]), why))
    return Finding(obliged, witnesses)


def judge_timestamp_order(facts: Facts) -> Finding:
    """The same order everywhere, and causality kept."""
    causal = judge_causal_order(facts)
    obliged = causal.obliged
    witnesses: dict[Witness, None] = {}
    for stream in facts.streams:
        same = _inverted(facts, stream)
        obliged |= same.obliged
        witnesses |= dict.fromkeys(inversion_witnesses(facts, same.found))
    return Finding(obliged, [*witnesses, *causal.witnesses])


def _inverted(facts: Facts, stream: Stream) -> Inversions:
    first = facts.deliveries.first
    if not stream.stretches:
        if stream.messages.all():
            return facts.inverted["multiple-group"]
        return find_inversions(first, np.where(stream.messages, 0, -1))
    obliged = False
    found: dict[Inversion, None] = {}
    for x, y in combinations(range(len(first.messages)), 2):
        for classes in _comparable(facts, stream, x, y):
            result = compare_two(x, y, first, classes, WITNESSES_MAX)
            obliged |= result.obliged
            found |= dict.fromkeys(result.found)
    return Inversions(obliged, list(found)[:WITNESSES_MAX])


def _comparable(facts: Facts, stream: Stream, x: int, y: int) -> Iterator[Ints]:
    """Messages of one class are in one stretch at both sites. Which are depends on the sources of the two messages, so
    every two sources that an activation names are seen to by themselves, and all others together."""
    row = facts.deliveries.first.row
    counted = np.flatnonzero(stream.messages & (row[x] >= 0) & (row[y] >= 0))
    both = [stream.stretches.get(site, _UNBROKEN) for site in (x, y)]
    named = {source for stretches in both for source in stretches.of_source}
    kind = _kinds(facts, named)[counted]
    for one, other in combinations_with_replacement([*sorted(named), _OTHERS], 2):
        chosen = counted[(kind == one) | (kind == other)]
        if len(chosen) < 2:
            continue
        at_x, at_y = (
            np.searchsorted(stretches.bounds(one, other), row[site, chosen])
            for site, stretches in zip((x, y), both, strict=True)
        )
        classes = np.full(facts.columns.message_count, -1, dtype=np.int64)
        classes[chosen] = at_x.astype(np.int64) * (int(at_y.max()) + 1) + at_y
        yield classes


def judge_reliable_source_order(facts: Facts) -> Finding:
    """No gap in the source order from the first message that a site delivers on, while the source is in its views."""
    messages, first = facts.messages, facts.deliveries.first
    found = _Holes(facts)
    for site in range(len(facts.columns.sites)):
        stays = facts.stays(site)
        for stream in facts.streams:
            stretches = stream.stretches.get(site, _UNBROKEN)
            for source, chain in enumerate(messages.chains):
                inside = stream.messages[chain]
                there = first.row[site, chain]
                delivered = np.flatnonzero(inside & (there >= 0))
                for those in _split(delivered, np.searchsorted(stretches.bounds(source), there[delivered])):
                    activation = int(those[np.argmin(there[those])])
                    due = facts.membership.owed[site, chain] & inside & (np.arange(len(chain)) >= activation)
                    asked = _Asked(facts, chain[those], source, those)
                    found.look(site, asked, stays.judge(source, chain, there[those]), due)
    return found.finding()


def judge_reliable_timestamp_order(facts: Facts) -> Finding:
    """No causal hole: what precedes a message is delivered before it, while both sources stay in the views."""
    messages, first = facts.messages, facts.deliveries.first
    found = _Holes(facts)
    for site in range(len(facts.columns.sites)):
        if not len(first.messages[site]):
            continue
        stays = facts.stays(site)
        for stream in facts.streams:
            delivered = _delivered(facts, stream, site)
            for place, source in enumerate(facts.past.sources):
                chain = messages.chains[source]
                of_stream = np.where(stream.messages[chain], first.row[site, chain], -1)
                for later, there in _in_stretches(facts, stream, site, delivered, source, of_stream):
                    activation = np.flatnonzero(there >= 0)[:1]
                    if not len(activation):
                        continue
                    due = facts.membership.owed[site, chain] & stream.messages[chain]
                    due &= np.arange(len(chain)) >= activation
                    # With views the answer depends on where the later message comes from and goes to.
                    for some, other in _by_origin(facts, later) if stays.matters else [(later, None)]:
                        asked = _Asked(facts, some, source, facts.past.counts[place, some])
                        found.look(site, asked, stays.judge(source, chain, first.row[site, some], other), due)
    return found.finding()


_UNBROKEN = Stretches(np.empty(0, dtype=np.int64), {})


def _delivered(facts: Facts, stream: Stream, site: int) -> Ints:
    """The known messages of the stream that the site delivered, in that order."""
    messages = facts.deliveries.first.messages[site]
    counted = stream.messages & facts.messages.known
    return messages if counted.all() else messages[counted[messages]]


def _in_stretches(
    facts: Facts, stream: Stream, site: int, later: Ints, source: int, there: Ints
) -> Iterator[tuple[Ints, Ints]]:
    """Messages that the site delivered, and where it delivered those of one source (rows `there`), stretch by stretch;
    -1 for what is not in the stretch."""
    if site not in stream.stretches:
        yield later, there
        return
    row = facts.deliveries.first.row[site]
    stretches = stream.stretches[site]
    kind = _kinds(facts, set(stretches.of_source))[later]
    for other in np.unique(kind).tolist():
        bounds = stretches.bounds(source, other)
        some = later[kind == other]
        number, own = np.searchsorted(bounds, row[some]), np.searchsorted(bounds, there)
        for stretch in np.unique(number).tolist():
            yield some[number == stretch], np.where(own == stretch, there, -1)


def _kinds(facts: Facts, named: set[int]) -> Ints:
    """Of each message its source, if it is one of these."""
    source = facts.messages.source
    return np.where(np.isin(source, list(named)) & facts.messages.known, source, _OTHERS)


def _by_origin(facts: Facts, messages: Ints) -> Iterator[tuple[Ints, tuple[int, int]]]:
    """Messages of one source to one address at a time."""
    addresses = len(facts.messages.addresses)
    key = facts.messages.source[messages] * np.int64(addresses) + facts.messages.address[messages]
    for code in np.unique(key).tolist():
        yield messages[key == code], divmod(code, addresses)


def _split(values: Ints, number: Ints) -> list[Ints]:
    return [values[number == each] for each in np.unique(number).tolist()]


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
