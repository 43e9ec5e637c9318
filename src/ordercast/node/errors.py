"""What can go wrong for an application, beside its own mistakes (`ordercast.UsageError`)."""

from threading import get_ident

from ordercast.core import OrdercastError, UsageError


class WouldBlock(OrdercastError):
    """`try_multicast` found the window full."""


class GroupBlocked(OrdercastError):
    """The group cannot go on at the moment; the text says for whom it waits. What was taken before is not lost."""


class JoinRefused(OrdercastError):
    """A group will not be joined; the text says why, and the node goes on."""


class ServiceUnavailable(OrdercastError):
    """A service that was chosen cannot be had; the text says why, and the node goes on."""


class TypeRefused(OrdercastError):
    """Those who were in a typed group before have another type of messages; the text says which, and the node goes
    on."""


class OutcomeUnknown(OrdercastError):
    """A client's call was applied, and the member that applied it could not say what came of it before it was gone."""


class NotAnswered(OrdercastError):
    """Too few members of a group answer a question; the text says why."""


class NoMember(OrdercastError):
    """No member of the cluster answers a client; it goes on trying."""


class ClientCut(OrdercastError):
    """A member has ended a subscription of a client; the text says why: it reads too slowly, or what it wants is not
    held any more."""


class NodeFailed(OrdercastError):
    """The node has stopped: a full disk, a refusal by its peers, or a bug. Nothing more is delivered or sent."""


class NodeClosed(OrdercastError):
    """The node was closed while somebody waited."""


def check_thread(thread: int) -> None:
    """`UsageError` unless this is the thread in which the node was entered: whoever waits elsewhere would not be
    woken."""
    if get_ident() != thread:
        raise UsageError(
            "a node belongs to the thread and the event loop that entered it: let that call, or use open_synchronous, "
            "which threads may share"
        )
