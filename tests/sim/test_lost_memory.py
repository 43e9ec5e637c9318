"""Sites that come back without their history, or with another configuration, and how the others notice."""

from __future__ import annotations

import tomllib
from random import Random
from typing import Any

import msgspec
import pytest

from ordercast.check import judge
from ordercast.core import Record, UsageError
from ordercast.core.events import Recovered
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation
from ordercast.sim.scenario import parse_scenario
from ordercast.sim.site.rewindable import CHECKPOINTS_BACK, RewindableLog

SCENARIO = """
protocol = "sequencer"
seed = 3
duration = 6.0
settle = 3.0
[groups]
g = ["a", "b", "c"]
[storage]
sync = 0.001
[[workload]]
sources = ["a", "b", "c"]
groups = ["g"]
rate = 10.0
[options]
sequencer = "a"
"""


def executed(faults: str, protocol: str = "sequencer") -> Simulation:
    document = tomllib.loads(SCENARIO.replace("sequencer", protocol, 1) + faults)
    if protocol != "sequencer":
        del document["options"]
    return parse_scenario(document, find_protocol).simulation().execute()


def rows_of(simulation: Simulation, site: str, *kinds: str) -> list[dict[str, Any]]:
    return [row for row in simulation.table().to_pylist() if row["site"] == site and row["kind"] in kinds]


def life_of(simulation: Simulation, site: str) -> list[str]:
    rows = rows_of(simulation, site, "fail", "awake", "recover")
    return [row["kind"] if row["reason"] is None else f"{row['kind']}: {row['reason']}" for row in rows]


def fault(kind: str, site: str = "a", begin: float = 2.0, end: float = 3.0, more: str = "") -> str:
    return f'\n[[fault]]\nkind = "{kind}"\nfrom = {begin}\nto = {end}\nsites = ["{site}"]\n{more}\n'


# ---------------------------------------------------------------------- who is refused
@pytest.mark.parametrize("site", ["a", "b"])
@pytest.mark.parametrize(
    ("kind", "more"), [("rollback", ""), ("lost-log", ""), ("drift", 'options = { sequencer = "c" }')]
)
def test_a_site_that_must_not_go_on_is_refused_and_delivers_nothing_more(kind: str, more: str, site: str) -> None:
    simulation = executed(fault(kind, site, more=more))
    assert simulation.fault_counts == {kind: 1}
    assert set(simulation.refusals) == {site}
    assert life_of(simulation, site) == ["fail", "awake", "fail: refused"]
    refused_at = rows_of(simulation, site, "fail")[-1]["time"]
    assert 3.0 < refused_at < 3.1
    assert not [row for row in rows_of(simulation, site, "deliver", "replay", "multicast") if row["time"] > 2.0]


def test_the_line_says_who_refuses_whom_and_why() -> None:
    lost = executed(fault("lost-log", "b")).refusals["b"]
    assert lost.startswith(("a refuses b: its log had 0 records when it started, and ", "c refuses b: its log had 0"))
    drifted = executed(fault("drift", "b", more='options = { sequencer = "c" }')).refusals["b"]
    assert drifted.endswith(" refuses b: its configuration differs from that of the others")


def test_a_site_that_crashes_and_keeps_its_log_is_accepted() -> None:
    simulation = executed(fault("crash", "a") + fault("lost-log", "b", 4.0, 5.0))
    assert life_of(simulation, "a") == ["fail", "awake", "recover"]
    assert set(simulation.refusals) == {"b"}


def test_what_a_torn_crash_leaves_is_not_taken_for_a_loss() -> None:
    simulation = executed(fault("torn-log", "a") + fault("lost-log", "b", 4.5, 5.0))
    assert life_of(simulation, "a") == ["fail", "awake", "recover"]


def test_an_option_that_only_tunes_a_site_is_no_drift() -> None:
    simulation = executed(fault("drift", "b", more="options = { retransmit_seconds = 0.3 }"))
    assert simulation.refusals == {}
    assert life_of(simulation, "b") == ["fail", "awake", "recover"]
    assert simulation.sites["b"].options != simulation.options


