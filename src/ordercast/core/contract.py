"""What a protocol declares about itself: guarantees, the faults under which they hold, and bounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec

NETWORK_FAULTS = ("loss", "burst-loss", "duplication", "delay", "cut", "partition", "foreign")
"""Everything that a network can do to packets, and bring besides (docs/faults.md)."""

CRASH_FAULTS = ("crash", "torn-log", "pause", "away")
"""A site that stops for a while, with or without its memory."""

EVERY_FAULT = (*NETWORK_FAULTS, *CRASH_FAULTS, "skew", "slow-reader")

TOTAL_ORDER = (
    "integrity",
    "no-duplication",
    "single-source-order",
    "source-order",
    "multiple-source-order",
    "multiple-group-order",
    "acyclic-order",
    "uniform-agreement",
    "termination",
    "recovery",
    "R1",
    "no-silent-divergence",
)
"""What a protocol guarantees that delivers everything everywhere in one order (docs/properties.md)."""


_LIVENESS = (
    *("uniform-agreement", "agreement", "atomic-receipt", "termination", "recovery", "selective-information"),
    *("view-agreement", "view-termination"),
)


def is_liveness(name: str) -> bool:
    """Whether a property says that something must happen, or happen in time: a site that is down for good may be the
    one that everybody waits for."""
    return name in _LIVENESS or name[0] in "PQ"


class Renamed(msgspec.Struct, frozen=True):
    """What an option is called now, and what an old value means there."""

    to: str
    convert: Callable[[Any, Mapping[str, Any]], Any] = lambda value, _options: value
    """Gets the old value and all options that were given."""


def times(option: str, default: float) -> Callable[[Any, Mapping[str, Any]], Any]:
    """How to convert what counted time-outs into seconds: so many times another option, or that one's default."""
    return lambda count, options: count * options.get(option, default)


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of a protocol's own options; each field has a default, and its value is checked in `__post_init__`."""

    renamed: ClassVar[Mapping[str, Renamed]] = {}
    """Spellings that users may still have in their files -> what they mean today."""
    shared: ClassVar[frozenset[str]] = frozenset()
    """Options that decide who does what, or what is promised: processes that differ in one refuse each other, and a log
    is refused that was written with another. What only tunes a process is not among them, so that a restart of one
    process after the other can change it."""


class Bounds(msgspec.Struct, frozen=True):
    """What the run promises to the protocol (Spauster 6.3), from which the protocol derives what it promises."""

    phi_p: float
    """Seconds within which a site that is up performs any one message operation, sends and log writes included."""
    phi_n: float
    """Seconds within which an operational network brings a packet to its receiver."""
    messages: int = 0
    """Messages that are multicast in the whole run, at the most: a protocol that stops sources when a buffer is full
    promises no times where one can be."""
    payload_bytes: int = 0
    """And the bytes of their payloads."""
    sites: int = 0
    """Sites of the largest group."""
    changes: bool = False
    """Whether sites come into groups and leave them."""


class AtRest(msgspec.Struct, frozen=True):
    """What a site may still do and keep when everything is delivered, everyone is up, and nobody wants anything: the
    bounds of the properties `quiescence` and `no-leak`."""

    packets: float = 0.0
    """That a site sends each second, to say that it is there or to ask who else is."""
    messages: int = 0
    """Messages that a core still knows by name, whatever their number was."""
    entries: int = 0
    """Entries of all tables of a core together, with those that it has from the start."""
    credit: int = 1
    """The least that an application may multicast at once, to any group."""
    after_seconds: float = 0.0
    """So long after everything is delivered that is true of messages and entries: what forgets with words that are said
    now and then needs some of them."""


def no_bounds(_bounds: Bounds, _options: Options) -> Mapping[str, float]:
    """For protocols that promise no times."""
    return {}


def as_it_stands(contract: Contract, _options: Options) -> Contract:
    """For protocols whose promises do not depend on their options."""
    return contract


class Contract(msgspec.Struct, frozen=True):
    """The public promise of one protocol. Data, not code: it is copied into traces and compared with the documents.

    It says what the protocol can do; `with_options` says what of it holds with given options.
    """

    name: str
    title: str
    """One line for people."""
    paper: str
    guarantees: tuple[str, ...]
    """Names of properties (docs/properties.md) that hold under `faults`."""
    faults: tuple[str, ...]
    """The kinds of fault under which the guarantees hold (docs/faults.md)."""
    crash: str
    """One line: what happens to the others when a site crashes."""
    branches: tuple[str, ...]
    """The branches of note; the instance counts each time that it takes one, and campaigns want every one taken."""
    options: type[Options] = Options
    promised: Callable[[Bounds, Options], Mapping[str, float]] = no_bounds
    """P and Q properties -> seconds."""
    promised_under: tuple[str, ...] | None = None
    """The kinds of fault under which those seconds hold; None: all of `faults`."""
    message_size: Mapping[str, int] | None = None
    """Bytes that a packet takes at the most for each message that it serves, beside the payload: `a`, and `b` for each
    destination (the bound of the property `message-size`)."""
    single_source: bool = False
    """The guarantees hold for sources that never fail, named in the option `sources` (assumption A1 of Spauster
    6.4.2)."""
    minority_may_die: bool = False
    """Whether the guarantees also hold when fewer than half of the sites crash and never come back."""
    successive_deaths: bool = False
    """Whether the guarantees also hold when the sites that order crash one after the other and never come back, each
    when its successor has taken its place (assumptions A6 to A8 of Spauster 7.2.2)."""
    repairs: bool = False
    """Whether a site that has lost its log can be given everything back by the others (`Recovered.lost`)."""
    explicit_destinations: bool = False
    """Whether a message can be addressed to sites instead of groups."""
    several_groups: bool = True
    """Whether a message can be addressed to several groups at once."""
    members_only: bool = False
    """Whether only members of a group can multicast to it."""
    one_channel: bool = False
    """Whether the protocol needs a network on which everyone hears all broadcasts in the same order."""
    dynamic: bool = False
    """Whether there may be groups and processes that no file names: they come and go while the others run."""
    another_process: bool = False
    """Whether a process that starts again is another one, with a name of its own: `b`, then `b#1`."""
    partitionable: bool = False
    """Whether the members of a group that lose each other go on apart, each side with a view of its own: then histories
    differ, and a replicated state needs a rule (`Replicated(…, quorum=N)` or `merge=function`)."""
    services: Mapping[str, tuple[str, ...]] = {}
    """Service -> the properties that hold for deliveries with it; a property that is named here counts only those."""
    roles: tuple[str, ...] = ()
    """What a member of a group can be there, where it can choose."""
    view_word: str = "view"
    """What a view is called where people read of it."""
    at_rest: Callable[[int, int, Any], AtRest | None] | None = None
    """What a site still does and keeps when a run of so many sites and groups with these options has settled; None:
    nobody has said, and nothing is judged."""
    adapted: Callable[[Contract, Options], Contract] = as_it_stands
    """The contract with these options, for a protocol that has a weaker mode, or one for other faults."""

    def with_options(self, options: Options) -> Contract:
        """What holds with these options."""
        return self.adapted(self, options)

    def without(self, *guarantees: str) -> Contract:
        """The same, less these guarantees."""
        return msgspec.structs.replace(self, guarantees=tuple(n for n in self.guarantees if n not in guarantees))
