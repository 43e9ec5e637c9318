"""Rules of chapter 5, each of them broken on purpose: the judges, or what is counted, must show it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from ordercast.campaign.outcome import run_scenario
from ordercast.protocols.intergroup.dynamic import DynamicInterGroup
from ordercast.protocols.intergroup.membership.bootstrap import Bootstrap
from ordercast.protocols.intergroup.membership.member import Member
from ordercast.protocols.intergroup.membership.mra import RepairRun
from ordercast.protocols.intergroup.membership.packets import PJoin, ViewAnswer
from ordercast.protocols.intergroup.membership.states import Repair
from ordercast.protocols.intergroup.packets import ViewId
from ordercast.protocols.intergroup.stream import Stream
from ordercast.sim.change import Change
from ordercast.sim.faults import AnyFault, Crash
from ordercast.sim.network_table import PointToPointTable
from ordercast.sim.scenario import Scenario
from ordercast.sim.workload import Workload

SITES = ("a", "b", "c", "d")
SECONDS = 8.0


def scenario(*faults: AnyFault, changes: tuple[Change, ...] = ()) -> Scenario:
    """Four senders, all of which multicast."""
    return Scenario(
        protocol=DynamicInterGroup,
        name="mutant",
        seed=1,
        groups={"g": SITES},
        network=PointToPointTable(processing=0.0001, latency=0.005),
        duration=SECONDS,
        settle=10.0,
        options={"views": "change"},
        workloads=(Workload(sources=SITES, groups=("g",), rate=10.0, count=int(8 * SECONDS)),),
        faults=faults,
        changes=changes,
    )


def equal_sets_storm(patch: pytest.MonkeyPatch) -> None:
    """Figure 5.5 as printed (E8): a PJoin with equal sets is answered by another one, and consensus is never tested."""
    sound = RepairRun.on_pjoin

    def on_pjoin(self: RepairRun, sender: str, packet: PJoin) -> None:
        if set(packet.procs) == self.procs and set(packet.fail) == self.failed and self.state is Repair.CONSENSUS:
            self._say(self._proposals[self._core.site])
        else:
            sound(self, sender, packet)

    patch.setattr(RepairRun, "on_pjoin", on_pjoin)


def new_sender_is_foreign(patch: pytest.MonkeyPatch) -> None:
    """E15: what a new sender says before its PAdd has had its turn starts a repair."""
    sound = Member.hear

    def hear(self: Member, sender: str, epoch: ViewId) -> Stream | None:
        if epoch == self.epoch and sender not in self.members:
            self.on_foreign(sender)
        return sound(self, sender, epoch)

    patch.setattr(Member, "hear", hear)


def first_number_one_too_high(patch: pytest.MonkeyPatch) -> None:
    """5.3.1: a joiner begins behind the first message of each sender that it should deliver."""
    sound = Bootstrap.on_answer

    def on_answer(self: Bootstrap, packet: ViewAnswer) -> None:
        sound(self, replace(packet, first={sender: seq + 1 for sender, seq in packet.first.items()}))

    patch.setattr(Bootstrap, "on_answer", on_answer)


CRASH = (Crash(from_=3.0, sites=("b",), forever=True),)
JOIN = (Change(kind="join", at=3.0, sites=("p",), group="g"),)
ROLES = (
    Change(kind="role", at=2.0, sites=("b",), group="g", role="receiver"),
    Change(kind="role", at=4.0, sites=("b",), group="g", role="sender"),
)


def is_violated(run: Scenario) -> bool:
    """Whether a claim does not hold, or a core goes wrong."""
    return bool(run_scenario(run).outcome.violations)


def repairs(run: Scenario) -> bool:
    """Whether there is a repair."""
    return run_scenario(run).outcome.branches.get("sender>mra", 0) > 0


CASES: list[tuple[Callable[[pytest.MonkeyPatch], None], Scenario, Callable[[Scenario], bool]]] = [
    (equal_sets_storm, scenario(*CRASH), is_violated),
    (new_sender_is_foreign, scenario(changes=ROLES), repairs),
    (first_number_one_too_high, scenario(changes=JOIN), is_violated),
]


@pytest.mark.parametrize(("mutant", "run", "shows"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_the_rule_is_needed(
    mutant: Callable[[pytest.MonkeyPatch], None], run: Scenario, shows: Callable[[Scenario], bool]
) -> None:
    assert not shows(run)
    with pytest.MonkeyPatch.context() as patch:
        mutant(patch)
        assert shows(run)
