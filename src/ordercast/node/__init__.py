"""What applications import: `open`, `Node`, `Group`, `Delivery`, and what can go wrong."""

from ordercast.node.consumer import Consumer, Pending
from ordercast.node.deliveries import Batch, CaughtUp, Delivery, Rollback, TypedDelivery, View
from ordercast.node.errors import (
    ClientCut,
    GroupBlocked,
    JoinRefused,
    NodeClosed,
    NodeFailed,
    NoMember,
    NotAnswered,
    OutcomeUnknown,
    ServiceUnavailable,
    TypeRefused,
    WouldBlock,
)
from ordercast.node.group import Group
from ordercast.node.logs import JsonLines, NoFloods
from ordercast.node.loop import run
from ordercast.node.node import Node, open
from ordercast.node.receipts import Receipt
from ordercast.node.replica_context import Context
from ordercast.node.replicated import Replicated
from ordercast.node.synchronous import SynchronousNode, open_synchronous
from ordercast.node.synchronous_consumer import SynchronousConsumer, SynchronousPending
from ordercast.node.synchronous_group import SynchronousGroup, SynchronousTypedGroup
from ordercast.node.typed import TypedGroup

__all__ = [
    "Batch",
    "CaughtUp",
    "ClientCut",
    "Consumer",
    "Context",
    "Delivery",
    "Group",
    "GroupBlocked",
    "JoinRefused",
    "JsonLines",
    "NoFloods",
    "NoMember",
    "Node",
    "NodeClosed",
    "NodeFailed",
    "NotAnswered",
    "OutcomeUnknown",
    "Pending",
    "Receipt",
    "Replicated",
    "Rollback",
    "ServiceUnavailable",
    "SynchronousConsumer",
    "SynchronousGroup",
    "SynchronousNode",
    "SynchronousPending",
    "SynchronousTypedGroup",
    "TypeRefused",
    "TypedDelivery",
    "TypedGroup",
    "View",
    "WouldBlock",
    "open",
    "open_synchronous",
    "run",
]
