"""The campaign reaches the moments in which a change of `token`'s list can go wrong, and every claim holds there."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest

from ordercast.campaign import run_seed
from ordercast.campaign.outcome import Trial
from ordercast.protocols.classic.token import Token
from ordercast.sim.faults import Partition
from ordercast.sim.site.site import SimulatedSite

SEEDS_MAX = 200

BRANCHES = {
    "last-one-left": "the last member leaves",
    "several-changes": "two join or leave at once",
    "old-list": "somebody comes back with a list that the others have left behind",
    "other-lineage": "a stranger with a list of another lineage",
}
AT_A_CRASH = (
    "a joiner dies before it is in",
    "a leaver dies while it leaves",
    "the originator dies while inviting",
    "the originator dies while admitting",
    "the originator dies while installing",
    "somebody joins and a member dies",
)
IN_A_PARTITION = "a change while the network is split"


def moments_of_crash(core: Token, others: list[Token]) -> set[str]:
    """What a site dies in the middle of."""
    wishes = core.changes._wishes.values()
    found = set()
    if core.system.outside and True in wishes:
        found.add("a joiner dies before it is in")
    if not core.system.outside and (False in wishes or core.system.is_leaving):
        found.add("a leaver dies while it leaves")
    if core.attempt.stage in ("inviting", "admitting", "installing"):
        found.add(f"the originator dies while {core.attempt.stage}")
    if not core.system.outside and any(each.system.outside and each.changes._wishes for each in others):
        found.add("somebody joins and a member dies")
    return found


def is_change_in_a_partition(trial: Trial) -> bool:
    splits = [fault for fault in trial.scenario.faults if isinstance(fault, Partition)]
    changes = (row for row in trial.table.to_pylist() if row["kind"] in ("join", "leave"))
    return any(each.from_ < row["time"] < (each.to or row["time"]) for row in changes for each in splits)


def run_watched(seen: Counter[str], seed: int) -> Trial:
    """A run of the campaign; what it has reached is counted."""
    with pytest.MonkeyPatch.context() as patch:
        crash = SimulatedSite.crash_instance

        def watch(site: SimulatedSite, name: str, *arguments: Any) -> None:
            if name in site.instances:
                cores = (each.instances[name].core for each in site.simulation.sites.values() if name in each.instances)
                core, *others = sorted(cores, key=lambda core: core.site != site.name)
                seen.update(moments_of_crash(core, others))  # type: ignore[arg-type]
            crash(site, name, *arguments)

        patch.setattr(SimulatedSite, "crash_instance", watch)
        trial = run_seed(Token, seed)
    seen.update(BRANCHES[name] for name, times in trial.outcome.branches.items() if times and name in BRANCHES)
    if is_change_in_a_partition(trial):
        seen[IN_A_PARTITION] += 1
    return trial


@pytest.mark.campaign
def test_every_moment_in_which_a_change_can_go_wrong_is_reached() -> None:
    """Joiner, leaver and originator die in each step, the network splits, the last one leaves, several come at once,
    somebody comes with an old list."""
    seen: Counter[str] = Counter()
    wanted = {*BRANCHES.values(), *AT_A_CRASH, IN_A_PARTITION}
    for trial in map(partial(run_watched, seen), range(SEEDS_MAX)):
        assert not trial.outcome.violations, trial.outcome.replay
        if wanted <= seen.keys():
            return
    pytest.fail(f"{SEEDS_MAX} seeds have not reached: {', '.join(sorted(wanted - seen.keys()))}")
