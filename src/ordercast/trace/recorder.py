"""Records what happens at the sites of a run, around the protocol core; protocols contain no tracing code.

Rows are kept flat, value after value, in one list per kind of event, because that is what a simulation can afford on
every packet; they become columns when the trace is asked for (or when there are many of them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from ordercast.core import GroupId, MessageId, Multicast, SiteId
from ordercast.core.effects import Activate, Deliver, InstallView, Replay, Rollback
from ordercast.trace.columns import WIDTH, Columns
from ordercast.trace.interface import Envelope, is_before

_VALUES_PER_CHUNK = 1 << 16
"""Some ten thousand rows: few enough to lie in the processor's cache when they become columns, and to be forgotten."""

_PACKETS = ("send", "receive", "drop")


class Recorder:
    """The trace of one run in the making."""

    def __init__(self, run: str) -> None:
        self.run = run
        self._rows: dict[str, list[Any]] = {kind: [] for kind in WIDTH}
        self._columns = Columns(run)
        self._sites: dict[SiteId, SiteRecorder] = {}
        self._spilled_happenings = 0

    def site(self, name: SiteId, groups: Iterable[GroupId] = ()) -> SiteRecorder:
        """The recorder of one site, which is in these groups at the start; it outlives the site's crashes."""
        if name not in self._sites:
            self._sites[name] = SiteRecorder(name, groups, self._rows, self._spill)
        return self._sites[name]

    def table(self) -> pa.Table:
        """Everything recorded so far, sorted by site and seq."""
        self._spill()
        return self._columns.table()

    def happenings(self) -> int:
        """How many rows there are of anything but packets."""
        return self._spilled_happenings + self._waiting_happenings()

    def _waiting_happenings(self) -> int:
        return sum(len(rows) // WIDTH[kind] for kind, rows in self._rows.items() if kind not in _PACKETS)

    def _spill(self) -> None:
        """Turn the tuples into columns and forget them."""
        self._spilled_happenings += self._waiting_happenings()
        for kind, rows in self._rows.items():
            if rows:
                self._columns.add(kind, rows)
                rows.clear()


class SiteRecorder:
    """Records the events of one simulated site, in their order there (see `ordercast.trace.interface.SiteTrace`)."""

    def __init__(
        self, site: SiteId, groups: Iterable[GroupId], rows: dict[str, list[Any]], spill: Callable[[], None]
    ) -> None:
        self.site = site
        self.incarnation = 0
        self._seq = 0
        self._rows = rows
        self._spill = spill
        self._sends = rows["send"]
        self._receives = rows["receive"]
        self._delivers = rows["deliver"]
        self._delivered: dict[MessageId, str | None] = {}
        """What the application has and was not taken back -> the view of its delivery."""
        self._expected: dict[MessageId, Multicast] = {}
        self._in: set[GroupId] = set(groups)

    def _next(self) -> int:
        seq = self._seq
        self._seq = seq + 1
        return seq

    # ------------------------------------------------------------------ packets
    def send(self, time: float, peer: SiteId | None, envelope: Envelope, number: int | None = None) -> None:
        """A packet leaves for `peer` (None: a network multicast)."""
        if self._expected and envelope.served:
            self._multicast_expected(time, envelope.served)
        seq = self._seq
        self._seq = seq + 1
        self._sends.extend((self.site, seq, time, self.incarnation, peer, number, envelope))

    def receive(self, time: float, envelope: Envelope, number: int | None = None, cost: int = 0) -> None:
        """A packet reaches the protocol."""
        seq = self._seq
        self._seq = seq + 1
        self._receives.extend((self.site, seq, time, self.incarnation, envelope.sender, number, envelope, cost))
        # Asked here only: where nothing is received, nothing is sent or delivered for long.
        if len(self._receives) >= _VALUES_PER_CHUNK:
            self._spill()

    def drop(self, time: float, envelope: Envelope, number: int, reason: str) -> None:
        """A packet to this site is lost."""
        self._rows["drop"].extend(
            (self.site, self._next(), time, self.incarnation, envelope.sender, number, envelope, reason)
        )

    # ------------------------------------------------------------------ messages
    def expect(self, multicast: Multicast) -> None:
        """The application has handed over a message that is not stable yet; `multicast` or the first send of it makes
        it one.

        A crash may lose it before (then it was never multicast), or may lose only the step that was about to send it:
        the record is in the log, and the next incarnation sends it.
        """
        self._expected[multicast.id] = multicast

    def multicast(self, time: float, multicast: Multicast, service: str | None = None) -> None:
        """The source multicasts, perhaps through a proxy; recorded before the first send of it."""
        self._expected.pop(multicast.id, None)
        self._rows["multicast"].extend((self.site, self._next(), time, self.incarnation, multicast, service))

    def recall(self, time: float, multicast: Multicast) -> None:
        """An own message stands in the log after a restart; it is recorded as multicast unless it was."""
        self._multicast_expected(time, (multicast.id,))

    def _multicast_expected(self, time: float, messages: tuple[MessageId, ...]) -> None:
        for message in messages:
            if message in self._expected:
                self.multicast(time, self._expected[message])

    def deliver(self, time: float, effect: Deliver | Replay) -> None:
        """A message goes to the application."""
        message = effect.multicast.id
        if self._expected and message in self._expected:
            self.multicast(time, self._expected[message])
        self._delivered[message] = effect.view
        seq = self._seq
        self._seq = seq + 1
        self._delivers.extend((self.site, seq, time, self.incarnation, effect))

    def has_seen(self, message: MessageId, before: str | None = None) -> bool:
        """Whether the message was delivered to the application before, and not taken back; `before` that view."""
        return message in self._delivered and is_before(self._delivered[message], before)

    def replay(self, time: float, effect: Replay) -> bool:
        """A message from the log goes to the application again; whether it knows it already. (A simulated application
        remembers what it was given.)"""
        if effect.multicast.id not in self._delivered:
            self.deliver(time, effect)
            return False
        self._rows["replay"].extend((self.site, self._next(), time, self.incarnation, effect))
        return True

    def rollback(self, time: float, effect: Rollback) -> None:
        """A delivery is taken back: should the log say it again, the application does not know it."""
        self._delivered.pop(effect.multicast.id, None)
        self._rows["rollback"].extend((self.site, self._next(), time, self.incarnation, effect.multicast))

    # ------------------------------------------------------------------ the site and its views
    def fail(self, time: float, reason: str | None = None) -> None:
        """The site fails: it crashes, or is too slow for phi_p; `refused` is the reason where it must not take part."""
        self._rows["fail"].extend((self.site, self._next(), time, self.incarnation, reason))

    def declare_failed(self, time: float, seconds: float) -> None:
        """The site has counted as failed for so many seconds (the columns see to it that no row is earlier than the one
        before), and is awake."""
        self.fail(time - seconds)
        self.awake(time, self.incarnation)

    def awake(self, time: float, incarnation: int) -> None:
        """The site runs again."""
        self.incarnation = incarnation
        self._rows["awake"].extend((self.site, self._next(), time, incarnation))

    def recover(self, time: float) -> None:
        """The site takes part fully again."""
        self._rows["recover"].extend((self.site, self._next(), time, self.incarnation))

    def view(self, time: float, effect: InstallView) -> None:
        """The site installs a view."""
        self._rows["view"].extend((self.site, self._next(), time, self.incarnation, effect))

    def join(self, time: float, group: GroupId, offset: int) -> None:
        """The site delivers what is ordered in a group in which it was not, from this offset on."""
        if group not in self._in:
            self._in.add(group)
            self._rows["join"].extend((self.site, self._next(), time, self.incarnation, group, offset))

    def leave(self, time: float, group: GroupId) -> None:
        """The site is owed nothing more of the group."""
        self._in.discard(group)
        self._rows["leave"].extend((self.site, self._next(), time, self.incarnation, group))

    def activate(self, time: float, effect: Activate) -> None:
        """The site's deliveries have a service from here on."""
        self._rows["activate"].extend((self.site, self._next(), time, self.incarnation, effect))
