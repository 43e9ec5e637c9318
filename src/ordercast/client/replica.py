"""A replicated object of the members, called by a client."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, get_type_hints, overload

import msgspec

from ordercast.client.outgoing import Outgoing
from ordercast.core import GroupId, OrdercastError, UsageError
from ordercast.node.errors import GroupBlocked, NodeClosed, NodeFailed, OutcomeUnknown
from ordercast.node.replica_context import Context
from ordercast.node.replica_schema import Schema
from ordercast.node.serving.packets import Result as Answer

State = TypeVar("State")
Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")

_NOT_RAISED = (StopIteration, StopAsyncIteration)
"""Out of a coroutine these would be something else."""

_OWN = {kind.__name__: kind for kind in (GroupBlocked, NodeClosed, NodeFailed, OutcomeUnknown)}


class ClientReplica(Generic[State]):
    """Calls methods at every replica, each once. The client holds no state."""

    def __init__(self, out: Outgoing, state: type[State], group: GroupId, version: str) -> None:
        self.group = group
        self._out = out
        self._class = state
        self._schema = Schema(state, version)

    @overload
    async def call(
        self,
        method: Callable[Concatenate[State, Context, Parameters], Result],
        *arguments: Parameters.args,
        **named: Parameters.kwargs,
    ) -> Result: ...

    @overload
    async def call(
        self,
        method: Callable[Concatenate[State, Parameters], Result],
        *arguments: Parameters.args,
        **named: Parameters.kwargs,
    ) -> Result: ...

    async def call(self, method: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
        """Apply a method at every replica, in the order of the group, once; its result. What the method raises is
        raised here, if it is one of Python's own exceptions; others come as `RuntimeError`.

        `GroupBlocked` when the group cannot go on, `NoMember` when no member answers, `OutcomeUnknown` when the call
        was applied and the result is lost with the member. Given up or cancelled, a call may be applied all the same.
        """
        name = method.__name__
        known = self._schema.methods.get(name)
        if known is None or known.function is not method:
            raise UsageError(f"{name} is not a public method of {self._class.__name__}")
        packed = known.pack(arguments, named)
        await self._out.wait_for_room()
        answer = await self._out.add_call(self.group, name, *packed, self._schema.name)
        if answer.error:
            raise _as_exception(answer)
        wanted: Any = get_type_hints(method).get("return", Any)
        result: Result = msgspec.msgpack.decode(answer.value, type=wanted)
        return result


def _as_exception(answer: Answer) -> Exception:
    """An exception by its name: nothing that comes from a network is made into an object of any other class."""
    own: type[OrdercastError] | None = _OWN.get(answer.error)
    if own is not None:
        return own(answer.why)
    kind = getattr(builtins, answer.error, None)
    if (
        isinstance(kind, type)
        and issubclass(kind, Exception)
        and not issubclass(kind, StopIteration | StopAsyncIteration)
    ):
        try:
            return kind(answer.why)
        except TypeError:  # one that wants more than a text
            pass
    return RuntimeError(f"{answer.error}: {answer.why}")
