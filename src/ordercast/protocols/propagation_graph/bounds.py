"""What the propagation graph promises in seconds (P4 and Q3, Spauster 7.2.1), and what its options take and give."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import cast

from msgspec.structs import replace

from ordercast.core import CRASH_FAULTS, NETWORK_FAULTS, Bounds, Contract, Options
from ordercast.core.contract import no_bounds
from ordercast.protocols.propagation_graph.options import PropagationGraphOptions
from ordercast.protocols.propagation_graph.repair import MISSING_MAX

RELAXED_GUARANTEES = (
    "integrity",
    "no-duplication",
    "single-source-order",
    "group-source-order",
    "agreement",
    "termination",
    "recovery",
)
"""What holds where delivery goes on, however sites come back."""

PROMISED_UNDER = (*NETWORK_FAULTS, *CRASH_FAULTS, "slow-reader")
"""All but clocks that go wrong, by which a site looks after its edges. (A slow application only fills a buffer, and
nothing is promised where that can be.)"""


def promise(bounds: Bounds, options: Options) -> Mapping[str, float]:
    """Within how many seconds a site delivers what another one has sent it (P4), or what its parent has delivered (Q3),
    once both are up and can reach each other.

    δ is two looks: what was sent after the last one is announced at the second. Then: announce, request, send again,
    deliver, each with φP, the first three with φN (the thesis prints 3φP: it forgets the last). An answer brings
    `MISSING_MAX` messages, and the next ones are asked for when it is there. Nothing is promised where a buffer can
    fill, or a graph be closed: whoever is behind it waits then.
    """
    chosen = cast(PropagationGraphOptions, options)
    room = min(chosen.history_messages_max, chosen.reader_messages_max)
    if bounds.messages > room or bounds.payload_bytes > chosen.history_bytes_max or bounds.changes:
        return {}
    answers = max(1, ceil(bounds.messages / MISSING_MAX))
    seconds = 2 * chosen.retransmit_seconds + (2 + 2 * answers) * bounds.phi_p + (1 + 2 * answers) * bounds.phi_n
    return {"P4": seconds, "Q3": seconds}


def adapt(contract: Contract, options: Options) -> Contract:
    """Where all enters at the root of its tree, what was sent or delivered before is on every edge before; bypass edges
    keep any two sites in agreement, and may let the order of three groups go round in a circle (3.5)."""
    if not isinstance(options, PropagationGraphOptions):
        return contract
    if options.delivery == "non-atomic":
        return relax(contract, options.rejoin)
    if options.entry == "root":
        return replace(contract, guarantees=(*contract.guarantees, "source-order", "causal-order"))
    if options.bypass:
        return replace(contract.without("acyclic-order"), several_groups=False)
    return contract


def relax(contract: Contract, rejoin: str) -> Contract:
    """Where delivery goes on without failed sites, only these may have a tail in another order: it stands (R2), or is
    taken back (R3; second deliveries are against the letter of R2). The clocks of leases differ by no more than
    `drift_max`."""
    takes_back = rejoin == "rollback"
    back = "takes back its last deliveries and delivers what it missed" if takes_back else "comes back behind that"
    return replace(
        contract,
        guarantees=(*RELAXED_GUARANTEES, *(("R3", "R2-logical") if takes_back else ("R2",))),
        faults=tuple(fault for fault in contract.faults if fault not in ("skew", "away")),
        crash=f"the others stop for a suspicion and a lease, and go on without it; it {back}",
        promised=no_bounds,
        minority_may_die=True,
    )
