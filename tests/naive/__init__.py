"""Deliberately naive checkers, written straight from docs/properties.md and from nothing else.

Each takes a run (the object of runs.jsonl, as a dict) and its rows (a list of dicts) and returns the verdict and the
set of all violations. They exist to be compared with the judges, with which they share no code.
"""

from __future__ import annotations

from collections.abc import Callable

from .bounded import p1, p2, p3, p4, q1, q2, q3
from .causality import (
    causal_order,
    reliable_source_order,
    reliable_timestamp_order,
    source_order,
    timestamp_order,
)
from .deliveries import integrity, no_duplication
from .divergence import no_silent_divergence
from .failures import (
    r1,
    r1_multiple_source,
    r1_single_source,
    r2,
    r2_logical,
    r2_multiple_source,
    r2_single_source,
    r3,
    r3_multiple_source,
    r3_single_source,
)
from .liveness import agreement, recovery, selective_information, termination, uniform_agreement
from .offsets import offset_agreement
from .order import (
    acyclic_order,
    group_source_order,
    multiple_group_order,
    multiple_source_order,
    single_source_order,
)
from .packets import genuineness, message_size
from .rest import credit_returned, no_leak, quiescence
from .terms import Outcome, Row, Run, for_property
from .views import self_inclusion, transitional_set, view_agreement, view_termination, virtual_synchrony

Checker = Callable[[Run, list[Row]], Outcome]

_OF_DELIVERIES_THAT_COUNT: dict[str, Checker] = {
    "integrity": integrity,
    "no-duplication": no_duplication,
    "self-inclusion": self_inclusion,
    "genuineness": genuineness,
    "message-size": message_size,
    "single-source-order": single_source_order,
    "multiple-source-order": multiple_source_order,
    "multiple-group-order": multiple_group_order,
    "order-equivalence": multiple_group_order,
    "source-order": source_order,
    "group-source-order": group_source_order,
    "acyclic-order": acyclic_order,
    "R1": r1,
    "R1-single-source": r1_single_source,
    "R1-multiple-source": r1_multiple_source,
    "R2": r2,
    "R2-single-source": r2_single_source,
    "R2-multiple-source": r2_multiple_source,
    "R2-logical": r2_logical,
    "R3": r3,
    "R3-single-source": r3_single_source,
    "R3-multiple-source": r3_multiple_source,
    "no-silent-divergence": no_silent_divergence,
    "offset-agreement": offset_agreement,
    "uniform-agreement": uniform_agreement,
    "atomic-receipt": uniform_agreement,
    "agreement": agreement,
    "termination": termination,
    "recovery": recovery,
    "selective-information": selective_information,
    "P1": p1,
    "P2": p2,
    "P3": p3,
    "P4": p4,
    "Q1": q1,
    "Q2": q2,
    "Q3": q3,
    "causal-order": causal_order,
    "timestamp-order": timestamp_order,
    "reliable-source-order": reliable_source_order,
    "reliable-timestamp-order": reliable_timestamp_order,
    "virtual-synchrony": virtual_synchrony,
    "transitional-set": transitional_set,
    "view-agreement": view_agreement,
    "view-termination": view_termination,
    "quiescence": quiescence,
    "no-leak": no_leak,
    "credit-returned": credit_returned,
}


def _checker(name: str) -> Checker:
    return lambda run, rows: _OF_DELIVERIES_THAT_COUNT[name](*for_property(name, run, rows))


CHECKERS: dict[str, Checker] = {name: _checker(name) for name in _OF_DELIVERIES_THAT_COUNT}

__all__ = ["CHECKERS"]
