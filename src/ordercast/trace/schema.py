"""What a trace consists of: the columns of its events, their kinds, and the description of a run.

`Run`, `Event`, `KINDS` and `COLUMNS` need nothing but msgspec; `EVENTS`, the same columns as an Arrow schema, imports
pyarrow when it is first asked for, so that a live node without the laboratory can still name what it records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import msgspec

if TYPE_CHECKING:
    import pyarrow as pa

    EVENTS: pa.Schema

Kind = Literal[
    "multicast",
    "send",
    "receive",
    "drop",
    "deliver",
    "rollback",
    "replay",
    "fail",
    "awake",
    "recover",
    "view",
    "join",
    "leave",
    "activate",
]
KINDS: Final[tuple[str, ...]] = get_args(Kind)

COLUMNS: Final[dict[str, str]] = {
    "run": "string",
    "site": "string",
    "seq": "int64",
    "time": "float64",
    "kind": "string",
    "incarnation": "int32",
    "message": "string",
    "source": "string",
    "source_seq": "int64",
    "groups": "list<string>",
    "destinations": "list<string>",
    "count": "int32",
    "size": "int32",
    "peer": "string",
    "packet": "string",
    "packet_id": "string",
    "messages": "list<string>",
    "cost": "int32",
    "reason": "string",
    "delivery": "int32",
    "parent": "string",
    "order_key": "list<int64>",
    "service": "string",
    "view": "string",
    "members": "list<string>",
    "transitional": "list<string>",
    "depends": "list<string>",
    "offset": "int64",
}
"""Column name -> type, in the order of the files."""

REQUIRED: Final[tuple[str, ...]] = ("run", "site", "seq", "time", "kind")
"""The columns that are never null; every other one may be null, or absent altogether."""

REFUSED: Final = "refused"
"""The reason of a `fail` of a site that must not take part, and says so."""

KINDS_WITH_MESSAGE: Final[tuple[str, ...]] = ("multicast", "deliver", "rollback", "replay")
"""These say something about one message, and mean nothing without its name."""


class Event(msgspec.Struct, omit_defaults=True):
    """One line of events.jsonl; the fields stand in the order of the schema, so the keys of a line do too."""

    run: str
    site: str
    seq: int
    time: float
    kind: Kind
    incarnation: int | None = None
    message: str | None = None
    source: str | None = None
    source_seq: int | None = None
    groups: list[str] | None = None
    destinations: list[str] | None = None
    count: int | None = None
    size: int | None = None
    peer: str | None = None
    packet: str | None = None
    packet_id: str | None = None
    messages: list[str] | None = None
    cost: int | None = None
    reason: str | None = None
    delivery: int | None = None
    parent: str | None = None
    order_key: list[int] | None = None
    service: str | None = None
    view: str | None = None
    members: list[str] | None = None
    transitional: list[str] | None = None
    depends: list[str] | None = None
    offset: int | None = None


class Run(msgspec.Struct):
    """One object of runs.jsonl: what was run, and what is claimed of it."""

    run: str
    protocol: str = ""
    seed: int = 0
    parameters: dict[str, Any] = {}
    groups: dict[str, list[str]] = {}
    """Group name -> sites at the start."""
    guarantees: list[str] = []
    """Names of the properties that the protocol claims."""
    ended_at: float = 0.0
    """Seconds; no window that ends later is judged."""
    settled: bool = False
    """The run was left to quiesce after the last fault, so liveness may be judged."""
    bounds: dict[str, Any] = {}
    """phi_p, phi_n, delta, message_size, promised: property -> seconds."""
    services: dict[str, list[str]] = {}
    """Service -> the properties that hold for deliveries with it; a property that is named here counts only those."""
    rest: dict[str, dict[str, int]] = {}
    """Site -> what it was found to keep when the run ended (docs/properties.md, At rest)."""


def _arrow_schema() -> pa.Schema:
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "int64": pa.int64(),
        "int32": pa.int32(),
        "float64": pa.float64(),
        "list<string>": pa.list_(pa.string()),
        "list<int64>": pa.list_(pa.int64()),
    }
    return pa.schema([pa.field(name, types[kind]) for name, kind in COLUMNS.items()])


def __getattr__(name: str) -> Any:
    if name == "EVENTS":
        globals()["EVENTS"] = schema = _arrow_schema()
        return schema
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
