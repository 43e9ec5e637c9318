"""SCALATOM: what it promises under faults, and the steps that the promises rest on."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from ordercast.campaign import run_seed
from ordercast.core import Context, MessageId, Multicast, UsageError, WireError
from ordercast.core.effects import Append, Blocked, Deliver, Effect, Replay, Send
from ordercast.core.events import Consumed, JoinRequested, Recovered, TimerFired
from ordercast.protocols import find_protocol
from ordercast.protocols.parts.consensus_messages import Collect, Decide, Estimate, Propose, Value
from ordercast.protocols.parts.multicast import Data
from ordercast.protocols.scalatom import Cells, Scalatom, ScalatomOptions
from ordercast.protocols.scalatom.histories import Histories
from ordercast.protocols.scalatom.messages import Delivered, History, Stamp, Stamped, Stamps
from ordercast.sim import Simulation
from ordercast.sim.faults import Crash, Cut, Fault, Loss
from ordercast.sim.networks import PointToPoint
from ordercast.sim.workload import Workload
from tests.protocols.classic_runs import Hand, broken_claims, delivered, sent

PAIRWISE: dict[str, tuple[str, ...]] = {"g": ("a", "b", "c"), "h": ("c", "d", "e"), "k": ("e", "f", "a")}
THREE: dict[str, tuple[str, ...]] = {"g": ("a", "b", "c"), "h": ("d", "e", "f"), "k": ("p", "q", "r")}
NERVOUS = ScalatomOptions(ping_seconds=0.02, suspicion_seconds=0.02)
"""Suspects everyone at first, on a network with a round trip of 60 ms."""


def hand(site: str, groups: dict[str, tuple[str, ...]] | None = None, incarnation: int = 0) -> Hand:
    return Hand(Scalatom, site, groups or {"g": ("a", "b", "c")}, ("a", "b", "c", "x"), None, incarnation)


def message(source: str, number: int) -> MessageId:
    return MessageId(source, 0, number)


def data(number: int, source: str, place: int, *groups: str) -> Data:
    return Data(number, Multicast(message(source, place), groups or ("g",)), (0, 1))


def stamps(number: int, *entries: tuple[MessageId, int, int], count: int = 0, promise: int = 0) -> Stamps:
    return Stamps(number, (0,), tuple(Stamp(*entry) for entry in entries), count, promise)


def simulate(
    groups: dict[str, tuple[str, ...]],
    faults: list[Fault],
    options: ScalatomOptions | None = None,
    *,
    latency: float = 0.005,
    sources: tuple[str, ...] = ("x", "a"),
    choose: int = 2,
    settle: float = 20.0,
) -> Simulation:
    return Simulation(
        Scalatom,
        groups,
        PointToPoint(latency=latency),
        options=options,
        faults=faults,
        workloads=[Workload(sources=sources, groups=tuple(groups), choose=choose, rate=8.0, count=40)],
        duration=6.0,
        settle=settle,
    )


def rows_of(simulation: Simulation, kind: str) -> list[dict[str, Any]]:
    return [row for row in simulation.table().to_pylist() if row["kind"] == kind]


def kinds(effects: list[Effect]) -> list[str]:
    return [type(packet).__name__ for _, packet in sent(effects)]


def test_it_is_found_by_its_name() -> None:
    assert find_protocol("scalatom") is Scalatom


# ---------------------------------------------------------------------- cells
def test_overlapping_groups_are_cut_into_cells() -> None:
    cells = Cells(PAIRWISE)
    assert cells.cells == (("a",), ("b",), ("c",), ("d",), ("e",), ("f",))
    assert cells.of_groups(("g",)) == (0, 1, 2)
    assert cells.of_groups(("g", "h")) == (0, 1, 2, 3, 4)
    assert cells.of_site("x") is None
    assert Cells({"g": ("a", "b", "c", "d"), "h": ("c", "d")}).cells == (("a", "b"), ("c", "d"))


def test_cells_that_tolerate_no_failure_are_named_before_the_start() -> None:
    assert Cells(THREE).warnings() == ()
    warnings = Cells({"g": ("a", "b", "c", "d"), "h": ("d",)}).warnings()
    assert len(warnings) == 1
    assert warnings[0].startswith("the sites d are a cell of their own")
    assert "g, h" in warnings[0]
    assert hand("a", PAIRWISE).core.warnings()  # type: ignore[attr-defined]


def test_groups_are_static() -> None:
    with pytest.raises(UsageError, match="static"):
        hand("x").step(JoinRequested("g"))


@pytest.mark.parametrize(
    "options",
    [
        {"window": 0},
        {"window": 10, "kept_messages_max": 9},
        {"history_seconds": -1.0},
        {"ping_seconds": 0.0},
        {"suspicion_seconds": 20.0},
        {"retransmit_seconds": 2.0},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        ScalatomOptions(**options)


# ---------------------------------------------------------------------- under faults
@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(40))
def test_all_claims_hold_under_any_mixture_of_faults(seed: int) -> None:
    outcome = run_seed(Scalatom, seed).outcome
    assert outcome.violations == ()
    assert not outcome.vacuous
    assert not outcome.not_judged


class Forgetful(Scalatom):
    """Takes a checkpoint every few records, which a short run would never reach."""

    checkpoint_records = 8


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(1000, 1015))
def test_all_claims_hold_with_a_checkpoint_every_few_records(seed: int) -> None:
    assert run_seed(Forgetful, seed).outcome.violations == ()


def test_three_groups_that_overlap_pairwise_are_ordered_without_cycles() -> None:
    """g, h and k share one site each: pairwise agreement alone would allow a cycle through all three."""
    simulation = simulate(
        PAIRWISE, [Crash(from_=1.0, to=2.0, sites=("c",)), Loss(from_=0.0, rate=0.1)], choose=1, sources=tuple("abcdef")
    )
    assert broken_claims(simulation) == {}
    assert len(rows_of(simulation, "deliver")) == 3 * len(rows_of(simulation, "multicast"))


def test_a_minority_of_each_group_may_die() -> None:
    dead = [Crash(from_=1.0 + place, sites=(site,), forever=True) for place, site in enumerate(("a", "d", "p"))]
    simulation = simulate(THREE, [*dead], sources=("x", "y"))
    assert broken_claims(simulation) == {}
    late = {row["site"] for row in rows_of(simulation, "deliver") if row["time"] > 4.0}
    assert late == {"b", "c", "e", "f", "q", "r"}


def test_wrong_suspicions_all_the_time_cost_time_and_nothing_else() -> None:
    simulation = simulate(THREE, [], NERVOUS, latency=0.03)
    assert broken_claims(simulation) == {}
    assert simulation.branches["wrongly-suspected"] > 20
    assert simulation.branches["round-changed"] > 20


def test_a_group_that_loses_its_majority_blocks_what_is_addressed_to_it_and_goes_on_when_it_has_it_back() -> None:
    groups = {"g": THREE["g"], "h": THREE["h"]}
    simulation = Simulation(
        Scalatom,
        groups,
        PointToPoint(),
        faults=[Crash(from_=2.0, to=6.0, sites=("d", "e"))],
        workloads=[
            Workload(sources=("x",), groups=("g",), rate=10.0, count=80),
            Workload(sources=("y",), groups=("h",), rate=10.0, count=80),
        ],
        duration=8.0,
        settle=20.0,
    )
    assert broken_claims(simulation) == {}
    times = {site: [row["time"] for row in rows_of(simulation, "deliver") if row["site"] == site] for site in "abcf"}
    assert not [time for time in times["f"] if 2.2 < time < 6.0]
    for site in "abc":
        assert len([time for time in times[site] if 2.2 < time < 6.0]) > 20
    assert any("has no timestamp from d, e" in reason for reason in simulation.sites["f"].blocked_reasons)
    assert simulation.branches["unblocked"]


def test_what_is_ordered_behind_a_blocked_message_waits_and_nothing_is_misordered() -> None:
    groups = {"g": THREE["g"], "h": THREE["h"]}
    simulation = simulate(groups, [Crash(from_=2.0, to=5.0, sites=("d", "e", "f"))], choose=1)
    both = Workload(sources=("x",), groups=("g", "h"), rate=2.0, count=10)
    simulation.workloads = (*simulation.workloads, both)
    assert broken_claims(simulation) == {}


def test_a_site_that_was_away_for_long_is_told_to_catch_up() -> None:
    options = ScalatomOptions(letters_max=16)
    simulation = simulate({"g": ("a", "b", "c")}, [Crash(from_=1.0, to=5.0, sites=("c",))], options, choose=1)
    assert broken_claims(simulation) == {}
    assert simulation.branches["estranged"]
    assert simulation.branches["restored"]


def test_catching_up_goes_on_in_pieces() -> None:
    simulation = Simulation(
        Scalatom,
        {"g": ("a", "b", "c")},
        PointToPoint(),
        faults=[Crash(from_=1.0, to=4.0, sites=("c",))],
        workloads=[Workload(sources=("x",), groups=("g",), rate=100.0, count=300)],
        duration=5.0,
        settle=10.0,
    )
    assert broken_claims(simulation) == {}
    assert simulation.branches["catching-up-further"]


class WithoutBodies(Histories):
    """As printed: a history names messages that perhaps nobody else has."""

    def bodies_between(self, low: int, high: int) -> tuple[int, tuple[Multicast, ...]]:
        return high, ()


class Printed(Scalatom):
    """With such histories."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.histories.__class__ = WithoutBodies


