"""Options of the membership (chapter 5)."""

from __future__ import annotations

from typing import ClassVar

from ordercast.core import UsageError
from ordercast.protocols.intergroup.options import InterGroupOptions

FIXED, CHANGE = "fixed", "change"


class MembershipOptions(InterGroupOptions, frozen=True):
    """Every time of the membership, with a reason for its value."""

    views: str = CHANGE
    """Whether the sender groups change (`change`): processes come, go, crash, are cut off and return; or the senders
    are those of the configuration for good (`fixed`), as live processes have it where a file lists them."""
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

    sender_idle_seconds: float = 3600.0
    """A sender that has multicast nothing for so long ceases to be one, until it multicasts again (1.2), unless its
    application has chosen its role. Nobody waits for a process that is no sender; its next message waits until it is
    one. Long against what becoming a sender takes, so that this hardly ever happens."""

    @property
    def change_seconds(self) -> float:
        """How long a receiver waits at the most for a view that its senders agree on."""
        return 2 * (self.consensus_seconds + self.cut_seconds + self.recovery_seconds)

    shared: ClassVar[frozenset[str]] = InterGroupOptions.shared | {"views"}
    """Besides: whoever lets nobody in does not understand who does."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.silent_keep_alives < 1:
            raise UsageError(f"options of intergroup: silent_keep_alives is at least 1, not {self.silent_keep_alives}")
        if self.views not in (FIXED, CHANGE):
            raise UsageError(f"options of intergroup: views is {FIXED!r} or {CHANGE!r}, not {self.views!r}")
        if self.order_across_groups and self.views == CHANGE:
            raise UsageError(f"options of intergroup: order_across_groups needs views = {FIXED!r}")
