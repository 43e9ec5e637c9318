"""The token protocol while sites and groups come and go."""

from __future__ import annotations

import pytest

from ordercast.core import GroupId, MessageId, Multicast, SiteId, UsageError, WireError, encode
from ordercast.core.effects import Append, Blocked, EnterGroup, ExitGroup, InstallView, JoinRefused, SetTimer
from ordercast.core.events import (
    Discovered,
    JoinRequested,
    LeaveRequested,
    MulticastRequested,
    RemovalRequested,
    Started,
    TimerFired,
)
from ordercast.protocols.classic.token import Token
from ordercast.protocols.classic.token.attempt import Attempt
from ordercast.protocols.classic.token.packets import (
    Acknowledge,
    Apply,
    Data,
    Decline,
    InstallOfRoster,
    Invite,
    JoinOfRoster,
    News,
    Presence,
    Seek,
)
from ordercast.protocols.classic.token.rosters import Roster, Wishes, announce, changed, read_roster
from ordercast.protocols.classic.token.turns import FIRST_VERSION, Turn, life_start
from ordercast.sim.faults import Crash, Partition
from tests.protocols.classic_runs import Hand, sent
from tests.protocols.token_changes import Play, change

SITES = ("a", "b", "c")
FOUNDED = (1, "a~a.0000beef")


def configured(site: SiteId = "b") -> Hand:
    """A site of a configuration, which has started."""
    led = Hand(Token, site, {"g": SITES}, SITES)
    led.step(Started())
    return led


def stranger(site: SiteId = "x") -> Hand:
    """A site that no file names, and that wants to join g."""
    led = Hand(Token, site, {}, (site,))
    led.step(Started())
    led.step(JoinRequested("g"))
    return led


def core(led: Hand) -> Token:
    assert isinstance(led.core, Token)
    return led.core


# ---------------------------------------------------------------------- whole runs
def test_a_stranger_joins_at_the_offset_of_the_group_and_hears_of_its_first_view_at_once() -> None:
    play = Play({"g": "abc"}, [change("join", 2.0, "d", "g")])
    entered, view = play.effects("d")
    assert isinstance(entered, EnterGroup)
    assert entered.offset > 10
    assert view == InstallView(view.view, ("a", "b", "c", "d"), (), ("g",))  # type: ignore[attr-defined]
    assert [each.transitional for each in play.views("a", "g")] == [SITES]
    assert play.seconds("d", EnterGroup) - 2.0 < 1.0


def test_who_leaves_exits_and_the_others_go_on_without_it() -> None:
    play = Play({"g": "abc"}, [change("leave", 2.0, "c", "g")])
    assert play.effects("c")[-1] == ExitGroup("g")
    assert play.core("c").system.outside
    assert play.views("a", "g")[-1].members == ("a", "b")
    assert play.core("a").system.roster.names == ("a", "b")


def test_where_nobody_is_configured_the_first_one_founds_and_the_others_join() -> None:
    play = Play({}, [change("join", 0.5, "a", "g"), change("join", 1.5, "bc", "g"), change("join", 3.0, "b", "h")])
    assert play.entries("a", "g") == [EnterGroup("g", 0)]
    assert play.views("a", "g")[-1].members == SITES
    assert play.views("b", "h")[-1].members == ("b",)
    assert play.core("a").groups == {"g": SITES, "h": ("b",)}


def test_two_who_begin_at_once_found_one_list() -> None:
    play = Play({}, [change("join", 0.5, "ab", "g")])
    assert play.core("a").system.lineage == play.core("b").system.lineage != ""
    assert play.simulation.branches["founded"] == 1


def test_several_changes_are_one_list() -> None:
    play = Play(
        {"g": "abc"}, [change("join", 2.0, "de", "g"), change("join", 2.0, "a", "h"), change("leave", 2.0, "b", "g")]
    )
    assert play.simulation.branches["several-changes"] >= 1
    assert play.views("a", "g")[-1].members == ("a", "c", "d", "e")
    assert play.views("a", "h")[-1].members == ("a",)


