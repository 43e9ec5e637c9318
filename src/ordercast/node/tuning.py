"""What a live node chooses for a protocol where the user has not: as much under way as the sockets' buffers hold."""

from __future__ import annotations

from typing import Any

from ordercast.core import Contract, Options
from ordercast.node.bundles import BUNDLE_BYTES_MAX

KERNEL_SHARE = 1.2
"""The kernel counts what a datagram occupies, headers and slack included. It also doubles the buffer."""

WINDOW_MIN, WINDOW_MAX = 4, 8
"""Below, a round trip starves a source; above, bundles only queue up."""


def live_options(
    contract: Contract, given: dict[str, Any], buffer_bytes: int, queue_bytes: int, processes: int
) -> Options:
    """The protocol's options: what the user gave, what fits this machine, and the protocol's own defaults.

    Simulated messages are small and networks roomy; here a message is a bundle of 60 kB. (With 256 of them under way
    from each of four processes, the sequencer's socket drops most, and everything waits for time-outs.)
    """
    fitting = int(2 * buffer_bytes / (KERNEL_SHARE * BUNDLE_BYTES_MAX))
    # One half for what has its place, one for what comes straight from its sources: up to two windows of each.
    window = max(WINDOW_MIN, min(WINDOW_MAX, fitting // 2 // (2 * max(1, processes - 1))))
    ahead = max(2 * window, min(fitting // 2, queue_bytes // BUNDLE_BYTES_MAX))
    chosen = {
        "window_messages": window,
        "burst_messages": window,
        # What is sent ahead of the slowest reader is what fits into that one's buffer, and into its queue.
        "history_bytes_max": ahead * BUNDLE_BYTES_MAX,
        "log_messages_max": ahead,
    }
    known = contract.options.__struct_fields__
    if "acknowledge_bytes" in known:
        chosen["acknowledge_bytes"] = max(1, window // 4) * BUNDLE_BYTES_MAX
    else:
        # Often enough that nobody waits for news of what everyone has.
        chosen["acknowledge_every"] = max(1, window // 4)
    if "history_messages_max" in known:
        # Where a batch holds the bundles themselves. (Where it holds their names it may be as large as it likes: a
        # consensus of SCALATOM that orders 64 instead of 4 makes a group a tenth faster.)
        chosen["batch_messages_max"] = max(1, window // 2)
    return contract.options(**{name: value for name, value in chosen.items() if name in known} | given)