def test_a_history_whose_sender_and_source_are_gone_blocks_nobody_because_it_brought_the_bodies() -> None:
    """x reaches only a with its message, a puts it into its history, and both are gone before anybody else can ask for
    it. Lemma 3 of the paper, which says that this cannot be, takes a union for an intersection."""

    def run(protocol: type[Scalatom]) -> dict[str, str]:
        return broken_claims(
            Simulation(
                protocol,
                {"g": ("a", "b", "c")},
                PointToPoint(processing=0.0, latency=0.001),
                faults=[
                    Cut(from_=0.0, sites=("x",), peers=("b", "c")),
                    Crash(from_=0.115, sites=("a", "x"), forever=True),
                ],
                workloads=[
                    Workload(sources=("x",), groups=("g",), rate=10.0, count=1, arrivals="regular"),
                    Workload(sources=("y",), groups=("g",), rate=10.0, count=5, start=0.001, arrivals="regular"),
                ],
                duration=1.0,
                settle=10.0,
            )
        )

    assert run(Scalatom) == {}
    assert set(run(Printed)) == {"termination"}


# ---------------------------------------------------------------------- bounds
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


def test_buffers_histories_and_logs_are_bounded_in_a_long_run() -> None:
    largest: Counter[str] = Counter()
    simulation = Simulation(
        Scalatom,
        {"g": THREE["g"], "h": THREE["h"]},
        PointToPoint(processing=0.00001),
        workloads=[Workload(sources=("x", "a"), groups=("g", "h"), choose=1, rate=300.0, count=1500, size=0)],
        duration=6.0,
        settle=2.0,
        tracing=False,
        check_invariants=False,
    )

    def measure(site: str, time: float, effect: Deliver | Replay) -> None:
        core = simulation.sites[site].instances["main"].core
        assert isinstance(core, Scalatom)
        sizes = {
            "entries": len(core.entries),
            "own history": len(core.histories._own),
            "blockers": len(core.histories._blockers),
            "decisions": len(core.consensus.decisions),
            "finished": sum(len(known.above) for known in core.multicast.finished.values()),
            "letters": sum(len(peer.kept) for peer in core.link.peers.values()),
        }
        largest.update({name: max(0, size - largest[name]) for name, size in sizes.items()})

    simulation.application = measure
    simulation.execute()
    assert max(largest.values()) < 600, largest
    for name, site in simulation.sites.items():
        core = site.instances["main"].core
        assert isinstance(core, Scalatom)
        assert not core.entries
        assert not core.consensus.decisions
        if name != "x":
            recovery = site.logs["main"].recover()
            assert recovery.checkpoint is not None
            assert len(recovery.checkpoint) < 100_000
            assert len(recovery.records) < 2500


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
        Scalatom, "x", {"g": ("a", "b", "c")}, ("a", "b", "c", "x"), ScalatomOptions(window=2, kept_messages_max=2)
    )
    for _ in range(4):
        x.multicast("g")
    with pytest.raises(UsageError, match="credit"):
        x.multicast("g")


