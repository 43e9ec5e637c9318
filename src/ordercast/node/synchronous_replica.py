"""A replicated object whose methods block, for programs without an event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from ordercast.core import SiteId
from ordercast.node.asking import Wait
from ordercast.node.replica_context import Context
from ordercast.node.replicated import Replicated

State = TypeVar("State")
Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")


class SynchronousReplica(Generic[State]):
    """One replica, as `SynchronousNode.replicate` gives it. Threads may share it."""

    def __init__(self, replica: Replicated[State], wait_for: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._replica = replica
        self._wait_for = wait_for

    @overload
    def call(
        self,
        method: Callable[Concatenate[State, Context, Parameters], Result],
        *arguments: Parameters.args,
        **named: Parameters.kwargs,
    ) -> Result: ...

    @overload
    def call(
        self,
        method: Callable[Concatenate[State, Parameters], Result],
        *arguments: Parameters.args,
        **named: Parameters.kwargs,
    ) -> Result: ...

    def call(self, method: Callable[..., Result], *arguments: Any, **named: Any) -> Result:
        """Apply a method at every replica, as `Replicated.call` does; its result here."""
        result: Result = self._wait_for(self._replica.call(method, *arguments, **named))
        return result

    def read(self, function: Callable[[State], Result], *, linearizable: bool = False) -> Result:
        """What a function makes of the state of this replica, as `Replicated.read` gives it. It is called in the node's
        thread, between two calls."""
        result: Result = self._wait_for(self._replica.read(function, linearizable=linearizable))
        return result

    def ask(self, question: bytes, *, wait: Wait = "majority", timeout: float = 5.0) -> dict[SiteId, bytes]:
        """Ask the replicas, as `Group.ask` does; member -> its answer."""
        answers: dict[SiteId, bytes] = self._wait_for(self._replica.ask(question, wait=wait, timeout=timeout))
        return answers

    def on_question(self, answer: Callable[[bytes], bytes]) -> None:
        """Answer questions to the group with a function, which is called in the node's thread."""

        async def begin() -> None:
            self._replica.on_question(answer)

        self._wait_for(begin())

    def leave(self, timeout: float | None = None) -> None:
        """Be a replica no more."""
        self._wait_for(self._replica.leave(timeout))
