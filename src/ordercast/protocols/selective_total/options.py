"""Options of selective total order."""

from __future__ import annotations

from typing import ClassVar, Literal

from ordercast.core import ChannelId, Options, UsageError


class SelectiveTotalOptions(Options, frozen=True):
    """Every bound and every timer, with a reason for its value."""

    channel: ChannelId = "cluster"
    """The channel that all sites share."""
    window_messages: int = 64
    """W: so many messages of a site may be under way that not everyone has accepted. Some round trips at full rate;
    it is halved at each loss and grows again, since losses mean that receivers are overrun."""
    buffer_messages: int = 2048
    """Messages that a site holds at the most: accepted and not delivered, or delivered and not taken by the
    application. Divided by H and the number of sites it bounds every window: 64 for up to 16 sites."""
    buffer_bytes_max: int = 1 << 25
    """And bytes of their payloads, for a live node's messages are bundles. Buffers are promised to senders in messages:
    who has so many bytes left says that as large a part of its buffers is free. A quarter of it may wait at a source
    for the window."""
    buffer_share: int = 2
    """H: half of the buffers are never promised to senders, and serve what was under way when a window shrank."""
    pending_messages_max: int = 256
    """Messages that wait at their source for the window: four windows, so that a reset does not stop the
    application."""
    receive_ready_seconds: float = 0.1
    """The period of everything that is repeated: RR while something is unsettled, agreement packets, applications. A
    fiftieth of the silence that is taken for a crash, or losses would look like crashes."""
    acknowledge_seconds: float = 0.001
    """How long a site that has something to acknowledge waits for data of its own to carry it. A delivery takes two
    such waits and the frames."""
    idle_periods: int = 10
    """When everything is settled, RR only every so many periods."""
    loss_periods: int = 3
    """A message that others have accepted counts as lost when its source has said nothing for so many periods: not even
    that it was for others."""
    silence_seconds: float = 8.0
    """A site that says nothing for so long counts as crashed. Longer than the longest pause that a site shall
    survive as a member."""
    after_crash: Literal["re-establish", "abort"] = "re-establish"
    """What becomes of a cluster in which a site has crashed: the survivors form another one, or, as in the paper, it
    is aborted."""
    recovery: Literal["selective", "go-back-n"] = "selective"
    """What is sent again after a loss: what was lost, or everything from there on (the paper's comparator)."""
    service: Literal["total", "source"] = "total"
    """ST: common destinations agree on the order of all messages. SP, the weaker service of section 2.2: only of the
    messages of each source; no agreement stops the others when a message is lost."""

    shared: ClassVar[frozenset[str]] = frozenset({"channel", "after_crash", "recovery", "service"})
    """Each of them decides what a site does with, and expects of, the packets of the others."""

    def __post_init__(self) -> None:
        positive = (
            "window_messages",
            "buffer_messages",
            "buffer_bytes_max",
            "buffer_share",
            "pending_messages_max",
            "receive_ready_seconds",
            "acknowledge_seconds",
            "idle_periods",
            "loss_periods",
        )
        for name in positive:
            if getattr(self, name) <= 0:
                raise UsageError(f"options of selective-total: {name} is positive, not {getattr(self, name)}")
        if self.silence_seconds < 4 * self.receive_ready_seconds * self.idle_periods:
            raise UsageError(
                "options of selective-total: silence_seconds is at least four times "
                "receive_ready_seconds * idle_periods, or a few losses look like a crash"
            )
        if self.service == "source" and self.recovery == "go-back-n":
            raise UsageError('options of selective-total: go-back-n is a recovery of service = "total" only')
