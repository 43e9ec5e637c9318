"""Whoever calls methods of a replicated object, as a member or as a client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import msgspec

from ordercast.core import UsageError
from ordercast.node.replica_context import Context
from ordercast.node.replica_schema import Schema

State = TypeVar("State")
Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")


class Caller(ABC, Generic[State]):
    """Has calls applied at every replica, each once."""

    def __init__(self, state: type[State], version: str) -> None:
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
        """Apply a method at every replica, in the order of the group, once; its result, or what it raises.

        `GroupBlocked` when the group cannot go on. Given up or cancelled, a call that has left may be applied all the
        same. A member's gives the result that its own replica has, and raises `TimeoutError` after its `timeout`. Where
        the others go on without a process that fails (`propagation-graph` with `delivery = "non-atomic"`), the result
        of a call that a process has returned shortly before it failed may be undone.

        A client's raises what is one of Python's own exceptions, others as `RuntimeError`; `NoMember` when no member
        answers, and `OutcomeUnknown` when the call was applied and its result is lost with the member.
        """
        known = self._schema.methods.get(method.__name__)
        if known is None or known.function is not method:
            raise UsageError(f"{method.__name__} is not a public method of {self._class.__name__}")
        # The caller's mistake is told to the caller, and is not sent.
        result: Result = await self._apply(method, *known.pack(arguments, named))
        return result

    @abstractmethod
    async def _apply(
        self, method: Callable[..., Any], arguments: list[msgspec.Raw], named: dict[str, msgspec.Raw]
    ) -> Any: ...
