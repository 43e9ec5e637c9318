"""Catching up: what a site asks for when it has lost its memory in a crash, or letters because it was away for long.

The answer comes in pieces, each asked for when the one before has been worked off, so that neither side has to buffer
what the other one knows. Both sides of a crash ask: the one that crashed has forgotten what it had heard, and what it
had posted and was not confirmed is lost with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import SiteId
from ordercast.protocols.parts.consensus_messages import InstanceName, Value
from ordercast.protocols.scalatom.messages import CatchUp, Known, Summary

if TYPE_CHECKING:
    from ordercast.protocols.scalatom.protocol import Scalatom

PIECE_MAX = 64
"""Messages in one piece of an answer: with the decisions about them some kilobytes."""


class Catching:
    """Asking and answering."""

    def __init__(self, core: Scalatom) -> None:
        self._core = core
        self._incarnations: dict[SiteId, int] = {}

    def begin(self, site: SiteId) -> None:
        """Ask a site from the beginning, unless we are asking already."""
        unconfirmed = self._core.link.unconfirmed(site)
        if not any(isinstance(letter, CatchUp) and letter.cursor == 0 for letter in unconfirmed):
            self._core.branch("catching-up")
            self._ask(site, 0, 0)

    def _ask(self, site: SiteId, cursor: int, count: int) -> None:
        core = self._core
        core.link.post((site,), CatchUp(core.link.next, core.context.incarnation, cursor, count), vital=True)

    def begin_all(self) -> None:
        """After a crash: ask the cell, and everyone who takes part in something that is in the log.

        Whoever else has told us something goes on telling it: a letter about a message that was not in the log was not
        confirmed.
        """
        core = self._core
        sites = set(core.cellmates)
        for entry in core.entries.values():
            sites.update(entry.address.sites)
            sites.add(entry.message.source)
        for site in sorted(sites - {core.site}):
            self.begin(site)

    def on_catch_up(self, sender: SiteId, message: CatchUp) -> None:
        """Tell a site what it should know; if it has crashed, there is something to ask as well."""
        core = self._core
        core.link.restore(sender)
        if message.incarnation > self._incarnations.get(sender, 0):
            self._incarnations[sender] = message.incarnation
            self.begin(sender)
        if message.cursor == 0:
            core.consensus.resume_with(sender)
        self._answer(sender, message, core.histories.count if message.cursor == 0 else message.count)
        core.link.acknowledge(sender, message)

    def _answer(self, site: SiteId, question: CatchUp, base: int) -> None:
        core = self._core
        cursor = question.cursor
        known: list[Known] = []
        decisions: dict[InstanceName, Value] = {}
        last = True
        for entry in core.entries.values():
            if entry.ordinal <= cursor:
                continue
            takes_part = site in entry.address.sites
            if not (takes_part or site == entry.message.source):
                continue
            if len(known) == PIECE_MAX:
                last = False
                break
            settled = core.site in entry.settled
            known.append(Known(entry.message, entry.address.cells, entry.index, entry.timestamp, settled))
            cursor = entry.ordinal
            if takes_part and entry.instance in core.consensus.decisions:
                decisions[entry.instance] = core.consensus.decisions[entry.instance]
        core.link.post(
            (site,),
            Summary(
                core.link.next,
                question.incarnation,
                cursor,
                last,
                base,
                tuple(known),
                tuple(decisions.items()),
            ),
        )
        if last and site in core.cellmates:
            core.histories.tell_again(site)

    def on_summary(self, sender: SiteId, message: Summary) -> None:
        """A piece of the answer. (One to an earlier incarnation is none: the pieces before it are forgotten.)"""
        core = self._core
        if message.incarnation != core.context.incarnation:
            core.link.acknowledge(sender, message)
            return
        for name, value in message.decisions:
            if core.site in core.ordering.address_named(name).sites:
                core.consensus.learn(name, value)
        for known in message.known:
            address = core.address(known.cells)
            entry = core.entries.get(known.message)
            if core.site in address.sites:
                entry = core.entry(known.message, address)
                if sender in core.cellmates and known.index:
                    core.histories.mates[sender].add(known.index, known.message, known.timestamp)
            if entry is None:
                continue
            if entry.multicast is None:
                core.want(entry, sender)
            if known.timestamp and sender in address.sites and core.site in address.sites:
                core.ordering.note_stamp(entry, sender, known.timestamp)
            if known.settled and sender in address.sites:
                core.keeping.note_settled(entry, sender)
            core.ordering.propose(address)
        if sender in core.cellmates and message.last:
            mate = core.histories.mates[sender]
            mate.skip_to(message.base)
            core.histories.on_applied(mate)
        if not message.last:
            core.branch("catching-up-further")
            self._ask(sender, message.cursor, message.base)
        core.acknowledge(sender, message)
