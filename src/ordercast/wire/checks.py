"""What an endpoint cannot be made with: `UsageError` says what is wrong, and what would be right."""

from __future__ import annotations

from collections.abc import Sequence

from ordercast.core import SiteId, UsageError
from ordercast.wire.codec import NAME_BYTES_MAX
from ordercast.wire.datagram import DATAGRAM_BYTES_MAX, DATAGRAM_BYTES_MIN
from ordercast.wire.greeting import INCARNATION_MAX

PROCESSES_MAX = 1024
"""Every datagram has a bit for each: 128 bytes of the 1,200 that the smallest holds."""


def check_strangers(processes_max: int) -> None:
    """How many processes there may be, where anybody may come."""
    if not 2 <= processes_max <= PROCESSES_MAX:
        raise UsageError(f"processes_max is 2 to {PROCESSES_MAX}, not {processes_max}")


def check_names(*names: str) -> None:
    """Names of clusters and processes."""
    for name in names:
        if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
            raise UsageError(f"names of clusters and processes have 1 to {NAME_BYTES_MAX} bytes, not like {name!r}")


def check(cluster: str, places: Sequence[SiteId], incarnation: int, max_datagram: int) -> None:
    """What an endpoint is made with."""
    check_names(cluster, *places)
    if len(places) > PROCESSES_MAX:
        raise UsageError(f"a cluster has at most {PROCESSES_MAX} processes, not {len(places)}")
    if not 0 <= incarnation <= INCARNATION_MAX:
        raise UsageError(f"an incarnation is a number from 0 to {INCARNATION_MAX}, not {incarnation}")
    if not DATAGRAM_BYTES_MIN <= max_datagram <= DATAGRAM_BYTES_MAX:
        raise UsageError(
            f"max_datagram is {DATAGRAM_BYTES_MIN} to {DATAGRAM_BYTES_MAX} bytes, not {max_datagram}; "
            f"1450 fits everywhere"
        )
