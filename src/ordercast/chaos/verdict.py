"""Whether a run has shown what it was asked to show: replicas equal or refused, nothing lost, nothing twice, and every
fault that was asked for has struck."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from ordercast.chaos.books import Kept, find_kept, order_name
from ordercast.chaos.harness import Cluster, Outcome
from ordercast.chaos.record import Absence
from ordercast.chaos.schedule import Plan
from ordercast.chaos.strangers import FIRST_START
from ordercast.core import GroupId, SiteId
from ordercast.core.intervals import IntervalSet
from ordercast.node.obstacles import BLOCKED_SECONDS

MEMORY_MAX_MIB = 256
"""What a process may take at the most: several times what it takes at rest, and little beside a machine."""

STALLED_SECONDS = 2 * BLOCKED_SECONDS
"""A process that waits for another longer than this has said so."""

NAMED_MAX = 5
"""Of what is wrong, how much is named."""


class Verdict(msgspec.Struct, frozen=True):
    """What is wrong with a run; nothing where all of it is empty."""

    divergence: dict[str, str]
    """Whose books -> what they are, when they are not all equal."""
    lost: dict[str, list[str]]
    """Whose books -> acknowledged orders that are not in them."""
    doubled: dict[str, list[str]]
    """Whose books -> orders that were applied twice."""
    strange: dict[str, list[str]]
    """Whose books -> those who do not belong and whose orders were applied."""
    stalled: list[SiteId]
    """Who was away while nobody went on, and nobody said that it waited for it."""
    memory_mib: dict[SiteId, float]
    """Process -> what it took, when that is more than it may."""
    vacuous: dict[str, tuple[int, int]]
    """Fault -> how often it struck, and how often it should have."""

    @property
    def fine(self) -> bool:
        """Whether nothing is wrong."""
        return not any(msgspec.structs.astuple(self))

    def lines(self) -> list[str]:
        """One line for each thing that is wrong."""
        lines = []
        if self.divergence:
            books = ", ".join(f"{process} {words}" for process, words in sorted(self.divergence.items()))
            lines.append(f"the replicas differ: {books}")
        for process, names in sorted(self.lost.items()):
            lines.append(f"{process} has lost {_some(names, 'acknowledged order')}")
        for process, names in sorted(self.doubled.items()):
            lines.append(f"{process} has applied {_some(names, 'order')} twice")
        for process, givers in sorted(self.strange.items()):
            lines.append(f"{process} has applied orders of a stranger: {', '.join(givers)}")
        lines += [f"while {process} was away nobody went on, and nobody said why" for process in self.stalled]
        for process, mib in sorted(self.memory_mib.items()):
            lines.append(f"{process} took {mib:g} MiB of memory: more than {MEMORY_MAX_MIB}")
        for fault, (struck, asked) in sorted(self.vacuous.items()):
            lines.append(f"vacuous: {fault} struck {struck} times of {asked}")
        return lines


def judge_run(
    cluster: Cluster, plan: Plan, outcome: Outcome, *, ordered: bool = True, kept: bool = True, once: bool = True
) -> Verdict:
    """What is wrong, as far as the processes' own books tell: of the protocol's promises, whether it orders, whether it
    delivers everywhere what was delivered somewhere, and whether it delivers each message once."""
    found = [each for each in find_kept(outcome.results, cluster.groups) if each.process not in outcome.strangers]
    books = {each.name: each.books for each in found}
    applied = {name: _read_applied(result) for name, result in books.items()}
    return Verdict(
        {} if outcome.agree(cluster.groups, ordered) else _show_books(books, ordered),
        _find_lost(found, applied, outcome, cluster) if kept else {},
        {name: list(result["doubled"]) for name, result in books.items() if once and result.get("doubled")},
        _find_strange(applied),
        [absence.process for absence in outcome.absences if _is_stalled(absence)],
        {site: round(kib / 1024, 1) for site, kib in outcome.memory_kib.items() if kib > MEMORY_MAX_MIB * 1024},
        _find_vacuous(plan, outcome),
    )


def _is_stalled(absence: Absence) -> bool:
    """Whether nobody went on and nobody said why, although there was the time to say it."""
    return absence.seconds > STALLED_SECONDS and not absence.delivered and not absence.blocked


def _read_applied(result: Mapping[str, object]) -> dict[str, IntervalSet]:
    """Who gave orders, and in which start -> their numbers."""
    kept = msgspec.convert(result.get("applied", {}), dict[str, list[tuple[int, int]]])
    return {giver: IntervalSet(intervals) for giver, intervals in kept.items()}


def _show_books(books: Mapping[str, Mapping[str, object]], ordered: bool) -> dict[str, str]:
    shown = {}
    for name, result in books.items():
        ledger = msgspec.convert(result.get("ledger", {}), dict[str, object])
        digest = msgspec.convert(result["digest" if ordered else "gathered"], int)
        shown[name] = f"{ledger.get('applied', '?')} orders {digest:x}"[-40:]
    return shown


def _find_lost(
    found: Sequence[Kept], applied: Mapping[str, Mapping[str, IntervalSet]], outcome: Outcome, cluster: Cluster
) -> dict[str, list[str]]:
    """Whoever keeps the books of a group must have what one of its members has acknowledged."""
    acknowledged: dict[tuple[GroupId, str], IntervalSet] = {}
    for receipts in outcome.acknowledged.values():
        for receipt in receipts:
            group, _, name = receipt.rpartition(" ")
            giver, _, number = name.rpartition(".")
            acknowledged.setdefault((group, giver), IntervalSet()).add(int(number))
    lost: dict[str, list[str]] = {}
    for kept in sorted(found, key=lambda kept: kept.name):
        for (group, giver), numbers in sorted(acknowledged.items()):
            # What was given to who knows which groups is owed to those only who are in all of them.
            if not (group in kept.groups if group else len(kept.groups) == len(cluster.groups)):
                continue
            missing = numbers - applied[kept.name].get(giver, IntervalSet())
            if missing:
                process, _, start = giver.rpartition(".")
                lost.setdefault(kept.name, []).extend(order_name(process, int(start), number) for number in missing)
    return lost


def _find_strange(applied: Mapping[str, Mapping[str, IntervalSet]]) -> dict[str, list[str]]:
    found = {}
    for site, givers in applied.items():
        strange = sorted(giver for giver in givers if int(giver.rpartition(".")[2]) >= FIRST_START)
        if strange:
            found[site] = strange
    return found


def _find_vacuous(plan: Plan, outcome: Outcome) -> dict[str, tuple[int, int]]:
    """Faults that were asked for and struck less often. Of the weather, some of each kind is enough."""
    struck: Counter[str] = Counter(outcome.happened)
    asked = plan.asked()
    for name, share, counter in (("loss", plan.loss, "lost"), ("duplication", plan.duplication, "duplicated")):
        asked[name] = int(share > 0)
        struck[name] = min(1, outcome.network[counter])
    return {name: (struck[name], count) for name, count in asked.items() if struck[name] < count}


def _some(names: list[str], what: str) -> str:
    shown = ", ".join(names[:NAMED_MAX])
    more = f" and {len(names) - NAMED_MAX:,} more" if len(names) > NAMED_MAX else ""
    return f"{len(names):,} {what}{'s' if len(names) != 1 else ''} ({shown}{more})"
