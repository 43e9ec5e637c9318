"""InterGroup: one core for all groups of a process, made of parts, with one clock and one control process."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import cast

import msgspec

from ordercast.core import AtRest, Context, Contract, GroupId, Options, Part, Protocol, SiteId, UsageError, WireError
from ordercast.core.effects import Activate, Deliver, InstallView, JoinChannel
from ordercast.core.events import (
    Arrival,
    Consumed,
    MulticastRequested,
    Recovered,
    ServiceChosen,
    Started,
)
from ordercast.protocols.intergroup.activation import Activation
from ordercast.protocols.intergroup.arrangement import ARRANGEMENT
from ordercast.protocols.intergroup.clock import GroupClock
from ordercast.protocols.intergroup.control import Control, CutReport
from ordercast.protocols.intergroup.group import ProcessGroup, channel_of
from ordercast.protocols.intergroup.membership import Membership
from ordercast.protocols.intergroup.membership.roles import OUT
from ordercast.protocols.intergroup.options import InterGroupOptions
from ordercast.protocols.intergroup.packets import Data, PLeave, Proxied
from ordercast.protocols.intergroup.reception import Reception
from ordercast.protocols.intergroup.repair import Repair
from ordercast.protocols.intergroup.senders import check_senders, static_senders
from ordercast.protocols.intergroup.services import (
    SERVICES,
    GroupTimestamp,
    Service,
    TimestampOrder,
)
from ordercast.protocols.intergroup.stability import Stability
from ordercast.protocols.intergroup.stream import Stream
from ordercast.protocols.intergroup.transmission import Sending, Transmission

_PARTS: tuple[type[Part], ...] = (Transmission, Reception, Repair, Activation, Stability, Control)

_ACROSS = ("multiple-group-order", "acyclic-order")
_ONE_GROUP = ("reliable-source-order", "reliable-timestamp-order")


def _adapted(contract: Contract, options: Options) -> Contract:
    """In one order across groups, that is promised too, of `group-timestamp`, and all orders are meant across groups:
    of those, the other services promise nothing, for each serves one group; nor is anything promised across groups in
    which a receiver has different services."""
    if not isinstance(options, InterGroupOptions) or not options.order_across_groups:
        return contract
    services = {
        name: (*(promise for promise in promises if promise not in _ONE_GROUP), *_ACROSS)
        if name == GroupTimestamp.name
        else tuple(promise for promise in promises if promise in ("no-duplication", "view-termination"))
        for name, promises in contract.services.items()
    }
    contract = msgspec.structs.replace(contract, guarantees=(*contract.guarantees, *_ACROSS), services=services)
    return contract.without(*_ONE_GROUP)


def at_rest(sites: int, groups: int, options: Options) -> AtRest | None:
    """What a process says and keeps when nobody multicasts."""
    if not isinstance(options, InterGroupOptions):
        return None
    # A sender's Keep Alives in each group; of control messages those of a child, of a coordinator and of its cluster.
    # Where the network has no multicast, each goes to every other process.
    packets = sites * (2 * groups / options.keep_alive_seconds + 3 / options.control_seconds_min)
    return AtRest(
        packets=packets,
        # Of each source that multicasts by proxy, the last.
        messages=sites * groups,
        entries=200 + 20 * sites * groups,
        # Whoever was heard last before it went another way holds acknowledgements back until it is stale. What was sent
        # is stable after some five control messages, and the last of them may be lost.
        after_seconds=options.stale_seconds + 10 * options.control_seconds_min,
    )


class InterGroup(Protocol):
    """Senders multicast; each receiver chooses what it gets: anything, each source's messages, or all in one order."""

    contract = Contract(
        name="intergroup",
        title="each receiver chooses its delivery service; repair and control scale with the distance, not the number",
        paper="Berket 2000",
        guarantees=(
            "integrity",
            "self-inclusion",
            *dict.fromkeys(promise for service in SERVICES.values() for promise in service.promises),
        ),
        faults=(
            "loss",
            "burst-loss",
            "duplication",
            "delay",
            "cut",
            "partition",
            "foreign",
            "pause",
            "skew",
            "slow-reader",
        ),
        crash="whoever orders by timestamp waits for a sender that is down; one that comes back stays out",
        branches=tuple(dict.fromkeys(("overrun", *(branch for part in _PARTS for branch in part.branches)))),
        options=InterGroupOptions,
        at_rest=at_rest,
        several_groups=False,
        members_only=True,
        services={service.name: service.promises for service in SERVICES.values()},
        adapted=_adapted,
    )
    arrangement = ARRANGEMENT
    parts = _PARTS
    wants_consumed = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = cast(InterGroupOptions, context.options)
        if context.groups:  # a newcomer knows of none
            check_senders(context, self.options.senders)
        self.clock = GroupClock()
        self.process_groups: dict[GroupId, ProcessGroup] = {}
        self.channels: dict[str | None, ProcessGroup] = {}
        self._orders: dict[GroupId, TimestampOrder] = {}
        self.told = 0
        """The latest timestamp of a message of another process that the application has got, in any group."""
        self._given: deque[Stream | None] = deque()
        """Of what was handed to the application and not taken yet, the stream, where that holds an acknowledgement
        back."""
        self.transmission = self.attach(Transmission(self))
        self.reception = self.attach(Reception(self))
        self.repair = self.attach(Repair(self))
        self.activation = self.attach(Activation(self))
        self.stability = self.attach(Stability(self))
        self.control = self.attach(
            Control(
                self,
                self.options,
                local_report=self.stability.local_report,
                local_cuts=self._local_cuts,
                on_system_report=self.stability.on_system_report,
            )
        )
        for group, members in context.groups.items():
            if self.site in members:
                self._enter(group, members)

    def _enter(self, name: GroupId, members: tuple[SiteId, ...]) -> None:
        senders = static_senders(self.context, self.options.senders, name)
        group = self._add(ProcessGroup(name, self.site, members, senders, self.options))
        if group.own is not None:
            group.sending = Sending(self.options)
        self._follow_views(group)
        shared = next(iter(self._orders.values()), None) if self.options.order_across_groups else None
        self._orders[name] = shared or TimestampOrder()

    def _add(self, group: ProcessGroup) -> ProcessGroup:
        self.process_groups[group.name] = self.channels[group.channel] = group
        return group

    # ------------------------------------------------------------------ views that change (see `dynamic.py`)
    membership: Membership
    """Where sender groups change."""

    def _follow_views(self, group: ProcessGroup) -> None:
        """A configured group is entered: its view stays."""

    def _start_views(self) -> None:
        """The configured views are installed already."""

    def _local_cuts(self) -> Mapping[GroupId, CutReport]:
        return {}

    # ------------------------------------------------------------------ events
    def on_started(self, event: Started) -> None:
        """Hear the groups' channels, install the configured views, and begin."""
        for group in self.process_groups.values():
            if group.member is not None:
                continue
            self.outbox.append(JoinChannel(group.channel))
            self.outbox.append(
                InstallView(group.view, group.senders.members, group.senders.members, groups=(group.name,))
            )
        self.activation.start()
        self.stability.start()
        self._start_views()
        self.transmission.start()
        self.control.start()

    def on_recovered(self, event: Recovered) -> None:
        """A process that crashed has lost its numbers: it says nothing that the others would take for old, and stays
        out."""
        self.process_groups.clear()
        self.channels.clear()
        self.block("start", "this process has crashed and lost its numbers; it takes part again under another name")

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """The application multicasts."""
        name = event.multicast.groups[0]
        group = self.process_groups.get(name)
        if group is None:
            raise UsageError(
                self.obstacle("start") or f"{self.site} is not in {name}: only members multicast to a group"
            )
        if group.member is not None and group.member.multicasts_by_proxy:
            group.member.proxying.multicast(event.multicast)
        else:
            self.transmission.multicast(group, event.multicast)

    def on_service_chosen(self, event: ServiceChosen) -> None:
        """The application chooses a service for what it receives in a group."""
        group = self.process_groups.get(event.group)
        if group is None or (group.member is not None and group.member.wants == OUT):
            raise UsageError(f"{self.site} is not in {event.group}: it has no service there")
        self.activation.choose(group, event.service, event.sources)

    def on_consumed(self, event: Consumed) -> None:
        """The application has taken deliveries: they no longer hold acknowledgements back."""
        given = self._given
        if event.count >= len(given):
            # All that there is, as most applications do: nothing need be taken out one by one.
            for stream in given:
                if stream is not None:
                    stream.unread.clear()
            given.clear()
            return
        for _ in range(event.count):
            stream = given.popleft()
            if stream is not None:
                stream.unread.popleft()

    # ------------------------------------------------------------------ for all parts
    def group_on(self, arrival: Arrival) -> ProcessGroup:
        """The group on whose channel a packet came."""
        group = self.channels.get(arrival.channel)
        if group is None:
            raise WireError(f"nothing of InterGroup travels on {arrival.channel}")
        return group

    def was_in(self, name: GroupId) -> bool:
        """Whether this process is in a group, or was: packets that are under way come later."""
        return channel_of(name) in self.channels

    def order_of(self, group: ProcessGroup) -> TimestampOrder:
        """Where the messages of a group wait for their turn: with each other, or with those of all groups."""
        return self._orders[group.name]

    def take_own(self, group: ProcessGroup, data: Data) -> None:
        """A message of this process is sent: a process receives its own."""
        stream = group.streams[self.site]
        stream.last = stream.high = data.seq
        service = group.service
        if group.member is not None:
            group.member.take(stream, data)
            if data.change is None:
                service.take(stream, data)
                if not service.reliable and data.proxied is None:
                    service.arrive(stream, data)
            if data.change is None or not isinstance(data.change, PLeave):
                group.advance()
        elif service.reliable:
            if service.means(self.site):
                service.take(stream, data)
                service.advance()
        else:
            service.arrive(stream, data)

    def hand_over(self, group: ProcessGroup, stream: Stream, data: Data, service: Service) -> None:
        """Deliver a message as Application Data (4.2.3): sender, group and data. An application that does not keep up
        misses what comes without reliability."""
        seq, timestamp = data.seq, data.timestamp
        if stream is group.own:
            self.transmission.note_settled(group, seq)
        if data.proxied is not None and not self._is_new(group, data, data.proxied, service):
            return
        if service.reliable:
            stream.unread.append(timestamp)
            stream.ordered_at = timestamp
            self._given.append(stream)
        elif len(self._given) >= (self.options.unread_messages_max or self.options.outstanding_messages_max):
            self.branch("overrun")
            return
        else:
            self._given.append(None)
        if seq > stream.delivered:
            stream.delivered = seq
        if timestamp > self.told and stream.sender != self.site:
            self.told = timestamp
        key: tuple[int, ...] | None = None
        if service.certified:
            rank = stream.rank
            if rank is None:
                rank = stream.rank = self._rank(stream.sender)
            key = (timestamp, *rank)
        self.outbox.append(Deliver(data.multicast, key, stream.sender, group.view, service.name))
        if stream.gaps and seq in stream.gaps:
            stream.gaps.discard(seq)
            self.outbox.append(Activate(group.name, service.name, stream.sender))

    def _is_new(self, group: ProcessGroup, data: Data, proxied: Proxied, service: Service) -> bool:
        """Whether the application has not got this message by proxy, nor a later one of its source; it is told when
        something may be missing before it."""
        source = data.multicast.id.source
        before = group.by_proxy.get(source, 0)
        if not group.is_new(source, proxied.number, service):
            return False
        if proxied.anew and before:
            self.outbox.append(Activate(group.name, service.name, source))
        return True

    def _rank(self, sender: SiteId) -> tuple[int, ...]:
        """The place of a sender among those with the same timestamp."""
        return (self.context.sites.index(sender),)

    def receivers(self, group: GroupId) -> int:
        """An estimate of how many processes are in a group (chapter 8)."""
        return self.control.receivers(group)

    def check_invariants(self) -> None:
        """Of all groups and parts."""
        super().check_invariants()
        for group in self.process_groups.values():
            group.check_invariants()
