"""What a live node chooses for a protocol where the user has not: as much under way as the sockets' buffers hold."""

from __future__ import annotations

from typing import Any

from ordercast.core import Capacity, Options, Protocol
from ordercast.node.bundles import BUNDLE_BYTES_MAX

KERNEL_SHARE = 1.2
"""The kernel counts what a datagram occupies, headers and slack included. It also doubles the buffer."""

WINDOW_MIN, WINDOW_MAX = 4, 8
"""Below, a round trip starves a source; above, bundles only queue up."""


OPEN_PROCESSES = 8
"""How many processes a cluster is expected to have where no file says it."""


def live_options(
    protocol: type[Protocol], given: dict[str, Any], buffer_bytes: int, queue_bytes: int, processes: int
) -> Options:
    """The protocol's options: what the user gave, what the protocol makes of this machine, and its own defaults. Of 0
    processes nobody knows how many there will be."""
    chosen = protocol.arrangement.live(find_capacity(buffer_bytes, queue_bytes, processes or OPEN_PROCESSES))
    return protocol.contract.options(**chosen | given)


def find_capacity(buffer_bytes: int, queue_bytes: int, processes: int) -> Capacity:
    """What this machine offers.

    Simulated messages are small and networks roomy; here a message is a bundle of 60 kB. (With 256 of them under way
    from each of four processes, the sequencer's socket drops most, and everything waits for time-outs.)
    """
    fitting = int(2 * buffer_bytes / (KERNEL_SHARE * BUNDLE_BYTES_MAX))
    # One half for what has its place, one for what comes straight from its sources: up to two windows of each.
    window = max(WINDOW_MIN, min(WINDOW_MAX, fitting // 2 // (2 * max(1, processes - 1))))
    ahead = max(2 * window, min(fitting // 2, queue_bytes // BUNDLE_BYTES_MAX))
    return Capacity(processes, BUNDLE_BYTES_MAX, window, ahead)
