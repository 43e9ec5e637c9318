"""The broadcast tree: INFO sets, attachment, parents and children (Garcia-Molina, Kogan, Lynch 1987, 4.2)."""

from __future__ import annotations

from ordercast.core.events import Received
from ordercast.protocols import find_protocol
from ordercast.protocols.broadcast_tree import BroadcastTree, BroadcastTreeOptions
from ordercast.protocols.broadcast_tree.info import highest, holds, union, with_number
from ordercast.protocols.broadcast_tree.packets import (
    Adopt,
    Control,
    Declare,
    Detach,
    Hello,
    Pointer,
)
from tests.protocols.broadcast_tree_host import STREAM, Host, info, messages, told


def test_it_is_found_by_its_name() -> None:
    assert find_protocol("broadcast-tree") is BroadcastTree


# ---------------------------------------------------------------------- INFO sets
def test_info_sets_are_compared_by_their_greatest_number() -> None:
    assert highest(()) == 0
    assert highest(((1, 3), (7, 7))) == 7
    assert holds(((1, 3), (7, 7)), 2)
    assert not holds(((1, 3), (7, 7)), 5)
    assert with_number(((1, 3),), 4) == ((1, 4),)
    assert with_number(((1, 3),), 2) == ((1, 3),)
    assert with_number(((1, 3),), 5) == ((1, 3), (5, 5))
    assert union(((1, 3),), ((2, 6),)) == ((1, 6),)
    assert union(((5, 6),), ((1, 3),)) == ((1, 3), (5, 6))


# ---------------------------------------------------------------------- the attachment procedure, 4.2
def test_case_1_option_1_a_leader_in_the_cluster_that_has_more() -> None:
    b = Host()
    b.hear("d", info((1, 2), parent="s"))
    b.hear("s", info((1, 5)), far=True)
    assert b.look() == [("d", Declare(STREAM, ()))]
    assert b.parent == "d"


def test_case_1_option_1_not_a_host_that_has_a_parent_in_the_cluster() -> None:
    b = Host()
    b.hear("c", info((1, 2), parent="d"))
    b.hear("d", info((1, 2)))
    b.look()
    assert b.parent == "d"


def test_case_1_option_2_a_leader_in_the_cluster_that_has_as_much_and_a_greater_order_number() -> None:
    b = Host()
    b.hear("a", info())
    assert b.look() == []
    b.hear("c", info())
    assert b.look() == [("c", Declare(STREAM, ()))]


def test_the_source_has_the_greatest_order_number() -> None:
    d = Host("d")
    d.hear("c", info())
    d.hear("s", info())
    d.look()
    assert d.parent == "s"


def test_case_1_option_3_a_host_elsewhere_that_has_more_if_there_is_none_in_the_cluster() -> None:
    b = Host()
    b.hear("c", info(), far=True)
    assert b.look() == []
    b.hear("c", info((1, 1)), far=True)
    b.hear("d", info((1, 3)), far=True)
    assert b.look() == [("d", Declare(STREAM, ()))]


def test_a_late_joiner_that_is_alone_in_its_cluster_catches_up_from_the_nearest() -> None:
    """c has a little less than d, which is twice as far away."""
    for lacks, expected in ((300, "c"), (200, "d")):
        b = Host(options=BroadcastTreeOptions(clusters="transit-time"))
        for host, there in (("c", 0.05), ("d", 0.1)):
            b.core.step(1.0 + 2 * there, Received(host, Control(1, (Hello(),), 1.0, 1.0, 0.0)))
        b.hear("c", info((1, lacks)), stamp=2)
        b.hear("d", info((1, lacks + 5)), stamp=2)
        b.look()
        assert b.parent == expected


def test_case_2_option_3_a_host_elsewhere_that_has_more_than_the_parent() -> None:
    b = Host().attached_to("c", (1, 3), far=True)
    b.get("c", 3, far=True)
    b.hear("d", info((1, 3)), far=True)
    assert b.look() == []
    b.hear("d", info((1, 4)), far=True)
    assert b.look() == [("c", Detach(STREAM)), ("d", Declare(STREAM, ((3, 3),)))]


def test_case_2_option_1_a_leader_looks_for_another_in_its_cluster_first() -> None:
    b = Host().attached_to("c", (1, 3), far=True)
    b.hear("s", info((1, 9)), far=True)
    assert told(b.hear("d", info((1, 1), parent="s"))) == [("c", Detach(STREAM)), ("d", Declare(STREAM, ()))]


def test_two_leaders_of_a_cluster_become_one_while_messages_flow() -> None:
    """What is known of the other is old whenever NP1 runs out, but not when its INFO set has just come."""
    b = Host().attached_to("s", (1, 3), far=True)
    b.hear("d", info((1, 3), parent="s"))
    b.get("s", 4, far=True)
    assert b.parent == "d"
    late = Host().attached_to("s", (1, 3), far=True)
    late.get("s", 4, far=True)
    late.hear("d", info((1, 3), parent="s"))
    assert late.look() == []
    assert told(late.hear("d", info((1, 4), parent="s"))) == [("s", Detach(STREAM)), ("d", Declare(STREAM, ((4, 4),)))]


def test_case_3_the_ancestor_that_leads_the_cluster() -> None:
    b = Host().attached_to("c", (1, 3))
    b.hear("d", info((1, 3), parent="s"))
    b.hear("a", info((1, 3), parent="d"))
    b.hear("c", Pointer(STREAM, "a"))
    assert b.look() == [("c", Detach(STREAM)), ("d", Declare(STREAM, ()))]


