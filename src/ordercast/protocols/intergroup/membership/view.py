"""The view in which a process is: how one ends, and how the next one begins (Deliver and Install of Figures 5.4 and
5.7)."""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

from ordercast.core import SiteId
from ordercast.core.effects import Activate, EnterGroup, InstallView
from ordercast.protocols.intergroup.membership.detector import Detector
from ordercast.protocols.intergroup.membership.order import ViewOrder
from ordercast.protocols.intergroup.membership.packets import MC, Cut, Numbers
from ordercast.protocols.intergroup.packets import TIMESTAMP_MAX, Data, Proxied, ViewId
from ordercast.protocols.intergroup.senders import SenderGroup
from ordercast.protocols.intergroup.stream import Stream

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.group import ProcessGroup
    from ordercast.protocols.intergroup.protocol import InterGroup

ENDINGS_MAX = 8
"""Views that a receiver may miss and catch up with, one after the other."""
FOREIGN_SPREAD = 3.0
"""How many times `foreign_seconds` a process waits at the most."""


class InView:
    """What a process has of the view in which it is."""

    # With those of the classes below there are more attributes than Python finds quickly in an object without slots,
    # and some are asked for with every packet.
    __slots__ = (
        "_foreign",
        "agreed",
        "came",
        "core",
        "detector",
        "endings",
        "entered",
        "foreign_patience",
        "group",
        "installed",
        "last_view",
        "left",
        "left_at",
        "order",
        "proxied",
    )

    def __init__(self, core: InterGroup, group: ProcessGroup) -> None:
        self.core = core
        self.group = group
        self.entered = False
        """Whether the application knows that it is in the group."""
        self.order = ViewOrder(self)
        self.detector = Detector(core)
        self.last_view: ViewId | None = None
        """The one that the application knows."""
        self.came: dict[SiteId, ViewId] = {}
        """Member -> its view before this one."""
        self.left: Numbers = {}
        """Who was a sender in this epoch, and has left -> its last number."""
        self.left_at = 0
        """The timestamp of the last PLeave."""
        self.agreed: dict[SiteId, tuple[int, int]] = {}
        """Attempt and number of the PJoins by which the present epoch was agreed on: they start no other repair."""
        self.proxied: Numbers = {}
        """Who multicasts through proxies -> the number of its last message that had its turn, the latest one last."""
        self.installed: MC | None = None
        """What has begun the present epoch."""
        self.endings: deque[MC] = deque(maxlen=ENDINGS_MAX)
        """What has ended the last ones, for receivers that have missed it."""
        self._foreign: dict[SiteId, float] = {}
        """Who speaks in another epoch -> since when."""
        self.foreign_patience = core.membership.options.foreign_seconds

    @property
    def members(self) -> tuple[SiteId, ...]:
        """The sender group of the current view."""
        return self.group.senders.members

    @property
    def epoch(self) -> ViewId:
        """The view that the last repair has installed."""
        return self.group.senders.epoch

    def on_change(self, sender: SiteId, data: Data) -> None:
        """A PAdd or a PLeave has its turn in the order of the group."""
        raise NotImplementedError

    def on_lost_view(self) -> None:
        """The view is over for this process alone."""

    def note_proxied(self, source: SiteId, number: int) -> None:
        """A message by proxy has had its turn, here or in the view of others who have come along."""
        raise NotImplementedError

    def on_proxied(self, data: Data, proxied: Proxied) -> bool:
        """A message by proxy has its turn in the order of the group: whether it is the first time."""
        raise NotImplementedError

    # ------------------------------------------------------------------ installing
    def missing(self, last: Numbers) -> tuple[SiteId, int] | None:
        """The first message before a cut that is not here: its sender and number; None when all are."""
        for sender in sorted(last):
            stream = self.group.streams.get(sender)
            if sender == self.core.site or (stream is None and sender in self.left):
                continue
            if stream is None:
                # Its PAdd is before the cut, and not here yet; or perhaps it is not, when nothing was sent after it.
                if last[sender]:
                    return sender, last[sender]
                continue
            if stream.last < last[sender]:
                self.core.reception.detect(self.group, stream, last[sender])
                return sender, stream.last + 1
        return None

    def is_ahead_of(self, cut: Cut, survivors: Container[SiteId]) -> bool:
        """Whether something behind the cut was delivered: also the PLeave of whoever has left, for there is no stream
        of it any more. (Without it: a delivers the PLeave of b, and with that a view without b; e never gets it, ends
        the view before it, and both install the next one, from different views.)"""
        return (
            self.left_at > cut.time
            or any(seq > cut.last.get(sender, 0) for sender, seq in self.left.items())
            or any(
                stream.taken > cut.last.get(sender, 0) or (sender not in survivors and stream.ordered_at > cut.time)
                for sender, stream in self.group.streams.items()
                if stream.state == "active" or sender == self.core.site
            )
        )

    @property
    def numbers(self) -> Numbers:
        """How far this process is in its epoch: sender -> the last number that it has, also of those who have left."""
        return {**self.left, **{sender: stream.last for sender, stream in self.group.streams.items()}}

    def deliver_and_install(self, message: MC) -> None:
        """Deliver what is before the cut; then the new view begins (Figures 5.4 and 5.7)."""
        core, group = self.core, self.group
        cut = message.cut_of(self.epoch)
        before, epoch = self.members, self.epoch
        if cut is not None:
            # Whoever is not among the survivors goes by the cut for its own messages, too.
            own = {} if group.own is None or core.site not in message.old else {core.site: group.own.last}
            self.order.flush(Cut({**cut.last, **own}, cut.time, cut.heard), message.survivors(epoch))
        view, members = message.view, tuple(sorted(message.old))
        core.clock.observe(view.start_time, core.now)
        gaps = []
        streams: dict[SiteId, Stream] = {}
        for sender in members:
            stream = group.streams.get(sender)
            if stream is not None and (sender == core.site or (message.old[sender] == epoch and cut is not None)):
                stream.passed = max(stream.passed, view.start_time)
                if sender != core.site:
                    stream.early = {}
                    stream.last = stream.high = stream.ordered = message.first[sender] - 1
            else:
                stream = group.new_stream(sender)
                stream.begin(message.first[sender], view.start_time)
                if sender == core.site:
                    stream.state = "idle"
                elif sender in before:
                    gaps.append(sender)
            streams[sender] = stream
        came = {sender: self._last_view_of(sender, message, epoch) for sender in members}
        self._replace(streams, SenderGroup(view, view, members, message.first, view.start_time))
        self.installed = message
        self.endings.append(message)
        self.left = {}
        self.order.begin(view.start_time)
        self.install_view(came)
        for source, number in message.proxied.items():
            if number > self.proxied.get(source, 0):
                self.note_proxied(source, number)
                gaps.append(source)
        for sender in gaps:
            # What it has sent in between belongs to views that this process has not seen.
            if group.service.means(sender):
                core.outbox.append(Activate(group.name, group.service.name, sender))
        self.resume()

    def tell_holes(self, senders: Iterable[SiteId]) -> None:
        """Of these, something may be missing from here on, on which messages depend that belong to the view all the
        same. All who come along have the same before and behind that place."""
        core, group = self.core, self.group
        core.branch("holes-told")
        for sender in senders:
            if group.service.reliable and group.service.means(sender):
                core.outbox.append(Activate(group.name, group.service.name, sender, shared=True))

    def end_alone(self) -> None:
        """All other senders are lost to one that was about to leave the sender group: deliver what is here, as though
        the view had ended for this process alone. (Else: its own messages are never delivered, though it stays.)"""
        site = self.core.site
        heard = min([stream.passed for stream in self.group.others], default=TIMESTAMP_MAX - 1)
        self.order.flush(Cut(self.numbers, max(heard, self.core.told), heard), (site,))

    def _last_view_of(self, sender: SiteId, message: MC, epoch: ViewId) -> ViewId:
        """The view of a member before the new one. All who come from one epoch have delivered the same in it, so that
        they have the same view at its end."""
        return self.group.senders.view if message.old[sender] == epoch else message.old[sender]

    def forget_view(self, senders: SenderGroup) -> None:
        """Be in a view that has nothing to do with the one before: nothing of what waits belongs to it."""
        group, membership = self.group, self.core.membership
        self.on_lost_view()
        membership.keep_delivered(group)
        streams = {}
        for sender in {**senders.activation_points, **dict.fromkeys(senders.members)}:
            stream = streams[sender] = group.new_stream(sender)
            stream.begin(senders.activation_points.get(sender, 1), senders.start_time)
            # Not before: what was delivered here has its turn in the order of the group all the same.
            stream.delivered = membership.last_delivered(group.name, sender)
            if sender == self.core.site:
                stream.state = "idle"
        self._replace(streams, senders)
        self.left = {}
        self.installed = None
        self.endings.clear()
        self.agreed = {}
        self.order.begin(senders.start_time)

    def _replace(self, streams: dict[SiteId, Stream], senders: SenderGroup) -> None:
        group = self.group
        for sender in group.streams:
            self.core.repair.forget(group, sender)
        group.streams = streams
        group.install(senders)

    def resume(self) -> None:
        """A view begins: deliver and send again, and take what of it has come already."""
        core, group = self.core, self.group
        self._foreign.clear()
        # Two parts that hear each other start to repair by chance, and not in step: else each might always ask while
        # the other one still goes on without it.
        self.foreign_patience = core.membership.options.foreign_seconds * core.context.random.uniform(
            1.0, FOREIGN_SPREAD
        )
        self.order.halted = False
        self.detector.watch(self.members)
        for site in self.members:
            self.detector.refresh(site)
        for stream in group.others:
            core.reception.catch_up(group, stream)
        core.stability.note_view(group)

    def install_view(self, came: dict[SiteId, ViewId]) -> None:
        """Tell the application; for the first time, that it is in."""
        core, group = self.core, self.group
        if not self.entered:
            self.entered = True
            core.outbox.append(EnterGroup(group.name, self.order.count))
            core.outbox.append(InstallView(group.view, self.members, (), (group.name,)))
            core.activation.tell(group, group.service)
        else:
            transitional = tuple(site for site in self.members if came.get(site) == self.last_view)
            merged = tuple(site for site in self.members if came.get(site) != self.last_view)
            core.outbox.append(InstallView(group.view, self.members, transitional, (group.name,), merged))
        core.branch("view-installed")
        self.came = came
        self.last_view = group.senders.view
