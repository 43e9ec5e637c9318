"""What the token protocol writes to the stable log."""

from __future__ import annotations

from ordercast.core import Multicast, Record, SiteId
from ordercast.protocols.classic.token.turns import Entry, Version


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


class NewList(Record, frozen=True):
    """A token list was installed, and with it the end of the history with which it begins: one record, or a crash
    could leave a history that belongs to neither list."""

    committed: int
    version: Version
    members: tuple[SiteId, ...]
    base: int
    entries: tuple[Entry, ...]
    forgotten: int


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
