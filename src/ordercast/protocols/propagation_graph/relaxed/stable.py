"""What a checkpoint holds of a site whose delivery goes on, and how its parts are as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.protocols.propagation_graph.relaxed.records import Placed, Summary

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
    )


def restore_parts(core: RelaxedGraph, state: Summary) -> None:
    """What was promised, what is known of all sources, and what we have not yet handed over."""
    acceptor, history = core.acceptor, core.history
    acceptor.instance, acceptor.pledged = state.instance, state.pledged
    acceptor.accepted_ballot, acceptor.accepted = state.accepted_ballot, state.accepted
    acceptor.before = state.before
    history.marks = dict(state.marks)
    history.overflowed = state.overflowed
    for each in state.settled:
        history.settled[each.source, each.groups] = (each.incarnation, each.number)
    for multicast in state.pending:
        core.pending.messages[multicast.id] = multicast
