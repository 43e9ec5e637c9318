"""Hearing: whose packets are of any use to this site, before anybody looks at what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Packet, Part, SiteId, WireError
from ordercast.protocols.classic.token.packets import Admit, Apply, Decline, Invite, Presence, Probe, Seek, Status
from ordercast.protocols.classic.token.rosters import lineage

if TYPE_CHECKING:
    from ordercast.protocols.classic.token.protocol import Token

_FOR_STRANGERS = frozenset({Seek, Presence, Apply, Decline, Invite, Admit, Probe})
"""What a site that is in no list listens to; and whoever is in one looks at the lineage itself."""


class Hearing(Part):
    """Only the sites of the system are heard, and only of the lineage to which this site belongs."""

    branches = ("other-lineage",)

    def __init__(self, core: Token) -> None:
        self._core = core
        self._ledger = core.ledger
        self._system = core.system
        named = {packet: "version" for packet in core.packets if "version" in packet.__struct_fields__}
        self._version_in: dict[type[Packet], str] = named | {Status: "installed"}
        """Packet -> where the version of the sender's list stands, for those that have one."""

    def on_heard(self, sender: SiteId, packet: Packet) -> bool:
        """Whether nobody is to handle a packet: what is of another lineage is counted, and no mistake. Strangers are
        one, unless the driver finds others: then it may not have told of them yet."""
        system, name = self._system, self._version_in.get(type(packet))
        is_other = name is not None and getattr(packet, name) != self._ledger.version
        if (is_other or system.outside) and not self._is_ours(packet, name if is_other else None):
            self._core.branch("other-lineage")
            return True
        if sender not in system.known and not system.found and not system.searching:
            raise WireError(f"{sender!r} is no site of the system")
        return False

    def _is_ours(self, packet: Packet, name: str | None) -> bool:
        """Whether a packet that is not of the installed list is of its lineage. Others are of no use: somebody does not
        know yet that this site has moved, or has left. `name`: where another version stands in it."""
        system = self._system
        if type(packet) in _FOR_STRANGERS:
            return True
        if system.outside and not system.coming:
            return False
        return name is None or lineage(getattr(packet, name)) == system.lineage
