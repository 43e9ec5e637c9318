"""What the token protocol's sites say to each other."""

from __future__ import annotations

from ordercast.core import GroupId, MessageId, Multicast, Packet, SiteId
from ordercast.protocols.classic.token.rosters import Roster, Wishes
from ordercast.protocols.classic.token.turns import FIRST_VERSION, Summary, Turn, Version, is_change


# ---------------------------------------------------------------------- normal phase
class Data(Packet, frozen=True):
    """Source -> token list: new messages, or again when nobody acknowledges them. Any site -> who asked: messages that
    it misses."""

    source_number: int
    """Of the first; the others follow without a gap."""
    multicasts: tuple[Multicast, ...]

    def served(self) -> tuple[MessageId, ...]:
        return tuple(multicast.id for multicast in self.multicasts if not is_change(multicast.id.source))


class Acknowledge(Packet, frozen=True):
    """Token site -> token list: these messages come next in the order, and the token goes to the next site of the
    list."""

    version: Version
    turn: Turn
    committed: int
    settled: int
    """Every turn up to this one is delivered at the sender."""
    forgotten: int
    """Every turn up to this one is settled at every site of the list."""

    def served(self) -> tuple[MessageId, ...]:
        return self.turn.identifiers()


class Accept(Packet, frozen=True):
    """New token site -> the one before: I have everything up to this turn, the token is mine now."""

    background = True
    version: Version
    number: int
    settled: int


class Beacon(Packet, frozen=True):
    """Token site -> all sites, when there is nothing to do: the list is alive, and this is how far it is."""

    background = True
    version: Version
    number: int
    committed: int
    settled: int
    forgotten: int


# ---------------------------------------------------------------------- repair
class Ask(Packet, frozen=True):
    """Any site -> any site: what I miss."""

    background = True
    version: Version
    after: int
    """Turns after this one are wanted; -1 when none are."""
    missing: tuple[tuple[int, SiteId, int, int], ...]
    """Messages wanted: turn that acknowledges them, source, first and last source number."""
    settled: int
    in_vain: bool = False
    """Whether this was asked for a while, and nobody had it: a summary will do, too."""


class History(Packet, frozen=True):
    """Any site -> who asked: all turns with messages in (after, through] are these, and they are committed."""

    version: Version
    after: int
    through: int
    through_version: Version
    """Version in which turn `through` was issued."""
    turns: tuple[Turn, ...]
    uncommitted: tuple[Turn, ...]
    """What follows on `through` in this version, for those who have installed it as well."""
    everywhere: int
    """Every turn up to this one is settled at every site of the system."""
    in_list: int
    """Every turn up to this one is settled at every site of the sender's list, and forgotten there."""

    def served(self) -> tuple[MessageId, ...]:
        return tuple(message for turn in (*self.turns, *self.uncommitted) for message in turn.identifiers())


class Forgotten(Packet, frozen=True):
    """Any site -> who asked for turns that are no longer here: where the history can be gone on with instead."""

    background = True
    version: Version
    everywhere: int
    in_list: int
    gone: int
    """Nothing up to this turn is kept anywhere in the list."""
    forgotten: int
    """Nothing up to this turn is kept here."""
    summary: Summary


class ForgottenOfRoster(Forgotten, frozen=True):
    """The same, where the roster is not the one of the configuration."""

    roster: Roster
    """The one at the turn that is summed up."""


# ---------------------------------------------------------------------- a lost log
class Lost(Packet, frozen=True):
    """A site that has lost its log -> all: forget what I promised, and tell me how to go on."""

    background = True
    life: int


class Vouch(Packet, frozen=True):
    """A member of a list without the lost site -> the lost site: I know of your loss, and have promised nothing beyond
    this list."""

    background = True
    life: int
    version: Version
    base: int
    """Where the list begins."""
    summary: Summary


class VouchOfRoster(Vouch, frozen=True):
    """The same, where the roster is not the one of the configuration."""

    roster: Roster
    """The one at the turn that is summed up."""
    list_roster: Roster
    """The one of the list."""


# ---------------------------------------------------------------------- reformation
class Probe(Packet, frozen=True):
    """Who suspects a failure -> all: are you there, and how far are you?"""

    background = True
    attempt: int
    installed: Version