def test_the_last_one_ends_the_group_and_whoever_comes_after_it_begins_another() -> None:
    play = Play({}, [change("join", 0.5, "ab", "g"), change("leave", 3.0, "ab", "g"), change("join", 6.0, "b", "g")])
    assert play.simulation.branches["last-one-left"] == 1
    assert [each.offset for each in play.entries("b", "g")][-1] == 0
    assert play.core("a").groups == {}


def test_a_group_that_is_made_again_goes_on_at_its_offset_unless_too_many_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """(Without the bound: a system makes a group for every conversation, and everybody keeps all of their names, and
    sends them to whoever comes.)"""
    monkeypatch.setattr("ordercast.protocols.classic.token.ledger.COUNTED_MAX", 4)
    names = [f"h{number}" for number in range(8)]
    moves = [
        each
        for number, name in enumerate(names)
        for each in (change("join", 1.0 + number, "ab", name), change("leave", 1.8 + number, "ab", name))
    ]
    again = [change("join", 10.0, "a", names[0]), change("join", 10.0, "a", names[-1])]
    crash = Crash(from_=5.0, to=9.5, sites=("c",))
    play = Play({"g": "abc"}, [*moves, *again], [crash], duration=12.0)
    assert all(play.entries("a", name)[0].offset == 0 for name in names)
    assert play.entries("a", names[0])[-1].offset == 0
    assert play.entries("a", names[-1])[-1].offset > 0
    kept = [play.core(site).ledger.counts for site in SITES]
    assert kept[0] == kept[1] == kept[2]
    assert len(kept[0]) <= 6, "the last change makes two of them"


def test_a_joiner_that_dies_before_it_is_in_comes_when_it_is_back() -> None:
    for milliseconds in (1, 4, 8, 12, 16):
        crash = Crash(from_=2.0 + milliseconds / 1000, to=3.0, sites=("d",))
        play = Play({"g": "abc"}, [change("join", 2.0, "d", "g")], [crash])
        assert play.views("a", "g")[-1].members == (*SITES, "d")
        assert play.simulation.branches["joiner-crashed"] == (milliseconds < 16), "it is in by then"


def test_a_leaver_that_dies_while_it_leaves_learns_of_it_when_it_is_back() -> None:
    for milliseconds in (1, 4, 8, 12, 60):
        crash = Crash(from_=2.0 + milliseconds / 1000, to=4.0, sites=("c",))
        play = Play({"g": "abc"}, [change("leave", 2.0, "c", "g")], [crash])
        assert play.core("c").system.outside
        assert play.simulation.branches["leaver-crashed"] == (milliseconds < 60), "it is out by then"


def test_the_originator_can_die_in_every_step() -> None:
    steps: list[str] = []
    for milliseconds in range(2, 24, 2):
        crash = Crash(from_=2.0 + milliseconds / 1000, to=4.0, sites=("a",))
        play = Play({"g": "abc"}, [change("join", 2.0, "d", "g")], [crash])
        assert play.views("b", "g")[-1].members == (*SITES, "d")
        steps += [branch for branch in play.simulation.branches if branch in Attempt.branches]
    crashed = [step for step in dict.fromkeys(steps) if step.startswith("crashed-")]
    assert crashed == ["crashed-inviting", "crashed-admitting", "crashed-installing", "crashed-opening"]


def test_a_minority_changes_nothing_until_it_is_whole_again() -> None:
    cut = Partition(parts=(("a", "d"), ("b", "c")), from_=1.9, to=5.0)
    play = Play({"g": "abc"}, [change("join", 2.0, "d", "g")], [cut])
    assert play.seconds("d", EnterGroup) > 5.0
    assert play.simulation.branches["no-majority-for-change"] > 0


