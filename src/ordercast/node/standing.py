"""How a process stands: those parts of `Node.status()` that have to be gathered. Nothing is counted per message."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ordercast.core import SiteId
from ordercast.node.engine import Engine
from ordercast.node.sender import Sender
from ordercast.wire.presence import GONE_SECONDS

RETRANSMISSIONS = (
    "fragments-repaired",
    "gap-asked",
    "loss-by-number",
    "pass-retried",
    "repair-asked",
    "repaired",
    "requested",
    "resent",
    "resent-by-source",
    "resubmitted",
    "sent-again",
    "source-retried",
)
"""Branches of protocols, and counters of the network's layer, that say: something was asked for or sent once more."""


def describe_members(engine: Engine) -> dict[SiteId, dict[str, Any]]:
    """Every other process that is known: whether it is up, suspected (it leaves greetings unanswered) or gone, for how
    many seconds it is up (None: it is not), and for how many nothing came from it (None: nothing ever did)."""
    silences, up = engine.endpoint.silences, engine.endpoint.up_seconds
    found = {}
    for site in sorted({*engine.known, *silences} - {engine.process}):
        silent = silences.get(site)
        is_gone = silent is None or silent >= GONE_SECONDS
        state = "up" if site in up else "gone" if is_gone else "suspected"
        found[site] = {"state": state, "up_seconds": up.get(site), "silent_seconds": silent}
    return found


def describe_sending(sender: Sender) -> dict[str, Any]:
    """What this process sends: bundles that the protocol takes now (None: it sets no limit), bytes that wait for that,
    and how long a bundle is under way until everybody has taken it, on average of the last ones."""
    return {
        "credit": sender.credit,
        "waiting_bytes": sender.waiting_bytes,
        "round_trip_seconds": sender.round_trip_seconds,
    }


def count_retransmissions(counters: Counter[str]) -> dict[str, int]:
    """What was asked for or sent once more, by its cause."""
    return {name: counters[name] for name in RETRANSMISSIONS if counters[name]}
