"""What the properties of InterGroup are judged of: the messages of one group after the other, or all at once (4.1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ordercast.check.facts.activations import Activations, Stretches
from ordercast.check.facts.columns import Bools, Columns
from ordercast.check.facts.deliveries import Deliveries
from ordercast.check.facts.messages import Messages

ALL_AT_ONCE = "multiple-group-order"
"""Where this is claimed, order does not end at the border of a group."""


class Stream(NamedTuple):
    """Messages that are judged together."""

    group: str | None
    """None: all groups."""
    messages: Bools
    """Of each message, whether it is one of them."""
    stretches: dict[int, Stretches]
    """Of those sites that choose a service between deliveries, where they begin anew."""


def streams(columns: Columns, messages: Messages, deliveries: Deliveries, activations: Activations) -> list[Stream]:
    """What is to be judged apart. Messages with explicit destinations are of no group, so they are in each."""
    named = {group for explicit, names in messages.addresses if not explicit for group in names}
    groups = sorted(named | set(columns.run.groups))
    if ALL_AT_ONCE in columns.run.guarantees or not groups:
        everything = np.ones(columns.message_count, dtype=bool)
        return [Stream(None, everything, activations.stretches(deliveries, None))]
    found = []
    for group in groups:
        inside = np.array([explicit or group in names for explicit, names in messages.addresses])
        of_group = inside[messages.address] & messages.known
        if np.count_nonzero(of_group) > 1:
            found.append(Stream(group, of_group, activations.stretches(deliveries, group)))
    return found
