"""The control process of a site (Berket 2000, chapter 2), as the other parts of InterGroup see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ordercast.core import GroupId, Part, Protocol, SiteId
from ordercast.protocols.intergroup.control.options import ControlOptions
from ordercast.protocols.intergroup.control.report import GroupReport


class Control(Part):
    """One site's place in the hierarchy, and what it knows of the others."""

    def __init__(
        self,
        host: Protocol,
        options: ControlOptions,
        *,
        local_report: Callable[[], Mapping[GroupId, GroupReport]],
        on_system_report: Callable[[GroupId, GroupReport], None],
    ) -> None:
        """`local_report` says how far this site is in each group that it takes part in; it is asked whenever a control
        message is made. `on_system_report` hears what the whole system says of a group, when that is new."""
        self._host = host
        self._options = options
        self._local_report = local_report
        self._on_system_report = on_system_report
        self._receivers: dict[GroupId, int] = {}

    def start(self) -> None:
        """Begin, when the host starts."""

    @property
    def coordinator(self) -> SiteId:
        """The coordinator with which this site is associated; itself when it is one."""
        return self._host.site

    def distance(self, site: SiteId, coordinator: SiteId | None = None) -> float:
        """Seconds to a site (Table 2.1), with whose coordinator helps where nothing is known of the site itself."""
        return self._options.distance_seconds_unknown

    def distance_max(self) -> float:
        """Seconds to the site that is furthest away, of those that are known."""
        return self._options.distance_seconds_unknown

    def round_seconds(self) -> float:
        """How long it takes now until what this site reports has gone through the hierarchy, and everyone knows."""
        return 3 * self._options.control_seconds_min

    def receivers(self, group: GroupId) -> int:
        """How many take part in a group, as far as the system has reported."""
        return self._receivers.get(group, 0)
