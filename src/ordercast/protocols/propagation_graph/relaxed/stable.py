"""What a checkpoint holds of a site whose delivery goes on, and how its parts are as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Part
from ordercast.core.effects import ExitGroup
from ordercast.protocols.propagation_graph.relaxed.records import Entered, Placed, Summary

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph


def summary_of(core: RelaxedGraph) -> Summary:
    """Everything that the log amounts to."""
    acceptor, history = core.acceptor, core.history
    return Summary(
        core.graph,
        core.is_running,
        acceptor.instance,
        acceptor.pledged,
        acceptor.accepted_ballot,
        acceptor.accepted,
        acceptor.before,
        tuple(Placed(held.multicast, held.entry, held.place) for held in history.held.values()),
        tuple(sorted(history.marks.items())),
        history.settled_list(),
        tuple(core.pending.messages.values()),
        tuple(sorted(core.counts.items())),
        history.overflowed,
        tuple(message for message, held in history.held.items() if held.passed),
        acceptor.lineup,
        tuple(sorted(core.joining.wishes.items())),
    )


class Recalling(Part):
    """What is read after a crash."""

    records = (Placed, Entered)

    def __init__(self, core: RelaxedGraph) -> None:
        self._core = core

    def restore(self, state: Summary) -> None:
        """The checkpoint."""
        core = self._core
        if state.graph.number and core.site not in state.graph.sites:
            core.begin_out(state.graph)
        elif state.graph.number:
            core.change(state.graph, True)
        core.counts = dict(state.counts)
        if state.graph.number:
            for group in core.counts:
                core.joining.enter_group(group)
        core.is_running = state.running
        self._restore_parts(state)
        for placed in state.taken:
            # The application has had it, or there would be no checkpoint.
            core.hold(placed)
        for message in state.passed:
            core.history.held[message].passed = True

    def _restore_parts(self, state: Summary) -> None:
        """What was promised, what is known of all sources, and what we have not yet handed over."""
        core, acceptor, history = self._core, self._core.acceptor, self._core.history
        acceptor.instance, acceptor.pledged = state.instance, state.pledged
        acceptor.accepted_ballot, acceptor.accepted = state.accepted_ballot, state.accepted
        acceptor.before = state.before
        acceptor.lineup = state.lineup
        core.joining.wishes = dict(state.wishes)
        history.marks = dict(state.marks)
        history.overflowed = state.overflowed
        for each in state.settled:
            history.settled[each.source, each.groups] = (each.incarnation, each.number)
        for multicast in state.pending:
            core.pending.messages[multicast.id] = multicast

    def recall_placed(self, record: Placed) -> None:
        """A message was taken."""
        core, multicast = self._core, record.multicast
        core.pending.recall_taken(multicast)
        core.hold(record)
        if multicast.id.source == core.site and record.entry == core.site:
            core.pending.messages.pop(multicast.id, None)
        if core.is_own(multicast):
            core.rejoining.recall(multicast)
        core.count(multicast)

    def recall_entered(self, record: Entered) -> None:
        """A graph was entered, or left."""
        core = self._core
        was_in = tuple(core.counts)
        if core.site in record.graph.sites:
            goes_on, back = core.change(record.graph, record.survived)
            core.has_forgotten = True
            core.rejoining.recall_entered(goes_on, back)
        else:
            goes_on = True
            core.rejoining.recall_gone()
            core.begin_out(record.graph)
            core.joining.note_gone()
        for group in was_in:
            if group not in core.counts:
                core.outbox.append(ExitGroup(group))
        for group in () if goes_on else tuple(core.counts):
            core.joining.enter_group(group)
