"""Options of InterGroup: those of the control hierarchy, and of chapters 3 and 4."""

from __future__ import annotations

from typing import ClassVar

from ordercast.core import SiteId, UsageError
from ordercast.core.tables import nearest
from ordercast.protocols.intergroup.control import ControlOptions
from ordercast.protocols.intergroup.services import DEFAULT_SERVICE, SERVICES


class InterGroupOptions(ControlOptions, frozen=True):
    """Every constant, every time and every bound, each with a reason for its value."""

    senders: tuple[SiteId, ...] = ()
    """Who may multicast: in each group those of its members that are named here, or all of them where none is. Whoever
    orders by timestamp waits for all senders of the group, and for nobody else."""
    service: str = DEFAULT_SERVICE
    """What a process has in each of its groups until its application chooses. The strongest, so that nobody gets less
    than was expected."""
    order_across_groups: bool = False
    """Whether the processes that are in several groups, and order them by timestamp, deliver what comes in all of them
    in one order (4.9). A silent sender of one group then holds up the others."""
    keep_alive_seconds: float = 0.05
    """KEEP_ALIVE_TIMEOUT: how long a sender says nothing at the most. A delivery in the order of the timestamps takes
    as long, and the way (Equation 7.1). What the wide-area experiment had (7.2)."""
    answer_senders_max: int = 0
    """In groups of so many senders at the most, a sender that has nothing to send answers a message at once with a Keep
    Alive: a delivery in the order of the timestamps then takes two ways instead of a Keep Alive's time. Each message
    costs as many packets as there are senders. 0: nobody answers, as in the thesis."""
    request_seconds_max: float = 3.0
    """However often somebody has asked, it asks again after so long: a few round trips around the world."""
    outstanding_messages_max: int = 1024
    """How many messages of a sender may be under way to a group that not everyone has taken (4.5.3). It bounds what a
    receiver has to hold of each sender."""
    outstanding_bytes_max: int = 1 << 25
    """And bytes of their payloads, for a live node's messages are bundles."""
    unread_messages_max: int = 0
    """How many messages the application may not have taken before it misses what comes without reliability; 0: as many
    as may be outstanding. Of others it misses none: what it has not taken counts as outstanding."""
    few_under_way: int = 0
    """When fewer messages of a sender than this wait for their turn at the sender itself, it tells its application how
    many do. A live node lets a small bundle leave then, and makes larger ones else; of what is outstanding it hears a
    few control messages later. 0: it does not tell, for simulated applications make no bundles."""
    buffer_messages_max: int = 4096
    """How many messages of a group a process keeps for repairs (the msgBuffer of 3.2.2); a sender keeps its own until
    they are stable, and sends no more when they fill it."""
    buffer_bytes_max: int = 1 << 26
    """And bytes of their payloads: 64 MB allow 21 MB/s with control messages every second."""
    repair_bytes_max: int = 1 << 26
    """How much of that may be messages of others. Each sender keeps its own until they are stable, so that those of
    others only make repairs quicker; but where a sender that is gone leaves some behind, they are all that there is."""
    bandwidth_max: float = 1e9
    """The bandwidth parameter of 4.5.3 where nothing is lost, in bytes a second: as fast as a machine can."""
    bandwidth_min: float = 100_000.0
    """It falls no lower, whatever is lost: what the slowest network in use carries."""
    burst_bytes: int = 1 << 20
    """So many bytes may leave at once when nothing has left for a while. A timer for each message cannot be finer than
    a millisecond."""
    activation_seconds: float = 3.0
    """How long a source has to answer the handshake of 4.7.1 before the service counts as unavailable: several
    round trips around the world, and losses."""
    wait_seconds_max: float = 0.2
    """How long `unreliable-timestamp` waits at the most for what may come before a message: as long as people do not
    notice that sound and picture are late."""
    blocked_seconds: float = 2.0
    """How long nothing can be sent until the application hears who holds it up."""

    shared: ClassVar[frozenset[str]] = frozenset({"senders", "order_across_groups"})
    """Whoever does not wait for a sender, or not for one of another group, delivers too early."""

    def __post_init__(self) -> None:
        try:
            super().__post_init__()
            check_service(self.service)
        except UsageError as error:
            raise UsageError(f"options of intergroup: {error}") from None
        for name in (
            "outstanding_messages_max",
            "outstanding_bytes_max",
            "buffer_messages_max",
            "buffer_bytes_max",
            "repair_bytes_max",
        ):
            if getattr(self, name) < 1:
                raise UsageError(f"options of intergroup: {name} is at least 1, not {getattr(self, name)}")
        for name in ("few_under_way", "unread_messages_max"):
            if getattr(self, name) < 0:
                raise UsageError(f"options of intergroup: {name} is 0 or more, not {getattr(self, name)}")
        for name in ("bandwidth_max", "bandwidth_min", "burst_bytes"):
            if getattr(self, name) <= 0:
                raise UsageError(f"options of intergroup: {name} is positive, not {getattr(self, name)}")
        if self.bandwidth_min > self.bandwidth_max:
            raise UsageError("options of intergroup: bandwidth_min is not above bandwidth_max")
        for kind in ("messages", "bytes"):
            outstanding, buffer = getattr(self, f"outstanding_{kind}_max"), getattr(self, f"buffer_{kind}_max")
            if outstanding > buffer:
                raise UsageError(
                    f"options of intergroup: outstanding_{kind}_max = {outstanding} is above buffer_{kind}_max = "
                    f"{buffer}, and a sender keeps what is outstanding"
                )


def check_service(service: str) -> None:
    """Raise `UsageError` unless there is such a service."""
    if service not in SERVICES:
        raise UsageError(f"there is no service {service!r}; {nearest(service, SERVICES)}")
