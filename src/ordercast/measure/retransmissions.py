"""Packets that carry a message again: same message, same two sites, same type of packet, and not the first one."""

from __future__ import annotations

from collections import defaultdict

import pandas as pd
import pyarrow as pa

from ordercast.measure.messages import of_kinds


def repetitions(events: pa.Table) -> pd.DataFrame:
    """run, site, seq, repeated: of each packet that repeats a message, how many it repeats.

    A network multicast goes to all who got it or should have got it, i.e. have a `receive` or `drop` row of it, so that
    a repair sent to one of them alone is known for what it is. It also goes to "everyone" (null): when nobody hears
    the first one, the second one is still a repetition.
    """
    heard: dict[tuple[str, object], set[str]] = defaultdict(set)
    arrived = of_kinds(events, "receive", "drop").select(["run", "packet_id", "site"]).to_pydict()
    for run, packet_id, site in zip(arrived["run"], arrived["packet_id"], arrived["site"], strict=True):
        # A packet without a number is known to nobody else.
        if packet_id is not None:
            heard[run, packet_id].add(site)
    columns = ["run", "site", "seq", "packet", "packet_id", "peer", "messages"]
    sent = of_kinds(events, "send").select(columns).sort_by([("run", "ascending"), ("seq", "ascending")]).to_pydict()
    first: dict[tuple[str, str, str | None, str, str], int] = {}
    found = []
    for run, site, seq, packet, packet_id, peer, messages in zip(*(sent[name] for name in columns), strict=True):
        if messages is None:
            continue
        receivers: set[str | None] = {peer} if peer is not None else {None, *heard.get((run, packet_id), ())}
        repeated = {
            message
            for message in messages
            for receiver in receivers
            if first.setdefault((run, site, receiver, packet or "", message), seq) < seq
        }
        if repeated:
            found.append((run, site, seq, len(repeated)))
    return pd.DataFrame(found, columns=["run", "site", "seq", "repeated"])
