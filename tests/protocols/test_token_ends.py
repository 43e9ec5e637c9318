"""The token protocol where lists end: what remains of them, and who is left behind."""

from __future__ import annotations

import tomllib

import pytest

from ordercast.campaign import run_seed
from ordercast.core import UsageError
from ordercast.core.effects import Effect, ExitGroup
from ordercast.core.events import Discovered, JoinRequested, LeaveRequested, Started, TimerFired
from ordercast.protocols import find_protocol
from ordercast.protocols.classic.token import Token
from ordercast.protocols.classic.token.options import TokenOptions
from ordercast.protocols.classic.token.packets import Elsewhere, Invite, News, Presence, Probe, Seek
from ordercast.protocols.classic.token.rosters import Roster
from ordercast.protocols.classic.token.turns import FIRST_VERSION
from ordercast.sim.faults import Crash
from ordercast.sim.memory_faults import LostLog
from ordercast.sim.scenario import parse_scenario
from tests.protocols.classic_runs import Hand, broken_claims, sent
from tests.protocols.token_changes import Play, change

SITES = ("a", "b", "c")


def left_alone(groups: tuple[str, ...] = ("g",)) -> Hand:
    """b, of a configuration, hears nothing any more and asks who is there."""
    led = Hand(Token, "b", dict.fromkeys(groups, SITES), SITES)
    led.step(Started())
    led.step(TimerFired("watchdog"))
    assert isinstance(led.core, Token)
    return led


def rounds(led: Hand) -> list[Effect]:
    """All the time that it gives the others to answer."""
    return [effect for _ in range(TokenOptions().retries + 1) for effect in led.step(TimerFired("reform"))]


def test_who_founds_a_group_anew_is_in_none_that_it_has_left() -> None:
    changes = [change("leave", 1.0, "ad", "g"), change("leave", 1.0, "ad", "i")]
    play = Play({"g": "ad", "i": "ad"}, [*changes, change("join", 3.0, "d", "g"), change("join", 4.0, "p", "i")])
    assert play.views("d", "g")[-1].members == ("d",)
    assert play.core("d").changes.groups == ("g",)


def test_the_last_one_that_has_left_is_in_nothing_after_a_crash() -> None:
    changes = [change("join", 0.8, "a", "g"), change("leave", 1.6, "a", "g"), change("join", 2.5, "b", "g")]
    play = Play({}, changes, [Crash(from_=2.0, to=2.1, sites=("a",))])
    kinds = [type(each).__name__ for each in play.effects("a")]
    # Whatever the log says again of the entry, it also says that it is over.
    assert kinds == ["EnterGroup", "InstallView", "ExitGroup", "EnterGroup", "InstallView", "ExitGroup"]


def test_whoever_has_given_a_join_up_has_nothing_to_leave() -> None:
    led = Hand(Token, "x", {}, ("x",))
    led.step(Started())
    led.step(Discovered(("a",), True))
    led.step(JoinRequested("g"))
    led.receive("a", Invite((3, "a")))
    assert ExitGroup("g") in led.step(LeaveRequested("g"))
    with pytest.raises(UsageError, match="is not in 'g': there is nothing to leave"):
        led.step(LeaveRequested("g"))


def test_who_is_left_behind_by_all_others_leaves_its_groups_and_joins_them_again() -> None:
    led = left_alone()
    for other in ("a", "c"):
        led.receive(other, Elsewhere(1))
    effects = rounds(led)
    assert ExitGroup("g") in effects
    assert (("a", "c"), Seek(FIRST_VERSION)) in sent(effects)


def test_who_is_left_behind_while_it_wants_to_leave_has_left() -> None:
    led = left_alone(("g", "h"))
    led.step(LeaveRequested("g"))
    led.step(LeaveRequested("h"))
    for other in ("a", "c"):
        led.receive(other, Elsewhere(1))
    effects = rounds(led)
    assert [each for each in effects if isinstance(each, ExitGroup)] == [ExitGroup("g"), ExitGroup("h")]
    assert not any(isinstance(packet, Seek) for _to, packet in sent(effects))


def test_who_hears_that_a_later_list_is_without_it_and_has_ended_has_left_also_a_configured_list() -> None:
    """a and c have let it leave with a list of which it has not heard, and have left as well: nobody has a history."""
    led = left_alone()
    core = led.core
    assert isinstance(core, Token)
    led.step(LeaveRequested("g"))
    version = (1, "a")
    led.receive("a", News(version, Roster(version, (("a", 0), ("c", 0)), (("g", ("a", "c")),))))
    assert core.system.is_leaving
    asked = [packet for _to, packet in sent(rounds(led)) if isinstance(packet, Seek)]
    assert asked == [Seek(core.ledger.version)] == [Seek(FIRST_VERSION)]
    gone = Presence(FIRST_VERSION, 0, asked=FIRST_VERSION)
    assert ExitGroup("g") in [effect for other in ("a", "c") for effect in led.receive(other, gone)]


