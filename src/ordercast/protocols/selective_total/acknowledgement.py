"""Acknowledgement: what a site says of what it has accepted, with its data or, within short, without (RR)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Part
from ordercast.protocols.selective_total.cluster import Cluster
from ordercast.protocols.selective_total.packets import ReceiveReady, Vector

if TYPE_CHECKING:
    from ordercast.protocols.selective_total.protocol import SelectiveTotal


class Acknowledgement(Part):
    """What one site has told the others, and when it tells them more."""

    timers = ("acknowledge",)

    def __init__(self, core: SelectiveTotal) -> None:
        self._core = core
        self._said: tuple[Vector, Vector, int] = ((), (), 0)
        """What it said last: TREQ, what it has pre-acknowledged, buffers."""
        self._spoke = False
        """Whether it has said so since the last tick."""
        self._waiting = False
        """Whether the timer runs."""

    # ------------------------------------------------------------------ saying it
    def progress(self, cluster: Cluster) -> tuple[Vector, Vector, int]:
        """What every frame says about its sender."""
        self._said = (tuple(cluster.treq), tuple(cluster.accepted_by_all), self._core.receipt.free_buffers)
        self._spoke = True
        return self._said

    def send_receive_ready(self, cluster: Cluster) -> None:
        """RR: the same without a message."""
        ack, pak, buf = self.progress(cluster)
        self._core.broadcast(ReceiveReady(cluster.epoch, cluster.tseq, tuple(cluster.pseq), ack, pak, buf))

    def begin_period(self) -> None:
        """Nothing was said in it yet."""
        self._spoke = False

    def repeat(self, cluster: Cluster, *, idle: bool) -> None:
        """A period is over: say it again, unless data did or everything is settled; in idle periods anyway."""
        if idle or not (self._spoke or cluster.settled):
            self.send_receive_ready(cluster)

    # ------------------------------------------------------------------ saying it soon
    def _has_news(self, cluster: Cluster) -> bool:
        """Whether this site has accepted or pre-acknowledged more than it has said."""
        return (tuple(cluster.treq), tuple(cluster.accepted_by_all)) != self._said[:2]

    def acknowledge(self, cluster: Cluster) -> None:
        """Say within short what was accepted, if anything was, unless data of our own do."""
        if self._has_news(cluster):
            self._speak_soon()

    def say_soon(self) -> None:
        """Speak within short, whether or not there is anything new to acknowledge."""
        self._said = ((), (), self._said[2])
        self._speak_soon()

    def note_consumed(self) -> None:
        """The application has taken deliveries. When that frees many buffers, nobody should wait long to hear of it."""
        core = self._core
        if core.receipt.free_buffers - self._said[2] >= core.options.buffer_messages // 4:
            self.say_soon()

    def _speak_soon(self) -> None:
        if not self._waiting:
            self._waiting = True
            self._core.set_timer("acknowledge", self._core.options.acknowledge_seconds)

    def on_acknowledge_timeout(self) -> None:
        """Nothing of our own has carried it."""
        self._waiting = False
        cluster = self._core.open_cluster
        if cluster is not None and self._has_news(cluster):
            self.send_receive_ready(cluster)
