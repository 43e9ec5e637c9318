"""Options of three steps."""

from __future__ import annotations

from typing import ClassVar

from ordercast.protocols.parts.cell_options import CellOptions


class ThreeStepOptions(CellOptions, frozen=True):
    """What three steps have besides. Where the source is a destination, its window counts what it has not delivered."""

    turn_seconds: float = 0.0
    """How long a site gathers what comes before it answers with one record and one packet for each address. 0: as long
    as there is something to read. On a slow network, where each packet counts, it can be as long as a packet takes."""
    direct_bytes: int = 8192
    """Messages of this size and more, and those to several cells, go from their source straight to all destinations;
    smaller ones to the primary, which sends them on with their places. As of the sequencer: from there on, carrying
    them twice costs more than the additional packets."""
    ask_seconds: float = 0.1
    """How often a site looks at what it keeps. What is there for two such intervals is asked about, then ever more
    seldom: some round trips of a wide network."""
    ping_seconds: float = 0.05
    """How often a primary that is waited for is asked whether it is there. A suspicion is late by so much at most."""
    suspicion_seconds: float = 0.6
    """How long a primary may be silent at first. Each wrong suspicion doubles this, and a calm time halves it again;
    whoever was down and is back was suspected rightly."""
    suspicion_seconds_max: float = 1.2
    """How long it may be silent at the most. Whoever is waited for is asked every `ping_seconds`, so silence is what
    the network's delay varies by, and not the delay itself. (Ten seconds: a primary that was paused or cut off some
    times is missed for ten seconds when it dies.) It must be longer than a round trip; some networks need more."""
    retry_seconds: float = 0.1
    """How often a site repeats what it says about a new epoch until that has begun."""

    may_be_zero: ClassVar[frozenset[str]] = frozenset({"turn_seconds"})

    @property
    def blocked_ticks(self) -> int:
        """`blocked_seconds` in intervals of `ask_seconds`."""
        return max(2, round(self.blocked_seconds / self.ask_seconds))
