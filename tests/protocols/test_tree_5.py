"""Protocol 5 (Spauster 1991, 7.2.2): single cores, and the run in which R2 allows what R1 forbids."""

from __future__ import annotations

from typing import cast

import pytest

from ordercast.check import EVERYTHING, judge
from ordercast.core import MessageId, Multicast, Packet, UsageError, WireError
from ordercast.core.events import MulticastRequested, Recovered, Started, TimerFired
from ordercast.protocols.tree_5 import Tree5, Tree5Options
from ordercast.protocols.tree_5.packets import Answer, Heartbeat, NewRoot, NewTree, Null, Pass, RequestOfSource, Submit
from ordercast.sim import Simulation
from ordercast.sim.faults import Crash, Cut
from ordercast.sim.networks import PointToPoint
from ordercast.sim.workload import Workload
from tests.protocols.classic_runs import Hand, delivered, sent

SITES = ("a", "b", "c", "d")
GROUPS = {"g": SITES}
OPTIONS = Tree5Options(phi_n=0.1, phi_p=0.05, delta=1.0)


def message(number: int, source: str = "s") -> Multicast:
    return Multicast(MessageId(source, 0, number), ("g",), b"payload")


def hand(site: str, options: Tree5Options = OPTIONS) -> Hand:
    hand = Hand(Tree5, site, GROUPS, (*SITES, "s"), options)
    hand.step(Started())
    return hand


def passed(place: int, epoch: int = 0) -> Pass:
    return Pass("g", epoch, place, place, message(place))


def take_over(site: Hand) -> None:
    site.now += OPTIONS.delta
    site.step(TimerFired(("silence", "g")))


def test_a_new_root_catches_up_with_what_others_report_and_gives_it_to_those_who_lack_it() -> None:
    root = hand("b")
    root.receive("a", passed(1))
    take_over(root)
    assert root.receive("c", Answer("g", 1, 2)) == []
    behind = sent(root.receive("d", Answer("g", 1, 0)))
    assert behind == [(("d",), passed(1, epoch=1))]
    effects = root.receive("c", passed(2, epoch=1))
    assert delivered(effects) == [message(2).id]
    assert sent(effects) == [(("d",), passed(2, epoch=1))]


def test_what_the_root_has_caught_up_with_is_not_taken_from_its_source_again() -> None:
    root = hand("b")
    take_over(root)
    root.receive("c", Answer("g", 1, 1))
    root.receive("c", passed(1, epoch=1))
    root.step(TimerFired(("open", "g")))
    assert delivered(root.receive("s", Submit("g", 1, message(1)))) == []
    assert delivered(root.receive("s", Submit("g", 2, message(2)))) == [message(2).id]


def test_a_site_reports_to_the_new_root_everything_above_what_that_has() -> None:
    site = hand("c")
    for place in (1, 2, 3):
        site.receive("a", passed(place))
    said = sent(site.receive("b", NewTree("g", 1, ("b", "c", "d"), 1)))
    assert said == [(("b",), Answer("g", 1, 3)), (("b",), passed(2, epoch=1)), (("b",), passed(3, epoch=1))]


def test_what_waits_for_its_place_is_forgotten_with_the_root_that_has_numbered_it() -> None:
    # c has the old root's 2 and misses its 1; the new root has neither, and gives 1 to another message.
    site = hand("c")
    site.receive("a", passed(2))
    site.receive("b", NewTree("g", 1, ("b", "c", "d"), 0))
    other = message(1, "t")
    assert delivered(site.receive("b", Pass("g", 1, 1, 1, other))) == [other.id]


def test_a_message_of_an_old_tree_is_not_taken_in_the_new_one() -> None:
    site = hand("c")
    site.receive("b", NewTree("g", 1, ("b", "c", "d"), 0))
    assert delivered(site.receive("a", passed(1))) == []
    assert site.core.branches["late-message"] == 0  # a is out of the tree: it is told so
    assert delivered(site.receive("b", passed(1))) == []
    assert site.core.branches["late-message"] == 1


