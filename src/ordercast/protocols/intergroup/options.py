"""Options of InterGroup: those of the control hierarchy, and of chapters 3 and 4."""

from __future__ import annotations

from typing import ClassVar

from ordercast.core import SiteId, UsageError
from ordercast.core.tables import nearest
from ordercast.protocols.intergroup.control import ControlOptions
from ordercast.protocols.intergroup.services import DEFAULT_SERVICE, SERVICES

MEMBERSHIPS = ("dynamic", "static")


class InterGroupOptions(ControlOptions, frozen=True):
    """Every constant, every time and every bound, each with a reason for its value."""

    membership: str = "dynamic"
    """Whether the sender group of each group changes (chapter 5): `dynamic`, or `static` as it is configured."""
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
    request_seconds_max: float = 3.0
    """However often somebody has asked, it asks again after so long: a few round trips around the world."""
    outstanding_messages_max: int = 1024
    """How many messages of a sender may be under way to a group that not everyone has taken (4.5.3). It bounds what a
    receiver has to hold of each sender."""
    outstanding_bytes_max: int = 1 << 25
    """And bytes of their payloads, for a live node's messages are bundles."""
    buffer_messages_max: int = 4096
    """How many messages of a group a process keeps for repairs (the msgBuffer of 3.2.2); a sender keeps its own until
    they are stable, and sends no more when they fill it."""
    buffer_bytes_max: int = 1 << 26
    """And bytes of their payloads: 64 MB allow 21 MB/s with control messages every second."""
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
    membership_seconds: float = 0.25
    """How often a membership message is said again until it is answered, and silence is looked for: a round trip around
    the world."""
    silent_keep_alives: int = 8
    """Keep Alives, or half as many of the above, that a sender may miss before it is suspected: at a loss of 5 % eight
    in a row are lost once in a year."""
    foreign_seconds: float = 0.5
    """How long a sender may speak in another view before that is a reason to repair: the time in which views that a
    repair has installed become known to all."""
    consensus_seconds: float = 2.0
    """How long a process may be heard and not agree before the others go on without it: several repetitions."""
    cut_seconds: float = 1.0
    """How long a repair waits for what receivers have (5.4.2): one that is slow holds nobody up for longer."""
    recovery_seconds: float = 3.0
    """How long nothing may come of what is missing before a cut until it counts as gone with whoever had it."""
    block_seconds: float = 10.0
    """How long whoever did not agree, or could not be believed, is left alone (5.2.3): a hundred times the distance."""
    bootstrap_seconds: float = 1.0
    """How long a process looks for senders before there are none, and how long a sponsor has."""
    blocked_seconds: float = 2.0
    """How long nothing can be sent until the application hears who holds it up."""

    shared: ClassVar[frozenset[str]] = frozenset({"membership", "senders", "order_across_groups"})
    """Whoever does not wait for a sender, or not for one of another group, delivers too early."""

    def __post_init__(self) -> None:
        try:
            super().__post_init__()
            check_service(self.service)
        except UsageError as error:
            raise UsageError(f"options of intergroup: {error}") from None
        if self.membership not in MEMBERSHIPS:
            raise UsageError(
                f"options of intergroup: there is no membership {self.membership!r}; "
                f"{nearest(self.membership, MEMBERSHIPS)}"
            )
        if self.order_across_groups and self.is_dynamic:
            raise UsageError("options of intergroup: order_across_groups needs membership = 'static'")
        for name in (
            "silent_keep_alives",
            "outstanding_messages_max",
            "outstanding_bytes_max",
            "buffer_messages_max",
            "buffer_bytes_max",
        ):
            if getattr(self, name) < 1:
                raise UsageError(f"options of intergroup: {name} is at least 1, not {getattr(self, name)}")
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

    @property
    def is_dynamic(self) -> bool:
        """Whether sender groups change."""
        return self.membership == MEMBERSHIPS[0]


def check_service(service: str) -> None:
    """Raise `UsageError` unless there is such a service."""
    if service not in SERVICES:
        raise UsageError(f"there is no service {service!r}; {nearest(service, SERVICES)}")