# ---------------------------------------------------------------------- the steps
def test_a_timestamp_is_in_the_log_before_anybody_hears_of_it() -> None:
    effects = hand("a").receive("x", data(1, "x", 1))
    logged = next(at for at, e in enumerate(effects) if isinstance(e, Append) and isinstance(e.record, Stamped))
    heard = next(at for at, e in enumerate(effects) if isinstance(e, Send) and isinstance(e.message, Stamps))
    assert logged < heard


def test_a_qualified_majority_of_timestamps_leads_to_a_proposal_of_the_highest() -> None:
    a = hand("a")
    a.receive("x", data(1, "x", 1))
    effects = a.receive("b", stamps(1, (message("x", 1), 1, 7)))
    assert [packet.value for _, packet in sent(effects) if isinstance(packet, Propose)] == [
        Value("a", ((message("x", 1), 7),))
    ]


def test_a_majority_of_one_cell_is_not_enough_for_two() -> None:
    groups: dict[str, tuple[str, ...]] = {"g": ("a", "b", "c"), "h": ("x",)}
    a = hand("a", groups)
    a.receive("x", data(1, "x", 1, "g", "h"))
    both = (0, 1)
    effects = a.receive("b", Stamps(1, both, (Stamp(message("x", 1), 1, 7),), 0, 0))
    assert "Propose" not in kinds(effects)
    effects = a.receive("x", Stamps(2, both, (Stamp(message("x", 1), 1, 1),), 0, 0))
    assert "Propose" in kinds(effects)


