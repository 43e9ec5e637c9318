"""Do every two sites deliver every two related messages in the same order, and those of a source in its own?"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ordercast.check.facts import Facts
from ordercast.check.facts.activations import Stretches
from ordercast.check.facts.columns import Bools, Ints, stable_order
from ordercast.check.facts.inversions import Relation
from ordercast.check.judges.witnesses import inversion_witnesses
from ordercast.check.verdict import WITNESSES_MAX, Finding, Witness


def judge_order(relation: Relation) -> Callable[[Facts], Finding]:
    """The judge of single-source, multiple-source or multiple-group order."""

    def judge(facts: Facts) -> Finding:
        result = facts.inverted[relation]
        return Finding(result.obliged, inversion_witnesses(facts, result.found))

    return judge


def judge_source_order(facts: Facts) -> Finding:
    """Every site delivers the messages of a source in the order in which it multicast them, in each group at least."""
    obliged = False
    witnesses: dict[Witness, None] = {}
    for stream in facts.streams:
        found = _in_sending_order(facts, stream.messages, None, stream.stretches)
        obliged |= found.obliged
        witnesses |= dict.fromkeys(found.witnesses)
    return Finding(obliged, list(witnesses))


def judge_group_source_order(facts: Facts) -> Finding:
    """Every site delivers the messages of a source to one address in the order in which it multicast them."""
    return _in_sending_order(facts, facts.messages.known, facts.messages.address, {})


def _in_sending_order(
    facts: Facts, counted: Bools, classes: Ints | None, stretches: Mapping[int, Stretches]
) -> Finding:
    """Of the counted messages, those of a source and, if given, a class: are they delivered as they were multicast?"""
    columns, messages, deliveries = facts.columns, facts.messages, facts.deliveries
    rows = deliveries.rows[deliveries.is_first]
    rows = rows[(counted & messages.known)[columns.message[rows]]]
    message, site = columns.message[rows], columns.site[rows]
    key = site.astype(np.int64) * len(columns.sites) + messages.source[message]
    if classes is not None:
        key = key * (int(classes.max(initial=0)) + 1) + classes[message]
    begun = _times_begun(rows, site, messages.source[message], stretches)
    order = stable_order(key)
    key, message, site, begun = key[order], message[order], site[order], begun[order]
    same = (key[1:] == key[:-1]) & (begun[1:] == begun[:-1])
    # Multicast rows of one source ascend with its seq.
    sent = messages.row[message]
    against = np.flatnonzero(same & (sent[1:] < sent[:-1]))
    why = "{0} delivers {a} before {b}, but {1} multicast {b} first"
    witnesses = [
        facts.witness((site[place], messages.source[message[place]]), (message[place], message[place + 1]), why)
        for place in against[:WITNESSES_MAX].tolist()
    ]
    return Finding(bool(same.any()), witnesses)


def _times_begun(rows: Ints, site: Ints, source: Ints, stretches: Mapping[int, Stretches]) -> Ints:
    """Of each delivery, how often its site had begun anew with its source before it."""
    begun = np.zeros(len(rows), dtype=np.int64)
    for own, stretch in stretches.items():
        here = np.flatnonzero(site == own)
        begun[here] = np.searchsorted(stretch.for_all, rows[here])
        for named, bounds in stretch.of_source.items():
            of_source = here[source[here] == named]
            begun[of_source] += np.searchsorted(bounds, rows[of_source])
    return begun
