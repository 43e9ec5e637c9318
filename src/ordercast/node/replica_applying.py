"""How a call is applied to a state: the same at every replica, and its result for whoever waits for it here."""

from __future__ import annotations

from typing import Any

from ordercast.core import SiteId
from ordercast.node.errors import NodeFailed
from ordercast.node.replica_calls import Calls
from ordercast.node.replica_context import Context
from ordercast.node.replica_messages import Call
from ordercast.node.replica_schema import Arguments, Misfit, NoSuchMethod, Schema
from ordercast.node.replica_versions import Versions


class Applying:
    """Applies the calls of a group at one process."""

    def __init__(self, process: SiteId, class_name: str, schema: Schema, calls: Calls, versions: Versions) -> None:
        self._process = process
        self._class_name = class_name
        self._schema = schema
        self._calls = calls
        self._versions = versions

    def unpack(self, call: Call) -> Arguments | None:
        """What a call wants; `NodeFailed` when this class does not understand it, for another replica's may have."""
        if self._calls.is_own(call):
            self._versions.on_own_message()
        elif call.schema:
            self._versions.on_other(call.caller, call.schema)
        try:
            return self._schema.unpack(call)
        except Misfit as error:
            if not call.schema:
                # Version 0.2.0 sent whatever a caller gave it, and no replica applied what did not fit.
                return None
            why = f"whose arguments do not fit here ({error})"
        except NoSuchMethod:
            why = "which does not exist here"
        raise NodeFailed(
            f"process {call.caller} called {self._class_name}.{call.method}, {why}; its schema is "
            f"{call.schema or 'of ordercast 0.2.0'}, that of {self._process} is {self._schema.name}: "
            f"install here the version that {call.caller} runs, and start again"
        )

    def apply(self, state: Any, call: Call, arguments: Arguments, offset: int, time: float) -> None:
        """Call the method, and tell the caller what has come of it."""
        future = self._calls.find(call)
        method = self._schema.methods[call.method]
        positional: tuple[Any, ...] = arguments.positional
        if method.takes_context:
            caller = call.client or call.caller
            context = Context(time, caller, call.caller, call.incarnation, call.number, offset)
            positional = (context, *positional)
        try:
            result = method.function(state, *positional, **arguments.named)
        except Exception as error:
            if call.client:
                self._calls.outcomes.add_error(call.client, call.client_number, error)
            if future is not None:
                # A future takes no StopIteration, and its refusal would stop this replica alone.
                wrong = isinstance(error, StopIteration)
                future.set_exception(RuntimeError(f"{call.method} raised {error!r}") if wrong else error)
            return
        if call.client:
            self._calls.outcomes.add(call.client, call.client_number, result)
        elif future is not None and not future.done():
            future.set_result(result)
