"""Three steps: what it costs, what it keeps in order, and what happens when the one that orders is gone."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from ordercast.campaign import run_seed
from ordercast.check import judge
from ordercast.core import Multicast, UsageError
from ordercast.core.effects import Append, Credit, SetTimer
from ordercast.core.events import Consumed, MulticastRequested, Recovered, TimerFired
from ordercast.protocols.parts.kept_packets import Settled
from ordercast.protocols.parts.multicast import Data
from ordercast.protocols.parts.primary_packets import Collect, Place, Promise, Start
from ordercast.protocols.three_step import ThreeStep, ThreeStepOptions
from ordercast.protocols.three_step.entries import Entries
from ordercast.protocols.three_step.ordering import Ordering
from ordercast.protocols.three_step.packets import Accepted, Answer, Ask, Delivered, Placed, Propose, Taken, Told, Word
from ordercast.protocols.three_step.speaking import NEXT_SECONDS, WORD_SECONDS
from ordercast.sim import Simulation
from ordercast.sim.faults import Crash, Cut, Fault, Loss, Partition
from ordercast.sim.networks import PointToPoint
from ordercast.sim.workload import Workload
from tests.protocols.classic_runs import Hand, delivered, sent
from tests.protocols.three_step_runs import (
    ABC,
    PAIRWISE,
    L,
    data,
    groups_of,
    hand,
    message,
    packets,
    propose,
    rows_of,
    simulate,
    steps,
)


def broken(simulation: Simulation) -> dict[str, str]:
    verdicts = judge(simulation.header(), simulation.table())
    return {
        each.property: each.first.why
        for each in verdicts.values()
        if each.claimed and each.verdict == "violated" and each.first is not None
    }


def alone(groups: dict[str, tuple[str, ...]], source: str = "x") -> Simulation:
    """One message to all groups, and nothing else."""
    return simulate(groups, [], sources=(source,), count=1, duration=1.0, settle=1.0).execute()


# ---------------------------------------------------------------------- costs
@pytest.mark.parametrize(("count", "size"), [(2, 3), (3, 3), (2, 5), (3, 4)])
def test_a_message_to_several_cells_takes_three_steps_at_every_destination(count: int, size: int) -> None:
    taken = steps(alone(groups_of(count, size)))
    assert len(taken) == count * size
    assert set(taken.values()) == {3.0}


def test_in_one_cell_of_three_the_primary_needs_three_steps_and_the_others_two() -> None:
    assert steps(alone(ABC)) == {"a": 3.0, "b": 2.0, "c": 2.0}


def test_in_one_cell_of_four_half_of_it_is_a_quorum_and_the_others_need_two_steps() -> None:
    """Howard, Malkhi, Spiegelman (2016): what two have accepted meets every majority that reports for a later start."""
    assert steps(alone({"g": tuple("abcd")})) == {"a": 3.0, "b": 2.0, "c": 2.0, "d": 2.0}


def test_in_one_cell_of_five_everyone_needs_three_steps() -> None:
    assert set(steps(alone({"g": tuple("abcde")})).values()) == {3.0}


def test_it_takes_one_step_less_where_the_source_is_the_primary() -> None:
    assert steps(alone(ABC, "a")) == {"a": 2.0, "b": 1.0, "c": 1.0}


@pytest.mark.parametrize(("count", "size"), [(1, 3), (1, 4), (1, 5), (2, 3), (3, 3), (2, 5), (3, 4)])
def test_a_message_takes_d_squared_packets_without_words_between_followers_of_cells_of_three_and_four(
    count: int, size: int
) -> None:
    """All timestamps are equal here: no cell is below the highest."""
    d, k = count * size, count
    counted = packets(alone(groups_of(count, size)))
    left_out = k * (size - 1) * (size - 2) if size <= 4 else 0
    assert counted == {"Data": d, "Propose": k * (d - 1), "Word": (d - k) * (d - 1) - left_out}
    assert counted.total() == d * d - left_out


def test_a_source_inside_saves_one_packet() -> None:
    counted = packets(alone(groups_of(2, 5), "s01"))
    assert counted.total() == 10 * 10 - 1


def test_a_cell_below_the_highest_timestamp_hears_its_primary_once_more() -> None:
    """Three messages to the first group raise its clock, before one is sent to both."""
    workloads = [
        Workload(sources=("x",), groups=("g0",), rate=10.0, count=3, arrivals="regular"),
        Workload(sources=("x",), groups=("g0", "g1"), rate=1.0, count=1, start=1.0, arrivals="regular"),
    ]
    network = PointToPoint(processing=0.0, latency=L)
    simulation = Simulation(
        ThreeStep, groups_of(2, 5), network, workloads=workloads, duration=3.0, settle=1.0
    ).execute()
    last = max(rows_of(simulation, "multicast"), key=lambda row: row["time"])["message"]
    served = Counter(row["packet"] for row in rows_of(simulation, "send") if last in (row["messages"] or ()))
    assert served.total() == 10 * 10 + (5 - 1)


def test_under_load_no_delivery_takes_longer_than_five_packet_delays() -> None:
    groups = groups_of(3, 3)
    simulation = simulate(
        groups, [], sources=("x", "s00", "s11"), choose=2, rate=60.0, count=150, duration=4.0
    ).execute()
    begun = {row["message"]: row["time"] for row in rows_of(simulation, "multicast")}
    delays = [(row["time"] - begun[row["message"]]) / L for row in rows_of(simulation, "deliver")]
    assert max(delays) <= 5.001
    assert broken(simulation) == {}


def test_a_small_message_goes_to_the_primary_which_sends_it_on_with_its_place() -> None:
    b, a = hand("b"), hand("a")
    mine = message("b", 1)
    ((to, first),) = sent(b.step(MulticastRequested(Multicast(mine, ("g",)))))
    assert to == ("a",)
    assert isinstance(first, Data)
    said = sent(a.receive("b", first))
    assert said == [(("b", "c"), Placed(first, 0, 1, 1, False))], "as it came: with its floor"
    ((to, second),) = sent(a.step(MulticastRequested(Multicast(message("a", 1), ("g",)))))
    assert (to, type(second), second.served()) == (("b", "c"), Placed, (message("a", 1),)), "its own in one packet, too"


def placed(source: str, number: int, place: int, timestamp: int, epoch: int = 0) -> Placed:
    return Placed(data(source, number), epoch, place, timestamp, False)


@pytest.mark.parametrize("members", ["abc", "abcd"])
def test_a_small_message_that_comes_with_the_next_place_is_delivered_at_once(members: str) -> None:
    groups = {"g": tuple(members)}
    for site in members[1:]:
        follower = Hand(ThreeStep, site, groups, tuple(members))
        effects = follower.receive("a", placed("a", 1, 1, 1))
        assert delivered(effects) == [message("a", 1)]
        assert [type(effect.record) for effect in effects if isinstance(effect, Append)] == [Accepted, Delivered]
        assert sent(effects) == [], "the word may wait for others of this turn"
        mine = follower.multicast("g")
        assert delivered(follower.receive("a", Placed(data(site, 1), 0, 2, 2, False))) == [mine], "its own, too"
        words = [packet for _, packet in sent(follower.step(TimerFired("turn"))) if isinstance(packet, Word)]
        assert words == ([Word(0, 2, 2, (mine,))] if site == "b" else []), "one for both, from the one that is to speak"


def test_a_small_message_to_a_cell_of_one_is_delivered_at_once() -> None:
    a = Hand(ThreeStep, "a", {"o": ("a",)}, ("a", "x"))
    assert delivered(a.step(MulticastRequested(Multicast(message("a", 1), ("o",))))) == [message("a", 1)]


def test_a_message_with_a_place_waits_for_what_stands_before_it() -> None:
    b = hand("b")
    assert delivered(b.receive("a", placed("a", 2, 2, 2))) == []
    b.receive("a", placed("a", 1, 1, 1))
    assert delivered(b.step(TimerFired("turn"))) == [message("a", 1), message("a", 2)]


def test_a_message_with_a_place_of_an_epoch_that_is_over_is_not_accepted() -> None:
    """p accepts place 1 of epoch 0 after it has promised 1: fixed in 0, and not in the start of 1."""
    c = hand("c")
    c.receive("b", Collect(1))
    assert delivered(c.receive("a", placed("a", 1, 1, 1))) == []
    assert delivered(c.step(TimerFired("turn"))) == []


def test_a_message_with_a_place_waits_in_a_cell_where_two_are_no_quorum() -> None:
    b = Hand(ThreeStep, "b", {"g": tuple("abcde")}, tuple("abcde"))
    b.receive("a", placed("a", 1, 1, 1))
    assert delivered(b.step(TimerFired("turn"))) == []
    assert delivered(b.receive("c", Word(0, 1, 1, (message("a", 1),)))) == [message("a", 1)]


def test_a_message_with_a_place_waits_for_one_of_several_cells_before_it() -> None:
    groups = {"g": ("a", "b", "c"), "h": ("d",)}
    b = Hand(ThreeStep, "b", groups, ("a", "b", "c", "d", "x"))
    b.receive("x", data("x", 1, "g", "h"))
    b.receive("a", propose(0, (1, message("x", 1), 1), cells=(0, 1)))
    b.step(TimerFired("turn"))
    assert delivered(b.receive("a", placed("a", 1, 2, 2))) == [], "its number may be the lower one"
    b.receive("d", propose(0, (1, message("x", 1), 1), cells=(0, 1)))
    assert delivered(b.step(TimerFired("turn"))) == [message("x", 1), message("a", 1)]


@pytest.mark.parametrize("members", ["abc", "abcd"])
def test_one_follower_speaks_at_once_and_the_words_of_the_others_wait(members: str) -> None:
    groups = {"g": tuple(members)}
    for site in members[1:]:
        follower = Hand(ThreeStep, site, groups, (*members, "x"))
        for number in (1, 2):
            follower.receive("x", data("x", number))
            follower.receive("a", propose(0, (number, message("x", number), number)))
            effects = follower.step(TimerFired("turn"))
            assert delivered(effects) == [message("x", number)]
            words = [packet for _, packet in sent(effects)]
            assert words == ([Word(0, number, number, (message("x", number),))] if site == "b" else [])
            assert (SetTimer("word", WORD_SECONDS) in effects) is (site != "b" and number == 1)
        late = sent(follower.step(TimerFired("word")))
        assert late == ([] if site == "b" else [(("a",), Word(0, 2, 2, (message("x", 2),)))]), "one for both"


def test_all_speak_at_once_when_the_next_one_is_silent() -> None:
    """(Else: b is down, and a delivers everything later by the time that the words of the others wait.)"""
    a, c = hand("a"), hand("c")

    def proposed(number: int, now: float) -> Propose:
        a.now = now
        a.receive("x", data("x", number))
        ((_, packet),) = sent(a.step(TimerFired("turn")))
        assert isinstance(packet, Propose)
        return packet

    assert not proposed(1, 1.0).all_speak
    asking = proposed(2, 1.0 + 2 * NEXT_SECONDS)
    assert asking.all_speak, "b has not said that it has the first place"
    a.receive("b", Word(0, 2, 2, ()))
    assert not proposed(3, 1.0 + 4 * NEXT_SECONDS).all_speak
    c.receive("x", data("x", 1))
    c.receive("x", data("x", 2))
    c.receive("a", propose(0, (1, message("x", 1), 1)))
    c.receive("a", asking)
    assert sent(c.step(TimerFired("turn"))) == [(("a",), Word(0, 2, 2, (message("x", 2),)))]


def test_a_large_message_and_one_from_outside_go_to_all_by_themselves() -> None:
    b = Hand(ThreeStep, "b", ABC, ("a", "b", "c", "x"), ThreeStepOptions(direct_bytes=1))
    asked = MulticastRequested(Multicast(message("b", 1), ("g",), b"large"))
    assert [to for to, _ in sent(b.step(asked))] == [("a", "c")]
    a = hand("a")
    a.receive("x", data("x", 1))
    assert [type(packet) for _, packet in sent(a.step(TimerFired("turn")))] == [Propose]


def test_a_source_sends_its_message_to_whoever_orders_next() -> None:
    """The old primary may have been the only one that had it."""
    b = hand("b")
    mine = message("b", 1)
    b.step(MulticastRequested(Multicast(mine, ("g",))))
    said = sent(b.receive("c", Start(2, 0, (), 0, None)))
    assert [(to, packet.served()) for to, packet in said if isinstance(packet, Data)] == [(("c",), (mine,))]


# ---------------------------------------------------------------------- flow
def test_a_source_has_its_credit_back_when_it_has_delivered_its_message() -> None:
    a = hand("a")
    mine = a.multicast("g")
    effects = a.receive("b", Word(0, 1, 1, (mine,)))
    assert delivered(effects) == [mine]
    assert Credit(256) in effects, "nobody has said that it has taken it"


def test_credit_that_two_writes_of_the_log_have_held_up_does_not_make_a_source_refuse() -> None:
    """While they last the application uses what it had and what came between, and then what it is told too late."""
    options = ThreeStepOptions(window_messages=2)
    b = Hand(ThreeStep, "b", ABC, ("a", "b", "c", "x"), options)
    for _ in range(4 * options.window_messages):
        b.multicast("g")
    with pytest.raises(UsageError, match="wait for credit"):
        b.multicast("g")


def test_what_was_taken_is_told_with_the_next_words() -> None:
    b = Hand(ThreeStep, "b", ABC, ("a", "b", "c", "x"), ThreeStepOptions(acknowledge_every=1))
    b.receive("x", data("x", 1))
    b.receive("a", propose(0, (1, message("x", 1), 1)))
    assert delivered(b.step(TimerFired("turn"))) == [message("x", 1)]
    assert sent(b.step(Consumed(1))) == []
    b.receive("x", data("x", 2))
    b.receive("a", propose(0, (2, message("x", 2), 2)))
    assert [type(packet) for _, packet in sent(b.step(TimerFired("turn")))] == [Word, Taken, Settled]


def test_what_was_taken_is_told_soon_when_there_are_no_words() -> None:
    b = Hand(ThreeStep, "b", ABC, ("a", "b", "c", "x"), ThreeStepOptions(acknowledge_every=1))
    b.receive("x", data("x", 1))
    b.receive("a", propose(0, (1, message("x", 1), 1)))
    b.step(TimerFired("turn"))
    assert SetTimer("acknowledge", 0.05) in b.step(Consumed(1))
    assert [type(packet) for _, packet in sent(b.step(TimerFired("acknowledge")))] == [Taken, Settled]


def delivers(site: Hand, count: int) -> None:
    """Messages 1 to count of x stand at its places, and are handed to its application."""
    for number in range(1, count + 1):
        site.receive("x", data("x", number))
        site.receive("a", propose(0, (number, message("x", number), 10 * number)))
    assert delivered(site.step(TimerFired("turn"))) == [message("x", number) for number in range(1, count + 1)]


def kept(site: Hand) -> Entries:
    """What it keeps."""
    assert isinstance(site.core, ThreeStep)
    return site.core.entries


def takers(site: Hand) -> list[str]:
    """Whose applications have taken each of these, as far as it knows."""
    assert isinstance(site.core, ThreeStep)
    has_taken = site.core.keeping.has_taken
    return ["".join(s for s in entry.address.sites if has_taken(s, entry)) for entry in site.core.entries.values()]


def answers(site: Hand) -> list[Answer]:
    """What it says to a site of its cell that is back."""
    said = sent(site.receive("c", Ask(0, 0, 0, None, ())))
    return [packet for _, packet in said if isinstance(packet, Answer)]


def test_a_site_that_is_back_hears_how_far_the_applications_of_its_cell_have_come() -> None:
    b = hand("b")
    delivers(b, 3)
    mark = (30, message("x", 3))
    assert answers(b) == [Answer((), mark, None)], "nothing is taken"
    b.step(Consumed(2))
    assert answers(b) == [Answer((), mark, (20, message("x", 2)))]
    b.step(Consumed(1))
    assert answers(b) == [Answer((), mark, mark)]


def test_whoever_has_taken_everything_up_to_a_place_has_settled_what_is_addressed_to_it_up_to_there() -> None:
    b = hand("b")
    delivers(b, 3)
    b.step(Consumed(3))
    entries = kept(b)
    b.receive("c", Answer((), (20, message("x", 2)), (20, message("x", 2))))
    assert takers(b) == ["bc", "bc", "b"]
    b.receive("a", Answer((), (30, message("x", 3)), (20, message("x", 2))))
    assert list(entries) == [message("x", 3)], "delivered there, and not taken"
    b.receive("a", Answer((), (30, message("x", 3)), (30, message("x", 3))))
    b.receive("c", Answer((), (30, message("x", 3)), (30, message("x", 3))))
    assert not entries


def test_what_a_site_has_taken_says_nothing_of_messages_that_are_not_its_own_or_not_final() -> None:
    b = Hand(ThreeStep, "b", {"g": ("a", "b", "c"), "h": ("d",)}, ("a", "b", "c", "d", "x"))
    delivers(b, 1)
    b.receive("x", data("x", 2))
    b.receive("d", Answer((), (70, message("x", 7)), (70, message("x", 7))))
    b.receive("c", Answer((), (70, message("x", 7)), (70, message("x", 7))))
    assert takers(b) == ["c", ""]


def test_what_goes_to_other_cells_too_is_kept_until_their_applications_have_taken_it() -> None:
    b = Hand(ThreeStep, "b", {"g": ("a", "b", "c"), "h": ("d",)}, ("a", "b", "c", "d", "x"))
    b.receive("x", data("x", 1, "g", "h"))
    b.receive("a", propose(0, (1, message("x", 1), 1), cells=(0, 1)))
    b.receive("d", propose(0, (1, message("x", 1), 5), cells=(0, 1)))
    b.step(TimerFired("turn"))
    assert delivered(b.receive("a", Word(0, 1, 5, (message("x", 1),)))) == [message("x", 1)]
    b.step(Consumed(1))
    for site in "ac":
        b.receive(site, Taken((7, message("x", 2))))
    assert takers(b) == ["abc"]
    b.receive("d", Taken((4, message("x", 9))))
    assert takers(b) == ["abc"], "it is behind that"
    b.receive("d", Taken((5, message("x", 1))))
    assert takers(b) == []


def test_whoever_is_back_may_send_at_once_whoever_has_taken_its_messages() -> None:
    """(Else: a window of messages that are delivered, of which a majority has not spoken, holds it up.)"""
    options = ThreeStepOptions(window_messages=2)
    b = Hand(ThreeStep, "b", ABC, ("a", "b", "c", "x"), options)
    mine = [b.multicast("g") for _ in range(2)]
    b.receive("a", propose(0, *((place, name, place) for place, name in enumerate(mine, 1))))
    assert delivered(b.step(TimerFired("turn"))) == mine
    records = tuple(append.record for append in b.log)
    back = Hand(ThreeStep, "b", ABC, ("a", "b", "c", "x"), options, 1)
    effects = back.step(Recovered(records))
    assert [effect for effect in effects if isinstance(effect, Credit)][-1] == Credit(2)


def test_a_start_is_looked_at_when_the_last_body_has_come_and_not_with_every_one() -> None:
    """(Else: who is back after some seconds of full load lacks twenty thousand, and does nothing else for minutes.)"""
    b = hand("b")
    assert isinstance(b.core, ThreeStep)
    ordering = b.core.ordering
    looked: list[int] = []

    class Watched(Ordering):
        def has_bodies(self, holder: str, places: tuple[Place, ...]) -> bool:
            looked.append(len(places))
            return super().has_bodies(holder, places)

    ordering.__class__ = Watched
    b.receive("a", Start(3, 0, tuple(Place(message("x", n), n) for n in range(1, 501)), 500))
    for number in range(500, 0, -1):
        assert ordering.count == 0
        b.receive("x", data("x", number))
    assert ordering.count == 500
    assert looked == [500, 500]


def test_whoever_asks_about_much_is_sent_the_start_ever_more_seldom() -> None:
    """(Else: who is back with thousands of messages in its log gets all places of the epoch with every answer.)"""
    a = hand("a")
    assert isinstance(a.core, ThreeStep)

    def starts(epoch: int) -> int:
        return [type(packet) for _, packet in sent(a.receive("b", Ask(epoch, 0, 0, None, ())))].count(Start)

    for epoch in (3, 6):
        a.receive("c", Collect(epoch))
        a.receive("b", Promise(epoch, 0, 0, (), 0))
        told = []
        for _ in range(24):
            told.append((starts(epoch), starts(epoch)))
            if a.core.watching.is_needed():
                a.step(TimerFired("watch"))
        assert [index for index, each in enumerate(told) if each != (0, 0)] == [0, 1, 3, 7, 15, 23], epoch
        assert {each for each in told if each != (0, 0)} == {(1, 0)}


def test_whoever_is_answered_asks_on_about_what_the_other_has_not_taken() -> None:
    """(Else: who cannot deliver yet asks about the same 128 messages as fast as it is answered.)"""
    b = hand("b")
    for number in range(1, 201):
        b.receive("x", data("x", number))
    for _ in range(2):
        b.step(TimerFired("watch"))

    def asks_on(first: int) -> list[int]:
        told = tuple(Told(message("x", number), 0, True) for number in range(first, first + 128))
        said = sent(b.receive("c", Answer(told, None, None)))
        return [asked.message.number for _, packet in said if isinstance(packet, Ask) for asked in packet.asked]

    assert asks_on(1) == list(range(129, 201))
    assert asks_on(73) == []


def test_whoever_lacks_many_places_is_sent_all_of_them() -> None:
    a = hand("a")
    for number in range(1, 601):
        a.receive("x", data("x", number))
    a.step(TimerFired("turn"))
    few = [packet for _, packet in sent(a.receive("b", Ask(0, 0, 500, None, ())))]
    assert [len(packet.proposals) for packet in few if isinstance(packet, Propose)] == [64]

    def starts(count: int) -> list[int]:
        said = [packet for _, packet in sent(a.receive("b", Ask(0, 0, count, None, ())))]
        return [len(packet.places) for packet in said if isinstance(packet, Start)]

    assert starts(10) == [], "it may only be slow"
    assert starts(20) == [], "as it is"
    assert starts(20) == [600]


def test_the_word_by_which_a_majority_has_a_message_delivers_it_and_no_other_word_begins_a_turn() -> None:
    a = Hand(ThreeStep, "a", {"g": tuple("abcde")}, tuple("abcdex"))
    mine = a.multicast("g")
    assert a.receive("b", Word(0, 1, 1, (mine,))) == [], "two of five"
    assert delivered(a.receive("c", Word(0, 1, 1, (mine,)))) == [mine]
    assert a.receive("d", Word(0, 1, 1, (mine,))) == [], "four of five"


# ---------------------------------------------------------------------- order
def test_three_groups_that_overlap_pairwise_are_in_one_order() -> None:
    faults: list[Fault] = [Loss(rate=0.2, from_=1.0, to=5.0), Crash(from_=2.0, to=3.0, sites=("2",))]
    simulation = simulate(PAIRWISE, faults, sources=("1", "3", "5", "x"), choose=1).execute()
    assert broken(simulation) == {}
    assert len(rows_of(simulation, "deliver")) > 150


@pytest.mark.campaign
def test_any_layout_of_groups_is_in_one_acyclic_order() -> None:
    """A hundred of them, with losses."""
    for seed in range(100):
        random = Random(seed)
        sites = tuple("abcdefgh"[: random.randint(3, 8)])
        groups = {
            name: tuple(sorted(random.sample(sites, random.randint(1, len(sites)))))
            for name in "ghijk"[: random.randint(1, 5)]
        }
        simulation = simulate(
            groups,
            [Loss(rate=0.1, from_=0.2, to=1.5)],
            sources=(*random.sample(sites, 2), "x"),
            choose=random.randint(1, len(groups)),
            rate=20.0,
            count=5,
            seed=seed,
            duration=1.5,
            settle=5.0,
        ).execute()
        assert broken(simulation) == {}, groups


# ---------------------------------------------------------------------- without the one that orders
def stall(simulation: Simulation, since: float, sites: tuple[str, ...]) -> float:
    """Seconds from then on until each of these sites has delivered something that was multicast later."""
    later = {row["message"] for row in rows_of(simulation, "multicast") if row["time"] > since}
    first: dict[str, float] = {}
    for row in rows_of(simulation, "deliver"):
        if row["message"] in later:
            first.setdefault(row["site"], row["time"])
    return max(first[site] for site in sites) - since


@pytest.mark.parametrize("primary", ["a", "b", "c"])
def test_three_sites_go_on_without_any_one_of_them(primary: str) -> None:
    faults: list[Fault] = [Crash(from_=2.0, forever=True, sites=(primary,))]
    simulation = simulate(ABC, faults, rate=50.0, count=200).execute()
    others = tuple(site for site in "abc" if site != primary)
    assert broken(simulation) == {}
    options = ThreeStepOptions()
    patience = options.suspicion_seconds + 2 * options.ping_seconds
    assert stall(simulation, 2.0, others) <= (patience + 4 * L + 0.05 if primary == "a" else 5 * L)


def test_two_primaries_in_a_row_are_lost_and_five_sites_go_on() -> None:
    faults: list[Fault] = [
        Crash(from_=2.0, forever=True, sites=("a",)),
        Crash(from_=2.0, forever=True, sites=("b",)),
    ]
    simulation = simulate({"g": tuple("abcde")}, faults, rate=50.0, count=200).execute()
    assert broken(simulation) == {}
    assert simulation.branches["two-lost-in-a-row"]
    assert len({row["message"] for row in rows_of(simulation, "deliver") if row["site"] == "e"}) == 200


def test_one_site_that_cannot_hear_the_primary_does_not_force_an_epoch_on_the_others() -> None:
    faults: list[Fault] = [Cut(peers=("c",), from_=1.0, to=4.0, sites=("a",))]
    simulation = simulate(ABC, faults, rate=50.0, count=200).execute()
    assert broken(simulation) == {}
    assert simulation.branches["doubt-refused"]
    assert not simulation.branches["promised"]


def test_whoever_was_cut_off_for_longer_than_everything_was_kept_is_called_back() -> None:
    """It lacks nothing of which it has ever heard, so it asks for nothing."""
    options = ThreeStepOptions(kept_messages_max=16, window_messages=8)
    cut_off: list[Fault] = [Partition(parts=(("c",),), from_=1.0, to=6.0)]
    simulation = simulate(ABC, cut_off, options, rate=40.0, count=160).execute()
    assert broken(simulation) == {}
    assert simulation.branches["given-up"]
    assert simulation.branches["called-back"]
    (entry,) = (row for row in rows_of(simulation, "join") if row["site"] == "c" and row["time"] > 1.0)
    assert entry["time"] < 6.0 + 2 * options.blocked_seconds


def test_a_cell_without_a_majority_blocks_its_messages_and_those_behind_and_others_go_on() -> None:
    groups = groups_of(2, 3)
    faults: list[Fault] = [Crash(from_=1.0, to=4.0, sites=("s00", "s01"))]
    simulation = simulate(groups, faults, sources=("x", "y"), choose=1, rate=40.0, count=200).execute()
    assert broken(simulation) == {}
    while_down = [row for row in rows_of(simulation, "deliver") if 1.5 < row["time"] < 3.9]
    assert {row["site"] for row in while_down} == {"s10", "s11", "s12"}
    assert simulation.branches["blocked"]
    assert simulation.branches["unblocked"]


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(367, id="wanted-for-a-start-and-then-skipped"),
        pytest.param(582, id="final-before-it-was-fixed"),
        pytest.param(773, id="watched-at-the-bound-and-over-before-the-next-look"),
        pytest.param(2089, id="named-by-a-start-and-over-before-it-came"),
    ],
)
def test_what_is_over_is_neither_asked_for_nor_kept_for_ever(seed: int) -> None:
    assert run_seed(ThreeStep, seed).outcome.violations == ()
