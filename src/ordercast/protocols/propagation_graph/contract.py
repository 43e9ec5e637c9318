"""What the propagation graph promises."""

from __future__ import annotations

from ordercast.core import EVERY_FAULT, TOTAL_ORDER, AtRest, Contract
from ordercast.protocols.propagation_graph.bounds import PROMISED_UNDER, adapt, promise
from ordercast.protocols.propagation_graph.options import PropagationGraphOptions
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
    at_rest=lambda sites, groups, options: (
        AtRest(entries=100 + 8 * sites * (groups + 1), credit=options.window_messages)
        if options.delivery == "atomic"
        else None
    ),
    promised=promise,
    promised_under=PROMISED_UNDER,
    dynamic=True,
    view_word="graph",
    adapted=adapt,
)
