"""Campaigns that are steered: runs that took two branches together which no run had taken together before are led
further, by turns.

A branch that each of a hundred runs takes is nothing new; two rare ones in one run are where rules meet that were
thought out apart. The swarm meets a pair of branches that each take one run of fifty once in 2,500 runs. A run that has
taken one of them is closer to the other than a new one.

Runs come in islands, each of which knows of its own runs alone: so an island is a job of one process, and the result
depends neither on the number of processes nor on which of them is faster.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, count
from typing import Final

import msgspec
from msgspec.structs import replace

from ordercast.campaign.campaign import Report
from ordercast.campaign.draw import Draw
from ordercast.campaign.outcome import Outcome, run_draw
from ordercast.campaign.turns import TURN_NUMBERS, TURNS_MAX
from ordercast.campaign.workers import work
from ordercast.core import Protocol, random_stream
from ordercast.protocols import find_protocol

ISLAND_RUNS: Final = 200
"""Enough for turns upon turns, and few enough that two processors have something to do in a short campaign."""
NEW_SHARE: Final = 0.5
"""Of the runs, so many are of new seeds: what no run is close to is only found by chance."""
LED_MAX: Final = 64
"""Runs that can be led further at a time: the latest, for what they have shown is the rarest."""

Island = tuple[str, int, int]
"""Protocol, first seed, runs."""
Pair = tuple[str, str]
"""Two branches that one run took."""


def run_steered(
    protocols: Sequence[str],
    seeds: range,
    *,
    workers: int | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """As many runs of every protocol as there are seeds, the first of them from these; on so many processes."""
    starts = range(seeds.start, seeds.stop, ISLAND_RUNS)
    islands: list[Island] = [
        (name, start, min(ISLAND_RUNS, seeds.stop - start)) for start in starts for name in protocols
    ]
    found: dict[Island, list[Outcome]] = {}
    total, done = len(seeds) * len(protocols), 0
    on_progress(done, total)
    for island, outcomes in work(_run_island, islands, workers, chunk=1):
        found[island] = outcomes
        done += len(outcomes)
        on_progress(done, total)
    in_order = sorted(islands, key=lambda island: protocols.index(island[0]))
    return Report(tuple(outcome for island in in_order for outcome in found[island]))


def _run_island(island: Island) -> tuple[Island, list[Outcome]]:
    name, start, runs = island
    return island, list(steer(find_protocol(name), start, runs))


class _Led(msgspec.Struct):
    """A run that has shown something new."""

    draw: Draw
    pairs: frozenset[Pair]
    times: int = 0
    """That it was led further."""

    def weight(self, seen: Counter[Pair]) -> float:
        """The rarer what it has shown, and the less it was tried, the likelier it is the next one."""
        return sum(1 / seen[pair] for pair in self.pairs) / (1 + self.times)


def steer(protocol: type[Protocol], start: int, runs: int) -> Iterator[Outcome]:
    """One island: the outcomes, as they come."""
    random = random_stream(start, "steering", protocol.contract.name)
    seen: Counter[Pair] = Counter()
    fruitful: deque[_Led] = deque(maxlen=LED_MAX)
    seeds = count(start)
    for _ in range(runs):
        if not fruitful or random.random() < NEW_SHARE:
            draw = Draw(protocol, next(seeds))
        else:
            [led] = random.choices(fruitful, [run.weight(seen) for run in fruitful])
            led.times += 1
            draw = replace(led.draw, turns=(*led.draw.turns, random.randrange(TURN_NUMBERS)))
        outcome = run_draw(draw).outcome
        pairs = branch_pairs(outcome)
        if len(draw.turns) < TURNS_MAX and not all(pair in seen for pair in pairs):
            fruitful.append(_Led(draw, pairs))
        seen.update(pairs)
        yield outcome


def branch_pairs(outcome: Outcome) -> frozenset[Pair]:
    """The branches that a run took together."""
    return frozenset(combinations(sorted(branch for branch, times in outcome.branches.items() if times), 2))
