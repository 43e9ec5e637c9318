"""One change of a sender group: what it costs in packets, and how long it takes until everyone has the new view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ordercast.core import Protocol, SiteId
from ordercast.core.events import Event
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation
from ordercast.sim.change import Change
from ordercast.sim.fault import Fault
from ordercast.sim.faults import Crash, Partition
from ordercast.sim.networks import WideArea
from ordercast.sim.traffic import Tally, Traffic, total
from ordercast.spark.experiments import Point

CHANGES = ("PAdd", "PLeave", "crash", "merge")
ORGANISED_SECONDS = 6.0
"""The control hierarchy knows all processes by then; the change comes now."""
CUT_OFF_SECONDS = 8.0
"""How long the parts are apart that merge: each has a view of its own by then."""
CHANGE_SECONDS = 9.0
"""By then after the change everyone has the view: what comes later belongs to another one."""
DISTANCE_SECONDS = 0.02

OPTIONS = {
    # Rare, for 64 senders and 500 receivers hear each other's: fewer than a hundred thousand packets a second.
    "keep_alive_seconds": 0.5,
    # What is not answered is said again after longer than a repair takes: each message is counted once.
    "membership_seconds": 1.0,
    "cut_seconds": 0.5,
    "control_seconds_min": 0.5,
    "start_seconds": 1.0,
    "distance_seconds_unknown": DISTANCE_SECONDS,
}

MEASURES = ("packets", "received", "control", "change_seconds", "bound_seconds", "views", "members")

_REPAIR = ("PJoin", "PFailBlock", "RecInfo", "RTC", "MC")
_HANDSHAKES = ("ViewRequest", "ViewAnswer", "SponsorRequest", "SponsorAnswer")
_COUNTED = frozenset({*_REPAIR, *_HANDSHAKES, "Data", "Retransmission", "RetransmissionRequest"})
"""Nobody multicasts: all Data are PAdds and PLeaves."""
_CONTROL = frozenset({"LCon", "CCon", "GCon", "RingQuery", "SearchResponse", "CoordinatorLeave"})


def watched(seen: list[tuple[float, str]]) -> type[Protocol]:
    """InterGroup that notes when its views begin."""
    protocol = find_protocol("intergroup")

    def step(self: Any, now: float, event: Event) -> None:
        before = self.process_groups["g"].view
        protocol.step(self, now, event)
        if self.process_groups["g"].view != before:
            seen.append((now, self.process_groups["g"].view))

    return type(protocol.__name__, (protocol,), {"step": step, "__slots__": ()})


def run_change(point: Point, seed: int) -> dict[str, float | None]:
    """So many senders and receivers, and one change."""
    senders = tuple(f"s{number:02}" for number in range(int(point["senders"])))
    receivers = tuple(f"r{number:03}" for number in range(int(point["receivers"])))
    change = str(point["change"])
    newcomer = ("t",) if change == "PAdd" else ()
    sites = (*senders, *receivers, *newcomer)
    seen: list[tuple[float, str]] = []
    protocol = watched(seen)
    options = protocol.contract.options(**OPTIONS, senders=senders)
    moment = ORGANISED_SECONDS + (CUT_OFF_SECONDS if change == "merge" else 0.0)
    network = WideArea({"home": sites}, {"home": {"home": DISTANCE_SECONDS}}, jitter=0.0, loss=0.0)
    simulation = Simulation(
        protocol,
        {"g": sites},
        network,
        seed=seed,
        options=options,
        faults=_faults(change, senders),
        changes=_changes(change, senders, newcomer),
        duration=moment + CHANGE_SECONDS,
        settle=0.0,
        stable=False,
        tracing=False,
        counting=True,
        check_invariants=False,
    )
    before: list[Traffic] = []
    simulation.queue.schedule(moment, lambda: before.append(cast(Traffic, simulation.traffic).copy()))
    simulation.execute()
    after = cast(Traffic, simulation.traffic)
    new = [(time, view) for time, view in seen if time >= moment]
    last = max((time for time, _ in new), default=moment)
    lasting: Any = simulation.sites[senders[0]].instances["main"].core
    return {
        "packets": _since(before[0].sent, after.sent, _COUNTED),
        "received": _since(before[0].received, after.received, _COUNTED, senders),
        "control": _since(before[0].sent, after.sent, _CONTROL),
        "change_seconds": last - moment,
        "bound_seconds": _bound(options, change, lasting.control.distance_max()),
        "views": float(len({view for _, view in new})),
        "members": float(len(lasting.process_groups["g"].senders.members)),
    }


def _faults(change: str, senders: tuple[SiteId, ...]) -> tuple[Fault, ...]:
    if change == "crash":
        return (Crash(from_=ORGANISED_SECONDS, sites=senders[-1:], forever=True),)
    if change == "merge":
        half = senders[: len(senders) // 2]
        return (Partition(from_=ORGANISED_SECONDS, to=ORGANISED_SECONDS + CUT_OFF_SECONDS, parts=(half,)),)
    return ()


def _changes(change: str, senders: tuple[SiteId, ...], newcomer: tuple[SiteId, ...]) -> tuple[Change, ...]:
    if change == "PAdd":
        return (Change(kind="role", at=ORGANISED_SECONDS, sites=newcomer, group="g", role="sender"),)
    if change == "PLeave":
        return (Change(kind="role", at=ORGANISED_SECONDS, sites=senders[-1:], group="g", role="receiver"),)
    return ()


def _bound(options: Any, change: str, distance: float) -> float:
    """What a change takes at the most without loss: detection, six ways, and the wait for the receivers' cut; for a
    PAdd or PLeave the next Keep Alive of all, and the ways."""
    if change == "crash":
        usual = options.silent_keep_alives * max(options.keep_alive_seconds, options.membership_seconds / 2)
        detection = usual + 2 * distance + options.membership_seconds
        return float(detection + 6 * distance + options.cut_seconds)
    if change == "merge":
        foreign = 3 * options.foreign_seconds + options.keep_alive_seconds
        return float(foreign + 6 * distance + options.cut_seconds)
    return float(options.keep_alive_seconds + 6 * distance)


def _since(
    before: Mapping[SiteId, Mapping[str, Tally]],
    after: Mapping[SiteId, Mapping[str, Tally]],
    kinds: frozenset[str],
    sites: tuple[SiteId, ...] | None = None,
) -> float:
    """Packets of some kinds between two counts, at some sites or at all."""

    def counts(site: SiteId, kind: str) -> bool:
        return kind in kinds and (sites is None or site in sites)

    return float(total(after, counts).packets - total(before, counts).packets)