def test_case_3_not_an_ancestor_that_has_less_since_pointers_are_late() -> None:
    b = Host().attached_to("c", (1, 3))
    b.get("c", 3)
    b.hear("d", info((1, 1), parent="s"))
    b.hear("c", Pointer(STREAM, "d"))
    assert b.look() == []


def test_case_3_the_highest_on_a_cycle_becomes_a_leader_and_looks_elsewhere() -> None:
    c = Host("c").attached_to("d", (1, 3))
    c.hear("s", info((1, 4)), far=True)
    c.hear("a", info((1, 3), parent="c"))
    c.hear("d", Pointer(STREAM, "a"))
    # d is higher: it is for d to break it.
    assert c.look() == []
    d = Host("d").attached_to("s", (1, 3))
    d.hear("b", info((1, 3), parent="d"))
    d.hear("s", info((1, 4)), far=True)
    d.tree.streams[STREAM].set_parent("a")
    d.hear("a", info((1, 3), parent="b"))
    assert d.look() == [("a", Detach(STREAM)), ("s", Declare(STREAM, ()))]


def test_a_cycle_of_others_ends_the_search() -> None:
    b = Host().attached_to("c", (1, 3))
    b.hear("c", Pointer(STREAM, "d"))
    b.hear("d", info((1, 3), parent="c"))
    assert b.look() == []


def test_nobody_attaches_to_a_host_whose_known_pointers_lead_back() -> None:
    b = Host()
    b.hear("d", info((1, 3), parent="c"), far=True)
    b.hear("c", info((1, 3), parent="b"), far=True)
    assert b.look() == []


def test_a_silent_candidate_is_passed_over_once_and_waited_for_longer() -> None:
    b = Host()
    b.hear("c", info((1, 3)), far=True)
    b.hear("d", info((1, 2)), far=True)
    b.look()
    assert b.parent == "c"
    assert b.look() == []
    assert told(b.fire(("np2", 0))) == [("c", Detach(STREAM)), ("d", Declare(STREAM, ()))]
    assert b.tree.streams[STREAM].patience == 2
    told(b.fire(("np2", 0)))
    assert b.parent == "c"


def test_a_parent_in_the_cluster_that_says_nothing_is_left() -> None:
    b = Host().attached_to("d", (1, 3))
    b.hear("c", info((1, 3)))
    b.fire("pa")
    b.hear("c", info((1, 3)))
    b.fire("pa")
    assert b.parent == "d"
    b.hear("c", info((1, 3)))
    b.fire("pa")
    assert b.parent == "c"


def test_a_parent_elsewhere_is_not_timed_but_missed_after_several_exchanges() -> None:
    b = Host().attached_to("d", (1, 3), far=True)
    for _ in range(3):
        b.fire("pa")
    b.fire("ein")
    assert b.parent == "d"
    for _ in range(3):
        b.fire("ein")
    assert b.parent is None


def test_the_source_never_attaches() -> None:
    s = Host("s")
    s.multicast("g")
    s.hear("a", info((1, 9)))
    assert s.look() == []
    assert s.parent is None


# ---------------------------------------------------------------------- DECLARE, ADOPT, DETACH
def test_a_new_child_gets_what_it_lacks_and_is_confirmed() -> None:
    b = Host().attached_to("s", (1, 3))
    for number in (1, 2, 3):
        b.get("s", number)
    effects = b.hear("c", Declare(STREAM, ((2, 2),)))
    assert messages(effects) == [("c", 1), ("c", 3)]
    assert told(effects) == [("c", Adopt(STREAM))]
    assert b.children == {"c"}


def test_a_child_that_detaches_gets_nothing_more() -> None:
    b = Host().attached_to("s", (1, 3))
    b.hear("c", Declare(STREAM, ()))
    b.hear("c", Detach(STREAM))
    assert messages(b.get("s", 1)) == []


def test_a_detach_that_was_overtaken_by_a_declare_changes_nothing() -> None:
    b = Host().attached_to("s", (1, 3))
    b.hear("c", Declare(STREAM, ()), stamp=9)
    b.hear("c", Detach(STREAM), stamp=8)
    assert b.children == {"c"}


def test_every_exchange_repeats_declare_and_detach() -> None:
    b = Host().attached_to("s", (1, 3))
    b.hear("c", info(parent="b"))
    assert b.children == {"c"}
    b.hear("c", Pointer(STREAM, "d"))
    assert b.children == set()


def test_an_old_parent_that_adopts_is_told_once_for_each_exchange() -> None:
    b = Host().attached_to("s", (1, 3))
    assert told(b.hear("c", Adopt(STREAM))) == [("c", Detach(STREAM))]
    assert told(b.hear("c", Adopt(STREAM))) == []
    b.fire("eic")
    assert ("c", Detach(STREAM)) in told(b.hear("c", Adopt(STREAM)))


def test_what_a_former_child_was_sent_is_forgotten_when_everybody_has_taken_it() -> None:
    s = Host("s")
    s.hear("b", Declare(STREAM, ()))
    for number in (1, 2, 3):
        s.send(number)
    stream = s.tree.streams[STREAM]
    assert stream.sent
    s.hear("b", Detach(STREAM))
    stream.raise_floor(2)
    assert [sorted(numbers) for numbers in stream.sent["b"] if numbers] == [[3]]
    stream.raise_floor(3)
    assert not stream.sent
