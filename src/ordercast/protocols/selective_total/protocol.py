"""Selective total order: the contract, and the messages with their handlers."""

from __future__ import annotations

from ordercast.core import TOTAL_ORDER, Contract, Options
from ordercast.core.events import Event, Received
from ordercast.protocols.selective_total.arrangement import ARRANGEMENT
from ordercast.protocols.selective_total.options import SelectiveTotalOptions
from ordercast.protocols.selective_total.packets import (
    Abort,
    Apply,
    Data,
    ReceiveReady,
    Request,
    Reset,
    ResetAck,
    ResetPreAck,
    Restored,
    Retransmission,
)
from ordercast.protocols.selective_total.source_order import SourceOrder

_ONLY_IN_TOTAL_ORDER = frozenset(
    ("multiple-source-order", "multiple-group-order", "acyclic-order", "order-equivalence", "R1")
)


def _not_guaranteed(options: Options) -> frozenset[str]:
    """The SP service keeps the order of each source only."""
    total = not isinstance(options, SelectiveTotalOptions) or options.service == "total"
    return frozenset() if total else _ONLY_IN_TOTAL_ORDER


class SelectiveTotal(SourceOrder):
    """Every process sends to any subset at any time; common destinations agree on the order; no master."""

    contract = Contract(
        name="selective-total",
        title="selective total order on one channel that loses by overrun, without a master",
        paper="Tachikawa and Takizawa",
        guarantees=(*TOTAL_ORDER, "selective-information", "order-equivalence", "atomic-receipt"),
        faults=("loss", "burst-loss", "pause", "skew", "slow-reader"),
        crash="the others wait for silence_seconds, deliver what anyone may have delivered, and go on without it",
        branches=(
            "window-closed",
            "receivers-full",
            "loss-by-number",
            "loss-by-receive-ready",
            "loss-by-others",
            "reset",
            "resets-merged",
            "line-lowered",
            "insertion",
            "single-loss-sorted",
            "sorting",
            "orphans",
            "requested",
            "superseded",
            "began-late",
            "heard-of-the-end",
            "proposed",
        ),
        options=SelectiveTotalOptions,
        minority_may_die=True,
        explicit_destinations=True,
        one_channel=True,
        not_guaranteed=_not_guaranteed,
    )
    arrangement = ARRANGEMENT
    packets = (
        Data,
        ReceiveReady,
        Request,
        Reset,
        ResetPreAck,
        ResetAck,
        Retransmission,
        Restored,
        Abort,
        Apply,
    )

    def step(self, now: float, event: Event) -> None:
        """Whatever comes shows that its sender is there."""
        if type(event) is Received:
            self.note_heard(event.sender, event.packet)
        super().step(now, event)
