"""Golden scenarios: small runs whose whole log stands in the file, to be read and reviewed.

After a change that is meant to change them: ORDERCAST_REWRITE_GOLDEN=1 pytest tests/sim/test_golden.py; read the diff.
"""

import os
import tomllib
from pathlib import Path

import pytest

from ordercast.check import judge
from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from ordercast.sim.scenario import parse_scenario
from tests.sim.narrate import narrate

FOLDER = Path(__file__).parents[1] / "scenarios"
FILES = sorted(FOLDER.glob("*.txt"))
SEPARATOR = "\n----\n"
REWRITE = bool(os.environ.get("ORDERCAST_REWRITE_GOLDEN"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_run_is_as_written(file: Path) -> None:
    script, _, expected = file.read_text(encoding="utf-8").partition(SEPARATOR)
    scenario = parse_scenario(tomllib.loads(script), find_protocol, name=file.stem, where=str(file))
    simulation = scenario.simulation().execute()
    verdicts = judge(simulation.header(), simulation.table())
    assert {name: verdict.first for name, verdict in verdicts.items() if verdict.verdict == "violated"} == {}
    log = "\n".join(narrate(simulation.table())) + "\n"
    if REWRITE:
        file.write_text(f"{script}{SEPARATOR}{log}", encoding="utf-8")
    assert log == expected or REWRITE


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_every_protocol_has_a_golden_scenario_with_loss_and_one_with_a_crash(protocol: str) -> None:
    """Where a crash is nothing that the contract knows, a partition."""
    named = [file.stem for file in FILES if file.stem.startswith(f"{protocol}-")]
    contract = find_protocol(protocol).contract
    crashes = contract.minority_may_die or "crash" in contract.faults or "partition" not in contract.faults
    assert any(("crash" if crashes else "partition") in name for name in named)
    assert any("loss" in name or "disorder" in name for name in named)
