"""Every state of chapter 5 and every way between two of them (Figures 5.1 to 5.4, 5.6 and 5.7), as tables.

Whoever changes a state does it through `Course.go`, which looks the way up here and counts it; the pictures of the
documents are drawn from the same tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Generic, TypeVar

from ordercast.core import InvariantViolation

AnyState = TypeVar("AnyState", bound=Enum)

Ways = Mapping[tuple[AnyState, AnyState], str]
"""From and to -> why, for people."""


class State(Enum):
    """Where a process is in the membership of one group (5.3)."""

    BOOTSTRAP_RECEIVER = "bootstrap-receiver"
    BOOTSTRAP_SENDER = "bootstrap-sender"
    RECEIVER = "receiver"
    TO_SENDER = "to-sender"
    SENDER = "sender"
    TO_RECEIVER = "to-receiver"
    INSTALL_SINGLETON = "install-singleton"
    WAIT_FOR_CHANGE = "wait-for-change"
    MRA = "mra"
    OUT = "out"
    """It has left the group, and answers for a while those who miss something of it. (Ours.)"""


class Repair(Enum):
    """Where a process is in the membership repair algorithm (Figure 5.4)."""

    INITIAL = "initial"
    CONSENSUS = "consensus"
    GATHER_CUT = "gather-cut"
    GATHER_RECOVERY = "gather-recovery"
    RECOVERY = "recovery"
    GATHER_READY = "gather-ready"
    WAIT_FOR_MESSAGE = "wait-for-message"
    DELIVER_AND_INSTALL = "deliver-and-install"


class Reception(Enum):
    """Where a process is in the receiver membership repair algorithm (Figure 5.7)."""

    INITIAL = "r-initial"
    WAIT_FOR_MESSAGE = "r-wait-for-message"
    RECOVERY = "r-recovery"
    DELIVER_AND_INSTALL = "r-deliver-and-install"
    UNSUCCESSFUL = "r-unsuccessful"
    FAILED = "r-failed"


_S, _R, _T = State, Repair, Reception

WAYS: Ways[State] = MappingProxyType(
    {
        # Figure 5.1
        (_S.BOOTSTRAP_RECEIVER, _S.RECEIVER): "a view is installed, and the process wants to receive",
        (_S.BOOTSTRAP_RECEIVER, _S.TO_SENDER): "a view is installed, and the process wants to send",
        (_S.BOOTSTRAP_RECEIVER, _S.BOOTSTRAP_SENDER): "no sender is found, and the process wants to send",
        (_S.BOOTSTRAP_SENDER, _S.SENDER): "the repair algorithm has installed a view",
        (_S.TO_SENDER, _S.SENDER): "PAdd is delivered",
        (_S.TO_SENDER, _S.MRA): "no sponsor; PJoin, PFailure, PForeign or PFailBlock",
        # Figure 5.2
        (_S.RECEIVER, _S.TO_SENDER): "the process wants to send",
        (_S.RECEIVER, _S.WAIT_FOR_CHANGE): "PJoin of a sender, or a sender is in another view",
        (_S.RECEIVER, _S.BOOTSTRAP_RECEIVER): "no sender is left, and PForeign",
        (_S.BOOTSTRAP_RECEIVER, _S.INSTALL_SINGLETON): "senders that were lost are in the view that is found",
        (_S.INSTALL_SINGLETON, _S.MRA): "the view of the process alone is installed",
        (_S.WAIT_FOR_CHANGE, _S.RECEIVER): "the view is installed",
        (_S.WAIT_FOR_CHANGE, _S.BOOTSTRAP_RECEIVER): "the receivers' algorithm does not succeed",
        # Figure 5.3
        (_S.SENDER, _S.TO_RECEIVER): "the process wants to send no more: PLeave",
        (_S.TO_RECEIVER, _S.RECEIVER): "PLeave is delivered",
        (_S.TO_RECEIVER, _S.WAIT_FOR_CHANGE): "PJoin of a sender, or a sender is in another view",
        (_S.SENDER, _S.MRA): "PFailure, PJoin, PFailBlock or PForeign",
        (_S.MRA, _S.SENDER): "the repair algorithm has installed a view",
        # Ours: a process leaves the group altogether.
        (_S.RECEIVER, _S.OUT): "the process leaves the group",
        (_S.BOOTSTRAP_RECEIVER, _S.OUT): "the process leaves the group before it is in",
    }
)

REPAIR_WAYS: Ways[Repair] = MappingProxyType(
    {
        (_R.INITIAL, _R.CONSENSUS): "delivery is halted",
        (_R.CONSENSUS, _R.GATHER_CUT): "all of the proposed membership agree",
        (_R.GATHER_CUT, _R.GATHER_RECOVERY): "the hierarchy's cut has come, or cut_seconds are over",
        (_R.GATHER_CUT, _R.CONSENSUS): "something does not fit the proposed membership",
        (_R.GATHER_RECOVERY, _R.RECOVERY): "RecInfo of all",
        (_R.GATHER_RECOVERY, _R.CONSENSUS): "something does not fit the proposed membership",
        (_R.RECOVERY, _R.GATHER_READY): "everything before the cut is here, and the process leads",
        (_R.RECOVERY, _R.WAIT_FOR_MESSAGE): "everything before the cut is here, and another process leads",
        (_R.RECOVERY, _R.CONSENSUS): "something does not fit the proposed membership: roll back",
        (_R.RECOVERY, _R.GATHER_RECOVERY): "a message is gone with its only holder: roll back, and lower the cut",
        (_R.GATHER_READY, _R.WAIT_FOR_MESSAGE): "RTC of all: MC",
        (_R.GATHER_READY, _R.CONSENSUS): "something does not fit the proposed membership: roll back",
        (_R.GATHER_READY, _R.GATHER_RECOVERY): "a message is gone with its only holder: roll back, and lower the cut",
        (_R.WAIT_FOR_MESSAGE, _R.DELIVER_AND_INSTALL): "MC",
        (
            _R.WAIT_FOR_MESSAGE,
            _R.CONSENSUS,
        ): "the leader has failed, or does not fit the proposed membership: roll back",
        (_R.WAIT_FOR_MESSAGE, _R.GATHER_RECOVERY): "a message is gone with its only holder: roll back, lower the cut",
    }
)

LED = (Repair.CONSENSUS, Repair.GATHER_CUT, Repair.GATHER_RECOVERY, Repair.RECOVERY, Repair.GATHER_READY)
"""The states of Figure 5.4 in which the others still need their leader."""

RECEPTION_WAYS: Ways[Reception] = MappingProxyType(
    {
        (_T.INITIAL, _T.WAIT_FOR_MESSAGE): "delivery is halted",
        (_T.WAIT_FOR_MESSAGE, _T.RECOVERY): "MC that names the view",
        (_T.RECOVERY, _T.DELIVER_AND_INSTALL): "everything before the cut is here",
        (_T.RECOVERY, _T.FAILED): "something behind the cut was delivered",
        (_T.WAIT_FOR_MESSAGE, _T.UNSUCCESSFUL): "all senders have failed, or have gone on for good",
        (_T.RECOVERY, _T.UNSUCCESSFUL): "the recovery cannot be completed",
    }
)


def branch_of(before: Enum, after: Enum) -> str:
    """What a way is counted as."""
    return f"{before.value}>{after.value}"


BRANCHES: tuple[str, ...] = tuple(
    branch_of(before, after) for ways in (WAYS, REPAIR_WAYS, RECEPTION_WAYS) for before, after in ways
)
"""Every arrow of every figure."""


class Course(Generic[AnyState]):
    """Where something is, by one of the tables."""

    __slots__ = ("_count", "_ways", "state")

    def __init__(self, first: AnyState, ways: Ways[AnyState], count: Callable[[str], None]) -> None:
        self.state = first
        self._ways = ways
        self._count = count

    def go(self, state: AnyState) -> None:
        """Be somewhere else; `InvariantViolation` when no way leads there."""
        if (self.state, state) not in self._ways:
            raise InvariantViolation(f"no way leads from {self.state.value} to {state.value}")
        self._count(branch_of(self.state, state))
        self.state = state
