"""Whether the application's code runs inside a step of ours, and not in a task of its own."""

from __future__ import annotations


class Callbacks:
    """Those of one process: of its deliveries, views and gaps, and those that take snapshots.

    What the application multicasts meanwhile waits until they have ended. (A checkpoint hands over what was delivered
    before it. Were a message that is multicast there to reach the core at once, the core would be changed while the
    log is cut; and a checkpoint that this leads to would find the application in the middle of a batch.)
    """

    __slots__ = ("running",)

    def __init__(self) -> None:
        self.running = 0
        """How many, one inside the other. One that raises ends the process, and is not counted down."""
