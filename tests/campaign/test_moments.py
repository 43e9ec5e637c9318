"""The campaign reaches the moments in which a change of `token`'s list can go wrong, and every claim holds there."""

from __future__ import annotations

from collections import Counter

import pytest

from ordercast.campaign import run_seed
from ordercast.campaign.outcome import Trial
from ordercast.protocols.classic.token import Token
from ordercast.sim.faults import Partition

SEEDS_MAX = 200

BRANCHES = {
    "joiner-crashed": "a joiner dies before it is in",
    "leaver-crashed": "a leaver dies while it leaves",
    "crashed-inviting": "the originator dies while it invites",
    "crashed-admitting": "the originator dies while it lets somebody in",
    "crashed-installing": "the originator dies while the others install the list",
    "crashed-opening": "the originator dies when the list can begin",
    "changed-without-some": "the list changes while some of it are away",
    "no-majority-for-change": "a change is wanted where there is no majority",
    "last-one-left": "the last member leaves",
    "several-come": "two join at once",
    "crashed-while-somebody-comes": "somebody joins and a member dies",
    "old-list": "somebody comes back with a list that the others have left behind",
    "other-lineage": "a stranger with a list of another lineage",
}
IN_A_PARTITION = "a change while the network is split"


def is_change_in_a_partition(trial: Trial) -> bool:
    splits = [fault for fault in trial.scenario.faults if isinstance(fault, Partition)]
    changes = (row for row in trial.table.to_pylist() if row["kind"] in ("join", "leave"))
    return any(each.from_ < row["time"] < (each.to or row["time"]) for row in changes for each in splits)


@pytest.mark.campaign
def test_every_moment_in_which_a_change_can_go_wrong_is_reached() -> None:
    """Joiner, leaver and originator die in each step, the network splits, the last one leaves, several come at once,
    somebody comes with an old list."""
    assert BRANCHES.keys() <= {*Token.contract.branches}, "every campaign counts them, and says which it never reached"
    seen: Counter[str] = Counter()
    wanted = {*BRANCHES.values(), IN_A_PARTITION}
    for seed in range(SEEDS_MAX):
        trial = run_seed(Token, seed)
        assert not trial.outcome.violations, trial.outcome.replay
        seen.update(BRANCHES[name] for name in trial.outcome.branches if name in BRANCHES)
        if is_change_in_a_partition(trial):
            seen[IN_A_PARTITION] += 1
        if wanted <= seen.keys():
            return
    pytest.fail(f"{SEEDS_MAX} seeds have not reached: {', '.join(sorted(wanted - seen.keys()))}")
