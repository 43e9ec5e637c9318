"""UP, AWAKE and REACH (Spauster 6.3) for many windows at once.

A window is [t, t+d]. Everything here compares times with `t + d` as it stands in the definitions, never `f - d` with
`t`: the two round differently.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from ordercast.check.facts.columns import Bools, Columns, Floats
from ordercast.check.facts.packets import Packets


class SiteOutages(NamedTuple):
    """The fails of one site, by time, and when it was back from each of them and all before."""

    fails: Floats
    awake_again: Floats
    up_again: Floats

    def up(self, start: Floats, length: float) -> Bools:
        return _clear(self.fails, self.up_again, start, length)

    def awake(self, start: Floats, length: float) -> Bools:
        return _clear(self.fails, self.awake_again, start, length)

    def fails_between(self, low: Floats, high: Floats) -> Bools:
        """Whether there is a fail strictly between."""
        return any_between(self.fails, low, high)


class Outages:
    """The failures of all sites."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._sites: dict[int, SiteOutages] = {}

    def __getitem__(self, site: int) -> SiteOutages:
        if site not in self._sites:
            self._sites[site] = self._outages(site)
        return self._sites[site]

    @cached_property
    def any(self) -> bool:
        return len(self.columns.rows("fail")) > 0

    @cached_property
    def correct(self) -> Bools:
        """Of each site, whether it never failed or recovered after its last fail."""
        correct = np.ones(len(self.columns.sites), dtype=bool)
        for row in self.columns.rows("fail").tolist():
            site = int(self.columns.site[row])
            recoveries = self.columns.rows_at("recover", site)
            correct[site] = len(recoveries) > 0 and recoveries[-1] > row
        return correct

    @cached_property
    def back(self) -> dict[int, int]:
        """Of each site that failed and came back after its last fail, the row where it did."""
        columns, back = self.columns, {}
        for site in sorted({int(columns.site[row]) for row in columns.rows("fail").tolist()}):
            last = columns.rows_at("fail", site)[-1]
            returns = np.concatenate([columns.rows_at("awake", site), columns.rows_at("recover", site)])
            if (returns > last).any():
                back[site] = int(returns[returns > last].min())
        return back

    @cached_property
    def refusals(self) -> list[Floats]:
        """Per site, when it was refused and stopped, by time."""
        columns, rows = self.columns, self.columns.refusal_rows()
        return [np.sort(columns.time[rows[columns.site[rows] == site]]) for site in range(len(columns.sites))]

    def _outages(self, site: int) -> SiteOutages:
        columns = self.columns
        fails = columns.rows_at("fail", site)
        if not len(fails):
            none = np.empty(0)
            return SiteOutages(none, none, none)
        recovers = columns.rows_at("recover", site)
        # A recover without an awake is both.
        awakes = np.sort(np.concatenate([columns.rows_at("awake", site), recovers]))
        order = np.argsort(columns.time[fails], kind="stable")
        fails = fails[order]

        def back(rows: np.ndarray) -> Floats:
            times = np.append(columns.time[rows], np.inf)
            return np.maximum.accumulate(times[np.searchsorted(rows, fails)])

        return SiteOutages(columns.time[fails], back(awakes), back(recovers))


class Network:
    """Which pairs of sites could reach each other when."""

    def __init__(self, columns: Columns, packets: Packets, outages: Outages, latency: float) -> None:
        self.columns = columns
        self._broken = self._find_broken(packets, outages, latency)

    def broken(self, first: int, second: int) -> Floats:
        """When packets between the two were sent that should have arrived and did not; sorted."""
        return self._broken.get((min(first, second), max(first, second)), _NONE)

    def reach(self, first: int, second: int, start: Floats, length: float) -> Bools:
        times = self.broken(first, second)
        if first == second or not len(times):
            return np.ones(len(start), dtype=bool)
        return np.append(times, np.inf)[np.searchsorted(times, start, "left")] > start + length

    def _find_broken(self, packets: Packets, outages: Outages, latency: float) -> dict[tuple[int, int], Floats]:
        columns = self.columns
        sends = columns.rows("send")
        index, receiver, received = packets.addressees(sends)
        sender, sent = columns.site[sends[index]], columns.time[sends[index]]
        late = (received > sent + latency) & (receiver >= 0) & (receiver != sender)
        sender, receiver, sent = sender[late], receiver[late], sent[late]
        if not len(sent):
            return {}
        pair = np.minimum(sender, receiver).astype(np.int64) * len(columns.sites) + np.maximum(sender, receiver)
        order = np.lexsort((sent, pair))
        pair, sent = pair[order], sent[order]
        found, starts = np.unique(pair, return_index=True)
        broken = {}
        for code, times in zip(found.tolist(), np.split(sent, starts[1:]), strict=True):
            first, second = divmod(code, len(columns.sites))
            # A packet to or from a site that was down proves nothing about the network.
            counts = outages[first].awake(times, latency) & outages[second].awake(times, latency)
            if counts.any():
                broken[first, second] = times[counts]
        return broken


