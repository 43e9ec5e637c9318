"""Selective total order: the contract, the roles, and the cluster that they all work in."""

from __future__ import annotations

from typing import cast

from ordercast.core import (
    TOTAL_ORDER,
    AtRest,
    Context,
    Contract,
    Multicast,
    Options,
    Packet,
    Part,
    Protocol,
    SiteId,
    UsageError,
    WireError,
)
from ordercast.core.effects import Broadcast, InstallView, JoinChannel
from ordercast.core.events import Consumed, MulticastRequested, Recovered, Started
from ordercast.protocols.selective_total.acknowledgement import Acknowledgement
from ordercast.protocols.selective_total.arrangement import ARRANGEMENT
from ordercast.protocols.selective_total.cluster import Cluster
from ordercast.protocols.selective_total.establishment import Establishment
from ordercast.protocols.selective_total.options import SelectiveTotalOptions
from ordercast.protocols.selective_total.packets import NO_EPOCH, Epoch
from ordercast.protocols.selective_total.presence import Presence
from ordercast.protocols.selective_total.receipt import Receipt
from ordercast.protocols.selective_total.recovery import Recovery
from ordercast.protocols.selective_total.retransmission import Retransmitting
from ordercast.protocols.selective_total.sorting import Sorting
from ordercast.protocols.selective_total.source_order import SourceOrder
from ordercast.protocols.selective_total.total_order import TotalOrder
from ordercast.protocols.selective_total.transmission import Transmission

_ROLES: tuple[type[Part], ...] = (
    Transmission,
    Receipt,
    Acknowledgement,
    TotalOrder,
    SourceOrder,
    Recovery,
    Sorting,
    Retransmitting,
    Establishment,
    Presence,
)

_AS_OTHERS = tuple(name for name in TOTAL_ORDER if name != "recovery")
"""A site that comes back begins anew."""

_ONLY_IN_TOTAL_ORDER = frozenset(
    (
        "multiple-source-order",
        "multiple-group-order",
        "acyclic-order",
        "order-equivalence",
        "R1",
        "no-silent-divergence",
    )
)


def _adapted(contract: Contract, options: Options) -> Contract:
    """The SP service keeps the order of each source only; a process that is let in again begins with an empty memory,
    and has not delivered what the others delivered before."""
    if not isinstance(options, SelectiveTotalOptions):
        return contract
    if options.service != "total":
        contract = contract.without(*_ONLY_IN_TOTAL_ORDER)
    return contract.without("no-silent-divergence") if options.after_crash == "re-establish" else contract


class SelectiveTotal(Protocol):
    """Every site sends to any subset at any time; common destinations agree on the order; no master."""

    contract = Contract(
        name="selective-total",
        title="selective total order on one channel that loses by overrun, without a master",
        paper="Tachikawa and Takizawa",
        guarantees=(*_AS_OTHERS, "selective-information", "order-equivalence", "atomic-receipt"),
        faults=("loss", "burst-loss", "pause", "skew", "slow-reader", "foreign"),
        crash="the others wait for silence_seconds, deliver what anyone may have delivered, and go on without it",
        branches=tuple(branch for role in _ROLES for branch in role.branches),
        options=SelectiveTotalOptions,
        at_rest=lambda sites, groups, options: AtRest(
            # What each site has accepted, and pre-acknowledged, of each: two tables with a number for each pair.
            packets=2 / options.receive_ready_seconds,
            entries=50 + 16 * sites + 2 * sites**2,
            credit=options.pending_messages_max,
        ),
        minority_may_die=True,
        explicit_destinations=True,
        one_channel=True,
        adapted=_adapted,
    )
    arrangement = ARRANGEMENT
    parts = _ROLES
    wants_consumed = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = cast(SelectiveTotalOptions, context.options)
        self.cluster: Cluster | None = None
        """None outside of any cluster."""
        self.presence = self.attach(Presence(context, self.options))
        self.transmission = self.attach(Transmission(self))
        self.receipt = self.attach(Receipt(self))
        self.acknowledgement = self.attach(Acknowledgement(self))
        self.order = self.attach(self.make_order())
        self.recovery = self.attach(Recovery(self))
        self.sorting = self.attach(Sorting(self))
        self.retransmission = self.attach(Retransmitting(self))
        self.establishment = self.attach(Establishment(self))

    def make_order(self) -> TotalOrder | SourceOrder:
        """The service: ST or SP."""
        return SourceOrder(self) if self.options.service == "source" else TotalOrder(self)

    # ------------------------------------------------------------------ events
    def on_started(self, event: Started) -> None:
        """Hear the channel, and apply."""
        self.outbox.append(JoinChannel(self.options.channel))
        self.transmission.give_credit()
        self.establishment.start()

    def on_recovered(self, event: Recovered) -> None:
        """After a crash a site is a stranger to its cluster, and applies anew. It is not *recovered* in the sense of
        the model: what the others delivered meanwhile it never gets."""
        self.on_started(Started())

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """The application multicasts."""
        aborted = self.establishment.aborted
        if aborted:
            raise UsageError(f"the cluster is aborted: {aborted}; open the node again")
        self.transmission.submit(event.multicast)

    def on_consumed(self, event: Consumed) -> None:
        """The application has taken deliveries."""
        self.receipt.note_consumed(event.count)
        self.transmission.transmit()
        self.acknowledgement.note_consumed()

    # ------------------------------------------------------------------ the cluster
    @property
    def epoch(self) -> Epoch:
        """The epoch that this site is in."""
        return NO_EPOCH if self.cluster is None else self.cluster.epoch

    @property
    def open_cluster(self) -> Cluster | None:
        """The cluster, while messages are sent in it: not during an agreement, and not after its end."""
        return None if self.recovery.agreement is not None or self.establishment.aborted else self.cluster

    def begin_cluster(self, epoch: Epoch, members: tuple[SiteId, ...]) -> Cluster:
        """An epoch begins, with new numbers."""
        self.forget_cluster()
        self.cluster = Cluster(epoch, members, self.site, self.options.buffer_messages, self.receipt.free_buffers)
        # It names no group: a cluster has the members of all groups, and who is in it need not be in each of them.
        self.outbox.append(InstallView("{}:{}:{}".format(*epoch), members))
        return self.cluster

    def forget_cluster(self) -> None:
        """Nothing of the old epoch counts any more."""
        self.cluster = None
        self.receipt.forget()
        self.transmission.forget()
        self.retransmission.forget()

    # ------------------------------------------------------------------ for all roles
    def broadcast(self, packet: Packet) -> None:
        """Say something to everyone, this site included."""
        self.outbox.append(Broadcast(self.options.channel, packet))

    def is_destination(self, multicast: Multicast) -> bool:
        """Whether a message is for this site."""
        return self.site in self.context.destinations(multicast)

    def check_address(self, multicast: Multicast) -> None:
        """Raise `WireError` for a message to a group that does not exist."""
        for group in multicast.groups:
            if group not in self.context.groups:
                raise WireError(f"{multicast.id} is for {group!r}, and there is no such group")

    def say_blocked(self, reason: str) -> None:
        """Tell the application why there is no progress, when that changes."""
        self.block("agreement", reason)
