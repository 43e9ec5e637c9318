"""How a replica leaves: not before somebody who stays has the state, as far as that can be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ordercast.core import GroupId, SiteId
from ordercast.node.internals import Internals
from ordercast.node.replica_lineage import Lineage

logger = logging.getLogger("ordercast.node")

STILL_SECONDS = 5.0
"""Until whoever leaves gives the others up: nobody has the state, and nobody has fetched any of it for so long."""

LOOK_SECONDS = 0.1
"""Between two looks at how much was fetched."""


async def hand_over(internals: Internals, group: GroupId, lineage: Lineage, has_state: Callable[[], bool]) -> None:
    """Wait until somebody who stays in the group has the state; the log says so when it goes with this process."""
    if not has_state():
        return
    if not lineage.others:
        _tell_lost(internals.process, group, lineage, "is the last one in it")
        return
    lineage.say_parting()
    lineage.ask_holders()
    loop = asyncio.get_running_loop()
    fetched, deadline = -1, loop.time() + STILL_SECONDS
    while has_state() and lineage.others and not lineage.has_heir and not internals.over.is_set():
        given = [each for each in internals.transfer.progress() if each["group"] == group and "to" in each]
        before, fetched = fetched, sum(each["bytes"] for each in given)
        if fetched > before:
            deadline = loop.time() + STILL_SECONDS
        if loop.time() >= deadline:
            break
        await asyncio.wait((lineage.changed(),), timeout=LOOK_SECONDS)
    if not lineage.has_heir and has_state():
        others = ", ".join(lineage.others)
        _tell_lost(internals.process, group, lineage, f"of those who stay ({others}) none has it" if others else "")


def _tell_lost(process: SiteId, group: GroupId, lineage: Lineage, why: str) -> None:
    if lineage.calls:
        logger.warning(
            "process %s leaves group %s, and the state with its %d calls goes with it: %s",
            process,
            group,
            lineage.calls,
            why or "all others have left",
        )