@pytest.mark.parametrize(("answers", "attempt"), [(("a",), 1), (("a", "c"), 0), (("a", "x"), 1)])
def test_nobody_gives_a_list_up_of_which_a_majority_may_still_be_there(answers: tuple[str, ...], attempt: int) -> None:
    led = left_alone()
    led.step(Discovered(("a", "c", "x"), True))
    for other in answers:
        led.receive(other, Elsewhere(attempt))
    assert not any(isinstance(effect, ExitGroup) for effect in rounds(led))


def test_nobody_gives_a_list_up_to_which_somebody_may_have_come() -> None:
    led = left_alone()
    led.step(Discovered(("a", "c", "x"), True))
    for other in ("a", "c"):
        led.receive(other, Elsewhere(1))
    assert not any(isinstance(effect, ExitGroup) for effect in rounds(led))


def test_who_is_in_no_list_or_in_another_one_says_so_to_who_probes() -> None:
    stranger = Hand(Token, "x", {}, ("x",))
    stranger.step(Started())
    assert sent(stranger.receive("a", Probe(7, FIRST_VERSION))) == [(("a",), Elsewhere(7))]
    member = Hand(Token, "b", {"g": SITES}, SITES)
    member.step(Started())
    assert sent(member.receive("a", Probe(7, (3, "x~x.0000beef")))) == [(("a",), Elsewhere(7))]


WHAT_NOBODY_HAS = """
protocol = "token"
seed = 1941
duration = 8.9
settle = 30.039
sites = ["a", "b", "c", "e"]
[groups]
g = ["d", "f"]
[network]
kind = "broadcast"
processing = 0.000077
[storage]
sync = 0.02049
[[workload]]
sources = ["a", "c", "d", "e"]
groups = ["g"]
choose = 1
rate = 1.079
size = 1000
count = 6
[[fault]]
kind = "burst-loss"
rate = 0.15
length = 6.9
from = 0.848
[[fault]]
kind = "delay"
seconds = 0.038516
rate = 0.28
from = 2.504
to = 6.715
[[change]]
kind = "join"
at = 2.465
sites = ["r"]
group = "g"
[[change]]
kind = "join"
at = 6.66
sites = ["p"]
group = "g"
[options]
retry_seconds = 0.0874
pass_seconds = 0.0159
beacon_seconds = 0.1443
suspicion_seconds = 0.562
history_bytes_max = 3451
"""


def test_who_lacks_what_everybody_has_forgotten_is_told_so_although_lists_come_and_go() -> None:
    simulation = parse_scenario(tomllib.loads(WHAT_NOBODY_HAS), find_protocol).simulation()
    assert broken_claims(simulation) == {}


@pytest.mark.parametrize("back", [False, True])
def test_a_configured_site_that_left_and_loses_its_log_belongs_to_what_it_had_joined_since(back: bool) -> None:
    changes = [change("leave", 1.0, "c", "g")] + ([change("join", 2.5, "c", "g")] if back else [])
    play = Play({"g": "abcd"}, changes, [LostLog(from_=4.0, to=4.5, sites=("c",), repair=True)], duration=9.0)
    assert play.views("a", "g")[-1].members == (("a", "b", "c", "d") if back else ("a", "b", "d"))
    core = play.core("c")
    assert core.changes.groups == (("g",) if back else ())
    assert not core.loss.lost
    assert play.simulation.fault_counts["lost-log"] == 1
    assert set(play.simulation.refusals) == {"c"}


LET_IN_AFTER_A_CRASH = """
protocol = "token"
seed = 967
duration = 4.91
settle = 30.0
[network]
kind = "point-to-point"
processing = 0.000204
latency = 0.00066
[storage]
sync = 0.0446
[[fault]]
kind = "cut"
peers = ["e"]
from = 0.549
to = 0.595
sites = ["a", "b"]
[[fault]]
kind = "cut"
peers = ["a", "e"]
from = 0.891
to = 1.773
sites = ["b"]
[[fault]]
kind = "partition"
parts = [["a", "e"]]
from = 1.762
to = 3.399
[[fault]]
kind = "torn-log"
from = 4.766
to = 4.802
sites = ["b"]
[[change]]
kind = "join"
at = 0.0
sites = ["a", "b", "e"]
group = "g"
[options]
retries = 3
retry_seconds = 0.0783
"""


def test_who_comes_back_with_a_list_that_nobody_has_and_is_let_in_again_has_recovered() -> None:
    simulation = parse_scenario(tomllib.loads(LET_IN_AFTER_A_CRASH), find_protocol).simulation()
    assert broken_claims(simulation) == {}


@pytest.mark.parametrize("seed", [632, 637, 1880])
def test_what_an_attempt_has_gathered_goes_with_it_and_a_roster_is_kept_until_it_is_committed(seed: int) -> None:
    # Sites that formed one of many lists, and none later, kept what everybody had accepted then; 1880: a list that was
    # formed without a site brought again a roster which had its place in the order.
    assert run_seed(Token, seed).outcome.violations == ()


def test_whoever_is_the_last_to_leave_a_configured_list_of_which_all_others_have_gone_has_left() -> None:
    assert run_seed(Token, 108094).outcome.violations == ()
