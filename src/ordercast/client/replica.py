"""A replicated object of the members, called by a client."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

import msgspec

from ordercast.client.outgoing import Outgoing
from ordercast.core import GroupId, OrdercastError
from ordercast.node.errors import GroupBlocked, NodeClosed, NodeFailed, OutcomeUnknown
from ordercast.node.replica_caller import Caller
from ordercast.node.serving.packets import Result

State = TypeVar("State")

_NOT_RAISED = (StopIteration, StopAsyncIteration)
"""Out of a coroutine these would be something else."""

_OWN = {kind.__name__: kind for kind in (GroupBlocked, NodeClosed, NodeFailed, OutcomeUnknown)}


class ClientReplica(Caller[State]):
    """The replicated object of a group, as a client calls it. It holds no state."""

    def __init__(self, out: Outgoing, state: type[State], group: GroupId, version: str) -> None:
        super().__init__(state, version)
        self.group = group
        self._out = out

    async def _apply(
        self, method: Callable[..., Any], arguments: list[msgspec.Raw], named: dict[str, msgspec.Raw]
    ) -> Any:
        await self._out.wait_for_room()
        answer = await self._out.add_call(self.group, method.__name__, arguments, named, self._schema.name)
        if answer.error:
            raise _as_exception(answer)
        return msgspec.msgpack.decode(answer.value, type=get_type_hints(method).get("return", Any))


def _as_exception(answer: Result) -> Exception:
    """An exception by its name: nothing that comes from a network is made into an object of any other class."""
    own: type[OrdercastError] | None = _OWN.get(answer.error)
    if own is not None:
        return own(answer.why)
    kind = getattr(builtins, answer.error, None)
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, _NOT_RAISED):
        try:
            return kind(answer.why)
        except TypeError:  # one that wants more than a text
            pass
    return RuntimeError(f"{answer.error}: {answer.why}")
