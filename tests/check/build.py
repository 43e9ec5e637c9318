"""Traces written by hand: a row a line, in the order of time.

a multicast m1 g            # the message and its groups (g,h for two); destinations=b,c instead of groups
b deliver m1
@7.5 c rollback m1          # at that time; without, a second after the line before
a send p1 peer=b messages=m1    # the packet's identifier
b view v1 members=a,b
b join g
b activate causal           # the service
b fail
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ordercast.check import Verdict, choose, judge
from ordercast.trace.schema import COLUMNS, EVENTS, Run

_SECOND_WORD = {
    "multicast": "message",
    "deliver": "message",
    "rollback": "message",
    "replay": "message",
    "send": "packet_id",
    "receive": "packet_id",
    "drop": "packet_id",
    "view": "view",
    "join": "groups",
    "leave": "groups",
    "activate": "service",
}
_THIRD_WORD = {"multicast": "groups"}


def events(text: str, run: str = "run") -> pa.Table:
    """The table of these rows."""
    rows: list[dict[str, Any]] = []
    next_seq: dict[str, int] = {}
    time = 0.0
    for line in text.splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        time = float(words.pop(0)[1:]) if words[0].startswith("@") else time + 1.0
        site, kind = words.pop(0), words.pop(0)
        row: dict[str, Any] = {"run": run, "site": site, "seq": next_seq.get(site, 0), "time": time, "kind": kind}
        next_seq[site] = row["seq"] + 1
        for names in (_SECOND_WORD, _THIRD_WORD):
            if words and "=" not in words[0]:
                row[names[kind]] = words.pop(0)
        row.update(word.partition("=")[::2] for word in words)
        rows.append({name: _value(name, value) for name, value in row.items()})
    return pa.Table.from_pylist(rows, schema=EVENTS)


def describe(groups: str = "", guarantees: tuple[str, ...] = (), **more: Any) -> Run:
    """A settled run; groups as in "g:a,b h:b,c"."""
    members = {name: sites.split(",") for name, sites in (group.split(":") for group in groups.split())}
    given: dict[str, Any] = {"ended_at": 1000.0, "settled": True, **more}
    return Run(run="run", groups=members, guarantees=list(guarantees), **given)


def verdict_of(name: str, text: str, groups: str = "g:a,b,c", guarantees: tuple[str, ...] = (), **more: Any) -> Verdict:
    """What the judge of one property says about these rows."""
    return judge(describe(groups, guarantees, **more), events(text), choose([name]))[name]


def outcome(name: str, text: str, groups: str = "g:a,b,c", **more: Any) -> str:
    """The bare verdict."""
    return verdict_of(name, text, groups, **more).verdict


def _value(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    kind = COLUMNS[name]
    if kind.startswith("list"):
        items = [item for item in value.split(",") if item]
        return [int(item) for item in items] if "int" in kind else items
    return int(value) if kind.startswith("int") else value
