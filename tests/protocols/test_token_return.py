"""Token passing with sites that are away for long: the others go on, and who comes back goes on where they are."""

from __future__ import annotations

import msgspec
import pytest

from ordercast.core import MessageId, Multicast, WireError
from ordercast.core.effects import Append, Blocked, Credit, EnterGroup, ExitGroup, Replay
from ordercast.core.events import Consumed, Recovered, Started, TimerFired
from ordercast.protocols.classic.token import Token
from ordercast.protocols.classic.token.backlog import WINDOW_BYTES, WINDOWS_HEARD
from ordercast.protocols.classic.token.options import TokenOptions
from ordercast.protocols.classic.token.packets import Acknowledge, Ask, Beacon, Data, Forgotten, History, Install, Join
from ordercast.protocols.classic.token.records import TakenOver
from ordercast.protocols.classic.token.turns import FIRST_VERSION, MESSAGE_BYTES, Entry, Run, Summary, Turn
from ordercast.sim.faults import Crash, Partition, SlowReader
from tests.protocols.classic_runs import Hand, broken_claims, delivered, sent
from tests.protocols.token_runs import HISTORY_BYTES, SMALL, Story, moves

SITES = ("a", "b", "c")
GROUPS = {"g": SITES, "h": ("b", "c"), "k": ("a", "b")}
LATER = (3, "a")


def hand(site: str, options: TokenOptions | None = None, incarnation: int = 0) -> Hand:
    led = Hand(Token, site, GROUPS, SITES, options, incarnation)
    if not incarnation:
        led.step(Started())
    return led


def core(led: Hand) -> Token:
    assert isinstance(led.core, Token)
    return led.core


def message(source: str, number: int, group: str = "g", payload: bytes = b"", count: int = 1) -> Multicast:
    return Multicast(MessageId(source, 0, number), (group,), payload, None, count)


def turn(number: int, sequence: int, *messages: Multicast) -> Turn:
    return Turn(number, FIRST_VERSION, sequence, tuple(Run(each.id.number, each.id, 1) for each in messages))


def summary(number: int = 50, **ordered: int) -> Summary:
    """Of ten messages in g and two in k."""
    return Summary(
        number, LATER, number - 1, 12, tuple((site, ordered.get(site, 0)) for site in SITES), (("g", 10), ("k", 2))
    )


def forgotten(of: Summary) -> Forgotten:
    return Forgotten(LATER, 0, 0, of.number - 1, of.number - 1, of)


# ---------------------------------------------------------------------- the bound
def full(led: Hand, site: str, settled: dict[str, int]) -> Token:
    """A site with eight messages of a in as many turns, which take all of its history."""
    at = core(led)
    for number in range(1, 9):
        at.ledger.accept(Entry(turn(number, number, message("a", number)), (message("a", number),)))
    at.stable.commit(8)
    at.delivery.consume(8)
    for other, through in settled.items():
        at.settlement.note(other, through)
    at.outbox.clear()
    return at


def test_a_full_history_is_forgotten_past_those_who_are_not_in_the_list() -> None:
    b = full(hand("b", TokenOptions(history_messages_max=8)), "b", {"a": 8, "b": 8, "c": 2})
    b.settlement.finish_step()
    assert (b.ledger.forgotten, b.settlement.is_full) == (2, False)
    b.ledger.install((1, "a"), ("a", "b"), 8, ())
    b.stable.promise((1, "a"))
    for number in (9, 10):
        b.ledger.accept(
            Entry(Turn(number, (1, "a"), number, (Run(number, message("a", number).id, 1),)), (message("a", number),))
        )
    b.settlement.finish_step()
    assert b.branches["history-forgotten-past-absent"] == 1
    assert (b.ledger.forgotten, b.settlement.gone, b.settlement.everywhere) == (3, 3, 2)
    assert b.obstacle("history") == ""


def test_a_slow_member_of_the_list_is_waited_for_and_named() -> None:
    b = full(hand("b", TokenOptions(history_messages_max=8)), "b", {"a": 8, "b": 8})
    b.settlement.finish_step()
    assert b.ledger.forgotten == 0
    assert Blocked("history", "the history is full: waiting until c has delivered it") in b.outbox


