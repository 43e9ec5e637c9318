"""Token passing with a site that has lost its log: it counts for nothing until the others have given it back what it
must know, and what it said before is not believed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec
import pytest

from ordercast.campaign.draw import draw_scenario
from ordercast.core import MessageId, Multicast, Packet
from ordercast.core.effects import Append, Credit, DeclareRecovered, Effect, EnterGroup, ExitGroup, Send
from ordercast.core.events import MulticastRequested, Recovered, Started, TimerFired
from ordercast.protocols.classic.token import Token
from ordercast.protocols.classic.token.options import TokenOptions
from ordercast.protocols.classic.token.packets import Acknowledge, Ask, Data, Install, Invite, Join, Lost, Probe, Vouch
from ordercast.protocols.classic.token.records import KnownLoss, LogLost
from ordercast.protocols.classic.token.turns import FIRST_VERSION, Run, Summary, Turn, Version, life_start
from ordercast.sim import Simulation
from ordercast.sim.faults import Crash, Fault
from tests.protocols.classic_runs import Hand, broken_claims, sent
from tests.protocols.token_runs import Story, Watched, moves

SITES = ("a", "b", "c", "d", "e")
GROUPS = {"g": SITES, "h": ("a", "b")}
LIST: Version = (4, "a")


def hand(site: str, sites: tuple[str, ...] = SITES) -> Hand:
    led = Hand(Token, site, GROUPS if sites == SITES else {"g": sites}, sites)
    led.step(Started())
    return led


def lost(site: str = "c", sites: tuple[str, ...] = SITES) -> tuple[Hand, list[Effect]]:
    """A site that finds no log in its second life, and its first step there."""
    led = Hand(Token, site, GROUPS if sites == SITES else {"g": sites}, sites, incarnation=2)
    return led, led.step(Recovered((), None, lost=True))


def core(led: Hand) -> Token:
    assert isinstance(led.core, Token)
    return led.core


def vouch(
    number: int = 20, version: Version = LIST, base: int = 10, life: int = 2, sites: Iterable[str] = SITES
) -> Vouch:
    ordered = tuple((site, 3) for site in sites)
    return Vouch(life, version, base, Summary(number, version, number, 15, ordered, (("g", 15),)))


def packets(effects: list[Effect], kind: type[Packet]) -> list[Packet]:
    return [packet for _to, packet in sent(effects) if isinstance(packet, kind)]


# ---------------------------------------------------------------------- the lost site
def test_a_lost_log_is_the_first_thing_in_the_new_one() -> None:
    _c, effects = lost()
    records = [effect.record for effect in effects if isinstance(effect, Append)]
    assert records == [LogLost(2)]
    asked = next(at for at, effect in enumerate(effects) if isinstance(effect, Send))
    assert effects.index(Append(LogLost(2))) < asked
    assert packets(effects, Lost) == [Lost(2)]
    assert [effect.available for effect in effects if isinstance(effect, Credit)] == [0]


def test_a_lost_site_takes_part_in_nothing() -> None:
    c, _effects = lost()
    for packet in (
        Invite((9, "a")),
        Probe(1, FIRST_VERSION),
        Install((9, "a"), SITES, 0, (), 0),
        Acknowledge(FIRST_VERSION, Turn(1, FIRST_VERSION, 1, ()), 0, 0, 0),
        Ask(FIRST_VERSION, 0, (), 0),
        Lost(1),
    ):
        assert not [effect for effect in c.receive("a", packet) if isinstance(effect, Send)], packet
    for timer in ("watchdog", "rejoin", "token", "source", "reform"):
        assert not [effect for effect in c.step(TimerFired(timer)) if isinstance(effect, Send)], timer


def test_a_majority_without_the_lost_site_must_vouch_for_one_list() -> None:
    c, _effects = lost()
    c.receive("a", vouch())
    c.receive("b", vouch(version=(3, "b")))
    assert moves(c.receive("a", vouch())) == []
    assert core(c).obstacle("loss") == (
        "c has lost its log: it waits for 3 of the others to vouch for a list without it, and for any of a, b, d, e"
    )
    c.step(TimerFired("loss"))
    assert core(c).obstacle("loss").endswith("any of b, d, e")
    c.receive("b", vouch())
    effects = c.receive("d", vouch(22))
    assert moves(effects) == [ExitGroup("g"), EnterGroup("g", 15)]
    assert core(c).obstacle("loss") == ""
    at = core(c)
    assert (at.stable.promised, at.ledger.committed, at.ledger.version) == (LIST, 22, FIRST_VERSION)
    assert not at.stable.in_normal_phase
    # It asks to be let in, as anybody does who was left out, and is recovered when it is.
    assert packets(effects, Probe)
    assert DeclareRecovered() not in effects


def test_what_the_list_begins_with_must_be_committed() -> None:
    c, _effects = lost()
    for site in "abd":
        assert moves(c.receive(site, vouch(8))) == []
    assert moves(c.receive("e", vouch(10))) != []


def test_vouching_for_a_former_life_is_ignored() -> None:
    c, _effects = lost()
    for site in "abd":
        assert moves(c.receive(site, vouch(life=1))) == []


def test_of_three_sites_both_others_must_vouch() -> None:
    c, _effects = lost("c", ("a", "b", "c"))
    assert moves(c.receive("a", vouch(sites="abc"))) == []
    assert "it waits for 2 of the others" in core(c).obstacle("loss")
    assert moves(c.receive("b", vouch(sites="abc"))) != []


def test_of_two_sites_none_can_be_repaired_and_that_is_said() -> None:
    b, _effects = lost("b", ("a", "b"))
    assert core(b).obstacle("loss") == (
        "b has lost its log: 2 others would have to vouch for it, and there are not so many: all sites must begin anew"
    )


def test_a_site_that_crashes_before_it_is_repaired_is_still_lost() -> None:
    c, _effects = lost()
    again = Hand(Token, "c", GROUPS, SITES, incarnation=3)
    effects = again.step(Recovered(tuple(effect.record for effect in c.log)))
    assert core(again).loss.lost
    assert packets(effects, Lost) == [Lost(2)]
    restored = Hand(Token, "c", GROUPS, SITES, incarnation=3)
    restored.step(Recovered((), core(c).checkpoint_state()))
    assert core(restored).loss.lost
    for site in "abd":
        c.receive(site, vouch())
    again = Hand(Token, "c", GROUPS, SITES, incarnation=3)
    again.step(Recovered(tuple(effect.record for effect in c.log)))
    assert not core(again).loss.lost
    assert core(again).stable.promised == LIST


def test_a_repaired_source_uses_no_number_that_it_may_have_used() -> None:
    c, _effects = lost()
    for site in "abd":
        c.receive(site, vouch())
    effects = c.step(MulticastRequested(Multicast(MessageId("c", 2, 1), ("g",))))
    assert [packet.source_number for packet in packets(effects, Data) if isinstance(packet, Data)] == [
        life_start(2) + 1
    ]


def test_the_history_goes_on_with_the_new_life_of_a_source() -> None:
    a = hand("a")
    old, new = Multicast(MessageId("c", 0, 2), ("g",)), Multicast(MessageId("c", 2, 1), ("g",))
    # The first message of the former life was with the lost site alone.
    a.receive("c", Data(2, (old,)))
    assert core(a).ledger.accepted == 0
    a.receive("c", Data(life_start(2) + 1, (new,)))
    assert [entry.turn.runs for entry in core(a).ledger.entries.values()] == [(Run(life_start(2) + 1, new.id, 1),)]
    # What was left open never comes.
    a.receive("b", Data(1, (Multicast(MessageId("c", 0, 1), ("g",)),)))
    assert core(a).backlog.find("c", 1) is None
    assert core(a).backlog.find("c", 2) is None


# ---------------------------------------------------------------------- the others
def test_a_site_vouches_for_a_list_without_the_lost_one_and_logs_the_loss_first() -> None:
    a = hand("a")
    core(a).joining.join(LIST)
    a.receive("a", Install(LIST, ("a", "b", "d", "e"), 0, (), 0))
    effects = a.receive("c", Lost(2))
    assert [type(effect) for effect in effects] == [Append, Send]
    assert isinstance(effects[0], Append)
    assert effects[0].record == KnownLoss("c", 2)
    assert [packet.version for packet in packets(effects, Vouch) if isinstance(packet, Vouch)] == [LIST]
    # Nor does it vouch while it has joined another list, which it cannot know the end of.
    a.receive("b", Invite((9, "b")))
    assert packets(a.receive("c", Lost(2)), Vouch) == []


def test_the_token_site_begins_a_new_list_when_a_member_has_lost_its_log() -> None:
    a, b = hand("a"), hand("b")
    assert packets(b.receive("c", Lost(2)), Probe) == []
    assert packets(a.receive("c", Lost(2)), Probe) != []
    assert packets(a.receive("c", Lost(2)), Vouch) == []


def originator_with(joins: Mapping[str, tuple[tuple[str, int], ...]]) -> Token:
    """A site that has invited all others and got these answers, each with the losses that the sender knows of."""
    b = hand("b")
    core(b).reformation.originate()
    b.core.outbox.clear()
    version = core(b).stable.promised
    for site, lives in joins.items():
        b.receive(site, Join(version, FIRST_VERSION, SITES, 0, (), 0, 0, lives))
    for _ in range(3):
        b.step(TimerFired("reform"))
    return core(b)


def test_what_a_site_joined_in_its_former_life_does_not_count() -> None:
    """c joins a list of b and loses its log; e, which has vouched since, tells of it."""
    assert originator_with({"c": (), "e": ()}).attempt.stage == "installing"
    assert originator_with({"c": (), "e": (("c", 2),)}).attempt.stage == "inviting"
    assert originator_with({"c": (("c", 2),), "e": (("c", 2),)}).attempt.stage == "installing"


def test_a_loss_is_remembered_after_a_crash() -> None:
    a = hand("a")
    a.receive("c", Lost(2))
    for records, checkpoint in (
        (tuple(effect.record for effect in a.log), None),
        ((), core(a).checkpoint_state()),
    ):
        again = Hand(Token, "a", GROUPS, SITES, incarnation=1)
        again.step(Recovered(records, checkpoint))
        assert core(again).loss.known_lives() == (("c", 2),)


# ---------------------------------------------------------------------- whole runs
def repaired(faults: list[Fault], sites: str, loses: dict[str, int], **more: float) -> Story:
    """Sources are others than those that lose their log: what only a lost site had is lost."""
    sources = "".join(site for site in sites if site not in loses)
    story = Story(faults, sites=sites, loses=loses, sources=sources, **more)  # type: ignore[arg-type]
    assert broken_claims(story.simulation) == {}
    return story


@pytest.mark.parametrize("sites", ["abc", "abcde"])
@pytest.mark.parametrize("back", [2.1, 9.0])
def test_a_lost_log_is_given_back_by_the_others(sites: str, back: float) -> None:
    """Whether they have formed a list without it by then, or not."""
    story = repaired([Crash(from_=2.0, to=back, sites=("c",))], sites, {"c": 1})
    assert story.simulation.branches["repaired"] == 1
    assert story.gaps("c", "g", "a") > 0
    assert "c" in story.core("a").ledger.members


def test_a_repaired_site_multicasts_again() -> None:
    story = Story([Crash(from_=0.5, to=4.0, sites=("c",))], loses={"c": 1}, sources="abcde", duration=8.0)
    story.simulation.execute()
    by_c = [message for message in story.delivered("a", "g") if message.source == "c"]
    assert {message.incarnation for message in by_c} == {0, 1}
    assert story.gaps("c", "h", "b") > 0


def test_two_of_five_lose_their_logs_one_after_the_other() -> None:
    faults: list[Fault] = [Crash(from_=2.0, to=4.0, sites=("c",)), Crash(from_=7.0, to=9.0, sites=("d",))]
    story = repaired(faults, "abcde", {"c": 1, "d": 1})
    assert story.simulation.branches["repaired"] == 2


def test_a_lost_site_that_crashes_while_it_is_repaired() -> None:
    for moment in range(6):
        again = 4.0 + moment * 0.03
        faults: list[Fault] = [Crash(from_=2.0, to=4.0, sites=("c",)), Crash(from_=again, to=again + 1, sites=("c",))]
        repaired(faults, "abcde", {"c": 1}, sync_seconds=0.02)


def test_of_three_a_lost_site_waits_while_another_is_down_and_says_so() -> None:
    faults: list[Fault] = [Crash(from_=2.0, to=6.0, sites=("c",)), Crash(from_=4.0, to=10.0, sites=("b",))]
    story = repaired(faults, "abc", {"c": 1}, duration=13.0)
    reasons = story.simulation.sites["c"].blocked_reasons
    assert any("it waits for 2 of the others" in reason and "a, b" in reason for reason in reasons)
    assert story.rate("a", 7.0, 10.0) == 0
    assert "c" in story.core("a").ledger.members


def test_of_five_a_lost_site_is_repaired_while_another_is_down() -> None:
    faults: list[Fault] = [Crash(from_=2.0, to=6.0, sites=("c",)), Crash(from_=4.0, forever=True, sites=("b",))]
    story = repaired(faults, "abcde", {"c": 1}, duration=13.0)
    assert "c" in story.core("a").ledger.members


def test_when_more_have_lost_their_log_than_the_resilience_says_nobody_goes_on() -> None:
    """Nobody can know what the two have committed together."""
    story = Story(
        [Crash(from_=2.0, to=2.1, sites=("c", "d"))],
        loses={"c": 1, "d": 1},
        options=TokenOptions(resilience=1),
        sources="abe",
    )
    story.simulation.execute()
    assert story.core("c").loss.lost
    assert any("no valid list" in reason for reason in story.simulation.sites["a"].blocked_reasons)


class Votes(Watched):
    """Takes part at once without its log, as if it ran for the first time."""

    def on_recovered(self, event: Recovered) -> None:
        if self.loses.get(self.site) == self.context.incarnation:
            Token.on_recovered(self, Recovered())
        else:
            super().on_recovered(event)


class Static(Token):
    """For runs in which nobody joins or leaves."""

    contract = msgspec.structs.replace(Token.contract, dynamic=False)


def drawn(protocol: type[Watched], seed: int, victim: str) -> Simulation:
    """The run of a campaign in which a site that crashes also loses its log."""
    scenario = draw_scenario(Static, seed)
    losing = type(protocol.__name__, (protocol,), {"bytes_max": Counter(), "loses": {victim: 1}})
    return msgspec.structs.replace(scenario, protocol=losing).simulation()


@pytest.mark.parametrize(("seed", "victim"), [(13, "c"), (22, "d"), (66, "b"), (68, "d")])
def test_a_lost_site_that_votes_at_once_breaks_what_was_promised(seed: int, victim: str) -> None:
    assert set(broken_claims(drawn(Votes, seed, victim))) - {"termination"}
    run = drawn(Watched, seed, victim)
    # What it multicast and nobody acknowledged is lost with its log.
    assert set(broken_claims(run)) <= {"termination"}
    assert run.branches["repaired"]
