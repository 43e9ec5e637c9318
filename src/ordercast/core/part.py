"""A part: a role or a shared piece inside a core, with packets, timers and records of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from ordercast.core.packets import Packet, Record


class Part:
    """Base of roles and shared pieces. `Protocol.attach` finds by name what a part handles:

    - `on_<packet>(sender, packet, arrival)` for each type in `packets`;
    - `on_<timer>_timeout(*rest)` for each name in `timers`: a timer is called by its name, `"submit"`, or by a tuple
      that begins with it, `("report", "b")`;
    - `recall_<record>(record)` for each type in `records`: after a crash, in the order of the log;
    - `on_heard(sender, packet)`, where a part has it: for every packet that comes, before the packet's own handler,
      which is spared the packet when this returns True;
    - `finish_step()`, where a part has it: at the end of every step;
    - `check_invariants()`, where a part has it: after every step of a simulation.

    A missing handler is an error when the protocol's class is made, not when the packet comes.
    """

    packets: ClassVar[tuple[type[Packet], ...]] = ()
    timers: ClassVar[tuple[str, ...]] = ()
    records: ClassVar[tuple[type[Record], ...]] = ()
    branches: ClassVar[tuple[str, ...]] = ()
    """For the contracts of the protocols that use the part."""


def packet_handler(packet: type[Packet]) -> str:
    """The name of the method that handles a packet."""
    return f"on_{_snake_case(packet.__name__)}"


def timer_handler(timer: str) -> str:
    """The name of the method that handles a timer."""
    return f"on_{timer.replace('-', '_')}_timeout"


def record_handler(record: type[Record]) -> str:
    """The name of the method that takes a record back after a crash."""
    return f"recall_{_snake_case(record.__name__)}"


def event_handler(event: type[object]) -> str:
    """The name of the method that handles an event."""
    return f"on_{_snake_case(event.__name__)}"


def find_handlers(owner: object, keys: Iterable[Any], name_of: Callable[[Any], str]) -> dict[Any, Callable[..., None]]:
    """Those of the keys for which the owner has a method, with the method."""
    found = ((key, getattr(owner, name_of(key), None)) for key in keys)
    return {key: method for key, method in found if method is not None}


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
