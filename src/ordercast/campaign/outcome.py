"""One run of a campaign, executed and judged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from ordercast.campaign.draw import Draw
from ordercast.campaign.profile import Profile, draw_of
from ordercast.campaign.rest import goes_on, with_rest
from ordercast.campaign.shape import USUAL
from ordercast.check import CLAIMED, Choice, Verdict, judge
from ordercast.core import Protocol
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation
from ordercast.sim.kernel import Runaway
from ordercast.sim.scenario import Scenario
from ordercast.trace.schema import Run

EVENTS_MAX = 200_000
"""Events that one run handles at the most; the busiest honest runs take a tenth. More means that a protocol talks to
itself without end."""
EVENTS_PER_SECOND = 4_000
"""Of simulated time and six sites, where that allows more: a run of a thousand messages settles for a minute or two,
and what one of twenty sites broadcasts is twenty events."""
EVENTS_PER_PAIR = 12
"""Of simulated time, for each two members of each group (also of a member with itself), where that allows more: in a
large run of minutes under faults, fifty memberships may all be in a repair, and each says a few times a second to all
what was not answered."""

ATTEMPTS_MAX = 8
"""A draw that proves nothing is drawn again, so many times at the most."""

CRASH = "crash"
"""What a run violates when a core raises an exception."""
RUNAWAY = "runaway"
"""What a run violates when it has more events than an honest one (`bound_of`)."""
WIRE_ERROR = "wire-error"
"""What a run violates when a core takes a packet for malformed that another core has sent."""
STARVED = "starved"
"""What a run violates when a source waits for credit at its end, although everything was healed long ago."""

UNANSWERED = "unanswered"
"""What a run violates when a site that wants to join or leave a group hears nothing of it, although everything was
healed long ago."""

_ORDERS = ("order", "R1", "R2", "R3")


class Violation(msgspec.Struct, frozen=True):
    """A claim that does not hold in a run."""

    property: str
    why: str
    """The first witness, or the exception."""
    messages: tuple[str, ...] = ()
    sites: tuple[str, ...] = ()


class Outcome(msgspec.Struct, frozen=True):
    """What came of one seed; this is also a line of a campaign's state file."""

    protocol: str
    seed: int
    violations: tuple[Violation, ...] = ()
    vacuous: str = ""
    """Why the run proves nothing; empty when it proves something."""
    refused: int = 0
    """How many sites were told that they must not take part."""
    faults: dict[str, int] = {}
    changes: dict[str, int] = {}
    """Kind of change -> how often one came about."""
    branches: dict[str, int] = {}
    not_judged: tuple[str, ...] = ()
    """Claims that nobody could judge in this run: a site was slower than phi_p."""
    excused: dict[str, int] = {}
    """Property -> pairs of messages that violate it but for its exception: R2's site that failed."""
    events: int = 0
    """Rows of the trace."""
    schedule: str = ""
    """The one that looked for trouble in it, if one did."""
    large: bool = False
    """Whether it was one of a dozen sites and more, for minutes."""
    turns: tuple[int, ...] = ()
    """That it has taken, in a campaign that is steered."""
    simulated_seconds: float = 0.0
    """Until everything had settled."""

    @property
    def properties(self) -> tuple[str, ...]:
        """Which claims do not hold."""
        return tuple(violation.property for violation in self.violations)

    @property
    def replay(self) -> str:
        """What to type to see the run again."""
        return self.draw.replay

    @property
    def draw(self) -> Draw:
        """What decided the run."""
        return Draw(find_protocol(self.protocol), self.seed, schedule=self.schedule, large=self.large, turns=self.turns)


class Trial(msgspec.Struct, frozen=True):
    """An outcome with everything behind it, for whoever wants to look."""

    scenario: Scenario
    outcome: Outcome
    run: Run
    table: Any
    """The events, up to where a core crashed."""
    verdicts: dict[str, Verdict] = {}
    """Of the claims; none when a core crashed."""


def run_seed(protocol: type[Protocol], seed: int, profile: Profile = "usual") -> Trial:
    """The run of a seed in a campaign of that profile."""
    return run_draw(draw_of(protocol, seed, profile))


def run_draw(draw: Draw, choice: Choice = CLAIMED) -> Trial:
    """Execute and judge a draw. One that proves nothing is drawn again; what the last one proves counts."""
    for attempt in range(ATTEMPTS_MAX):
        trial = run_scenario(draw.scenario(attempt), choice)
        if not trial.outcome.vacuous:
            break
    named = replace(trial.outcome, seed=draw.seed, schedule=draw.schedule, large=draw.large, turns=draw.turns)
    return replace(trial, outcome=named)


def run_scenario(scenario: Scenario, choice: Choice = CLAIMED, events_max: int | None = None) -> Trial:
    """Execute a run and judge what is chosen, and nothing else has a verdict."""
    if events_max is None:
        events_max = bound_of(scenario)
    trial, ended_early = _try(scenario, choice, events_max, scenario.protocol.arrangement.campaign.quiet)
    if ended_early and (trial.outcome.violations or trial.outcome.vacuous):
        # What was promised may still have come true.
        trial, _ = _try(scenario, choice, events_max, None)
    return trial


