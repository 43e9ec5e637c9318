"""What a replicated method may know beside its arguments and its state: the same at every replica."""

from __future__ import annotations

from random import Random

import msgspec

from ordercast.core import SiteId


class Context(msgspec.Struct, frozen=True):
    """The circumstances of one call. A method that names it as its first parameter is given it."""

    time: float
    """Seconds since 1970: the caller's clock when it called, or the time of an earlier call where that is later. So it
    never goes back, and no replica looks at a clock of its own."""
    caller: str
    """The process that called, or the client on whose behalf it did."""
    process: SiteId
    """The process that called."""
    incarnation: int
    number: int
    """Which call of this start of the process it is."""
    offset: int
    """The place of the call in the order of the group."""

    @property
    def random(self) -> Random:
        """A source of random numbers, the same at every replica, and another one for each call."""
        return Random(f"{self.process} {self.incarnation} {self.number}")