class Status(Packet, frozen=True):
    """Any site -> who probes, or speaks in the name of a list that is over."""

    background = True
    attempt: int
    """Of the probe; 0 when nobody asked."""
    promised: Version
    installed: Version
    member: bool
    """Whether the receiver is in the sender's list."""
    committed: int
    settled: int


class Elsewhere(Packet, frozen=True):
    """Who is in no list of that lineage -> who probes."""

    background = True
    attempt: int


class Invite(Packet, frozen=True):
    """Originator -> all: join a new list."""

    background = True
    version: Version


class Join(Packet, frozen=True):
    """Site -> originator: I join, take part in no older list from now on, and this is what I have."""

    background = True
    version: Version
    installed: Version
    members: tuple[SiteId, ...]
    """The list of the installed version."""
    committed: int
    uncommitted: tuple[Turn, ...]
    settled: int
    everywhere: int
    lives: tuple[tuple[SiteId, int], ...] = ()
    """Sites that have lost their log, and the life in which they are since then, as far as the sender knows."""

    @property
    def accepted(self) -> int:
        """The highest turn that the site has."""
        return self.committed + len(self.uncommitted)


class JoinOfRoster(Join, frozen=True, kw_only=True):
    """The same, where the roster is not the one of the configuration, or the sender wants it changed."""

    roster: Roster
    """The one of the installed list."""
    before: Roster | None
    """The one before it, when the sender does not know that the list was opened."""
    life: int
    """Of the sender."""
    tentative: bool
    """Whether the sender came with the installed list, and does not know that it was opened: then it is in the system
    only if others have installed that list."""
    wishes: Wishes


class Refuse(Packet, frozen=True):
    """Site -> originator: I have joined a list with a larger version."""

    background = True
    promised: Version


class Install(Packet, frozen=True):
    """Originator -> those who joined: the new list, its first site first, and the end of the history with which it
    begins."""

    background = True
    version: Version
    members: tuple[SiteId, ...]
    committed: int
    """Up to here the history is committed; who lacks it gets it from the first site."""
    uncommitted: tuple[Turn, ...]
    everywhere: int

    @property
    def base(self) -> int:
        """The last turn of the older lists."""
        return self.committed + len(self.uncommitted)


class InstallOfRoster(Install, frozen=True):
    """The same, with another roster than the one of the configuration."""

    roster: Roster
    before: Roster | None
    """The roster before it, of which a majority has to install the list as well."""
    teacher: SiteId
    """Who has the end of the history; it may be leaving."""


class Installed(Packet, frozen=True):
    """Site -> originator: the list and everything up to its beginning is in my log."""

    background = True
    version: Version
    settled: int


class Open(Packet, frozen=True):
    """Originator -> first token site: a majority has installed the list; the normal phase begins."""

    background = True
    version: Version


# ---------------------------------------------------------------------- sites that come and go
class Seek(Packet, frozen=True):
    """A site that wants to join, or finds nobody of its list -> others: are you in a list?"""

    background = True
    version: Version
    """Of the sender's list, if it has one: the answer names it, so that it is known to be younger."""


class Presence(Packet, frozen=True):
    """Any site -> who seeks; member -> sites that are found and not in its roster: this is the list that I am in."""

    background = True
    version: Version
    size: int
    """Sites in its roster; 0: the sender is in no list."""
    seeking: bool = False
    """Whether it wants to be in one."""
    asked: Version = FIRST_VERSION
    """The list of whoever has asked."""


class Apply(Packet, frozen=True):
    """Stranger -> member, without a version: take me in. Stranger -> originator, with the version to which it was
    invited: I still want to come, to these groups. Member -> member, with the installed version: form a list, there is
    something that I want changed."""

    background = True
    version: Version
    groups: tuple[GroupId, ...] = ()
    merges: bool = False
    """Whether the stranger has given up another lineage for this one."""


class Decline(Packet, frozen=True):
    """Member -> stranger: the list will not take you in."""

    background = True
    reason: str


class Admit(Packet, frozen=True):
    """Originator -> stranger: the list with which you come, and a summary of the history before it."""

    background = True
    install: InstallOfRoster
    summary: Summary
    roster: Roster
    """The one at the turn that is summed up."""
    lives: tuple[tuple[SiteId, int], ...]
    """Who has lost its log."""


class News(Packet, frozen=True):
    """Any site -> who speaks of an older roster: the one that is committed here."""

    background = True
    version: Version
    roster: Roster
