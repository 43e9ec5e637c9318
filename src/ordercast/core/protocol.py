"""The contract between a protocol core and whatever drives it.

A core is deterministic and does no input or output: time comes in with each event, randomness is a seeded generator
that is handed in, and everything that it wants done is written to its outbox in order.
"""

from __future__ import annotations

import re
from abc import ABC
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, ClassVar

import msgspec

from ordercast.core import effects, events
from ordercast.core.contract import Contract, Options
from ordercast.core.errors import UsageError, WireError
from ordercast.core.events import Received
from ordercast.core.identifiers import MAIN_INSTANCE, GroupId, InstanceId, Multicast, SiteId
from ordercast.core.messages import Message, Record


class Context(msgspec.Struct, frozen=True):
    """What an instance knows from the start."""

    site: SiteId
    groups: Mapping[GroupId, tuple[SiteId, ...]]
    """Group -> its members, sorted."""
    sites: tuple[SiteId, ...]
    """All sites of the system, sorted, members or not."""
    options: Options
    random: Random
    """This instance's own stream."""
    instance: InstanceId = MAIN_INSTANCE
    incarnation: int = 0
    """0 at the first start, larger after each crash."""
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


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


class Protocol(ABC):
    """Base of protocol cores: event in, effects out.

    Handlers are found by name: `on_started`, `on_timer_fired`, … for events, and `on_<message>` for each type in
    `messages` (`on_data(sender, message, arrival)` for `Data`). A missing handler is an error when the class is made,
    not when the message comes.
    """

    contract: ClassVar[Contract]
    messages: ClassVar[tuple[type[Message], ...]] = ()
    records: ClassVar[tuple[type[Record], ...]] = ()
    checkpoint_records: ClassVar[int] = 512
    """After so many records the instance is asked for a checkpoint, which bounds the log and the time to read it
    after a crash."""
    wants_consumed: ClassVar[bool] = False
    """Whether the instance wants to be told what the application has taken; those that buffer nothing save the call."""

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        for message in cls.messages:
            if not hasattr(cls, f"on_{_snake_case(message.__name__)}"):
                raise TypeError(f"{cls.__name__} lists the message {message.__name__} but has no handler for it")

    @classmethod
    def warnings(cls, groups: Mapping[GroupId, tuple[SiteId, ...]]) -> tuple[str, ...]:
        """What an operator should know about these groups before the start, one sentence each."""
        return ()

    def __init__(self, context: Context) -> None:
        self.context = context
        self.site = context.site
        self.now = 0.0
        self.outbox: list[effects.Effect] = []
        self.branches: Counter[str] = Counter()
        self._appended = 0
        self._on_event: dict[type[events.Event], Callable[[Any], None]] = {
            event: getattr(self, f"on_{_snake_case(event.__name__)}")
            for event in events.Event.__subclasses__()
            if event is not Received
        }
        self._on_message: dict[type[Message], Callable[[SiteId, Any, events.Arrival], None]] = {
            message: getattr(self, f"on_{_snake_case(message.__name__)}") for message in self.messages
        }

    def step(self, now: float, event: events.Event) -> None:
        """Take one event at local time `now`; what is to be done about it stands in the outbox afterwards."""
        self.now = now
        if type(event) is Received:
            message = event.message
            handler = self._on_message.get(type(message))
            if handler is None:
                raise WireError(f"{self.contract.name} does not speak {type(message).__name__}")
            handler(event.sender, message, event.arrival)
        else:
            self._on_event[type(event)](event)
            if type(event) is events.Recovered:
                self._appended += len(event.records)
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

    def checkpoint_state(self) -> Record | None:
        """Everything that the records so far amount to; None for instances that see to their log themselves."""
        return None

    def checkpoint_messages(self) -> int:
        """How many messages a checkpoint would hold."""
        return 0

    def check_invariants(self) -> None:
        """Raise `InvariantViolation` when the state is impossible. Called after each step in simulation."""

    # ------------------------------------------------------------------ events, for subclasses to override
    def on_started(self, event: events.Started) -> None:
        """The first start."""

    def on_recovered(self, event: events.Recovered) -> None:
        """A start after a crash. By default there is nothing to remember."""
        self.on_started(events.Started())
        self.declare_recovered()

    def on_timer_fired(self, event: events.TimerFired) -> None:
        """A timer ran out."""

    def on_multicast_requested(self, event: events.MulticastRequested) -> None:
        """The application multicasts."""
        raise UsageError(f"{self.contract.name} cannot multicast")

    def on_join_requested(self, event: events.JoinRequested) -> None:
        """The application joins a group."""
        raise UsageError(f"groups are static under {self.contract.name}: name the members in the configuration")

    def on_leave_requested(self, event: events.LeaveRequested) -> None:
        """The application leaves a group."""
        raise UsageError(f"groups are static under {self.contract.name}: name the members in the configuration")

    def on_service_chosen(self, event: events.ServiceChosen) -> None:
        """The application chooses a delivery service."""
        raise UsageError(f"{self.contract.name} has one delivery service only")

    def on_consumed(self, event: events.Consumed) -> None:
        """The application has taken deliveries."""

    def on_suspected(self, event: events.Suspected) -> None:
        """A failure detector suspects a site."""

    def on_trusted(self, event: events.Trusted) -> None:
        """A failure detector trusts a site again."""

    def on_decided(self, event: events.Decided) -> None:
        """A consensus has decided."""

    # ------------------------------------------------------------------ effects, for subclasses to call
    def send(self, to: tuple[SiteId, ...], message: Message) -> None:
        """Write a `Send` to the outbox; nothing when there is nobody to send to."""
        if to:
            self.outbox.append(effects.Send(to, message))

    def set_timer(self, timer: events.Timer, after_seconds: float) -> None:
        """Write a `SetTimer` to the outbox."""
        self.outbox.append(effects.SetTimer(timer, after_seconds))

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

    def branch(self, name: str) -> None:
        """Count that a branch of note was taken (see `Contract.branches`)."""
        self.branches[name] += 1
