"""A site can run several protocol instances: what belongs to one does not reach the others; they can crash apart."""

from __future__ import annotations

from ordercast.core import Contract, Multicast, Packet, Protocol, Record
from ordercast.core.effects import Broadcast, JoinChannel
from ordercast.core.events import Arrival, MulticastRequested, Recovered, Started, TimerFired
from ordercast.protocols.fan import Fan0
from ordercast.sim import Simulation, Workload
from ordercast.sim.faults import Crash
from ordercast.sim.networks import PointToPoint


class Hello(Packet, frozen=True):
    background = True
    number: int


class Count(Record, frozen=True):
    number: int


class Control(Protocol):
    """Says hello to everyone each second, on a channel of its own, and logs how often."""

    contract = Contract("control", "", "", (), (), "", ())
    packets = (Hello,)
    records = (Count,)

    def on_started(self, event: Started) -> None:
        self.count = 0
        self.heard: list[tuple[str, int]] = []
        self.draw = self.context.random.random()
        self.outbox.append(JoinChannel("control"))
        self.set_timer("hello", 1.0)

    def on_recovered(self, event: Recovered) -> None:
        self.on_started(Started())
        self.count = max((record.number for record in event.records if isinstance(record, Count)), default=0)

    def on_timer_fired(self, event: TimerFired) -> None:
        self.count += 1
        self.append(Count(self.count))
        self.outbox.append(Broadcast("control", Hello(self.count)))
        self.set_timer("hello", 1.0)

    def on_hello(self, sender: str, packet: Hello, arrival: Arrival) -> None:
        self.heard.append((sender, packet.number))

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        self.last: Multicast = event.multicast


def simulate(*faults: Crash) -> Simulation:
    return Simulation(
        Fan0,
        {"g": ["a", "b"]},
        PointToPoint(0.0, 0.001),
        companions={"control": Control},
        workloads=[Workload(sources=("a",), groups=("g",), rate=2.0, arrivals="regular", count=10)],
        faults=faults,
        duration=6.5,
        settle=0.0,
    ).execute()


def core(run: Simulation, site: str) -> Control:
    instance = run.sites[site].instances["control"].core
    assert isinstance(instance, Control)
    return instance


def test_messages_timers_channels_and_randomness_belong_to_an_instance() -> None:
    run = simulate()
    assert core(run, "a").heard == sorted(core(run, "a").heard, key=lambda heard: heard[1])
    assert set(core(run, "a").heard) == {(site, number) for site in "ab" for number in range(1, 7)}
    assert core(run, "a").draw != core(run, "b").draw
    assert run.sites["a"].instances["main"].core.context.random.random() != core(run, "a").draw
    assert run.wire_errors == 0


def test_an_instance_that_crashes_apart_comes_back_from_its_log_while_the_other_goes_on() -> None:
    run = simulate(Crash(from_=2.5, to=4.25, sites=("b",), instance="control"))
    rows = run.table().to_pylist()
    delivered = [row["time"] for row in rows if row["kind"] == "deliver" and row["site"] == "b"]
    assert len(delivered) == 10
    assert any(2.5 < time < 4.25 for time in delivered)
    assert not any(row["kind"] in ("fail", "awake", "recover") for row in rows), "the site never failed"
    assert [number for sender, number in core(run, "a").heard if sender == "b"] == [1, 2, 3, 4]
    assert min(number for sender, number in core(run, "b").heard if sender == "a") == 5, "it left its channel"


def test_an_instance_that_is_down_multicasts_nothing_and_goes_on_when_it_is_back() -> None:
    run = simulate(Crash(from_=1.25, to=3.25, sites=("a",), instance="main"))
    multicast = [row["time"] for row in run.table().to_pylist() if row["kind"] == "multicast"]
    assert multicast == [0.5, 1.0, 3.5, 4.0, 4.5, 5.0]


def test_instances_that_run_together_never_give_the_same_name_to_two_messages() -> None:
    run = simulate()
    site = run.sites["a"]
    names = [site.instances[name].request(7.0, b"", ("g",)) for name in ("main", "control", "main")]
    site.crash_instance("control")
    site.recover_instance("control")
    names.append(site.instances["control"].request(7.0, b"", ("g",)))
    assert len(set(names)) == 4