def test_who_was_away_while_everybody_else_changed_finds_those_who_came() -> None:
    changes = [
        change("join", 1.0, "de", "g"),
        change("leave", 3.0, "a", "g"),
        change("leave", 4.0, "b", "g"),
    ]
    play = Play({"g": "abc"}, changes, [Crash(from_=0.5, to=6.0, sites=("c",))], duration=9.0)
    assert play.core("c").system.roster.names == ("c", "d", "e")
    assert play.views("c", "g")[-1].members == ("c", "d", "e")


@pytest.mark.parametrize(
    ("sites", "ms", "forming", "turns", "asking"), [("abc", 16, 14, 9, 15), ("abcde", 18, 23, 20, 35)]
)
def test_a_join_costs_what_the_readme_says(sites: str, ms: int, forming: int, turns: int, asking: int) -> None:
    play = Play({"g": sites}, [change("join", 2.0, "x", "g")], silent=True)
    is_in = play.seconds("x", EnterGroup)
    assert round((is_in - 2.0) * 1000) == ms
    sends = [row for row in play.simulation.table().to_pylist() if row["kind"] == "send"]
    invited = next(row["time"] for row in sends if row["packet"] == "Invite")
    until_in = [row["packet"] for row in sends if invited <= row["time"] <= is_in]
    assert (len(until_in) - until_in.count("Acknowledge"), until_in.count("Acknowledge")) == (forming, turns)
    assert sum(row["packet"] in ("Seek", "Presence") and row["time"] < invited for row in sends) == asking


def test_a_leave_is_decided_in_a_few_steps_and_a_join_waits_for_a_site_that_is_down() -> None:
    for sites, ms in (("abc", 10), ("abcde", 13)):
        play = Play({"g": sites}, [change("leave", 2.0, sites[-1], "g")], silent=True)
        decided = next(now for now, each in play.told["a"] if now > 2.0 and isinstance(each, InstallView))
        assert round((decided - 2.0) * 1000) == ms
        assert round((play.seconds(sites[-1], ExitGroup) - decided) * 1000) in range(45, 55)
    crash = Crash(from_=1.0, to=6.0, sites=("c",))
    play = Play({"g": "abc"}, [change("join", 3.0, "x", "g")], [crash], silent=True)
    assert round(play.seconds("x", EnterGroup) - 3.0, 1) == 0.4


def test_two_lineages_that_find_each_other_become_one() -> None:
    class Blind(Token):
        def on_discovered(self, event: Discovered) -> None:
            """Until four seconds have passed, a and b know nothing of c."""
            near = tuple(site for site in event.sites if self.now > 4.0 or (site == "c") == (self.site == "c"))
            super().on_discovered(Discovered(near, event.settled))

    play = Play(
        {},
        [change("join", 0.5, "ab", "g"), change("join", 0.6, "c", "g"), change("join", 4.5, "d", "h")],
        protocol=Blind,
        silent=True,
    )
    assert play.simulation.branches["lineages-merge"] >= 1
    assert [type(each) for each in play.effects("c")].count(ExitGroup) == 1
    assert play.views("c", "g")[-1].members == SITES
    # Each side is told whom the other one has brought, once.
    assert [view.merged for view in play.views("a", "g") if view.merged] == [("c",)]
    assert [view.merged for view in play.views("c", "g") if view.merged] == [("a", "b")]
    assert {play.core(site).system.lineage for site in "abc"} == {play.core("a").system.lineage}


def test_an_operator_removes_who_is_dead() -> None:
    class Removes(Token):
        removed = False

        def on_discovered(self, event: Discovered) -> None:
            """When d is found, an operator removes c, which has died, at a."""
            super().on_discovered(event)
            if self.site == "a" and "d" in event.sites and not self.removed:
                self.removed = True
                self.on_removal_requested(RemovalRequested("c"))

    crash = Crash(from_=1.0, sites=("c",), forever=True)
    play = Play({"g": "abc"}, [change("join", 3.0, "d", "g")], [crash], protocol=Removes)
    assert play.views("a", "g")[-1].members == ("a", "b", "d")
    assert play.core("a").system.roster.names == ("a", "b", "d")