def test_the_protocol_claims_only_what_is_safe_when_it_must_refuse() -> None:
    claims = executed(fault("rollback")).header().guarantees
    assert {"integrity", "no-duplication", "multiple-group-order", "no-silent-divergence"} <= set(claims)
    assert not {"uniform-agreement", "termination"} & set(claims)
    assert "termination" in executed(fault("crash")).header().guarantees


@pytest.mark.parametrize("kind", ["rollback", "lost-log"])
def test_a_fault_that_nobody_could_notice_is_a_crash(kind: str) -> None:
    """Nobody has heard anything of the site's log: it is as if the records had never been."""
    simulation = executed(fault(kind, "c", 0.0001, 0.5))
    assert simulation.fault_counts == {}
    assert simulation.refusals == {}


def test_a_repaired_site_begins_a_new_log_that_the_others_accept() -> None:
    lost = []

    class Repairing(find_protocol("sequencer")):  # type: ignore[misc]
        contract = msgspec.structs.replace(find_protocol("sequencer").contract, repairs=True)

        def on_recovered(self, event: Recovered) -> None:
            lost.append((self.context.site, event.lost, event.records))
            super().on_recovered(event)

    document = tomllib.loads(SCENARIO + fault("lost-log", "b", more="repair = true"))
    simulation = parse_scenario(document, lambda _name: Repairing).simulation().execute()
    assert life_of(simulation, "b") == ["fail", "awake", "fail: refused", "awake", "recover"]
    assert lost == [("b", True, ())]
    assert "termination" in simulation.header().guarantees


# ---------------------------------------------------------------------- the roll call
def test_nobody_starts_before_everyone_has_answered() -> None:
    simulation = executed(fault("rollback", "a") + '\n[[fault]]\nkind = "delay"\nfrom = 0.0\nto = 1.5\nseconds = 0.3\n')
    for site in "abc":
        rows = simulation.table().to_pylist()
        answers = [row["time"] for row in rows if row["site"] == site and row["packet"] == "Greeting"]
        first = min(row["time"] for row in rows if row["site"] == site and row["packet"] not in (None, "Greeting"))
        assert min(answers) < first


def test_a_site_that_hears_nobody_starts_after_a_second_and_is_refused_when_it_is_heard() -> None:
    cut_off = '\n[[fault]]\nkind = "partition"\nfrom = 2.5\nto = 5.0\nparts = [["c"]]\n'
    simulation = executed(fault("lost-log", "c") + cut_off)
    life = rows_of(simulation, "c", "fail", "awake", "recover")
    assert [row["reason"] for row in life if row["kind"] == "fail"] == [None, "refused"]
    started = next(row["time"] for row in life if row["kind"] == "recover")
    assert started == pytest.approx(4.0, abs=0.01)
    assert 5.0 < life[-1]["time"] < 5.6


def test_packets_of_a_life_that_was_not_accepted_are_dropped() -> None:
    slow = '\n[[fault]]\nkind = "delay"\nfrom = 1.9\nto = 2.0\nseconds = 3.0\nsites = ["a"]\n'
    simulation = executed(fault("crash", "a", 2.0, 2.5) + slow + fault("lost-log", "c", 5.5, 5.9))
    late = [row for site in "bc" for row in rows_of(simulation, site, "drop") if row["reason"] == "unknown-session"]
    assert late
    assert all(row["peer"] == "a" for row in late)


def test_runs_without_these_faults_call_no_roll() -> None:
    simulation = executed(fault("crash", "a"))
    assert "Greeting" not in {row["packet"] for row in simulation.table().to_pylist()}


def test_what_was_heard_after_the_last_sync_is_forgotten_in_a_crash() -> None:
    heard = [b"1"]
    log = RewindableLog(False, lambda: heard[0])
    log.append(Thing(1))
    log.begin_sync()
    heard[0] = b"2"
    log.sync(1)
    assert log.memory == b"1"
    log.crash()
    assert log.memory == b"1"


