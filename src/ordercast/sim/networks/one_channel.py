"""The one-channel network (Tachikawa, Takizawa, section 2.1): everyone hears the frames in one order, and who is slower
than the channel misses some.

The channel carries one frame at a time. Each receiver has buffers for a few frames and takes its time for each of them;
a frame that finds no free buffer is lost there, and there only (overrun). So the speed of the channel against that of
the receivers decides how much is lost; on top of that, a frame can be lost with probability f at each receiver.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ordercast.core import SiteId, UsageError
from ordercast.sim.flight import Flight
from ordercast.sim.networks.base import Network

if TYPE_CHECKING:
    from ordercast.sim.simulation import Simulation
    from ordercast.sim.site import SimulatedSite
    from ordercast.sim.site.processor import Processor

_FRAMES_IN_FRONT_MAX = 256
"""A frame waits for those in front of it; beyond this many the channel is overloaded, and phi_n does not cover it."""
_LOOK_AGAIN_SECONDS = 0.01
"""A site that stands still takes nothing out of its buffers; whether it still does is looked at so often."""


class OneChannel(Network):
    """A frame occupies the channel for `frame` seconds and reaches every receiver `latency` later, its sender as well;
    each receiver has `buffers` and takes `processing` for each frame."""

    one_frame_for_all = True
    own_frames_travel = True
    loses = True

    def __init__(
        self,
        frame: float = 0.00002,
        processing: float = 0.00005,
        buffers: int = 64,
        loss: float = 0.0,
        latency: float = 0.0,
    ) -> None:
        super().__init__()
        if frame < 0 or processing < 0 or latency < 0:
            raise UsageError("frame, processing and latency of a one-channel network are 0 or more")
        if buffers < 1:
            raise UsageError(f"a receiver on a one-channel network has at least one buffer, not {buffers}")
        if not 0 <= loss < 1:
            raise UsageError(f"loss of a one-channel network is from 0 to below 1, not {loss}")
        self._frame = frame
        self._processing = processing
        self._buffers = buffers
        self._loss = loss
        self._latency = latency
        self._free_at = 0.0
        self.overruns = 0
        """Frames that found no free buffer, all receivers together."""

    def attach(self, simulation: Simulation) -> None:
        """Get a random stream. A site has its buffers from the first frame on."""
        super().attach(simulation)
        self._random = simulation.random("network").random
        self._receivers: dict[SiteId, _Receiver] = {}

    def depart(self, sender: Processor) -> float:
        """Wait until the channel is free, then occupy it for a frame."""
        self._free_at = max(sender.cursor, self._free_at) + self._frame
        return self._free_at

    def latency(self, sender: SiteId, receiver: SiteId) -> float:
        """The same for everyone, or they would see different orders."""
        return self._latency

    def latency_max(self) -> float:
        """The frames that may be in front, on the channel and in the receiver's buffers."""
        return self._latency + self._frame * _FRAMES_IN_FRONT_MAX + self._processing * self._buffers

    def processing_seconds(self) -> float:
        """A site works on frames one after the other."""
        return self._processing

    def carry(self, flight: Flight, time: float) -> None:
        """Bring a frame to a receiver's buffers, unless it is lost on the way, by itself or by a fault rule.

        A rule that delays or repeats frames breaks the one order: protocols that need the channel do not stand it.
        """
        if self._loss and self._random() < self._loss:
            self.lose(flight, time, "loss")
            return
        site = flight.receiver
        buffers = self._receivers.get(site.name)
        if buffers is None:
            buffers = self._receivers[site.name] = _Receiver(self, site, self._buffers, self._processing)
        for rule in self.rules:
            verdict = rule.judge(flight.origin, flight.receiver.place)
            if verdict is not None:
                if verdict.drop:
                    self.lose(flight, time, verdict.drop)
                for extra in verdict.delays:
                    self.queue.schedule(time + extra, buffers.reach, flight)
                return
        self.queue.schedule(time, buffers.reach, flight)


class _Receiver:
    """The interface of one site: a queue of frames, each of which takes `processing` before the protocol has it."""

    def __init__(self, channel: OneChannel, site: SimulatedSite, buffers: int, processing: float) -> None:
        self._channel = channel
        self._queue = channel.queue
        self._site = site
        self._buffers = buffers
        self._processing = processing
        self._frames: deque[Flight] = deque()

    def reach(self, flight: Flight) -> None:
        """A frame comes: it takes a free buffer, or is lost."""
        if not self._site.up:
            self._site.arrive(flight)
        elif len(self._frames) >= self._buffers:
            self._channel.overruns += 1
            flight.drop("overrun")
        else:
            self._frames.append(flight)
            if len(self._frames) == 1:
                self._queue.schedule(self._queue.now + self._processing, self._take)

    def _take(self) -> None:
        """The frame in front is worked through, and its buffer free again."""
        if self._site.processor.paused:
            self._queue.schedule(self._queue.now + _LOOK_AGAIN_SECONDS, self._take)
            return
        self._site.arrive(self._frames.popleft())
        if self._frames:
            self._queue.schedule(self._queue.now + self._processing, self._take)
