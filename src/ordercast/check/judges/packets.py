"""Judges of packets: who takes part in ordering a message, and how much it costs on the wire (SCALATOM 4.3)."""

from __future__ import annotations

import numpy as np

from ordercast.check.facts import Facts
from ordercast.check.verdict import NOT_JUDGED, WITNESSES_MAX, Finding, Witness


def judge_genuineness(facts: Facts) -> Finding:
    """Only the source and the destinations of a message send or receive packets that serve it."""
    columns, messages = facts.columns, facts.messages
    # Whoever has left a group took part before, and learns in the end what it has missed.
    destinations = facts.membership.destinations_of_messages
    obliged = False
    witnesses: list[Witness] = []
    for verb, (row, message) in (("sends", facts.packets.sends), ("receives", facts.packets.receives)):
        known = messages.known[message]
        row, message = row[known], message[known]
        obliged |= len(row) > 0
        site = columns.site[row]
        strange = np.flatnonzero((messages.source[message] != site) & ~destinations[site, message])
        # One witness a packet, however many messages it serves.
        strange = strange[np.unique(row[strange], return_index=True)[1]]
        why = f"{{0}} {verb} a packet for {{a}}, of which it is neither source nor destination"
        witnesses += [
            facts.witness((site[place],), (message[place],), why)
            for place in strange[: WITNESSES_MAX - len(witnesses)].tolist()
        ]
    return Finding(obliged, witnesses)


def judge_message_size(facts: Facts) -> Finding:
    """A packet takes at most a + b·destinations + payload per message that it serves, however large the system."""
    bound = facts.run.bounds.get("message_size")
    if bound is None:
        return NOT_JUDGED
    per_message, per_destination = (bound["a"], bound.get("b", 0)) if isinstance(bound, dict) else (bound, 0)
    columns, messages = facts.columns, facts.messages
    row, message = facts.packets.sends
    known = messages.known[message]
    row, message = row[known], message[known]
    payload = np.zeros(columns.message_count)
    payload[messages.known] = columns.numbers("size", messages.row[messages.known])[0]
    destinations = np.count_nonzero(facts.membership.destinations_of_messages, axis=0)
    allowed_each = per_message + per_destination * destinations + payload
    rows, packet = np.unique(row, return_inverse=True)
    allowed = np.bincount(packet, weights=allowed_each[message], minlength=len(rows))
    size, has_size = columns.numbers("size", rows)
    witnesses = []
    for place in np.flatnonzero(has_size & (size > allowed))[:WITNESSES_MAX].tolist():
        served = tuple(message[row == rows[place]].tolist())
        why = f"{{0}} sends a packet of {size[place]} bytes where {allowed[place]:g} are allowed"
        witnesses.append(facts.witness((columns.site[rows[place]],), served, why))
    return Finding(bool(has_size.any()), witnesses)
