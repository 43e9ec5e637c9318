"""A site that comes back takes the tail of its deliveries back, and delivers what it missed: `rejoin = "rollback"`."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from ordercast.campaign.draw import Draw
from ordercast.campaign.outcome import Outcome, run_draw
from ordercast.core import Context, MessageId, Multicast, WireError
from ordercast.core.effects import Append, Deliver, EnterGroup, InstallView, Replay, Rollback
from ordercast.core.events import MulticastRequested, Received, Recovered, Started
from ordercast.protocols.propagation_graph import PropagationGraph, PropagationGraphOptions
from ordercast.protocols.propagation_graph.relaxed.composing import compose
from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph
from ordercast.protocols.propagation_graph.relaxed.graphs import Graph, Listed, Settled
from ordercast.protocols.propagation_graph.relaxed.merging import merge
from ordercast.protocols.propagation_graph.relaxed.packets import Begin, History, Renew, Share
from ordercast.protocols.propagation_graph.relaxed.records import Entered, Placed
from ordercast.protocols.propagation_graph.rosters import Wish

GROUPS = {"alpha": ("a", "b", "c", "d", "e"), "beta": ("c", "d", "e"), "gamma": ("a", "b")}
SORTED = tuple(sorted(GROUPS.items()))
MODE = {"delivery": "non-atomic", "rejoin": "rollback"}
SEEDS = range(40, 52)


class TakingBack(PropagationGraph):
    """All runs of its campaigns are so."""

    arrangement = replace(
        PropagationGraph.arrangement, campaign=replace(PropagationGraph.arrangement.campaign, modes=(MODE,))
    )


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [run_draw(Draw(TakingBack, seed)).outcome for seed in SEEDS]


def test_r3_and_what_else_is_claimed_holds_under_every_fault(outcomes: list[Outcome]) -> None:
    assert not [(outcome.seed, outcome.violations) for outcome in outcomes if outcome.violations]
    assert not [outcome.seed for outcome in outcomes if outcome.vacuous]


def test_sites_come_back_by_rollback_and_by_fallback(outcomes: list[Outcome]) -> None:
    for branch in ("rejoined-by-rollback", "rejoined-by-fallback"):
        assert any(outcome.branches.get(branch) for outcome in outcomes)


def test_the_contract_says_r3_instead_of_r2() -> None:
    claimed = PropagationGraph.contract.with_options(PropagationGraphOptions(**MODE)).guarantees  # type: ignore[arg-type]
    assert {"R3", "R2-logical", "agreement", "termination"} <= {*claimed}
    assert not {"R1", "R2", "acyclic-order", "uniform-agreement"} & {*claimed}


def _site(name: str, incarnation: int = 0, **options: int) -> RelaxedGraph:
    chosen = PropagationGraphOptions(delivery="non-atomic", rejoin="rollback", **options)  # type: ignore[arg-type]
    core = PropagationGraph(Context(name, GROUPS, tuple("abcde"), chosen, Random(0), incarnation=incarnation))
    assert isinstance(core, RelaxedGraph)
    return core


def _message(number: int, group: str = "alpha") -> Multicast:
    return Multicast(MessageId("b", 0, number), (group,), b"payload")


def _listed(*numbers: int, group: str = "alpha") -> tuple[Listed, ...]:
    return tuple(Listed(_message(number).id, (group,), 1, "", place, ("a",)) for place, number in enumerate(numbers, 1))


def _hold(core: RelaxedGraph, *numbers: int) -> None:
    """It has delivered these."""
    for number in numbers:
        core.hold(Placed(_message(number), "a", number))
        core.count(_message(number))


def _come_back(order: tuple[Listed, ...], *, undoing: bool = True, number: int = 2, offset: int = 0) -> Graph:
    return Graph(
        number,
        "a",
        tuple("abcde"),
        (),
        SORTED,
        ("c",),
        (("alpha", offset), ("beta", 0)),
        (),
        order,
        undoing=("c",) if undoing else (),
    )


def _taken_back(core: RelaxedGraph) -> list[int]:
    return [effect.multicast.id.number for effect in core.outbox if isinstance(effect, Rollback)]


def _delivered(core: RelaxedGraph) -> list[int]:
    return [effect.multicast.id.number for effect in core.outbox if isinstance(effect, Deliver)]


def _give_share(core: RelaxedGraph, now: float, graph: int = 2) -> None:
    core.step(now, Received("a", Renew(graph, 1, False)))
    core.step(now, Received("a", Share(graph, 1, 0.5, False)))


def test_what_is_not_at_its_place_is_taken_back_latest_first_in_the_log_and_comes_again_in_the_agreed_order() -> None:
    core = _site("c")
    core.step(0.0, Started())
    _hold(core, 1, 2, 3, 4)
    core.outbox.clear()
    core.step(1.0, Received("a", Begin(_come_back(_listed(1, 3, 2, 4)))))
    assert _taken_back(core) == [4, 3, 2]
    kinds = [type(effect) for effect in core.outbox if isinstance(effect, Append | Rollback)]
    assert kinds[0] is Append  # before it leaves
    assert core.counts["alpha"] == 1
    lines = [effect.line for effect in core.outbox if isinstance(effect, InstallView)]
    assert lines[0].startswith("c is back; took back 3 deliveries; graph 2 orders alpha at ")
    core.outbox.clear()
    _give_share(core, 1.1)
    assert _delivered(core) == [3, 2, 4]
    assert core.counts["alpha"] == 4


def test_what_is_at_its_place_stands() -> None:
    core = _site("c")
    core.step(0.0, Started())
    _hold(core, 1, 2)
    core.outbox.clear()
    core.step(1.0, Received("a", Begin(_come_back(_listed(1, 2)))))
    assert _taken_back(core) == []
    assert not [effect for effect in core.outbox if isinstance(effect, EnterGroup)]


def test_what_was_everywhere_and_stood_behind_what_is_taken_back_is_taken_back_with_it_and_comes_first() -> None:
    core = _site("c")
    core.step(0.0, Started())
    _hold(core, 1, 2)
    core.outbox.clear()
    core.step(1.0, Received("a", Begin(_come_back((*_listed(7), *_listed(1))))))  # 2 is everywhere, 7 was missed
    assert _taken_back(core) == [2, 1]
    assert [item.id.number for item in core.catching_up.missing] == [2, 7, 1]


def test_whoever_cannot_get_all_takes_back_all_that_was_not_everywhere_and_enters_behind_a_gap() -> None:
    core = _site("c")
    core.step(0.0, Started())
    _hold(core, 1, 2)
    core.outbox.clear()
    core.step(1.0, Received("a", Begin(_come_back(_listed(1, 2), undoing=False, offset=9))))
    assert _taken_back(core) == [2, 1]
    entered = {effect.group: effect.offset for effect in core.outbox if isinstance(effect, EnterGroup)}
    assert entered == {"alpha": 9, "beta": 0}
    assert not core.catching_up.missing


def test_whoever_has_forgotten_what_stands_behind_what_it_lacks_enters_behind_a_gap() -> None:
    core = _site("c")
    core.step(0.0, Started())
    core.history.note_settled(_message(1).id, ("alpha",))
    core.outbox.clear()
    core.step(1.0, Received("a", Begin(_come_back(_listed(4, 1), offset=9))))
    assert [effect.offset for effect in core.outbox if isinstance(effect, EnterGroup)] == [9, 0]
    assert not core.catching_up.missing


def test_after_a_crash_the_log_says_what_was_taken_back_and_only_what_stands_is_delivered_again() -> None:
    core = _site("c", incarnation=1)
    placed = tuple(Placed(_message(number), "a", number) for number in (1, 2, 3))
    graph = _come_back(_listed(1, 3, 2))
    again = Placed(_message(3), "", 2)
    core.step(0.0, Recovered((*placed, Entered(graph, False), again)))
    told = [effect for effect in core.outbox if isinstance(effect, Rollback)]
    assert [(each.multicast.id.number, each.view, each.handed) for each in told] == [(3, "2", False), (2, "2", False)]
    assert [held.multicast.id.number for held in core.history.held.values() if held.stands] == [1, 3]
    core.outbox.clear()
    core.step(1.0, Received("a", Begin(_come_back(_listed(1, 3, 2), number=3))))
    _give_share(core, 1.1, graph=3)
    replayed = [effect.multicast.id.number for effect in core.outbox if isinstance(effect, Replay)]
    assert (replayed, _delivered(core)) == ([1, 3], [2])


def test_what_those_miss_who_are_awaited_is_kept_until_it_is_too_much() -> None:
    core = _site("a", away_bytes_max=20)
    core.step(0.0, Started())
    core.step(0.1, Received("b", Begin(Graph(1, "b", tuple("abde"), ("c",), SORTED, awaited=("c",)))))
    for number in (1, 2):
        _hold(core, number)
        core.history.note_everywhere(_message(number).id)
        core.history.forget()
        assert len(core.history.held) == number
    _hold(core, 3)
    core.history.note_everywhere(_message(3).id)
    core.history.forget()
    assert core.history.overflowed
    assert not core.history.held


def _history(core: RelaxedGraph, *taken: Listed, kept: bool = True, running: bool = True) -> History:
    return History(core.number, 1, core.number, running, 0, None, taken, (), (), (), (), 0.0, None, kept)


def test_whoever_fails_is_awaited_until_somebody_has_not_kept_everything_or_a_group_has_no_survivor() -> None:
    core = _site("a")
    core.step(0.0, Started())
    first = compose(core, {site: _history(core) for site in "abde"})
    assert (first.away, first.awaited) == (("c",), ("c",))
    core.step(0.1, Received("b", Begin(first)))
    histories = {site: _history(core) for site in "abde"} | {"c": replace(_history(core), number=0)}
    assert compose(core, histories).undoing == ("c",)
    assert compose(core, histories | {"d": _history(core, kept=False)}).undoing == ()
    del histories["d"], histories["e"]  # of beta nobody is left
    following = compose(core, histories)
    assert (following.returned, following.undoing, following.awaited) == (("c",), (), ("d", "e"))


def test_who_was_awaited_asks_nobody_who_has_left_but_comes_back_behind_a_gap() -> None:
    core = _site("a")
    core.step(0.0, Started())
    missed = Listed(_message(5).id, ("beta",), 1, "", 1)
    groups = (("alpha", ("a", "b", "c")), ("beta", ("c",)))
    graph = Graph(1, "a", tuple("abd"), ("c", "e"), groups, order=(missed,), awaited=("c",), leaving=("d",))
    core.step(0.1, Received("b", Begin(graph)))
    histories = {site: _history(core, *((missed,) if site == "d" else ())) for site in "abd"}
    gone = compose(core, histories)
    assert (gone.present, gone.awaited, gone.order) == (("a", "b"), (), ())
    both = compose(core, histories | {"b": _history(core, missed)})
    assert (both.present, both.awaited) == (("a", "b"), ("c",))
    assert [item.holders for item in both.order] == [("b",)]


def test_when_all_who_stay_leave_with_the_next_graph_one_of_them_manages_it_and_not_one_who_has_left() -> None:
    core = _site("a")
    core.step(0.0, Started())
    graph = Graph(1, "b", tuple("abc"), tuple("de"), (("alpha", ("b", "c")),), leaving=("a",))
    core.step(0.1, Received("b", Begin(graph)))
    for site in "bc":
        core.joining.want(site, Wish((), ("alpha",)), 1)
    following = compose(core, {site: _history(core) for site in "abc"})
    assert following.leaving == ("b", "c")
    assert (following.manager, following.present) == ("b", ("b", "c"))


def test_a_tail_that_nobody_else_can_have_keeps_its_place_and_another_one_comes_last() -> None:
    core = _site("a")
    core.step(0.0, Started())
    core.step(0.1, Received("b", Begin(Graph(1, "b", tuple("ab"), tuple("cde"), SORTED, awaited=tuple("cde")))))
    new = Listed(_message(5).id, ("alpha",), 1, "a", 1)
    own = Listed(MessageId("d", 0, 1), ("beta",), 1, "c", 1)
    common = Listed(MessageId("d", 0, 2), ("alpha",), 1, "a", 1)
    histories = {site: replace(_history(core, new), counts=(("alpha", 1),)) for site in "ab"} | {
        "c": replace(_history(core, own, common), number=0, counts=(("alpha", 1), ("beta", 1)))
    }
    order = [(item.id.source, item.id.number) for item in compose(core, histories).order]
    assert order == [("d", 1), ("b", 5), ("d", 2)]


def test_a_tail_stands_behind_what_its_site_has_had_and_forgotten() -> None:
    """c and d have e4, which the others have too, and then d4. c knows that both are everywhere; only c has c2."""
    core = _site("a")
    core.step(0.0, Started())
    core.step(0.1, Received("b", Begin(Graph(1, "b", tuple("ab"), tuple("cde"), SORTED, awaited=tuple("cde")))))
    e4 = Listed(MessageId("e", 0, 4), ("alpha",), 1, "a", 1)
    d4 = Listed(MessageId("d", 0, 4), ("beta",), 1, "c", 1)
    c2 = Listed(MessageId("c", 0, 2), ("beta",), 1, "c", 2)
    forgotten = (Settled("d", ("beta",), 0, 4), Settled("e", ("alpha",), 0, 4))
    counts = (("alpha", 1), ("beta", 1))
    histories = {site: replace(_history(core, e4), counts=counts[:1]) for site in "ab"} | {
        "c": replace(_history(core, c2), number=0, settled=forgotten, counts=counts),
        "d": replace(_history(core, e4, d4), number=0, counts=counts),
    }
    following = compose(core, histories)
    assert [item.id for item in following.order] == [e4.id, d4.id, c2.id]
    assert following.undoing == ("c", "d")


def test_what_a_site_has_had_and_does_not_tell_stands_before_what_it_tells_and_what_it_lacks() -> None:
    def item(name: str) -> Listed:
        return Listed(MessageId(name, 0, 1), ("g",), 1, "r", 1)

    histories = {"y": [item("u"), item("s")], "z": [item("a")]}
    order, possible = merge(histories, lambda each, site: site == "z" and each.id.source == "s", lambda *_: True)
    assert possible
    assert [each.id.source for each in order] == ["u", "s", "a"]


def test_a_message_to_members_who_are_all_away_waits_for_one_who_is_awaited() -> None:
    core = _site("d")
    core.step(0.0, Started())
    graph = Graph(1, "c", tuple("cde"), tuple("ab"), SORTED, awaited=("a",))
    core.step(0.1, Received("c", Begin(graph)))
    core.step(0.2, Received("c", Renew(1, 1, True)))
    core.step(0.2, Received("c", Share(1, 1, 0.9, True)))
    multicast = Multicast(MessageId("d", 0, 1), ("gamma",))
    core.step(0.3, MulticastRequested(multicast))
    assert multicast.id in core.pending.messages
    core.step(0.4, Received("c", Begin(replace(graph, number=2, awaited=()))))
    core.step(0.5, Received("c", Renew(2, 1, True)))
    core.step(0.5, Received("c", Share(2, 1, 0.9, True)))
    assert multicast.id not in core.pending.messages


def test_when_too_much_waits_for_members_who_are_away_there_is_another_graph() -> None:
    core = _site("d", history_messages_max=2)
    core.step(0.0, Started())
    core.step(0.1, Received("c", Begin(Graph(1, "c", tuple("cde"), tuple("ab"), SORTED, awaited=("a",)))))
    for number in (1, 2):
        assert not core.watching.has_reason
        core.step(0.2, MulticastRequested(Multicast(MessageId("d", 0, number), ("gamma",))))
    assert core.watching.has_reason


@pytest.mark.parametrize("graph", [{"undoing": ("b",)}, {"awaited": ("b",)}], ids=str)
def test_a_graph_into_which_nobody_can_come_back_so_stops_nobody(graph: dict[str, tuple[str, ...]]) -> None:
    core = _site("d")
    core.step(0.0, Started())
    following = replace(Graph(1, "b", tuple("bcde"), ("a",), SORTED), **graph)
    with pytest.raises(WireError):
        core.step(0.1, Received("b", Begin(following)))
    assert core.number == 0
