"""Sender groups that change (Berket 2000, chapter 5), simulated."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ordercast.campaign.outcome import run_seed
from ordercast.check import CLAIMED, Choice, judge
from ordercast.core import Context, UsageError, WireError
from ordercast.core.events import Arrival, Received, Started, TimerFired
from ordercast.protocols.intergroup.dynamic import DynamicInterGroup
from ordercast.protocols.intergroup.group import ProcessGroup, channel_of
from ordercast.protocols.intergroup.membership.changes import Changes
from ordercast.protocols.intergroup.membership.options import MembershipOptions
from ordercast.protocols.intergroup.membership.packets import PJoin, check_pjoin
from ordercast.protocols.intergroup.membership.states import RECEPTION_WAYS, REPAIR_WAYS, WAYS
from ordercast.protocols.intergroup.packets import PAdd, ViewId
from ordercast.protocols.intergroup.senders import SenderGroup
from ordercast.protocols.intergroup.services import UnreliableSource
from ordercast.sim import Simulation
from ordercast.sim.change import Change
from ordercast.sim.fault import Fault
from ordercast.sim.faults import Crash, Cut, Loss, Partition, Pause, SlowReader
from ordercast.sim.network_table import PointToPointTable
from ordercast.sim.workload import Workload

SITES = ("a", "b", "c", "d")
NETWORK = PointToPointTable(processing=0.0001, latency=0.005)


def run(
    *faults: Fault, changes: tuple[Change, ...] = (), duration: float = 10.0, keep_alive_seconds: float = 0.05
) -> Simulation:
    """Four senders, two of which multicast."""
    return Simulation(
        DynamicInterGroup,
        {"g": SITES},
        NETWORK.make(SITES),
        options=MembershipOptions(keep_alive_seconds=keep_alive_seconds),
        faults=faults,
        changes=changes,
        workloads=[Workload(sources=("a", "c"), groups=("g",), rate=10.0, count=int(5 * duration))],
        duration=duration,
        settle=10.0,
    ).execute()


def views(simulation: Simulation) -> dict[str, list[tuple[str, ...]]]:
    """Site -> the members of its views, in their order."""
    found: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for row in simulation.table().to_pylist():
        if row["kind"] == "view":
            found[row["site"]].append(tuple(row["members"]))
    return found


def violated(simulation: Simulation) -> list[str]:
    """The claims that do not hold."""
    header = simulation.header()
    verdicts = judge(header, simulation.table(), Choice(CLAIMED.judged(header)))
    return [name for name, verdict in verdicts.items() if verdict.verdict == "violated"]


def test_a_stable_network_has_one_view_at_a_loss_of_five_percent() -> None:
    simulation = run(Loss(rate=0.05, from_=0.0, to=10.0))
    assert views(simulation) == {site: [SITES] for site in SITES}
    assert violated(simulation) == []


def test_at_a_loss_of_five_percent_ten_minutes_bring_no_view() -> None:
    simulation = Simulation(
        DynamicInterGroup,
        {"g": SITES},
        NETWORK.make(SITES),
        options=MembershipOptions(keep_alive_seconds=0.25),
        faults=[Loss(rate=0.05, from_=0.0, to=600.0)],
        workloads=[Workload(sources=("a", "c"), groups=("g",), rate=1.0)],
        duration=600.0,
        settle=0.0,
        check_invariants=False,
    ).execute()
    assert views(simulation) == {site: [SITES] for site in SITES}
    assert simulation.branches["requested"] > 100


@pytest.mark.parametrize("senders", [(), ("a", "b")])
def test_where_nothing_changes_views_cost_no_packet(senders: tuple[str, ...]) -> None:
    """The same Keep Alives as with fixed views, and nothing else."""
    sent = [packets_sent(MembershipOptions(views=views, senders=senders)) for views in ("change", "fixed")]
    assert sent[0] == sent[1]
    assert sent[0]["KeepAlive"] > 1000


def packets_sent(options: MembershipOptions) -> Counter[str]:
    """Type of packet -> how many leave all sites in a run without faults."""
    simulation = Simulation(
        DynamicInterGroup,
        {"g": SITES},
        NETWORK.make(SITES),
        options=options,
        workloads=[Workload(sources=("a", "b"), groups=("g",), rate=10.0)],
        duration=10.0,
        settle=5.0,
        tracing=False,
        counting=True,
    ).execute()
    assert simulation.traffic is not None
    sent: Counter[str] = Counter()
    for tallies in simulation.traffic.sent.values():
        sent.update({name: tally.packets for name, tally in tallies.items()})
    return sent


def test_after_a_crash_there_is_exactly_one_view() -> None:
    simulation = run(Crash(from_=3.0, sites=("b",), forever=True))
    assert all(views(simulation)[site] == [SITES, ("a", "c", "d")] for site in "acd")
    assert violated(simulation) == []


def test_parts_go_on_apart_and_come_together_within_three_views() -> None:
    simulation = run(Partition(from_=2.0, to=5.0, parts=(("a",),)))
    found = views(simulation)
    assert found["a"][1] == ("a",)
    assert found["b"][1] == ("b", "c", "d")
    assert all(found[site][-1] == SITES and len(found[site]) <= 5 for site in SITES)
    assert violated(simulation) == []


def test_a_one_way_cut_stops_nobody_for_longer_than_the_consensus_and_a_repair() -> None:
    simulation = run(Cut(peers=("a",), from_=2.0, to=8.0, sites=("b",)))
    times = [row["time"] for row in simulation.table().to_pylist() if row["kind"] == "deliver" and row["site"] == "c"]
    options = MembershipOptions()
    longest = max(after - before for before, after in pairwise(times))
    assert longest < options.consensus_seconds + options.cut_seconds + options.membership_seconds
    assert violated(simulation) == []


def after_a_crash(*faults: Fault) -> Simulation:
    """Three senders, of which one crashes, and three receivers, to which something else happens."""
    sites = (*SITES, "r", "s")
    return Simulation(
        DynamicInterGroup,
        {"g": sites},
        NETWORK.make(sites),
        options=MembershipOptions(senders=("a", "b", "c"), keep_alive_seconds=0.05, membership_seconds=0.05),
        faults=[Crash(from_=5.0, sites=("c",), forever=True), *faults],
        workloads=[Workload(sources=("a", "b", "c"), groups=("g",), rate=20.0, count=160)],
        duration=8.0,
        settle=10.0,
    ).execute()


def seconds_to_the_view(simulation: Simulation) -> float:
    """From the crash until both senders have the view without it."""
    rows = [row for row in simulation.table().to_pylist() if row["kind"] == "view" and row["members"] == ["a", "b"]]
    return max(float(row["time"]) for row in rows if row["site"] in ("a", "b")) - 5.0


@pytest.mark.parametrize(
    "fault",
    [
        SlowReader(seconds=0.5, from_=1.0, sites=("s",)),
        Pause(from_=4.9, to=9.0, sites=("s",)),
        Crash(from_=4.9, sites=("s",), forever=True),
    ],
    ids=["slow", "paused", "dead"],
)
def test_a_receiver_lengthens_no_change_by_more_than_the_wait_for_a_cut(fault: Fault) -> None:
    simulation = after_a_crash(fault)
    usual = seconds_to_the_view(after_a_crash())
    assert seconds_to_the_view(simulation) <= usual + MembershipOptions().cut_seconds
    assert violated(simulation) == []


def test_changes_of_roles_need_no_repair() -> None:
    changes = (
        Change(kind="role", at=2.0, sites=("b",), group="g", role="receiver"),
        Change(kind="role", at=4.0, sites=("b",), group="g", role="sender"),
        Change(kind="leave", at=6.0, sites=("d",), group="g"),
    )
    simulation = run(changes=changes)
    without_b = ("a", "c", "d")
    assert views(simulation)["a"] == [SITES, without_b, SITES, ("a", "b", "c")]
    assert simulation.branches["sender>mra"] == 0
    assert violated(simulation) == []


def test_so_many_joins_so_many_views_and_no_repair() -> None:
    """5.2.2, 5.3.1: a sponsor's PAdd stands among the messages."""
    joins = tuple(Change(kind="join", at=at, sites=(site,), group="g") for at, site in ((2.0, "p"), (4.0, "q")))
    simulation = run(changes=joins)
    assert views(simulation)["a"] == [SITES, (*SITES, "p"), (*SITES, "p", "q")]
    assert simulation.branches["sender>mra"] == 0
    assert violated(simulation) == []


