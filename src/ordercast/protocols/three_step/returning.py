"""Returning: how a site goes on that was given up while it was away (`parts/absence.py`).

Whoever has given it up sends it its present state: how far it has delivered, the offsets there, what is over, and what
is delivered and kept for others. The site leaves its groups, is as the other one is, and enters them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId
from ordercast.core.effects import EnterGroup, ExitGroup
from ordercast.core.events import Arrival
from ordercast.protocols.parts.multicast import Finished, Mark
from ordercast.protocols.parts.primary_packets import Over, Passed, Resumption
from ordercast.protocols.three_step.packets import GoOn, Skipped
from ordercast.protocols.three_step.refusals import check_resumption

if TYPE_CHECKING:
    from ordercast.protocols.three_step.protocol import ThreeStep


class Returning(Part):
    """What others have forgotten, and we lack."""

    packets = (GoOn,)
    records = (Skipped,)
    branches = ("skipped", "called-back")

    def __init__(self, core: ThreeStep) -> None:
        self._core = core
        self._reached: dict[SiteId, Mark] = {}
        """Site of our cell -> how far it has delivered, as it has said."""
        self._behind: set[SiteId] = set()
        """Who was given up, and has not said that it has come as far as it must: they are watched."""

    # ------------------------------------------------------------------ those who are behind
    def note_reached(self, site: SiteId, mark: Mark | None) -> None:
        """A site says how far it has delivered."""
        if mark is not None and site in self._core.absence.given_up:
            self._reached[site] = max(mark, self._reached.get(site, mark))

    def call_back(self) -> None:
        """Tell those who were given up where to go on, as soon as they answer.

        (Else: a is cut off while nothing is under way; the others order more than is kept for it, give it up, and
        forget all of it; a is back, knows of nothing that it lacks, asks for nothing, and stays behind for ever.)
        """
        core = self._core
        behind = {
            site
            for site, needed in core.absence.given_up.items()
            if site in core.cellmates and (site not in self._reached or self._reached[site] < needed)
        }
        for site in sorted(behind - self._behind):
            core.detector.watch(site)
        for site in sorted(self._behind - behind):
            core.detector.unwatch(site)
        self._behind = behind
        for site in sorted(behind - core.detector.suspected):
            core.branch("called-back")
            self.tell(site)

    @property
    def is_waiting(self) -> bool:
        """Whether somebody is to be called back."""
        return bool(self._behind)

    # ------------------------------------------------------------------ from there on

    def resumption_for(self, site: SiteId) -> Resumption | None:
        """Our present state, for a site of our cell that lacks something that we have forgotten."""
        core = self._core
        needed = core.absence.given_up.get(site)
        through = core.delivery.mark
        if needed is None or through is None:
            return None
        return Resumption(
            needed,
            through,
            tuple(core.delivery.offsets.items()),
            tuple(finished_state(core)),
            tuple(
                Passed(entry.message, entry.address.cells, entry.sequence)
                for entry in core.entries.values()
                if entry.delivered
            ),
            tuple((other, mark) for other, mark in core.absence.given_up.items() if other != site),
        )

    def tell(self, site: SiteId) -> None:
        """A site of our cell asks, and has not come as far as it must."""
        resumption = self.resumption_for(site)
        if resumption is not None:
            self._core.send((site,), GoOn(resumption))

    def on_go_on(self, sender: SiteId, packet: GoOn, arrival: Arrival) -> None:
        """Somebody no longer has what we lack."""
        self._core.primary.check(sender)
        check_resumption(self._core, sender, packet.resumption)
        self.go_behind(packet.resumption)
        self._core.watching.answer_cell(sender)

    def go_behind(self, resumption: Resumption) -> None:
        """If we have not come as far as we must: leave the groups, and enter them again behind the gap."""
        core = self._core
        if core.has_reached(resumption.needed):
            return
        core.branch("skipped")
        core.append(Skipped(resumption))
        self.recall_skipped(Skipped(resumption))
        core.primary.on_bodies()
        core.ordering.touch()

    def recall_skipped(self, record: Skipped) -> None:
        """We are as the other one was."""
        core, resumption = self._core, record.resumption
        for group, _ in resumption.offsets:
            core.outbox.append(ExitGroup(group))
        core.delivery.mark = resumption.through
        core.delivery.offsets.update(resumption.offsets)
        for site, mark in resumption.given_up:
            if site != core.site and (site not in core.absence.given_up or mark > core.absence.given_up[site]):
                core.absence.given_up[site] = mark
        # Before we hear what is over: a source that has given up y calls over what others keep for y, and so must we.
        for passed in resumption.passed:
            entry = core.entries.note(passed.message, core.addresses.named(passed.cells))
            if entry is not None:
                entry.sequence = passed.sequence
                entry.delivered = True
                entry.settled.add(core.site)
                core.ordering.forget_all((entry,))
                if entry.multicast is None:
                    core.entries.want(entry, entry.message.source)
        take_finished(core, resumption.finished)
        kept = {passed.message for passed in resumption.passed}
        for entry in list(core.entries.values()):
            if entry.message not in kept and core.multicast.is_finished(entry.message):
                core.keeping.forget(entry)
        core.keeping.adopt()
        core.ordering.advance(resumption.through[0])
        for group, offset in resumption.offsets:
            core.outbox.append(EnterGroup(group, offset))


def finished_state(core: ThreeStep) -> Iterator[Over]:
    """What is over here."""
    for source, finished in core.multicast.finished.items():
        yield Over(source, finished.floor, tuple(_runs(sorted(finished.above))))


def take_finished(core: ThreeStep, states: Iterable[Over]) -> None:
    """What is over elsewhere, or was here."""
    for state in states:
        above = ((incarnation, n) for incarnation, first, last in state.above for n in range(first, last + 1))
        core.multicast.source(state.source).merge(Finished(state.floor, above))


def _runs(names: list[tuple[int, int]]) -> Iterator[tuple[int, int, int]]:
    for _, run in groupby(enumerate(names), key=lambda item: (item[1][0], item[1][1] - item[0])):
        members = [name for _, name in run]
        yield members[0][0], members[0][1], members[-1][1]
