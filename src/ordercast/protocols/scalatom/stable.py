"""A checkpoint: everything that the records so far amount to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.protocols.parts.multicast import Finished
from ordercast.protocols.scalatom.packets import Remembered, State

if TYPE_CHECKING:
    from ordercast.protocols.scalatom.protocol import Scalatom


def checkpoint_of(core: Scalatom) -> State:
    """The state of a core. Who has settled what is not in it: that can be asked."""
    return State(
        clock=core.ordering.clock,
        count=core.histories.count,
        mark=core.histories.mark,
        skipped=core.returning.skipped,
        offsets=tuple(core.histories.offsets.items()),
        given_up=tuple(core.absence.given_up.items()),
        reached=tuple(core.source.reached.items()),
        entries=tuple(
            Remembered(
                entry.message,
                entry.address.cells,
                entry.multicast,
                entry.index,
                entry.timestamp,
                entry.sequence,
                entry.instance,
                entry.delivered,
            )
            for entry in core.entries.values()
            # What is known by name only, the others tell again: their letters about it were not confirmed.
            if entry.multicast is not None or entry.sequence
        ),
        addresses=tuple(address.state() for address in core.addresses),
        open=core.consensus.state(),
        decisions=tuple(core.consensus.decisions.items()),
        finished=tuple(
            (source, finished.floor, tuple(sorted(finished.above)))
            for source, finished in core.multicast.finished.items()
        ),
        begun=tuple(
            (source, finished.began, tuple(sorted(finished.retired)))
            for source, finished in core.multicast.finished.items()
            if finished.began
        ),
        lives=tuple(core.loss.known.items()),
        lowest=core.histories.lowest,
        barred=tuple(core.loss.barred.items()),
    )


def restore_from(core: Scalatom, state: State) -> None:
    """The core as it was then."""
    core.ordering.clock = state.clock
    core.histories.count = state.count
    core.histories.offsets.update(state.offsets)
    core.returning.skipped = state.skipped
    core.absence.given_up.update(state.given_up)
    core.source.reached.update(state.reached)
    core.loss.restore(state)
    core.histories.lowest = state.lowest
    begun = {source: (began, retired) for source, began, retired in state.begun}
    for source, floor, above in state.finished:
        core.multicast.finished[source] = Finished(floor, above, *begun.get(source, (0, ())))
    for address_state in state.addresses:
        core.addresses.named(address_state.cells).restore(address_state)
    for remembered in state.entries:
        _restore_entry(core, remembered)
    # In the order of our history, which is not that in which we heard of the messages.
    for entry in sorted(core.entries.values(), key=lambda entry: entry.index):
        if entry.index:
            core.histories.restore_own(entry)
    core.histories.mark = state.mark
    core.consensus.restore(state.open)
    for name, value in state.decisions:
        core.consensus.decisions[name] = value
        core.keeping.on_decided(name, [m for m in value.messages() if m in core.entries])


def _restore_entry(core: Scalatom, remembered: Remembered) -> None:
    if remembered.multicast is not None and remembered.message.source == core.site:
        core.source.keep(remembered.multicast)
    entry = core.entries.note(remembered.message, core.addresses.named(remembered.cells))
    if entry is None:
        return
    if remembered.multicast is not None:
        core.entries.keep(entry, remembered.multicast)
    entry.index, entry.timestamp = remembered.index, remembered.timestamp
    entry.sequence, entry.instance = remembered.sequence, remembered.instance
    if entry.index and not entry.sequence:
        entry.stamps[core.site] = entry.timestamp
    if remembered.delivered:
        entry.delivered = True
        entry.settled.add(core.site)
    elif entry.sequence:
        core.histories.on_decided(entry)
        if entry.multicast is None:
            core.entries.want(entry, entry.message.source)
