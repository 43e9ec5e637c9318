"""Pieces that several systems share. Most are `core.Part`s: they handle packets, timers and records of their own, write
to their host's outbox, and tell their news by calling back. See README.md beside this file."""

from ordercast.protocols.parts.back_off import BackOff
from ordercast.protocols.parts.consensus import Consensus
from ordercast.protocols.parts.detector import FailureDetector
from ordercast.protocols.parts.lease import Lease
from ordercast.protocols.parts.link import Letter, Link
from ordercast.protocols.parts.multicast import ReliableMulticast
from ordercast.protocols.parts.quorum import Quorum

__all__ = ["BackOff", "Consensus", "FailureDetector", "Lease", "Letter", "Link", "Quorum", "ReliableMulticast"]
