"""Lookup: a site that is in no list looks for one, founds one where there is none, and gives a small one up for a large
one."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ordercast.core import GroupId, Part, SiteId
from ordercast.core.events import Arrival, Discovered
from ordercast.protocols.classic.token.packets import Admit, Apply, Decline, Installed, Presence, Seek
from ordercast.protocols.classic.token.records import Admission, NewList
from ordercast.protocols.classic.token.rosters import (
    Roster,
    founder,
    is_majority,
    lineage,
    next_version,
)
from ordercast.protocols.classic.token.turns import FIRST_VERSION, Version
from ordercast.protocols.parts.names import SITES_MAX, check_names

if TYPE_CHECKING:
    from ordercast.protocols.classic.token.protocol import Token

PRESENCE_SECONDS = 1.0
"""How often a member tells those who were found and are not in its roster that there is a list."""
COMING_REFORMATIONS = 2
"""So many times the time of a reformation a stranger waits for the rest of what it needs before it asks again."""
ANSWERS_MAX = 8
"""Invitations that a stranger remembers: of several originators at once one may be the last to let it in."""


class Lookup(Part):
    """The search of a stranger, and what members tell strangers."""

    packets = (Seek, Presence, Decline, Admit)
    timers = ("lookup", "presence")
    branches = (
        "founded",
        "sought",
        "came",
        "joiner-restarted",
        "lineages-merge",
        "coming-failed",
    )

    def __init__(self, core: Token) -> None:
        self._core = core
        self._settled = False
        """Whether the driver's search has had its time."""
        self._rounds = 0
        self._heard: dict[SiteId, Presence] = {}
        """What those who were found have answered."""
        self._asked: SiteId | None = None
        """Whom this site has asked last to be let in."""
        self._answered: deque[Version] = deque(maxlen=ANSWERS_MAX)
        """The last invitations to which this site has said that it wants to come."""
        self._doubted: Version | None = None
        """A list of which this site finds nobody."""
        self._gone: set[SiteId] = set()
        """Those who have said that they do not belong to it."""

    @property
    def has_applied(self) -> bool:
        """Whether somebody may let this site in."""
        return bool(self._answered)

    def discover(self, event: Discovered) -> None:
        """The driver has found other sites."""
        core = self._core
        found = tuple(site for site in event.sites if site != core.site)
        self._settled = event.settled
        core.system.find(found)
        self._heard = {site: heard for site, heard in self._heard.items() if site in core.system.known_others}
        if core.system.outside:
            self._rounds = 0
            self.go_on()
        else:
            self._tell()

    # ------------------------------------------------------------------ the stranger
    def go_on(self) -> None:
        """Ask everybody who was found whether there is a list, and one of those who are in one to be let in."""
        core = self._core
        wanted = core.changes.wanted_groups()
        if not wanted:
            core.block("lookup", "")
            core.cancel_timer("lookup")
            return
        if self._may_found():
            self._found(wanted)
            return
        found = core.system.known_others
        whom = f"it asks {', '.join(found[:9])}" if found else "it has found nobody yet"
        core.block("lookup", f"{core.site} looks for a list to join {', '.join(wanted[:9])}: {whom}")
        core.set_timer("lookup", core.patience.retry_after(min(self._rounds, 2)))
        core.send(tuple(site for site in found if self._size_of(site) == 0), Seek(FIRST_VERSION))
        self._apply()

    def on_lookup_timeout(self) -> None:
        """Not in yet; or let in, and what was missing has not come."""
        core = self._core
        if not core.system.outside:
            return
        self._rounds += 1
        if core.joining.installing is None:
            self.go_on()
        else:
            core.branch("coming-failed")
            core.begin_anew()
            core.begin_outside()

    def _size_of(self, site: SiteId) -> int:
        heard = self._heard.get(site)
        return 0 if heard is None else heard.size

    def _apply(self) -> None:
        """Ask a member of the largest list; another one each time, for that one may be out of the others' reach."""
        core = self._core
        members = [site for site in core.system.known_others if self._size_of(site)]
        if members:
            best = max(_rank(self._heard[site]) for site in members)
            of_best = [site for site in members if _rank(self._heard[site]) == best]
            self._asked = of_best[self._rounds % len(of_best)]
            core.branch("sought")
            core.send((self._asked,), Apply(FIRST_VERSION))

    def apply_again(self, members: tuple[SiteId, ...]) -> None:
        """This site was let into a list that nobody else has."""
        others = tuple(site for site in members if site != self._core.site)
        if others:
            self._core.branch("joiner-restarted")
            self._core.send((self._core.context.random.choice(others),), Apply(FIRST_VERSION))

    def _may_found(self) -> bool:
        """Whether there is nobody to join: nobody was found or is configured, or all of them have answered that they
        are in no list. Of several who seek the one with the smallest name founds.

        Whoever does not answer may be in a list, and come back with it: the driver says when it is lost for good.
        """
        core = self._core
        found = core.system.known_others
        if not self._settled or any(self._size_of(site) for site in found):
            return False
        heard = self._heard
        return all(site in heard and (core.site < site or not heard[site].seeking) for site in found)

    def _found(self, wanted: tuple[GroupId, ...]) -> None:
        """A list of this site alone, of a lineage of its own."""
        core = self._core
        core.branch("founded")
        self._end()
        nonce = core.context.random.getrandbits(32)
        version = next_version(1, core.site, f"{core.site}.{nonce:08x}")
        roster = Roster(version, ((core.site, 1),), tuple((group, (core.site,)) for group in wanted))
        core.found(NewList(0, version, (core.site,), 0, (), 0, roster))

    def _end(self) -> None:
        core = self._core
        self._rounds = 0
        self._heard.clear()
        self._asked = None
        self._answered.clear()
        core.block("lookup", "")
        core.cancel_timer("lookup")

    def answer(self, sender: SiteId, version: Version) -> None:
        """An originator asks whether this site still wants to come."""
        core = self._core
        wanted = core.changes.wanted_groups()
        installing = core.joining.installing
        if wanted and (installing is None or lineage(installing.version) == lineage(version)):
            self._answered.append(version)
            core.send((sender,), Apply(version, wanted, core.changes.is_merging))

    def on_admit(self, sender: SiteId, packet: Admit, arrival: Arrival) -> None:
        """The list that this site is to come with. It gets the end of its history, and installs it."""
        core, install = self._core, packet.install
        version = install.version
        core.system.check_members(install.members, install.roster)
        core.system.check_summary(packet.summary, packet.roster)
        core.system.check_turns(install.uncommitted)
        if install.roster.life(core.site) != version[0] or core.site not in install.members:
            return
        if core.ledger.version == version and not core.system.outside:
            core.send((sender,), Installed(version, core.delivery.settled))
        elif self._may_come(version):
            core.branch("came")
            core.set_timer("lookup", COMING_REFORMATIONS * core.patience.reformation())
            core.come(install, Admission(packet.summary, packet.roster, packet.lives))

    def _may_come(self, version: Version) -> bool:
        core = self._core
        installing = core.joining.installing
        if core.system.outside:
            return version in self._answered and (installing is None or installing.version < version)
        return core.joining.is_tentative and version == core.stable.promised

    def note_in(self) -> None:
        """This site is in a list."""
        self._end()
        self._tell()

    def on_decline(self, sender: SiteId, packet: Decline, arrival: Arrival) -> None:
        """There is no room in the list."""
        if self._core.system.outside and sender == self._asked:
            self._core.changes.refuse(packet.reason[:255])
            self._end()

    # ------------------------------------------------------------------ members and strangers
    def on_seek(self, sender: SiteId, packet: Seek, arrival: Arrival) -> None:
        """Somebody looks for a list."""
        self._core.send((sender,), self._presence(packet.version))

    def _presence(self, asked: Version = FIRST_VERSION) -> Presence:
        core = self._core
        if core.system.outside:
            return Presence(FIRST_VERSION, 0, bool(core.changes.wanted_groups()), asked)
        return Presence(core.ledger.version, len(core.system.roster.sites), False, asked)

    def ask_whether_gone(self) -> None:
        """This site finds nobody of its list. Whoever decides there may be in none any more, or in another one."""
        core = self._core
        if self._doubted != core.ledger.version:
            self._doubted, self._gone = core.ledger.version, set()
        core.send(tuple(site for site in core.system.deciding.names if site != core.site), Seek(core.ledger.version))

    def _note_gone(self, sender: SiteId, packet: Presence) -> None:
        """When so many are gone that the others are no majority, nobody will ever decide anything in the list that this
        site was to come to, or was to leave."""
        core = self._core
        deciding = core.system.deciding
        if self._doubted == core.ledger.version == packet.asked and (
            not packet.size or lineage(packet.version) != core.system.lineage
        ):
            self._gone.add(sender)
            alone = core.joining.is_tentative or core.system.is_leaving
            if alone and not is_majority(deciding.sites, set(deciding.names) - self._gone):
                core.changes.give_up()

    def _tell(self) -> None:
        """Tell those who were found and are not in the roster that there is a list: they seek one, or have another."""
        core = self._core
        strangers = core.system.strangers
        if strangers and core.stable.in_normal_phase:
            core.send(strangers, self._presence())
        if strangers:
            core.set_timer("presence", PRESENCE_SECONDS)

    def on_presence_timeout(self) -> None:
        """Again, for some come later, and some packets are lost."""
        if not self._core.system.outside:
            self._tell()

    def on_presence(self, sender: SiteId, packet: Presence, arrival: Arrival) -> None:
        """In which list another site is."""
        core = self._core
        check_names((packet.version[1] or "-",))
        if not 0 <= packet.size <= SITES_MAX or sender not in core.system.known_others:
            return
        if core.system.outside:
            known = self._heard.get(sender)
            self._heard[sender] = packet
            if known is None and core.joining.installing is None:
                self.go_on()
        elif packet.asked != FIRST_VERSION or self._doubted == core.ledger.version:
            # Also where that is the first version of all. (Else: of a list that is configured d and e let b, which they
            # do not hear, leave with them; both leave, and say so, and b takes that for news of other lists.)
            self._note_gone(sender, packet)
        elif packet.size and lineage(packet.version) != core.system.lineage:
            self._compare(packet)

    def _compare(self, other: Presence) -> None:
        """There is another lineage: the smaller one is given up, by each of its members. The one of a configuration
        never is."""
        core = self._core
        if core.system.lineage and core.stable.in_normal_phase and _rank(other) > _rank(self._presence()):
            core.branch("lineages-merge")
            core.changes.move()


def _rank(presence: Presence) -> tuple[bool, int, tuple[int, ...], tuple[int, ...]]:
    """The larger one of two lineages is the one that stays: of the configuration, of more sites, or of the smaller
    founder's name."""
    of = lineage(presence.version)
    names = (founder(of), of)
    backwards = tuple((*(-ord(letter) for letter in name), 1) for name in names)
    return (not of, presence.size, backwards[0], backwards[1])
