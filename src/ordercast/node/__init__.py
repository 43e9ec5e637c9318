"""What applications import: `open`, `Node`, `Group`, `Delivery`, and what can go wrong."""

from ordercast.node.deliveries import Batch, Delivery, Rollback, View
from ordercast.node.errors import (
    GroupBlocked,
    JoinRefused,
    NodeClosed,
    NodeFailed,
    ServiceUnavailable,
    WouldBlock,
)
from ordercast.node.group import Group
from ordercast.node.loop import run
from ordercast.node.node import Node, open
from ordercast.node.receipts import Receipt
from ordercast.node.replicated import Replicated
from ordercast.node.synchronous import SynchronousGroup, SynchronousNode, open_synchronous

__all__ = [
    "Batch",
    "Delivery",
    "Group",
    "GroupBlocked",
    "JoinRefused",
    "Node",
    "NodeClosed",
    "NodeFailed",
    "Receipt",
    "Replicated",
    "Rollback",
    "ServiceUnavailable",
    "SynchronousGroup",
    "SynchronousNode",
    "View",
    "WouldBlock",
    "open",
    "open_synchronous",
    "run",
]
