"""What the schedules that look for trouble are there for: each finds a broken rule that the swarm does not."""

from __future__ import annotations

import pytest

from ordercast.campaign import Draw, find_violation, run_draw
from tests.mutants.hunted import HUNTED, Hunted

SWARM_SEEDS = 1000


@pytest.mark.parametrize("hunted", HUNTED, ids=str)
def test_the_schedule_finds_the_broken_rule(hunted: Hunted) -> None:
    mutant = hunted.mutant
    outcome = run_draw(Draw(mutant.broken, hunted.seed, schedule=hunted.schedule)).outcome
    assert outcome.violations, f"seed {hunted.seed} of {hunted.schedule} no longer finds: {mutant.breaks}"
    assert not any(violation.why.startswith(("TypeError", "AttributeError")) for violation in outcome.violations)
    sound = run_draw(Draw(mutant.protocol, hunted.seed, schedule=hunted.schedule)).outcome
    assert sound.violations == ()


@pytest.mark.mutants
@pytest.mark.parametrize("hunted", HUNTED, ids=str)
def test_the_swarm_does_not_find_it_in_a_thousand_seeds(hunted: Hunted) -> None:
    assert find_violation(hunted.mutant.broken, range(SWARM_SEEDS)) is None