def test_a_removal_that_makes_no_sense_is_the_operators() -> None:
    for site, why in (("z", "nothing to remove"), ("b", "ask another one")):
        with pytest.raises(UsageError, match=why):
            configured().step(RemovalRequested(site))


# ---------------------------------------------------------------------- the stranger
def test_a_stranger_that_waits_says_whom_it_asks() -> None:
    x = stranger()
    effects = x.step(Discovered(("a", "b"), settled=True))
    assert Blocked("lookup", "x looks for a list to join g: it asks a, b") in effects
    assert (("a", "b"), Seek(FIRST_VERSION)) in sent(effects)


def test_nobody_founds_while_somebody_does_not_answer() -> None:
    x = stranger()
    x.step(Discovered(("a", "b"), settled=True))
    x.receive("b", Presence(FIRST_VERSION, 0))
    for _ in range(50):
        x.step(TimerFired("lookup"))
    assert core(x).system.outside
    x.receive("a", Presence(FIRST_VERSION, 0))
    assert not core(x).system.outside


def test_of_those_who_seek_the_one_with_the_smallest_name_founds() -> None:
    x = stranger()
    x.step(Discovered(("a", "z"), settled=True))
    x.receive("z", Presence(FIRST_VERSION, 0, seeking=True))
    x.receive("a", Presence(FIRST_VERSION, 0, seeking=True))
    assert core(x).system.outside


def test_a_stranger_applies_to_a_member_of_the_larger_list() -> None:
    x = stranger()
    x.step(Discovered(("a", "b"), settled=True))
    x.receive("b", Presence((3, "b~b.1"), 4))
    effects = x.receive("a", Presence(FOUNDED, 2))
    assert (("b",), Apply(FIRST_VERSION)) in sent(effects)


def test_a_full_list_declines_and_the_join_is_refused() -> None:
    x = stranger()
    x.step(Discovered(("a",), settled=True))
    x.receive("a", Presence(FOUNDED, 256))
    assert JoinRefused("g", "no room") in x.receive("a", Decline("no room"))


def test_a_stranger_answers_only_invitations_and_counts_the_rest() -> None:
    x = stranger()
    x.step(Discovered(("a",), settled=False))
    assert sent(x.receive("a", Invite(FOUNDED))) == [(("a",), Apply(FOUNDED, ("g",)))]
    assert x.receive("a", Acknowledge(FOUNDED, Turn(1, FOUNDED, 1, ()), 0, 0, 0)) == []
    assert core(x).branches["other-lineage"] == 1


# ---------------------------------------------------------------------- requests
def test_requests_that_make_no_sense_are_the_callers() -> None:
    b = configured()
    with pytest.raises(UsageError, match="is in 'g' already"):
        b.step(JoinRequested("g"))
    with pytest.raises(UsageError, match="nothing to leave"):
        b.step(LeaveRequested("h"))
    with pytest.raises(UsageError, match="no name"):
        b.step(JoinRequested(""))
    with pytest.raises(UsageError, match="no roles"):
        b.step(JoinRequested("h", role="sender"))


def test_who_is_in_no_group_or_leaves_its_last_one_cannot_multicast() -> None:
    x = stranger()
    message = MulticastRequested(Multicast(MessageId("x", 0, 1), ("g",)))
    with pytest.raises(UsageError, match="join a group"):
        x.step(message)
    b = configured()
    b.step(LeaveRequested("g"))
    with pytest.raises(UsageError, match="join a group"):
        b.step(MulticastRequested(Multicast(MessageId("b", 0, 1), ("g",))))


def test_a_wish_is_in_the_log_before_anything_comes_of_it() -> None:
    effects = configured().step(JoinRequested("h"))
    kinds = [type(effect) for effect in effects]
    assert kinds[0] is Append
    assert SetTimer in kinds


# ---------------------------------------------------------------------- rosters
def roster(names: str, **groups: str) -> Roster:
    return Roster(FOUNDED, tuple((name, 1) for name in names), tuple((g, tuple(m)) for g, m in sorted(groups.items())))


