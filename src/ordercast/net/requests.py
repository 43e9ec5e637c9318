"""What an application asks of the protocol besides to multicast: groups, roles, services."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from ordercast.core import MAIN_INSTANCE, GroupId, InstanceId, SiteId
from ordercast.runtime import Instance


class Requests(ABC):
    """Hands them to the instance that orders messages. What its core refuses is the caller's `UsageError`."""

    instances: dict[InstanceId, Instance]

    @abstractmethod
    def _ask(self, ask: Callable[[float], None]) -> None:
        """Make a step of it."""

    def join(self, group: GroupId, role: str = "", service: str = "") -> None:
        """The application wants to be in a group."""
        self._ask(lambda now: self.instances[MAIN_INSTANCE].join(now, group, role, service))

    def leave(self, group: GroupId) -> None:
        """The application wants to be out of a group."""
        self._ask(lambda now: self.instances[MAIN_INSTANCE].leave(now, group))

    def remove(self, site: SiteId) -> None:
        """An operator wants another process out of every group."""
        self._ask(lambda now: self.instances[MAIN_INSTANCE].remove(now, site))

    def choose_role(self, group: GroupId, role: str) -> None:
        """The application wants another role."""
        self._ask(lambda now: self.instances[MAIN_INSTANCE].choose_role(now, group, role))

    def choose_service(self, group: GroupId, service: str, sources: tuple[SiteId, ...] = ()) -> None:
        """The application wants another service."""
        self._ask(lambda now: self.instances[MAIN_INSTANCE].choose_service(now, group, service, sources))
