"""What Protocol 5 promises in seconds: P2, P4 and Q1 (Spauster 7.2.2), as far as the printed sums are right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ordercast.core import Bounds, Options
from ordercast.protocols.tree_5.options import Tree5Options


def promise(bounds: Bounds, options: Options) -> Mapping[str, float]:
    """Δ of P2 and P4 and ρ of Q1.

    P2: each of n - 1 successions takes 2δ + 7φN + 8φP as printed; the sum forgets that the message then has to travel
    down the last tree, which is n - 1 deep at the most.
    Q1: as printed.
    P4: the thesis has φP + φN, "for what is missing can be fetched from the sender in that time". It cannot. A source
    whose number before was lost with the old root is asked for it and sends it again: 3φN + 3φP. And what a parent of
    the old tree has sent, and the new tree overtakes, is reported to the new root and comes from there: 4φN + 3φP.
    """
    chosen = cast(Tree5Options, options)
    if bounds.messages > chosen.log_messages_max or bounds.payload_bytes > chosen.log_bytes_max:
        return {}  # a source may have to wait for its log
    delta, phi_n, phi_p = chosen.delta, bounds.phi_n, bounds.phi_p
    below = max(bounds.sites - 1, 1)
    return {
        "P2": below * (2 * delta + 7 * phi_n + 8 * phi_p) + below * (phi_p + phi_n),
        "P4": 4 * phi_n + 3 * phi_p,
        "Q1": delta + 3 * phi_p + 2 * phi_n + below * (phi_p + phi_n) + phi_p,
    }
