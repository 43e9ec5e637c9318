"""What can go wrong for an application, beside its own mistakes (`ordercast.UsageError`)."""

from ordercast.core import OrdercastError


class WouldBlock(OrdercastError):
    """`try_multicast` found the window full."""


class GroupBlocked(OrdercastError):
    """The group cannot go on at the moment; the text says for whom it waits. What was taken before is not lost."""


class NodeFailed(OrdercastError):
    """The node has stopped: a full disk, a refusal by its peers, or a bug. Nothing more is delivered or sent."""


class NodeClosed(OrdercastError):
    """The node was closed while somebody waited."""