def test_one_consensus_orders_everything_that_is_pending() -> None:
    a = hand("a")
    a.receive("x", data(1, "x", 1))
    a.receive("b", stamps(1, (message("x", 1), 1, 1)))
    for place in (2, 3, 4):
        assert kinds(a.receive("x", data(place, "x", place))) == []
    a.receive("b", stamps(2, *((message("x", place), place, place) for place in (2, 3, 4))))
    effects = a.receive("b", Decide(3, (1, 0), Value("a", ((message("x", 1), 1),))))
    assert [len(packet.stamps) for _, packet in sent(effects) if isinstance(packet, Stamps)] == [3]
    assert [len(packet.value.numbers) for _, packet in sent(effects) if isinstance(packet, Propose)] == [3]


def test_timestamps_are_not_held_back_for_ever() -> None:
    """Those of a and b have come before the message, so a decision is wanted; but its coordinator may not have them."""
    c = hand("c")
    c.receive("a", stamps(1, (message("x", 1), 1, 1)))
    c.receive("b", stamps(1, (message("x", 1), 1, 1)))
    assert kinds(c.receive("x", data(1, "x", 1))) == []
    assert kinds(c.step(TimerFired("stamps"))) == ["Stamps"]


def test_a_coordinator_that_lacks_a_decision_proposes_nothing_of_its_own_in_a_later_batch() -> None:
    """x is decided in the first batch, of which b has not heard; b is made the coordinator of the second."""
    x, y = message("x", 1), message("x", 2)
    b = hand("b")
    b.receive("x", data(1, "x", 1))
    b.receive("a", stamps(1, (x, 1, 1)))
    value = Value("a", ((y, 5),))
    effects = b.receive("a", Estimate(2, (2, 0), 1, -1, value, y))
    assert [packet.value for _, packet in sent(effects) if isinstance(packet, Propose)] == [value]


def test_the_naive_rule_would_deliver_too_early() -> None:
    """b and c stamp y = 1 and x = 2, both are decided; a knows only x and learns that its number is 2. It must wait for
    the histories: in them is y, which comes before."""
    x, y = message("x", 1), message("x", 2)
    a = hand("a")
    a.receive("x", data(1, "x", 1))
    assert delivered(a.receive("b", Decide(1, (1, 0), Value("b", ((x, 2),))))) == []
    # The history of b makes a majority with our own, and it names y.
    assert delivered(a.receive("b", stamps(2, (y, 1, 1), (x, 2, 2), count=2, promise=3))) == []
    a.receive("x", data(2, "x", 2))
    assert delivered(a.receive("b", Decide(3, (2, 0), Value("b", ((y, 1),))))) == [y, x]


