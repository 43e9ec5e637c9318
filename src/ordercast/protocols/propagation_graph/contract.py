"""What the propagation graph promises."""

from __future__ import annotations

from ordercast.core import EVERY_FAULT, TOTAL_ORDER, AtRest, Contract
from ordercast.protocols.propagation_graph.bounds import PROMISED_UNDER, adapt, promise
from ordercast.protocols.propagation_graph.options import PropagationGraphOptions
from ordercast.protocols.propagation_graph.relaxed.history import KEPT_MAX
from ordercast.protocols.propagation_graph.relaxed.shares import RENEWALS
from ordercast.protocols.propagation_graph.relaxed.watching import PING_SHARE
from ordercast.protocols.propagation_graph.repair import Repair
from ordercast.protocols.propagation_graph.roles import RELAXED_ROLES, ROLES

RELAXED_BRANCHES = tuple(
    dict.fromkeys(
        (
            *("entered", "ran", "another-graph", "gap-given-up"),
            *(branch for role in RELAXED_ROLES for branch in role.branches),
        )
    )
)
"""Where delivery goes on (`delivery = "non-atomic"`)."""


def at_rest(sites: int, groups: int, options: PropagationGraphOptions) -> AtRest:
    """What a site says and keeps when nobody multicasts."""
    if options.delivery == "atomic":
        return AtRest(entries=100 + 8 * sites * (groups + 1), credit=options.window_messages)
    # The lease of the graph, held for a little less than it is granted, is renewed and shared out; and everyone watches
    # the others, and answers them.
    renewed = RENEWALS * (1 + options.drift_max) / (1 - options.drift_max) / options.lease_seconds
    watched = PING_SHARE / options.suspicion_seconds
    return AtRest(
        packets=2 * sites * (renewed + watched),
        # The order with which this graph began stays until the next one begins: what was on its way then, and what had
        # been kept for those who were away.
        messages=2 * sites * options.window_messages + KEPT_MAX,
        entries=250 + 8 * sites * (groups + 1),
        credit=options.window_messages,
    )


CONTRACT = Contract(
    name="propagation-graph",
    title="a forest of sites orders: each where its groups meet; load spread, few messages, order across groups",
    paper="Spauster 1991, 3.2 to 3.5, 5.2, 7.2.1 (Protocol 4)",
    # Not source-order: two messages of one source to different groups may enter at different sites.
    guarantees=(*("group-source-order" if name == "source-order" else name for name in TOTAL_ORDER), "P4", "Q3"),
    faults=EVERY_FAULT,
    crash="whoever is below a crashed site waits until it is back, and whoever multicasts to what it orders",
    branches=tuple(
        dict.fromkeys(
            (
                *("taken-here", "submitted", "forwarded", "old", "early", "waited", "stalled"),
                *Repair.branches,
                *(branch for role in ROLES for branch in role.branches),
                *RELAXED_BRANCHES,
            )
        )
    ),
    options=PropagationGraphOptions,
    at_rest=at_rest,
    promised=promise,
    promised_under=PROMISED_UNDER,
    dynamic=True,
    view_word="graph",
    adapted=adapt,
)
