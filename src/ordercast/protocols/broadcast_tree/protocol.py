"""The broadcast tree: events and messages to the parts, propagation, stable storage."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import cast

from ordercast.core import (
    EVERY_FAULT,
    Context,
    Contract,
    InvariantViolation,
    Multicast,
    Options,
    Protocol,
    SiteId,
    WireError,
)
from ordercast.core.effects import Credit, Deliver, Replay
from ordercast.core.events import Arrival, Consumed, MulticastRequested, Recovered, Started, TimerFired
from ordercast.protocols.broadcast_tree.arrangement import ARRANGEMENT
from ordercast.protocols.broadcast_tree.attachment import Attachment
from ordercast.protocols.broadcast_tree.clusters import Clusters
from ordercast.protocols.broadcast_tree.exchange import Exchange
from ordercast.protocols.broadcast_tree.gap_filling import GapFilling
from ordercast.protocols.broadcast_tree.info import holds
from ordercast.protocols.broadcast_tree.options import BroadcastTreeOptions
from ordercast.protocols.broadcast_tree.packets import (
    Adopt,
    Control,
    Data,
    Declare,
    Detach,
    Info,
    Pointer,
    State,
    Stored,
    StreamId,
    StreamState,
)
from ordercast.protocols.broadcast_tree.stream import Stream

EPOCHS_MAX = 2
"""Of a source without a stable log: its present messages, and those from before its last crash, which the others may
still be giving to each other."""


def _not_guaranteed(options: Options) -> frozenset[str]:
    """Prompt delivery has no order."""
    ordered = isinstance(options, BroadcastTreeOptions) and options.order == "source"
    return frozenset() if ordered else frozenset({"single-source-order"})


class BroadcastTree(Protocol):
    """Hosts arrange themselves in a tree that enters each cluster once (Garcia-Molina, Kogan, Lynch 1987)."""

    contract = Contract(
        name="broadcast-tree",
        title="hosts form a tree over slow and fast links: cheap reliable broadcast, without order unless asked for",
        paper="Garcia-Molina, Kogan, Lynch 1987",
        guarantees=("integrity", "no-duplication", "single-source-order", "uniform-agreement", "termination"),
        faults=(*EVERY_FAULT, "outage"),
        crash=(
            "the others go on and serve each other; what a crashed host lacks is kept for it, and a source stops when "
            "`kept_messages_max` messages wait for the slowest host"
        ),
        branches=(
            "option-1",
            "option-2",
            "case-1-option-3",
            "case-2-option-3",
            "case-3",
            "np2-expired",
            "pa-expired",
            "parent-lost",
            "child-lost",
            "child-went",
            "old-parent-adopts",
            "old-pointer",
            "cluster-grew",
            "cluster-shrank",
            "duplicate",
            "not-from-parent",
            "gap-filled",
            "gap-limit",
            "filled-for-others",
            "piggybacked",
            "pruned",
            "window-full",
            "window-open",
            "waited-for-order",
            "recovered-messages",
        ),
        options=BroadcastTreeOptions,
        not_guaranteed=_not_guaranteed,
    )
    arrangement = ARRANGEMENT
    packets = (Data, Control)
    records = (Stored, State)
    wants_consumed = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = cast(BroadcastTreeOptions, context.options)
        self.ranks = {site: rank for rank, site in enumerate(context.sites)}
        """The static linear ordering of hosts."""
        self.streams: dict[StreamId, Stream] = {}
        self.clusters = Clusters(self)
        self.attachment = Attachment(self)
        self.gaps = GapFilling(self)
        self.exchange = Exchange(self)
        self._own: list[Stream] = []
        self._streams_made = 0
        self._given: deque[tuple[Stream, int]] = deque()
        """Handed to the application and not taken yet, in order."""
        self._heard: set[SiteId] = set()
        """Since half of PA."""
        self._heard_in_exchange: set[SiteId] = set()
        self._silent_exchanges: dict[SiteId, int] = {}
        self._incarnations: dict[SiteId, int] = {}
        self._lately = 0
        """Own messages since the breath began."""
        self._deliver_effect: type[Deliver] | type[Replay] = Deliver
        options = self.options
        self._periods: dict[str, tuple[float, Callable[[], None]]] = {
            "eic": (options.eic_seconds, self.on_eic),
            "ein": (options.ein_seconds, self.on_ein),
            "epp": (options.epp_seconds, self.exchange.on_epp),
            "gfc": (options.gfc_seconds, self.gaps.on_gfc),
            "gfn": (options.gfn_seconds, self.gaps.on_gfn),
            "gfo": (options.gfo_seconds, self.gaps.on_gfo),
            "np1": (options.np1_seconds, self.attachment.on_np1),
            "pa": (options.pa_seconds / 2, self.on_pa),
        }

    # ------------------------------------------------------------------ start, timers
    def on_started(self, event: Started) -> None:
        """INITIALIZE. Timers of one host that are multiples of each other fire together, so that packets are shared;
        those of different hosts do not, so that the network is not flooded."""
        phase = self.context.random.random() * max(seconds for seconds, _ in self._periods.values())
        for timer, (seconds, _) in self._periods.items():
            self.set_timer(timer, phase % seconds)
        self.exchange.greet()
        self.give_credit()

    def on_timer_fired(self, event: TimerFired) -> None:
        """To the part whose timer it is."""
        timer = event.timer
        if timer == "piggyback":
            self.exchange.flush()
        elif timer == "hello":
            self.exchange.say_hello()
        elif timer == "breath":
            self._lately = 0
            self.give_credit()
        elif isinstance(timer, tuple):
            for stream in self.streams.values():
                if stream.index == timer[1]:
                    self.attachment.on_np2(stream)
        elif isinstance(timer, str):
            seconds, procedure = self._periods[timer]
            self.set_timer(timer, seconds)
            procedure()

    def on_eic(self) -> None:
        """Prune before telling others, so that they hear of it."""
        for stream in self.streams.values():
            self.prune(stream)
            stream.refused.clear()
        self.exchange.on_eic()
        self.give_credit()

    def on_ein(self) -> None:
        """Who was not heard over several of these is away, until heard again."""
        for site in self.context.sites:
            silent = 0 if site in self._heard_in_exchange else self._silent_exchanges.get(site, 0) + 1
            self._silent_exchanges[site] = silent
            if silent == self.options.silent_exchanges_max:
                for stream in self.streams.values():
                    if stream.remove_child(site):
                        self.branch("child-lost")
                    if stream.parent == site:
                        self.attachment.lose_parent(stream)
        self._heard_in_exchange.clear()
        self.exchange.on_ein()

    def on_pa(self) -> None:
        """Half of PA: whose parent was not heard?"""
        self.attachment.on_pa(self._heard)
        self._heard.clear()

    def has_heard(self, site: SiteId) -> bool:
        """Whether anything has come from the host since this one started."""
        return site in self.clusters.hops

    def is_reachable(self, site: SiteId) -> bool:
        """Whether the host was heard lately."""
        return self._silent_exchanges.get(site, 0) < self.options.silent_exchanges_max

    def _hear(self, sender: SiteId, arrival: Arrival) -> None:
        if sender not in self.ranks:
            raise WireError(f"{sender} is not a site of the system")
        self.clusters.on_arrival(sender, arrival)
        self._heard.add(sender)
        self._heard_in_exchange.add(sender)
        self._silent_exchanges[sender] = 0

    # ------------------------------------------------------------------ streams
    def find_stream(self, stream: StreamId) -> Stream:
        """The stream of that name, a new one if it was not known; `WireError` when it does not concern this host."""
        known = self.streams.get(stream)
        if known is not None:
            return known
        if stream.source not in self.ranks or not stream.groups or stream.epoch < 0:
            raise WireError(f"there is no broadcast of {stream.source} to {stream.groups}")
        if any(group not in self.context.groups for group in stream.groups):
            raise WireError(f"unknown group in {stream.groups}")
        members = self.context.members(stream.groups)
        if self.site not in (stream.source, *members):
            raise WireError(f"a broadcast of {stream.source} to {stream.groups} does not concern {self.site}")
        made = self.streams[stream] = Stream(stream, self._streams_made, self.site, members, self.ranks)
        self._streams_made += 1
        if made.is_source:
            self._own.append(made)
        # After one exchange within the cluster, a host knows better where to attach.
        self.set_timer("np1", self.options.eic_seconds)
        self._retire_epochs(stream)
        return made

    def _retire_epochs(self, stream: StreamId) -> None:
        alike = sorted(
            other for other in self.streams if (other.source, other.groups) == (stream.source, stream.groups)
        )
        for other in alike[:-EPOCHS_MAX]:
            del self.streams[other]

    # ------------------------------------------------------------------ the source
    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """Number it, keep it, and send it to the children."""
        multicast = event.multicast
        epoch = 0 if self.context.stable else self.context.incarnation
        stream_id = StreamId(self.site, epoch, tuple(sorted(set(multicast.groups))))
        is_new = stream_id not in self.streams
        stream = self.find_stream(stream_id)
        number = self.next_number(stream)
        self.store(stream, number, multicast, self.site)
        self.propagate(stream, number, multicast, self.site)
        if is_new:
            self.exchange.tell_info(stream, stream.others)
        if not self._lately:
            self.set_timer("breath", self.options.breath_seconds)
        self._lately += 1
        self.give_credit()

    def next_number(self, stream: Stream) -> int:
        """The source's numbers go on after a crash."""
        return stream.highest + 1

    def give_credit(self) -> None:
        """Tell the application how much it may send, and why it is no more.

        Until every host has taken a message, and said so, several exchanges pass. Who collects messages while others
        are under way should not wait for that: what left a breath ago is shown as one message at the most.
        """
        if not self._own:
            return
        options = self.options
        waiting = {stream: stream.highest - stream.floor for stream in self._own}
        total = sum(waiting.values())
        room = options.kept_messages_max - total
        if sum(stream.kept_bytes for stream in self._own) >= options.kept_bytes_max:
            room = 0
        breath = options.burst_messages - (self._lately or min(total, 1, options.burst_messages - 1))
        self.outbox.append(Credit(max(0, min(room, breath))))
        reason = ""
        if room <= 0:
            stream = max(self._own, key=lambda stream: waiting[stream])
            reason = f"the window is full: site {stream.slowest()} has taken least of {', '.join(stream.id.groups)}"
        if reason != self.obstacle("window"):
            self.branch("window-full" if reason else "window-open")
            self.block("window", reason)

    # ------------------------------------------------------------------ PROPAGATION
    def on_data(self, sender: SiteId, packet: Data, arrival: Arrival) -> None:
        """A broadcast message, new or to fill a gap."""
        self._hear(sender, arrival)
        multicast = packet.multicast
        source = multicast.id.source
        stream = self.find_stream(StreamId(source, packet.epoch, tuple(sorted(set(multicast.groups)))))
        if sender not in stream.others or packet.number < 1:
            raise WireError(f"{sender} takes no part in the broadcasts of {source} to {multicast.groups}")
        stream.learn_number(sender, packet.number)
        if stream.has(packet.number):
            self.branch("duplicate")
        elif stream.is_source:
            raise WireError(f"{sender} sent a message of {source} that it never numbered")
        elif not self.may_accept(stream, sender, packet.number):
            self.branch("not-from-parent")
            self.attachment.refuse(stream, sender)
        else:
            self.store(stream, packet.number, multicast, sender)
            self.propagate(stream, packet.number, multicast, sender)

    def may_accept(self, stream: Stream, sender: SiteId, number: int) -> bool:
        """What is newer than anything seen comes from the parent only; what fills a gap from anyone.

        So nobody ever has newer messages than its parent, and a host that attaches to one that has more attaches to
        none of its descendants.
        """
        return sender == stream.parent or number < stream.highest

    def store(self, stream: Stream, number: int, multicast: Multicast, sender: SiteId) -> None:
        """Make it stable, then deliver it."""
        self.append(Stored(stream.id, number, multicast))
        stream.add(number, multicast)
        self.deliver_ready(stream, number, sender)

    def propagate(self, stream: Stream, number: int, multicast: Multicast, sender: SiteId) -> None:
        """To parent and children, if they lack it."""
        to = tuple(
            host
            for host in stream.neighbours
            if host not in (sender, stream.id.source) and not holds(stream.map_of(host), number)
        )
        for host in to:
            self.gaps.note_sent(stream, host, number)
        self.send(to, Data(stream.id.epoch, number, multicast))

    def deliver_ready(self, stream: Stream, number: int, sender: SiteId | None) -> None:
        """As soon as it comes; or, in the order of the source, when all before it have been."""
        if not stream.is_destination:
            stream.taken.add(number)
        elif self.options.order == "none":
            self._deliver(stream, number, sender)
        else:
            if number > stream.delivered + 1:
                self.branch("waited-for-order")
            self._deliver_in_order(stream, sender)

    def _deliver_in_order(self, stream: Stream, sender: SiteId | None) -> None:
        while stream.delivered + 1 in stream.kept:
            stream.delivered += 1
            self._deliver(stream, stream.delivered, sender)

    def _deliver(self, stream: Stream, number: int, sender: SiteId | None) -> None:
        self._given.append((stream, number))
        self.outbox.append(self._deliver_effect(stream.kept[number], parent=sender))

    def on_consumed(self, event: Consumed) -> None:
        """The application has taken deliveries. After a crash the count may include replays, which are not waited
        for."""
        for _ in range(min(event.count, len(self._given))):
            stream, number = self._given.popleft()
            stream.taken.add(number)

    # ------------------------------------------------------------------ control messages
    def on_control(self, sender: SiteId, packet: Control, arrival: Arrival) -> None:
        """One by one."""
        self._hear(sender, arrival)
        incarnation = packet.stamp >> 40
        known = self._incarnations.get(sender, incarnation)
        if incarnation < known:
            return
        self._incarnations[sender] = incarnation
        self.clusters.on_timestamps(sender, packet)
        if incarnation > known:
            for stream in self.streams.values():
                stream.forget_host(sender)
        for item in packet.items:
            if isinstance(item, Info | Pointer | Declare | Adopt | Detach):
                self._on_item(sender, item, packet.stamp)
            else:
                self.exchange.answer_hello(sender)
        if incarnation > known:
            for stream in self.streams.values():
                if stream.parent == sender and stream.highest_of(sender) < stream.highest:
                    self.attachment.lose_parent(stream)

    def _on_item(self, sender: SiteId, item: Info | Pointer | Declare | Adopt | Detach, stamp: int) -> None:
        stream = self.find_stream(item.stream)
        if sender not in stream.others:
            raise WireError(f"{sender} takes no part in the broadcasts of {stream.id.source}")
        match item:
            case Info():
                self.on_info(sender, stream, item, stamp)
            case Pointer():
                self.attachment.note_pointer(sender, stream, item.parent, stamp)
            case Declare():
                self.attachment.on_declare(sender, stream, item, stamp)
            case Adopt():
                self.attachment.on_adopt(sender, stream)
            case Detach():
                self.attachment.on_detach(sender, stream, stamp)

    def on_info(self, sender: SiteId, stream: Stream, info: Info, stamp: int) -> None:
        """UPDATE-MAP, and UPDATE-PARENT-POINTERS in the same packet; the gaps of a child are filled at once."""
        stream.learn(sender, info.numbers)
        stream.taken_by[sender] = max(info.taken, stream.taken_by.get(sender, 0))
        self.attachment.note_pointer(sender, stream, info.parent, stamp)
        if stream.raise_floor(info.floor):
            self.branch("pruned")
            if self.options.order == "source" and stream.is_destination:
                self._deliver_in_order(stream, sender)
        if sender in stream.children:
            self.gaps.fill(stream, sender)
        self.attachment.on_news(stream, sender)

    def prune(self, stream: Stream) -> None:
        """Forget what every host has taken. What a host says that it has taken is stable there: nobody asks for it
        again after a crash."""
        if stream.raise_floor(stream.common_floor()):
            self.branch("pruned")

    # ------------------------------------------------------------------ stable storage
    def checkpoint_messages(self) -> int:
        """What a checkpoint would hold."""
        return sum(len(stream.kept) for stream in self.streams.values())

    def checkpoint_state(self) -> State:
        """Everything that was stored; of what every host has taken, only the numbers."""
        return State(
            tuple(
                StreamState(stream.id, stream.numbers, stream.floor, stream.delivered, tuple(stream.kept.items()))
                for stream in self.streams.values()
            )
        )

    def on_recovered(self, event: Recovered) -> None:
        """Read the log. What it has was delivered, or is now; parent and children are found anew."""
        if isinstance(event.checkpoint, State):
            for state in event.checkpoint.streams:
                stream = self.find_stream(state.stream)
                stream.restore(state.numbers, state.floor, state.kept)
                stream.delivered = state.delivered
        self._deliver_effect = Replay
        for record in event.records:
            if isinstance(record, Stored):
                stream = self.find_stream(record.stream)
                stream.add(record.number, record.multicast)
                self.deliver_ready(stream, record.number, None)
                self.branch("recovered-messages")
        self._deliver_effect = Deliver
        # The application takes the replays without our counting: they are behind us.
        self._given.clear()
        for stream in self.streams.values():
            in_order = self.options.order == "source" and stream.is_destination
            for first, last in ((1, stream.delivered),) if in_order else stream.numbers:
                stream.taken.add_range(first, last)
        self.on_started(Started())
        self.declare_recovered()

    def check_invariants(self) -> None:
        """Nobody is known to have less than his child; what is not pruned is kept."""
        for stream in self.streams.values():
            if stream.parent is not None and stream.highest_of(stream.parent) < stream.highest:
                raise InvariantViolation(
                    f"{self.site} has message {stream.highest} of {stream.id.source}, and its parent {stream.parent} "
                    f"is not known to have more than {stream.highest_of(stream.parent)}"
                )
            if stream.is_source and stream.parent is not None:
                raise InvariantViolation(f"the source {self.site} has the parent {stream.parent}")
            if len(stream.kept) != len(stream.info) - stream.floor:
                raise InvariantViolation(f"{self.site} keeps {len(stream.kept)} messages of {stream.id.source}")
