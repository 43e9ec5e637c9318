"""How long the others stood still when a process was killed, and until they had a view without it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from ordercast.chaos.record import Strike
from ordercast.core import GroupId, SiteId
from ordercast.node.surroundings import place_of
from ordercast.trace.schema import Event

_DELIVER, _VIEW = b'"deliver"', b'"view"'
_decode = msgspec.json.Decoder(Event).decode

LOOK_SECONDS = 5.0
"""After a kill: whoever has gone on by then stands still for another reason later."""
APART_SECONDS = 3.0
"""Between the end of one fault and a kill, so that nobody waits for both."""


class Wait(msgspec.Struct, frozen=True):
    """What one kill cost."""

    killed: SiteId
    at: float
    """On the clock of the traces."""
    slowest: SiteId
    seconds: float
    """The longest time in which the slowest of the others delivered nothing."""
    alone: bool
    """Whether nothing else was wrong at that time."""


def find_waits(
    groups: Mapping[GroupId, tuple[SiteId, ...]],
    strikes: Sequence[Strike],
    times_of: Callable[[SiteId], Sequence[float]],
) -> list[Wait]:
    """One for each kill, from the times at which those who are in the same groups have delivered something."""
    waits = []
    for kill in sorted(strikes, key=lambda strike: strike.began):
        if kill.kind != "kill":
            continue
        (killed,) = kill.processes
        gaps = {
            site: _longest_gap(times_of(site), kill.began, kill.began + LOOK_SECONDS)
            for site in _fellows(killed, groups)
            if not any(site in strike.processes and _overlap(strike, kill) for strike in strikes)
            and _is_there(site, kill, strikes)
            and _is_back(site, kill, strikes, times_of(site))
        }
        if gaps:
            slowest = max(gaps, key=lambda site: gaps[site])
            alone = not any(_overlap(strike, kill) for strike in strikes if strike is not kill)
            waits.append(Wait(killed, kill.began, slowest, round(gaps[slowest], 3), alone))
    return waits


class View(msgspec.Struct, frozen=True):
    """One that a process has installed."""

    time: float
    groups: tuple[GroupId, ...]
    members: frozenset[SiteId]


class WithoutIt(msgspec.Struct, frozen=True):
    """When the last of the others had a view without one that was killed."""

    killed: SiteId
    at: float
    """On the clock of the traces."""
    last: SiteId
    seconds: float
    alone: bool
    """Whether nothing else was wrong at that time."""


def find_views(strikes: Sequence[Strike], views: Mapping[SiteId, Sequence[View]]) -> list[WithoutIt]:
    """One for each kill of a process that was in the view of another one. Each life has a name of its own."""
    found = []
    for kill in sorted(strikes, key=lambda strike: strike.began):
        if kill.kind != "kill":
            continue
        (killed,) = kill.processes
        hurt = {
            process
            for strike in strikes
            if strike.began < kill.began + LOOK_SECONDS and kill.began < strike.ended
            for process in strike.processes
        }
        times = {
            life: time
            for life, installed in views.items()
            if place_of(life) not in hurt and (time := _first_without(killed, kill.began, installed)) is not None
        }
        if times:
            last = max(times, key=lambda life: times[life])
            alone = not any(_overlap(strike, kill) for strike in strikes if strike is not kill)
            found.append(WithoutIt(killed, kill.began, last, round(times[last] - kill.began, 3), alone))
    return found


def _first_without(killed: SiteId, began: float, installed: Sequence[View]) -> float | None:
    """When the last group of one process had a view without any life of the one that was killed; None when it was in
    none of its views, or nothing followed."""
    current = {view.groups: view.members for view in installed if view.time <= began}
    times = []
    for groups, members in current.items():
        dead = {member for member in members if place_of(member) == killed}
        later = (view for view in installed if view.time > began and view.groups == groups)
        time = next((view.time for view in later if not dead & view.members), None)
        if dead and time is not None:
            times.append(time)
    return max(times, default=None)


def _fellows(process: SiteId, groups: Mapping[GroupId, tuple[SiteId, ...]]) -> list[SiteId]:
    """Those who are in exactly the same groups."""
    own = {group for group, members in groups.items() if process in members}
    everyone = sorted({site for members in groups.values() for site in members} - {process})
    return [site for site in everyone if {group for group, members in groups.items() if site in members} == own]


def _is_there(site: SiteId, kill: Strike, strikes: Sequence[Strike]) -> bool:
    """Whether a process had come by then, and had not left. (Else: it comes half a minute after the kill, and its first
    delivery ends a wait of half a minute.)"""
    own = [strike for strike in strikes if site in strike.processes]
    return all(strike.ended <= kill.began for strike in own if strike.kind == "join") and all(
        strike.began > kill.began for strike in own if strike.kind == "leave"
    )


def _is_back(site: SiteId, kill: Strike, strikes: Sequence[Strike], times: Sequence[float]) -> bool:
    """Whether a process has delivered something since it was killed itself. (Else: it reads its log when another one is
    killed, and its start counts as a wait for that one.)"""
    own = [
        each.ended for each in strikes if each.kind == "kill" and site in each.processes and each.ended <= kill.began
    ]
    return not own or bisect_right(times, max(own)) < bisect_right(times, kill.began)


def _overlap(strike: Strike, kill: Strike) -> bool:
    return strike.began < kill.began + LOOK_SECONDS and kill.began < strike.ended + APART_SECONDS


def _longest_gap(times: Sequence[float], began: float, until: float) -> float:
    """The longest time without a delivery that begins in between, whenever it ends."""
    ends = times[bisect_right(times, began) : bisect_right(times, until) + 1]
    return max((end - start for start, end in pairwise((began, *ends))), default=until - began)


def delivery_times(trace: Path) -> Callable[[SiteId], Sequence[float]]:
    """Process -> when it has delivered something, by its trace, which is read when somebody asks."""

    @cache
    def times_of(site: SiteId) -> Sequence[float]:
        times: list[float] = []
        for path in trace.glob("*/events.jsonl"):
            if place_of(path.parent.name) == site:
                with path.open("rb") as file:
                    rows = map(_decode, (line for line in file if _DELIVER in line))
                    times += [row.time for row in rows if row.kind == "deliver"]
        return sorted(times)

    return times_of


def read_views(trace: Path) -> dict[SiteId, list[View]]:
    """Life -> its views, by its trace."""
    found: dict[SiteId, list[View]] = {}
    for path in trace.glob("*/events.jsonl"):
        with path.open("rb") as file:
            rows = map(_decode, (line for line in file if _VIEW in line))
            for row in rows:
                if row.kind == "view":
                    view = View(row.time, tuple(row.groups or ()), frozenset(row.members or ()))
                    found.setdefault(row.site, []).append(view)
    return found


def describe_views(found: Sequence[WithoutIt]) -> dict[str, Any] | None:
    """The JSON document; None where nobody who was in a view was killed."""
    if not found:
        return None
    seconds = [each.seconds for each in found]
    return {"kills": msgspec.to_builtins(found), "median_seconds": median(seconds), "worst_seconds": max(seconds)}


def views_text(views: Mapping[str, Any]) -> str:
    """One line for people."""
    return (
        f"the last of the others had a view without the killed process after {views['median_seconds']:.2f} s (median "
        f"of {len(views['kills'])} kills), {views['worst_seconds']:.2f} s at the most"
    )


def describe_waits(waits: Sequence[Wait]) -> dict[str, Any] | None:
    """The JSON document; None where nobody was killed while others were there."""
    alone = [wait.seconds for wait in waits if wait.alone]
    if not waits:
        return None
    return {
        "kills": msgspec.to_builtins(waits),
        "alone": len(alone),
        "median_seconds": round(median(alone), 3) if alone else None,
        "worst_seconds": max(alone, default=None),
    }


def waits_text(waits: Mapping[str, Any]) -> str:
    """One line for people."""
    if not waits["alone"]:
        return f"{len(waits['kills'])} kills, and each time something else was wrong, too"
    return (
        f"of {len(waits['kills'])} kills, {waits['alone']} struck while nothing else was wrong: the others stood still "
        f"for {waits['median_seconds']:.2f} s (median), {waits['worst_seconds']:.2f} s at the most"
    )
