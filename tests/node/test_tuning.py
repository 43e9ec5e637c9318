"""What a live node chooses: as much under way as the sockets' buffers hold."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ordercast.node.bundles import BUNDLE_BYTES_MAX
from ordercast.node.sender import UNDER_WAY_FEW
from ordercast.node.tuning import KERNEL_SHARE, live_options
from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from ordercast.protocols.classic.sequencer import SequencerOptions
from ordercast.protocols.classic.token.options import TokenOptions
from ordercast.protocols.scalatom.options import ScalatomOptions

BUFFER_BYTES = 8 << 20
QUEUE_BYTES = 64 << 20


def chosen(processes: int, buffer_bytes: int = BUFFER_BYTES, queue_bytes: int = QUEUE_BYTES) -> SequencerOptions:
    return cast(SequencerOptions, live_options(find_protocol("sequencer"), {}, buffer_bytes, queue_bytes, processes))


@pytest.mark.parametrize("processes", range(2, 15))
def test_all_that_may_be_on_its_way_to_one_process_fits_into_its_buffer(processes: int) -> None:
    """What has its place, and two windows of everybody else that come straight from their sources."""
    options = chosen(processes)
    under_way = options.history_bytes_max + 2 * options.window_messages * (processes - 1) * BUNDLE_BYTES_MAX
    assert under_way * KERNEL_SHARE <= 2 * BUFFER_BYTES, "the kernel doubles what it is asked for"


def test_a_small_queue_holds_senders_back_earlier() -> None:
    assert chosen(4, queue_bytes=20 * BUNDLE_BYTES_MAX).history_bytes_max == 20 * BUNDLE_BYTES_MAX


def test_a_small_buffer_still_lets_a_source_have_some_bundles_under_way() -> None:
    assert chosen(4, buffer_bytes=1 << 17).window_messages >= 4


def test_only_batches_that_hold_the_bundles_are_kept_small() -> None:
    def batch(protocol: str) -> tuple[int, int]:
        """The largest of a live node, and by default."""
        core = find_protocol(protocol)
        live, usual = live_options(core, {}, BUFFER_BYTES, QUEUE_BYTES, 4), core.contract.options()
        assert isinstance(live, TokenOptions | ScalatomOptions)
        assert isinstance(usual, TokenOptions | ScalatomOptions)
        return live.batch_messages_max, usual.batch_messages_max

    live, usual = batch("token")
    assert live < usual
    live, usual = batch("scalatom")
    assert live == usual


INTERGROUP = {
    "control_seconds_min": 0.02,
    "start_seconds": 0.2,
    "answer_senders_max": 8,
    "request_seconds_max": 0.5,
    "few_under_way": UNDER_WAY_FEW,
}

FITTING: dict[str, dict[str, Any]] = {
    "fan-0": {},
    "fan-1": {"log_messages_max": 109},
    "fan-2": {"log_messages_max": 109},
    "fan-3": {"log_messages_max": 109},
    "tree-5": {"log_messages_max": 109},
    "sequencer": {"window_messages": 8, "history_bytes_max": 6_976_000, "acknowledge_bytes": 128_000},
    "token": {"window_messages": 8, "batch_messages_max": 4},
    "two-phase": {"window_messages": 8, "acknowledge_every": 2},
    "lamport": {"window_messages": 8, "acknowledge_every": 2},
    "propagation-graph": {"window_messages": 8, "history_bytes_max": 6_976_000, "acknowledge_every": 2},
    "broadcast-tree": {"burst_messages": 8},
    "scalatom": {"window_messages": 8, "acknowledge_every": 2},
    "three-step": {"window_messages": 12},
    "selective-total": {"window_messages": 8},
    "intergroup": INTERGROUP | {"coordinators_low": 4, "outstanding_messages_max": 128, "unread_messages_max": 512},
}
"""Four processes with the usual buffers."""

TIGHT: dict[str, dict[str, Any]] = {
    "fan-0": {},
    "fan-1": {"log_messages_max": 8},
    "fan-2": {"log_messages_max": 8},
    "fan-3": {"log_messages_max": 8},
    "tree-5": {"log_messages_max": 8},
    "sequencer": {"window_messages": 4, "history_bytes_max": 512_000, "acknowledge_bytes": 64_000},
    "token": {"window_messages": 4, "batch_messages_max": 2},
    "two-phase": {"window_messages": 4, "acknowledge_every": 1},
    "lamport": {"window_messages": 4, "acknowledge_every": 1},
    "propagation-graph": {"window_messages": 4, "history_bytes_max": 512_000, "acknowledge_every": 1},
    "broadcast-tree": {"burst_messages": 4},
    "scalatom": {"window_messages": 4, "acknowledge_every": 1},
    "three-step": {"window_messages": 4},
    "selective-total": {"window_messages": 4},
    "intergroup": INTERGROUP | {"coordinators_low": 3, "outstanding_messages_max": 64, "unread_messages_max": 256},
}
"""Three processes with buffers that a kernel grants to everybody."""


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_every_protocol_says_itself_what_it_makes_of_the_machine(name: str) -> None:
    protocol = find_protocol(name)
    options = protocol.contract.options
    assert live_options(protocol, {}, BUFFER_BYTES, QUEUE_BYTES, 4) == options(**FITTING[name])
    assert live_options(protocol, {}, 212_992, QUEUE_BYTES, 3) == options(**TIGHT[name])


def test_what_the_user_gives_counts_more_than_the_machine() -> None:
    options = live_options(find_protocol("token"), {"window_messages": 5}, BUFFER_BYTES, QUEUE_BYTES, 4)
    assert isinstance(options, TokenOptions)
    assert (options.window_messages, options.batch_messages_max) == (5, 4)
