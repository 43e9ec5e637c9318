"""What others must know of InterGroup beside its contract."""

from __future__ import annotations

from math import ceil
from random import Random

from msgspec.structs import replace

from ordercast.core import Arrangement, Capacity, OptionValues, Situation, Tuning
from ordercast.protocols.intergroup.services import DEFAULT_SERVICE, SERVICES

QUIET_SECONDS = 2.5
"""A campaign's run in which nothing was delivered and no view installed for so long has settled, with few exceptions:
some detectors wait longer."""


def _options(situation: Situation) -> OptionValues:
    random = situation.random
    # Control messages that are frequent against a run of a dozen seconds, and rare enough for five thousand events.
    control = situation.seconds(0.2, 0.6)
    silence = round(random.uniform(4.0, 6.0) * control, 4)
    search = round(random.uniform(1.0, 2.0) * control, 4)
    # What was sent is stable after some five control messages. (A window of six, and one every 0.3 s: of the thousand
    # messages of a long run half still waited when its two minutes were over.)
    outstanding = max(situation.rarely(1024, 6, 16), ceil(60 * control))
    options: OptionValues = {
        "service": DEFAULT_SERVICE if random.random() < 0.6 else random.choice(tuple(SERVICES)),
        "order_across_groups": random.random() < 0.25,
        "keep_alive_seconds": situation.seconds(0.05 * len(situation.sites), 0.5),
        "request_seconds_max": situation.seconds(0.3, 1.5),
        "outstanding_messages_max": outstanding,
        "buffer_messages_max": 2 * outstanding if random.random() < 0.5 else 4096,
        "activation_seconds": situation.seconds(0.3, 2.0),
        "wait_seconds_max": situation.seconds(0.02, 0.5),
        "blocked_seconds": situation.seconds(0.2, 2.0),
        "control_seconds_min": control,
        "start_seconds": 2 * control,
        "ring_seconds": round(max(0.01, 1.5 * situation.round_trip), 4),
        "search_seconds": max(search, round(max(0.01, 1.5 * situation.round_trip), 4)),
        "check_seconds": round(random.uniform(1.0, 2.0) * control, 4),
        "silence_seconds": silence,
        "state_change_low_seconds": control,
        "state_change_high_seconds": 3 * control,
        "distance_seconds_unknown": round(max(0.001, situation.round_trip / 2), 5),
    }
    options["stale_seconds"] = round(options["silence_seconds"] + options["search_seconds"] + 2 * control, 4)
    # Few coordinators, or most of a handful of sites have no children.
    low = random.choice((1, 1, 2))
    options |= {
        "coordinators_low": low,
        "coordinators_high": low + random.choice((0, 1, 2, 10)),
        "local_target_size": random.choice((1, 2, 16)),
        "boundary_ttl": random.choice((1, 16)),
    }
    if random.random() < 1 / 3:
        options |= {"bandwidth_max": 20_000.0, "bandwidth_min": 4_000.0, "burst_bytes": random.choice((200, 2000))}
    if situation.sources and random.random() < 0.5:
        options["senders"] = list(situation.sources)
    # Where Keep Alives are rare, answers make the difference.
    if options["keep_alive_seconds"] > 0.35:
        options["answer_senders_max"] = len(situation.sites)
    return options


