"""What belongs to a process and must not be shared with a fork of it: sessions, locks, sockets."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Owned(Protocol):
    """Something that only the process that made it may use."""

    def disown(self) -> None:
        """Let go of everything: this is a fork of the process, which goes on using it."""


_owned: WeakSet[Owned] = WeakSet()


def disown_in_forks(owned: Owned) -> None:
    """From now on a fork of this process disowns it before anything else happens there."""
    _owned.add(owned)


def _disown_all() -> None:
    for owned in list(_owned):
        owned.disown()


# Costs nothing where no one forks; a look at the process' number would cost a system call for each use.
os.register_at_fork(after_in_child=_disown_all)
