"""Joining: a site that is invited to a new list promises, gets the history with which the list begins, installs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.classic.token.packets import (
    Install,
    Installed,
    InstallOfRoster,
    Invite,
    Join,
    JoinOfRoster,
    Refuse,
)
from ordercast.protocols.classic.token.records import Admission, NewList
from ordercast.protocols.classic.token.rosters import Roster, Wishes, lineage, originator
from ordercast.protocols.classic.token.turns import Entry, Version

if TYPE_CHECKING:
    from ordercast.protocols.classic.token.protocol import Token


class Joining(Part):
    """The member's side of a reformation; the originator is a member as well."""

    packets = (Invite, Install, InstallOfRoster)
    branches = ("joined", "refused", "gave-way", "caught-up-to-install", "installed")

    def __init__(self, core: Token) -> None:
        self._core = core
        self._ledger = core.ledger
        self.installing: Install | None = None
        """A new list that waits for the end of its history."""
        self._admission: Admission | None = None
        """What this site begins with, when it comes with that list."""
        self._established: Version | None = None
        """The list with which this site has come, when others have installed it."""

    # ------------------------------------------------------------------ invitation
    def on_invite(self, sender: SiteId, packet: Invite, arrival: Arrival) -> None:
        """Join the larger version; the promise is in the log before the answer leaves.

        (Answer first, crash, come back without the promise: the site accepts another turn of the old list, which is
        committed with its help, while the new list begins without it.)
        """
        core = self._core
        if core.system.outside:
            core.lookup.answer(sender, packet.version)
            return
        if lineage(packet.version) != core.system.lineage:
            return
        core.reformation.note_version(packet.version)
        if core.loss.lost:
            return
        if packet.version < max(core.stable.promised, self._ledger.newest):
            self._send_refuse(sender)
            return
        if packet.version > core.stable.promised:
            if core.attempt.stage in ("inviting", "admitting", "installing"):
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
        """What this site has, and what it wants changed."""
        ledger, core = self._ledger, self._core
        told = (
            core.stable.promised,
            ledger.version,
            ledger.members,
            ledger.committed,
            ledger.uncommitted(),
            core.delivery.settled,
            core.settlement.everywhere,
            core.loss.known_lives(),
        )
        wishes, system = core.changes.tell(), core.system
        if system.roster.is_configured and wishes is None:
            return Join(*told)
        return JoinOfRoster(
            *told,
            roster=system.roster,
            before=system.before,
            life=system.life,
            tentative=self.is_tentative,
            wishes=wishes or Wishes(),
        )

    @property
    def is_tentative(self) -> bool:
        """Whether this site has come with the installed list, and does not know of anybody else who has installed
        it."""
        ledger, system = self._ledger, self._core.system
        return system.life == ledger.version[0] and system.before is not None and self._established != ledger.version

    def note_installed(self, sender: SiteId, version: Version) -> None:
        """Another site has installed this version. When it had a say before, the list with which this one has come may
        have been opened."""
        before = self._core.system.before
        if before is not None and before.life(sender) is not None and version == self._ledger.version:
            self._established = version

    def note_roster(self, roster: Roster) -> None:
        """A roster is committed. When this site is in it, it has come."""
        if roster.life(self._core.site) == self._core.system.life != 0:
            self._established = self._ledger.version

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
        core.system.check_members(packet.members, packet.roster if isinstance(packet, InstallOfRoster) else None)
        if not packet.members:
            raise WireError("a list without a site")
        if core.loss.lost:
            return
        if packet.version == self._ledger.version:
            core.send((sender,), Installed(packet.version, core.delivery.settled))
        elif packet.version == core.stable.promised:
            self.begin(packet)
        elif packet.version < core.stable.promised:
            self._send_refuse(sender)

    def on_install_of_roster(self, sender: SiteId, packet: InstallOfRoster, arrival: Arrival) -> None:
        """The same."""
        self.on_install(sender, packet, arrival)

    def begin(self, install: Install, admission: Admission | None = None) -> None:
        """Get the end of its history from the first site, then install it."""
        if self.installing is not None and self.installing.version == install.version:
            return
        core = self._core
        self.installing = install
        self._admission = admission
        core.repair.prefer(install.teacher if isinstance(install, InstallOfRoster) else install.members[0])
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
        core.stable.install(self._record(install, tuple(entries)))
        if self._admission is not None:
            self._admission = None
            core.source.give_credit()
            core.lookup.note_in()
        if core.site in install.members:
            core.changes.note_list()
        core.ring.begin(install.base)
        core.source.forgive()
        core.suspicion.watch_reformation()
        core.block("majority", "")
        core.suspicion.note_recovered()
        to = originator(install.version)
        if to == core.site:
            core.reformation.confirm(core.site)
        else:
            core.send((to,), Installed(install.version, core.delivery.settled))
        if core.site not in install.members and core.system.is_leaving:
            # What is ordered before it leaves is its own as well.
            core.repair.want_history(install.base + 1, install.members[0])

    def _record(self, install: Install, entries: tuple[Entry, ...]) -> NewList:
        ledger = self._ledger
        plain = (ledger.committed, install.version, install.members, install.base, entries, ledger.forgotten)
        if not isinstance(install, InstallOfRoster):
            return NewList(*plain)
        admission = self._admission
        if admission is not None:
            # Summed up as far as this site has come meanwhile: the list begins behind that.
            admission = Admission(ledger.summary(), ledger.committed_roster, admission.lives)
        return NewList(*plain, install.roster, install.before, admission)
