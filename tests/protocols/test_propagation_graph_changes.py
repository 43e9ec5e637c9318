"""The propagation graph while sites and groups come and go: single steps by hand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ordercast.core import MessageId, Multicast, UsageError, WireError
from ordercast.core.effects import Effect, EnterGroup, ExitGroup, InstallView, JoinRefused
from ordercast.core.events import Discovered, JoinRequested, LeaveRequested, MulticastRequested, Recovered, Started
from ordercast.protocols.parts.names import GROUPS_MAX, NAME_CHARACTERS_MAX, SITES_MAX
from ordercast.protocols.propagation_graph import PropagationGraph, PropagationGraphOptions
from ordercast.protocols.propagation_graph.packets import (
    Acknowledge,
    Ask,
    Change,
    Closed,
    Counted,
    Decline,
    Forward,
    Noted,
    Null,
    Presence,
    Request,
    Seek,
    Submit,
)
from ordercast.protocols.propagation_graph.rosters import (
    Close,
    Open,
    Roster,
    Wish,
    announce,
    apply_wishes,
    check_roster,
)
from tests.protocols.classic_runs import Hand, delivered, sent

GROUPS: Mapping[str, tuple[str, ...]] = {"g": ("a", "b", "c")}
SITES = ("a", "b", "c")
WITH_P = Roster(1, "a", ("a", "b", "c", "p"), (("g", ("a", "b", "c", "p")),), (("p", 1),))
WITHOUT_C = Roster(1, "a", ("a", "b"), (("g", ("a", "b")),), (("c", 1),))


def hand(site: str, **options: object) -> Hand:
    """A site of the configuration: a is above b and c."""
    made = Hand(PropagationGraph, site, GROUPS, SITES, PropagationGraphOptions(**options))  # type: ignore[arg-type]
    made.step(Started())
    return made


def stranger(site: str = "p") -> Hand:
    """A site that no file names, and that wants to join g."""
    made = Hand(PropagationGraph, site, {}, (site,))
    made.step(Started())
    made.step(JoinRequested("g"))
    return made


def message(source: str, number: int, *groups: str) -> Multicast:
    return Multicast(MessageId(source, 0, number), groups or ("g",), b"m")


def close(roster: Roster, *counted: str) -> Multicast:
    return announce(Close(roster, counted))


def opening(roster: Roster, *offsets: tuple[str, int]) -> Multicast:
    return announce(Open(roster, SITES, offsets))


def moves(effects: list[Effect]) -> list[Effect]:
    return [effect for effect in effects if isinstance(effect, (EnterGroup, ExitGroup, InstallView))]


def core(made: Hand) -> PropagationGraph:
    assert isinstance(made.core, PropagationGraph)
    return made.core


# ---------------------------------------------------------------------- the manager
def test_the_first_root_closes_the_graph_and_opens_the_next_for_one_who_wants_to_join() -> None:
    root = hand("a")
    root.receive("b", Submit(1, message("b", 1)))
    effects = root.receive("p", Ask(Wish(("g",)), 0))
    assert [(to, packet) for to, packet in sent(effects) if isinstance(packet, Forward)] == [
        (("b", "c"), Forward((2, 2), close(WITH_P, "g"), 0)),
        (("b", "c", "p"), Forward((1, 1, 1), opening(WITH_P, ("g", 1)), 1)),
    ]
    assert moves(effects) == [InstallView("1", ("a", "b", "c", "p"), ("a", "b", "c"), ("g",), seconds=0.0)]


def test_who_is_not_the_manager_says_who_is() -> None:
    assert sent(hand("b").receive("p", Ask(Wish(("g",)), 0))) == [(("p",), Presence(0, "a", 3, False))]


def test_another_manager_has_close_and_open_enter_at_the_first_root_when_the_group_is_counted() -> None:
    manager = hand("c", manager="c")
    roster = Roster(1, "c", WITH_P.sites, WITH_P.groups, WITH_P.moved)
    assert sent(manager.receive("p", Ask(Wish(("g",)), 0))) == [(("a",), Change(0, close(roster, "g")))]
    closed = manager.receive("a", Forward((1, 1), close(roster, "g")))
    assert sent(closed) == [(("a",), Acknowledge(1))]
    assert sent(manager.receive("a", Counted(0, (("g", 7),)))) == [(("a",), Change(1, opening(roster, ("g", 7))))]


def test_a_manager_that_was_down_while_all_were_closed_takes_up_the_change() -> None:
    manager = hand("c", manager="c")
    roster = Roster(1, "c", WITH_P.sites, WITH_P.groups, WITH_P.moved)
    manager.receive("p", Ask(Wish(("g",)), 0))
    manager.receive("a", Forward((1, 1), close(roster, "g")))
    again = Hand(PropagationGraph, "c", GROUPS, SITES, PropagationGraphOptions(manager="c"), incarnation=1)
    again.step(Recovered(tuple(effect.record for effect in manager.log)))
    assert (("a",), Change(1, opening(roster, ("g", 0)))) in sent(again.receive("a", Counted(0, (("g", 0),))))


def test_a_wish_from_before_the_last_move_of_its_site_is_not_heeded() -> None:
    root = hand("a")
    root.receive("p", Ask(Wish(("g",)), 0))
    assert core(root).number == 1
    root.receive("p", Ask(Wish(("g",)), 0))
    root.receive("p", Ask(Wish((), ("g",)), 1))
    assert core(root).groups["g"] == SITES
    root.receive("p", Ask(Wish(("g",)), 1))
    assert core(root).groups["g"] == SITES


def test_several_wishes_that_wait_are_one_change() -> None:
    manager = hand("b", manager="b")
    manager.receive("p", Ask(Wish(("g",)), 0))
    manager.receive("q", Ask(Wish(("g",)), 0))
    manager.receive("r", Ask(Wish(("h",)), 0))
    first = Roster(1, "b", ("a", "b", "c", "p"), (("g", ("a", "b", "c", "p")),), (("p", 1),))
    manager.receive("a", Forward((1, 1), close(first, "g")))
    manager.receive("a", Counted(0, (("g", 0),)))
    (change,) = [
        packet
        for _to, packet in sent(manager.receive("a", Forward((1, 1, 1), opening(first, ("g", 0)), 1)))
        if isinstance(packet, Change)
    ]
    second = Roster(2, "b", ("a", "b", "c", "p", "q", "r"), (("g", ("a", "b", "c", "p", "q")), ("h", ("r",))))
    assert change == Change(1, close(Roster(2, "b", second.sites, second.groups, (("p", 1), ("q", 2), ("r", 2))), "g"))


def test_when_the_graph_is_full_a_join_is_declined() -> None:
    many = tuple(f"s{number:03}" for number in range(SITES_MAX))
    root = Hand(PropagationGraph, many[0], {"g": many}, many)
    root.step(Started())
    ((to, packet),) = sent(root.receive("p", Ask(Wish(("g",)), 0)))
    assert to == ("p",)
    assert isinstance(packet, Decline)
    refused = stranger()
    refused.step(Discovered((many[0],), True))
    refused.receive(many[0], Presence(0, many[0], SITES_MAX, False))
    assert JoinRefused("g", packet.reason) in refused.receive(many[0], packet)


def test_the_last_one_stays_and_a_group_without_members_ends() -> None:
    alone = Roster(4, "a", ("a",), (("g", ("a",)),))
    empty = apply_wishes(alone, {"a": Wish((), ("g",))}, ())
    assert (empty.sites, empty.groups, empty.manager) == (("a",), (), "a")


# ---------------------------------------------------------------------- sites on the way
def test_after_close_messages_of_sources_wait_and_are_taken_in_the_next_graph() -> None:
    root = hand("a", manager="b")
    roster = Roster(1, "b", WITH_P.sites, WITH_P.groups, WITH_P.moved)
    effects = root.receive("b", Change(0, close(roster, "g")))
    assert sent(effects) == [(("b", "c"), Forward((1, 1), close(roster, "g"))), (("b",), Counted(0, (("g", 0),)))]
    assert delivered(root.receive("c", Submit(1, message("c", 1)))) == []
    opened = root.receive("b", Change(1, opening(roster, ("g", 0))))
    assert delivered(opened) == [message("c", 1).id]
    assert (("c",), Closed(0, 1)) in sent(opened)


def test_what_must_go_elsewhere_is_left_to_its_source() -> None:
    root = hand("a", manager="b")
    roster = Roster(1, "b", ("b", "c"), (("g", ("b", "c")),), (("a", 1),))
    effects = root.receive("b", Change(0, close(roster)))
    assert (("b",), Closed(0, 0)) in sent(effects)
    assert delivered(root.receive("c", Submit(1, message("c", 1)))) == []
    assert sent(root.receive("c", Null(1))) == [(("c",), Closed(0, 0))]


def test_a_message_of_a_later_graph_waits_for_its_open() -> None:
    child = hand("b")
    assert delivered(child.receive("a", Forward((2, 2, 2), message("x", 1), 1))) == []
    child.receive("a", Forward((1, 1), close(WITH_P, "g")))
    opened = child.receive("a", Forward((1, 1, 1), opening(WITH_P, ("g", 0)), 1))
    assert delivered(opened) == [message("x", 1).id]


def test_an_open_that_comes_before_close_waits() -> None:
    child = hand("b")
    assert moves(child.receive("a", Forward((1, 1, 1), opening(WITH_P, ("g", 0)), 1))) == []
    closed = child.receive("a", Forward((1, 1), close(WITH_P, "g")))
    assert moves(closed) == [InstallView("1", ("a", "b", "c", "p"), ("a", "b", "c"), ("g",), seconds=0.0)]


def test_whoever_leaves_is_out_when_everyone_knows_what_it_has_taken() -> None:
    leaver = hand("c")
    leaver.step(LeaveRequested("g"))
    effects = leaver.receive("a", Forward((1, 1), close(WITHOUT_C)))
    assert sent(effects) == [(("a",), Acknowledge(1)), (("b",), Closed(0, 0))]
    assert moves(effects) == []
    assert moves(leaver.receive("b", Noted(0))) == [ExitGroup("g")]
    assert core(leaver).is_outside
    assert sent(leaver.receive("a", Null(1, 0, True))) == [(("a",), Acknowledge(1))]


def test_a_newcomer_begins_where_the_group_is_with_a_view() -> None:
    newcomer = stranger()
    effects = newcomer.receive("a", Forward((1, 1, 1), opening(WITH_P, ("g", 7)), 1))
    assert moves(effects) == [EnterGroup("g", 7), InstallView("1", ("a", "b", "c", "p"), (), ("g",), seconds=0.0)]
    assert sent(effects) == [(("a",), Acknowledge(1, 1))]


def test_after_a_crash_a_newcomer_enters_again_at_its_place() -> None:
    newcomer = stranger()
    newcomer.receive("a", Forward((1, 1, 1), opening(WITH_P, ("g", 7)), 1))
    newcomer.receive("a", Forward((2, 2, 2), message("x", 1), 1))
    again = Hand(PropagationGraph, "p", {}, ("p",), incarnation=1)
    again.step(Recovered(tuple(effect.record for effect in newcomer.log)))
    assert core(again).counts == {"g": 8}
    checkpoint = core(newcomer).checkpoint_state()
    third = Hand(PropagationGraph, "p", {}, ("p",), incarnation=1)
    effects = third.step(Recovered((), checkpoint))
    assert moves(effects)[0] == EnterGroup("g", 8)
    assert core(third).checkpoint_state() == checkpoint


def test_who_has_missed_open_asks_for_it() -> None:
    child = hand("b")
    child.receive("a", Forward((1, 1), close(WITH_P, "g")))
    assert sent(child.receive("a", Null(1, 1))) == [(("a",), Request(((1, 1),), 1))]


# ---------------------------------------------------------------------- the source
def test_a_source_submits_again_in_order_what_the_old_primary_destination_has_not_taken() -> None:
    source = hand("b")
    roster = Roster(1, "c", ("b", "c"), (("g", ("b", "c")),), (("a", 1),))
    for number in (1, 2, 3):
        source.step(MulticastRequested(message("b", number)))
    source.receive("a", Forward((1, 1), close(roster)))
    source.step(MulticastRequested(message("b", 4)))
    opened = source.receive("a", Change(1, announce(Open(roster, SITES, ()))))
    assert delivered(opened) == []
    resolved = source.receive("a", Closed(0, 1))
    assert (("a",), Noted(0)) in sent(resolved)
    assert delivered(resolved) == [message("b", number).id for number in (2, 3, 4)]


def test_a_source_sends_nothing_to_who_has_closed_before_the_next_graph_is_open() -> None:
    source = hand("b")
    source.receive("a", Closed(0, 0))
    assert sent(source.step(MulticastRequested(message("b", 1)))) == []


def test_a_source_that_crashes_knows_what_was_taken() -> None:
    source = hand("b")
    source.step(MulticastRequested(message("b", 1)))
    source.step(MulticastRequested(message("b", 2)))
    source.receive("a", Closed(0, 1))
    again = Hand(PropagationGraph, "b", GROUPS, SITES, incarnation=1)
    again.step(Recovered(tuple(effect.record for effect in source.log)))
    assert [multicast.id for multicast in core(again).source.waiting] == [message("b", 2).id]


def test_what_goes_down_is_all_taken_whatever_a_late_answer_says() -> None:
    groups = {"g": ("a", "b"), "h": ("b", "c")}
    options = PropagationGraphOptions(parents={"b": "a", "c": "b"})
    above = Hand(PropagationGraph, "a", groups, SITES, options)
    above.step(Started())
    entry = core(above).routes.ways[("h",), None].entry
    assert core(above).routes.parent[entry] == "a"
    above.step(MulticastRequested(message("a", 1, "h")))
    above.receive("p", Ask(Wish(("g",)), 0))
    above.receive(entry, Acknowledge(2, 0))
    above.receive(entry, Closed(0, 0))
    again = Hand(PropagationGraph, "a", groups, SITES, options, incarnation=1)
    effects = again.step(Recovered(tuple(effect.record for effect in above.log)))
    assert not [packet for _to, packet in sent(effects) if isinstance(packet, Submit)]


# ---------------------------------------------------------------------- in no graph
def test_of_two_who_find_nobody_else_the_smaller_name_founds() -> None:
    first, second = stranger("p"), stranger("q")
    first.step(Discovered(("q",), True))
    second.step(Discovered(("p",), True))
    assert moves(second.receive("p", Presence(-1, "", 0, True))) == []
    founded = first.receive("q", Presence(-1, "", 0, True))
    assert [type(effect) for effect in moves(founded)] == [EnterGroup, InstallView]
    graph = core(first).number
    assert sent(first.receive("q", Seek())) == [(("q",), Presence(graph, "p", 1, False))]
    assert (("p",), Ask(Wish(("g",)), graph)) in sent(second.receive("p", Presence(graph, "p", 1, False)))


def test_who_seeks_asks_the_manager_of_the_newest_graph() -> None:
    newcomer = stranger()
    newcomer.step(Discovered(("a", "b"), True))
    newcomer.receive("b", Presence(3, "b", 9, False))
    assert (("a",), Ask(Wish(("g",)), 4)) in sent(newcomer.receive("a", Presence(4, "a", 2, False)))


# ---------------------------------------------------------------------- what is refused
def test_requests_that_make_no_sense_are_the_callers() -> None:
    site = hand("b")
    with pytest.raises(UsageError, match="is in 'g' already"):
        site.step(JoinRequested("g"))
    with pytest.raises(UsageError, match="is not in 'h'"):
        site.step(LeaveRequested("h"))
    with pytest.raises(UsageError, match="no name of a group"):
        site.step(JoinRequested("n" * (NAME_CHARACTERS_MAX + 1)))
    with pytest.raises(UsageError, match="no roles"):
        site.step(JoinRequested("h", role="leader"))
    site.step(LeaveRequested("g"))
    with pytest.raises(UsageError, match="when it has left"):
        site.step(JoinRequested("g"))
    with pytest.raises(UsageError, match="join a group before you multicast"):
        site.step(MulticastRequested(message("b", 1)))
    with pytest.raises(UsageError, match="option manager: there is no site 'z'"):
        hand("b", manager="z")
    with pytest.raises(UsageError, match="join a group before you multicast"):
        stranger().step(MulticastRequested(message("p", 1)))


@pytest.mark.parametrize(
    ("sender", "packet"),
    [
        ("c", Change(0, close(WITH_P, "g"))),
        ("a", Change(0, close(WITH_P, "g"))),
        ("c", Forward((1, 1), close(WITH_P, "g"))),
        ("a", Forward((1, 1), close(Roster(3, "a", ("a", "b"), ())))),
        ("c", Forward((1, 1, 1), opening(WITH_P), 1)),
        ("c", Change(1, opening(WITH_P))),
        ("a", Submit(1, close(WITH_P, "g"))),
        ("a", Forward((1, 1), Multicast(MessageId("a", 0, 0), (), b"junk"))),
        ("a", Closed(0, 7)),
        ("p", Ask(Wish(("",)), 0)),
        ("p", Ask(Wish(tuple(f"g{n}" for n in range(GROUPS_MAX + 1))), 0)),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else value,
)
def test_close_open_and_wishes_from_strangers_are_malformed(sender: str, packet: object) -> None:
    site = hand("b")
    with pytest.raises(WireError):
        site.receive(sender, packet)  # type: ignore[arg-type]
    site.core.outbox.clear()
    assert core(site).closed is None
    assert core(site).number == 0


def test_rosters_that_are_none_are_malformed() -> None:
    many = tuple((f"g{number}", ("a",)) for number in range(100_000))
    for roster in (
        Roster(1, "a", (), ()),
        Roster(1, "z", ("a",), ()),
        Roster(1, "a", ("b", "a"), ()),
        Roster(1, "a", ("a",), (("g", ("b",)),)),
        Roster(1, "a", ("a",), (("g", ()),)),
        Roster(1, "a", ("a",), many),
    ):
        with pytest.raises(WireError):
            check_roster(roster)
