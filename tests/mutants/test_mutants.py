"""Deliberately broken protocols must be caught: by the seed that is known to do it in every run of the tests, by a hunt
through new seeds in `make mutants`."""

from __future__ import annotations

from importlib import import_module
from statistics import median

import pytest

from ordercast.campaign import find_failing_trial, find_violation, find_violation_without_faults, run_seed
from ordercast.campaign.outcome import Outcome
from ordercast.campaign.rest import PROPERTIES as REST_PROPERTIES
from ordercast.protocols import PROTOCOL_NAMES
from tests.mutants.registry import CAUGHT, KNOWN_SEEDS, MUTANTS, REWRITE_SEEDS, SEEDS_FILE, SHOWN, Mutant

for module in (
    "fan",
    "tree_5",
    "sequencer",
    "two_phase",
    "lamport",
    "token",
    "propagation_graph",
    "propagation_graph_relaxed",
    "broadcast_tree",
    "selective_total",
    "scalatom",
    "three_step",
    "intergroup",
    "parts",
):
    import_module(f"tests.mutants.{module}")

SEEDS_MAX = 1000
MEDIAN_MAX = 200
MUTANTS_MIN = 5
SEEDS_WITHOUT_FAULTS = 20


def first_of_each_protocol() -> list[Mutant]:
    sound_when_calm = [mutant for mutant in MUTANTS if not mutant.printed]
    return list({mutant.protocol.contract.name: mutant for mutant in reversed(sound_when_calm)}.values())


def hunt(mutant: Mutant) -> None:
    """It is caught, by the property by which it must be; the first one that catches it may be another."""
    trial = find_failing_trial(mutant.broken, range(SEEDS_MAX))
    while trial is not None and not fits(trial.outcome):
        trial = find_failing_trial(mutant.broken, range(trial.outcome.seed + 1, SEEDS_MAX))
    assert trial is not None, f"{SEEDS_MAX} seeds have not caught: {mutant.breaks}"
    CAUGHT[str(mutant)] = ", ".join(trial.outcome.properties), trial.outcome.seed + 1
    check(mutant, trial.outcome)
    if mutant.caught_by not in (None, *trial.outcome.properties):
        trial = find_failing_trial(mutant.broken, range(trial.outcome.seed + 1, SEEDS_MAX), mutant.caught_by)
        assert trial is not None, f"{SEEDS_MAX} seeds have not shown {mutant.caught_by}: {mutant.breaks}"
    SHOWN[str(mutant)] = trial.outcome.seed


def fits(outcome: Outcome) -> bool:
    """Whether no run has ended with an error of Python: a mutant that no longer fits the method that it replaces proves
    nothing, and where a broken rule leads to one (two messages at one place of a heap), another seed has to show it."""
    errors = ("TypeError", "AttributeError", "NameError")
    return not any(violation.why.startswith(errors) for violation in outcome.violations)


def check(mutant: Mutant, outcome: Outcome) -> None:
    """What was violated speaks of the mutant's rule, and not of a mutant that is broken in another way."""
    assert fits(outcome), outcome.violations[0].why
    if mutant.alone:
        # What is held back is kept, too.
        others = set(REST_PROPERTIES) - {mutant.caught_by}
        assert [name for name in outcome.properties if name not in others] == [mutant.caught_by]


@pytest.mark.mutants
@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_the_campaign_catches_the_mutant(mutant: Mutant) -> None:
    hunt(mutant)


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_the_known_seed_catches_the_mutant(mutant: Mutant) -> None:
    seed = KNOWN_SEEDS.get(str(mutant))
    assert seed is not None, f"no seed is known: {REWRITE_SEEDS}=1 make mutants writes {SEEDS_FILE.name}"
    outcome = run_seed(mutant.broken, seed).outcome
    check(mutant, outcome)
    assert outcome.violations, f"seed {seed} no longer catches: {mutant.breaks}"
    assert mutant.caught_by in (None, *outcome.properties)


def test_every_known_seed_belongs_to_a_mutant() -> None:
    assert sorted(KNOWN_SEEDS) == sorted(map(str, MUTANTS))


@pytest.mark.mutants
@pytest.mark.parametrize("mutant", [mutant for mutant in MUTANTS if not mutant.printed], ids=str)
def test_without_faults_nobody_would_notice_the_mutant(mutant: Mutant) -> None:
    assert find_violation_without_faults(mutant.broken, range(SEEDS_WITHOUT_FAULTS)) is None


@pytest.mark.mutants
def test_half_of_the_mutants_need_few_seeds() -> None:
    if not CAUGHT:
        pytest.skip("no mutant was hunted in this process")
    assert median(seeds for _, seeds in CAUGHT.values()) <= MEDIAN_MAX


@pytest.mark.campaign
@pytest.mark.parametrize("mutant", first_of_each_protocol(), ids=str)
def test_a_mutant_of_each_protocol_passes_where_there_are_no_faults(mutant: Mutant) -> None:
    assert find_violation_without_faults(mutant.broken, range(3)) is None


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_every_protocol_has_its_mutants(name: str) -> None:
    assert sum(mutant.protocol.contract.name == name for mutant in MUTANTS) >= MUTANTS_MIN


@pytest.mark.parametrize(
    ("name", "promise"),
    [
        *(("fan-0", "P1"), ("fan-0", "P2"), ("fan-1", "P2"), ("fan-2", "P2"), ("fan-3", "P2"), ("fan-3", "Q2")),
        *(("propagation-graph", "P4"), ("propagation-graph", "Q3")),
    ],
)
def test_every_promised_bound_has_a_mutant_that_breaks_it(name: str, promise: str) -> None:
    assert any(mutant.protocol.contract.name == name and mutant.caught_by == promise for mutant in MUTANTS)


def test_a_sound_protocol_is_not_caught() -> None:
    mutant = MUTANTS[0]
    assert find_violation(mutant.protocol, range(5)) is None
