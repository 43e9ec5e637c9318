"""A checkpoint: everything that the records so far amount to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.protocols.three_step.packets import Remembered, State
from ordercast.protocols.three_step.returning import finished_state, take_finished

if TYPE_CHECKING:
    from ordercast.protocols.three_step.protocol import ThreeStep


def checkpoint_of(core: ThreeStep) -> State:
    """The state of a core. Who has taken what, and what was said, is not in it: that can be asked."""
    base, places, clock = core.ordering.report()
    return State(
        promised=core.primary.promised,
        started=core.primary.started,
        base=base,
        places=places,
        clock=clock,
        mark=core.delivery.mark,
        offsets=tuple(core.delivery.offsets.items()),
        entries=tuple(
            Remembered(
                entry.message,
                entry.address.cells,
                entry.multicast,
                entry.sequence if entry.delivered else 0,
                entry.delivered,
            )
            for entry in core.entries.values()
            # What is known by name only, the others tell again.
            if entry.multicast is not None or entry.delivered
        ),
        finished=tuple(finished_state(core)),
        given_up=tuple(core.absence.given_up.items()),
        reached=tuple(core.source.reached.items()),
    )


def restore_from(core: ThreeStep, state: State) -> None:
    """The core as it was then."""
    core.primary.promised, core.primary.started = state.promised, state.started
    core.delivery.mark = state.mark
    core.delivery.offsets.update(state.offsets)
    core.absence.given_up.update(state.given_up)
    core.source.reached.update(state.reached)
    for remembered in state.entries:
        _restore_entry(core, remembered)
    # Afterwards: what a source calls over may be kept for somebody.
    take_finished(core, state.finished)
    if core.ordering.cell is not None:
        core.ordering.restore(state.base, state.places, state.clock)


def _restore_entry(core: ThreeStep, remembered: Remembered) -> None:
    multicast = remembered.multicast
    if multicast is not None and remembered.message.source == core.site:
        core.source.keep(multicast)
    entry = core.entries.note(remembered.message, core.addresses.named(remembered.cells))
    if entry is None:
        return
    if multicast is not None:
        core.entries.keep(entry, multicast)
        entry.logged = True
        if core.site in entry.address.sites and not remembered.delivered:
            core.ordering.on_body(entry)
    if remembered.delivered:
        entry.sequence = remembered.sequence
        entry.delivered = True
        entry.settled.add(core.site)
