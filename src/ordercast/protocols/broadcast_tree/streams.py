"""The broadcasts that concern this host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import GroupId, SiteId, WireError
from ordercast.protocols.broadcast_tree.packets import StreamId
from ordercast.protocols.broadcast_tree.stream import Stream

if TYPE_CHECKING:
    from ordercast.protocols.broadcast_tree.protocol import BroadcastTree

EPOCHS_MAX = 2
"""Of a source without a stable log: its present messages, and those from before its last crash, which the others may
still be giving to each other."""


class Streams(dict[StreamId, Stream]):
    """All streams of one host, in the order in which it heard of them."""

    def __init__(self, core: BroadcastTree) -> None:
        super().__init__()
        self._core = core
        self._made = 0
        self.epoch = 0 if core.context.stable else core.context.incarnation
        """Of what this host multicasts."""
        self.own: list[Stream] = []
        """Those of which this host is the source."""

    def find(self, source: SiteId, epoch: int, groups: tuple[GroupId, ...]) -> Stream:
        """The stream of what one source sends to these groups."""
        return self.named(StreamId(source, epoch, tuple(sorted(set(groups)))))

    def named(self, name: StreamId) -> Stream:
        """The stream of that name, a new one if it was not known; `WireError` when it does not concern this host."""
        known = self.get(name)
        if known is not None:
            return known
        core = self._core
        if name.source not in core.ranks or not name.groups or name.epoch < 0:
            raise WireError(f"there is no broadcast of {name.source} to {name.groups}")
        if name.source == core.site and name.epoch > self.epoch:
            raise WireError(f"{core.site} has begun no epoch {name.epoch}")
        if any(group not in core.context.groups for group in name.groups):
            raise WireError(f"unknown group in {name.groups}")
        members = core.context.members(name.groups)
        if core.site not in (name.source, *members):
            raise WireError(f"a broadcast of {name.source} to {name.groups} does not concern {core.site}")
        made = self[name] = Stream(name, self._made, core.site, members, core.ranks)
        self._made += 1
        if made.is_source:
            self.own.append(made)
        # After one exchange within the cluster, a host knows better where to attach.
        core.set_timer("np1", core.options.eic_seconds)
        self._retire_epochs(name)
        return made

    def _retire_epochs(self, name: StreamId) -> None:
        alike = sorted(other for other in self if (other.source, other.groups) == (name.source, name.groups))
        for other in alike[:-EPOCHS_MAX]:
            del self[other]
