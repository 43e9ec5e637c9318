"""The two-phase protocol (Skeen; ISIS ABCAST; Spauster 1991, 2.5). See README.md beside this file."""

from ordercast.protocols.classic.two_phase.options import TwoPhaseOptions
from ordercast.protocols.classic.two_phase.protocol import TwoPhase

__all__ = ["TwoPhase", "TwoPhaseOptions"]
