"""What is kept of messages in SCALATOM beside themselves: decisions, as long as one of their messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ordercast.core import MessageId, SiteId
from ordercast.protocols.parts import keeping
from ordercast.protocols.parts.consensus_packets import InstanceName
from ordercast.protocols.scalatom.entries import Entry

if TYPE_CHECKING:
    from ordercast.protocols.scalatom.protocol import Scalatom


class Keeping(keeping.Keeping):
    """Who has settled what, as far as this site knows, and which decisions that needs."""

    _core: Scalatom

    def __init__(self, core: Scalatom) -> None:
        super().__init__(core)
        self._about: dict[InstanceName, set[MessageId]] = {}
        """Decision -> its messages that are not over."""

    def on_old(self, sender: SiteId, message: MessageId) -> None:
        """A copy of a message that is over here: the sender does not know that."""
        super().on_old(sender, message)
        self._core.returning.tell_gone(sender, [message])

    def on_decided(self, name: InstanceName, messages: Iterable[MessageId]) -> None:
        """A decision is kept as long as one of its messages."""
        about = set(messages)
        if about:
            self._about[name] = about
        else:
            self._core.consensus.forget(name)

    def on_forgotten(self, entry: Entry) -> None:
        """The decision goes when it was the last of its batch."""
        about = self._about.get(entry.instance)
        if about is not None:
            about.discard(entry.message)
            if not about:
                del self._about[entry.instance]
                self._core.consensus.forget(entry.instance)
