"""Rules of non-atomic delivery that are broken in runs which are written for them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import tests.mutants.propagation_graph_relaxed as relaxed
from ordercast.check import judge
from ordercast.core import Protocol
from ordercast.protocols import find_protocol
from ordercast.protocols.propagation_graph.relaxed.shares import Shares
from ordercast.sim import Simulation
from ordercast.sim.faults import Skew
from ordercast.sim.scenario import parse_scenario
from tests.mutants.registry import MUTANTS, make_mutant
from tests.mutants.written import WRITTEN

FIGURE_7_5 = Path(__file__).parents[1] / "scenarios" / "propagation-graph-figure-7-5.txt"
LONG = 1e6


def violated(run: Simulation) -> set[str]:
    verdicts = judge(run.header(), run.table())
    return {name for name, verdict in verdicts.items() if verdict.verdict == "violated"}


@pytest.mark.parametrize("name", WRITTEN)
def test_the_written_run_catches_the_mutant_and_not_what_it_is_made_of(name: str) -> None:
    known = [*relaxed.ONLY_WRITTEN, *(mutant for mutant in MUTANTS if mutant.protocol is relaxed.NonAtomic)]
    (mutant,) = [mutant for mutant in known if mutant.name == name]
    written = WRITTEN[name]
    assert written.violated in violated(written.run(mutant.broken))
    assert not violated(written.run(find_protocol("propagation-graph")))


def test_every_mutant_that_needs_a_written_run_has_one() -> None:
    assert {mutant.name for mutant in relaxed.ONLY_WRITTEN} <= WRITTEN.keys()


@pytest.mark.parametrize(("drift_max", "broken"), [(0.2, set()), (0.1, {"R2"}), (0.0, {"R2"})])
def test_clocks_may_go_wrong_by_drift_max_and_not_by_more(drift_max: float, broken: set[str]) -> None:
    """The clocks of those whose shares end go slow, and the clocks of those who wait for that, fast."""
    clocks = [
        Skew(from_=0.0, to=5.9, sites=sites, drift=drift) for sites, drift in ((("a", "b"), -0.2), (tuple("cde"), 0.2))
    ]
    run = WRITTEN["opens_before_old_shares_end"].run(find_protocol("propagation-graph"), *clocks, drift_max=drift_max)
    assert violated(run) == broken


def keeps_its_share_for_ever(self: Shares, until: float) -> None:
    """No leases: whoever has been given a share once, has it until it promises somebody else to stop."""
    if self.until is None:
        Shares._extend(self, until + LONG)


def test_without_leases_figure_7_5_violates_r2() -> None:
    """The rest of the old tree delivers two messages in one order, the new tree in the other, and all are up."""

    def find(_name: str) -> type[Protocol]:
        return make_mutant(relaxed.NonAtomic, "shares._extend", keeps_its_share_for_ever).broken

    script = FIGURE_7_5.read_text(encoding="utf-8").partition("\n----\n")[0]
    scenario = parse_scenario(tomllib.loads(script), find, name=FIGURE_7_5.stem, where=str(FIGURE_7_5))
    assert violated(scenario.simulation().execute()) == {"R2"}
