"""Campaigns: the protocols stand them, they are reproducible, resumable, and tell what they have not reached."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec.structs import replace

from ordercast.campaign import Outcome, Profile, Report, Violation, campaign, run_campaign, run_scenario, run_seed
from ordercast.campaign.draw import draw_scenario
from ordercast.campaign.outcome import (
    CRASH,
    EVENTS_MAX,
    EVENTS_PER_PAIR,
    EVENTS_PER_SECOND,
    RUNAWAY,
    STARVED,
    WIRE_ERROR,
    bound_of,
)
from ordercast.campaign.state import State, code_version
from ordercast.check import choose
from ordercast.core import Packet, Protocol, StorageError, WireError
from ordercast.core.effects import Credit
from ordercast.core.events import Arrival, Event, Started, TimerFired
from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from tests.support import run_python

SEEDS = range(120)
OTHER_SEEDS = {"intergroup": range(200), "propagation-graph": range(150), "three-step": range(150)}
"""Protocols with branches that few runs reach."""
RARE = {
    *("caught-up-outside", "applicant-lost", "coming-failed", "left-behind"),
    *("behind", "kept-an-earlier-choice", "merged", "tail-kept", "nobody-there", "founded"),
    *("absent-given-up", "nameless", "crashed-opening"),
}
"""Branches that a run of a dozen seconds hardly ever reaches; `make campaign` tells about them."""
RARE_IN_VIEWS = {
    *("overrun", "gone", "began-anew", "overtaken", "asked-for", "asked-for-in-vain", "cannot-leave"),
    *("gather-ready>gather-recovery", "wait-for-message>gather-recovery", "accuser-failed", "added-already"),
    *("r-recovery>r-unsuccessful", "r-recovery>r-failed", "not-so-far-yet", "proxied-again"),
    *("crashed-leading-recovery", "crashed-leading-gather-ready"),
}
"""The same of InterGroup, where one run of eight has fixed senders, and few have a sole holder of a message that
fails."""


@pytest.mark.campaign
@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_the_protocol_keeps_its_promises_and_shows_all_its_branches(name: str) -> None:
    report = run_campaign([name], OTHER_SEEDS.get(name, SEEDS), workers=1)
    rare = RARE | (RARE_IN_VIEWS if name == "intergroup" else set())
    assert not report.failing, report.failing[0].replay
    assert not report.vacuous
    assert not {what for what in report.unreached().get(name, ()) if what.removeprefix("branch ") not in rare}


def test_a_seed_gives_the_same_trace_every_time() -> None:
    first, second = (run_seed(find_protocol("token"), 4) for _ in range(2))
    assert first.table.equals(second.table)
    assert first.outcome == second.outcome


def test_a_seed_gives_the_same_outcome_in_another_process_with_other_hashes() -> None:
    code = """
