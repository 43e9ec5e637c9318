"""All properties by name, in the order in which they are printed, each with its judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ordercast.check.facts import Facts
from ordercast.check.judges.acyclic import judge_acyclic_order
from ordercast.check.judges.bounded import judge_bounded
from ordercast.check.judges.causality import (
    judge_causal_order,
    judge_reliable_source_order,
    judge_reliable_timestamp_order,
    judge_timestamp_order,
)
from ordercast.check.judges.divergence import judge_no_silent_divergence
from ordercast.check.judges.failures import judge_r1, judge_r2, judge_r2_logical, judge_r3
from ordercast.check.judges.integrity import judge_integrity, judge_no_duplication
from ordercast.check.judges.liveness import (
    judge_agreement,
    judge_recovery,
    judge_selective_information,
    judge_termination,
    judge_uniform_agreement,
    judge_view_termination,
)
from ordercast.check.judges.offsets import judge_offset_agreement
from ordercast.check.judges.order import judge_group_source_order, judge_order, judge_source_order
from ordercast.check.judges.packets import judge_genuineness, judge_message_size
from ordercast.check.judges.rest import judge_credit_returned, judge_no_leak, judge_quiescence
from ordercast.check.judges.views import judge_self_inclusion, judge_transitional_set, judge_view_agreement
from ordercast.check.judges.virtual_synchrony import judge_virtual_synchrony
from ordercast.check.verdict import Finding

Judge = Callable[[Facts], Finding]


def _promise_nothing(facts: Facts) -> Finding:
    return Finding(obliged=True)


JUDGES: Final[Mapping[str, Judge]] = {
    "integrity": judge_integrity,
    "no-duplication": judge_no_duplication,
    "single-source-order": judge_order("single-source"),
    "source-order": judge_source_order,
    "group-source-order": judge_group_source_order,
    "multiple-source-order": judge_order("multiple-source"),
    "multiple-group-order": judge_order("multiple-group"),
    "acyclic-order": judge_acyclic_order,
    "uniform-agreement": judge_uniform_agreement,
    "agreement": judge_agreement,
    "termination": judge_termination,
    "recovery": judge_recovery,
    "P0": _promise_nothing,
    "P1": judge_bounded("P1"),
    "P2": judge_bounded("P2"),
    "P3": judge_bounded("P3"),
    "P4": judge_bounded("P4"),
    "Q0": _promise_nothing,
    "Q1": judge_bounded("Q1"),
    "Q2": judge_bounded("Q2"),
    "Q3": judge_bounded("Q3"),
    "R0": _promise_nothing,
    "R1": judge_r1("multiple-group"),
    "R1-single-source": judge_r1("single-source"),
    "R1-multiple-source": judge_r1("multiple-source"),
    "R2": judge_r2("multiple-group"),
    "R2-single-source": judge_r2("single-source"),
    "R2-multiple-source": judge_r2("multiple-source"),
    "R3": judge_r3("multiple-group"),
    "R3-single-source": judge_r3("single-source"),
    "R3-multiple-source": judge_r3("multiple-source"),
    "R2-logical": judge_r2_logical,
    "no-silent-divergence": judge_no_silent_divergence,
    "offset-agreement": judge_offset_agreement,
    "reliable-source-order": judge_reliable_source_order,
    "timestamp-order": judge_timestamp_order,
    "causal-order": judge_causal_order,
    "reliable-timestamp-order": judge_reliable_timestamp_order,
    "virtual-synchrony": judge_virtual_synchrony,
    "self-inclusion": judge_self_inclusion,
    "transitional-set": judge_transitional_set,
    "view-agreement": judge_view_agreement,
    "view-termination": judge_view_termination,
    "selective-information": judge_selective_information,
    "order-equivalence": judge_order("multiple-group"),
    "atomic-receipt": judge_uniform_agreement,
    "genuineness": judge_genuineness,
    "message-size": judge_message_size,
    "quiescence": judge_quiescence,
    "no-leak": judge_no_leak,
    "credit-returned": judge_credit_returned,
}

PROPERTIES: Final[tuple[str, ...]] = tuple(JUDGES)
