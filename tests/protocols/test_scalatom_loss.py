"""SCALATOM with a site that has lost its log: it counts for nothing until a majority of its cell, itself not counted,
has told it where they stand, and what it said before is not believed."""

from __future__ import annotations

import msgspec
import pytest

from ordercast.campaign.draw import draw_scenario
from ordercast.core import InvariantViolation, Packet, Protocol
from ordercast.core.effects import Append, Blocked, Checkpoint, DeclareRecovered, Effect, EnterGroup, ExitGroup
from ordercast.core.events import Recovered, Started
from ordercast.protocols.classic.token import Token
from ordercast.protocols.parts.consensus_packets import Ack, Collect, Propose, Value
from ordercast.protocols.scalatom import Scalatom
from ordercast.protocols.scalatom.packets import CatchUp, KnownLoss, Lost, Stamps, State, Summary, Vouch
from ordercast.sim.faults import Crash, Fault, Loss, LostLog
from ordercast.sim.networks import PointToPoint
from ordercast.sim.simulation import Simulation
from ordercast.sim.workload import Workload
from tests.protocols.classic_runs import Hand, broken_claims, sent
from tests.protocols.scalatom_runs import THREE, data, hand, message, simulate, stamps

LIFE = 2
FIVE = {"g": ("a", "b", "c", "d", "e")}


def number(place: int, life: int = LIFE) -> int:
    return (life << 32) + place


def lost(groups: dict[str, tuple[str, ...]] | None = None) -> tuple[Hand, list[Effect]]:
    """A site that finds no log in its second life, and its first step there."""
    c = hand("c", groups, LIFE)
    return c, c.step(Recovered((), None, lost=True))


def core(led: Hand) -> Scalatom:
    assert isinstance(led.core, Scalatom)
    return led.core


def packets(effects: list[Effect], kind: type[Packet]) -> list[Packet]:
    return [packet for _to, packet in sent(effects) if isinstance(packet, kind)]


def vouch(c: Hand, site: str, clock: int, promised: int = 0) -> list[Effect]:
    """A site vouches, and has told everything that it knows."""
    state = core(hand(site)).checkpoint_state()
    c.receive(site, Vouch(1, LIFE, 0, 1, clock, state.mark, (("g", 0),), state.addresses, (), ()))
    question = next(letter for letter in core(c).link.unconfirmed(site) if isinstance(letter, CatchUp))
    return c.receive(site, Summary(2, question.number, 0, True, promised, (), (), None, None))


# ---------------------------------------------------------------------- the lost site
def test_a_lost_site_asks_its_cell_and_says_for_whom_it_waits() -> None:
    c, effects = lost()
    assert [to for to, packet in sent(effects) if isinstance(packet, Lost)] == [("a",), ("b",)]
    reasons = [effect.reason for effect in effects if isinstance(effect, Blocked)]
    assert reasons == ["c has lost its log: it waits for 2 others of its cell to vouch for it, and for any of a, b"]
    assert not [effect for effect in effects if isinstance(effect, DeclareRecovered)]
    effects = vouch(c, "a", 5)
    assert "any of b" in next(effect.reason for effect in effects if isinstance(effect, Blocked))


def test_of_two_sites_none_can_be_given_its_log_back() -> None:
    _c, effects = lost({"g": ("a", "c")})
    (reason,) = [effect.reason for effect in effects if isinstance(effect, Blocked)]
    assert "2 others of its cell would have to vouch for it, and there are not so many" in reason


def test_a_lost_site_outside_all_groups_has_promised_nothing() -> None:
    _c, effects = lost({"g": ("a", "b")})
    assert [effect for effect in effects if isinstance(effect, DeclareRecovered)]


def test_a_lost_site_counts_for_nothing() -> None:
    c, _effects = lost()
    x = message("x", 1)
    for packet in (
        Propose(1, (1, 0), 0, Value("a", ((x, 7),))),
        Collect(2, (1, 0), 1, x),
        stamps(3, (x, 1, 7), count=1, promise=9),
        CatchUp(4, 0, 0),
        data(5, "x", 1),
    ):
        effects = c.receive("a", packet)
        assert not [p for _to, p in sent(effects) if isinstance(p, Ack | Stamps | Summary)], packet
        assert not [e for e in effects if isinstance(e, Append)], packet