# ---------------------------------------------------------------------- logs that go back
class Thing(Record, frozen=True):
    number: int


def numbers(log: RewindableLog) -> tuple[bytes | None, int]:
    recovery = log.recover()
    return recovery.checkpoint, len(recovery.records)


@pytest.mark.parametrize("seed", range(20))
def test_a_log_goes_back_to_a_state_in_which_it_was(seed: int) -> None:
    random = Random(seed)
    log = RewindableLog(True, lambda: b"")
    seen: set[tuple[int, tuple[bytes | None, int]]] = {(0, (None, 0))}
    for number in range(1, 30):
        log.append(Thing(number))
        seen.add((log.position, numbers(log)))
        if number < 28 and random.random() < 0.2:
            log.checkpoint(Thing(-number), log.position)
        seen.add((log.position, numbers(log)))
    assert log.rewind(29, random)
    assert log.position < 29
    assert (log.position, numbers(log)) in seen
    log.append(Thing(100))
    assert log.synced == log.position <= 29


def test_a_log_goes_back_some_checkpoints_at_the_most() -> None:
    log = RewindableLog(True, lambda: b"")
    for number in range(1, 50):
        log.append(Thing(number))
        if number % 10 == 0:
            log.checkpoint(Thing(-number), log.position)
    least = min(_rewound(seed) for seed in range(50))
    assert least >= 40 - 10 * CHECKPOINTS_BACK
    assert not log.rewind(40 - 10 * CHECKPOINTS_BACK, Random(0))


def _rewound(seed: int) -> int:
    log = RewindableLog(True, lambda: b"")
    for number in range(1, 50):
        log.append(Thing(number))
        if number % 10 == 0:
            log.checkpoint(Thing(-number), log.position)
    assert log.rewind(49, Random(seed))
    return log.position


# ---------------------------------------------------------------------- strangers, absence
def test_foreign_packets_are_dropped_before_the_protocol_sees_them() -> None:
    calm = executed("")
    simulation = executed(fault("foreign", "b", 1.0, 5.0, "rate = 100.0"))
    drops = rows_of(simulation, "b", "drop")
    assert simulation.fault_counts["foreign"] == len(drops) > 300
    assert {row["reason"] for row in drops} == {"garbage", "unknown-process"}
    assert {row["peer"] for row in drops} == {"stranger"}
    assert [row["message"] for row in rows_of(simulation, "b", "deliver")] == [
        row["message"] for row in rows_of(calm, "b", "deliver")
    ]


@pytest.mark.parametrize("protocol", ["sequencer", "two-phase", "token"])
def test_a_site_that_was_away_gets_everything(protocol: str) -> None:
    simulation = executed(fault("away", "c", 1.0, 5.5), protocol)
    assert simulation.fault_counts == {"away": 1}
    verdicts = judge(simulation.header(), simulation.table())
    assert not [name for name, verdict in verdicts.items() if verdict.verdict == "violated"]


# ---------------------------------------------------------------------- scenarios
@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        (fault("drift", more="options = {}"), "'drift': options is empty; name those that differ"),
        (fault("drift", more="options = { sequenser = 'b' }"), "sequenser"),
        (fault("drift", more="options = { sequencer = 'x' }"), "'drift': options: "),
        (fault("lost-log", more="repair = true"), "'lost-log': sequencer cannot repair a site; leave out repair"),
        (fault("foreign", more="rate = 0.0"), "'foreign': the rate is positive, not 0.0"),
        ('\n[[fault]]\nkind = "rollback"\nfrom = 1.0\n', "'rollback': name the sites to which it happens"),
        ('\n[[fault]]\nkind = "away"\nfrom = 1.0\n', "'away': name the sites to which it happens"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(table: str, complaint: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_scenario(tomllib.loads(SCENARIO + table), find_protocol)
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)
