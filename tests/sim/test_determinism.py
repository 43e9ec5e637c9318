"""A seed and a scenario give the same trace, byte for byte, in any process."""

import os
from pathlib import Path
from typing import Any, Literal

import pytest

from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from ordercast.sim.scenario import parse_scenario
from ordercast.trace.write import write_trace
from tests.support import run_python

FORMATS: tuple[Literal["parquet", "jsonl"], ...] = ("parquet", "jsonl")

# Enough going on that any order that leaks out of a set or from one random stream into another would show.
DOCUMENT: dict[str, Any] = {
    "duration": 4.0,
    "settle": 3.0,
    "seed": 17,
    "groups": {"g": ["a", "b", "c"], "h": ["c", "d", "e"], "all": ["a", "b", "c", "d", "e"]},
    "storage": {"sync": 0.003},
    "workload": [{"sources": ["a", "b", "e"], "groups": ["g", "h", "all"], "choose": 1, "rate": 10.0}],
    "fault": [
        {"kind": "loss", "from": 0.5, "to": 3.0, "rate": 0.1},
        {"kind": "duplication", "from": 0.5, "to": 3.0, "rate": 0.1},
        {"kind": "delay", "from": 0.5, "to": 3.0, "rate": 0.1, "seconds": 0.5},
        {"kind": "torn-log", "from": 1.0, "to": 2.0, "sites": ["c"]},
        {"kind": "pause", "from": 1.5, "to": 2.5, "sites": ["d"]},
    ],
}

IN_A_PROCESS = """
import sys
from pathlib import Path
from tests.sim.test_determinism import write_all
write_all(Path(sys.argv[1]), sys.argv[2:])
"""


def write_all(folder: Path, protocols: list[str]) -> None:
    """The trace of the scenario under each protocol, in each format."""
    for protocol in protocols:
        contract = find_protocol(protocol).contract
        changed: dict[str, Any] = {"protocol": protocol, "network": {"kind": "point-to-point"}}
        if contract.one_channel:
            # Beyond its fault model it may stop loudly.
            faults = [fault for fault in DOCUMENT["fault"] if fault["kind"] in contract.faults]
            changed |= {"network": {"kind": "broadcast"}, "fault": faults}
        if contract.members_only:
            changed["workload"] = [DOCUMENT["workload"][0] | {"groups": ["all"]}]
        scenario = parse_scenario(DOCUMENT | changed, find_protocol)
        simulation = scenario.simulation().execute()
        for form in FORMATS:
            write_trace(folder / f"{protocol}-{form}", [(simulation.header(), simulation.table())], form)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("first")
    write_all(folder, list(PROTOCOL_NAMES))
    return contents(folder)


def test_every_protocol_wrote_something_in_either_format(first: dict[str, bytes]) -> None:
    for protocol in PROTOCOL_NAMES:
        assert len(first[f"{protocol}-jsonl/events.jsonl"]) > 10_000
        assert len(first[f"{protocol}-parquet/events/part-00000.parquet"]) > 1_000
        assert f"{protocol}-parquet/runs.jsonl" in first


def test_twice_in_one_process(first: dict[str, bytes], tmp_path: Path) -> None:
    write_all(tmp_path, list(PROTOCOL_NAMES))
    assert contents(tmp_path) == first


@pytest.mark.parametrize("hash_seed", ["1", "4711"])
def test_in_another_process_with_another_hash_seed(hash_seed: str, first: dict[str, bytes], tmp_path: Path) -> None:
    project = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(project)}
    result = run_python(IN_A_PROCESS, str(tmp_path), *PROTOCOL_NAMES, environment=environment)
    assert result.returncode == 0, result.stderr
    assert contents(tmp_path) == first