def test_its_clock_and_its_history_go_on_above_whatever_it_may_have_used() -> None:
    c, _effects = lost()
    vouch(c, "a", 40)
    effects = vouch(c, "b", 17)
    assert [type(e) for e in effects if isinstance(e, ExitGroup | EnterGroup | DeclareRecovered)] == [
        ExitGroup,
        EnterGroup,
        DeclareRecovered,
    ]
    (checkpoint,) = [effect.state for effect in effects if isinstance(effect, Checkpoint)]
    assert isinstance(checkpoint, State)
    assert checkpoint.lives == (("c", LIFE),)
    (given,) = packets(c.receive("x", data(1, "x", 1)), Stamps)
    assert isinstance(given, Stamps)
    assert given.stamps[0].timestamp > 40
    assert given.stamps[0].index == number(1)
    assert given.lives == (("c", LIFE),)


def test_what_it_may_have_stamped_comes_before_every_promise() -> None:
    """Its message of the life before has the number 4, with a timestamp that it has forgotten; a promise without that
    message would let b go past it."""
    c, _effects = lost()
    c.receive("x", data(1, "x", 1))
    vouch(c, "a", 40)
    effects = vouch(c, "b", 17)
    (given,) = packets(effects, Stamps)
    assert isinstance(given, Stamps)
    assert [stamp.message for stamp in given.stamps] == [message("x", 1)]
    assert given.stamps[0].index == -number(1)
    assert given.promise in (0, given.stamps[0].timestamp)
    assert core(c).histories.lowest == given.stamps[0].timestamp


def test_a_site_that_crashes_half_way_is_as_lost_as_before() -> None:
    c = hand("c", None, LIFE + 1)
    effects = c.step(Recovered((KnownLoss("c", LIFE),), None))
    assert {packet.life for packet in packets(effects, Lost) if isinstance(packet, Lost)} == {LIFE + 1}
    assert core(c).loss.lost


def test_it_does_not_begin_a_consensus_that_it_may_have_begun() -> None:
    c, _effects = lost()
    vouch(c, "a", 40)
    vouch(c, "b", 17)
    ordering = core(c).ordering
    assert not ordering.may_begin((1, 0))
    assert ordering.may_begin((2, 0))


# ---------------------------------------------------------------------- the others
def test_what_a_lost_site_said_before_is_not_believed() -> None:
    a = hand("a")
    a.step(Started())
    x = message("x", 1)
    a.receive("c", stamps(1, (x, 1, 7), count=1, promise=9))
    assert core(a).histories.mates["c"].promise == 9
    effects = a.receive("c", Lost(number(1), LIFE))
    assert Append(KnownLoss("c", LIFE)) in effects
    assert packets(effects, Vouch)
    assert core(a).histories.mates["c"].promise == 0
    assert x not in core(a).entries
    a.receive("c", stamps(2, (x, 1, 7), count=1, promise=9))
    assert x not in core(a).entries


def test_a_loss_is_told_with_every_word_that_counts_for_a_majority() -> None:
    """b has c's old timestamp and gets one that a gave when it knew of the loss: the two do not count together."""
    b = hand("b")
    b.step(Started())
    x, told = message("x", 1), (("c", LIFE),)
    b.receive("c", stamps(1, (x, 1, 3)))
    b.receive("a", msgspec.structs.replace(stamps(1, (x, 1, 4)), lives=told))
    assert core(b).entries[x].stamps == {"a": 4}


def test_a_floor_says_nothing_of_the_lives_before() -> None:
    """b has a message of c that nobody else has; c has lost its log, and does not know whether that is over."""
    a = hand("a")
    a.step(Started())
    new = msgspec.structs.replace(data(number(1), "x", 1), floor=(LIFE, 1), began=LIFE)
    a.receive("x", new)
    assert not core(a).multicast.is_finished(message("x", 9))


# ---------------------------------------------------------------------- runs
def loss(site: str, begin: float, end: float | None = None) -> LostLog:
    return LostLog(from_=begin, to=begin + 0.1 if end is None else end, sites=(site,), repair=True)


