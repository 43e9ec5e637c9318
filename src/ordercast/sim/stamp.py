"""What every packet carries below the protocol, in runs in which the roll is called."""

from __future__ import annotations

from typing import NamedTuple


class Stamp(NamedTuple):
    """Who sent the packet, and what of its history the receiver may rely on."""

    incarnation: int
    position: int
    """How far the sender's log was stable."""
