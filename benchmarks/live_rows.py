"""What is asked of a live group, a row a question: whom it is held against, and how much of that is enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from live_contestants import SMALL_DATAGRAM, Bare, Contestant, Disk, Group, PeerGroup
from live_figures import Result
from live_peers import Peer

RATE = 500.0
NODES_THAT_LOG = 4
BUSY_POLL = 10_000  # microseconds: with some hundred messages a second, processes do not sleep
DISK_CHUNKS = (65_000, 1_000_000, 8_000_000)


@dataclass(frozen=True)
class Figure:
    """Which figure of a result counts, and how it is written."""

    read: Callable[[Result], float | None]
    unit: str
    digits: int
    lower_is_better: bool = False

    def text(self, value: float | None) -> str:
        return "–" if value is None else f"{value:,.{self.digits}f}{self.unit}"


def messages_per_second(result: Result) -> float | None:
    return result.get("messages_per_second")


def logged_per_second(size: int) -> Callable[[Result], float | None]:
    """Megabytes that all nodes' logs take in: of a result of ours by its messages, of the disk's as it is."""

    def read(result: Result) -> float | None:
        if "bytes_per_second" in result:
            return float(result["bytes_per_second"]) / 1e6
        return float(result["messages_per_second"]) * size * NODES_THAT_LOG / 1e6

    return read


THROUGHPUT = Figure(messages_per_second, "/s", 0)
HALF = Figure(lambda result: result.get("p50_ms"), " ms", 3, lower_is_better=True)
MOST = Figure(lambda result: result.get("p99_ms"), " ms", 3, lower_is_better=True)


@dataclass(frozen=True)
class Row:
    name: str
    ours: Contestant | None
    against: tuple[Contestant, ...]  # the best of them counts; where nothing is ours, each is only shown
    figure: Figure = THROUGHPUT
    target: float | None = None  # our figure by theirs: at least, or, where lower is better, at most

    @property
    def contestants(self) -> list[Contestant]:
        return [*self.against, *([self.ours] if self.ours is not None else [])]

    def best(self, figures: dict[str, float]) -> str | None:
        """Whose figure is the best of those that ours is held against."""
        known = [each.key for each in self.against if each.key in figures]
        choose = min if self.figure.lower_is_better else max
        return choose(known, key=figures.__getitem__) if known else None

    def holds(self, ratio: float) -> bool | None:
        if self.target is None:
            return None
        return ratio <= self.target if self.figure.lower_is_better else ratio >= self.target


def three_step_rows() -> list[Row]:
    """What it costs to go on without the process that orders: beside the fixed sequencer, and beside SCALATOM."""
    name = "three-step"
    rows = [
        Row(f"{name}-{size}", Group(size, protocol=name), (Group(size),), target=target)
        for size, target in ((100, 0.75), (1000, 0.7), (10000, 0.7))
    ]
    rows += [
        Row(f"{name}-log-100", Group(100, protocol=name, log=True), (Group(100, log=True),), target=0.8),
        Row(f"{name}-p50", Group(100, protocol=name, rate=RATE), (Group(100, rate=RATE),), HALF, 1.6),
    ]
    ours, theirs = (Group(100, protocol=each, nodes=3) for each in (name, "scalatom"))
    rows.append(Row(f"{name}-scalatom", ours, (theirs,), target=1.0))
    ours, theirs = (Group(100, protocol=each, nodes=3, rate=RATE) for each in (name, "scalatom"))
    rows.append(Row(f"{name}-scalatom-p50", ours, (theirs,), HALF, 0.6))
    return rows


def intergroup_rows() -> list[Row]:
    """What it costs that each receiver chooses: the order of all beside the bare limit and the fixed sequencer, no
    order beside the bare limit."""
    name = "intergroup"
    ours, paced = Group(100, protocol=name), Group(100, protocol=name, rate=RATE)
    return [
        Row(f"{name}-100-bare", ours, (Bare(100),), target=0.6),
        Row(f"{name}-100", ours, (Group(100),), target=0.65),
        Row(f"{name}-10000", Group(10000, protocol=name), (Group(10000),), target=0.5),
        Row(f"{name}-p50", paced, (Group(100, rate=RATE),), HALF, 3.0),
        Row(f"{name}-p99", paced, (Group(100, rate=RATE),), MOST, 5.0),
        Row(f"{name}-unreliable", Group(100, protocol=name, service="unreliable"), (Bare(100),), target=0.8),
    ]


def all_rows(peers: list[Peer]) -> list[Row]:
    """In the order in which they are shown; peers only those that are here."""
    plain = Bare(100)
    small = {size: Bare(size, max_datagram=SMALL_DATAGRAM, segment_offload=True) for size in (100, 1000)}
    rows = [
        Row(f"sequencer-{size}", Group(size), (Bare(size),), target=target)
        for size, target in ((100, 0.5), (1000, 0.5), (10000, 0.4))
    ]
    rows += [
        Row("iterate-100", Group(100, api="iterate"), (plain,), target=0.25),
        Row("two-phase-100", Group(100, protocol="two-phase"), (plain,), target=0.2),
        Row("unsealed-100", Group(100, insecure=True), (plain,)),
    ]
    disk = tuple(Disk(chunk) for chunk in DISK_CHUNKS)
    for size in (100, 1000):
        in_logs = Figure(logged_per_second(size), " MB/s", 0)
        rows += [
            Row(f"log-{size}", Group(size, log=True), (Group(size),)),
            Row(f"log-{size}-disk", Group(size, log=True), disk, in_logs),
        ]
    alone, awake = Bare(100, rate=RATE), Bare(100, rate=RATE, polling=True)
    ways = {
        "latency": (Group(100, rate=RATE), alone),
        # Like the bare limit, which calls a function too.
        "latency-callback": (Group(100, rate=RATE, api="callback"), alone),
        # Asleep as soon as there is nothing to do, like the bare limit.
        "latency-asleep": (Group(100, rate=RATE, busy_poll=0), alone),
        "latency-asleep-callback": (Group(100, rate=RATE, api="callback", busy_poll=0), alone),
        # Awake for the next datagram: against the bare limit that sleeps, and against one that is awake as well.
        "latency-polling": (Group(100, rate=RATE, busy_poll=BUSY_POLL), alone),
        "latency-both-polling": (Group(100, rate=RATE, busy_poll=BUSY_POLL), awake),
    }
    for name, (ours, bare) in ways.items():
        asked = bare is alone and "asleep" not in name
        rows += [
            Row(f"{name}-p50", ours, (bare,), HALF, 2.0 if asked else None),
            Row(f"{name}-p99", ours, (bare,), MOST, 4.0 if asked else None),
        ]
    rows += [
        Row(f"datagram-{SMALL_DATAGRAM}-{size}", Group(size, max_datagram=SMALL_DATAGRAM), (small[size],), target=0.5)
        for size in small
    ]
    rows += three_step_rows()
    rows += intergroup_rows()
    for size, target in ((100, 3.0), (1000, 2.0), (10000, 1.0)):
        rows.append(Row(f"peers-{size}", Group(size), tuple(PeerGroup(peer, size) for peer in peers), target=target))
    with_rate = tuple(PeerGroup(peer, 100, RATE) for peer in peers)
    rows += [
        Row("peers-latency-p50", Group(100, rate=RATE), with_rate, HALF),
        Row("peers-latency-p99", Group(100, rate=RATE), with_rate, MOST),
    ]
    variants = (
        Bare(100, callback="bundle"),
        Bare(100, multicast=True),
        *(Bare(size, max_datagram=SMALL_DATAGRAM) for size in small),
    )
    rows.append(Row("bare-variants", None, variants))
    return rows
