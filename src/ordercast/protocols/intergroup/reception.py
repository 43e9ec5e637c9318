"""Reception: missing messages are detected (Figure 4.1), sources put in order (Figures 4.2 and 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId, WireError
from ordercast.core.events import Arrival
from ordercast.protocols.intergroup.packets import TIMESTAMP_MAX, Data, KeepAlive, check_time

if TYPE_CHECKING:
    from ordercast.protocols.intergroup.group import ProcessGroup
    from ordercast.protocols.intergroup.protocol import InterGroup
    from ordercast.protocols.intergroup.stream import Stream


class Reception(Part):
    """What comes from the senders of all groups."""

    packets = (Data, KeepAlive)
    timers = ("wait",)
    branches = ("old", "early", "gap", "parked", "too-late", "waited")

    def __init__(self, core: InterGroup) -> None:
        self._core = core

    # ------------------------------------------------------------------ what comes
    def on_data(self, sender: SiteId, packet: Data, arrival: Arrival) -> None:
        """A message as it was first sent. Ours we have taken when we sent it."""
        core = self._core
        if sender == core.site:
            return
        group = core.channels.get(arrival.channel) or core.group_on(arrival)
        if group.member is None:
            stream: Stream | None = self.check(group, sender, packet)
        else:
            self._check_data(group, sender, packet)
            stream = group.member.hear(sender, packet.view)
        if stream is None:
            self._keep_for_later(group, sender, packet)
            return
        stream.coordinator = packet.coordinator
        timestamp = packet.timestamp
        if timestamp > core.clock.time:
            core.clock.observe(timestamp, core.now)
        if timestamp > stream.heard:
            stream.heard = timestamp
        group.buffer.keep(sender, packet)
        if not group.service.reliable and packet.change is None and packet.proxied is None:
            group.service.arrive(stream, packet)
        if stream.state != "idle":
            self.follow(group, stream, packet)
        group.advance()
        # (Asked here, too: while every process says much, each message would cost a call for nothing.)
        if group.sending is not None and group.sending.said < timestamp:
            core.transmission.answer(group, timestamp)

    def find_again(self, group: ProcessGroup, source: SiteId, data: Data) -> Stream | None:
        """The stream to which a message that is repaired belongs; None when it belongs to another view."""
        if group.member is None:
            return self.check(group, source, data)
        self._check_data(group, source, data)
        is_ours = data.view == group.senders.epoch and not group.member.is_out
        stream = group.streams.get(source) if is_ours else None
        if stream is None:
            self._keep_for_later(group, source, data)
        return stream

    def _keep_for_later(self, group: ProcessGroup, source: SiteId, data: Data) -> None:
        """It may be of the next view."""
        self._core.branch("other-view")
        group.buffer.keep(source, data)

    def catch_up(self, group: ProcessGroup, stream: Stream) -> None:
        """A source is followed from some number on: take what has come of it already."""
        while (data := group.buffer.find(stream.sender, stream.last + 1)) is not None:
            if data.view != group.senders.epoch or data.timestamp <= stream.passed:
                break
            # Else our next message might have an earlier timestamp than this one, which has its turn at once.
            self._core.clock.observe(data.timestamp, self._core.now)
            self.follow(group, stream, data)

    def check(self, group: ProcessGroup, sender: SiteId, data: Data) -> Stream:
        """The stream to which a message belongs; `WireError` when it cannot be one of the sender's in this group."""
        stream = group.streams.get(sender)
        if stream is None:
            raise WireError(f"{sender} is no sender of {group.name}")
        self._check_data(group, sender, data)
        if data.view != group.senders.view:
            raise WireError(f"{data.multicast.id} belongs to the view {data.view}, and here it is {group.view}")
        return stream

    def _check_data(self, group: ProcessGroup, sender: SiteId, data: Data) -> None:
        multicast, proxied = data.multicast, data.proxied
        numbered_by = multicast.id.source if proxied is None else proxied.proxy
        if numbered_by != sender or multicast.groups != group.address or data.seq < 1:
            raise WireError(f"{multicast.id} is no message of {sender} to {group.name}")
        if proxied is not None and (
            group.member is None or data.change is not None or proxied.number < 1 or multicast.id.source == sender
        ):
            raise WireError(f"{sender} is no proxy of {multicast.id.source} in {group.name}")
        if not 0 <= data.timestamp < TIMESTAMP_MAX:
            check_time(data.timestamp)

    def on_keep_alive(self, sender: SiteId, packet: KeepAlive, arrival: Arrival) -> None:
        """A sender is there, and says how far it is."""
        core = self._core
        if sender == core.site:
            return
        group = core.group_on(arrival)
        check_time(packet.timestamp)
        if group.member is not None:
            stream = group.member.hear(sender, packet.view)
            if stream is None:
                return
        else:
            stream = group.streams.get(sender)
            if stream is None or packet.view != group.senders.view or packet.seq < 0:
                raise WireError(f"{sender} is no sender of {group.name} in the view {group.view}")
        stream.coordinator = packet.coordinator
        core.clock.observe(packet.timestamp, core.now)
        if packet.timestamp > stream.heard:
            stream.heard = packet.timestamp
        self.detect(group, stream, packet.seq)
        if stream.state == "active" and packet.seq > stream.last:
            core.branch("parked")
        stream.hear_time(packet.seq, packet.timestamp)
        group.advance()

    def on_wait_timeout(self, group: str) -> None:
        """Nobody waits for longer with an unreliable service."""
        if group in self._core.process_groups:
            self._core.process_groups[group].service.stop_waiting()

    # ------------------------------------------------------------------ the order of a source
    def follow(self, group: ProcessGroup, stream: Stream, data: Data) -> None:
        """Pass it on if it is the next one of an active source, keep it if it is early, ignore it if it is old."""
        core, seq = self._core, data.seq
        if stream.state == "idle":
            return
        if seq == stream.last + 1 and stream.state == "active":
            # There is no gap below it, and nothing that is stored has its number.
            if data.timestamp <= stream.passed:
                # What is later in the order may have been delivered.
                raise WireError(f"{data.multicast.id} has a timestamp that its sender's clock has passed")
            self.pass_on(group, stream, data)
        elif stream.is_old(seq):
            core.branch("old")
            return
        else:
            # Before the message itself raises highSeq, or the gap below it is never seen.
            self.detect(group, stream, seq - 1)
            core.branch("early")
            if not stream.store(data):
                return
        if seq > stream.high:
            stream.high = seq
        if core.repair.tickets:
            core.repair.note_arrived(group, stream, seq)

    def pass_on(self, group: ProcessGroup, stream: Stream, data: Data) -> None:
        """It has its turn, and what was stored behind it."""
        member, service = group.member, group.service
        following: Data | None = data
        while following is not None:
            stream.last = following.seq
            if following.timestamp > stream.passed:
                stream.passed = following.timestamp
            if member is not None:
                if following.change is None:
                    member.order.put(stream, following)
                else:
                    member.take(stream, following)
            if not service.follows_group:
                service.take(stream, following)
            if not stream.early and stream.parked_time <= stream.passed:
                return
            following = stream.following()

    def detect(self, group: ProcessGroup, stream: Stream, seq: int) -> None:
        """Figure 4.1: a source has sent everything up to a number; what was not heard of is asked for, once."""
        missing = stream.missing_below(seq)
        if missing is not None:
            self._core.branch("gap")
            self._core.repair.notify(group, stream, *missing)

    def begin(self, group: ProcessGroup, stream: Stream) -> None:
        """A source has become active: what is here of it already has its turn, what is missing below is asked for."""
        stored = sorted(stream.early)
        if stored and stored[0] == stream.last + 1:
            self.pass_on(group, stream, stream.early.pop(stored[0]))
            stream.high = stream.last
        for seq in sorted(stream.early):
            self.detect(group, stream, seq - 1)
            stream.high = seq
        self.detect(group, stream, stream.parked_seq)
