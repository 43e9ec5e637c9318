"""The sender group of a process group (4.1): who may multicast, in which view, from which number on.

Chapters 3 and 4 are restricted to a single view. This is all that they know of membership, and what chapter 5 has to
answer when views change.
"""

from __future__ import annotations

import msgspec

from ordercast.core import Context, GroupId, SiteId, UsageError
from ordercast.core.tables import nearest
from ordercast.protocols.intergroup.packets import ViewId


class SenderGroup(msgspec.Struct, frozen=True):
    """The senders of one group in one view."""

    view: ViewId
    epoch: ViewId
    """The view that the last repair has installed, or the first one; PAdds and PLeaves have made the present one of
    it."""
    members: tuple[SiteId, ...]
    """Sorted."""
    activation_points: dict[SiteId, int]
    """The number of the first message of each that belongs to the view."""
    start_time: int = 0
    """Every message of the view has a later timestamp."""


def static_senders(context: Context, named: tuple[SiteId, ...], group: GroupId) -> SenderGroup:
    """The one view of a group whose senders are configured."""
    members = context.groups[group]
    senders = tuple(site for site in members if site in named) or members
    view = ViewId(0, senders[0], 0)
    return SenderGroup(view, view, senders, dict.fromkeys(senders, 1))


def check_senders(context: Context, named: tuple[SiteId, ...]) -> None:
    """Raise `UsageError` for a sender that is in no group."""
    members = sorted({site for sites in context.groups.values() for site in sites})
    for site in named:
        if site not in members:
            raise UsageError(f"option senders: {site!r} is in no group; {nearest(site, members)}")
