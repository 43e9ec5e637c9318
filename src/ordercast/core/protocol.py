"""The contract between a protocol core and whatever drives it.

A core is deterministic and does no input or output: time comes in with each event, randomness is a seeded generator
that is handed in, and everything that it wants done is written to its outbox in order.
"""

from __future__ import annotations

from abc import ABC
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, ClassVar, Self, TypeVar

import msgspec

from ordercast.core import effects, events
from ordercast.core.arrangement import Arrangement
from ordercast.core.contract import Contract, Options
from ordercast.core.errors import InvariantViolation, UsageError, WireError
from ordercast.core.events import Received
from ordercast.core.identifiers import MAIN_INSTANCE, GroupId, InstanceId, Multicast, SiteId
from ordercast.core.packets import Packet, Record
from ordercast.core.part import Part, event_handler, find_handlers, packet_handler, record_handler, timer_handler

AnyPart = TypeVar("AnyPart", bound=Part)


class Context(msgspec.Struct, frozen=True):
    """What an instance knows from the start."""

    site: SiteId
    groups: Mapping[GroupId, tuple[SiteId, ...]]
    """Group -> its members, sorted; none in a cluster that no file describes."""
    sites: tuple[SiteId, ...]
    """All sites of the system, sorted, members or not; in a cluster that no file describes, this one alone."""
    options: Options
    random: Random
    """This instance's own stream."""
    instance: InstanceId = MAIN_INSTANCE
    incarnation: int = 0
    """0 at the first start, larger after each crash."""
    began: int = 0
    """The incarnation of the first start: not 0 for a process that has no log and may have been there before, under the
    same name."""
    stable: bool = True
    """Whether what is appended survives a crash."""

    def destinations(self, multicast: Multicast) -> tuple[SiteId, ...]:
        """The sites to which the message is addressed, sorted, each once."""
        return self.members(multicast.groups) if multicast.destinations is None else multicast.destinations

    def members(self, groups: tuple[GroupId, ...]) -> tuple[SiteId, ...]:
        """The sites that are in any of the groups, sorted, each once."""
        if len(groups) == 1:
            return self.groups[groups[0]]
        return tuple(sorted({site for group in groups for site in self.groups[group]}))


def _require(protocol: type[Protocol], handler: str, owners: tuple[type[object], ...]) -> None:
    if not any(hasattr(owner, handler) for owner in owners):
        names = " or ".join(owner.__name__ for owner in owners)
        raise TypeError(f"{protocol.__name__} has no handler {handler}: {names} needs one")


PROXY, LATER = "proxy", "later"
"""See `Protocol.announcement`."""


