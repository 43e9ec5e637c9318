"""Patience: what has been here for long is asked about, and the application hears whom we wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.protocols.parts.watch import Watch

if TYPE_CHECKING:
    from ordercast.protocols.scalatom.protocol import Scalatom


def is_time_to_ask(ticks: int) -> bool:
    """Whether to ask about a message that is so old: after two intervals, after four, then after every eight. (At every
    one: on a slow medium the questions are most of the traffic, and keep the answers away.)"""
    return ticks in (2, 4) or ticks % 8 == 0


class Watching(Watch):
    """Whatever is overdue is caught up with."""

    def __init__(self, core: Scalatom) -> None:
        super().__init__(core, core.options.blocked_seconds / 2)
        self._core = core

    def look(self) -> bool:
        """Ask about what has been here for long, unless our own log is lost."""
        core = self._core
        if core.loss.lost:
            return False
        core.absence.on_tick()
        core.returning.on_tick()
        core.catching.ask_overdue(entry for entry in self.old() if is_time_to_ask(self.tick - entry.born_tick))
        return True

    def whom_we_wait_for(self) -> str:
        """Why the oldest message that should be delivered here, or taken elsewhere, is not; empty when it is young."""
        core = self._core
        for entry in core.entries.values():
            if self.tick - entry.born_tick < 2:
                break
            if core.site not in entry.address.sites:
                missing = entry.address.quorum.missing(entry.settled)
                if missing:
                    return f"{entry.message} is not taken by {', '.join(missing)}"
            elif not entry.sequence:
                missing = entry.address.quorum.missing(entry.stamps)
                if missing:
                    return f"{entry.message} has no timestamp from {', '.join(missing)}"
                return f"no sequence number is decided for {entry.message}"
            elif not entry.delivered:
                return core.histories.whom_we_wait_for(entry)
        return core.absence.whom_we_wait_for()
