"""Sites and groups that no file names: what an application may ask for, and what may come from the network."""

from __future__ import annotations

from collections.abc import Collection

from ordercast.core import SiteId, UsageError, WireError
from ordercast.core.events import JoinRequested

SITES_MAX = 256
"""Sites that a system can have."""
GROUPS_MAX = 4096
NAME_CHARACTERS_MAX = 255
WISHES_MAX = 256
"""Groups that one site may want to join or leave at the same time."""


def check_join(protocol: str, event: JoinRequested) -> None:
    """A group by a name, of a protocol that has neither roles nor a choice of services."""
    group = event.group
    if event.role or event.service:
        raise UsageError(f"{protocol} has no roles and one service: join {group!r} without them")
    if not 0 < len(group) <= NAME_CHARACTERS_MAX:
        raise UsageError(f"{group!r} is no name of a group: use 1 to {NAME_CHARACTERS_MAX} characters")


def check_wishes(site: SiteId, wishes: Collection[object]) -> None:
    """One more group may be wished for, or away from."""
    if len(wishes) >= WISHES_MAX:
        raise UsageError(f"{site} wants to join or leave {WISHES_MAX} groups already: wait for some of them")


def check_names(names: Collection[str]) -> None:
    """They are names, and not too many."""
    if len(names) > GROUPS_MAX or any(not 0 < len(name) <= NAME_CHARACTERS_MAX for name in names):
        raise WireError(f"{len(names)} names, or one that is none")