def test_with_equal_sequence_numbers_the_names_decide() -> None:
    first, second = message("x", 1), message("x", 2)
    a = hand("a")
    a.receive("x", data(1, "x", 2))
    a.receive("x", data(2, "x", 1))
    a.receive("b", stamps(1, (second, 1, 5), (first, 2, 6), count=2, promise=9))
    assert delivered(a.receive("b", Decide(2, (1, 0), Value("b", ((second, 5), (first, 5)))))) == [first, second]


def test_a_history_with_a_gap_does_not_count() -> None:
    x, y = message("x", 1), message("x", 2)
    a = hand("a")
    a.receive("x", data(1, "x", 1))
    a.receive("b", Decide(1, (1, 0), Value("b", ((x, 2),))))
    # The second entry came, the first is under way.
    assert delivered(a.receive("b", stamps(3, (x, 2, 2), count=2, promise=3))) == []
    assert delivered(a.receive("b", stamps(2, (y, 1, 1)))) == []
    a.receive("x", data(4, "x", 2))
    assert delivered(a.receive("b", Decide(5, (2, 0), Value("b", ((y, 9),))))) == [x]


def test_a_decision_waits_for_its_message() -> None:
    x = message("x", 1)
    a = hand("a")
    a.receive("b", Decide(1, (1, 0), Value("b", ((x, 2),))))
    a.receive("b", stamps(2, (x, 1, 2), count=1, promise=3))
    effects = a.receive("x", data(1, "x", 1))
    assert delivered(effects) == [x]
    logged = next(at for at, e in enumerate(effects) if isinstance(e, Append) and isinstance(e.record, Delivered))
    assert logged < next(at for at, e in enumerate(effects) if isinstance(e, Deliver))


def test_a_history_brings_the_bodies_that_perhaps_nobody_else_has() -> None:
    x, y = message("x", 1), message("x", 2)
    a = hand("a")
    a.receive("x", data(1, "x", 2))
    effects = a.receive("b", Decide(1, (1, 0), Value("b", ((x, 4),))))
    histories = [packet for _, packet in sent(effects) if isinstance(packet, History)]
    assert [(history.promise, history.count) for history in histories] == [(4, 1)]
    assert [body.message for body in histories[0].bodies] == [y]
    # Whoever gets it that way takes it as R-delivered.
    c = hand("c")
    assert "Stamps" in kinds(c.receive("a", histories[0]))


def test_a_history_has_no_bodies_of_what_a_majority_has() -> None:
    x, y = message("x", 1), message("x", 2)
    a = hand("a")
    a.receive("x", data(1, "x", 2))
    a.receive("c", stamps(1, (y, 1, 1)))
    effects = a.receive("b", Decide(1, (1, 0), Value("b", ((x, 4),))))
    assert [packet.bodies for _, packet in sent(effects) if isinstance(packet, History)] == [()]


def test_a_letter_about_an_unknown_message_is_confirmed_when_the_message_is_here() -> None:
    a = hand("a")
    a.receive("b", stamps(1, (message("x", 1), 1, 1)))
    assert a.core.branches["deferred"] == 1
    a.receive("x", data(1, "x", 1))
    assert {to for to, packet in sent(a.step(TimerFired("link-receipt")))} == {("b",), ("x",)}


def test_whoever_hears_of_a_message_asks_for_it() -> None:
    a = hand("a")
    a.receive("b", stamps(1, (message("x", 1), 1, 1)))
    assert kinds(a.step(TimerFired("want"))) == ["Want"]


def test_after_a_crash_deliveries_are_replayed_and_timestamps_are_as_before() -> None:
    x = message("x", 1)
    a = hand("a")
    a.receive("x", data(1, "x", 1))
    a.receive("b", stamps(1, (x, 1, 7), count=1, promise=9))
    assert delivered(a.receive("b", Decide(2, (1, 0), Value("b", ((x, 7),))))) == [x]
    a.receive("x", data(3, "x", 2))
    records = tuple(effect.record for effect in a.log)
    again = hand("a", incarnation=1)
    effects = again.step(Recovered(records))
    assert [effect.multicast.message for effect in effects if isinstance(effect, Replay)] == [x]
    assert delivered(effects) == []
    core, before = again.core, a.core
    assert isinstance(core, Scalatom)
    assert isinstance(before, Scalatom)
    assert core.entries[message("x", 2)].timestamp == before.entries[message("x", 2)].timestamp
    assert core.ordering.clock >= before.ordering.clock
    assert "CatchUp" in kinds(effects)


