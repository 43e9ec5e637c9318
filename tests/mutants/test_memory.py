"""What notices lost memory, broken on purpose: the campaign must catch it."""

from __future__ import annotations

import tomllib

import pytest

from ordercast.campaign import draw_scenario, find_failing_trial, run_scenario
from ordercast.campaign.outcome import Trial
from ordercast.core.memory import Memory
from ordercast.protocols import find_protocol
from ordercast.sim.scenario import parse_scenario
from ordercast.sim.site.roll_call import RollCall

SEEDS = 400

FORGOTTEN_BY_ALL = """
protocol = "sequencer"
seed = 3
duration = 8.0
settle = 5.0
[groups]
g = ["a", "b", "c"]
[[workload]]
sources = ["a"]
groups = ["g"]
rate = 10.0
[[fault]]
kind = "rollback"
from = 3.0
to = 5.0
sites = ["a"]
[[fault]]
kind = "crash"
from = 3.2
to = 3.5
sites = ["b", "c"]
[options]
sequencer = "a"
"""


def seeds_with(protocol: str, *kinds: str) -> list[int]:
    drawn = {seed: draw_scenario(find_protocol(protocol), seed).faults for seed in range(SEEDS)}
    return [seed for seed, faults in drawn.items() if any(fault.kind in kinds for fault in faults)]


@pytest.mark.parametrize("protocol", ["sequencer", "two-phase", "lamport", "propagation-graph"])
def test_amnesia_that_is_not_noticed_is_a_silent_divergence(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory judges nothing: a site goes on without what others rely on."""
    monkeypatch.setattr(Memory, "judge", lambda *_arguments: None)
    trial = find_failing_trial(find_protocol(protocol), seeds_with(protocol, "rollback"), "no-silent-divergence")
    assert trial is not None
    assert trial.outcome.refused == 0


def test_a_memory_that_is_not_durable_lets_amnesia_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everyone who has heard of the lost records crashes before the site is back, and remembers nothing."""
    assert run_forgotten().outcome.properties == ()
    assert run_forgotten().outcome.refused == 1
    begin = RollCall.begin

    def begin_without_memory(self: RollCall) -> None:
        begin(self)
        self.memory = Memory()

    monkeypatch.setattr(RollCall, "begin", begin_without_memory)
    trial = run_forgotten()
    assert trial.outcome.refused == 0
    assert "no-silent-divergence" in trial.outcome.properties


def run_forgotten() -> Trial:
    return run_scenario(parse_scenario(tomllib.loads(FORGOTTEN_BY_ALL), find_protocol))