def test_the_history_is_bounded_in_bytes() -> None:
    options = TokenOptions(history_bytes_max=8 * (MESSAGE_BYTES + 1000))
    a = hand("a", options)
    for number in range(1, 20):
        a.receive("c", Data(number, (message("c", number, payload=bytes(1000)),)))
        at = core(a)
        if not at.ring.holds_token and at.ledger.token_site == "b":
            a.receive(
                "b",
                Acknowledge(
                    FIRST_VERSION,
                    Turn(at.ledger.accepted + 1, FIRST_VERSION, at.ledger.sequence + 1, ()),
                    at.ledger.accepted,
                    0,
                    0,
                ),
            )
            a.receive(
                "c",
                Acknowledge(
                    FIRST_VERSION,
                    Turn(at.ledger.accepted + 1, FIRST_VERSION, at.ledger.sequence + 1, ()),
                    at.ledger.accepted,
                    0,
                    0,
                ),
            )
    assert core(a).settlement.is_full
    assert core(a).ledger.bytes <= options.history_bytes_max
    assert any("waiting until b, c has delivered it" in core(a).obstacle(by) for by in ("history",))


def test_a_turn_takes_one_message_that_is_larger_than_the_whole_bound() -> None:
    a = hand("a", TokenOptions(history_bytes_max=1000))
    a.receive("c", Data(1, (message("c", 1, payload=bytes(5000)), message("c", 2))))
    assert [entry.turn.messages for entry in core(a).ledger.entries.values()] == [1]


def test_a_source_gets_no_credit_for_more_bytes_than_its_window() -> None:
    b = hand("b")
    b.core.outbox.clear()
    core(b).source.multicast(message("b", 1, payload=bytes(WINDOW_BYTES)))
    core(b).source.give_credit()
    assert [effect.available for effect in b.core.outbox if isinstance(effect, Credit)] == [0]


