"""`ordercast simulate`, `ordercast protocols`."""

import json
import runpy
from pathlib import Path

import pytest

from ordercast.cli import main
from ordercast.cli.progress import execute_with_progress
from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from ordercast.sim.scenario import load_scenario, shipped_scenarios
from ordercast.trace import read_events, read_runs

# Protocol 1 asks for a network that loses nothing; this one loses half.
BROKEN = """
protocol = "fan-1"
duration = 3.0
[groups]
g = ["a", "b"]
[[workload]]
sources = ["a"]
groups = ["g"]
rate = 5.0
[[fault]]
kind = "loss"
from = 0.0
rate = 0.5
"""


def output_of(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(list(words)) == code
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def complaint_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_a_small_run_is_summed_up_drawn_and_judged(capsys: pytest.CaptureFixture[str]) -> None:
    output = output_of(capsys, "simulate", "fan-1-calm")
    assert "4 multicast, 12 deliveries" in output
    assert "12 sent, 12 received, 0 lost" in output
    assert "├────" in output
    assert "▶D a:4" in output
    for guarantee in find_protocol("fan-1").contract.guarantees:
        assert guarantee in output
    assert "violated" not in output


def test_a_diagram_only_when_it_is_small_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert "▶" not in output_of(capsys, "simulate", "sequencer-loss")
    assert "▶" not in output_of(capsys, "simulate", "fan-1-calm", "--no-diagram")
    forced = output_of(capsys, "simulate", "sequencer-loss", "--diagram")
    assert "▶" in forced
    assert " more\n" in forced


def test_the_run_of_a_partition_shows_views_and_who_comes_along(capsys: pytest.CaptureFixture[str]) -> None:
    output = output_of(capsys, "simulate", "intergroup-partition")
    assert "→ a " in output
    assert output.count("→ b,c,d ") == 3
    assert "→ a+b,c,d " in output
    assert output.count("→ b,c,d+a") == 3


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(output_of(capsys, "simulate", "fan-2-crash", "--seed", "5", "--json"))
    assert document["scenario"] == "fan-2-crash"
    assert (document["protocol"], document["seed"], document["run"]) == ("fan-2", 5, "fan-2-crash-5")
    assert document["sites"] == ["a", "b", "c"]
    assert document["events"]["fail"] == document["faults"]["crash"] == 1
    assert document["branches"]["resent"] > 0
    assert document["violated_claims"] == 0
    assert document["verdicts"]["P2"] == {"claimed": True, "verdict": "holds", "witnesses": 0, "first": None}
    assert set(document["verdicts"]) == set(find_protocol("fan-2").contract.guarantees)


def test_a_violated_claim_is_exit_code_1_with_a_witness_and_why_it_was_to_be_expected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "broken.toml"
    file.write_text(BROKEN)
    output = output_of(capsys, "simulate", str(file), code=1)
    assert "violated" in output
    assert "fan-1 does not tolerate the fault loss" in output
    assert "P2: " in output
    document = json.loads(output_of(capsys, "simulate", str(file), "--json", code=1))
    assert document["violated_claims"] == 1
    assert document["verdicts"]["P2"]["first"]["messages"]
    assert document["outside_contract"] == ["fan-1 does not tolerate the fault loss"]


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_trace_can_be_read_back(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "trace"
    output = output_of(capsys, "simulate", "fan-1-calm", "--trace", str(folder), "--format", form)
    assert f"trace written to {folder}" in output.replace("\n", "")
    assert [run.run for run in read_runs(folder)] == ["fan-1-calm-1"]
    assert read_events(folder).num_rows == 40
    assert "exists already" in complaint_of(capsys, "simulate", "fan-1-calm", "--trace", str(folder))


def test_the_seed_changes_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    runs = [
        output_of(capsys, "simulate", "sequencer-loss", "--json", *more)
        for more in ([], ["--seed", "2"], ["--seed", "3"])
    ]
    events = [json.loads(run)["events"] for run in runs]
    assert events[0] == events[1] != events[2]


def test_a_progress_bar_changes_nothing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = load_scenario("fan-3-crash", find_protocol)
    watched, alone = scenario.simulation(), scenario.simulation()
    monkeypatch.setattr("ordercast.cli.progress.PATIENCE_SECONDS", -1.0)
    execute_with_progress(watched, "[x] watched")
    assert capsys.readouterr().out == ""
    assert watched.table().equals(alone.execute().table())


def test_the_list_has_every_shipped_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    lines = output_of(capsys, "simulate", "--list").splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(shipped_scenarios())
    document = json.loads(output_of(capsys, "simulate", "--list", "--json"))
    assert [each["name"] for each in document["scenarios"]] == list(shipped_scenarios())
    assert all(each["protocol"] and each["description"] for each in document["scenarios"])


def test_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert "name a scenario" in complaint_of(capsys, "simulate")
    assert "did you mean 'fan-1-calm'" in complaint_of(capsys, "simulate", "fan-1-clam")
    assert "--protocol goes with --campaign" in complaint_of(capsys, "simulate", "ring", "--protocol", "fan-1")
    assert "leave out 'ring'" in complaint_of(capsys, "simulate", "ring", "--campaign", "3")
    assert "--seed" in complaint_of(capsys, "simulate", "ring", "--seed", "-3")
    assert "--format" in complaint_of(capsys, "simulate", "ring", "--format", "csv")


def test_python_m_ordercast_is_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["ordercast", "simulate", "fan-1-clam"])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_module("ordercast", run_name="__main__")
    assert "did you mean 'fan-1-calm'" in capsys.readouterr().err


# ---------------------------------------------------------------------- protocols
def test_the_protocols_are_listed_with_what_they_guarantee(capsys: pytest.CaptureFixture[str]) -> None:
    output = output_of(capsys, "protocols")
    for name in PROTOCOL_NAMES:
        assert name in output
    document = json.loads(output_of(capsys, "protocols", "--json"))
    assert [each["name"] for each in document["protocols"]] == list(PROTOCOL_NAMES)
    for each in document["protocols"]:
        assert each["guarantees"] == list(find_protocol(each["name"]).contract.guarantees)


def test_one_protocol_in_full_with_its_bounds_in_symbols(capsys: pytest.CaptureFixture[str]) -> None:
    output = " ".join(output_of(capsys, "protocols", "fan-3").split())
    assert "Q2 (within delta + 4 phi_p + 3 phi_n)" in output
    assert "delta = 0.1" in output
    assert "Spauster 1991, 6.4.4" in output
    document = json.loads(output_of(capsys, "protocols", "fan-3", "--json"))
    assert document["promised"] == {"P2": "3 phi_p + 3 phi_n", "Q2": "delta + 4 phi_p + 3 phi_n"}
    assert document["options"]["log_messages_max"] == 4096


def test_an_unknown_protocol_is_a_complaint_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean 'sequencer'?" in complaint_of(capsys, "protocols", "sequencr")
    assert "--matrix shows all" in complaint_of(capsys, "protocols", "fan-1", "--matrix")