def bound_of(scenario: Scenario) -> int:
    """More events than these of one run are without end."""
    pairs = sum(len(members) ** 2 for members in scenario.groups.values())
    rate = max(EVENTS_PER_SECOND * max(1.0, len(scenario.sites) / USUAL.sites_max), EVENTS_PER_PAIR * pairs)
    return max(EVENTS_MAX, int(rate * (scenario.duration + scenario.settle)))


def _try(scenario: Scenario, choice: Choice, events_max: int, quiet_seconds: float | None) -> tuple[Trial, bool]:
    """The run, and whether it has ended before its time."""
    simulation = scenario.simulation()
    simulation.queue.events_max = events_max
    if quiet_seconds is not None and goes_on(simulation, scenario.seed, quiet_seconds):
        quiet_seconds = None
    failure = None
    try:
        simulation.execute(quiet_seconds)
    except Runaway:
        failure = Violation(RUNAWAY, f"more than {events_max} events after {simulation.queue.now:.3f} s")
    except Exception as error:  # whatever a core raises is a finding about that core
        notes = " ".join(str(part) for part in (error, *getattr(error, "__notes__", ())))
        failure = Violation(CRASH, f"{type(error).__name__}: {notes}")
    run, table = simulation.header(), simulation.table()
    if failure is not None:
        return Trial(scenario, _outcome(scenario, simulation, (failure,), events=len(table)), run, table), False
    run = with_rest(run, simulation)
    verdicts = judge(run, table, Choice(choice.judged(run)))
    violations = tuple(
        Violation(name, verdict.first.why, verdict.first.messages, verdict.first.sites)
        for name, verdict in verdicts.items()
        if verdict.verdict == "violated" and verdict.first is not None
    )
    if not choice.unclaimed_too:
        violations += tuple(_unseen(simulation, run))
    not_judged = tuple(name for name, verdict in verdicts.items() if verdict.verdict == "not-judged")
    vacuous = "" if violations else _vacuous(scenario, simulation, table, verdicts)
    excused = {name: verdict.excused for name, verdict in verdicts.items() if verdict.excused}
    outcome = replace(_outcome(scenario, simulation, violations, vacuous, not_judged, len(table)), excused=excused)
    return Trial(scenario, outcome, run, table, verdicts), simulation.ended_early


def _outcome(
    scenario: Scenario,
    simulation: Simulation,
    violations: tuple[Violation, ...],
    vacuous: str = "",
    not_judged: tuple[str, ...] = (),
    events: int = 0,
) -> Outcome:
    return Outcome(
        protocol=scenario.protocol.contract.name,
        seed=scenario.seed,
        violations=violations,
        vacuous=vacuous,
        refused=len(simulation.refusals),
        faults=dict(simulation.fault_counts),
        changes=dict(simulation.change_counts),
        branches=dict(simulation.branches),
        not_judged=not_judged,
        events=events,
        simulated_seconds=round(simulation.queue.now, 3),
    )


def _unseen(simulation: Simulation, run: Run) -> Iterator[Violation]:
    """What a protocol must not do either, and no judge can see, for it does not stand in the trace."""
    # A forged packet does not come so far: sites know each other, and drop what is from nobody or no packet.
    if simulation.wire_errors:
        yield Violation(WIRE_ERROR, simulation.first_wire_error)
    # Who delivers everything in the end takes everything in the end; where somebody was refused, or a contract promises
    # no end, the others may wait for ever.
    if "termination" in run.guarantees or "view-termination" in run.guarantees:
        up = [site for site in simulation.sites.values() if site.up]
        for site in up:
            reasons = f" ({site.blocked_reasons[-1]})" if site.blocked_reasons else ""
            if site.waiting_messages and not site.membership.is_outside:
                why = f"{site.waiting_messages} messages still wait for credit at {site.name}{reasons}"
                yield Violation(STARVED, why, sites=(site.name,))
                break
        for site in up:
            for wish in site.membership.unanswered:
                why = f"{site.name} has asked to {wish.kind} {wish.group}, and nothing came of it"
                yield Violation(UNANSWERED, why, sites=(site.name,))
                return


def _vacuous(scenario: Scenario, simulation: Simulation, table: pa.Table, verdicts: dict[str, Verdict]) -> str:
    if scenario.faults and not simulation.fault_counts:
        return "no fault fired"
    if scenario.changes and not simulation.change_counts:
        return "no change came about"
    if simulation.calls_the_roll and not simulation.refusals:
        return "nobody was refused"
    if "deliver" not in table.column("kind").unique().to_pylist():
        return "nothing was delivered"
    orders = [verdict.verdict for name, verdict in verdicts.items() if any(word in name for word in _ORDERS)]
    if orders and all(verdict == "vacuous" for verdict in orders):
        return "no two messages were delivered at two sites"
    return ""
