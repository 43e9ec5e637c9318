"""Consensus alone: one instance after the other orders what sites propose, and any site may suspect any coordinator."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from ordercast.core import Context, Contract, MessageId, Multicast, Part, Protocol, Record
from ordercast.core.effects import Deliver, Replay
from ordercast.core.events import MulticastRequested
from ordercast.explore.hosts.posting import PostOnce, Suspicions
from ordercast.protocols.parts.consensus import Consensus
from ordercast.protocols.parts.consensus_packets import Value
from ordercast.protocols.parts.quorum import Quorum


class Wanted(Record, frozen=True):
    """A message of ours."""

    message: MessageId


class ConsensusAlone(Protocol):
    """Each site proposes its own messages; what is decided is delivered in the order of the instances."""

    contract = Contract(
        name="consensus",
        title="uniform consensus alone",
        paper="Chandra and Toueg 1996",
        guarantees=("integrity", "no-duplication", "multiple-group-order", "uniform-agreement", "termination"),
        faults=("crash", "loss", "delay"),
        crash="a majority goes on",
        branches=Consensus.branches,
    )
    parts: ClassVar[tuple[type[Part], ...]] = (Consensus,)
    records: ClassVar[tuple[type[Record], ...]] = (Wanted,)
    timers = ("suspect",)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.pending: dict[MessageId, None] = {}
        self.decided: dict[int, Value] = {}
        self.handed = 0
        self.effect: type[Deliver] | type[Replay] = Replay if context.incarnation else Deliver
        quorum = Quorum([context.sites])
        self.suspicions = self.attach(Suspicions(self))
        self.consensus = self.attach(
            Consensus(
                self,
                cast(Any, PostOnce(self)),
                cast(Any, self.suspicions),
                eager=False,
                participants=lambda name: context.sites,
                quorum=lambda name: quorum,
                estimate=lambda name: self.estimate(),
                on_decided=self.on_value,
                on_recalled=self.note_decided,
                is_over=lambda name: name[0] in self.decided,
            )
        )

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        self.append(Wanted(event.multicast.id))
        self.pending[event.multicast.id] = None
        self.propose()

    def estimate(self) -> Value | None:
        """What we would propose."""
        return Value(self.site, ((next(iter(self.pending)), 0),)) if self.pending else None

    def propose(self) -> None:
        """Take part in the next instance."""
        if self.pending:
            self.consensus.start((len(self.decided) + 1,), next(iter(self.pending)))

    def on_suspect_timeout(self) -> None:
        """The coordinator is silent, or seems to be."""
        self.suspicions.suspect_all(self.consensus.on_suspected)

    def on_value(self, name: tuple[int, ...], value: Value) -> None:
        """An instance is decided."""
        self.note_decided(name, value)
        self.propose()

    def note_decided(self, name: tuple[int, ...], value: Value) -> None:
        """Deliver what stands next in the order."""
        self.decided[name[0]] = value
        for message in value.messages():
            self.pending.pop(message, None)
        while (following := self.decided.get(self.handed + 1)) is not None:
            self.handed += 1
            for message in following.messages():
                self.outbox.append(self.effect(Multicast(message, tuple(self.context.groups), b"x")))

    def recall_wanted(self, record: Wanted) -> None:
        self.pending[record.message] = None

    def resume(self) -> None:
        self.effect = Deliver
        self.consensus.resume()
        self.propose()
