"""Mutants of the central sequencer."""

from __future__ import annotations

from ordercast.core import MessageId, Multicast, SiteId
from ordercast.core.effects import Credit
from ordercast.core.events import Arrival
from ordercast.protocols.classic.sequencer import Sequencer
from ordercast.protocols.classic.sequencer.center import Center, Route
from ordercast.protocols.classic.sequencer.destination import Destination
from ordercast.protocols.classic.sequencer.packets import (
    Announce,
    Delivered,
    Ordered,
    Request,
    Sequenced,
    Submit,
    Submitted,
)
from ordercast.protocols.classic.sequencer.source import Source
from tests.mutants.registry import call_without_log, mutant


@mutant(Sequencer, "center.order")
def forgets_to_log_places(self: Center, multicast: Multicast, route: Route) -> None:
    """A place is given and told, but not logged: after a crash it is given to another message."""
    call_without_log(self._core, Sequenced, Center.order, self, multicast, route)


@mutant(Sequencer, "center.on_submit", caught_by="no-duplication")
def orders_copies(self: Center, source: SiteId, submit: Submit, arrival: Arrival) -> None:
    """No duplicate check: a submission that comes again gets a second place."""
    last = self.accepted.get(source)
    if last is not None and submit.multicast.id <= last:
        self.order(submit.multicast, self.route(submit.multicast))
        self.accepted[source] = last
    else:
        Center.on_submit(self, source, submit, arrival)


@mutant(Sequencer, "center._is_next")
def takes_submissions_as_they_come(last: MessageId | None, submit: Submit) -> bool:
    """No gap detection: a submission that overtakes another is ordered first, and the other is taken for a copy."""
    return True


@mutant(Sequencer, "center.on_request", caught_by="termination")
def does_not_send_again(self: Center, sender: SiteId, packet: Request, arrival: Arrival) -> None:
    """No retransmission to destinations."""


@mutant(Sequencer, "center.resume", caught_by="termination")
def comes_back_silently(self: Center) -> None:
    """After a crash the sequencer does not say what there is; whoever missed the last message never hears of it."""


@mutant(Sequencer, "source.on_submit_timeout", caught_by="termination")
def submits_once(self: Source) -> None:
    """No retransmission to the sequencer."""


@mutant(Sequencer, "source.multicast", caught_by="termination")
def forgets_its_submissions(self: Source, multicast: Multicast) -> None:
    """A submission is not logged: a source that crashes before it is accepted has never heard of it."""
    call_without_log(self._core, Submitted, Source.multicast, self, multicast)


@mutant(Sequencer, "destination.take")
def delivers_what_comes(self: Destination, link: int, ordered: Ordered) -> None:
    """No gap detection: a destination delivers whatever is later than what it has."""
    if link > self.stream.released:
        self.stream.released = link
        self._deliver(link, ordered)


@mutant(Sequencer, "destination.take", caught_by="multiple-group-order")
def delivers_what_is_early(self: Destination, link: int, ordered: Ordered) -> None:
    """A destination delivers what it gets at once, each message once, whatever its place."""
    skipped: set[int] = self.__dict__.setdefault("skipped", set())
    if link > self.stream.released:
        skipped.update(range(self.stream.released + 1, link))
        self.stream.released = link
        self._deliver(link, ordered)
    elif link in skipped:
        skipped.remove(link)
        self._deliver(self.stream.released, ordered)


@mutant(Sequencer, "destination.hear_of", caught_by="termination")
def does_not_listen_to_announcements(self: Destination, highest: int) -> None:
    """Whoever has missed the last message does not ask for it."""
    if highest <= self.stream.released:
        Destination.hear_of(self, highest)


@mutant(Sequencer, "destination._deliver", caught_by="no-duplication")
def forgets_to_log_deliveries(self: Destination, link: int, ordered: Ordered) -> None:
    """Deliveries are not logged: after a crash they are asked for, and delivered, again."""
    call_without_log(self._core, Delivered, Destination._deliver, self, link, ordered)


# ---------------------------------------------------------------------- at rest
@mutant(Sequencer, "center.on_announce_timeout", caught_by="quiescence", alone=True)
def announces_for_ever(self: Center) -> None:
    """A sequencer that has come back from a crash never stops to say what there is."""
    Center.on_announce_timeout(self)
    core = self._core
    if core.context.incarnation and not self._announcing:
        self._announcing = True
        for site, link in self.links.items():
            core.send((site,) if site != core.site else (), Announce(link.highest))
        core.set_timer("announce", core.options.announce_seconds)


@mutant(Sequencer, "center.on_submit", caught_by="no-leak", alone=True)
def keeps_copies(self: Center, source: SiteId, submit: Submit, arrival: Arrival) -> None:
    """A submission that comes again is laid beside those that wait for their turn, which it never gets."""
    last = self.accepted.get(source)
    if last is not None and submit.multicast.id <= last:
        self._early.setdefault(source, {})[submit.previous] = submit
    Center.on_submit(self, source, submit, arrival)


@mutant(Sequencer, "source.accept", caught_by="credit-returned")
def gives_no_credit_back(self: Source, through: MessageId) -> None:
    """What was submitted before a crash, and is accepted after it, gives no credit back."""
    before = len(self._core.outbox)
    Source.accept(self, through)
    if through.incarnation < self._core.context.incarnation:
        outbox = self._core.outbox
        outbox[before:] = [effect for effect in outbox[before:] if not isinstance(effect, Credit)]


@mutant(Sequencer, "declare_recovered", caught_by="recovery", alone=True)
def never_says_that_it_is_recovered(self: Sequencer) -> None:
    """A site that has come back takes part again, and never says so."""