import msgspec
from ordercast.campaign import run_seed
from ordercast.protocols import find_protocol
print(msgspec.json.encode(run_seed(find_protocol("token"), 4).outcome).decode())
"""
    found = {run_python(code, environment={"PYTHONHASHSEED": seed, "PATH": ""}).stdout for seed in "12"}
    assert len(found) == 1
    assert '"seed":4' in found.pop()


def test_the_number_of_processes_changes_nothing() -> None:
    protocols = ["fan-0", "sequencer"]
    assert run_campaign(protocols, range(20), workers=2) == run_campaign(protocols, range(20), workers=1)


def test_the_json_document_keeps_its_contract() -> None:
    document = run_campaign(["fan-1"], range(6), workers=1).as_json(1.25)
    assert json.loads(json.dumps(document)) == document
    assert document["runs"] == 6
    assert document["violations"] == []
    assert document["vacuous_runs"] == 0
    assert set(document["faults"]) >= set(find_protocol("fan-1").contract.faults)
    assert set(document["branches"]) == {"fan-1"}
    assert set(document["branches"]["fan-1"]) == set(find_protocol("fan-1").contract.branches)
    assert document["seconds"] == 1.25


def test_what_was_never_reached_is_told() -> None:
    report = run_campaign(["fan-1"], range(1), workers=1)
    kinds = {fault.kind for fault in draw_scenario(find_protocol("fan-1"), 0).faults}
    absent = set(find_protocol("fan-1").contract.faults) - kinds
    assert absent
    assert {f"fault {kind}" for kind in absent} <= set(report.unreached()["fan-1"])
    assert all(report.faults()[kind] == 0 for kind in absent)


def test_runs_in_which_an_exception_was_seen_are_counted_once_each() -> None:
    seen = [{"R2": 3}, {}, {"R2": 1, "R2-single-source": 1}]
    report = Report(tuple(Outcome("fan-0", seed, excused=excused) for seed, excused in enumerate(seen)))
    assert report.excused() == {"R2": 2, "R2-single-source": 1}
    assert report.as_json(1.0)["excused"] == {"R2": 2, "R2-single-source": 1}


# ---------------------------------------------------------------------- what goes wrong in a core
def test_an_exception_in_a_core_is_a_violation_of_that_seed() -> None:
    class Crashing(find_protocol("fan-0")):  # type: ignore[misc]
        def on_data(self, *_arguments: object) -> None:
            raise ValueError("out of its depth")

    outcome = run_seed(Crashing, 0).outcome
    assert outcome.properties == (CRASH,)
    assert "ValueError: out of its depth" in outcome.violations[0].why


def test_a_packet_of_a_sound_peer_that_is_taken_for_malformed_is_a_violation_with_its_name() -> None:
    """Here it has been taken already, so that nobody else would notice."""

    class Picky(find_protocol("fan-0")):  # type: ignore[misc]
        def on_data(self, sender: str, packet: Packet, arrival: Arrival) -> None:
            super().on_data(sender, packet, arrival)
            if sender == "a":
                raise WireError("not from a, please")

    outcome = run_seed(Picky, 0).outcome
    assert outcome.properties == (WIRE_ERROR,)
    assert outcome.violations[0].why.endswith(" takes Data of a for malformed: not from a, please")
    assert not run_scenario(draw_scenario(Picky, 0), choose(["integrity"])).outcome.violations, "nobody asked for it"


def seeds_with(kind: str, protocol: type[Protocol]) -> list[int]:
    return [seed for seed in range(160) if {fault.kind for fault in draw_scenario(protocol, seed).faults} >= {kind}]


def test_a_site_that_comes_back_and_never_says_that_it_has_recovered_is_a_violation() -> None:
    """It counts as failed, so that nobody owes it anything: no other property is violated."""

    class Modest(find_protocol("sequencer")):  # type: ignore[misc]
        def declare_recovered(self) -> None:
            pass

    for seed in seeds_with("crash", find_protocol("sequencer"))[:3]:
        assert run_seed(Modest, seed).outcome.properties == ("recovery",)


def test_a_source_that_waits_for_credit_in_the_end_is_a_violation() -> None:
    """What it could not multicast is in no trace: only what is told of the run at rest shows it."""

    class Forgetful(find_protocol("two-phase")):  # type: ignore[misc]
        def step(self, now: float, event: Event) -> None:
            super().step(now, event)
            if now > 1.0:
                self.outbox[:] = [effect for effect in self.outbox if not isinstance(effect, Credit)]

    outcome = run_seed(Forgetful, 1).outcome
    assert outcome.properties == ("credit-returned", STARVED)
    assert "messages still wait for credit at " in outcome.violations[1].why


def test_who_waits_for_a_site_that_was_refused_is_excused() -> None:
    outcome = run_seed(find_protocol("two-phase"), 40).outcome
    assert outcome.refused
    assert not outcome.violations


def test_foreign_packets_are_no_errors_of_a_sound_peer() -> None:
    protocol = find_protocol("sequencer")
    foreign = [
        seed for seed in range(120) if "foreign" in {fault.kind for fault in draw_scenario(protocol, seed).faults}
    ]
    outcomes = [run_seed(protocol, seed).outcome for seed in foreign[:3]]
    assert [outcome.violations for outcome in outcomes] == [()] * 3
    assert all(outcome.faults["foreign"] for outcome in outcomes)


def test_a_run_without_end_is_a_violation_of_that_seed() -> None:
    class Endless(find_protocol("fan-0")):  # type: ignore[misc]
        def on_started(self, event: Started) -> None:
            self.set_timer("again", 0.0)

        def on_timer_fired(self, event: TimerFired) -> None:
            self.set_timer("again", 0.0)

    outcome = run_scenario(draw_scenario(Endless, 0), events_max=5000).outcome
    assert outcome.properties == (RUNAWAY,)


def test_a_large_run_may_have_the_events_that_its_groups_make() -> None:
    usual = draw_scenario(find_protocol("intergroup"), 0)
    sites = tuple(f"s{number}" for number in range(20))
    large = replace(usual, groups=dict.fromkeys("ghij", sites))
    seconds = usual.duration + usual.settle
    assert bound_of(usual) <= max(EVENTS_MAX, EVENTS_PER_SECOND * seconds)
    assert bound_of(large) == int(EVENTS_PER_PAIR * 4 * 20 * 20 * seconds)


def test_a_run_in_which_nothing_is_delivered_proves_nothing() -> None:
    class Silent(find_protocol("fan-0")):  # type: ignore[misc]
        def on_data(self, *_arguments: object) -> None:
            pass

    contract = find_protocol("fan-0").contract
    protocol: type[Protocol] = Silent
    outcome = run_scenario(draw_scenario(protocol, 0), choose(["integrity"])).outcome
    assert outcome.protocol == contract.name
    assert outcome.vacuous == "nothing was delivered"


# ---------------------------------------------------------------------- interruption
def test_an_interrupted_campaign_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "state.jsonl"
    whole = run_campaign(["fan-0"], range(10), workers=1)

    def interrupt(done: int, _total: int) -> None:
        if done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_campaign(["fan-0"], range(10), workers=1, state=path, on_progress=interrupt)
    assert len(path.read_bytes().splitlines()) == 6
    with path.open("ab") as file:
        file.write(b'{"protocol":"fan-0","seed":6,"viol')  # cut off in the middle

    ran = []
    run = campaign._run_job

    def counted(profile: Profile, job: tuple[str, int]) -> Outcome:
        ran.append(job[1])
        return run(profile, job)

    monkeypatch.setattr(campaign, "_run_job", counted)
    assert run_campaign(["fan-0"], range(10), workers=1, state=path) == whole
    assert ran == [6, 7, 8, 9]
    assert not path.exists()


def test_a_state_that_cannot_be_written_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="--state"):
        run_campaign(["fan-0"], range(1), workers=1, state=tmp_path)


def test_outcomes_survive_the_way_through_a_file(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    outcome = Outcome("fan-0", 3, (Violation("P1", "late", ("a:0:1",), ("b",)),), faults={"loss": 2})
    state = State(path)
    state.add(outcome)
    state.close(finished=False)
    assert State(path).outcomes == {("fan-0", 3): outcome}


def test_the_version_of_the_code_is_the_same_as_long_as_the_code_is() -> None:
    assert code_version() == code_version()


def test_a_run_that_has_settled_early_ends_and_is_judged_like_the_whole_one() -> None:
    protocol = find_protocol("intergroup")
    early = run_seed(protocol, 9)  # not one of the eighth that have all of their time
    whole = early.scenario.simulation().execute()
    assert early.run.ended_at < whole.ended_at == early.scenario.duration + early.scenario.settle
    assert not early.outcome.violations

    def happenings(table: pa.Table) -> list[dict[str, object]]:
        return [row for row in table.to_pylist() if row["kind"] not in ("send", "receive", "drop")]

    def without_places(rows: list[dict[str, object]]) -> list[dict[str, object]]:
        return [{name: value for name, value in row.items() if name != "seq"} for row in rows]

    assert without_places(happenings(early.table)) == without_places(happenings(whole.table()))


def test_a_promise_that_is_not_kept_yet_when_all_is_quiet_gets_the_whole_time() -> None:
    token = find_protocol("token")
    tuning = replace(token.arrangement.campaign, quiet=0.001)
    impatient = type("Impatient", (token,), {"arrangement": replace(token.arrangement, campaign=tuning)})
    trials = [run_seed(impatient, seed) for seed in range(12)]
    assert not any(trial.outcome.violations for trial in trials)
    whole = {trial.run.ended_at == trial.scenario.duration + trial.scenario.settle for trial in trials}
    assert whole == {True, False}
