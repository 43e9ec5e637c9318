"""Mutants of the central sequencer."""

from __future__ import annotations

from ordercast.core import MessageId, Multicast, SiteId
from ordercast.protocols.classic.sequencer import Sequencer
from ordercast.protocols.classic.sequencer.center import Center, Route
from ordercast.protocols.classic.sequencer.packets import Delivered, Ordered, Sequenced, Submit, Submitted
from ordercast.protocols.classic.sequencer.receiver import Receiver
from ordercast.protocols.classic.sequencer.source import Source
from tests.mutants.registry import call_without_log, mutant


@mutant(Sequencer, "center.order")
def forgets_to_log_places(self: Center, multicast: Multicast, route: Route) -> None:
    """A place is given and told, but not logged: after a crash it is given to another message."""
    call_without_log(self._core, Sequenced, Center.order, self, multicast, route)


@mutant(Sequencer, "center.on_submit", caught_by="no-duplication")
def orders_copies(self: Center, source: SiteId, submit: Submit) -> None:
    """No duplicate check: a submission that comes again gets a second place."""
    last = self.accepted.get(source)
    if last is not None and submit.multicast.id <= last:
        self.order(submit.multicast, self.route(submit.multicast))
        self.accepted[source] = last
    else:
        Center.on_submit(self, source, submit)


@mutant(Sequencer, "center._is_next")
def takes_submissions_as_they_come(last: MessageId | None, submit: Submit) -> bool:
    """No gap detection: a submission that overtakes another is ordered first, and the other is taken for a copy."""
    return True


@mutant(Sequencer, "center.on_request", caught_by="termination")
def does_not_send_again(self: Center, site: SiteId, missing: tuple[tuple[int, int], ...]) -> None:
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


@mutant(Sequencer, "receiver.on_ordered")
def delivers_what_comes(self: Receiver, link: int, ordered: Ordered) -> None:
    """No gap detection: a destination delivers whatever is later than what it has."""
    if link > self.delivered:
        self._deliver(link, ordered)


@mutant(Sequencer, "receiver.on_ordered", caught_by="multiple-group-order")
def delivers_what_is_early(self: Receiver, link: int, ordered: Ordered) -> None:
    """A destination delivers what it gets at once, each message once, whatever its place."""
    skipped: set[int] = self.__dict__.setdefault("skipped", set())
    if link > self.delivered:
        skipped.update(range(self.delivered + 1, link))
        self._deliver(link, ordered)
    elif link in skipped:
        skipped.remove(link)
        self._deliver(self.delivered, ordered)


@mutant(Sequencer, "receiver.on_announce", caught_by="termination")
def does_not_listen_to_announcements(self: Receiver, highest: int) -> None:
    """Whoever has missed the last message does not ask for it."""
    if highest <= self.delivered:
        Receiver.on_announce(self, highest)


@mutant(Sequencer, "receiver._deliver", caught_by="no-duplication")
def forgets_to_log_deliveries(self: Receiver, link: int, ordered: Ordered) -> None:
    """Deliveries are not logged: after a crash they are asked for, and delivered, again."""
    call_without_log(self._core, Delivered, Receiver._deliver, self, link, ordered)
