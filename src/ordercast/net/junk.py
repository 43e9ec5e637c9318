"""Junk is dropped by the kernel: a filter on a socket looks at the first two bytes of each datagram.

What it drops costs the process nothing, and nobody counts it. What it lets through is checked as ever.
"""

from __future__ import annotations

import ctypes
import socket
import struct
import sys

from ordercast.wire.datagram import HELLO, PLAINTEXT, REFUSAL, VERSION

_SO_ATTACH_FILTER = 26

_UDP_HEADER_BYTES = 8
"""The filter sees them before the datagram."""

_LOAD_BYTE, _AND, _JUMP_EQUAL, _JUMP_GREATER, _RETURN = 0x30, 0x54, 0x15, 0x25, 0x06
_EVERYTHING = 0xFFFFFFFF

# Code, how many to skip if so, how many if not, the operand (linux/filter.h).
_INSTRUCTION = struct.Struct("=HBBI")
_PROGRAM = (
    (_LOAD_BYTE, 0, 0, _UDP_HEADER_BYTES),
    (_JUMP_EQUAL, 4, 0, VERSION),
    # A handshake of another version is worth a line in the log.
    (_LOAD_BYTE, 0, 0, _UDP_HEADER_BYTES + 1),
    (_AND, 0, 0, ~PLAINTEXT & 0xFF),
    (_JUMP_GREATER, 2, 0, REFUSAL),
    (_JUMP_EQUAL, 1, 0, HELLO - 1),
    (_RETURN, 0, 0, _EVERYTHING),
    (_RETURN, 0, 0, 0),
)


def drop_junk(opened: socket.socket) -> bool:
    """Let the kernel drop what is neither of this version nor a handshake; whether it will (Linux).

    Not for a socket to which the kernel hands over several datagrams at once: it would look at the first of them only.
    (Else: somebody sends junk under a peer's address; it comes first, and what the peer sends is dropped with it.)
    """
    if not sys.platform.startswith("linux"):
        return False  # the option's number is another one's there
    program = ctypes.create_string_buffer(b"".join(_INSTRUCTION.pack(*each) for each in _PROGRAM))
    try:
        opened.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", len(_PROGRAM), ctypes.addressof(program))
        )
    except OSError:
        return False
    return True
