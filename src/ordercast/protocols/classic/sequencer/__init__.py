"""The central sequencer (Spauster 1991, 2.4). See README.md beside this file."""

from ordercast.protocols.classic.sequencer.options import SequencerOptions
from ordercast.protocols.classic.sequencer.protocol import Sequencer

__all__ = ["Sequencer", "SequencerOptions"]
