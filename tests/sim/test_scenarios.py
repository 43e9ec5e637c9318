"""Scenarios: what is shipped keeps its claims; what is written can be read again; what follows is filled in."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from ordercast.check import judge
from ordercast.core import UsageError
from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from ordercast.sim import Workload
from ordercast.sim.faults import FAULT_KINDS, Crash, Cut, Partition
from ordercast.sim.network_table import NETWORK_KINDS, PointToPointTable, TopologyTable, WideAreaTable
from ordercast.sim.scenario import (
    Scenario,
    dump_scenario,
    iterate_shipped,
    load_scenario,
    parse_scenario,
    shipped_scenarios,
)

VACUOUS = {"recovery": "vacuous"}
SHIPPED = {scenario.name: scenario for scenario in iterate_shipped(find_protocol)}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_scenario_keeps_every_claim_and_none_is_vacuous(name: str) -> None:
    scenario = SHIPPED[name]
    assert scenario.outside_contract == ()
    simulation = scenario.simulation().execute()
    verdicts = judge(simulation.header(), simulation.table())
    others = {each.property: each.verdict for each in verdicts.values() if each.claimed and each.verdict != "holds"}
    # Where nobody comes back there is nobody who could recover.
    returns = {"recover", "awake"} & set(simulation.table().column("kind").to_pylist())
    assert others == ({} if returns or "recovery" not in verdicts or not verdicts["recovery"].claimed else VACUOUS)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_fault_of_a_shipped_scenario_strikes(name: str) -> None:
    scenario = SHIPPED[name]
    simulation = scenario.simulation(tracing=False).execute()
    assert set(simulation.fault_counts) == {fault.kind for fault in scenario.faults}


def test_shipped_scenarios_cover_every_fault_and_network_and_say_what_they_are() -> None:
    assert {fault.kind for scenario in SHIPPED.values() for fault in scenario.faults} == set(FAULT_KINDS)
    assert {scenario.network.kind for scenario in SHIPPED.values()} == set(NETWORK_KINDS)
    assert all(0 < len(scenario.description) <= 84 for scenario in SHIPPED.values())


def failure_of(protocol: str) -> str:
    contract = find_protocol(protocol).contract
    crashes = contract.minority_may_die or "crash" in contract.faults or "partition" not in contract.faults
    return "crash" if crashes else "partition"


@pytest.mark.parametrize("protocol", PROTOCOL_NAMES)
def test_every_protocol_has_a_calm_scenario_a_lossy_or_disorderly_one_and_a_crash(protocol: str) -> None:
    """Where a crash is nothing that the contract knows, a partition."""
    for ending in (("calm",), ("loss", "disorder"), (failure_of(protocol),)):
        assert any(f"{protocol}-{word}" in SHIPPED for word in ending), ending


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_written_is_read_again(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}.toml"
    file.write_text(dump_scenario(SHIPPED[name]), encoding="utf-8")
    assert load_scenario(file, find_protocol) == SHIPPED[name]


def test_odd_names_and_values_survive_the_round_trip() -> None:
    strange = 'the "quoted" site\\with=all\x7f…#[x]'.replace(" ", "_")
    scenario = Scenario(
        protocol=find_protocol("fan-3"),
        description="two\nlines, a tab\t, \U0001f600",
        seed=2**63 - 1,
        duration=1e-5,
        settle=1e16,
        groups={"a.b": ("x", "y"), "ü": ("y",)},
        extra_sites=("lonely", strange.replace("\x7f", "")),
        network=WideAreaTable(
            regions={"here there": ("x", "y"), "": ("lonely", strange.replace("\x7f", ""))},
            latency={"here there": {"here there": 0.1, "": 1}, "": {"": 0.0}},
            phi_n=2.0,
        ),
        sync_seconds=0.25,
        workloads=(Workload(sources=("x",), groups=("ü", "a.b"), choose=1, count=0, start=0.0, arrivals="regular"),),
        faults=(
            Partition(from_=0.0, parts=(("x",), ("y", "lonely"))),
            Cut(from_=0.0, to=1e-6, sites=("x",), peers=("y",)),
            Crash(from_=1e-6, sites=("y",), forever=True),
        ),
        options={"delta": 1.5, "sources": ["x"], "log_messages_max": 7},
    )
    scenario.check()
    assert parse_scenario(tomllib.loads(dump_scenario(scenario)), find_protocol) == scenario


def test_a_dumped_scenario_runs_as_the_original_does() -> None:
    scenario = SHIPPED["overlapping-groups"]
    again = parse_scenario(tomllib.loads(dump_scenario(scenario)), find_protocol, name=scenario.name)
    assert again.simulation().execute().table().equals(scenario.simulation().execute().table())


# ---------------------------------------------------------------------- what follows from the rest
def bank(**changes: Any) -> Scenario:
    plain: dict[str, Any] = {
        "protocol": find_protocol("fan-1"),
        "groups": {"g": ("a", "b")},
        "extra_sites": ("s",),
        "network": PointToPointTable(latency=0.25),
        "workloads": (Workload(sources=("s", "a"), groups=("g",)),),
    }
    return Scenario(**(plain | changes))


def test_the_fan_learns_phi_n_and_its_sources_from_the_scenario() -> None:
    options = bank().protocol_options()
    assert (options.phi_n, options.sources) == (0.25, ("a", "s"))  # type: ignore[attr-defined]


def test_what_a_scenario_sets_is_not_overwritten() -> None:
    options = bank(network=PointToPointTable(phi_n=0.5)).protocol_options()
    assert options.phi_n == 0.5  # type: ignore[attr-defined]
    options = bank(options={"phi_n": 2.0, "sources": ["s", "a", "b"]}).protocol_options()
    assert (options.phi_n, options.sources) == (2.0, ("s", "a", "b"))  # type: ignore[attr-defined]


def test_a_scenario_says_what_its_protocol_makes_no_promises_for() -> None:
    words = bank(faults=(Crash(from_=1.0, sites=("a", "b")), Cut(from_=1.0, sites=("a",), peers=("b",))))
    assert words.outside_contract == (
        "fan-1 does not tolerate the fault cut",
        "fan-1 asks for sources that do not fail, and a does",
    )


def test_a_seed_given_for_the_run_replaces_the_seed_of_the_scenario() -> None:
    simulation = bank(name="x", seed=3).simulation(seed=9)
    assert (simulation.seed, simulation.run_name) == (9, "x-9")
    assert simulation.header().parameters == {"scenario": "x", "network": "point-to-point", "faults": []}


def test_a_topology_file_is_looked_for_beside_the_scenario_and_becomes_links(tmp_path: Path) -> None:
    (tmp_path / "net.txt").write_text("# a line\na router 2\n\nrouter b   # the weight is 1\n")
    (tmp_path / "net.toml").write_text(
        'protocol = "fan-0"\n[groups]\ng = ["a", "b"]\n[network]\nkind = "topology"\nfile = "net.txt"\n'
    )
    network = load_scenario(tmp_path / "net.toml", find_protocol).network
    assert network == TopologyTable(links=(("a", "router", 2.0), ("router", "b", 1.0)))


def test_a_name_is_a_shipped_scenario_and_a_file_of_that_name_does_not_hide_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ring").mkdir()
    assert load_scenario("ring", find_protocol).name == "ring"
    assert shipped_scenarios()["ring"].name == "ring.toml"
    with pytest.raises(UsageError, match="did you mean 'ring'"):
        load_scenario("rin", find_protocol)