def _options_of_views(situation: Situation) -> OptionValues:
    """Times of the membership, short against a run; some shorter than what they wait for takes."""
    options = _options(situation)
    random = situation.random
    period = situation.seconds(max(0.08, 2 * situation.round_trip), max(0.3, 4 * situation.round_trip))
    # By what is drawn already, so that nothing that is drawn after this depends on it.
    apart = Random(str(sorted(options.items())))
    if apart.random() < 0.25:
        options["sender_idle_seconds"] = round(apart.uniform(0.5, 3.0), 3)
    return options | {
        "keep_alive_seconds": min(options["keep_alive_seconds"], 0.35),
        "membership_seconds": period,
        # Some lines lose one packet of seven for good: four in a row would be lost now and then, up to the very end.
        "silent_keep_alives": random.randint(7, 10),
        "foreign_seconds": round(random.uniform(2.0, 4.0) * period, 4),
        "consensus_seconds": round(random.uniform(4.0, 10.0) * period, 4),
        "cut_seconds": situation.seconds(0.05, 1.0),
        "recovery_seconds": round(random.uniform(4.0, 10.0) * period, 4),
        "block_seconds": situation.seconds(0.5, 3.0),
        "bootstrap_seconds": round(max(3 * options["keep_alive_seconds"], random.uniform(3.0, 6.0) * period), 4),
    }


def _live(capacity: Capacity) -> OptionValues:
    # Whoever starts listens for a few control messages; up to eight processes are coordinators all of them, so that an
    # acknowledgement is one message away from everyone, and not three.
    control = max(0.02, 0.005 * capacity.processes)
    return {
        "control_seconds_min": control,
        "start_seconds": 10 * control,
        "coordinators_low": max(2, min(8, capacity.processes)),
        "answer_senders_max": 8,
        # Within a second and a half whatever was lost is here. (Where processors are overloaded, distances of a tenth
        # of a second are measured; a repair waits for ten to twenty of them at first, and nobody sends for longer than
        # an application waits.)
        "request_seconds_max": 0.5,
        # Of all together as many as their applications take in less time than anybody waits for room.
        "outstanding_messages_max": max(32, min(max(64, 16 * capacity.window), 512 // max(1, capacity.processes))),
        # One reading of the socket brings 64 of them, and the next one may come before it is known that they are taken.
        "unread_messages_max": max(256, 64 * capacity.window),
        "few_under_way": 2,
    }


_UNLISTED: OptionValues = {
    "views": "change",
    # Times for processes that are milliseconds apart, on machines that stop now and then for a few hundred of them:
    # whoever is silent for a second is suspected, and a view follows within half of that.
    "membership_seconds": 0.05,
    "silent_keep_alives": 20,
    "foreign_seconds": 0.2,
    "consensus_seconds": 1.0,
    "cut_seconds": 0.2,
    "recovery_seconds": 1.0,
    "block_seconds": 3.0,
    "bootstrap_seconds": 0.3,
    # Whoever is dead holds back acknowledgements until it is stale: soon after a view has gone on without it.
    "check_seconds": 0.2,
    "ring_seconds": 0.1,
    "search_seconds": 0.6,
    "silence_seconds": 1.0,
    "stale_seconds": 2.0,
}
"""In clusters that no file lists."""

_LISTED: OptionValues = {
    "views": "fixed",
    # A message that is kept is written to memory that no cache holds any more: with 64 MB of them a receiver delivers a
    # tenth less, and whoever lacks one gets it from its sender.
    "repair_bytes_max": 1 << 22,
}
"""Where a file lists the processes: whoever has gone is waited for."""

ARRANGEMENT = Arrangement(
    order="each receiver's choice: none, of each source, or of all senders of a group by timestamp (Berket 2000)",
    crash="whoever orders by timestamp waits while a sender is down",
    campaign=Tuning(options=_options, settle=16.0, quiet=QUIET_SECONDS, channels=True),
    live=_live,
)

DYNAMIC_ARRANGEMENT = replace(
    ARRANGEMENT,
    crash="the others go on in a view without it; with the senders of a file, whoever orders by timestamp waits",
    # The processes of a file keep their names when they start again, and here a process that does so is another one.
    listed=_LISTED,
    unlisted=_UNLISTED,
    campaign=Tuning(
        options=_options_of_views,
        settle=20.0,
        quiet=QUIET_SECONDS,
        channels=True,
        # The handshakes of senders that are configured are reached by the last.
        modes=(*(7 * ({"views": "change", "order_across_groups": False},)), {"views": "fixed"}),
    ),
)
