"""Options of SCALATOM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ordercast.core import Renamed, UsageError
from ordercast.protocols.parts.cell_options import CellOptions


class ScalatomOptions(CellOptions, frozen=True):
    """What SCALATOM has besides."""

    batch_messages_max: int = 64
    """Messages to the same destinations that one consensus orders: some kilobytes of identifiers. 1: one consensus for
    each message, all of them at the same time, as in the paper."""
    relay_eagerly: bool = False
    """Whether everyone passes messages and decisions on as soon as it has them, as in the paper: (d-1)² packets for
    each. Otherwise whoever misses something asks, which costs nothing while nobody fails."""
    history_seconds: float = 0.0
    """How long a history may wait for a packet that can carry it (five steps instead of six while new messages keep
    coming). 0: it is sent at once."""
    retransmit_seconds: float = 0.1
    """How long an answer may take before a letter is repeated: some round trips of a wide network."""
    retransmit_seconds_max: float = 1.0
    """How seldom letters to a silent site are repeated at the least: a second after it is back it knows everything."""
    receipt_seconds: float = 0.02
    """How long receipts are gathered: short against the time after which a letter is repeated."""
    letters_max: int = 2048
    """Letters without receipt that are kept for a site: eight windows. A site that leaves more is told to catch up when
    it comes back."""

    renamed: ClassVar[Mapping[str, Renamed]] = {
        "window": Renamed("window_messages"),
    }

    may_be_zero: ClassVar[frozenset[str]] = frozenset({"history_seconds"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.retransmit_seconds_max < self.retransmit_seconds:
            raise UsageError("retransmit_seconds_max is not below retransmit_seconds")
