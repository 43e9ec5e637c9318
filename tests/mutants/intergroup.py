"""Mutants of InterGroup's repair, transmission and delivery."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ordercast.core import GroupId, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.intergroup import InterGroup
from ordercast.protocols.intergroup.activation import Activation
from ordercast.protocols.intergroup.clock import GroupClock
from ordercast.protocols.intergroup.group import ProcessGroup
from ordercast.protocols.intergroup.packets import Data, KeepAlive
from ordercast.protocols.intergroup.reception import Reception
from ordercast.protocols.intergroup.repair import Repair
from ordercast.protocols.intergroup.services import Service
from ordercast.protocols.intergroup.stability import Stability
from ordercast.protocols.intergroup.stream import Stream
from tests.mutants.registry import mutant


@mutant(InterGroup, "reception.on_keep_alive")
def believes_a_keep_alive_over_a_gap(self: Reception, sender: SiteId, packet: KeepAlive, arrival: Arrival) -> None:
    """A Keep Alive counts although messages before it have not come: one of them may have an earlier timestamp."""
    Reception.on_keep_alive(self, sender, packet, arrival)
    group = self._core.group_on(arrival)
    stream = group.streams[sender]
    stream.passed = max(stream.passed, packet.timestamp)
    group.service.advance()


@mutant(InterGroup, "reception.on_keep_alive", caught_by="causal-order")
def changes_the_timestamp_of_what_is_stored(
    self: Reception, sender: SiteId, packet: KeepAlive, arrival: Arrival
) -> None:
    """A message that waits gets the timestamp of the Keep Alive that has its number, as Figure 4.3 prints it."""
    if sender != self._core.site:
        early = self._core.group_on(arrival).streams[sender].early
        if packet.seq in early:
            early[packet.seq] = replace(early[packet.seq], timestamp=packet.timestamp)
    Reception.on_keep_alive(self, sender, packet, arrival)


@mutant(InterGroup, "reception.on_keep_alive", caught_by="view-termination")
def does_not_notice_the_loss_of_the_last_message(
    self: Reception, sender: SiteId, packet: KeepAlive, arrival: Arrival
) -> None:
    """A Keep Alive with a number that was not heard of says nothing."""
    stream = self._core.group_on(arrival).streams.get(sender)
    if stream is None or packet.seq <= stream.high or stream.state != "active":
        Reception.on_keep_alive(self, sender, packet, arrival)


@mutant(InterGroup, "reception.follow", caught_by="reliable-source-order")
def skips_gaps(self: Reception, group: ProcessGroup, stream: Stream, data: Data) -> None:
    """What comes is what is next, and what comes late is old."""
    if stream.state == "active" and data.seq > stream.last + 1:
        stream.last = stream.high = data.seq - 1
    Reception.follow(self, group, stream, data)


@mutant(InterGroup, "activation._switch", caught_by="view-termination")
def skips_the_activation_message(
    self: Activation, group: ProcessGroup, service: Service, points: dict[SiteId, tuple[int, int]]
) -> None:
    """The number of the first message to be delivered is taken for that of the last one before it, as Figure 4.2 prints
    it."""
    Activation._switch(self, group, service, {source: (seq + 1, time) for source, (seq, time) in points.items()})


@mutant(InterGroup, "repair.on_request_timeout", caught_by="view-termination")
def does_not_ask_again(self: Repair, group: GroupId, sender: SiteId, first: int) -> None:
    """One request for each loss: when it is lost, or the repair, nobody notices (3.3 as printed)."""
    Repair.on_request_timeout(self, group, sender, first)
    self._core.cancel_timer(("request", group, sender, first))


@mutant(InterGroup, "repair.on_repair_timeout", caught_by="view-termination")
def does_not_send_again(self: Repair, group: GroupId, sender: SiteId, seq: int) -> None:
    """No retransmission."""
    self._scheduled.pop((group, sender, seq), None)


@mutant(InterGroup, "stability._acknowledge", caught_by="view-termination")
def acknowledges_what_it_has_not_received(self: Stability, group: ProcessGroup) -> tuple[int, SiteId]:
    """The buffers are cleared before every receiver has everything."""
    return self._core.clock.read(self._core.now), self._core.site


@mutant(InterGroup, "clock.observe")
def does_not_raise_its_clock(self: GroupClock, timestamp: int, now: float) -> None:
    """What is sent after something was received may have an earlier timestamp."""


@mutant(InterGroup, "hand_over", caught_by="no-duplication")
def forgets_what_it_has_delivered(self: Any, group: ProcessGroup, stream: Stream, data: Data, service: Service) -> None:
    """What came too late, or comes twice, is delivered without reliability."""
    InterGroup.hand_over(self, group, stream, data, service)
    stream.delivered = 0
    group.last_key = (0, "")


# ---------------------------------------------------------------------- at rest
@mutant(InterGroup, "stability.on_clear_timeout", caught_by="no-leak", alone=True, printed=True)
def forgets_only_what_is_its_own(self: Stability, name: GroupId) -> None:
    """What others have sent is kept for repairs though everyone has it, until there is no more room."""
    group = self._core.process_groups.get(name)
    if group is None:
        return
    for_ever = group.__dict__.setdefault("for_ever", set())
    for sender, kept in group.buffer._found.items():
        if sender != self._core.site:
            for_ever.update(data.multicast.id for data in kept.values())
    Stability.on_clear_timeout(self, name)
