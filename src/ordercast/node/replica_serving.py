"""Calls of clients: like those of the process itself, but each is applied once, however often it is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ordercast.core import UsageError
from ordercast.node.bundles import encode_bundle
from ordercast.node.errors import GroupBlocked, OutcomeUnknown
from ordercast.node.replica_calls import NOT_SENT
from ordercast.node.replica_messages import encode_message
from ordercast.node.replica_outcomes import Outcome
from ordercast.node.replica_schema import Misfit, Schema
from ordercast.node.runs import Run
from ordercast.node.serving.packets import CallMethod

if TYPE_CHECKING:
    from ordercast.node.replica_machine import Machine

OUTCOME_SECONDS = 2.0
"""For which a call that was ordered before is waited for: perhaps it is not applied here yet."""


class ServedReplica:
    """One replica, as clients see it."""

    def __init__(self, machine: Machine[Any], schema: Schema) -> None:
        self._machine = machine
        self._schema = schema

    async def call(self, client: str, request: CallMethod, after: int, on_sent: Callable[[], None]) -> Outcome:
        """Apply a method at every replica, once, behind the client's run of that number; what has come of it here."""
        machine, method = self._machine, request.method
        if machine.end is not None:
            raise machine.end
        self._check(request)
        machine.calls.refuse_stalled(method)
        while machine.arrival is not None:
            await machine.calls.wait_for(machine.arrival, f"{method} {NOT_SENT}")
        if machine.refuses:
            raise GroupBlocked(f"{machine.refuses}; {method} {NOT_SENT}")
        outcomes, number = machine.calls.outcomes, request.number
        outcome = outcomes.expect(client, number)
        try:
            if not outcome.done() and await self._send(client, request, after, on_sent):
                # Another member has sent it before, or this one. If the result is known here it comes at once.
                try:
                    return await asyncio.wait_for(asyncio.shield(outcome), OUTCOME_SECONDS)
                except TimeoutError:
                    raise OutcomeUnknown(f"{method} was applied, and its result is not known any more") from None
            return await machine.calls.wait_for(outcome, f"{method} may be applied all the same")
        finally:
            outcomes.forget(client, number, outcome)

    def _check(self, request: CallMethod) -> None:
        known = self._schema.methods.get(request.method)
        if known is None or request.schema != self._schema.name:
            raise UsageError(
                f"{request.method}: the class of group {self._machine.name} is {self._schema.name} at the member, and "
                f"{request.schema} at the client: install the same version at both"
            )
        try:
            known.unpack(request.arguments, request.named)
        except Misfit as error:
            raise UsageError(f"{request.method}: {error}") from None

    async def _send(self, client: str, request: CallMethod, after: int, on_sent: Callable[[], None]) -> bool:
        """Whether it was ordered before."""
        machine = self._machine
        internals = machine.internals
        address = internals.address((machine.name,))
        sender = internals.sender
        call = machine.calls.make(
            request.method, request.arguments, request.named, self._schema.name, client, request.number
        )
        run = Run(client, request.number, 1, memoryview(encode_bundle([encode_message(call)])), after=after)
        while True:
            receipt = internals.receipts.post_run(internals.receiver, sender, address, run)
            if receipt is not None:
                break
            await sender.wait_for_room()
        on_sent()
        return (await machine.calls.wait_for(receipt, f"{request.method} may be applied all the same")).repeated
