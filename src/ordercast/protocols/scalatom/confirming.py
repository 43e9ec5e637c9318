"""When letters about messages are confirmed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import MessageId, Part, SiteId
from ordercast.protocols.parts.link import Letter
from ordercast.protocols.scalatom.packets import Summary

if TYPE_CHECKING:
    from ordercast.protocols.scalatom.protocol import Scalatom


class Confirming(Part):
    """The letters that wait for a message."""

    branches = ("deferred",)

    def __init__(self, core: Scalatom) -> None:
        self._core = core
        self.deferred: dict[MessageId, dict[tuple[SiteId, int], Letter]] = {}
        """Message whose body we lack -> letters about it that are confirmed when it is here."""

    def acknowledge(self, sender: SiteId, letter: Letter) -> None:
        """Confirm a letter when every message that it names is in our log.

        (Else: p alone has m, and tells us its timestamp; we confirm that, crash, and have never heard of m; p is gone.
        Whom should we ask? As long as we have not confirmed it, p tells us again; afterwards m is in the log, and we
        know whom it concerns.)
        """
        core = self._core
        for message in letter.served():
            entry = core.entries.get(message)
            if entry is None or entry.multicast is not None or core.loss.is_passed(sender, entry):
                continue
            if core.site in entry.address.sites:
                core.branch("deferred")
                self.deferred.setdefault(message, {})[sender, letter.number] = letter
                return
        core.link.acknowledge(sender, letter)
        if isinstance(letter, Summary):
            core.catching.on_worked_off(sender, letter)

    def acknowledge_deferred(self, message: MessageId) -> None:
        """A body has come."""
        for (sender, _), letter in self.deferred.pop(message, {}).items():
            self.acknowledge(sender, letter)
