"""Pieces that several systems share. A part is an object inside a core: it has messages, timers and records of its
own, writes to its host's outbox, and tells its news by calling back. See README.md beside this file."""

from ordercast.protocols.parts.back_off import BackOff
from ordercast.protocols.parts.consensus import Consensus
from ordercast.protocols.parts.detector import FailureDetector
from ordercast.protocols.parts.lease import Lease
from ordercast.protocols.parts.link import Letter, Link
from ordercast.protocols.parts.multicast import ReliableMulticast
from ordercast.protocols.parts.quorum import Quorum

__all__ = ["BackOff", "Consensus", "FailureDetector", "Lease", "Letter", "Link", "Quorum", "ReliableMulticast"]
