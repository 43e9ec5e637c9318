"""What no site says that keeps to the rules: it is refused before anything is kept of it, and before any epoch begins.

(Checked on the way instead: of a packet whose last proposal is wrong the others would be kept, and its epoch promised.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import MessageId, SiteId, WireError
from ordercast.protocols.parts.address import Destinations
from ordercast.protocols.parts.primary import TIMESTAMP_MAX
from ordercast.protocols.parts.primary_packets import Resumption
from ordercast.protocols.three_step.packets import Answer, Ask, Proposal

if TYPE_CHECKING:
    from ordercast.protocols.three_step.protocol import ThreeStep

EARLY_MAX = 1 << 15
"""Places by which a proposal may be ahead of what is accepted here: more than a primary has under way."""
NAMED_MAX = 1 << 15
"""Messages that may be known by name only: more than a site lacks that was away until it was given up."""
ASKED_MAX = 128
"""Messages in one question: some kilobytes, and what one answer can bring."""
OVER_MAX = 1 << 20
"""Messages above the floors that somebody calls over: more than sources have under way."""


def check_proposals(
    core: ThreeStep, sender: SiteId, address: Destinations, epoch: int, proposals: tuple[Proposal, ...]
) -> None:
    """Places and timestamps ascend, and are those that are known already; a fixed timestamp does not change."""
    ordering, cell = core.ordering, core.cells.of_site(sender)
    if cell is None:
        raise WireError(f"{sender} is in no cell, and proposes")
    is_own = cell == ordering.cell
    place, timestamp, named = 0, 0, 0
    is_ahead = False
    if epoch < 0:
        raise WireError(f"{sender} proposes in epoch {epoch}")
    if is_own and proposals and proposals[-1].place > ordering.count + EARLY_MAX:
        raise WireError(f"{sender} proposes place {proposals[-1].place}, and {ordering.count} are accepted")
    for proposal in proposals:
        if proposal.place <= place or not timestamp < proposal.timestamp <= TIMESTAMP_MAX:
            raise WireError(f"{sender} proposes {proposal} behind place {place} with {timestamp}")
        place, timestamp = proposal.place, proposal.timestamp
        if is_own and not is_ahead:
            _check_place(core, sender, epoch, place, proposal.message, timestamp)
            # What follows a place that is not accepted here ascends like that.
            is_ahead = place > ordering.count
        entry = core.entries.get(proposal.message)
        if entry is None:
            _check_name(core, sender, proposal.message)
            named += 1
            continue
        if entry.address is not address:
            raise WireError(f"{sender} says that {proposal.message} goes to the cells {address.cells}")
        known = entry.standings.get(cell)
        if known is None or known.epoch > epoch:
            continue
        if known.timestamp != timestamp and (known.epoch == epoch or cell in entry.fixed):
            raise WireError(f"{sender} proposes {proposal} in epoch {epoch}, and {known} is known")
    _check_room(core, sender, named)


def _check_place(core: ThreeStep, sender: SiteId, epoch: int, place: int, message: MessageId, timestamp: int) -> None:
    """A place of our own cell: of our epoch as it is accepted here."""
    ordering = core.ordering
    if epoch != core.primary.started or not ordering.places:
        return
    if place > ordering.count:
        if timestamp <= ordering.places[-1].timestamp:
            raise WireError(f"{sender} proposes {timestamp} at place {place}, behind {ordering.places[-1]}")
    elif place > ordering.base:
        accepted = ordering.places[place - ordering.base - 1]
        if (accepted.message, accepted.timestamp) != (message, timestamp):
            raise WireError(f"{sender} proposes {message} with {timestamp} at place {place}, where {accepted} stands")


def _check_name(core: ThreeStep, sender: SiteId, message: MessageId) -> None:
    if message.source not in core.ranks or message.incarnation < 0 or message.number < 1:
        raise WireError(f"{sender} speaks of {message}, which nobody can have multicast")


def _check_room(core: ThreeStep, sender: SiteId, named: int) -> None:
    """(Else: whoever names a million messages of which nobody has the body fills the memory.)"""
    if named and core.multicast.missing + named > NAMED_MAX:
        raise WireError(f"{sender} names {named} messages more, and {core.multicast.missing} are missing here")


def check_asked(core: ThreeStep, sender: SiteId, packet: Ask) -> None:
    """Asked about is what concerns both, in an epoch that there can be."""
    if packet.promised < 0:
        raise WireError(f"{sender} asks in epoch {packet.promised}")
    if len(packet.asked) > ASKED_MAX:
        raise WireError(f"{sender} asks about {len(packet.asked)} messages at once")
    named = 0
    for asked in packet.asked:
        address = core.addresses.named(asked.cells)
        if core.site not in address.sites or sender not in (*address.sites, asked.message.source):
            raise WireError(f"{sender} asks {core.site} about {asked.message}, which does not concern both")
        entry = core.entries.get(asked.message)
        if entry is None:
            _check_name(core, sender, asked.message)
            named += 1
        elif entry.address is not address:
            raise WireError(f"{sender} says that {asked.message} goes to the cells {asked.cells}")
    _check_room(core, sender, named)


def check_told(core: ThreeStep, sender: SiteId, packet: Answer) -> None:
    """A final timestamp is not below one that is fixed, and not before what is delivered here; nobody has taken what it
    has not delivered."""
    if packet.taken is not None and (packet.reached is None or packet.taken > packet.reached):
        raise WireError(f"{sender} has taken {packet.taken}, and delivered {packet.reached}")
    mark = core.delivery.mark
    for told in packet.told:
        entry = core.entries.get(told.message)
        if entry is None or entry.sequence or not told.sequence or core.site not in entry.address.sites:
            continue
        if not max(entry.fixed.values(), default=0) <= told.sequence <= TIMESTAMP_MAX or (
            mark is not None and not entry.delivered and (told.sequence, told.message) <= mark
        ):
            raise WireError(f"{sender} tells {told}, and {mark} is delivered here")


def check_resumption(core: ThreeStep, sender: SiteId, resumption: Resumption) -> None:
    """Where to go on is the state of a site of our cell that has come further than we."""
    if core.has_reached(resumption.needed):
        return
    sites, groups = core.context.sites, core.delivery.offsets
    if resumption.through < resumption.needed or resumption.through[0] > TIMESTAMP_MAX:
        raise WireError(f"{sender} is at {resumption.through}, and {resumption.needed} is needed")
    if any(offset < groups.get(group, offset + 1) for group, offset in resumption.offsets):
        raise WireError(f"{sender} is before {core.site} in its groups, or in others: {resumption.offsets}")
    if any(site not in sites for site, _ in resumption.given_up):
        raise WireError(f"{sender} has given up somebody who is not a site of the system")
    over = 0
    for state in resumption.finished:
        if state.source not in sites:
            raise WireError(f"{state.source} is not a site of the system")
        if any(last < first for _, first, last in state.above):
            raise WireError(f"{sender} calls over what ends before it begins")
        over += sum(last - first + 1 for _, first, last in state.above)
    if over > OVER_MAX or len(resumption.passed) > OVER_MAX:
        raise WireError(f"{sender} calls {over} messages over, and {len(resumption.passed)} passed")
    for passed in resumption.passed:
        _check_name(core, sender, passed.message)
        core.addresses.shared_with(sender, passed.cells)
