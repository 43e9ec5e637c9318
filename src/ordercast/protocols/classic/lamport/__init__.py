"""Symmetric timestamps (Lamport 1978; Spauster 1991, 2.2). See README.md beside this file."""

from ordercast.protocols.classic.lamport.options import LamportOptions
from ordercast.protocols.classic.lamport.protocol import Lamport

__all__ = ["Lamport", "LamportOptions"]
