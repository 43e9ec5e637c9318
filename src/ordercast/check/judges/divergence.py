"""Do two histories differ although neither site has said that something is wrong with it?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ordercast.check.facts import Facts
from ordercast.check.facts.columns import Bools, Floats, Ints
from ordercast.check.facts.intervals import any_between
from ordercast.check.verdict import WITNESSES_MAX, Finding, Witness
from ordercast.check.wording import SKIPPED

_NEVER = np.iinfo(np.int64).max
"""The place of a message in the history of a site that should have it and does not."""

_INVERTED = "{0} delivers {a} before {b}, {1} delivers {b} before {a}, and neither was refused before"
_MISSING = "{a} is delivered at another site, but never at {0}, and nobody was refused"


def judge_no_silent_divergence(facts: Facts) -> Finding:
    """Two sites' histories differ only if one of them was refused before."""
    witnesses: list[Witness] = []
    obliged = False
    histories = facts.deliveries.first.messages
    for first in range(len(histories)):
        for second in range(len(histories)):
            if first != second and len(histories[first]) > 1 and len(histories[second]):
                comparison = _Comparison(facts, first, second)
                obliged |= comparison.obliged
                witnesses += comparison.witnesses(WITNESSES_MAX - len(witnesses))
    owed, missing = _missing_in_the_end(facts)
    room = WITNESSES_MAX - len(witnesses)
    witnesses += [facts.witness((site,), (message,), _MISSING) for message, site in missing[:room].tolist()]
    return Finding(obliged or owed, witnesses)


class _Comparison:
    """One site's history, x's, held against another one's, y's."""

    def __init__(self, facts: Facts, x: int, y: int) -> None:
        self._facts = facts
        self._sites = (x, y)
        history = facts.deliveries.first.messages[x]
        row = facts.deliveries.first_row[y][history].astype(np.int64)
        place = np.where(row >= 0, row, _NEVER)
        counts = (row >= 0) | facts.owed[y, history]
        self._messages: Ints = history[counts]
        self._place: Ints = place[counts]
        there = np.flatnonzero(self._place < _NEVER)
        self.obliged = len(there) > 0 and int(there[-1]) > 0

    def witnesses(self, room: int) -> Iterator[Witness]:
        """Where y has a later message of x's history without, or before, an earlier one; so many at the most.

        Inverted pairs look the same from both sites, and are told by the first of them.
        """
        if not self.obliged or room <= 0:
            return
        x, y = self._sites
        messages, place = self._messages, self._place
        tells_inversions = x < y
        told = place if tells_inversions else np.where(place == _NEVER, place, -1)
        for late in np.flatnonzero((np.maximum.accumulate(told) > place) & (place < _NEVER)).tolist():
            early = np.flatnonzero(told[:late] > place[late])
            for m in messages[early[~self._excused(messages[early], int(messages[late]))]].tolist():
                why = _INVERTED if self._facts.deliveries.first_row[y, m] >= 0 else SKIPPED
                yield self._facts.witness((x, y), (m, messages[late]), why)
                room -= 1
                if room == 0:
                    return

    def _excused(self, early: Ints, late: int) -> Bools:
        """Of each earlier message, whether one of the two sites was refused after its part of the difference and before
        the other one's."""
        x, y = self._sites
        refusals, time = self._facts.outages.refusals, self._facts.deliveries.time
        at_x: Floats = time[x, early]
        at_y: Floats = np.full(len(early), time[y, late])
        return any_between(refusals[x], at_x, at_y) | any_between(refusals[y], at_y, at_x)


def _missing_in_the_end(facts: Facts) -> tuple[bool, Ints]:
    """Whether anything is owed at the end of the run, and what of it is missing: [message, site]."""
    if not facts.run.settled or not facts.outages.correct.all():
        return False, np.empty((0, 2), dtype=np.int64)
    refusals = facts.outages.refusals
    last = np.array([times[-1] if len(times) else -np.inf for times in refusals])
    delivered = facts.deliveries.first_row >= 0
    stands = delivered & (facts.deliveries.time >= last[:, np.newaxis])
    elsewhere = (np.count_nonzero(stands, axis=0) - stands) > 0
    owed = facts.owed & elsewhere
    return bool(owed.any()), np.argwhere((owed & ~delivered).T)
