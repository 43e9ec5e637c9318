"""SCALATOM: what is kept, and that it is forgotten."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import pytest

from ordercast.campaign.draw import Draw
from ordercast.core import Multicast, Packet, Protocol, SiteId, UsageError
from ordercast.core.effects import Credit, Deliver, Replay
from ordercast.core.events import Consumed, Recovered, TimerFired
from ordercast.protocols.parts.kept_packets import Settled
from ordercast.protocols.parts.multicast import Data
from ordercast.protocols.scalatom import Scalatom, ScalatomOptions
from ordercast.protocols.scalatom.packets import Overdue
from ordercast.sim import Simulation
from ordercast.sim.faults import Crash, Loss, Partition
from ordercast.sim.networks import PointToPoint
from ordercast.sim.workload import Workload
from tests.protocols.classic_runs import Hand, broken_claims, sent
from tests.protocols.scalatom_runs import THREE, deliver_first, hand, message, rows_of, simulate


def test_packets_do_not_grow_with_the_number_of_processes() -> None:
    """From 10 to 200 processes, the same destinations: the same packets, to the byte."""
    found = []
    for size in (10, 50, 200):
        sites = tuple(f"s{number:03}" for number in range(size))
        groups = {f"g{number:02}": sites[3 * number : 3 * number + 3] for number in range(size // 3)}
        simulation = Simulation(
            Scalatom,
            groups,
            PointToPoint(),
            sites=sites,
            workloads=[Workload(sources=(sites[0], sites[7]), groups=("g00", "g01"), rate=20.0, count=20)],
            duration=2.0,
            settle=2.0,
        )
        assert broken_claims(simulation) == {}
        packets = rows_of(simulation, "send")
        found.append(Counter((row["packet"], row["size"]) for row in packets))
        assert {row["site"] for row in packets} <= {*sites[:6], sites[7]}
    assert found[0] == found[1] == found[2]


def kept(core: Protocol) -> dict[str, int]:
    """How much of everything that grows with messages a core holds."""
    assert isinstance(core, Scalatom)
    histories, consensus = core.histories, core.consensus
    return {
        "entries": len(core.entries),
        "own history": len(histories._own),
        "unstable": len(histories._unstable),
        "others' histories": sum(len(mate._ahead) + len(mate._uncovered) for mate in histories.mates.values()),
        "blockers": len(histories._blockers),
        "decided": len(histories._decided),
        "decisions": len(consensus.decisions),
        "open": len(consensus.open),
        "about": len(core.keeping._about),
        "letters": sum(len(peer.kept) for peer in core.link.peers.values()),
        "deferred": sum(map(len, core.confirming.deferred.values())),
        "wanted": len(core.multicast._wanted),
        "own messages": len(core.source.own),
    }


def leftovers(simulation: Simulation) -> dict[str, dict[str, int]]:
    """What is not forgotten at the end. Dead items of heaps are dropped when the next message comes."""
    found = {}
    for name, site in simulation.sites.items():
        sizes = {what: size for what, size in kept(site.instances["main"].core).items() if size}
        for harmless in ("blockers", "others' histories"):
            sizes.pop(harmless, None)
        if sizes:
            found[name] = sizes
    return found


def test_buffers_histories_and_logs_are_bounded_in_a_long_run() -> None:
    """Three thousand messages, with loss, and a crash of one site: the second half needs no more than the first."""
    duration = 10.0
    peaks: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    simulation = Simulation(
        Scalatom,
        {"g": THREE["g"], "h": THREE["h"]},
        PointToPoint(processing=0.00001),
        faults=[Loss(from_=0.0, rate=0.02), *(Crash(from_=at, to=at + 0.3, sites=("b",)) for at in (2.0, 7.0))],
        workloads=[Workload(sources=("x", "a"), groups=("g", "h"), choose=1, rate=150.0, count=1500, size=0)],
        duration=duration,
        settle=10.0,
        tracing=False,
        check_invariants=False,
    )

    def measure(site: str, time: float, effect: Deliver | Replay) -> None:
        largest = peaks[time > duration / 2]
        for what, size in kept(simulation.sites[site].instances["main"].core).items():
            largest[what] = max(size, largest[what])

    simulation.application = measure
    simulation.execute()
    first, second = peaks
    assert first["entries"] > 20
    assert {what: (first[what], size) for what, size in second.items() if size > 2 * first[what] + 50} == {}
    assert max(second.values()) < 600, second
    assert leftovers(simulation) == {}
    for name, site in simulation.sites.items():
        if name != "x":
            recovery = site.disk.logs["main"].recover()
            assert recovery.checkpoint is not None
            assert len(recovery.checkpoint) < 100_000
            assert len(recovery.records) < 2500


class Forgetful(Scalatom):
    """Takes a checkpoint every few records, which a short run would never reach."""

    checkpoint_records = 8


@pytest.mark.campaign
@pytest.mark.parametrize("protocol", [Scalatom, Forgetful])
@pytest.mark.parametrize("seed", range(2000, 2025))
def test_everything_is_forgotten_whatever_happened_when_everyone_is_back(protocol: type[Scalatom], seed: int) -> None:
    scenario = Draw(protocol, seed).scenario()
    if any(isinstance(fault, Crash) and fault.forever for fault in scenario.faults):
        pytest.skip("what a dead site has not taken is kept for it")
    assert leftovers(scenario.simulation().execute()) == {}


def test_whoever_has_not_heard_that_another_has_taken_a_message_asks() -> None:
    """b and c have taken x, and c has forgotten it. What c said about that is lost, and c does not know that."""
    x = message("x", 1)
    a = hand("a")
    deliver_first(a)
    a.step(Consumed(1))
    a.receive("b", Settled(3, (x,), None))
    asked = [packet for _ in range(4) for packet in sent(a.step(TimerFired("watch")))]
    assert [(to, packet.unsettled) for to, packet in asked if isinstance(packet, Overdue)] == [(("c",), (x,))]
    c = hand("c")
    c.receive("x", Data(1, Multicast(message("x", 2), ("g",)), (0, 2)))
    answers = sent(c.receive("a", Overdue(4, (x, message("x", 2)), None, ())))
    assert [(to, packet.settled) for to, packet in answers if isinstance(packet, Settled)] == [(("a",), (x,))]
    a.receive("c", Settled(5, (x,), None))
    assert isinstance(a.core, Scalatom)
    assert not a.core.entries


def test_a_source_outside_the_groups_asks_as_well() -> None:
    x = hand("x")
    sent_message = x.multicast("g")
    asked = [packet for _ in range(4) for packet in sent(x.step(TimerFired("watch")))]
    assert [(to, packet.undecided) for to, packet in asked if isinstance(packet, Overdue)] == [
        ((site,), (sent_message,)) for site in "abc"
    ]


class Counting(Scalatom):
    """Counts the packets that all send after a moment."""

    since = 0.0
    packets_sent: ClassVar[Counter[str]] = Counter()

    def send(self, to: tuple[SiteId, ...], packet: Packet) -> None:
        if self.now >= self.since:
            self.packets_sent[type(packet).__name__] += len(to)
        super().send(to, packet)


@pytest.mark.parametrize("missed", [1000, 4000, pytest.param(16384, marks=pytest.mark.campaign)])
@pytest.mark.parametrize("crash", [True, False])
def test_catching_up_takes_as_many_packets_as_were_missed(missed: int, crash: bool) -> None:
    """Each message once, and for every 64 of them a question and an answer with each of two sites, and a question for
    the bodies: three times that are allowed, for receipts, timestamps and what is repeated."""
    Counting.since = back = missed / 1000 + 1.0
    Counting.packets_sent.clear()
    away = Crash(from_=0.0, to=back, sites=("c",)) if crash else Partition(from_=0.0, to=back, parts=(("c",),))
    taken: Counter[str] = Counter()
    last = {}

    def count(site: str, time: float, effect: Deliver | Replay) -> None:
        taken[site] += 1
        last[site] = time

    Simulation(
        Counting,
        {"g": ("a", "b", "c")},
        PointToPoint(latency=0.01),
        options=ScalatomOptions(kept_messages_max=1 << 20, kept_bytes_max=1 << 30),
        faults=[away],
        workloads=[
            Workload(sources=("a",), groups=("g",), rate=1000.0, count=missed, size=10, arrivals="regular"),
        ],
        duration=back,
        settle=26.0,
        tracing=False,
        check_invariants=False,
        application=count,
    ).execute()
    assert taken == dict.fromkeys("abc", missed)
    assert last["c"] < back + 2.0 + missed / 1000
    pieces = missed / 64
    assert sum(Counting.packets_sent.values()) < 3 * (missed + 5 * pieces)
    assert Counting.packets_sent["Summary"] < 3 * 2 * pieces


def test_the_credit_for_messages_to_the_source_alone_survives_a_crash() -> None:
    options = ScalatomOptions(window_messages=4)
    a = Hand(Scalatom, "a", {"g": ("a",)}, ("a", "b"), options)
    for _ in range(4):
        a.multicast("g")
    again = Hand(Scalatom, "a", {"g": ("a",)}, ("a", "b"), options, 1)
    effects = again.step(Recovered(tuple(effect.record for effect in a.log)))
    assert [effect.available for effect in effects if isinstance(effect, Credit)][-1] == 4


def test_a_quiet_system_is_silent() -> None:
    simulation = Simulation(
        Scalatom,
        THREE,
        PointToPoint(),
        workloads=[Workload(sources=("x",), groups=("g", "h"), rate=10.0, count=3)],
        duration=2.0,
        settle=20.0,
    ).execute()
    last = max(row["time"] for row in rows_of(simulation, "deliver"))
    assert max(row["time"] for row in rows_of(simulation, "send")) < last + 1.0


def test_an_application_that_ignores_its_credit_is_told() -> None:
    x = Hand(
        Scalatom,
        "x",
        {"g": ("a", "b", "c")},
        ("a", "b", "c", "x"),
        ScalatomOptions(window_messages=2, kept_messages_max=2),
    )
    for _ in range(4):
        x.multicast("g")
    with pytest.raises(UsageError, match="credit"):
        x.multicast("g")


def test_everything_is_forgotten_when_all_applications_have_it() -> None:
    simulation = simulate(THREE, [], choose=1, settle=5.0)
    assert broken_claims(simulation) == {}
    assert leftovers(simulation) == {}
