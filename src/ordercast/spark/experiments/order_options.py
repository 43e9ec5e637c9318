"""What the options of the propagation graph do to order: runs of its campaign, with `entry` or `bypass` set."""

from __future__ import annotations

from itertools import count

import msgspec

from ordercast.campaign.draw import Draw
from ordercast.campaign.outcome import run_scenario
from ordercast.check import choose
from ordercast.core import OptionValues
from ordercast.protocols import find_protocol
from ordercast.sim.scenario import SEED_MAX, Scenario
from ordercast.spark.experiments.experiment import Point

PROTOCOL = "propagation-graph"
MODES: dict[str, OptionValues] = {"default": {}, "entry = root": {"entry": "root"}, "bypass": {"bypass": True}}
ORDERS = ("source-order", "causal-order", "acyclic-order", "multiple-group-order")
CLAIMED = "claims"


def make_scenario(mode: str, seed: int) -> Scenario:
    """A run of the campaign, changes and faults included, with the option; where a message may have one group only,
    each has one."""
    protocol = find_protocol(PROTOCOL)
    scenarios = (Draw(protocol, (seed + step) % SEED_MAX).scenario() for step in count())
    # The options are for delivery that is atomic: the first run from there on that has it.
    scenario = next(each for each in scenarios if each.options.get("delivery", "atomic") == "atomic")
    scenario = msgspec.structs.replace(scenario, options={**scenario.options, **MODES[mode]})
    if not scenario.protocol.contract.with_options(scenario.protocol_options()).several_groups:
        workloads = tuple(msgspec.structs.replace(workload, choose=1) for workload in scenario.workloads)
        scenario = msgspec.structs.replace(scenario, workloads=workloads)
    # An option that one process has otherwise is refused by the others, which is no matter of order.
    return msgspec.structs.replace(scenario, faults=tuple(each for each in scenario.faults if each.kind != "drift"))


def run_mode(point: Point, seed: int) -> dict[str, float | None]:
    """For each order, and for all that is claimed together: 1 when the run violates it, 0 when not."""
    judged = choose(dict.fromkeys((*find_protocol(PROTOCOL).contract.guarantees, *ORDERS)))
    trial = run_scenario(make_scenario(str(point["mode"]), seed), judged)
    violated = {name for name, verdict in trial.verdicts.items() if verdict.verdict == "violated"}
    broken = any(trial.verdicts[name].claimed for name in violated)
    # A core that crashes has no verdicts, and keeps nothing.
    values: dict[str, float | None] = {
        name.replace("-", "_"): float(name in violated or not trial.verdicts) for name in ORDERS
    }
    return values | {CLAIMED: float(broken or not trial.verdicts)}
