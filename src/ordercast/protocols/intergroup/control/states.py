"""The states of a control process and the ways between them (2.6.2), as a table."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class State(Enum):
    """Where a control process is in the hierarchy."""

    START = "START"
    """It has not decided yet what to begin as (2.6.1); the text has no name for this."""
    COORDINATOR = "COORDINATOR"
    TO_CHILD = "TO_CHILD"
    CHILD = "CHILD"
    TO_COORDINATOR = "TO_COORDINATOR"


class Cause(Enum):
    """Why it goes somewhere else; the value is for people."""

    NOBODY_HEARD = "no GCon comes in time"
    FEW_COORDINATORS = "coordinators <= (low + high) / 2"
    FOUND = "Search Response"
    SEARCH_FAILED = "ring search fails"
    DETERMINED = "self-determination"
    CANNOT_LEAVE = "a child is a coordinator, there is no other one, or fewer than low would be left"
    LEFT = "in another local group, and all children have left"
    HEARD = "the other coordinators know"


TRANSITIONS: Mapping[tuple[State, Cause], State] = MappingProxyType(
    {
        (State.START, Cause.NOBODY_HEARD): State.COORDINATOR,
        (State.START, Cause.FEW_COORDINATORS): State.COORDINATOR,
        (State.START, Cause.SEARCH_FAILED): State.COORDINATOR,
        (State.START, Cause.FOUND): State.CHILD,
        (State.COORDINATOR, Cause.DETERMINED): State.TO_CHILD,
        (State.TO_CHILD, Cause.CANNOT_LEAVE): State.COORDINATOR,
        (State.TO_CHILD, Cause.SEARCH_FAILED): State.COORDINATOR,
        (State.TO_CHILD, Cause.LEFT): State.CHILD,
        (State.CHILD, Cause.DETERMINED): State.TO_COORDINATOR,
        (State.CHILD, Cause.SEARCH_FAILED): State.TO_COORDINATOR,
        (State.TO_COORDINATOR, Cause.HEARD): State.COORDINATOR,
    }
)
