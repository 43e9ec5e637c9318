"""Many seeds of many protocols, on several processes; the same result whatever their number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ordercast.campaign.outcome import Outcome, run_seed
from ordercast.campaign.profile import Profile
from ordercast.campaign.state import Job, State
from ordercast.campaign.workers import work
from ordercast.protocols import find_protocol


class Report(msgspec.Struct, frozen=True):
    """What a campaign found, by protocol and seed."""

    outcomes: tuple[Outcome, ...]

    @property
    def failing(self) -> tuple[Outcome, ...]:
        """The outcomes with violations."""
        return tuple(outcome for outcome in self.outcomes if outcome.violations)

    @property
    def vacuous(self) -> tuple[Outcome, ...]:
        """The outcomes that prove nothing."""
        return tuple(outcome for outcome in self.outcomes if outcome.vacuous)

    @property
    def simulated_seconds(self) -> float:
        """Of all runs together."""
        return sum(outcome.simulated_seconds for outcome in self.outcomes)

    def faults(self) -> dict[str, int]:
        """Kind -> how often it did something, 0 for those that the protocols stand but that never did."""
        counts = Counter({kind: 0 for protocol in self.protocols() for kind in find_protocol(protocol).contract.faults})
        for outcome in self.outcomes:
            counts.update(outcome.faults)
        return dict(sorted(counts.items()))

    def changes(self) -> dict[str, int]:
        """Kind of change -> how often one came about."""
        counts: Counter[str] = Counter()
        for outcome in self.outcomes:
            counts.update(outcome.changes)
        return dict(sorted(counts.items()))

    def excused(self) -> dict[str, int]:
        """Property -> runs in which its exception was seen."""
        counts: Counter[str] = Counter()
        for outcome in self.outcomes:
            counts.update(outcome.excused.keys())
        return dict(sorted(counts.items()))

    def branches(self) -> dict[str, dict[str, int]]:
        """Protocol -> branch -> how often it was taken, 0 for declared ones that never were."""
        return {
            protocol: {
                branch: sum(
                    outcome.branches.get(branch, 0) for outcome in self.outcomes if outcome.protocol == protocol
                )
                for branch in find_protocol(protocol).contract.branches
            }
            for protocol in self.protocols()
        }

    def unreached(self) -> dict[str, tuple[str, ...]]:
        """Protocol -> what it declares and the campaign never saw: fault kinds and branches."""
        branches = self.branches()
        result = {}
        for protocol in self.protocols():
            fired = {kind for outcome in self.outcomes if outcome.protocol == protocol for kind in outcome.faults}
            faults = [f"fault {kind}" for kind in find_protocol(protocol).contract.faults if kind not in fired]
            untaken = [f"branch {branch}" for branch, count in branches[protocol].items() if not count]
            if faults or untaken:
                result[protocol] = (*faults, *untaken)
        return result

    def protocols(self) -> list[str]:
        """Those that ran, in order."""
        return list(dict.fromkeys(outcome.protocol for outcome in self.outcomes))

    def as_json(self, seconds: float) -> dict[str, Any]:
        """The document of `ordercast simulate --campaign N --json`."""
        return {
            "runs": len(self.outcomes),
            "violations": [
                {
                    "protocol": outcome.protocol,
                    "seed": outcome.seed,
                    "property": violation.property,
                    "why": violation.why,
                    "replay": outcome.replay,
                }
                for outcome in self.failing
                for violation in outcome.violations
            ],
            "vacuous_runs": len(self.vacuous),
            "refused": sum(outcome.refused for outcome in self.outcomes),
            "faults": self.faults(),
            "changes": self.changes(),
            "excused": self.excused(),
            "branches": self.branches(),
            "unreached": {protocol: list(names) for protocol, names in self.unreached().items()},
            "simulated_seconds": round(self.simulated_seconds),
            "seconds": round(seconds, 3),
        }


def run_campaign(
    protocols: Sequence[str],
    seeds: range,
    *,
    profile: Profile = "usual",
    workers: int | None = None,
    run: Callable[[Sequence[Job]], Iterator[Outcome]] | None = None,
    state: Path | None = None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Report:
    """Run every seed with every protocol, on so many processes (by default one for each processor), or with `run`,
    which knows the profile itself."""
    # Seed by seed and not protocol by protocol, so that what is left can be told from what is done.
    jobs = [(protocol, seed) for seed in seeds for protocol in protocols]
    kept = State(state)
    missing = kept.missing(jobs)
    finished = False
    try:
        done = len(jobs) - len(missing)
        on_progress(done, len(jobs))
        run_here = partial(_run_job, profile)
        for outcome in work(run_here, missing, workers) if run is None else run(missing):
            kept.add(outcome)
            done += 1
            on_progress(done, len(jobs))
        finished = True
    finally:
        kept.close(finished)
    order = {protocol: place for place, protocol in enumerate(protocols)}
    wanted = sorted(jobs, key=lambda job: (order[job[0]], job[1]))
    return Report(tuple(kept.outcomes[job] for job in wanted))


def _run_job(profile: Profile, job: Job) -> Outcome:
    protocol, seed = job
    return run_seed(find_protocol(protocol), seed, profile).outcome
