"""The message passing protocol of the propagation graph: single steps by hand, then whole runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random

import pytest

from ordercast.core import Context, MessageId, Multicast, Options, UsageError, WireError
from ordercast.core.effects import Blocked, Checkpoint, Credit, Deliver, Effect, Replay
from ordercast.core.events import Consumed, MulticastRequested, Received, Recovered, Started, TimerFired
from ordercast.protocols import find_protocol
from ordercast.protocols.propagation_graph import PropagationGraph, PropagationGraphOptions
from ordercast.protocols.propagation_graph.contract import RELAXED_BRANCHES
from ordercast.protocols.propagation_graph.packets import Acknowledge, Forward, Held, Null, Request, Submit
from ordercast.protocols.propagation_graph.records import State
from ordercast.protocols.propagation_graph.repair import HELD_LOOKS_MAX
from ordercast.protocols.propagation_graph.roles import ROLES
from ordercast.sim import Simulation
from ordercast.sim.faults import Crash
from ordercast.sim.networks import PointToPoint
from ordercast.sim.workload import Workload
from tests.protocols.classic_runs import Hand, branches_never_taken, broken_claims, delivered, random_run, sent
from tests.support import run_python

GROUPS: Mapping[str, tuple[str, ...]] = {
    "g": ("a", "b", "c"),
    "h": ("b", "c", "d"),
    "i": ("y", "z"),
}
"""b is above a, c and d; y above z; x is in no group."""
SITES = ("a", "b", "c", "d", "x", "y", "z")


def hand(site: str, **options: object) -> Hand:
    made = Hand(PropagationGraph, site, GROUPS, SITES, PropagationGraphOptions(**options))  # type: ignore[arg-type]
    made.step(Started())
    return made


def message(source: str, number: int, *groups: str) -> Multicast:
    return Multicast(MessageId(source, 0, number), groups, b"m")


# ---------------------------------------------------------------------- the way of a message
def test_a_source_outside_all_groups_submits_to_the_primary_destination() -> None:
    source = hand("x")
    effects = source.step(MulticastRequested(message("x", 1, "g")))
    assert sent(effects) == [(("b",), Submit(1, message("x", 1, "g")))]


def test_the_primary_destination_numbers_each_edge_and_sends_one_message_to_all_children() -> None:
    root = hand("b")
    assert sent(root.receive("x", Submit(1, message("x", 1, "h")))) == [
        (("c", "d"), Forward((1, 1), message("x", 1, "h")))
    ]
    effects = root.receive("x", Submit(2, message("x", 2, "g")))
    assert sent(effects) == [(("a", "c"), Forward((1, 2), message("x", 2, "g")))]
    assert delivered(effects) == [message("x", 2, "g").id]


def test_a_primary_destination_that_multicasts_takes_its_own_message_at_once() -> None:
    effects = hand("b").step(MulticastRequested(message("b", 1, "g")))
    assert delivered(effects) == [message("b", 1, "g").id]
    assert [to for to, _ in sent(effects)] == [("a", "c")]


def test_what_comes_out_of_sequence_waits_and_the_gap_is_asked_for() -> None:
    child = hand("c")
    first, second = message("x", 1, "h"), message("x", 2, "g")
    early = child.receive("b", Forward((1, 2), second))
    assert delivered(early) == []
    assert sent(early) == [(("b",), Request(((1, 1),)))]
    assert delivered(child.receive("b", Forward((1, 1), first))) == [first.id, second.id]
    assert delivered(child.receive("b", Forward((1, 1), first))) == []


def test_each_receiver_finds_its_own_number() -> None:
    child = hand("d")
    assert delivered(child.receive("b", Forward((7, 1), message("x", 1, "h")))) == [message("x", 1, "h").id]


def test_a_message_to_groups_of_two_trees_enters_at_the_first_root_and_crosses_over() -> None:
    address = ("g", "i")
    assert sent(hand("x").step(MulticastRequested(message("x", 1, *address))))[0][0] == ("b",)
    effects = hand("b").receive("x", Submit(1, message("x", 1, *address)))
    assert [to for to, _ in sent(effects)] == [("y", "a", "c")]
    other = hand("y").receive("b", Forward((1, 1, 1), message("x", 1, *address)))
    assert [to for to, _ in sent(other)] == [("z",)]
    assert delivered(other) == [message("x", 1, *address).id]


def test_an_extra_node_sends_on_and_delivers_nothing() -> None:
    groups = {"g": ("a", "b"), "h": ("b", "c"), "i": ("a", "c")}
    middle = Hand(PropagationGraph, "b", groups, ("a", "b", "c"))
    middle.step(Started())
    effects = middle.receive("a", Forward((1,), message("a", 1, "i")))
    assert delivered(effects) == []
    assert sent(effects) == [(("c",), Forward((1,), message("a", 1, "i")))]


# ---------------------------------------------------------------------- what is lost
def test_what_nobody_acknowledges_is_announced_and_sent_again_when_asked_for() -> None:
    root = hand("b")
    root.receive("x", Submit(1, message("x", 1, "g")))
    assert sent(root.step(TimerFired("look"))) == []
    assert sent(root.step(TimerFired("look"))) == [(("a",), Null(1)), (("c",), Null(1))]
    assert sent(root.receive("c", Request(((1, 5),)))) == [(("c",), Forward((1, 1), message("x", 1, "g")))]
    root.receive("c", Acknowledge(1))
    assert sent(root.step(TimerFired("look"))) == [(("a",), Null(1))]
    root.receive("a", Acknowledge(1))
    assert root.step(TimerFired("look")) == []


def test_a_null_is_answered_by_a_request_or_by_an_acknowledgement() -> None:
    child = hand("c")
    assert sent(child.receive("b", Null(2))) == [(("b",), Request(((1, 2),)))]
    assert sent(child.receive("b", Null(2))) == [(("b",), Request(((1, 2),)))]
    assert sent(child.step(TimerFired("ask"))) == [(("b",), Request(((1, 2),)))]
    child.receive("b", Forward((1, 1), message("x", 1, "g")))
    child.receive("b", Forward((2, 2), message("x", 2, "g")))
    assert sent(child.receive("b", Null(2))) == [(("b",), Acknowledge(2))]


def test_a_site_says_who_does_not_answer_until_it_does() -> None:
    root = hand("b", blocked_seconds=0.2)
    root.receive("x", Submit(1, message("x", 1, "g")))
    blocked: list[Effect] = []
    for _ in range(4):
        blocked += [effect for effect in root.step(TimerFired("look")) if isinstance(effect, Blocked)]
    assert [effect.reason for effect in blocked if isinstance(effect, Blocked)] == [
        "a does not answer",
        "c does not answer",
    ]
    assert Blocked("a", "") in root.receive("a", Acknowledge(1))
    assert root.core.obstacle("c") == "c does not answer"
    assert Blocked("c", "") in root.receive("c", Acknowledge(1))


# ---------------------------------------------------------------------- bounds
def test_a_full_history_stops_what_would_go_there_and_nothing_else() -> None:
    root = hand("b", history_messages_max=1)
    root.receive("x", Submit(1, message("x", 1, "g")))
    assert sent(root.receive("x", Submit(2, message("x", 2, "g")))) == []
    # d is in h only, but c is in both and has not acknowledged.
    assert sent(root.receive("y", Submit(1, message("y", 1, "h")))) == []
    root.receive("a", Acknowledge(1))
    effects = root.receive("c", Acknowledge(1))
    assert delivered(effects) == [message("x", 2, "g").id]


def test_a_slow_reader_stops_its_site() -> None:
    child = hand("c", reader_messages_max=1)
    child.receive("b", Forward((1, 1), message("x", 1, "g")))
    assert delivered(child.receive("b", Forward((2, 2), message("x", 2, "g")))) == []
    assert sent(child.receive("b", Forward((3, 3), message("x", 3, "g")))) == []
    # It has everything, so it asks for nothing; and acknowledges what it has taken.
    assert sent(child.receive("b", Null(3))) == [(("b",), Acknowledge(1)), (("b",), Held(("c",)))]
    assert child.core.obstacle("reader") == "the application of c has not taken what is delivered"
    assert delivered(child.step(Consumed(1))) == [message("x", 2, "g").id]


def test_bytes_are_bounded_as_well_as_messages() -> None:
    root = hand("b", history_bytes_max=1)
    root.receive("x", Submit(1, message("x", 1, "g")))
    root.step(Consumed(1))
    assert sent(root.receive("x", Submit(2, message("x", 2, "g")))) == []
    root.receive("a", Acknowledge(1))
    assert delivered(root.receive("c", Acknowledge(1))) == [message("x", 2, "g").id]


def test_a_site_names_whoever_holds_up_the_next_one_and_the_next_one_when_that_is_silent() -> None:
    source = hand("x", retransmit_seconds=0.1, blocked_seconds=0.2)
    source.multicast("g")
    for _ in range(3):
        source.step(TimerFired("look"))
    assert source.core.obstacle("b") == "g waits for b, which orders it"
    source.receive("b", Held(("c",)))
    assert source.core.obstacle("b") == "b waits for c"
    for _ in range(HELD_LOOKS_MAX):
        source.step(TimerFired("look"))
    assert source.core.obstacle("b") == "b waits for c"
    source.step(TimerFired("look"))
    assert source.core.obstacle("b") == "g waits for b, which orders it"
    source.receive("b", Acknowledge(1))
    assert source.core.obstacle("b") == ""


def test_what_one_answer_cannot_bring_is_asked_for_as_soon_as_the_answer_is_there() -> None:
    child = hand("c")
    assert sent(child.receive("b", Null(100))) == [(("b",), Request(((1, 100),)))]
    requests = []
    for number in range(1, 101):
        requests += [
            packet
            for _, packet in sent(child.receive("b", Forward((number, number), message("x", number, "g"))))
            if isinstance(packet, Request)
        ]
    assert requests == [Request(((65, 100),))]


def test_own_messages_take_credit_until_the_primary_destination_has_them() -> None:
    source = hand("x", window_messages=3)
    for _ in range(2):
        source.multicast("g")
    assert Credit(2) in source.receive("b", Acknowledge(1))
    assert Credit(3) in source.receive("b", Acknowledge(9))


def test_a_primary_destination_never_runs_out_of_credit_for_what_it_takes_at_once() -> None:
    root = hand("b", window_messages=2)
    for number in range(1, 6):
        assert Credit(2) in root.step(MulticastRequested(message("b", number, "g")))


def test_every_site_can_send_more_than_its_window() -> None:
    simulation = Simulation(
        PropagationGraph,
        GROUPS,
        PointToPoint(0.00001, 0.0001),
        options=PropagationGraphOptions(window_messages=2, retransmit_seconds=0.01),
        workloads=[Workload(sources=("a", "b", "x"), groups=("g", "h"), choose=1, rate=100.0, count=40)],
        duration=3.0,
        settle=3.0,
    ).execute()
    kinds = simulation.table().column("kind").to_pylist()
    assert kinds.count("multicast") == 3 * 40
    assert kinds.count("deliver") == 3 * 40 * 3


def test_a_history_that_is_shorter_than_what_is_acknowledged_at_once_does_not_wait_for_timers() -> None:
    simulation = Simulation(
        PropagationGraph,
        GROUPS,
        PointToPoint(0.00001, 0.0001),
        options=PropagationGraphOptions(history_messages_max=3, acknowledge_every=32, retransmit_seconds=10.0),
        workloads=[Workload(sources=("a",), groups=("g",), rate=100.0, count=100)],
        duration=2.0,
        settle=2.0,
    ).execute()
    assert simulation.table().column("kind").to_pylist().count("deliver") == 100 * len(GROUPS["g"])


def test_own_messages_without_room_at_the_primary_destination_wait_in_order() -> None:
    root = hand("b", history_messages_max=1)
    effects = [root.step(MulticastRequested(message("b", number, "g"))) for number in (1, 2, 3)]
    assert [delivered(each) for each in effects] == [[message("b", 1, "g").id], [], []]
    root.receive("a", Acknowledge(1))
    assert delivered(root.receive("c", Acknowledge(1))) == [message("b", 2, "g").id]
    root.receive("a", Acknowledge(2))
    assert delivered(root.receive("c", Acknowledge(2))) == [message("b", 3, "g").id]


# ---------------------------------------------------------------------- what may not be said
@pytest.mark.parametrize(
    ("sender", "packet"),
    [
        ("x", Submit(1, message("y", 1, "g"))),
        ("x", Submit(1, message("x", 1, "i"))),
        ("x", Submit(1, message("x", 1, "nowhere"))),
        ("x", Submit(1, message("x", 1))),
        ("a", Forward((1,), message("x", 1, "g"))),
        ("b", Forward((), message("x", 1, "g"))),
        ("b", Forward((1,), message("x", 1, "nowhere"))),
    ],
)
def test_what_a_site_may_not_say_is_garbage(sender: str, packet: Submit | Forward) -> None:
    site = hand("b" if isinstance(packet, Submit) else "c")
    with pytest.raises(WireError):
        site.receive(sender, packet)


def test_numbers_that_were_never_given_are_not_acknowledged() -> None:
    root = hand("b")
    root.receive("x", Submit(1, message("x", 1, "g")))
    root.receive("a", Acknowledge(1_000))
    root.receive("stranger", Acknowledge(1))
    root.receive("stranger", Request(((1, 1),)))
    assert sent(root.receive("x", Submit(2, message("x", 2, "g"))))[0][1] == Forward((2, 2), message("x", 2, "g"))


# ---------------------------------------------------------------------- crashes
def recover(before: Hand, records: bool = True) -> tuple[Hand, list[Effect]]:
    after = Hand(PropagationGraph, before.core.site, GROUPS, SITES, incarnation=1)
    effects = after.step(Recovered(tuple(entry.record for entry in before.log) if records else ()))
    return after, effects


def test_a_site_that_comes_back_gives_the_same_numbers_to_the_same_messages() -> None:
    root = hand("b")
    root.receive("x", Submit(1, message("x", 1, "h")))
    root.receive("x", Submit(2, message("x", 2, "g")))
    again, effects = recover(root)
    assert [effect.multicast.id.number for effect in effects if isinstance(effect, Replay)] == [1, 2]
    assert sent(effects) == [(("c",), Null(2)), (("d",), Null(1)), (("a",), Null(1))]
    assert sent(again.receive("c", Request(((1, 2),)))) == [
        (("c",), Forward((1, 1), message("x", 1, "h"))),
        (("c",), Forward((1, 2), message("x", 2, "g"))),
    ]
    assert sent(again.receive("x", Submit(3, message("x", 3, "h")))) == [
        (("c", "d"), Forward((3, 2), message("x", 3, "h")))
    ]


def test_a_checkpoint_holds_what_a_log_holds() -> None:
    root = hand("b", history_messages_max=2)
    for number in (1, 2):
        root.receive("x", Submit(number, message("x", number, "h")))
    root.step(MulticastRequested(message("b", 1, "g")))
    root.receive("d", Acknowledge(1))
    state = root.core.checkpoint_state()
    assert isinstance(state, State)
    again = Hand(PropagationGraph, "b", GROUPS, SITES, PropagationGraphOptions(history_messages_max=2), incarnation=1)
    again.step(Recovered((), state))
    assert again.core.checkpoint_state() == state
    again.receive("c", Acknowledge(1))
    assert again.core.own_pending == 0  # type: ignore[attr-defined]


def test_a_log_is_cut_by_checkpoints() -> None:
    root = hand("b")
    effects: list[Effect] = []
    for number in range(1, 700):
        effects += root.receive("x", Submit(number, message("x", number, "g")))
        for child in ("a", "c"):
            effects += root.receive(child, Acknowledge(number))
        effects += root.step(Consumed(1))
    assert sum(isinstance(effect, Checkpoint) for effect in effects) == 1


def test_a_site_that_lost_its_memory_stays_out() -> None:
    context = Context("b", GROUPS, SITES, PropagationGraphOptions(), Random(0), incarnation=1, stable=False)
    core = PropagationGraph(context)
    core.step(0.0, Recovered())
    assert [type(effect) for effect in core.outbox] == [Blocked]
    with pytest.raises(UsageError, match="lost its memory"):
        core.step(0.0, MulticastRequested(message("b", 1, "g")))
    core.outbox.clear()
    core.step(0.0, Received("x", Submit(1, message("x", 1, "g"))))
    assert core.outbox == []


# ---------------------------------------------------------------------- options
def test_preferences_and_parents_make_another_graph() -> None:
    def roots(options: Options) -> tuple[str, ...]:
        context = Context("a", GROUPS, SITES, options, Random(0))
        return PropagationGraph(context).routes.graph.roots

    assert roots(PropagationGraphOptions()) == ("b", "y")
    assert roots(PropagationGraphOptions(prefer=("c", "z"))) == ("c", "z")
    parents = {"b": "x", "a": "b", "c": "b", "d": "x", "y": "x", "z": "y"}
    assert roots(PropagationGraphOptions(parents=parents)) == ("x",)
    with pytest.raises(UsageError, match="no site 'w'"):
        roots(PropagationGraphOptions(parents={"a": "w", "b": "w", "c": "w", "d": "w", "z": "y"}))
    with pytest.raises(UsageError, match="parents replaces it"):
        PropagationGraphOptions(parents=parents, prefer=("a",))
    with pytest.raises(UsageError, match="window"):
        PropagationGraphOptions(window_messages=0)


def test_an_empty_group_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match="group 'h' has no members"):
        Hand(PropagationGraph, "a", {"g": ("a",), "h": ()}, ("a",))


def test_a_live_node_needs_no_laboratory() -> None:
    code = """
