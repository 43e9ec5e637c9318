"""Small messages inside one cell go to its primary alone, and from there to all, together with their places.

Kaashoek et al. (1989) call the two ways PB (the one that orders broadcasts the message) and BB (the source does, and
the one that orders broadcasts its place). PB is one datagram for each destination instead of two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Multicast, Part, SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.parts.address import Destinations
from ordercast.protocols.parts.multicast import Data
from ordercast.protocols.parts.primary import TIMESTAMP_MAX
from ordercast.protocols.three_step.entries import Entry
from ordercast.protocols.three_step.packets import Placed, Proposal
from ordercast.protocols.three_step.refusals import check_proposals
from ordercast.protocols.three_step.telling import send_proposals

if TYPE_CHECKING:
    from ordercast.protocols.three_step.protocol import ThreeStep


class Forwarding(Part):
    """Which way a message goes."""

    packets = (Data, Placed)
    branches = ("forwarded",)

    def __init__(self, core: ThreeStep) -> None:
        self._core = core
        self._direct_bytes = core.options.direct_bytes
        self._own_cells = (core.ordering.cell,)
        """Where what goes to our cell alone is addressed to."""

    def is_small(self, multicast: Multicast, address: Destinations) -> bool:
        """Whether it goes to our cell alone, and costs less when it is carried twice than in packets of its own."""
        return len(multicast.payload) < self._direct_bytes and address.cells == self._own_cells

    def whom_to_tell_first(self, multicast: Multicast, address: Destinations) -> tuple[SiteId, ...]:
        """Step 1: to whom a message of ours goes. To all where nobody is sure to order it; where we do, it leaves with
        its place."""
        primary = self._core.primary
        epoch = primary.started
        if epoch != primary.promised or not self.is_small(multicast, address):
            return address.others
        site = primary.primary_of(epoch)
        return () if site == self._core.site else (site,)

    def on_data(self, sender: SiteId, data: Data, arrival: Arrival) -> None:
        """A message; if it may have been sent to us alone, it is remembered as it came. (Without what its source says
        of its earlier messages: the others remember for ever that these are over.)"""
        core, multicast = self._core, data.multicast
        message = multicast.id
        if not (
            len(multicast.payload) < self._direct_bytes
            and sender == message.source
            and sender in core.cellmates
            and (address := core.addresses.of(multicast)).cells == self._own_cells
        ):
            core.multicast.on_data(sender, data, arrival)
            return
        if message not in core.entries and core.at_once.proposes():
            if core.multicast.is_news(sender, data):
                entry = core.entries.begin(message, address)
                core.entries.keep(entry, multicast)
                entry.data = data
                core.at_once.propose(entry)
            return
        core.multicast.on_data(sender, data, arrival)
        known = core.entries.get(message)
        if known is not None and not known.place:
            known.data = data

    # ------------------------------------------------------------------ with their places
    def send(self, address: Destinations, proposals: list[Proposal]) -> None:
        """At the primary: messages have got their places. What was sent to us alone leaves with its own."""
        core = self._core
        epoch, all_speak = core.primary.started, core.speaking.wants_all()
        others: list[Proposal] = []
        for proposal in proposals:
            entry = core.entries[proposal.message]
            body = entry.multicast
            is_large = body is not None and len(body.payload) >= self._direct_bytes
            data = None if is_large else self._data_of(entry)
            if data is None:
                others.append(proposal)
            else:
                core.branch("forwarded")
                core.send(address.others, Placed(data, epoch, proposal.place, proposal.timestamp, all_speak))
        if others:
            send_proposals(core, address.others, address, others, all_speak)

    def _data_of(self, entry: Entry) -> Data | None:
        """What nobody else has, as far as we know."""
        data, entry.data = entry.data, None
        multicast = entry.multicast
        is_own = entry.message.source == self._core.site
        if is_own and multicast is not None and self.is_small(multicast, entry.address):
            return self._core.multicast.letter(multicast)
        return data

    def on_placed(self, sender: SiteId, placed: Placed, arrival: Arrival) -> None:
        """A message and its place."""
        core, data = self._core, placed.data
        multicast = data.multicast
        message = multicast.id
        address = core.addresses.of(multicast)
        if sender not in core.cellmates or address.cells != self._own_cells:
            raise WireError(f"{sender} sends {message} with a place, which does not go to its cell alone, or ours")
        entry = core.entries.get(message)
        epoch, places = placed.epoch, core.ordering.places
        # Then, if we do not know the message, nothing can be wrong with it but its timestamp.
        is_next = (
            placed.place == core.ordering.count + 1
            and epoch == core.primary.started
            and (places[-1].timestamp if places else 0) < placed.timestamp <= TIMESTAMP_MAX
        )
        if is_next and core.at_once.accepts(sender, epoch) and (entry is None or self._is_unplaced_own(entry)):
            if entry is not None or core.multicast.is_news(sender, data):
                if entry is None:
                    entry = core.entries.begin(message, address)
                    core.entries.keep(entry, multicast)
                core.speaking.is_asked = placed.all_speak
                core.at_once.accept(entry, sender, epoch, placed.timestamp)
                return
            proposal = Proposal(placed.place, message, placed.timestamp)
        else:
            proposal = Proposal(placed.place, message, placed.timestamp)
            if entry is not None or not is_next:
                check_proposals(core, sender, address, epoch, (proposal,))
            core.multicast.on_data(sender, data, arrival)
        core.ordering.hear_placed(sender, epoch, proposal, placed.all_speak)

    def _is_unplaced_own(self, entry: Entry) -> bool:
        """Whether a message is ours, to our cell alone, and stands nowhere."""
        return (
            entry.message.source == self._core.site
            and entry.multicast is not None
            and entry.address.cells == self._own_cells
            and not (entry.standings or entry.sequence)
        )

    def send_again(self) -> None:
        """Somebody else orders now: it may know nothing of our messages.

        (Else: they are asked about after a while, and wait for so long.)
        """
        core = self._core
        for entry in core.ordering.unplaced.values():
            if entry.message.source == core.site and entry.multicast is not None:
                core.multicast.multicast(entry.multicast, self.whom_to_tell_first(entry.multicast, entry.address))