def test_whoever_floods_with_proposals_starts_one_repair_in_each_consensus_time() -> None:
    options = MembershipOptions()
    core = DynamicInterGroup(Context("a", {"g": ("a",)}, ("a",), options, Random(1)))
    core.step(0.0, Started())
    arrival = Arrival(channel_of("g"))
    for number in range(1, 2001):
        now = number / 500
        stranger = PJoin(ViewId(7, "z", 0), number, 1, ("a", f"z{number % 50}"), (), 0)
        core.step(now, Received(f"z{number % 50}", stranger, arrival))
        core.step(now, TimerFired(("membership", "g")))
        core.outbox.clear()
    assert core.branches["invited"] <= 1 + 4.0 / options.consensus_seconds


def test_what_waits_for_its_turn_is_delivered_before_what_no_longer_has_to() -> None:
    services = ("reliable-source", "group-timestamp")
    changes = tuple(
        Change(kind="service", at=0.5 + 0.13 * number, sites=("b",), group="g", service=services[number % 2])
        for number in range(60)
    )
    assert violated(run(changes=changes, keep_alive_seconds=0.3)) == []


def test_whoever_comes_back_does_not_get_again_what_it_has_delivered() -> None:
    """d is silent, so that nothing has its turn in the order of the group."""
    changes = (
        Change(kind="role", at=0.1, sites=("b",), group="g", role="receiver"),
        Change(kind="service", at=0.2, sites=("b",), group="g", service="reliable-source"),
        Change(kind="leave", at=2.3, sites=("b",), group="g"),
        Change(kind="join", at=2.32, sites=("b",), group="g", role="receiver", service="reliable-source"),
    )
    simulation = run(Cut(peers=("a", "b", "c"), from_=2.0, to=3.0, sites=("d",)), changes=changes)
    assert len(views(simulation)["b"]) > 2
    assert violated(simulation) == []