@pytest.mark.parametrize(
    ("groups", "faults", "repaired"),
    [
        ({"g": ("a", "b", "c")}, [loss("c", 2.0)], 1),
        (FIVE, [loss("c", 2.0), Crash(from_=1.5, to=5.0, sites=("d",))], 1),
        (THREE, [loss("a", 2.0)], 1),
        ({"g": ("a", "b", "c")}, [loss("c", 1.5), loss("c", 4.0)], 2),
        ({"g": ("a", "b", "c")}, [loss("c", 1.5), loss("b", 4.0)], 2),
        ({"g": ("a", "b", "c")}, [loss("c", 2.0), Crash(from_=2.0, to=3.5, sites=("b",))], 1),
        ({"g": ("a", "b", "c")}, [loss("c", 2.0), Crash(from_=2.628, to=2.8, sites=("c",))], 1),
        ({"g": ("a", "b", "c")}, [loss("c", 2.0), Crash(from_=2.628, to=2.8, sites=("b",))], 1),
    ],
    ids=[
        "three",
        "five-and-one-away",
        "three-groups",
        "twice",
        "two-after-each-other",
        "waits-for-both",
        "crash-on-the-way",
        "crash-of-another",
    ],
)
def test_a_lost_log_is_given_back(groups: dict[str, tuple[str, ...]], faults: list[Fault], repaired: int) -> None:
    run = simulate(groups, faults, choose=1, sources=("x", "b"))
    assert broken_claims(run) == {}
    assert run.branches["repaired"] == repaired


def test_a_source_that_loses_its_log_leaves_nobody_in_doubt() -> None:
    run = simulate({"g": ("a", "b", "c")}, [loss("a", 2.01)], choose=1, sources=("x", "a"))
    # What it multicast and nobody got is lost with its log.
    assert set(broken_claims(run)) <= {"termination"}
    for name in "abc":
        (instance,) = run.sites[name].instances.values()
        assert isinstance(instance.core, Scalatom)
        assert not instance.core.entries


class Votes(Scalatom):
    """Takes part at once without its log, as if it ran for the first time."""

    def on_recovered(self, event: Recovered) -> None:
        super().on_recovered(Recovered() if event.lost else event)


def test_a_lost_site_that_votes_at_once_breaks_what_was_promised() -> None:
    victim = "c"
    scenario = draw_scenario(Scalatom, 2008)
    begin = round(0.4 * scenario.duration, 3)
    faults = (*(fault for fault in scenario.faults if victim not in fault.sites), loss(victim, begin))
    scenario = msgspec.structs.replace(scenario, faults=faults)
    with pytest.raises(InvariantViolation, match="is decided after"):
        broken_claims(msgspec.structs.replace(scenario, protocol=Votes).simulation())
    assert broken_claims(scenario.simulation()) == {}


# ---------------------------------------------------------------------- what is not blamed on a run
def lossy_run(protocol: type[Protocol], sources: tuple[str, ...], rate: float, seed: int, fault: LostLog) -> Simulation:
    """Three sites, of which c loses its log, on a network that loses a good part."""
    return Simulation(
        protocol,
        {"g": ("a", "b", "c")},
        PointToPoint(latency=0.005),
        faults=[fault, Loss(from_=0.0, to=8.0, sites=("a", "b", "c"), rate=rate)],
        workloads=[Workload(sources=sources, groups=("g",), choose=1, rate=20.0, count=40)],
        duration=6.0,
        settle=40.0,
        seed=seed,
    )


@pytest.mark.parametrize("protocol", [Scalatom, Token])
def test_what_only_a_lost_log_had_is_not_owed(protocol: type[Protocol]) -> None:
    simulation = lossy_run(protocol, ("a", "b", "c"), 0.6, 0, LostLog(from_=2.0, to=2.5, sites=("c",), repair=True))
    assert broken_claims(simulation) == {}
    rows = simulation.table().to_pylist()
    known = {row["message"] for row in rows if row["kind"] == "multicast"}
    assert known - {row["message"] for row in rows if row["kind"] == "deliver"}, "something is lost"


def test_a_repaired_site_that_was_ahead_of_the_others_delivers_again() -> None:
    fault = LostLog(from_=2.4148966322876912, to=2.4648966322876912, sites=("c",), repair=True)
    simulation = lossy_run(Scalatom, ("a", "b"), 0.6, 39, fault)
    assert broken_claims(simulation) == {}
    delivered = [
        row["message"] for row in simulation.table().to_pylist() if (row["site"], row["kind"]) == ("c", "deliver")
    ]
    assert len(delivered) > len(set(delivered)), "something comes twice"
