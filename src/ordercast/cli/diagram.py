"""Space-time diagrams in the terminal: sites side by side, time flowing down, packets as arrows when they arrive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from rich.text import Text

COLUMN_MIN = 9
"""`D branch:1` still says something in this many characters."""
COLUMN_MAX = 26
TIME_COLUMN = 11
INSTANT_SHARE = 0.005
"""A receipt and a delivery because of it are one row when no more than this share of the run lies between them."""
GAP_SHARE = 0.1
"""Nothing for this share of the time shown: the diagram says so with a row of dots."""

ROWS_MAX = 200
"""More than that nobody looks through in a terminal."""

_UP, _DOWN, _WAKING = "│", " ", "┊"
_STYLES = {
    "multicast": "bold cyan",
    "deliver": "green",
    "replay": "dim green",
    "rollback": "magenta",
    "fail": "bold red",
    "awake": "yellow",
    "recover": "bold yellow",
    "drop": "red",
    "receive": "dim",
    "view": "blue",
    "join": "blue",
    "leave": "blue",
    "activate": "blue",
    "time": "dim",
    "line": "dim",
    "site": "bold",
}
_LETTERS = {
    "multicast": "M",
    "deliver": "D",
    "replay": "(D)",
    "rollback": "B",
    "fail": "F",
    "awake": "A",
    "recover": "R",
    "drop": "x",
    "receive": "·",
    "view": "V",
    "join": "J",
    "leave": "L",
}
_ADDRESS = " → "
"""Between a message and its groups, or a view and its members, which are left out where the column is too narrow."""
_WORDS = {"fail": "F fails", "awake": "A awake", "recover": "R recovered"}
_ALWAYS = ("fail", "awake", "recover", "view", "join", "leave", "activate")


_LEGEND = "M multicast  D delivery  · receipt that delivers nothing yet  x lost packet  F fails  A awake  R recovered"
_GROUPS_LEGEND = "  J joins a group  L leaves it  S service  V view (who comes along + who else)"


def legend(events: pa.Table) -> str:
    """What the letters mean; those of groups only where somebody comes or goes."""
    moves = pc.any(pc.is_in(events.column("kind"), pa.array(["join", "leave", "activate"]))).as_py()
    return _LEGEND + _GROUPS_LEGEND if moves else _LEGEND


class Happening(msgspec.Struct):
    """What one row of the diagram shows."""

    time: float
    site: str
    kind: str
    text: str
    peer: str | None = None
    """Where an arrow comes from."""


def draw(
    events: pa.Table,
    only_messages: set[str] | None = None,
    width: int = 100,
    *,
    packets: bool = True,
    window: tuple[float, float] | None = None,
    rows_max: int = ROWS_MAX,
) -> str:
    """The diagram as plain text, the same wherever it is drawn (see `draw_rich`)."""
    text = draw_rich(events, only_messages, width, packets=packets, window=window, rows_max=rows_max)
    return "\n".join(line.rstrip() for line in text.plain.splitlines())


def draw_rich(
    events: pa.Table,
    only_messages: set[str] | None = None,
    width: int = 100,
    *,
    packets: bool = True,
    window: tuple[float, float] | None = None,
    rows_max: int = ROWS_MAX,
) -> Text:
    """The diagram in colours: of some messages, of a time window, with or without packets that deliver nothing yet."""
    begin, end = window or (float("-inf"), float("inf"))
    sites = sorted(set(events.column("site").to_pylist()))
    canvas = _Canvas(sites, width, _late(events))
    text = canvas.header()
    happenings = []
    for happening in what_happens(events, only_messages, packets):
        if happening.time < begin:
            canvas.pass_over(happening)
        elif happening.time <= end:
            happenings.append(happening)
    shown = happenings[:rows_max]
    # Among two or three rows every step would be a gap.
    span = shown[-1].time - shown[0].time if len(shown) > 3 else float("inf")
    before = shown[0].time if shown else 0.0
    for happening in shown:
        if happening.time - before > GAP_SHARE * span:
            text.append_text(canvas.gap())
        before = happening.time
        text.append_text(canvas.row(happening))
    if len(happenings) > rows_max:
        text.append(f"… {len(happenings) - rows_max} more\n", _STYLES["time"])
    text.rstrip()
    return text


def _late(events: pa.Table) -> dict[str, float]:
    """The sites that join a group before anything else happens in one there -> when they begin."""
    kinds = pa.array(["join", "leave", "multicast", "deliver", "view"])
    rows = events.select(["site", "seq", "kind"]).filter(pc.is_in(events.column("kind"), kinds)).sort_by("seq")
    first: dict[str, str] = {}
    for row in rows.to_pylist():
        first.setdefault(row["site"], row["kind"])
    late = [site for site, kind in first.items() if kind == "join"]
    return {site: pc.min(events.filter(pc.equal(events.column("site"), site)).column("time")).as_py() for site in late}


def count_rows(events: pa.Table, packets: bool = True) -> int:
    """How many rows the diagram would have."""
    return sum(1 for _ in what_happens(events, None, packets))


def short_name(message: str) -> str:
    """`a:0:1` as `a:1`; each incarnation after the first adds a stroke. Names of another form stay as they are."""
    source, _, rest = message.partition(":")
    incarnation, _, number = rest.partition(":")
    if not (source and incarnation.isdecimal() and number.isdecimal()):
        return message
    strokes = int(incarnation)
    return f"{source}:{number}" + ("'" * strokes if strokes <= 3 else f"'{strokes}")


# ---------------------------------------------------------------------- what is shown
def what_happens(events: pa.Table, only_messages: set[str] | None = None, packets: bool = True) -> Iterator[Happening]:
    """The rows of the diagram, in order of time; a receipt and the deliveries that it leads to are one row."""
    columns = [
        "site",
        "seq",
        "time",
        "kind",
        "message",
        "source",
        "groups",
        "peer",
        "messages",
        "view",
        "members",
        "transitional",
    ]
    columns.append("service")
    table = events.select(columns).filter(pc.not_equal(events.column("kind"), "send"))
    several_groups = _names_several_groups(events)
    times = pc.min_max(table.column("time"))
    instant = INSTANT_SHARE * (times["max"].as_py() - times["min"].as_py()) if len(table) else 0.0
    happenings: list[tuple[float, str, int, Happening]] = []
    for site in sorted(set(table.column("site").to_pylist())):
        rows = table.filter(pc.equal(table.column("site"), site)).sort_by("seq").to_pylist()
        for seq, happening in enumerate(_at_site(rows, only_messages, packets, several_groups, instant)):
            happenings.append((happening.time, site, seq, happening))
    happenings.sort(key=lambda entry: entry[:3])
    return (entry[3] for entry in happenings)


def _names_several_groups(events: pa.Table) -> bool:
    multicasts = events.filter(pc.equal(events.column("kind"), "multicast")).column("groups").to_pylist()
    return len({tuple(groups or ()) for groups in multicasts}) > 1


def _at_site(
    rows: list[dict[str, Any]], only: set[str] | None, packets: bool, several_groups: bool, instant: float
) -> Iterator[Happening]:
    receipt: dict[str, Any] | None = None
    deliveries: list[dict[str, Any]] = []
    came_from: dict[str, str] = {}

    def flush() -> Iterator[Happening]:
        """The receipt, with what was delivered because of it."""
        nonlocal receipt
        served = [] if receipt is None else receipt["messages"] or []
        because_of_it = (
            receipt is not None
            and any(delivery["message"] in served for delivery in deliveries)
            and deliveries[0]["time"] - receipt["time"] <= instant
        )
        if receipt is not None and packets and not because_of_it and receipt["peer"] != receipt["site"]:
            names = [short_name(name) for name in served if only is None or name in only]
            if names:
                yield Happening(receipt["time"], receipt["site"], "receive", " ".join(["·", *names]), receipt["peer"])
        if deliveries:
            first = receipt if receipt is not None and because_of_it else deliveries[0]
            # A delivery that waited for the log or for other messages: its packet has its own row, if any.
            peer = first["peer"] if because_of_it else None if packets else came_from.get(first["message"])
            text = " ".join(["D", *(short_name(delivery["message"]) for delivery in deliveries)])
            yield Happening(first["time"], first["site"], "deliver", text, peer)
        receipt = None
        deliveries.clear()

    for row in rows:
        kind = row["kind"]
        if kind == "deliver":
            if only is None or row["message"] in only:
                deliveries.append(row)
            continue
        yield from flush()
        if kind == "receive":
            receipt = row
            came_from.update(dict.fromkeys(row["messages"] or (), row["peer"]))
        elif kind in _ALWAYS or _concerns(row, only):
            yield from _alone(row, several_groups)
    yield from flush()


def _concerns(row: dict[str, Any], only: set[str] | None) -> bool:
    names = row["messages"] if row["kind"] == "drop" else [row["message"]]
    # What serves no message (heartbeats and the like) would bury the rest.
    return any(name is not None and (only is None or name in only) for name in names or ())


def _alone(row: dict[str, Any], several_groups: bool) -> Iterator[Happening]:
    kind = row["kind"]
    if kind in _WORDS:
        text = "F refused" if row.get("reason") == "refused" else _WORDS[kind]
    elif kind == "drop":
        text = " ".join(["x", *map(short_name, row["messages"])])
    elif kind == "view":
        members, along = row["members"] or (), row["transitional"] or ()
        others = [member for member in members if member not in along]
        # Who comes along from the view before, and who else, where both are there.
        text = f"V {row['view']}" + _ADDRESS + "+".join(",".join(some) for some in (along, others) if some)
    elif kind == "activate":
        of = f" of {row['source']}" if row["source"] else ""
        text = f"S {row['service']}{of}" + _ADDRESS + ",".join(row["groups"] or ())
    elif kind in ("join", "leave"):
        text = f"{_LETTERS[kind]} {','.join(row['groups'] or ())}"
    elif kind == "multicast":
        groups = _ADDRESS + ",".join(row["groups"]) if several_groups and row["groups"] else ""
        text = f"M {short_name(row['message'])}{groups}"
    elif kind in _LETTERS:
        text = f"{_LETTERS[kind]} {short_name(row['message'])}"
    else:
        return
    yield Happening(row["time"], row["site"], kind, text, row["peer"] if kind == "drop" else None)


# ---------------------------------------------------------------------- how it is drawn
class _Canvas:
    """Columns and life lines. A row is a list of characters, each with a style."""

    def __init__(self, sites: list[str], width: int, late: dict[str, float]) -> None:
        self._sites = sites
        self._late = late
        room = (width - TIME_COLUMN) // max(1, len(sites))
        self._column = max(COLUMN_MIN, min(COLUMN_MAX, room))
        self._at = {site: TIME_COLUMN + index * self._column for index, site in enumerate(sites)}
        self._line = {site: _DOWN if site in late else _UP for site in sites}
        self._width = TIME_COLUMN + len(sites) * self._column

    def header(self) -> Text:
        """The names of the sites."""
        characters, styles = self._blank()
        for site in self._sites:
            self._write(characters, styles, self._at[site], self._fit(site), _STYLES["site"])
        self._write(characters, styles, 0, "   seconds", _STYLES["time"])
        return self._text(characters, styles)

    def gap(self) -> Text:
        """Some time passes."""
        characters, styles = self._life_lines()
        self._write(characters, styles, TIME_COLUMN - 3, "⋮", _STYLES["time"])
        return self._text(characters, styles)

    def row(self, happening: Happening) -> Text:
        """One happening."""
        self._begin(happening.time)
        characters, styles = self._life_lines()
        self._write(characters, styles, 0, f"{happening.time:{TIME_COLUMN - 2}.4f}", _STYLES["time"])
        style = _STYLES[happening.kind]
        text = self._fit(happening.text)
        at = self._at[happening.site]
        if happening.peer in self._at and happening.peer != happening.site:
            self._arrow(characters, styles, self._at[happening.peer], at, len(text), happening.kind)
        self._write(characters, styles, at, text, style)
        self.pass_over(happening)
        return self._text(characters, styles)

    def pass_over(self, happening: Happening) -> None:
        """The life line changes, seen or unseen."""
        self._begin(happening.time)
        change = {"fail": _DOWN, "awake": _WAKING, "recover": _UP}
        self._line[happening.site] = change.get(happening.kind, self._line[happening.site])

    def _begin(self, time: float) -> None:
        """Whoever begins late has a life line from then on."""
        for site in [site for site, begin in self._late.items() if begin <= time]:
            del self._late[site]
            self._line[site] = _UP

    def _arrow(
        self, characters: list[str], styles: list[str], start: int, end: int, text_length: int, kind: str
    ) -> None:
        style = _STYLES["drop"] if kind == "drop" else "cyan" if kind == "deliver" else _STYLES["line"]
        to_the_right = start < end
        inner = range(start + 1, end - 1) if to_the_right else range(end + text_length + 1, start)
        for position in inner:
            crossed = characters[position] in (_UP, _WAKING)
            self._write(characters, styles, position, "┼" if crossed else "─", style)
        self._write(characters, styles, start, "├" if to_the_right else "┤", style)
        tip = "╌" if kind == "drop" else ("▶" if to_the_right else "◀")
        self._write(characters, styles, end - 1 if to_the_right else end + text_length, tip, style)

    def _life_lines(self) -> tuple[list[str], list[str]]:
        characters, styles = self._blank()
        for site in self._sites:
            self._write(characters, styles, self._at[site], self._line[site], _STYLES["line"])
        return characters, styles

    def _blank(self) -> tuple[list[str], list[str]]:
        return [" "] * self._width, [""] * self._width

    def _fit(self, text: str) -> str:
        # The last character of a column stays free for the tip of an arrow, or for air.
        room = self._column - 2
        if len(text) > room:
            text = text.partition(_ADDRESS)[0]
        return text if len(text) <= room else text[: room - 1] + "…"

    @staticmethod
    def _write(characters: list[str], styles: list[str], at: int, text: str, style: str) -> None:
        for offset, character in enumerate(text):
            if at + offset < len(characters):
                characters[at + offset] = character
                styles[at + offset] = style

    @staticmethod
    def _text(characters: list[str], styles: list[str]) -> Text:
        text = Text(no_wrap=True)
        start = 0
        for end in range(1, len(characters) + 1):
            if end == len(characters) or styles[end] != styles[start]:
                text.append("".join(characters[start:end]), styles[start])
                start = end
        text.append("\n")
        return text