def test_what_waits_in_one_group_is_not_overtaken_by_what_it_has_caused_through_another() -> None:
    """a's m1 to g waits for flow control, its m2 to h does not; b has m2, and multicasts m3 to g."""
    sites = ("a", "b")
    simulation = Simulation(
        DynamicInterGroup,
        {"g": sites, "h": sites},
        NETWORK.make(sites),
        options=MembershipOptions(
            keep_alive_seconds=0.02, bandwidth_max=4_000.0, bandwidth_min=4_000.0, burst_bytes=1_200
        ),
        workloads=[
            Workload(sources=("a",), groups=("g",), rate=3.0, size=1_000),
            Workload(sources=("a",), groups=("h",), rate=30.0),
            Workload(sources=("b",), groups=("g",), rate=30.0),
        ],
        duration=6.0,
        settle=6.0,
    ).execute()
    assert simulation.branches["flow-waited"] > 5
    assert violated(simulation) == []


# 339, 411, 1734: the same, with m1 on its way to a proxy. 1632: told 1, used 1, and 1 again when it is no sender. 2252:
# its proxy has come along with a message that it lacks. 3304: a source that has lost all senders is one itself. 3439:
# it has left when a Gone comes. 3733: said again to another proxy, a message has two places in the order. 1016: what a
# sender has said before it left comes a second time when it is back. 336, 872: whoever has left keeps what was early and
# what waited for its turn.
@pytest.mark.parametrize("seed", [*range(31, 47), 336, 339, 411, 872, 1016, 1632, 1734, 1900, 2252, 3304, 3439, 3733])
def test_claims_hold_while_everything_changes(seed: int) -> None:
    assert run_seed(DynamicInterGroup, seed).outcome.violations == ()


def test_what_a_sender_has_said_before_it_left_is_not_delivered_again_when_it_is_back() -> None:
    view = ViewId(0, "a", 0)
    group = ProcessGroup("g", "a", ("a", "d"), SenderGroup(view, view, ("a",), {}), MembershipOptions())
    said: list[int] = []
    core = SimpleNamespace(
        site="a",
        branch=lambda name: None,
        reception=SimpleNamespace(catch_up=lambda group, stream: None),
        hand_over=lambda group, stream, data, service: said.append(data.seq),
    )
    member = SimpleNamespace(group=group, left={"d": 4}, order=SimpleNamespace(reached=9), core=core)
    Changes(cast(Any, member)).expect(PAdd("d", 5))
    service = UnreliableSource(cast(Any, core), group, None)
    for seq in (2, 5):
        service.arrive(group.streams["d"], cast(Any, SimpleNamespace(seq=seq)))
    assert said == [5]


def test_every_way_is_a_branch_that_is_counted() -> None:
    ways = [f"{a.value}>{b.value}" for table in (WAYS, REPAIR_WAYS, RECEPTION_WAYS) for a, b in table]
    assert set(ways) <= set(DynamicInterGroup.contract.branches)


@pytest.mark.parametrize(
    ("procs", "fail"),
    [
        (("a",), ("b",)),
        (("a", "a"), ()),
        (("",), ()),
        (tuple(f"s{number}" for number in range(100_000)), ()),
    ],
    ids=["failed and not considered", "twice", "no name", "too many"],
)
def test_a_proposal_that_contradicts_itself_is_refused(procs: tuple[str, ...], fail: tuple[str, ...]) -> None:
    with pytest.raises(WireError):
        check_pjoin(PJoin(ViewId(0, "a", 0), 1, 1, procs, fail, 0))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Change(kind="leave", at=1.0, sites=("a",), group="h"), "nothing to leave"),
        (Change(kind="join", at=1.0, sites=("a",), group="g"), "cannot be joined"),
        (Change(kind="join", at=1.0, sites=("a",), group="g" * 300), "no name of a group"),
        (Change(kind="join", at=1.0, sites=("a",), group="h", role="king"), "no role"),
        (Change(kind="join", at=1.0, sites=("a",), group="h", service="best"), "no service"),
    ],
    ids=["not joined", "joined", "long name", "role", "service"],
)
def test_what_makes_no_sense_is_refused_in_one_line(change: Change, reason: str) -> None:
    simulation = run(changes=(change,), duration=2.0)
    assert len(simulation.refused_requests) == 1
    assert reason in simulation.refused_requests[0]


def test_one_order_across_groups_needs_configured_senders() -> None:
    with pytest.raises(UsageError, match="order_across_groups"):
        MembershipOptions(order_across_groups=True)
