"""Do every two sites deliver every two related messages in the same order, and those of a source in its own?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ordercast.check.facts import Facts
from ordercast.check.facts.columns import stable_order
from ordercast.check.facts.inversions import Relation
from ordercast.check.judges.witnesses import inversion_witnesses
from ordercast.check.verdict import WITNESSES_MAX, Finding


def judge_order(relation: Relation) -> Callable[[Facts], Finding]:
    """The judge of single-source, multiple-source or multiple-group order."""

    def judge(facts: Facts) -> Finding:
        result = facts.inverted[relation]
        return Finding(result.obliged, inversion_witnesses(facts, result.found))

    return judge


def judge_source_order(facts: Facts) -> Finding:
    """Every site delivers the messages of a source in the order in which it multicast them."""
    columns, messages, deliveries = facts.columns, facts.messages, facts.deliveries
    rows = deliveries.rows[deliveries.is_first]
    rows = rows[messages.known[columns.message[rows]]]
    message = columns.message[rows]
    key = columns.site[rows].astype(np.int64) * len(columns.sites) + messages.source[message]
    order = stable_order(key)
    key, message = key[order], message[order]
    same = key[1:] == key[:-1]
    # Multicast rows of one source ascend with its seq.
    sent = messages.row[message]
    against = np.flatnonzero(same & (sent[1:] < sent[:-1]))
    why = "{0} delivers {a} before {b}, but {1} multicast {b} first"
    witnesses = [
        facts.witness(
            (int(key[place]) // len(columns.sites), int(messages.source[message[place]])),
            (message[place], message[place + 1]),
            why,
        )
        for place in against[:WITNESSES_MAX].tolist()
    ]
    return Finding(bool(same.any()), witnesses)
