"""What happens to a cluster, and when: drawn from a seed, so that it can be drawn again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf
from random import Random
from typing import ClassVar, Literal

import msgspec

from ordercast.core import SiteId, UsageError

MARGIN_SECONDS = 0.5
"""Between two things of which only one may happen at a time."""

RETURN_SECONDS = 4.0
"""What the plan reserves for a process that is started with the wrong log, refused, and started with its own."""

VISIT_SECONDS = 3.0
"""What the plan reserves for a stranger."""

AWAY_MIN, AWAY_MAX = 0.34, 0.45
"""Of the whole time."""

FloodKind = Literal["junk", "forged", "replayed"]
FLOOD_KINDS: tuple[FloodKind, ...] = ("junk", "forged", "replayed")

StrangerKind = Literal["unknown", "namesake", "differing", "foreign"]
STRANGER_KINDS: tuple[StrangerKind, ...] = ("unknown", "namesake", "differing", "foreign")


class Fault(msgspec.Struct, frozen=True):
    """Base of what happens. Times are those of the plan, whose clock stands still while something happens alone and
    takes longer than was reserved for it."""

    at: float
    process: SiteId
    seconds: float
    alone: ClassVar[bool] = False
    """Whether everybody else is to be up and nothing else may happen meanwhile."""


class Kill(Fault, frozen=True, tag="kill"):
    """SIGKILL, and a new start after a while; after infinitely many seconds: never."""


class Pause(Fault, frozen=True, tag="pause"):
    """SIGSTOP, and SIGCONT after a while: longer than any time-out."""


class Partition(msgspec.Struct, frozen=True, tag="partition"):
    """These processes and the others do not reach each other for a while."""

    at: float
    side: tuple[SiteId, ...]
    seconds: float
    alone: ClassVar[bool] = False


class Start(msgspec.Struct, frozen=True, tag="start"):
    """A process that does not start with the others: it comes now, with nothing."""

    at: float
    process: SiteId
    seconds: float = 0.0
    alone: ClassVar[bool] = False


class Join(msgspec.Struct, frozen=True, tag="join"):
    """A process comes that nobody has heard of, and joins the group."""

    at: float
    process: SiteId
    seconds: float = 0.0
    alone: ClassVar[bool] = False


class Leave(msgspec.Struct, frozen=True, tag="leave"):
    """A process leaves the group by command, and ends."""

    at: float
    process: SiteId
    seconds: float = 0.0
    alone: ClassVar[bool] = False


class Away(Fault, frozen=True, tag="away"):
    """SIGKILL, and a new start after a large part of the run, in which the others work on as far as they can."""


class Rollback(Fault, frozen=True, tag="rollback"):
    """SIGKILL, and a new start with the log as it was earlier in the run."""

    copied: float
    """When the copy is taken, as a backup tool would: of a process that runs."""
    alone: ClassVar[bool] = True


class LostLog(Fault, frozen=True, tag="lost-log"):
    """SIGKILL, and a new start without the log."""

    alone: ClassVar[bool] = True


class Flood(Fault, frozen=True, tag="flood"):
    """Datagrams that no process has sent, at the address of one process, as fast as one sender can."""

    kind: FloodKind


class Stranger(Fault, frozen=True, tag="stranger"):
    """Somebody who has the key and does not belong here."""

    kind: StrangerKind
    """`unknown`: named like nobody; `namesake`: named like a process that runs; `differing`: in a process' place, with
    another configuration; `foreign`: bytes that no replica wrote, sent through a process."""
    alone: ClassVar[bool] = True


Action = Kill | Pause | Partition | Start | Join | Leave | Away | Rollback | LostLog | Flood | Stranger


class Plan(msgspec.Struct, frozen=True):
    """A whole run."""

    seconds: float
    actions: tuple[Action, ...]
    loss: float = 0.0
    duplication: float = 0.0
    delay_seconds: float = 0.0

    def asked(self) -> Counter[str]:
        """How often each kind of fault is to strike."""
        return Counter(kind_of(action) for action in self.actions)


def kind_of(action: Action) -> str:
    """The name of a fault."""
    return str(action.__struct_config__.tag)


def describe_action(action: Action) -> str:
    """One line for people."""
    match action:
        case Partition(side=side, seconds=seconds):
            return f"partition: {', '.join(side)} for {seconds:.1f} s"
        case Rollback(process=process, copied=copied):
            return f"rollback: {process}, to its log of {copied:.1f} s"
        case Flood(process=process, kind=kind, seconds=seconds):
            return f"flood ({kind}): {process}, for {seconds:.1f} s"
        case Stranger(process=process, kind=kind):
            return f"stranger ({kind}): {process}"
        case LostLog(process=process) | Start(process=process) | Join(process=process) | Leave(process=process):
            return f"{kind_of(action)}: {process}"
        case _:
            return f"{kind_of(action)}: {action.process} for {action.seconds:.1f} s"


def draw_plan(
    seed: int,
    processes: Sequence[SiteId],
    seconds: float,
    kills: int,
    pauses: int,
    partitions: int,
    loss: float,
    duplication: float,
    delay_seconds: float,
    *,
    rollbacks: int = 0,
    lost_logs: int = 0,
    away: int = 0,
    floods: int = 0,
    strangers: int = 0,
    deaths: int = 0,
    majority_suffices: bool = False,
    pause_seconds: float = 0.0,
) -> Plan:
    """So many faults of each kind at random moments, each for a random time; a process is down or stopped once at a
    time.

    What happens to a log happens alone: whoever relied on what is lost must be there to say so. So does an absence,
    unless a majority suffices for the others to go on: then some of them are hurt meanwhile, and a majority is not.
    """
    if seconds <= 0 or min(deaths, kills, pauses, partitions, rollbacks, lost_logs, away, floods, strangers) < 0:
        raise UsageError("chaos needs a positive time, and numbers of faults that are 0 or more")
    if partitions and len(processes) < 2:
        raise UsageError("one process alone cannot be partitioned")
    random = Random(f"ordercast chaos {seed}")
    names = sorted(processes)
    reserved = (rollbacks + lost_logs) * (RETURN_SECONDS + MARGIN_SECONDS)
    reserved += strangers * (VISIT_SECONDS + MARGIN_SECONDS)
    if not majority_suffices:
        reserved += away * (AWAY_MAX * seconds + MARGIN_SECONDS)
    rest = max(seconds - reserved, seconds / 3)
    actions = _draw_short(random, names, rest, kills, pauses, partitions, pause_seconds)
    actions += _draw_floods(random, names, rest, floods)
    for _ in range(away):
        lasts = random.uniform(AWAY_MIN, AWAY_MAX) * seconds
        if not (majority_suffices and _add_away(random, names, rest, lasts, actions)):
            _insert(random, rest, actions, Away(0.0, random.choice(names), lasts))
    alone: list[Action] = [Rollback(0.0, random.choice(names), RETURN_SECONDS, 0.0) for _ in range(rollbacks)]
    alone += [LostLog(0.0, random.choice(names), RETURN_SECONDS) for _ in range(lost_logs)]
    alone += [
        Stranger(0.0, random.choice(names), VISIT_SECONDS, STRANGER_KINDS[index % len(STRANGER_KINDS)])
        for index in range(strangers)
    ]
    random.shuffle(alone)
    for action in alone:
        _insert(random, rest, actions, action)
    for index, action in enumerate(actions):
        if isinstance(action, Rollback):
            actions[index] = msgspec.structs.replace(action, copied=random.uniform(0.2, 0.9) * action.at)
    end = max([seconds, *(action.at + action.seconds for action in actions)])
    actions = _with_deaths(random, names, rest, deaths, actions)
    actions.sort(key=lambda action: action.at)
    return Plan(end, tuple(actions), loss, duplication, delay_seconds)


def _draw_short(
    random: Random,
    names: Sequence[SiteId],
    seconds: float,
    kills: int,
    pauses: int,
    partitions: int,
    pause_seconds: float,
) -> list[Action]:
    """What is over soon, and may happen to several at a time."""
    down_max = min(4.0, seconds / 4)
    free_at = dict.fromkeys(names, 0.0)
    actions: list[Action] = []
    kinds: list[type[Kill] | type[Pause]] = [Kill] * kills + [Pause] * pauses
    random.shuffle(kinds)
    moments = sorted(random.uniform(0.05, 0.85) * seconds for _ in kinds)
    for kind, moment in zip(kinds, moments, strict=True):
        process = random.choice([name for name in names if free_at[name] == min(free_at.values())])
        at = max(moment, free_at[process])
        lasts = random.uniform(0.2, 1.0) * down_max
        if kind is Pause and pause_seconds:
            lasts = pause_seconds
        free_at[process] = at + lasts + MARGIN_SECONDS
        actions.append(kind(at, process, lasts))
    for _ in range(partitions):
        side = random.sample(names, random.randint(1, len(names) - 1))
        actions.append(
            Partition(random.uniform(0.05, 0.85) * seconds, tuple(sorted(side)), random.uniform(0.2, 1.0) * down_max)
        )
    return actions


def _with_deaths(
    random: Random, names: Sequence[SiteId], seconds: float, deaths: int, actions: list[Action]
) -> list[Action]:
    """Some die; nothing befalls them from then on."""
    died: dict[SiteId, float] = {}
    for process in random.sample(names, deaths):
        died[process] = random.uniform(0.2, 0.6) * seconds
    spared = [
        action
        for action in actions
        if not isinstance(action, Fault) or action.at + action.seconds + MARGIN_SECONDS < died.get(action.process, inf)
    ]
    return spared + [Kill(at, process, inf) for process, at in died.items()]


def _draw_floods(random: Random, names: Sequence[SiteId], seconds: float, floods: int) -> list[Action]:
    """One at a time, or they would share a sender."""
    each = seconds / max(1, floods)
    return [
        Flood(
            (index + random.uniform(0.1, 0.4)) * each,
            random.choice(names),
            min(random.uniform(2.0, 3.0), each / 2),
            FLOOD_KINDS[index % len(FLOOD_KINDS)],
        )
        for index in range(floods)
    ]


def _add_away(random: Random, names: Sequence[SiteId], seconds: float, lasts: float, actions: list[Action]) -> bool:
    """Find a time in which a process can be away while others are hurt; False when a majority would not remain."""
    spare = (len(names) - 1) // 2
    for _ in range(64):
        away = Away(random.uniform(0.05, 0.5) * seconds, random.choice(names), lasts)
        others = [each for each in actions if not isinstance(each, Flood) and _overlap(away, each)]
        if all(isinstance(each, Kill | Pause) and each.process != away.process for each in others):
            down = max([0, *(sum(_overlap(first, second) for second in others) for first in others)])
            if down + 1 <= spare:
                actions.append(away)
                return True
    return False


def _overlap(first: Action, second: Action) -> bool:
    """Whether two happen at the same time, the moment that a process needs to come back included."""
    return first.at < second.at + second.seconds + MARGIN_SECONDS and (
        second.at < first.at + first.seconds + MARGIN_SECONDS
    )


def _insert(random: Random, seconds: float, actions: list[Action], action: Action) -> None:
    """Put one between the others at a moment at which nothing happens; what comes behind it comes later."""
    end = max([seconds, *(each.at + each.seconds for each in actions)])
    moment = _first_quiet(random.uniform(0.1, 0.9) * end, actions)
    later = action.seconds + 2 * MARGIN_SECONDS
    for index, each in enumerate(actions):
        if each.at >= moment:
            actions[index] = msgspec.structs.replace(each, at=each.at + later)
    actions.append(msgspec.structs.replace(action, at=moment))


def _first_quiet(moment: float, actions: Iterable[Action]) -> float:
    """The first moment from this one on at which nothing happens."""
    for each in sorted(actions, key=lambda each: each.at):
        if each.at - MARGIN_SECONDS < moment < each.at + each.seconds + MARGIN_SECONDS:
            moment = each.at + each.seconds + MARGIN_SECONDS
    return moment
