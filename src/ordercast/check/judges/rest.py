"""What a run still does and keeps when nobody wants anything any more: judged in settled runs with all sites up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ordercast.check.facts import Facts
from ordercast.check.facts.columns import Ints
from ordercast.check.verdict import NOT_JUDGED, WITNESSES_MAX, Finding, Witness


def judge_quiescence(facts: Facts) -> Finding:
    """At the end nobody sends more than it says that it does, and nothing that serves a message."""
    bounds = _bounds(facts)
    if not facts.run.settled or "seconds" not in bounds or "packets" not in bounds:
        return NOT_JUDGED
    if not _is_at_rest(facts):
        return Finding(obliged=False)
    columns, seconds = facts.columns, float(bounds["seconds"])

    def count(rows: Ints) -> Ints:
        late = rows[columns.time[rows] > facts.run.ended_at - seconds]
        return np.bincount(columns.site[late], minlength=len(columns.sites)).astype(np.int64)

    sent, serving = count(columns.rows("send")), count(np.unique(facts.packets.sends.row))
    allowed = float(bounds["packets"]) * seconds
    witnesses = []
    for site in np.flatnonzero((sent > allowed) | (serving > 0)).tolist():
        what = f"{serving[site]} packets that serve messages" if serving[site] else f"{sent[site]} packets"
        why = "{0} still sends {what} in the last {seconds} s, when everything is delivered"
        witnesses.append(facts.witness((site,), (), why, what=what, seconds=f"{seconds:g}"))
    has_rows = np.diff(columns.site_start) > 0
    return Finding(bool(has_rows.any()), witnesses[:WITNESSES_MAX])


def judge_no_leak(facts: Facts) -> Finding:
    """Nobody keeps more than it says for messages that are delivered everywhere."""
    bounds = _bounds(facts)
    if not facts.run.settled or "messages" not in bounds or "entries" not in bounds:
        return NOT_JUDGED
    kinds = ("messages", "entries")

    def leaks(kept: dict[str, int]) -> Iterator[str]:
        for kind in kinds:
            if kept.get(kind, 0) > bounds[kind]:
                yield f"keeps {kept[kind]} {kind} at the end, {bounds[kind]} at the most are declared"

    return _judge_sites(facts, kinds, leaks)


def judge_credit_returned(facts: Facts) -> Finding:
    """Nobody waits for credit, and nobody who wanted to multicast now would have to."""
    if not facts.run.settled:
        return NOT_JUDGED

    least = int(_bounds(facts).get("credit", 1))

    def lacks(kept: dict[str, int]) -> Iterator[str]:
        if kept.get("waiting", 0) > 0:
            yield f"has {kept['waiting']} messages that wait for credit at the end"
        if kept.get("credit", least) < least:
            yield f"has credit for {kept['credit']} messages at the end, at least {least} is declared"

    return _judge_sites(facts, ("waiting", "credit"), lacks)


def _bounds(facts: Facts) -> dict[str, Any]:
    return dict(facts.run.bounds.get("rest") or {})


def _is_at_rest(facts: Facts) -> bool:
    return bool(facts.outages.correct.all())


def _judge_sites(facts: Facts, kinds: tuple[str, ...], wrong: Callable[[dict[str, int]], Iterable[str]]) -> Finding:
    """What is wrong with what a site keeps, for each one that tells anything of these kinds."""
    if not _is_at_rest(facts):
        return Finding(obliged=False)
    told = {site: kept for site, kept in sorted(facts.run.rest.items()) if any(kind in kept for kind in kinds)}
    witnesses = [Witness((site,), (), f"{site} {why}") for site, kept in told.items() for why in wrong(kept)]
    return Finding(bool(told), witnesses[:WITNESSES_MAX])
