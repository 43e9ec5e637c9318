"""How long a control process waits before its next control message (2.3, Figures 2.2 and 2.3): RTCP's rule."""

from __future__ import annotations

from random import Random

from ordercast.protocols.intergroup.control.options import ControlOptions

SIZE_GAIN = 1 / 16
"""RTCP_SIZE_GAIN: the smoothing constant of the averages."""

INITIAL_PACKET_SIZE = 128.0
"""Bytes, before anything is known: a conservative estimate (Figure 2.2)."""

PATIENCE_INTERVALS = 5
"""So many messages may be missing before their sender counts as gone, as in RTCP: with a loss of 30 % one window in
four hundred."""


class Pace:
    """One instance for local control messages, one for global ones."""

    def __init__(self, options: ControlOptions, random: Random) -> None:
        self._minimum = options.control_seconds_min
        self._bandwidth = options.target_bandwidth
        self._random = random
        self.average_size = INITIAL_PACKET_SIZE
        """averageLocalPacketSize, averageGlobalPacketSize: of what was sent and received."""
        self.average_seconds = options.control_seconds_min / 2
        """avgLocalTime, avgGlobalTime of Figure 2.3."""
        self.members = 1
        """How many talk in the group, as far as is known."""

    def begin(self) -> float:
        """The wait before the first message: half the minimum, for quicker notification."""
        self.average_seconds = self._spread(max(INITIAL_PACKET_SIZE / self._bandwidth, self._minimum / 2))
        return self.average_seconds

    def heard(self, size: int) -> None:
        """A control message came."""
        self.average_size += (size - self.average_size) * SIZE_GAIN

    def sent(self, size: int) -> float:
        """A control message leaves: the wait before the next one."""
        self.heard(size)
        wait = self._spread(self.expected_seconds)
        self.average_seconds += (wait - self.average_seconds) * SIZE_GAIN
        return wait

    @property
    def expected_seconds(self) -> float:
        """controlPacketInterval before it is spread: if everyone in the group waits for so long, they keep to the
        bandwidth."""
        return max(self.average_size * self.members / self._bandwidth, self._minimum)

    @property
    def usual_seconds(self) -> float:
        """How long there is between two messages of a process: what was, or what will be after a sudden change."""
        return max(self.average_seconds, self.expected_seconds)

    @property
    def patience_seconds(self) -> float:
        """After so long without a message, its sender may be gone."""
        return PATIENCE_INTERVALS * self.usual_seconds

    def _spread(self, seconds: float) -> float:
        # Uniform between half and one and a half: nobody keeps in step with anybody.
        return seconds * (self._random.random() + 0.5)