def test_a_root_that_was_only_silent_is_told_and_delivers_nothing_more() -> None:
    site = hand("c")
    site.receive("b", NewTree("g", 1, ("b", "c", "d"), 0))
    ((to, packet),) = sent(site.receive("a", Heartbeat("g", 0, 0, 0)))
    assert (to, packet) == (("a",), NewTree("g", 1, ("b", "c", "d"), 0))
    old = hand("a")
    with pytest.raises(WireError, match="may not propose"):
        old.receive("c", packet)
    old.receive("b", packet)
    assert "b is the root of g now, and a is out for good" in old.core.obstacle("tree", "g")
    assert delivered(old.receive("s", Submit("g", 1, message(1)))) == []


def test_a_source_tells_a_new_root_at_once_what_its_highest_number_is_and_sends_again_what_that_lacks() -> None:
    source = hand("s")
    for number in (1, 2):
        source.step(MulticastRequested(message(number)))
    assert sent(source.receive("b", NewRoot("g", 1))) == [(("b",), Null("g", 2))]
    again = sent(source.receive("b", RequestOfSource("g", ((1, 5),))))
    assert again == [(("b",), Submit("g", number, message(number))) for number in (1, 2)]


def test_a_site_that_has_failed_stays_out_and_says_so() -> None:
    site = Hand(Tree5, "a", GROUPS, (*SITES, "s"), OPTIONS)
    site.step(Recovered())
    assert "lets nobody come back" in site.core.obstacle("tree")
    with pytest.raises(UsageError, match="take another name"):
        site.step(MulticastRequested(message(1, "a")))


@pytest.mark.parametrize(
    ("sender", "packet"),
    [
        ("x", passed(1)),
        ("s", passed(1)),
        ("a", Pass("h", 0, 1, 1, message(1))),
        ("a", Submit("g", 1, message(1))),
        ("b", NewTree("g", 9, ("b", "x"), 0)),
        ("b", NewTree("g", 9, (), 0)),
    ],
    ids=["a stranger", "no member", "another group", "another's message", "a tree with strangers", "an empty tree"],
)
def test_what_nobody_may_say_is_refused_and_changes_nothing(sender: str, packet: Packet) -> None:
    site = hand("c")
    with pytest.raises(WireError):
        site.receive(sender, packet)
    assert cast(Tree5, site.core).members["g"].epoch == 0


def test_a_silence_that_jitter_alone_can_make_is_refused_as_an_option() -> None:
    with pytest.raises(UsageError, match=r"delta is 0.2 s and must be more than phi_n \+ 2 phi_p, which is 0.2 s"):
        Tree5Options(phi_n=0.1, phi_p=0.05, delta=0.2)


def test_a_failed_root_may_have_delivered_in_another_order_and_r2_allows_exactly_that() -> None:
    """7.2.2: "the root delivers messages locally before it fails that are not sent to its children"."""
    for seed in range(5):
        simulation = Simulation(
            Tree5,
            GROUPS,
            PointToPoint(processing=0.0001, latency=0.002),
            sites=(*SITES, "s", "t"),
            seed=seed,
            options=Tree5Options(phi_n=0.01, phi_p=0.06, delta=0.3),
            # The last of what the root does reaches nobody.
            faults=(
                Cut(from_=0.99, to=1.0, sites=("a",), peers=("b", "c")),
                Crash(from_=1.0, sites=("a",), forever=True),
            ),
            workloads=(Workload(sources=("s", "t"), groups=("g",), rate=500.0, start=0.98, count=20),),
            duration=2.0,
            settle=5.0,
        )
        verdicts = judge(simulation.execute().header(), simulation.table(), EVERYTHING)
        assert verdicts["R2-multiple-source"].verdict == "holds"
        assert verdicts["agreement"].verdict == "holds"
        assert verdicts["R1-multiple-source"].verdict == "violated"
