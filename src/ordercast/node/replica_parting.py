"""How a replica leaves: not before those who stay have the state, as far as that can be."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ordercast.core import GroupId, SiteId
from ordercast.node.internals import Internals
from ordercast.node.replica_lineage import Lineage

logger = logging.getLogger("ordercast.node")

STILL_SECONDS = 5.0
"""So long nobody answers, and nobody fetches any of the state, until those who are there count as no replicas."""

LOOK_SECONDS = 0.1
"""Between two looks at how much was fetched."""

ASK_SECONDS = 1.0
"""Until the others are asked again: they may have got the state meanwhile, or written it to their disk."""


async def hand_over(
    internals: Internals, group: GroupId, lineage: Lineage, has_state: Callable[[], bool], is_patient: bool
) -> None:
    """Wait until those who stay in the group have the state. `is_patient`: for replicas who are down as well, as long
    as it takes; else for as long as anything comes of it. The log says so when the state goes with this process.

    A replica that has no state waits, too, but not for long: what it has of the order may be what another one lacks.
    """
    if not lineage.others:
        if has_state():
            _tell_lost(internals.process, group, lineage, "nobody else is in it")
        return
    lineage.say_parting()
    loop = asyncio.get_running_loop()
    fetched, asked, ask_at, has_told = -1, -1, 0.0, False
    no_replicas: set[SiteId] = set()
    deadline = loop.time() + STILL_SECONDS
    while lineage.others and not lineage.has_heirs(no_replicas) and not internals.over.is_set():
        now = loop.time()
        if asked != lineage.question or now >= ask_at:
            asked, ask_at = lineage.ask_holders(), now + ASK_SECONDS
        given = [each for each in internals.transfer.progress() if each["group"] == group and "to" in each]
        before, fetched = fetched, sum(each["bytes"] for each in given)
        if fetched > before:
            deadline = now + STILL_SECONDS
        elif now >= deadline:
            no_replicas.update(set(lineage.unknown).intersection(internals.engine.endpoint.present))
            if not is_patient or not has_state() or no_replicas.issuperset(lineage.others):
                break
            if not has_told:
                has_told = True
                logger.warning("process %s waits with leaving: %s", internals.process, lineage.why_no_heirs())
        await asyncio.wait((lineage.changed(),), timeout=LOOK_SECONDS)
    if has_state() and not lineage.has_heirs(no_replicas):
        _tell_lost(internals.process, group, lineage, lineage.why_no_heirs() if lineage.others else "")


def _tell_lost(process: SiteId, group: GroupId, lineage: Lineage, why: str) -> None:
    if lineage.calls:
        logger.warning(
            "process %s leaves group %s, and the state with its %d calls may go with it: %s",
            process,
            group,
            lineage.calls,
            why or "all others have left",
        )
