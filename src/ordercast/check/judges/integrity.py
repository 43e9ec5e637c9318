"""Single deliveries: were they multicast, addressed to the site, and the first of their kind there?"""

from __future__ import annotations

import numpy as np

from ordercast.check.facts import Facts
from ordercast.check.judges.witnesses import repeated
from ordercast.check.verdict import WITNESSES_MAX, Finding


def judge_integrity(facts: Facts) -> Finding:
    deliveries, messages, columns = facts.deliveries, facts.messages, facts.columns
    if not len(deliveries):
        return Finding(obliged=False)
    rows, site, message = deliveries.rows, deliveries.site, deliveries.message
    known = messages.known[message]
    # At the source seq tells what came first, elsewhere only time can.
    own = site == messages.source[message]
    early = ~own & (columns.time[rows] < messages.begin[message])
    mine = np.flatnonzero(own)
    before_multicast = mine[rows[mine] < messages.row[message[mine]]]
    if len(before_multicast):
        first_send = facts.packets.first_send_rows_at(messages.source)
        early[before_multicast[rows[before_multicast] < first_send[message[before_multicast]]]] = True
    addressed = facts.membership.addressed_at(rows, site, message)
    bad = np.flatnonzero(~known | early | ~addressed)
    witnesses = []
    for index in bad[:WITNESSES_MAX].tolist():
        if not known[index]:
            why = "{0} delivers {a}, which nobody has multicast"
        elif early[index]:
            why = "{0} delivers {a} before it is multicast or sent"
        else:
            why = "{0} delivers {a}, which is not addressed to it"
        witnesses.append(facts.witness((site[index],), (message[index],), why))
    return Finding(True, witnesses)


def judge_no_duplication(facts: Facts) -> Finding:
    deliveries = facts.deliveries
    if not len(deliveries):
        return Finding(obliged=False)
    repeats = deliveries.duplicates
    if len(deliveries.repeats) and any(name == "R3" or name.startswith("R3-") for name in facts.run.guarantees):
        repeats = _not_rolled_back(facts)
    return Finding(True, [repeated(facts, row) for row in repeats[:WITNESSES_MAX].tolist()])


def _not_rolled_back(facts: Facts) -> np.ndarray:
    """Rows of deliveries that follow a delivery of the same message at the site with no rollback of it between."""
    columns = facts.columns
    rollbacks = columns.rows("rollback")
    rows = np.sort(np.concatenate([facts.deliveries.rows, rollbacks[columns.message[rollbacks] >= 0]]))
    # Stable by site and message: the rows of one message at one site stand together, in their order.
    key = columns.site[rows].astype(np.int64) * columns.message_count + columns.message[rows]
    order = np.argsort(key, kind="stable")
    rows, key = rows[order], key[order]
    delivers = columns.are("deliver", rows)
    again = (key[1:] == key[:-1]) & delivers[1:] & delivers[:-1]
    return np.sort(rows[1:][again])