def test_who_leaves_its_last_group_leaves_the_roster_but_not_the_keeper() -> None:
    leave = Wishes((("g", False),))
    before = roster("abc", g="abc", h="a")
    after = changed(before, (2, "a"), "b", {}, {"a": leave, "b": leave, "c": leave})
    assert after.names == ("a", "b")
    assert after.groups == (("g", ("b",)), ("h", ("a",)))


def test_an_applicant_whose_name_is_known_begins_a_new_life() -> None:
    after = changed(roster("ab", g="ab"), (7, "a"), "a", {"b": ("h",)}, {})
    assert after.sites == (("a", 1), ("b", 7))
    assert after.groups == (("g", ("a",)), ("h", ("b",)))


def test_what_nobody_wants_is_no_change() -> None:
    before = roster("ab", g="ab")
    assert changed(before, (2, "a"), "a", {}, {"a": Wishes((("g", True),))}) is before


def test_a_roster_takes_no_more_than_256() -> None:
    many = {f"n{number:03}": ("g",) for number in range(300)}
    assert len(changed(roster("a", g="a"), (2, "a"), "a", many, {}).sites) == 256


def test_a_roster_comes_back_from_its_message() -> None:
    assert read_roster(announce(roster("ab", g="ab"))) == roster("ab", g="ab")


# ---------------------------------------------------------------------- bad packets
def names(count: int) -> Roster:
    sites = tuple((f"n{number:06}", 0) for number in range(count))
    return Roster((5, "a"), sites, (("g", tuple(name for name, _life in sites)),))


@pytest.mark.parametrize("bad", [names(100_000), names(0), Roster((5, "a"), (("b", 0), ("a", 0)), ())])
def test_a_roster_that_is_none_is_malformed_and_leaves_nothing(bad: Roster) -> None:
    for packet in (
        News((5, "a"), bad),
        InstallOfRoster((5, "a"), ("a",), 0, (), 0, bad, None, "a"),
        JoinOfRoster(
            (1, "b"), FIRST_VERSION, ("a",), 0, (), 0, 0, (), roster=bad, before=None, life=0, tentative=False,
            wishes=Wishes(),
        ),
        Data(life_start(5) + 1, (Multicast(MessageId("~a", 0, 5), (), encode(bad), None, 0),)),
    ):  # fmt: skip
        b = configured()
        with pytest.raises(WireError):
            b.receive("a", packet)
        assert core(b).system.all == SITES
        assert core(b).stable.promised == FIRST_VERSION
        assert core(b).attempt.stage == ""


def test_an_application_for_a_thousand_groups_is_malformed() -> None:
    with pytest.raises(WireError):
        configured().receive("a", Apply(FIRST_VERSION, tuple(f"g{number}" for number in range(1000))))


def test_what_belongs_to_another_lineage_is_counted_and_begins_nothing() -> None:
    b = configured()
    other: GroupId = "g"
    for packet in (
        InstallOfRoster(FOUNDED, ("a", "b"), 0, (), 0, roster("ab", **{other: "ab"}), None, "a"),
        News(FOUNDED, roster("ab", g="ab")),
        Acknowledge(FOUNDED, Turn(1, FOUNDED, 1, ()), 0, 0, 0),
    ):
        assert b.receive("a", packet) == []
    assert core(b).branches["other-lineage"] == 3
    assert sent(b.receive("a", Invite(FOUNDED))) == []
    assert core(b).stable.promised == FIRST_VERSION


def test_an_old_roster_changes_nothing() -> None:
    play = Play({"g": "abc"}, [change("join", 2.0, "d", "g")])
    a = play.core("a")
    old = Roster((0, "z"), (("a", 0), ("z", 0)), (("g", ("a", "z")),))
    a.probing.on_news("b", News((0, "z"), old), None)  # type: ignore[arg-type]
    assert a.system.all == ("a", "b", "c", "d")
