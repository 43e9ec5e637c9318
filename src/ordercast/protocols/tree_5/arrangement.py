"""What others must know of Protocol 5 beside its contract."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from ordercast.core import Arrangement, Capacity, OptionValues, SiteId, Situation, Tuning
from ordercast.core.arrangement import Groups
from ordercast.protocols.tree_5.options import Tree5Options


def _options(situation: Situation) -> OptionValues:
    least = situation.phi_n + 2 * situation.phi_p
    above, children = situation.random.uniform(0.02, 2.0), situation.random.randint(1, 4)
    kept = situation.rarely(4096, 2, 6)
    # With a tiny log, each few messages wait for a heartbeat to bring back who has them: heartbeats often, then.
    beat = least * above + 0.001 if kept == 4096 else max(least * above / 20, 0.03)
    return {
        "phi_n": situation.phi_n,
        "phi_p": situation.phi_p,
        "delta": round(least + beat, 6),
        "children_max": children,
        "log_messages_max": kept,
    }


def _layout(random: Random) -> Groups:
    """One group, as the thesis has it: the root of one group may be an inner site of another, and only roots fail."""
    return {"g": tuple("abcdef"[: random.randint(2, 6)])}


def _deaths(
    random: Random, groups: Groups, options: OptionValues, duration: float
) -> Iterator[tuple[SiteId, float, int]]:
    """[A6] to [A8]: roots crash for good, one after the other, each when its tree has been in place for a while; half
    of them in the middle of what they send, which comes within the time of a heartbeat."""
    (ranks,) = groups.values()
    chosen = Tree5Options(**options)
    moment = random.uniform(0.0, 0.5 * duration)
    for root in ranks[: random.randint(0, len(ranks) - 1)]:
        if moment > 0.9 * duration:
            return
        packets = random.choice((0, random.randint(1, 6)))
        yield root, round(moment, 6), packets
        moment += chosen.succession_seconds + (chosen.delta * packets if packets else 0.0)
        moment += random.choice((0.001, random.uniform(0.0, 0.3 * duration)))


def _live(capacity: Capacity) -> OptionValues:
    return {"log_messages_max": capacity.ahead}


TREE_5 = Arrangement(
    order="the same for all messages of a group, with proved bounds; what only a failed root had delivered may come "
    "elsewhere",
    crash="all, for about δ, when the root crashes; nobody else may",
    campaign=Tuning(options=_options, settle=30.0, layout=_layout, deaths=_deaths),
    live=_live,
)
