"""Joining: a site that is invited to a new list promises, gets the history with which the list begins, installs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.classic.token.packets import Install, Installed, Invite, Join, Refuse
from ordercast.protocols.classic.token.records import NewList
from ordercast.protocols.classic.token.turns import Entry, Version

if TYPE_CHECKING:
    from ordercast.protocols.classic.token.protocol import Token


class Joining(Part):
    """The member's side of a reformation; the originator is a member as well."""

    packets = (Invite, Install)
    branches = ("joined", "refused", "gave-way", "caught-up-to-install", "installed")

    def __init__(self, core: Token) -> None:
        self._core = core
        self._ledger = core.ledger
        self.installing: Install | None = None
        """A new list that waits for the end of its history."""

    # ------------------------------------------------------------------ invitation
    def on_invite(self, sender: SiteId, packet: Invite, arrival: Arrival) -> None:
        """Join the larger version; the promise is in the log before the answer leaves.

        (Answer first, crash, come back without the promise: the site accepts another turn of the old list, which is
        committed with its help, while the new list begins without it.)
        """
        core = self._core
        core.reformation.note_version(packet.version)
        if core.loss.lost:
            return
        if packet.version < max(core.stable.promised, self._ledger.newest):
            self._send_refuse(sender)
            return
        if packet.version > core.stable.promised:
            if core.attempt.stage in ("inviting", "installing"):
                core.branch("gave-way")
            core.branch("joined")
            self.join(packet.version)
        if self._ledger.version < packet.version:
            core.send((sender,), self.own_join())

    def join(self, version: Version) -> None:
        """The version test: only a larger one than ever before; and from here on nothing of the older lists is
        accepted."""
        core = self._core
        core.attempt.end()
        core.stable.promise(version)
        core.reformation.note_version(version)
        self.installing = None
        core.ring.leave()
        core.suspicion.watch_reformation()

    def own_join(self) -> Join:
        """What this site has."""
        ledger, core = self._ledger, self._core
        return Join(
            core.stable.promised,
            ledger.version,
            ledger.members,
            ledger.committed,
            ledger.uncommitted(),
            core.delivery.settled,
            core.settlement.everywhere,
            core.loss.known_lives(),
        )

    def _send_refuse(self, to: SiteId) -> None:
        """There is a larger version: this site has joined it, or has history of it.

        (Joining a list smaller than that one of which it has history: the originator would see committed turns that
        nobody else who joined has.)
        """
        self._core.branch("refused")
        self._core.send((to,), Refuse(max(self._core.stable.promised, self._ledger.newest)))

    # ------------------------------------------------------------------ installation
    def on_install(self, sender: SiteId, packet: Install, arrival: Arrival) -> None:
        """A list that this site has joined."""
        core = self._core
        core.system.check_turns(packet.uncommitted)
        core.system.check_members(packet.members)
        if core.loss.lost:
            return
        if packet.version == self._ledger.version:
            core.send((sender,), Installed(packet.version, core.delivery.settled))
        elif packet.version == core.stable.promised:
            self.begin(packet)
        elif packet.version < core.stable.promised:
            self._send_refuse(sender)

    def begin(self, install: Install) -> None:
        """Get the end of its history from the first site, then install it."""
        if self.installing is not None and self.installing.version == install.version:
            return
        core = self._core
        self.installing = install
        core.repair.prefer(install.members[0])
        core.suspicion.watch_reformation()
        core.settlement.forget(install.everywhere)
        core.repair.learn()
        if self.installing is not None:
            core.branch("caught-up-to-install")
            core.repair.ask_anew()

    def go_on(self) -> None:
        """Install the new list when everything is here with which it begins: what is committed, and what may be."""
        install, ledger, core = self.installing, self._ledger, self._core
        if install is None or ledger.committed < install.committed:
            return
        entries: list[Entry] = []
        for turn in install.uncommitted:
            if turn.number > ledger.committed:
                entry = core.backlog.assemble(turn)
                if entry is None:
                    return
                entries.append(entry)
        if not core.settlement.make_room_for(entries):
            core.repair.wait_for_reader()
            return
        self.installing = None
        core.branch("installed")
        core.stable.install(
            NewList(ledger.committed, install.version, install.members, install.base, tuple(entries), ledger.forgotten)
        )
        core.ring.begin(install.base)
        core.source.forgive()
        core.suspicion.watch_reformation()
        core.block("majority", "")
        core.suspicion.note_recovered()
        originator = install.version[1]
        if originator == core.site:
            core.reformation.confirm(core.site)
        else:
            core.send((originator,), Installed(install.version, core.delivery.settled))
