"""What others must know of SCALATOM beside its contract."""

from __future__ import annotations

from ordercast.core import Arrangement, OptionValues, Situation, Tuning
from ordercast.protocols.parts.cell_arrangement import layout, live, majorities, warnings
from ordercast.protocols.parts.cells import Cells


def _options(situation: Situation) -> OptionValues:
    random = situation.random
    window = situation.rarely(256, 1, 4)
    retransmit = situation.timeout(0.3)
    ping = situation.seconds(0.03, 0.2)
    return {
        "batch_messages_max": random.choice((64, 64, 2, 1)),
        "relay_eagerly": random.random() < 0.3,
        "history_seconds": random.choice((0.0, 0.0, 0.02, 0.2)),
        "window_messages": window,
        "kept_messages_max": max(window, situation.rarely(16384, 4, 16)),
        # Now and then so little that whoever is away for a while is given up.
        "kept_bytes_max": situation.rarely(32 << 20, 4 << 10, 32 << 10),
        "acknowledge_every": situation.rarely(32, 1, 4),
        "acknowledge_seconds": situation.timeout(0.1),
        "retransmit_seconds": retransmit,
        "retransmit_seconds_max": round(random.uniform(1.0, 8.0) * retransmit, 4),
        "receipt_seconds": round(random.uniform(0.1, 0.4) * retransmit, 4),
        "letters_max": situation.rarely(2048, 16, 48),
        "want_seconds": situation.timeout(0.2),
        # Often shorter than a round trip: coordinators are suspected wrongly all the time.
        "ping_seconds": ping,
        "suspicion_seconds": round(random.uniform(0.5, 4.0) * ping, 4),
        "blocked_seconds": situation.seconds(0.2, 2.0),
    }


ARRANGEMENT = Arrangement(
    order="total, across groups; only the addressees take part; open senders (Rodrigues, Guerraoui, Schiper 1998)",
    crash="nobody waits while a majority of each group is up",
    campaign=Tuning(
        options=_options,
        layout=layout,
        majorities=majorities,
        # A site that was away is told that it is behind, asks, is answered in pieces, and asks for bodies; then every
        # message needs a round of each step, with suspicions that are wrong at first.
        settle=40.0,
        # Of one or two others there is no majority of the cell.
        repairable=lambda _options, groups: not Cells(groups).fragile(),
    ),
    # Batches keep their default: they hold names and not bundles, and a consensus that orders 64 instead of 4 makes a
    # group a tenth faster.
    live=live,
    warnings=warnings,
)
