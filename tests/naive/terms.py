"""The terms of docs/properties.md, as plain functions over a list of rows. Slow and obvious on purpose.

A row is a dict with the columns of the trace; an absent key is null. Times and sequence numbers are compared exactly
as the page says: by `seq` within a site, by `time` across sites.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from itertools import pairwise
from math import inf
from typing import Any

Row = dict[str, Any]
Run = dict[str, Any]
# The sites and the messages of one violation, each sorted.
Violation = tuple[tuple[str, ...], tuple[str, ...]]
Outcome = tuple[str, set[Violation]]

EVERYTHING = None  # The views that name no group are of everything.
HOLDS, VIOLATED, VACUOUS, NOT_JUDGED = "holds", "violated", "vacuous", "not-judged"


def violation(sites: Iterable[str], messages: Iterable[str]) -> Violation:
    return tuple(sorted(set(sites))), tuple(sorted(set(messages)))


def outcome(obliged: bool, violations: set[Violation]) -> Outcome:
    """The verdict of a property that can be judged."""
    if violations:
        return VIOLATED, violations
    return (HOLDS if obliged else VACUOUS), violations


class Terms:
    """One run with its rows, and what follows from them. Everything is computed once and never changed."""

    def __init__(self, run: Run, rows: list[Row]) -> None:
        self.run = run
        self.rows = rows
        self.ended_at: float = run["ended_at"]
        self.bounds: dict[str, Any] = run.get("bounds") or {}
        self.services: list[str] | None = run.get("services of the property")
        self.sites = sorted(
            {site for members in run["groups"].values() for site in members} | {r["site"] for r in rows}
        )
        self.rows_of = {
            site: sorted((row for row in rows if row["site"] == site), key=lambda row: row["seq"])
            for site in self.sites
        }
        self._of_kind: dict[tuple[str, ...], list[Row]] = {}
        self.multicast_row: dict[str, Row] = {}
        for row in sorted(rows, key=lambda row: (row["time"], row["site"], row["seq"])):
            if row["kind"] == "multicast" and row["message"] not in self.multicast_row:
                self.multicast_row[row["message"]] = row
        self.known = sorted(self.multicast_row)
        self.deliveries_of = {site: self.of_kind(site, "deliver") for site in self.sites}
        self.first_delivery: dict[tuple[str, str], Row] = {}
        for site in self.sites:
            for row in self.deliveries_of[site]:
                self.first_delivery.setdefault((site, row["message"]), row)
        self.delivered_messages = sorted({message for _, message in self.first_delivery})
        self.sends = [row for row in rows if row["kind"] == "send"]
        self.fails_of = {site: [row["time"] for row in self.of_kind(site, "fail")] for site in self.sites}
        self._owed: dict[str, frozenset[str]] = {}
        self._broken: list[tuple[str, str, float]] | None = None

    def of_kind(self, site: str, *kinds: str) -> list[Row]:
        """The rows of these kinds at a site, in order."""
        if (site, *kinds) not in self._of_kind:
            self._of_kind[site, *kinds] = [row for row in self.rows_of.get(site, []) if row["kind"] in kinds]
        return self._of_kind[site, *kinds]

    # Messages

    def source(self, message: str) -> str | None:
        return self.multicast_row[message]["site"] if message in self.multicast_row else None

    def destinations(self, message: str) -> list[str] | None:
        return self.multicast_row[message].get("destinations")

    def groups(self, message: str) -> list[str]:
        return self.multicast_row[message].get("groups") or []

    def address(self, message: str) -> Set[tuple[str, str]]:
        """Groups and sites are told apart, so that a group that is named like a site is not taken for it."""
        if message not in self.multicast_row:
            return frozenset()
        destinations = self.destinations(message)
        if destinations is not None:
            return frozenset(("site", site) for site in destinations)
        return frozenset(("group", group) for group in self.groups(message))

    def begin(self, message: str) -> float:
        sends = [row["time"] for row in self.sends if serves(row, message)]
        return min([self.multicast_row[message]["time"], *sends])

    def multicast_before(self, message: str, other: str) -> bool:
        """Both of one source: which multicast row comes first there."""
        return self.multicast_row[message]["seq"] < self.multicast_row[other]["seq"]

    def delivered_before(self, site: str, message: str, other: str) -> bool:
        """Both delivered at the site: which first delivery comes first."""
        return self.first_delivery[site, message]["seq"] < self.first_delivery[site, other]["seq"]

    # Membership

    def is_member_at(self, row: Row, group: str) -> bool:
        view = self.latest_view(row["site"], group, row["seq"])
        return self.has_joined(row["site"], group, row["seq"]) or (
            view is not None and row["site"] in (view.get("members") or [])
        )

    def has_joined(self, site: str, group: str, seq: float = inf) -> bool:
        """Whether its last join or leave row before this `seq` is a join, or the run's groups name it."""
        moves = [row for row in self.of_kind(site, "join", "leave") if names(row, group) and row["seq"] < seq]
        return moves[-1]["kind"] == "join" if moves else site in self.run["groups"].get(group, [])

    def was_ever_member(self, site: str, group: str) -> bool:
        return (
            site in self.run["groups"].get(group, [])
            or any(group in (row.get("groups") or []) for row in self.of_kind(site, "join"))
            or any(
                site in (row.get("members") or []) and group in (row.get("groups") or [])
                for row in self.of_kind(site, "view")
            )
        )

    def ever_addressed(self, message: str) -> Set[str]:
        """The sites to which the message was addressed by any membership that they had during the run."""
        if message not in self.multicast_row:
            return frozenset()
        explicit = self.destinations(message)
        if explicit is not None:
            return frozenset(explicit)
        return {site for site in self.sites for group in self.groups(message) if self.was_ever_member(site, group)}

    def owed(self, message: str) -> Set[str]:
        """Group(m): the destinations that are owed the message; of an unknown message, none."""
        if message not in self.multicast_row:
            return frozenset()
        if message not in self._owed:
            self._owed[message] = frozenset(self._destinations_owed(message))
        return self._owed[message]

    def _destinations_owed(self, message: str) -> Iterable[str]:
        destinations = self.destinations(message)
        if destinations is not None:
            yield from destinations
            return
        begin = self.begin(message)
        for group in self.groups(message):
            for site in self.sites:
                member = site in self.run["groups"].get(group, [])
                left_later = False
                for row in self.of_kind(site, "join", "leave"):
                    if group not in (row.get("groups") or []):
                        continue
                    if row["time"] <= begin:
                        member = row["kind"] == "join"
                    elif row["kind"] == "leave":
                        left_later = True
                if member and not left_later:
                    yield site

    # Views and services

    def every_group(self) -> list[str | None]:
        """Each group that anything names, and everything."""
        named = {group for row in self.rows for group in row.get("groups") or []}
        return [*sorted(named | set(self.run["groups"])), EVERYTHING]

    def views_of(self, site: str, group: str | None) -> list[Row]:
        views = self.of_kind(site, "view")
        if group is EVERYTHING:
            return [row for row in views if not row.get("groups")]
        return [row for row in views if names(row, group)]

    def leaves_between(self, site: str, group: str | None, first: Row, seq: float) -> bool:
        return any(
            group is not EVERYTHING and names(row, group) and first["seq"] < row["seq"] < seq
            for row in self.of_kind(site, "leave")
        )

    def latest_view(self, site: str, group: str | None, seq: float = inf) -> Row | None:
        """The latest view of the group at a row of the site with this `seq`."""
        views = [row for row in self.views_of(site, group) if row["seq"] < seq]
        return None if not views or self.leaves_between(site, group, views[-1], seq) else views[-1]

    def view_changes(self, site: str, group: str | None) -> list[tuple[Row, Row]]:
        """Two views of the group, one right after the other, with no leave between."""
        return [
            (view, following)
            for view, following in pairwise(self.views_of(site, group))
            if not self.leaves_between(site, group, view, following["seq"])
        ]

    def concerns(self, activation: Row, message: str) -> bool:
        groups, source = activation.get("groups"), activation.get("source")
        of_group = not groups or (self.destinations(message) is None and set(groups) & set(self.groups(message)))
        return bool(of_group) and source in (None, self.source(message))

    def is_active_for(self, site: str, message: str) -> bool:
        """Whether the site has one of the services active for the message since before it began."""
        concerning = [row for row in self.of_kind(site, "activate") if self.concerns(row, message)]
        if any(row["time"] >= self.begin(message) for row in concerning):
            return False
        if self.services is None:
            return True
        return bool(concerning) and concerning[-1].get("service") in self.services

    def due(self, message: str) -> Set[str]:
        """Those that are owed the message where services count."""
        if self.services is None:
            return self.owed(message)
        return {site for site in self.owed(message) if self.is_active_for(site, message)}

    # Failures

    def is_correct(self, site: str) -> bool:
        fails = self.of_kind(site, "fail")
        return not fails or any(recover["seq"] > fails[-1]["seq"] for recover in self.of_kind(site, "recover"))

    def is_awake(self, site: str, start: float, length: float) -> bool:
        return self._is_steady(site, start, length, self.of_kind(site, "awake", "recover"))

    def is_up(self, site: str, start: float, length: float) -> bool:
        return self._is_steady(site, start, length, self.of_kind(site, "recover"))

    def _is_steady(self, site: str, start: float, length: float, returns: list[Row]) -> bool:
        for fail in self.of_kind(site, "fail"):
            if start <= fail["time"] <= start + length:
                return False
            if fail["time"] < start and not any(
                back["seq"] > fail["seq"] and back["time"] <= start for back in returns
            ):
                return False
        return True

    # Packets

    def addressed_by(self, send: Row) -> list[str]:
        """The sites that a send row goes to."""
        if send.get("peer") is not None:
            return [send["peer"]]
        return [
            site
            for site in self.sites
            if any(row.get("packet_id") == send["packet_id"] for row in self.of_kind(site, "receive", "drop"))
        ]

    def broken_packets(self) -> list[tuple[str, str, float]]:
        """From, to, time of sending of each packet that should have arrived in time and has not."""
        if self._broken is None:
            phi_n = self.bounds["phi_n"]
            self._broken = []
            for send in self.sends:
                sender, sent = send["site"], send["time"]
                for receiver in self.addressed_by(send):
                    arrived = any(
                        row.get("packet_id") == send["packet_id"] and row["time"] <= sent + phi_n
                        for row in self.of_kind(receiver, "receive")
                    )
                    if not arrived and self.is_awake(sender, sent, phi_n) and self.is_awake(receiver, sent, phi_n):
                        self._broken.append((sender, receiver, sent))
        return self._broken

    def can_reach(self, a: str, b: str, start: float, length: float) -> bool:
        if a == b:
            return True
        return not any(
            {sender, receiver} == {a, b} and start <= sent <= start + length
            for sender, receiver, sent in self.broken_packets()
        )


def names(row: Row, group: str | None) -> bool:
    return group in (row.get("groups") or [])


def for_property(name: str, run: Run, rows: list[Row]) -> tuple[Run, list[Row]]:
    """The run as it is judged for one property: without the deliveries whose service does not promise it."""
    services = [service for service, properties in (run.get("services") or {}).items() if name in properties]
    if not services:
        return run, rows
    counting = [row for row in rows if row["kind"] != "deliver" or row.get("service") in services]
    return {**run, "services of the property": services, "all rows": rows}, counting


def serves(row: Row, message: str) -> bool:
    return message in (row.get("messages") or [])


_latest: list[Terms] = []


def terms_of(run: Run, rows: list[Row]) -> Terms:
    """The terms of this very trace, computed once however many properties are asked about it in a row."""
    if not _latest or _latest[0].run is not run or _latest[0].rows is not rows:
        _latest[:] = [Terms(run, rows)]
    return _latest[0]
