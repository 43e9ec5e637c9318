"""Hunting one protocol class, a deliberately broken one for example: the first seed that shows what is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ordercast.campaign.draw import draw_scenario
from ordercast.campaign.outcome import Trial, run_scenario, run_seed
from ordercast.core import Protocol


class Found(NamedTuple):
    """A seed under which a claim fails, and the first such claim."""

    seed: int
    property: str


def find_violation(protocol: type[Protocol], seeds: Iterable[int]) -> Found | None:
    """The first seed whose run violates a claim of the protocol, with the property; None when all hold."""
    trial = find_failing_trial(protocol, seeds)
    return None if trial is None else Found(trial.outcome.seed, trial.outcome.violations[0].property)


def find_failing_trial(protocol: type[Protocol], seeds: Iterable[int], violated: str | None = None) -> Trial | None:
    """Like `find_violation`, with everything about the run; of one property, if that is asked for."""
    for seed in seeds:
        trial = run_seed(protocol, seed)
        if trial.outcome.violations and violated in (None, *trial.outcome.properties):
            return trial
    return None


def find_violation_without_faults(protocol: type[Protocol], seeds: Iterable[int]) -> Found | None:
    """The same workloads with default options, on networks that keep the order of packets, without any fault: a mutant
    must pass these, or any test would have found it."""
    for seed in seeds:
        network = "point-to-point" if seed % 2 and not protocol.contract.one_channel else "broadcast"
        outcome = run_scenario(draw_scenario(protocol, seed, network=network, calm=True)).outcome
        if outcome.violations:
            return Found(seed, outcome.violations[0].property)
    return None
