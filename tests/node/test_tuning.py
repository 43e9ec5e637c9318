"""What a live node chooses: as much under way as the sockets' buffers hold."""

from __future__ import annotations

from typing import cast

import pytest

from ordercast.node.bundles import BUNDLE_BYTES_MAX
from ordercast.node.tuning import KERNEL_SHARE, live_options
from ordercast.protocols import find_protocol
from ordercast.protocols.classic.sequencer import SequencerOptions
from ordercast.protocols.classic.token.options import TokenOptions
from ordercast.protocols.scalatom.options import ScalatomOptions

BUFFER_BYTES = 8 << 20
QUEUE_BYTES = 64 << 20


def chosen(processes: int, buffer_bytes: int = BUFFER_BYTES, queue_bytes: int = QUEUE_BYTES) -> SequencerOptions:
    contract = find_protocol("sequencer").contract
    return cast(SequencerOptions, live_options(contract, {}, buffer_bytes, queue_bytes, processes))


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
        contract = find_protocol(protocol).contract
        live, usual = live_options(contract, {}, BUFFER_BYTES, QUEUE_BYTES, 4), contract.options()
        assert isinstance(live, TokenOptions | ScalatomOptions)
        assert isinstance(usual, TokenOptions | ScalatomOptions)
        return live.batch_messages_max, usual.batch_messages_max

    live, usual = batch("token")
    assert live < usual
    live, usual = batch("scalatom")
    assert live == usual
