"""What a live site calls: whatever stands above its protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ordercast.core import GroupId, InstanceId, SiteId
from ordercast.core.effects import (
    Activate,
    Deliver,
    EnterGroup,
    ExitGroup,
    InstallView,
    JoinRefused,
    Replay,
    Rollback,
    ServiceUnavailable,
)


class Application(Protocol):
    """What stands above the protocol: the node."""

    def deliver(self, instance: InstanceId, effect: Deliver | Replay) -> None:
        """Take a message."""

    def rollback(self, instance: InstanceId, effect: Rollback) -> None:
        """Learn that a delivery is taken back."""

    def install_view(self, instance: InstanceId, effect: InstallView) -> None:
        """Learn who is in the group."""

    def enter_group(self, instance: InstanceId, effect: EnterGroup) -> None:
        """Learn where the deliveries of a group go on."""

    def exit_group(self, instance: InstanceId, effect: ExitGroup) -> None:
        """Learn that deliveries of a group are missing from here on."""

    def join_refused(self, instance: InstanceId, effect: JoinRefused) -> None:
        """Learn that a join will not come about."""

    def activate(self, instance: InstanceId, effect: Activate) -> None:
        """Learn which service deliveries have from here on."""

    def service_unavailable(self, instance: InstanceId, effect: ServiceUnavailable) -> None:
        """Learn which service cannot be had."""

    def credit(self, instance: InstanceId, available: int, group: GroupId | None, under_way: int | None) -> None:
        """Learn how much may be sent, to a group or to all together, and how much has not had its turn."""

    def blocked(self, instance: InstanceId, by: str, reason: str, group: GroupId | None) -> None:
        """Learn why there is no progress, in a group or everywhere, or that there is again."""

    def started(self, silent: Sequence[SiteId]) -> None:
        """Learn that the instances have started, and who was asked before and has not answered."""

    def recovered(self, instance: InstanceId) -> None:
        """Learn that an instance takes part fully again, after a restart or after it has declared itself failed."""

    def peers_changed(self) -> None:
        """Another process is within reach."""

    def failed(self, error: BaseException) -> None:
        """The site cannot go on."""
