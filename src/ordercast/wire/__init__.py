"""Bytes on the network: frames, datagrams, sealing, handshake, fragments and their repair. No sockets, no clock.

The format is in docs/wire.md.
"""

from ordercast.wire.codec import Codec
from ordercast.wire.endpoint import Endpoint
from ordercast.wire.keys import ClusterKeys, create_key_file, fingerprint, new_key, read_keys
from ordercast.wire.outbox import Outgoing

__all__ = [
    "ClusterKeys",
    "Codec",
    "Endpoint",
    "Outgoing",
    "create_key_file",
    "fingerprint",
    "new_key",
    "read_keys",
]
