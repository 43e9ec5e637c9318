"""Records what happens at the sites of a run, around the protocol core; protocols contain no tracing code.

Rows are kept as small tuples, one list per kind of event, because that is what a simulation can afford on every
packet; they become columns when the trace is asked for (or when there are many of them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from ordercast.core import GroupId, MessageId, Multicast, SiteId
from ordercast.core.effects import Activate, Deliver, InstallView, Replay
from ordercast.trace.schema import EVENTS

_ROWS_PER_CHUNK = 1 << 19
"""Tuples take ten times the memory of columns: half a million of them are 200 MB, which is as far as a small machine
should go."""

_COMMON = ("site", "seq", "time", "incarnation")
_PACKET = ("peer", "packet", "packet_id", "messages", "size")
_DELIVERY = ("message", "source", "source_seq", "groups", "destinations", "count", "size")
_COLUMNS: dict[str, tuple[str, ...]] = {
    "multicast": (*_COMMON, *_DELIVERY, "depends"),
    "send": (*_COMMON, *_PACKET),
    "receive": (*_COMMON, *_PACKET, "cost"),
    "drop": (*_COMMON, *_PACKET, "reason"),
    "deliver": (*_COMMON, *_DELIVERY, "delivery", "parent", "order_key", "service", "view"),
    "replay": (*_COMMON, *_DELIVERY, "delivery", "parent", "order_key", "service", "view"),
    "rollback": (*_COMMON, "message"),
    "fail": _COMMON,
    "awake": _COMMON,
    "recover": _COMMON,
    "view": (*_COMMON, "view", "members", "transitional", "groups"),
    "join": (*_COMMON, "groups"),
    "leave": (*_COMMON, "groups"),
    "activate": (*_COMMON, "groups", "service"),
}


class Recorder:
    """The trace of one run in the making."""

    def __init__(self, run: str) -> None:
        self.run = run
        self._rows: dict[str, list[tuple[Any, ...]]] = {kind: [] for kind in _COLUMNS}
        self._chunks: list[pa.Table] = []
        self._sites: dict[SiteId, SiteRecorder] = {}
        self._names: dict[MessageId, str] = {}

    def site(self, name: SiteId) -> SiteRecorder:
        """The recorder of one site; it outlives the site's crashes."""
        if name not in self._sites:
            self._sites[name] = SiteRecorder(name, self._rows, self._spill)
        return self._sites[name]

    def table(self) -> pa.Table:
        """Everything recorded so far, sorted by site and seq."""
        self._spill()
        table = pa.concat_tables(self._chunks).combine_chunks()
        self._chunks = [table]
        return table.sort_by([("site", "ascending"), ("seq", "ascending")])

    def _spill(self) -> None:
        """Turn the tuples into columns and forget them."""
        for kind, rows in self._rows.items():
            if rows:
                given = dict(zip(_COLUMNS[kind], zip(*rows, strict=True), strict=True))
                rows.clear()
                self._chunks.append(self._columns(kind, given))
        if not self._chunks:
            self._chunks.append(EVENTS.empty_table())

    def _columns(self, kind: str, given: dict[str, tuple[Any, ...]]) -> pa.Table:
        length = len(given["seq"])
        columns = {name: self._column(name, values) for name, values in given.items()}
        columns["run"] = pa.repeat(self.run, length)
        columns["kind"] = pa.repeat(kind, length)
        return pa.table(
            [columns[field.name] if field.name in columns else pa.nulls(length, field.type) for field in EVENTS],
            schema=EVENTS,
        )

    def _column(self, name: str, values: tuple[Any, ...]) -> pa.Array:
        if name == "packet_id":
            return pa.array(values, pa.int64()).cast(pa.string())
        if name == "message":
            return pa.array(self._named(values), pa.string())
        if name in ("messages", "depends"):
            return self._named_lists(values)
        return pa.array(values, EVENTS.field(name).type)

    def _named(self, messages: Iterable[MessageId]) -> list[str]:
        names = self._names
        result = []
        for message in messages:
            name = names.get(message)
            if name is None:
                name = names[message] = str(message)
            result.append(name)
        return result

    def _named_lists(self, values: tuple[tuple[MessageId, ...] | None, ...]) -> pa.Array:
        present = [() if value is None else value for value in values]
        offsets = np.zeros(len(values) + 1, dtype=np.int32)
        np.cumsum([len(value) for value in present], out=offsets[1:])
        names = pa.array(self._named(chain.from_iterable(present)), pa.string())
        absent = np.array([value is None for value in values])
        return pa.ListArray.from_arrays(pa.array(offsets), names, mask=pa.array(absent) if absent.any() else None)


