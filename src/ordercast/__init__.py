"""Ordered, reliable multicast for Python, with a Spark laboratory that proves it.

async with ordercast.open("bank.toml", process="branch-7") as node:
    accounts = await node.join("accounts")
    await accounts.multicast(b"deposit 42 100")
    async for delivery in accounts:
        ledger.apply(delivery.payload)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ordercast.blocks import Shared, SynchronousShared
    from ordercast.client import Client, ClientGroup, ClientReplica, connect
    from ordercast.core import OrdercastError, UsageError
    from ordercast.node import (
        Batch,
        CaughtUp,
        ClientCut,
        Consumer,
        Context,
        Delivery,
        Group,
        GroupBlocked,
        JoinRefused,
        JsonLines,
        Node,
        NodeClosed,
        NodeFailed,
        NoFloods,
        NoMember,
        NotAnswered,
        OutcomeUnknown,
        Pending,
        Receipt,
        Replicated,
        Rollback,
        ServiceUnavailable,
        SynchronousConsumer,
        SynchronousGroup,
        SynchronousNode,
        SynchronousPending,
        SynchronousTypedGroup,
        TypedDelivery,
        TypedGroup,
        TypeRefused,
        View,
        WouldBlock,
        open,
        open_synchronous,
        run,
    )

__version__ = "0.2.0"

__all__ = [
    "Batch",
    "CaughtUp",
    "Client",
    "ClientCut",
    "ClientGroup",
    "ClientReplica",
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
    "OrdercastError",
    "OutcomeUnknown",
    "Pending",
    "Receipt",
    "Replicated",
    "Rollback",
    "ServiceUnavailable",
    "Shared",
    "SynchronousConsumer",
    "SynchronousGroup",
    "SynchronousNode",
    "SynchronousPending",
    "SynchronousShared",
    "SynchronousTypedGroup",
    "TypeRefused",
    "TypedDelivery",
    "TypedGroup",
    "UsageError",
    "View",
    "WouldBlock",
    "connect",
    "open",
    "open_synchronous",
    "run",
]

_ELSEWHERE = {
    "Client": "ordercast.client",
    "ClientGroup": "ordercast.client",
    "ClientReplica": "ordercast.client",
    "OrdercastError": "ordercast.core",
    "Shared": "ordercast.blocks",
    "SynchronousShared": "ordercast.blocks",
    "UsageError": "ordercast.core",
    "connect": "ordercast.client",
}


def __getattr__(name: str) -> Any:
    # On first use: the laboratory and the command line do not need a node, and should not wait for it.
    if name in __all__:
        return getattr(import_module(_ELSEWHERE.get(name, "ordercast.node")), name)
    raise AttributeError(f"module 'ordercast' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