import sys
from random import Random
from ordercast.core import Context
from ordercast.protocols import find_protocol
protocol = find_protocol("propagation-graph")
core = protocol(Context("a", {"g": ("a", "b")}, ("a", "b"), protocol.contract.options(), Random(0)))
print(sorted({"networkx", "numpy", "scipy", "pyarrow"} & set(sys.modules)))
"""
    result = run_python(code)
    assert (result.returncode, result.stdout) == (0, "[]\n"), result.stderr


# ---------------------------------------------------------------------- runs
@pytest.mark.campaign
def test_the_guarantees_hold_under_every_fault() -> None:
    taken: Counter[str] = Counter()
    for seed in range(40):
        options = PropagationGraphOptions(
            history_messages_max=2 if seed % 3 == 0 else 4096,
            reader_messages_max=1 if seed % 5 == 0 else 4096,
            window_messages=2 if seed % 4 == 0 else 256,
            blocked_seconds=0.2,
        )
        simulation = random_run(PropagationGraph, seed, options)
        assert broken_claims(simulation) == {}, f"seed {seed}"
        taken += simulation.branches
    of_changes = {branch for role in ROLES for branch in role.branches}
    # Nor those of the form that goes on without failed sites.
    relaxed = {*RELAXED_BRANCHES}
    assert branches_never_taken(PropagationGraph, taken) - relaxed == of_changes - relaxed


def looks(root: Hand, times: int) -> None:
    for _ in range(times):
        root.step(TimerFired("look"))


def test_a_leaf_that_does_not_answer_stops_nobody_and_gets_everything_when_it_is_back() -> None:
    root = hand("y", history_messages_max=2, blocked_seconds=0.2)
    for number in (1, 2):
        root.receive("x", Submit(number, message("x", number, "i")))
    assert delivered(root.receive("x", Submit(3, message("x", 3, "i")))) == []
    looks(root, 2)  # at the first one, nothing is old enough to worry
    assert root.core.branches["leaf-away"] == 0
    looks(root, 1)
    assert root.core.branches["leaf-away"] == 1
    assert delivered(root.receive("x", Submit(4, message("x", 4, "i")))) == [message("x", 4, "i").id]
    # While it catches up, nobody waits for it either.
    root.receive("z", Acknowledge(1))
    assert delivered(root.receive("x", Submit(5, message("x", 5, "i")))) == [message("x", 5, "i").id]
    root.receive("z", Acknowledge(5))
    for number in (6, 7):
        root.receive("x", Submit(number, message("x", number, "i")))
    assert delivered(root.receive("x", Submit(8, message("x", 8, "i")))) == []


def test_for_a_leaf_that_is_away_no_more_is_kept_than_its_bound() -> None:
    root = hand("y", history_messages_max=1, away_bytes_max=3, blocked_seconds=0.1)
    root.receive("x", Submit(1, message("x", 1, "i")))
    looks(root, 3)
    for number in (2, 3):
        assert delivered(root.receive("x", Submit(number, message("x", number, "i"))))
    assert delivered(root.receive("x", Submit(4, message("x", 4, "i")))) == []


def test_an_interior_site_that_does_not_answer_is_waited_for() -> None:
    groups = {"g": ("a", "b"), "h": ("b", "c"), "i": ("a", "c")}
    options = PropagationGraphOptions(history_messages_max=1, blocked_seconds=0.1)
    root = Hand(PropagationGraph, "a", groups, ("a", "b", "c"), options)
    root.step(Started())
    root.receive("c", Submit(1, message("c", 1, "g")))
    looks(root, 3)
    assert root.core.branches["leaf-away"] == 0
    assert root.core.obstacle("b") == "b does not answer: below it, g waits for it"
    assert delivered(root.receive("c", Submit(2, message("c", 2, "g")))) == []


def test_while_a_leaf_is_down_the_others_go_on_and_it_catches_up() -> None:
    simulation = Simulation(
        PropagationGraph,
        {"g": ("a", "b", "c")},
        PointToPoint(0.0001, 0.001),
        options=PropagationGraphOptions(history_messages_max=4, window_messages=4, blocked_seconds=0.2),
        faults=[Crash(from_=1.0, to=9.0, sites=("c",))],
        workloads=[Workload(sources=("b",), groups=("g",), rate=20.0, count=150)],
        duration=10.0,
        settle=5.0,
    ).execute()
    rows = [row for row in simulation.table().to_pylist() if row["kind"] == "deliver" and row["site"] == "b"]
    assert sum(2.0 < row["time"] < 8.0 for row in rows) > 80
    assert broken_claims(simulation) == {}


def test_the_protocol_is_known_by_name() -> None:
    assert find_protocol("propagation-graph") is PropagationGraph


def test_deliveries_name_the_site_from_which_they_came() -> None:
    effects = hand("c").receive("b", Forward((1, 1), message("x", 1, "g")))
    assert [effect.parent for effect in effects if isinstance(effect, Deliver)] == ["b"]