class SiteRecorder:
    """Records the events of one site, in their order there."""

    def __init__(self, site: SiteId, rows: dict[str, list[tuple[Any, ...]]], spill: Callable[[], None]) -> None:
        self.site = site
        self.incarnation = 0
        self._seq = 0
        self._rows = rows
        self._spill = spill
        self._sends = rows["send"]
        self._receives = rows["receive"]
        self._deliveries: dict[MessageId, int] = {}
        self._since_multicast: list[MessageId] = []
        self._expected: dict[MessageId, Multicast] = {}

    def _next(self) -> int:
        seq = self._seq
        self._seq = seq + 1
        return seq

    # ------------------------------------------------------------------ packets
    def send(
        self,
        time: float,
        peer: SiteId | None,
        packet: str,
        packet_id: int,
        messages: tuple[MessageId, ...] | None,
        size: int,
    ) -> None:
        """A packet leaves for `peer` (None: a network multicast)."""
        if self._expected and messages:
            self._multicast_expected(time, messages)
        seq = self._seq
        self._seq = seq + 1
        self._sends.append((self.site, seq, time, self.incarnation, peer, packet, packet_id, messages, size))
        if len(self._sends) >= _ROWS_PER_CHUNK:
            self._spill()

    def receive(
        self,
        time: float,
        peer: SiteId,
        packet: str,
        packet_id: int,
        messages: tuple[MessageId, ...] | None,
        size: int,
        cost: int,
    ) -> None:
        """A packet from `peer` reaches the protocol."""
        seq = self._seq
        self._seq = seq + 1
        self._receives.append((self.site, seq, time, self.incarnation, peer, packet, packet_id, messages, size, cost))
        if len(self._receives) >= _ROWS_PER_CHUNK:
            self._spill()

    def drop(
        self,
        time: float,
        peer: SiteId,
        packet: str,
        packet_id: int,
        messages: tuple[MessageId, ...] | None,
        size: int,
        reason: str,
    ) -> None:
        """A packet from `peer` to this site is lost."""
        self._rows["drop"].append(
            (self.site, self._next(), time, self.incarnation, peer, packet, packet_id, messages, size, reason)
        )

    # ------------------------------------------------------------------ messages
    def expect(self, multicast: Multicast) -> None:
        """The application has handed over a message that is not stable yet; `multicast` or the first send of it makes
        it one.

        A crash may lose it before (then it was never multicast), or may lose only the step that was about to send it:
        the record is in the log, and the next incarnation sends it.
        """
        self._expected[multicast.message] = multicast

    def multicast(self, time: float, multicast: Multicast) -> None:
        """The source multicasts; recorded before the first send of it."""
        self._expected.pop(multicast.message, None)
        self._rows["multicast"].append(
            (
                self.site,
                self._next(),
                time,
                self.incarnation,
                *_described(multicast),
                tuple(self._since_multicast),
            )
        )
        self._since_multicast.clear()

    def _multicast_expected(self, time: float, messages: tuple[MessageId, ...]) -> None:
        for message in messages:
            if message in self._expected:
                self.multicast(time, self._expected[message])

    def deliver(self, time: float, effect: Deliver | Replay) -> bool:
        """A message goes to the application; False when it is one from the log that the application had already."""
        message = effect.multicast.message
        if message in self._expected:
            self.multicast(time, self._expected[message])
        count = self._deliveries.get(message, 0)
        again = count > 0 and isinstance(effect, Replay)
        if not again:
            self._deliveries[message] = count = count + 1
            self._since_multicast.append(message)
        rows = self._rows["replay" if again else "deliver"]
        rows.append(
            (
                self.site,
                self._next(),
                time,
                self.incarnation,
                *_described(effect.multicast),
                count,
                effect.parent,
                effect.order_key,
                effect.service,
                effect.view,
            )
        )
        if len(rows) >= _ROWS_PER_CHUNK:
            self._spill()
        return not again

    def rollback(self, time: float, messages: tuple[MessageId, ...]) -> None:
        """Deliveries are taken back."""
        for message in messages:
            self._rows["rollback"].append((self.site, self._next(), time, self.incarnation, message))

    # ------------------------------------------------------------------ the site, its groups and views
    def fail(self, time: float) -> None:
        """The site fails: it crashes, or is too slow for phi_p."""
        self._rows["fail"].append((self.site, self._next(), time, self.incarnation))

    def awake(self, time: float, incarnation: int) -> None:
        """The site runs again."""
        self.incarnation = incarnation
        self._rows["awake"].append((self.site, self._next(), time, incarnation))

    def recover(self, time: float) -> None:
        """The site takes part fully again."""
        self._rows["recover"].append((self.site, self._next(), time, self.incarnation))

    def view(self, time: float, effect: InstallView) -> None:
        """The site installs a view."""
        self._rows["view"].append(
            (
                self.site,
                self._next(),
                time,
                self.incarnation,
                effect.view,
                effect.members,
                effect.transitional,
                effect.groups,
            )
        )

    def join(self, time: float, group: GroupId) -> None:
        """The site becomes a member."""
        self._rows["join"].append((self.site, self._next(), time, self.incarnation, (group,)))

    def leave(self, time: float, group: GroupId) -> None:
        """The site is a member no longer."""
        self._rows["leave"].append((self.site, self._next(), time, self.incarnation, (group,)))

    def activate(self, time: float, effect: Activate) -> None:
        """A delivery service begins."""
        self._rows["activate"].append(
            (self.site, self._next(), time, self.incarnation, (effect.group,), effect.service)
        )


def _described(multicast: Multicast) -> tuple[Any, ...]:
    """The columns of _DELIVERY."""
    message = multicast.message
    return (
        message,
        message.source,
        message.source_seq,
        multicast.groups,
        multicast.destinations,
        multicast.count,
        len(multicast.payload),
    )
