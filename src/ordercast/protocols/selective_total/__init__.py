"""Selective total order on one channel (Tachikawa, Takizawa). The contract is in README.md beside this file."""

from ordercast.protocols.selective_total.options import SelectiveTotalOptions
from ordercast.protocols.selective_total.protocol import SelectiveTotal

__all__ = ["SelectiveTotal", "SelectiveTotalOptions"]
