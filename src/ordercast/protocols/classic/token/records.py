"""What the token protocol writes to the stable log."""

from __future__ import annotations

from ordercast.core import GroupId, Multicast, Record, SiteId
from ordercast.protocols.classic.token.rosters import Roster
from ordercast.protocols.classic.token.turns import Entry, Summary, Version


class Own(Record, frozen=True):
    """At the source: this number is taken."""

    source_number: int
    multicast: Multicast


class Promised(Record, frozen=True):
    """Nothing of a list with a smaller version is accepted any more. Stable before the invitation is answered."""

    version: Version


class Accepted(Record, frozen=True):
    """A turn of the installed list, with its messages. Stable before the token is passed on, so it counts for the
    resilience."""

    entry: Entry
    forgotten: int


class Settled(Record, frozen=True):
    """Committed turns that came from the history of another site; nothing but null turns lies between them."""

    committed: int
    """How far the site knew the history to be committed before."""
    through: int
    version: Version
    entries: tuple[Entry, ...]
    forgotten: int


class Admission(Record, frozen=True):
    """What a site begins with that comes into a list: the history up to a committed turn, summed up."""

    summary: Summary
    roster: Roster
    """The one at that turn."""
    lives: tuple[tuple[SiteId, int], ...]
    """Who has lost its log."""


class NewList(Record, frozen=True):
    """A token list was installed, and with it the end of the history with which it begins: one record, or a crash
    could leave a history that belongs to neither list."""

    committed: int
    version: Version
    members: tuple[SiteId, ...]
    base: int
    entries: tuple[Entry, ...]
    forgotten: int
    roster: Roster | None = None
    """With this roster; None: the one of the configuration."""
    before: Roster | None = None
    """The roster before, where the list brings a new one, and it is not known whether the list before was opened."""
    admission: Admission | None = None
    """For a site that comes with this list."""


class TakenOver(Record, frozen=True):
    """The history up to a turn is taken over without what is in it, because the others have forgotten that: one record,
    or a crash could leave a history with a hole."""

    committed: int
    """How far the site knew the history to be committed before: what lies between is missing here for good."""
    summary: Summary
    promised: Version
    """The promise from here on: the one that stood, or the one with which a site that lost its log begins anew."""
    roster: Roster | None = None
    """The one at that turn; None: the one of the configuration."""


class LogLost(Record, frozen=True):
    """This site has lost its log, and counts for nothing until it has taken over a summary."""

    life: int


class KnownLoss(Record, frozen=True):
    """Another site has lost its log: what it joined before counts for nothing. Stable before this site vouches."""

    site: SiteId
    life: int


class Wished(Record, frozen=True):
    """The application wants to be in a group, or out of it; None: what it wanted is so, or is no longer wanted."""

    group: GroupId
    wanted: bool | None
    moves: bool = False
    """Whether it is left here to be joined in another lineage."""


class Gone(Record, frozen=True):
    """This site is in no list any more, and nothing before this record matters, but what is wished."""


class Delivered(Record, frozen=True):
    """Everything up to this sequence number goes to the application; everything up to this turn is committed."""

    committed: int
    sequence: int


class State(Record, frozen=True):
    """A checkpoint: all of the above, summed up."""

    promised: Version
    version: Version
    members: tuple[SiteId, ...]
    base: int
    newest: Version
    committed: int
    committed_version: Version
    last_message_turn: int
    accepted: int
    forgotten: int
    sequence: int
    delivered: int
    ordered: tuple[tuple[SiteId, int], ...]
    settled: tuple[tuple[SiteId, int], ...]
    entries: tuple[Entry, ...]
    own_number: int
    own: tuple[tuple[int, Multicast], ...]
    committed_ordered: tuple[tuple[SiteId, int], ...] = ()
    counts: tuple[tuple[GroupId, int], ...] = ()
    lives: tuple[tuple[SiteId, int], ...] = ()
    lost: bool = False
    roster: Roster | None = None
    """At the last delivery; None: the one of the configuration."""
    committed_roster: Roster | None = None
    list_roster: Roster | None = None
    before: Roster | None = None
    outside: bool = False
    wishes: tuple[tuple[GroupId, bool, bool], ...] = ()