class Protocol(ABC):
    """Base of protocol cores: event in, effects out.

    Handlers are found by name: `on_started`, `on_multicast_requested`, … for events; for packets, timers and records as
    `Part` says, in the core itself or in the parts that it attaches. What the core handles itself, its parts do not.

    To drive one by hand: make it with a `Context`, call `step(now, event)`, read `outbox` and empty it.
    """

    contract: ClassVar[Contract]
    arrangement: ClassVar[Arrangement]
    """What every protocol has that can be chosen by its name."""
    parts: ClassVar[tuple[type[Part], ...]] = ()
    """The parts that instances attach; their packets and records become the protocol's."""
    packets: ClassVar[tuple[type[Packet], ...]] = ()
    records: ClassVar[tuple[type[Record], ...]] = ()
    timers: ClassVar[tuple[str, ...]] = ()
    """The timers that the core handles itself."""
    checkpoint_records: ClassVar[int] = 512
    """After so many records the instance is asked for a checkpoint, which bounds the log and the time to read it
    after a crash."""
    guards_deliveries: ClassVar[bool] = False
    """Whether the instance is asked by `may_deliver` when a delivery leaves, for it may have waited for the log."""
    wants_consumed: ClassVar[bool] = False
    """Whether the instance wants to be told what the application has taken; those that buffer nothing save the call."""

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        cls.packets = tuple(dict.fromkeys((*cls.packets, *(each for part in cls.parts for each in part.packets))))
        cls.records = tuple(dict.fromkeys((*cls.records, *(each for part in cls.parts for each in part.records))))
        for packet in cls.packets:
            _require(cls, packet_handler(packet), (cls, *(part for part in cls.parts if packet in part.packets)))
        for timer in cls.timers:
            _require(cls, timer_handler(timer), (cls,))
        for part in cls.parts:
            for timer in part.timers:
                _require(cls, timer_handler(timer), (part,))
            for record in part.records:
                _require(cls, record_handler(record), (cls, part))

    def __init__(self, context: Context) -> None:
        self.context = context
        self.site = context.site
        self.now = 0.0
        self.outbox: list[effects.Effect] = []
        self.branches: Counter[str] = Counter()
        self._appended = 0
        self._obstacles: dict[tuple[str, GroupId | None], str] = {}
        self._on_event: dict[type[events.Event], Callable[[Any], None]] = {
            event: getattr(self, event_handler(event))
            for event in events.Event.__subclasses__()
            if event is not Received
        }
        self._on_packet: dict[type[Packet], Callable[[SiteId, Any, events.Arrival], None]] = find_handlers(
            self, self.packets, packet_handler
        )
        self._on_timer: dict[events.Timer, Callable[..., None]] = find_handlers(self, self.timers, timer_handler)
        self._on_record: dict[type[Record], Callable[[Any], None]] = find_handlers(self, self.records, record_handler)
        self._listeners: list[Callable[[SiteId, Packet], bool | None]] = []
        self._finishers: list[Callable[[], None]] = []
        self._finish_once: list[Callable[[], None]] = []
        self._checkers: list[Callable[[], None]] = []

    @property
    def groups(self) -> Mapping[GroupId, tuple[SiteId, ...]]:
        """The groups that there are and their members, sorted, as far as this site knows. A dynamic protocol says it
        here."""
        return self.context.groups

    @property
    def sites(self) -> tuple[SiteId, ...]:
        """The sites that there are, sorted, as far as this site knows. A dynamic protocol says it here."""
        return self.context.sites

    @property
    def ordering_site(self) -> SiteId | None:
        """Who orders now, as far as this site knows: a sequencer, the primary of its cell, itself while it holds the
        token. None where nobody does, or where this site cannot tell."""
        return None

    def standing(self, now: float) -> dict[str, Any]:
        """What an operator wants to know besides, at this time of the site's clock; nothing where there is nothing."""
        return {}

    def check_groups(self, groups: tuple[GroupId, ...]) -> None:
        """Raise `UsageError` for groups that no message can have at once, where the contract allows several."""

    def may_deliver(self, effect: effects.Deliver | effects.Replay, now: float) -> bool:
        """Whether a delivery may reach the application at this time of the site's clock. What may not is kept until
        `Redeliver` or `Withdraw`. Asked where `guards_deliveries` says so."""
        return True

    def look_at_clock(self, now: float) -> None:
        """See whether something has ended at a time that is past, and want it done. Asked where `guards_deliveries`
        says so, before the trace gets a row: a process that was stopped finds packets before its timers."""

    def attach(self, part: AnyPart) -> AnyPart:
        """Hand the part what it handles from now on; what the core or an earlier part handles stays there."""
        for found, handlers in (
            (find_handlers(part, part.packets, packet_handler), self._on_packet),
            (find_handlers(part, part.timers, timer_handler), self._on_timer),
            (find_handlers(part, part.records, record_handler), self._on_record),
        ):
            for key, handler in found.items():
                handlers.setdefault(key, handler)
        for name, hooks in (
            ("on_heard", self._listeners),
            ("finish_step", self._finishers),
            ("check_invariants", self._checkers),
        ):
            if hasattr(part, name):
                hooks.append(getattr(part, name))
        return part

    def step(self, now: float, event: events.Event) -> None:
        """Take one event at local time `now`; what is to be done about it stands in the outbox afterwards."""
        self.now = now
        if type(event) is Received:
            packet = event.packet
            handler = self._on_packet.get(type(packet))
            if handler is None:
                raise WireError(f"{self.contract.name} does not speak {type(packet).__name__}")
            if not self._listeners:  # as in most cores, which are spared an iterator for each packet
                handler(event.sender, packet, event.arrival)
            else:
                for hear in self._listeners:
                    if hear(event.sender, packet):
                        break
                else:
                    handler(event.sender, packet, event.arrival)
        else:
            self._on_event[type(event)](event)
            if type(event) is events.Recovered:
                self._appended += len(event.records)
        if self._finishers:
            for finish in self._finishers:
                finish()
        if self._finish_once:
            due, self._finish_once = self._finish_once, []
            for finish in due:
                finish()
        # Only at the end of a step: in the middle, the state may be ahead of the records.
        if self._appended >= self.checkpoint_records:
            self._take_checkpoint()

    def _take_checkpoint(self) -> None:
        # A checkpoint copies what is kept; waiting for twice as many records makes that a fixed cost per record.
        if self._appended >= self.checkpoint_records + 2 * self.checkpoint_messages():
            state = self.checkpoint_state()
            if state is not None:
                self._appended = 0
                self.outbox.append(effects.Checkpoint(state))

    @classmethod
    def with_checkpoints(cls, records: int) -> type[Self]:
        """The protocol, but its logs are summed up after so many records."""
        return type(
            cls.__name__, (cls,), {"checkpoint_records": records, "__slots__": (), "__module__": cls.__module__}
        )

    def checkpoint_state(self) -> Record | None:
        """Everything that the records so far amount to; None for instances that see to their log themselves."""
        return None

    def checkpoint_messages(self) -> int:
        """How many messages a checkpoint would hold."""
        return 0

    def check_invariants(self) -> None:
        """Raise `InvariantViolation` when the state is impossible. Called in simulation after each step that wants
        something done: nobody outside can see the others, and what they break is still broken at the next."""
        for check in self._checkers:
            check()

    # ------------------------------------------------------------------ events, for subclasses to override
    def on_started(self, event: events.Started) -> None:
        """The first start."""

    def on_recovered(self, event: events.Recovered) -> None:
        """A start after a crash: first the checkpoint, then each record where it is handled, then go on."""
        if event.checkpoint is not None:
            self.restore(event.checkpoint)
        for record in event.records:
            self._on_record[type(record)](record)
        self.resume()
        self.declare_recovered()

    def restore(self, state: Any) -> None:
        """After a crash: be as the checkpoint says. For protocols with a `checkpoint_state`."""
        raise InvariantViolation(f"{self.contract.name} has no checkpoints, and its log has {type(state).__name__}")

    def resume(self) -> None:
        """After a crash, the log having been read: say again what may not have been heard. By default, begin anew."""
        self.on_started(events.Started())

    def on_timer_fired(self, event: events.TimerFired) -> None:
        """A timer ran out: its handler gets what follows on the name."""
        timer = event.timer
        if isinstance(timer, tuple):
            self._on_timer[timer[0]](*timer[1:])
        else:
            self._on_timer[timer]()

    def on_multicast_requested(self, event: events.MulticastRequested) -> None:
        """The application multicasts."""
        raise UsageError(f"{self.contract.name} cannot multicast")

    def on_consumed(self, event: events.Consumed) -> None:
        """The application has taken deliveries."""

    def on_discovered(self, event: events.Discovered) -> None:
        """Other processes were found; only dynamic protocols are told."""

    def on_join_requested(self, event: events.JoinRequested) -> None:
        """The application wants to be in a group."""
        raise UsageError(f"{self.contract.name} has the groups of the configuration: {event.group!r} cannot be joined")

    def on_leave_requested(self, event: events.LeaveRequested) -> None:
        """The application wants to be out of a group."""
        raise UsageError(f"{self.contract.name} has the groups of the configuration: {event.group!r} cannot be left")

    def on_removal_requested(self, event: events.RemovalRequested) -> None:
        """An operator wants a site out of every group."""
        raise UsageError(f"{self.contract.name} has the processes of the configuration: {event.site!r} stays one")

    def on_role_chosen(self, event: events.RoleChosen) -> None:
        """The application wants another role."""
        raise UsageError(f"{self.contract.name} has no roles: {event.role!r} cannot be chosen")

    def on_service_chosen(self, event: events.ServiceChosen) -> None:
        """The application wants another service."""
        raise UsageError(f"{self.contract.name} has one service: {event.service!r} cannot be chosen")

    # ------------------------------------------------------------------ effects, for subclasses to call
    def send(self, to: tuple[SiteId, ...], packet: Packet) -> None:
        """Write a `Send` to the outbox; nothing when there is nobody to send to."""
        if to:
            self.outbox.append(effects.Send(to, packet))

    def set_timer(self, timer: events.Timer, after_seconds: float) -> None:
        """Write a `SetTimer` to the outbox."""
        self.outbox.append(effects.SetTimer(timer, after_seconds))

    def finish_with(self, finish: Callable[[], None]) -> None:
        """Call that at the end of this step, once, behind what parts do at the end of every step."""
        self._finish_once.append(finish)

    def cancel_timer(self, timer: events.Timer) -> None:
        """Write a `CancelTimer` to the outbox."""
        self.outbox.append(effects.CancelTimer(timer))

    def append(self, record: Record) -> None:
        """Write an `Append` to the outbox; without a stable log there is nothing to write, and nothing to sum up."""
        if self.context.stable:
            self._appended += 1
            self.outbox.append(effects.Append(record))

    def checkpoint(self, state: Record) -> None:
        """Write a `Checkpoint` to the outbox."""
        self.outbox.append(effects.Checkpoint(state))

    def deliver(self, multicast: Multicast, **details: Any) -> None:
        """Write a `Deliver` to the outbox."""
        self.outbox.append(effects.Deliver(multicast, **details))

    def declare_recovered(self) -> None:
        """Write a `DeclareRecovered` to the outbox."""
        self.outbox.append(effects.DeclareRecovered())

    def block(self, by: str, reason: str, group: GroupId | None = None) -> None:
        """Say why there is no progress, or (an empty reason) that `by` is no longer in the way. A reason stands until
        the same `by` takes it back: what one part says does not hide what another one does, nor what the same one
        says of another group."""
        if self._obstacles.get((by, group), "") != reason:
            if reason:
                self._obstacles[by, group] = reason
            else:
                del self._obstacles[by, group]
            self.outbox.append(effects.Blocked(by, reason, group))

    def obstacle(self, by: str, group: GroupId | None = None) -> str:
        """What `by` has said last; empty when it is not in the way."""
        return self._obstacles.get((by, group), "")

    def announcement(self, multicast: Multicast) -> str | None:
        """What a trace says of a message of the application that this core has just taken: None, that it is multicast
        now; `PROXY`, that another process multicasts it for this one, which is no sender; `LATER`, nothing, for it
        is multicast when it leaves."""
        return None

    def branch(self, name: str) -> None:
        """Count that a branch of note was taken (see `Contract.branches`)."""
        self.branches[name] += 1

    def branches_of_crash(self) -> Iterable[str]:
        """The branches of note that are taken when this instance crashes now: what it is in the middle of. Whoever
        simulates the crash asks for them, for the instance has no step left in which it could count."""
        return ()
