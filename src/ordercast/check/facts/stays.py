"""Whether a source stayed in the views of a site between two moments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ordercast.check.facts.columns import Bools, Columns, Floats, Ints
from ordercast.check.facts.messages import Messages
from ordercast.check.facts.views import ViewRows


class _Own(NamedTuple):
    """The views of one group, or of everything, at the site."""

    concerned: Bools
    """[address]: whether they are views of messages with this address."""
    rows: Ints
    times: Floats
    member: Bools
    """[view, site]"""


class Stays:
    """The views of one site: who stayed in those of which messages."""

    def __init__(self, columns: Columns, messages: Messages, views: ViewRows, site: int) -> None:
        self._messages = messages
        self._own: list[_Own] = []
        low, high = columns.site_start[site : site + 2]
        for series in views.series:
            places = series.views[slice(*np.searchsorted(views.rows[series.views], (low, high)))]
            if len(places):
                concerned = np.array(
                    [
                        series.group is None or (not explicit and series.group in names)
                        for explicit, names in messages.addresses
                    ]
                )
                rows = views.rows[places]
                self._own.append(_Own(concerned, rows, columns.time[rows], views.member[places]))

    @property
    def matters(self) -> bool:
        return bool(self._own)

    def judge(
        self, source: int, earlier: Ints, until: Ints, other: tuple[int, int] | None = None
    ) -> Iterator[tuple[Ints, Bools]]:
        """Parts of the later messages (delivered at rows `until`), each with those of the earlier ones, all of one
        source, for which the source stayed in the views of the earlier one from its beginning on; and, if another
        source and an address are given, that one in the views of messages with this address."""
        begin, address = self._messages.begin[earlier], self._messages.address[earlier]
        allowed: list[Bools] = []
        """Of each condition and each earlier message, whether it need not be asked."""
        since: list[Ints] = []
        last_gone: list[Ints] = []
        for own in self._own:
            questions = [(source, own.concerned[address])]
            if other is not None and own.concerned[other[1]]:
                questions.append((other[0], np.ones(len(earlier), dtype=bool)))
            for asked, concerned in questions:
                together = own.member[:, asked]
                # From the last view at or before the beginning, if there is one, else from the first view on.
                first = np.searchsorted(own.times, begin, "right") - 1
                present = (first < 0) | together[first]
                allowed.append(~concerned)
                since.append(np.where(present, np.maximum(first, 0), -1))
                # To the last view before the delivery; of those up to it only the last without the source matters.
                gone = np.maximum.accumulate(np.where(together, -1, np.arange(len(together))))
                last_gone.append(np.concatenate([[-1], gone])[np.searchsorted(own.rows, until)])
        if not allowed:
            yield np.arange(len(until)), np.ones(len(earlier), dtype=bool)
            return
        marks, part = np.stack(last_gone), np.zeros(len(until), dtype=np.int64)
        if (marks == marks[:, :1]).all():  # mostly, and much cheaper to see
            marks = marks[:, :1]
        else:
            marks, part = np.unique(marks, axis=1, return_inverse=True)
            part = part.reshape(-1)
        for number in range(marks.shape[1]):
            stayed = np.logical_and.reduce(
                [
                    need_not | (began > mark)
                    for need_not, began, mark in zip(allowed, since, marks[:, number], strict=True)
                ]
            )
            yield np.flatnonzero(part == number), stayed
