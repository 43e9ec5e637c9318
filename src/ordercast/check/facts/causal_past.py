"""Which messages causally precede which.

A message is preceded by all earlier ones of its own source, and with any other message by all earlier ones of that
one's source. So a causal past is one number per source: how many of its messages are in it (a vector clock, worked out
from the rows instead of being carried by the messages).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ordercast.check.facts.columns import Columns, Ints
from ordercast.check.facts.deliveries import Deliveries
from ordercast.check.facts.messages import Messages


class CausalPast:
    """The causal past of every message."""

    def __init__(self, columns: Columns, messages: Messages, deliveries: Deliveries) -> None:
        self.columns = columns
        self.messages = messages
        self.deliveries = deliveries
        self.sources: list[int] = [site for site, chain in enumerate(messages.chains) if len(chain)]

    @cached_property
    def counts(self) -> Ints:
        """[source, message]: how many of the messages of `sources[source]` precede the message."""
        counts = self._direct()
        # A message that I have delivered brings its own past. Each round doubles the length of the ways that are
        # covered; where causality is kept, one round finds nothing new.
        while True:
            before = counts.copy()
            for place, source in enumerate(self.sources):
                chain = self.messages.chains[source]
                known = np.flatnonzero(counts[place] > 0)
                latest = chain[counts[place, known] - 1]
                counts[:, known] = np.maximum(counts[:, known], counts[:, latest])
                # Where causality runs in a circle, the latest message of a past may be the very one whose past it is:
                # hand on the pasts of the earlier ones too.
                counts[:, chain] = np.maximum.accumulate(counts[:, chain], axis=1)
            if np.array_equal(before, counts):
                return counts

    def _direct(self) -> Ints:
        messages, first = self.messages, self.deliveries.first
        counts = np.zeros((len(self.sources), self.columns.message_count), dtype=np.int32)
        place_of = np.full(len(self.columns.sites) + 1, -1)
        place_of[self.sources] = np.arange(len(self.sources))
        for place, source in enumerate(self.sources):
            chain = messages.chains[source]
            counts[place, chain] = np.arange(len(chain))
            delivered = first.messages[source]
            if len(delivered):
                before = np.searchsorted(first.row[source, delivered], messages.row[chain])
                for other_place, other in enumerate(self.sources):
                    of_other = np.where(messages.source[delivered] == other, messages.number[delivered] + 1, 0)
                    latest = np.concatenate([[0], np.maximum.accumulate(of_other)])[before]
                    counts[other_place, chain] = np.maximum(counts[other_place, chain], latest)
        known = messages.row[messages.known]
        row, depends = self.columns.message_lists("depends", np.sort(known))
        told = depends >= 0
        told[told] = messages.known[depends[told]]
        row, depends = row[told], depends[told]
        np.maximum.at(
            counts,
            (place_of[messages.source[depends]], self.columns.message[row]),
            (messages.number[depends] + 1).astype(np.int32),
        )
        return counts
