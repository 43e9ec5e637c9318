"""Every two sites compared: which related messages do they deliver in different orders?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

import numpy as np

from ordercast.check.facts.columns import Bools, Ints, stable_order
from ordercast.check.facts.cycles import Cycles
from ordercast.check.facts.deliveries import Deliveries, Sequences
from ordercast.check.facts.messages import Messages
from ordercast.check.verdict import WITNESSES_MAX

Relation = Literal["single-source", "multiple-source", "multiple-group"]

_SITES_FOR_SHORTCUT: Final = 48
"""From about a thousand pairs of sites on, one search for cycles is cheaper than comparing all pairs."""

Excuses = Callable[[int, int, Ints, Ints], tuple[Bools, Bools]]
"""For sites x and y and the rows of common messages at both: which of them are excused as the one that x has first and
y has last, and which as the other one."""


class Inversion(NamedTuple):
    """One site has the messages in this order, the other one the other way round."""

    sites: tuple[int, int]
    messages: tuple[int, int]


class Inversions(NamedTuple):
    """What a comparison of sites brought to light."""

    obliged: bool
    found: list[Inversion]


class InvertedPairs:
    """The inverted pairs among first deliveries, worked out once for each relation, because R1 and others ask again."""

    def __init__(self, messages: Messages, deliveries: Deliveries, cycles: Cycles) -> None:
        self._messages = messages
        self._deliveries = deliveries
        self._cycles = cycles
        self._known: dict[Relation, Inversions] = {}

    def __getitem__(self, relation: Relation) -> Inversions:
        if relation not in self._known:
            self._known[relation] = self._find(relation)
        return self._known[relation]

    def _find(self, relation: Relation) -> Inversions:
        sequences, classes = self._deliveries.first, related(self._messages, relation)
        if len(sequences.messages) >= _SITES_FOR_SHORTCUT and not self._cycles.components:
            return Inversions(_is_obliged(sequences, classes), [])
        return find_inversions(sequences, classes)


def related(messages: Messages, relation: Relation) -> Ints | None:
    """Messages of the same class are related, those of class -1 to none; None: all are related."""
    if relation == "multiple-group":
        return None
    if relation == "multiple-source":
        return messages.address
    # An unknown message has no source that another one could share.
    return np.where(messages.known, messages.source * np.int64(len(messages.addresses)) + messages.address, -1)


def find_inversions(sequences: Sequences, classes: Ints | None, excuses: Excuses | None = None) -> Inversions:
    """Compare every two sites."""
    obliged = False
    found: list[Inversion] = []
    for first, messages in enumerate(sequences.messages):
        if len(messages) < 2:
            continue
        # Class by class, each in the order of delivery: then related messages are neighbours, and a sequence with an
        # inversion has one between neighbours.
        messages, group = _by_class(messages, classes)
        for second in range(first + 1, len(sequences.messages)):
            if len(sequences.messages[second]) < 2 or len(found) >= WITNESSES_MAX:
                continue
            result = compare(first, second, messages, group, sequences, excuses, WITNESSES_MAX - len(found))
            obliged |= result.obliged
            found += result.found
    return Inversions(obliged, found)


def compare_two(first: int, second: int, sequences: Sequences, classes: Ints | None, room: int) -> Inversions:
    """Compare two sites only."""
    messages, group = _by_class(sequences.messages[first], classes)
    return compare(first, second, messages, group, sequences, None, room)


def compare(
    first: int,
    second: int,
    messages: Ints,
    group: Ints | None,
    sequences: Sequences,
    excuses: Excuses | None,
    room: int,
) -> Inversions:
    """Compare two sites; `messages` are those of the first, class by class, and `group` their classes."""
    there = sequences.row[second][messages]
    common = there >= 0
    if not common.all():
        messages, there = messages[common], there[common]
        group = None if group is None else group[common]
    if len(there) < 2:
        return Inversions(False, [])
    if group is None:
        obliged, suspicious = True, bool((there[1:] < there[:-1]).any())
    else:
        same = group[1:] == group[:-1]
        obliged, suspicious = bool(same.any()), bool(((there[1:] < there[:-1]) & same).any())
    if not suspicious:
        return Inversions(obliged, [])
    excused_early = excused_late = np.zeros(len(there), dtype=bool)
    if excuses is not None:
        excused_early, excused_late = excuses(first, second, sequences.row[first][messages], there)
    # The classes one above the other, so that the running maximum of one class never reaches into the next.
    height = there.astype(np.int64)
    if group is not None:
        starts = np.concatenate([[False], group[1:] != group[:-1]])
        height = height + np.cumsum(starts) * (int(there.max()) + 1)
    highest = np.maximum.accumulate(np.where(excused_early, -1, height))
    found: list[Inversion] = []
    for late in np.flatnonzero((highest > height) & ~excused_late).tolist():
        before = (height[:late] > height[late]) & ~excused_early[:late]
        found += [
            Inversion((first, second), (int(messages[early]), int(messages[late])))
            for early in np.flatnonzero(before)[::-1][: room - len(found)].tolist()
        ]
        if len(found) >= room:
            break
    return Inversions(obliged, found)


def _by_class(messages: Ints, classes: Ints | None) -> tuple[Ints, Ints | None]:
    if classes is None:
        return messages, None
    group = classes[messages]
    if len(group) and group.min() < 0:
        messages, group = messages[group >= 0], group[group >= 0]
    if len(group) and (group == group[0]).all():
        return messages, None
    order = stable_order(group)
    return messages[order], group[order]


def _is_obliged(sequences: Sequences, classes: Ints | None) -> bool:
    """Whether there are two sites and two related messages that both delivered; stops at the first."""
    for first, messages in enumerate(sequences.messages):
        if len(messages) < 2:
            continue
        messages, group = _by_class(messages, classes)
        for second in range(first + 1, len(sequences.messages)):
            common = sequences.row[second][messages] >= 0
            if np.count_nonzero(common) < 2:
                continue
            if group is None or bool((np.diff(group[common]) == 0).any()):
                return True
    return False