def test_after_a_crash_a_participant_knows_what_it_has_adopted_and_which_rounds_it_has_left() -> None:
    """Else a coordinator decides with its help, and another one something else."""
    x = message("x", 1)
    value = Value("a", ((x, 7),))
    b = hand("b")
    assert kinds(b.receive("a", Propose(1, (1, 0), 0, value))) == ["Ack"]
    second = hand("b", incarnation=1)
    second.step(Recovered(tuple(effect.record for effect in b.log)))
    effects = second.receive("c", Collect(1, (1, 0), 2, x))
    told = [(packet.adopted, packet.value) for _, packet in sent(effects) if isinstance(packet, Estimate)]
    assert told == [(0, value)]
    third = hand("b", incarnation=2)
    third.step(Recovered(tuple(effect.record for effect in (*b.log, *second.log))))
    other = Value("a", ((x, 9),))
    assert kinds(third.receive("a", Propose(2, (1, 0), 1, other))) == []
    assert kinds(third.receive("c", Propose(2, (1, 0), 2, other))) == ["Ack"]


def test_a_checkpoint_holds_what_the_records_amount_to() -> None:
    x = message("x", 1)
    a = hand("a")
    a.receive("x", data(1, "x", 1))
    a.receive("b", stamps(1, (x, 1, 7), count=1, promise=9))
    a.receive("b", Decide(2, (1, 0), Value("b", ((x, 7),))))
    a.receive("x", data(3, "x", 2))
    state = a.core.checkpoint_state()
    again = hand("a", incarnation=1)
    assert not [effect for effect in again.step(Recovered((), state)) if isinstance(effect, Replay)]
    assert again.core.checkpoint_state() == state


def test_a_history_is_in_order_after_a_crash_however_the_messages_were_heard_of() -> None:
    a = hand("a")
    a.receive("b", stamps(1, (message("x", 2), 1, 1)))
    a.receive("x", data(1, "x", 1))
    a.receive("x", data(2, "x", 2))
    again = hand("a", incarnation=1)
    again.step(Recovered((), a.core.checkpoint_state()))
    assert isinstance(again.core, Scalatom)
    assert [entry.timestamp for entry in again.core.histories._own.values()] == [1, 2]


def test_everything_is_forgotten_when_all_applications_have_it() -> None:
    simulation = simulate(THREE, [], choose=1, settle=5.0)
    assert broken_claims(simulation) == {}
    for site in simulation.sites.values():
        core = site.instances["main"].core
        assert isinstance(core, Scalatom)
        assert not core.entries
        assert not any(peer.kept for peer in core.link.peers.values())


def test_deliveries_that_nobody_expects_to_be_taken_do_no_harm() -> None:
    assert hand("a").step(Consumed(3)) == []


@pytest.mark.parametrize(
    ("sender", "packet"),
    [
        ("b", Stamps(1, (), (), 0, 0)),
        ("b", Stamps(1, (5,), (), 0, 0)),
        ("x", stamps(1, (message("x", 1), 1, 1))),
        ("x", History(1, message("x", 1), 0, 0, ())),
        ("b", Decide(1, (1,), Value("b", ((message("x", 1), 1),)))),
        ("x", Decide(1, (1, 0), Value("b", ((message("x", 1), 1),)))),
        ("b", data(1, "nobody", 1)),
        ("b", data(1, "x", 1, "nowhere")),
        ("b", stamps(1, (message("nobody", 1), 1, 1))),
    ],
)
def test_garbage_is_refused(sender: str, packet: Any) -> None:
    with pytest.raises(WireError):
        hand("a").receive(sender, packet)


def test_the_application_hears_for_whom_a_message_waits() -> None:
    a = hand("a")
    a.receive("x", data(1, "x", 1))
    reasons = [effect.reason for _ in range(3) for effect in a.step(TimerFired("watch")) if isinstance(effect, Blocked)]
    assert reasons == ["x:0:1 has no timestamp from b, c"]