def test_the_backlog_is_bounded_in_bytes_and_keeps_what_comes_first() -> None:
    b = core(hand("b"))
    for number in range(9, 0, -1):
        b.backlog.keep("c", number, (message("c", number, payload=bytes(WINDOW_BYTES // 2)),))
        b.backlog.check_invariants()
    assert [number for number in range(1, 10) if b.backlog.find("c", number)] == [1, 2, 3]
    assert WINDOWS_HEARD == 2


# ---------------------------------------------------------------------- the summary
def test_who_asks_for_what_is_gone_is_given_a_summary_of_what_is_committed() -> None:
    a = hand("a", TokenOptions(history_messages_max=8))
    at = full(a, "a", {"a": 8, "b": 8})
    at.ledger.install((1, "a"), ("a", "b"), 8, ())
    at.stable.promise((1, "a"))
    at.settlement.finish_step()
    assert at.settlement.gone == 1
    uncommitted = Entry(Turn(9, (1, "a"), 9, (Run(9, message("a", 9).id, 1),)), (message("a", 9),))
    at.ledger.accept(uncommitted)
    answer = sent(a.receive("c", Ask(FIRST_VERSION, 0, (), 0)))
    assert answer == [
        (
            ("c",),
            Forgotten(
                (1, "a"), 0, 1, 1, 1, Summary(8, FIRST_VERSION, 8, 8, (("a", 8), ("b", 0), ("c", 0)), (("g", 8),))
            ),
        )
    ]
    # What is not gone is still told.
    assert [type(packet) for _to, packet in sent(a.receive("c", Ask(FIRST_VERSION, 4, (), 0)))] == [History]


def test_messages_of_turns_that_are_gone_are_answered_with_a_summary_too() -> None:
    a = hand("a", TokenOptions(history_messages_max=8))
    at = full(a, "a", {"a": 8, "b": 8})
    at.ledger.install((1, "a"), ("a", "b"), 8, ())
    at.stable.promise((1, "a"))
    at.settlement.finish_step()
    assert [type(packet) for _to, packet in sent(a.receive("c", Ask(FIRST_VERSION, -1, ((1, "a", 1, 1),), 0)))] == [
        Forgotten
    ]


def test_who_never_had_what_is_asked_for_leaves_the_answer_to_others_at_first() -> None:
    b = hand("b")
    b.receive("a", forgotten(summary()))
    core(b).settlement.gone = 0
    assert sent(b.receive("c", Ask(FIRST_VERSION, 40, (), 0))) == []
    answers = sent(b.receive("c", Ask(FIRST_VERSION, 40, (), 0, in_vain=True)))
    assert [type(packet) for _to, packet in answers] == [Forgotten]


def test_a_site_goes_on_behind_the_gap_and_says_in_which_groups() -> None:
    b = hand("b")
    b.receive("c", Data(1, (message("c", 1, "h"),)))
    effects = b.receive("a", forgotten(summary()))
    logged = [effect for effect in effects if isinstance(effect, Append)]
    assert [type(effect.record) for effect in logged] == [TakenOver]
    # Nothing is missing in h.
    assert moves(effects) == [ExitGroup("g"), ExitGroup("k"), EnterGroup("g", 10), EnterGroup("k", 2)]
    assert effects.index(logged[0]) < effects.index(ExitGroup("g"))
    at = core(b)
    assert (at.ledger.committed, at.ledger.accepted, at.ledger.sequence, at.delivery.settled) == (50, 50, 12, 50)
    assert not at.stable.in_normal_phase


def test_what_was_committed_before_the_gap_is_delivered_first() -> None:
    b = hand("b", TokenOptions(reader_messages_max=1))
    b.receive("a", Data(1, (message("a", 1), message("a", 2))))
    b.receive("a", Acknowledge(FIRST_VERSION, turn(1, 1, message("a", 1), message("a", 2)), 0, 0, 0))
    assert core(b).delivery.settled == 0
    assert moves(b.receive("a", forgotten(summary(a=9)))) == []
    assert "application" in core(b).obstacle("reader")
    effects = b.step(Consumed(1))
    assert delivered(effects) == [MessageId("a", 0, 2)]
    # With everything delivered it asks again.
    core(b).repair.want_history(50, "a")
    assert [
        effect.group for effect in moves(b.receive("a", forgotten(summary(a=9)))) if isinstance(effect, ExitGroup)
    ] == ["g", "k"]
    assert core(b).obstacle("reader") == ""


def test_own_messages_that_were_ordered_in_the_gap_are_done_and_the_others_are_sent_again() -> None:
    b = hand("b", TokenOptions(window_messages=8, batch_messages_max=8))
    for _ in range(3):
        b.multicast("g")
    effects = b.receive("a", forgotten(summary(b=2)))
    assert [effect.available for effect in effects if isinstance(effect, Credit)] == [7]
    # Two of three were acknowledged: that is no reason to hurry.
    assert sent(b.step(TimerFired("source"))) == []
    data = [packet for _to, packet in sent(b.step(TimerFired("source"))) if isinstance(packet, Data)]
    assert [(packet.source_number, len(packet.multicasts)) for packet in data] == [(3, 1)]


def test_a_summary_does_not_make_a_site_forget_its_promise() -> None:
    b = hand("b")
    b.receive("c", Data(1, (message("c", 1),)))
    # Invited to a list later than the one that is summed up.
    core(b).joining.join((7, "c"))
    b.receive("a", forgotten(summary()))
    again = hand("b", incarnation=1)
    again.step(Recovered(tuple(effect.record for effect in b.log)))
    assert core(again).stable.promised == core(b).stable.promised == (7, "c")


def test_a_site_that_crashes_behind_the_gap_says_again_where_it_is() -> None:
    b = hand("b")
    b.receive("a", Data(1, (message("a", 1),)))
    b.receive("a", Acknowledge(FIRST_VERSION, turn(1, 1, message("a", 1)), 0, 0, 0))
    b.receive("a", forgotten(summary(a=9)))
    again = hand("b", incarnation=1)
    effects = again.step(Recovered(tuple(effect.record for effect in b.log)))
    heard = [effect for effect in effects if isinstance(effect, Replay | ExitGroup | EnterGroup)]
    assert isinstance(heard[0], Replay)
    assert heard[1:] == [ExitGroup("g"), ExitGroup("k"), EnterGroup("g", 10), EnterGroup("k", 2)]
    assert core(again).checkpoint_state() == core(b).checkpoint_state()


def test_a_site_that_has_the_turn_itself_needs_no_summary() -> None:
    b = hand("b")
    b.receive("a", Data(1, (message("a", 1),)))
    b.receive("c", Acknowledge(FIRST_VERSION, Turn(2, FIRST_VERSION, 2, ()), 0, 0, 0))
    b.receive("a", Acknowledge(FIRST_VERSION, turn(1, 1, message("a", 1)), 0, 0, 0))
    assert core(b).ledger.accepted >= 2
    at = Summary(2, FIRST_VERSION, 1, 1, (("a", 1), ("b", 0), ("c", 0)), (("g", 1),))
    effects = b.receive("c", Forgotten(FIRST_VERSION, 0, 0, 2, 2, at))
    assert not any(isinstance(effect, ExitGroup) for effect in effects)
    assert core(b).ledger.committed >= 2


def test_application_messages_are_counted_by_the_order_in_every_group() -> None:
    c = hand("c")
    bundle = message("a", 1, "k", count=5)
    c.receive("a", Data(1, (bundle,)))
    c.receive("a", Acknowledge(FIRST_VERSION, turn(1, 1, bundle), 1, 0, 0))
    # It is not in k, and counts it all the same.
    assert core(c).ledger.summary().counts == (("k", 5),)


def test_a_site_behind_a_gap_does_not_say_that_others_have_settled_what_it_skipped() -> None:
    """Else they would take for committed what they have accepted up to there."""
    b = hand("b")
    b.receive("a", forgotten(summary()))
    assert core(b).ledger.forgotten == 50
    core(b).settlement.note("a", 40)
    core(b).settlement.note("c", 30)
    assert core(b).settlement.forgotten_in_list == 30


def test_a_site_behind_a_gap_adds_nothing_while_a_member_has_not_settled_what_it_skipped() -> None:
    b = hand("b")
    b.receive("a", forgotten(summary()))
    core(b).joining.join((7, "b"))
    b.receive("b", Install((7, "b"), SITES, 50, (), 0))
    core(b).settlement.note("a", 50)
    core(b).settlement.note("c", 30)
    assert core(b).stable.in_normal_phase
    assert (core(b).settlement.room(), core(b).settlement.held_up) == (0, True)
    core(b).settlement.finish_step()
    assert core(b).obstacle("history") == "the history is full: waiting until c has delivered it"
    core(b).settlement.note("c", 50)
    assert core(b).settlement.room() > 0
    core(b).settlement.finish_step()
    assert core(b).obstacle("history") == ""


def test_who_was_in_the_list_all_the_time_takes_a_summary_only_when_nobody_has_the_turns() -> None:
    b = hand("b")
    b.receive("a", Beacon(FIRST_VERSION, 9, 8, 0, 0))
    asked = [packet for _to, packet in sent(b.step(TimerFired("ask"))) if isinstance(packet, Ask)]
    assert [packet.in_vain for packet in asked] == [False]
    for _ in range(TokenOptions().retries):
        asked = [packet for _to, packet in sent(b.step(TimerFired("ask"))) if isinstance(packet, Ask)]
    assert [packet.in_vain for packet in asked] == [True]


def test_a_checkpoint_of_an_earlier_version_is_read() -> None:
    """It knows no lives, and does not say what of each source is committed."""
    b = hand("b")
    b.receive("a", Data(1, (message("a", 1), message("a", 2))))
    b.receive("a", Acknowledge(FIRST_VERSION, turn(1, 1, message("a", 1), message("a", 2)), 0, 0, 0))
    b.receive("c", Data(1, (message("c", 1),)))
    state = core(b).checkpoint_state()
    assert state.accepted > state.committed
    again = hand("b", incarnation=1)
    again.step(Recovered((), msgspec.structs.replace(state, committed_ordered=(), counts=())))
    for source in SITES:
        expected = core(b).ledger.committed_source_number(source)
        assert core(again).ledger.committed_source_number(source) == expected


# ---------------------------------------------------------------------- strangers
def test_a_turn_that_names_an_unknown_source_is_refused() -> None:
    strange = turn(1, 1, message("z", 1))
    for packet in (
        Acknowledge(FIRST_VERSION, strange, 0, 0, 0),
        History(FIRST_VERSION, 0, 2, FIRST_VERSION, (strange,), (), 0, 0),
        History(FIRST_VERSION, 0, 0, FIRST_VERSION, (), (strange,), 0, 0),
        Join((1, "b"), FIRST_VERSION, SITES, 0, (strange,), 0, 0),
        Install((1, "a"), SITES, 0, (strange,), 0),
        Install((1, "a"), ("a", "z"), 0, (), 0),
        Data(1, (message("a", 1, "nowhere"),)),
        forgotten(Summary(50, LATER, 50, 12, (("a", 1), ("z", 1)), ())),
    ):
        with pytest.raises(WireError):
            hand("b").receive("a", packet)


# ---------------------------------------------------------------------- whole runs
def check_return(story: Story, away: str, whole: str = "a") -> None:
    """The site has come back behind a gap, and everything else is as it should be."""
    assert broken_claims(story.simulation) == {}
    assert story.bytes_max() <= HISTORY_BYTES
    for site in away:
        assert story.gaps(site, "g", whole) > 0
        assert site in story.core(whole).ledger.members
    up = [name for name, site in story.simulation.sites.items() if site.up]
    counts = {tuple(sorted(story.core(site).ledger.counts.items())) for site in up}
    assert len(counts) == 1


@pytest.mark.parametrize("options", [SMALL, TokenOptions(history_messages_max=16)])
def test_the_others_go_on_for_any_length_of_absence(options: TokenOptions) -> None:
    """With 40 messages a second of 356 bytes each the history is full in half a second."""
    story = Story([Crash(from_=2.0, to=11.0, sites=("e",))], options=options)
    check_return(story, "e")
    for begin in range(4, 11):
        assert story.rate("b", begin, begin + 1) > 20


def test_a_return_while_the_originator_of_a_list_dies() -> None:
    story = Story(
        [Crash(from_=2.0, to=10.0, sites=("e",)), Crash(from_=10.05, forever=True, sites=("d",))], sources="abc"
    )
    check_return(story, "e")


def test_two_are_away_at_once() -> None:
    check_return(Story([Crash(from_=2.0, to=10.0, sites=("d", "e"))], sources="abc"), "de")


def test_a_return_during_a_partition() -> None:
    story = Story(
        [Crash(from_=2.0, to=10.0, sites=("e",)), Partition(from_=9.0, to=13.0, parts=(("d", "e"),))], sources="abc"
    )
    check_return(story, "e")


def test_a_site_that_was_cut_off_returns_like_one_that_was_down() -> None:
    check_return(Story([Partition(from_=2.0, to=10.0, parts=(("e",),))], sources="abcde"), "e")


@pytest.mark.parametrize("moment", range(8))
def test_a_crash_in_the_middle_of_taking_over_a_summary(moment: int) -> None:
    """The log takes 20 ms; the crash comes before, during and after the record."""
    begin = 10.0 + moment * 0.01
    story = Story(
        [Crash(from_=2.0, to=10.0, sites=("e",)), Crash(from_=begin + 0.02, to=begin + 1.0, sites=("e",))],
        sources="abcd",
        sync_seconds=0.02,
    )
    assert broken_claims(story.simulation) == {}
    assert story.simulation.branches["returned-by-summary"]
    assert story.gaps("e", "g", "a") > 0


def test_a_slow_reader_returns_when_it_has_taken_what_came_before_the_gap() -> None:
    options = TokenOptions(history_bytes_max=HISTORY_BYTES, reader_messages_max=4)
    story = Story(
        [SlowReader(from_=1.0, to=14.0, sites=("e",), seconds=0.3), Partition(from_=2.0, to=6.0, parts=(("e",),))],
        sources="abcd",
        options=options,
        duration=16.0,
    )
    assert broken_claims(story.simulation) == {}
    assert story.gaps("e", "g", "a") >= 0


def test_nobody_misses_anything_when_the_absence_is_short() -> None:
    story = Story([Crash(from_=2.0, to=4.0, sites=("e",))], options=TokenOptions(), sources="abcd")
    assert broken_claims(story.simulation) == {}
    assert story.gaps("e", "g", "a") == 0
    assert not story.simulation.branches["returned-by-summary"]