def any_between(moments: Floats, low: Floats, high: Floats) -> Bools:
    """Of each two times, whether one of the moments, which ascend, lies strictly between."""
    following = np.append(moments, np.inf)[np.searchsorted(moments, low, "right")]
    return following < high


def _clear(fails: Floats, back: Floats, start: Floats, length: float) -> Bools:
    if not len(fails):
        return np.ones(len(start), dtype=bool)
    before = np.searchsorted(fails, start, "left")
    following = np.append(fails, np.inf)[before]
    recovered = np.concatenate([[-np.inf], back])[before]
    return (following > start + length) & (recovered <= start)


class Earliest(NamedTuple):
    """The earliest good moment θ for each question; infinite where there is none."""

    moment: Floats
    attained: Bools
    """False: every moment just after is good, the moment itself is not."""


def earliest_good(start: Floats, length: float, receiver: SiteOutages, sender: SiteOutages, broken: Floats) -> Earliest:
    """The first θ >= start with UP(receiver, θ, length), AWAKE(sender, θ, length) and REACH over the same window.

    What spoils a window leaves it at one of few moments: when the site is back, or just after a fail or a broken
    packet. So θ is `start` itself or the first of those candidates, and only they need be looked at.
    """
    good_at_once = (
        receiver.up(start, length) & sender.awake(start, length) & _free_of(broken, start, length, closed=True)
    )
    back = np.concatenate([receiver.up_again, sender.awake_again])
    after = np.concatenate([receiver.fails, sender.fails, broken])
    candidates = np.concatenate([back[np.isfinite(back)], after])
    attained = np.zeros(len(candidates), dtype=bool)
    attained[: len(candidates) - len(after)] = True
    good = np.where(
        attained,
        receiver.up(candidates, length)
        & sender.awake(candidates, length)
        & _free_of(broken, candidates, length, closed=True),
        _clear_just_after(receiver.fails, receiver.up_again, candidates, length)
        & _clear_just_after(sender.fails, sender.awake_again, candidates, length)
        & _free_of(broken, candidates, length, closed=False),
    )
    candidates, attained = candidates[good], attained[good]
    order = np.lexsort((~attained, candidates))
    candidates, attained = candidates[order], attained[order]
    place = np.searchsorted(candidates, start, "left")
    moment = np.append(candidates, np.inf)[place]
    exact = np.append(attained, True)[place]
    return Earliest(np.where(good_at_once, start, moment), good_at_once | exact)


def _clear_just_after(fails: Floats, back: Floats, moment: Floats, length: float) -> Bools:
    """Like `_clear` for a window that begins an instant after `moment`."""
    if not len(fails):
        return np.ones(len(moment), dtype=bool)
    before = np.searchsorted(fails, moment, "right")
    following = np.append(fails, np.inf)[before]
    recovered = np.concatenate([[-np.inf], back])[before]
    return (following > moment + length) & (recovered <= moment)


def _free_of(times: Floats, moment: Floats, length: float, closed: bool) -> Bools:
    if not len(times):
        return np.ones(len(moment), dtype=bool)
    following = np.append(times, np.inf)[np.searchsorted(times, moment, "left" if closed else "right")]
    return following > moment + length


_NONE: Floats = np.empty(0)
