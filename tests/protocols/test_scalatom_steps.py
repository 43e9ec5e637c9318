"""SCALATOM by hand: the steps that its promises rest on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ordercast.core import WireError
from ordercast.core.effects import Append, Blocked, Deliver, Replay, Send
from ordercast.core.events import Consumed, Recovered, TimerFired
from ordercast.protocols.parts.consensus_packets import Ack, Collect, Decide, Estimate, Propose, Value
from ordercast.protocols.parts.link import Behind, Receipt
from ordercast.protocols.scalatom import Scalatom
from ordercast.protocols.scalatom.packets import CatchUp, Delivered, History, Overdue, Stamp, Stamped, Stamps, Summary
from tests.protocols.classic_runs import delivered, sent
from tests.protocols.scalatom_runs import data, deliver_first, hand, kinds, message, stamps


def test_a_timestamp_is_in_the_log_before_anybody_hears_of_it() -> None:
    effects = hand("a").receive("x", data(1, "x", 1))
    logged = next(at for at, e in enumerate(effects) if isinstance(e, Append) and isinstance(e.record, Stamped))
    heard = next(at for at, e in enumerate(effects) if isinstance(e, Send) and isinstance(e.packet, Stamps))
    assert logged < heard


def test_a_qualified_majority_of_timestamps_leads_to_a_proposal_of_the_highest() -> None:
    a = hand("a")
    a.receive("x", data(1, "x", 1))
    effects = a.receive("b", stamps(1, (message("x", 1), 1, 7)))
    assert [packet.value for _, packet in sent(effects) if isinstance(packet, Propose)] == [
        Value("a", ((message("x", 1), 7),))
    ]


def test_a_majority_of_one_cell_is_not_enough_for_two() -> None:
    groups: dict[str, tuple[str, ...]] = {"g": ("a", "b", "c"), "h": ("x",)}
    a = hand("a", groups)
    a.receive("x", data(1, "x", 1, "g", "h"))
    both = (0, 1)
    effects = a.receive("b", Stamps(1, both, (Stamp(message("x", 1), 1, 7),), 0, 0))
    assert "Propose" not in kinds(effects)
    effects = a.receive("x", Stamps(2, both, (Stamp(message("x", 1), 1, 1),), 0, 0))
    assert "Propose" in kinds(effects)


def test_one_consensus_orders_everything_that_is_pending() -> None:
    a = hand("a")
    a.receive("x", data(1, "x", 1))
    a.receive("b", stamps(1, (message("x", 1), 1, 1)))
    for place in (2, 3, 4):
        assert kinds(a.receive("x", data(place, "x", place))) == []
    a.receive("b", stamps(2, *((message("x", place), place, place) for place in (2, 3, 4))))
    effects = a.receive("b", Decide(3, (1, 0), Value("a", ((message("x", 1), 1),))))
    assert [len(packet.stamps) for _, packet in sent(effects) if isinstance(packet, Stamps)] == [3]
    assert [len(packet.value.numbers) for _, packet in sent(effects) if isinstance(packet, Propose)] == [3]


def test_timestamps_are_not_held_back_for_ever() -> None:
    """Those of a and b have come before the message, so a decision is wanted; but its coordinator may not have them."""
    c = hand("c")
    c.receive("a", stamps(1, (message("x", 1), 1, 1)))
    c.receive("b", stamps(1, (message("x", 1), 1, 1)))
    assert kinds(c.receive("x", data(1, "x", 1))) == []
    assert kinds(c.step(TimerFired("stamps"))) == ["Stamps"]


def test_a_coordinator_that_lacks_a_decision_proposes_nothing_of_its_own_in_a_later_batch() -> None:
    """x is decided in the first batch, of which b has not heard; b is made the coordinator of the second."""
    x, y = message("x", 1), message("x", 2)
    b = hand("b")
    b.receive("x", data(1, "x", 1))
    b.receive("a", stamps(1, (x, 1, 1)))
    value = Value("a", ((y, 5),))
    effects = b.receive("a", Estimate(2, (2, 0), 1, -1, value, y))
    assert [packet.value for _, packet in sent(effects) if isinstance(packet, Propose)] == [value]


def test_the_naive_rule_would_deliver_too_early() -> None:
    """b and c stamp y = 1 and x = 2, both are decided; a knows only x and learns that its number is 2. It must wait for
    the histories: in them is y, which comes before."""
    x, y = message("x", 1), message("x", 2)
    a = hand("a")
    a.receive("x", data(1, "x", 1))
    assert delivered(a.receive("b", Decide(1, (1, 0), Value("b", ((x, 2),))))) == []
    # The history of b makes a majority with our own, and it names y.
    assert delivered(a.receive("b", stamps(2, (y, 1, 1), (x, 2, 2), count=2, promise=3))) == []
    a.receive("x", data(2, "x", 2))
    assert delivered(a.receive("b", Decide(3, (2, 0), Value("b", ((y, 1),))))) == [y, x]


def test_with_equal_sequence_numbers_the_names_decide() -> None:
    first, second = message("x", 1), message("x", 2)
    a = hand("a")
    a.receive("x", data(1, "x", 2))
    a.receive("x", data(2, "x", 1))
    a.receive("b", stamps(1, (second, 1, 5), (first, 2, 6), count=2, promise=9))
    assert delivered(a.receive("b", Decide(2, (1, 0), Value("b", ((second, 5), (first, 5)))))) == [first, second]


def test_a_history_with_a_gap_does_not_count() -> None:
    x, y = message("x", 1), message("x", 2)
    a = hand("a")
    a.receive("x", data(1, "x", 1))
    a.receive("b", Decide(1, (1, 0), Value("b", ((x, 2),))))
    # The second entry came, the first is under way.
    assert delivered(a.receive("b", stamps(3, (x, 2, 2), count=2, promise=3))) == []
    assert delivered(a.receive("b", stamps(2, (y, 1, 1)))) == []
    a.receive("x", data(4, "x", 2))
    assert delivered(a.receive("b", Decide(5, (2, 0), Value("b", ((y, 9),))))) == [x]


def test_a_decision_waits_for_its_message() -> None:
    x = message("x", 1)
    a = hand("a")
    a.receive("b", Decide(1, (1, 0), Value("b", ((x, 2),))))
    a.receive("b", stamps(2, (x, 1, 2), count=1, promise=3))
    effects = a.receive("x", data(1, "x", 1))
    assert delivered(effects) == [x]
    logged = next(at for at, e in enumerate(effects) if isinstance(e, Append) and isinstance(e.record, Delivered))
    assert logged < next(at for at, e in enumerate(effects) if isinstance(e, Deliver))


def test_a_history_brings_the_bodies_that_perhaps_nobody_else_has() -> None:
    x, y = message("x", 1), message("x", 2)
    a = hand("a")
    a.receive("x", data(1, "x", 2))
    effects = a.receive("b", Decide(1, (1, 0), Value("b", ((x, 4),))))
    histories = [packet for _, packet in sent(effects) if isinstance(packet, History)]
    assert [(history.promise, history.count) for history in histories] == [(4, 1)]
    assert [body.id for body in histories[0].bodies] == [y]
    # Whoever gets it that way takes it as R-delivered.
    c = hand("c")
    assert "Stamps" in kinds(c.receive("a", histories[0]))


def test_a_history_has_no_bodies_of_what_a_majority_has() -> None:
    x, y = message("x", 1), message("x", 2)
    a = hand("a")
    a.receive("x", data(1, "x", 2))
    a.receive("c", stamps(1, (y, 1, 1)))
    effects = a.receive("b", Decide(1, (1, 0), Value("b", ((x, 4),))))
    assert [packet.bodies for _, packet in sent(effects) if isinstance(packet, History)] == [()]


def test_a_letter_about_an_unknown_message_is_confirmed_when_the_message_is_here() -> None:
    a = hand("a")
    a.receive("b", stamps(1, (message("x", 1), 1, 1)))
    assert a.core.branches["deferred"] == 1
    a.receive("x", data(1, "x", 1))
    assert {to for to, packet in sent(a.step(TimerFired("link-receipt")))} == {("b",), ("x",)}


def test_whoever_hears_of_a_message_asks_for_it() -> None:
    a = hand("a")
    a.receive("b", stamps(1, (message("x", 1), 1, 1)))
    assert kinds(a.step(TimerFired("want"))) == ["Want"]


def test_a_promise_that_went_with_a_timestamp_is_told_again_to_a_site_that_has_forgotten_it() -> None:
    """b and c have stamped x, so a promises with its own timestamp. b crashes, c is gone, and when x is decided a has
    nothing more to promise."""
    x = message("x", 1)
    a = hand("a")
    a.receive("b", stamps(1, (x, 1, 1)))
    a.receive("c", stamps(1, (x, 1, 1)))
    a.receive("x", data(1, "x", 1))
    promises = [packet.promise for _, packet in sent(a.step(TimerFired("stamps"))) if isinstance(packet, Stamps)]
    assert promises == [1]
    effects = a.receive("b", CatchUp(1 << 32, 1, 0))
    assert [(to, packet.promise) for to, packet in sent(effects) if isinstance(packet, History)] == [(("b",), 1)]


def test_a_decision_that_came_to_one_site_only_is_asked_for() -> None:
    """a and b have stamped x; a proposes it, c adopts it, hears that it is decided, and a is gone. c has no timestamp
    of its own to tell, since it knew the decision before the message."""
    x = message("x", 1)
    b = hand("b")
    b.receive("x", data(1, "x", 1))
    questions = [packet for _ in range(3) for packet in sent(b.step(TimerFired("watch")))]
    asked = [(to, packet) for to, packet in questions if isinstance(packet, Overdue)]
    assert [(to, packet.unsettled, packet.undecided) for to, packet in asked] == [
        (("a",), (), (x,)),
        (("c",), (), (x,)),
    ]
    c = hand("c")
    value = Value("a", ((x, 2),))
    c.receive("a", Decide(1, (1, 0), value))
    assert "Stamps" not in kinds(c.receive("b", data(1, "x", 1)))
    answers = [packet for _, packet in sent(c.receive("b", asked[1][1])) if isinstance(packet, Decide)]
    assert [answer.value for answer in answers] == [value]
    assert "History" in kinds(b.receive("c", answers[0]))


def test_who_asks_is_told_what_was_adopted_also_before_it_is_known_whose_turn_it_is() -> None:
    """b adopts what a proposes in the second batch, and has not heard who proposed the first, so it cannot tell who
    coordinates the second. Its word to a was dropped with other letters; a comes to catch up."""
    y = message("x", 2)
    b = hand("b")
    b.receive("x", data(2, "x", 2))
    value = Value("a", ((y, 5),))
    assert "Ack" in kinds(b.receive("a", Propose(1, (2, 0), 0, value)))
    effects = b.receive("a", CatchUp(2, 0, 0))
    acks = [(to, packet.instance) for to, packet in sent(effects) if isinstance(packet, Ack)]
    assert acks == [(("a",), (2, 0))]
    assert "Ack" not in kinds(b.receive("c", CatchUp(1, 0, 0)))
    assert "Estimate" in kinds(b.receive("c", Collect(2, (2, 0), 2, y)))
    assert "Estimate" in kinds(b.receive("c", CatchUp(3, 0, 0)))


def test_an_answer_in_pieces_leaves_nothing_out_when_the_one_who_answers_crashes_in_between() -> None:
    """c has the first piece, and asks b for the rest. Numbered from 1 again, all that b has would come before that; and
    b has forgotten how long its history was when c began."""
    b = hand("b")
    core = b.core
    assert isinstance(core, Scalatom)
    for place in range(1, 171):
        b.receive("x", data(place, "x", place))
    for place in range(1, 101):
        for site in "abc":
            if message("x", place) in core.entries:
                core.keeping.note_settled(core.entries[message("x", place)], site)
    state = core.checkpoint_state()
    first = next(p for _, p in sent(b.receive("c", CatchUp(1, 1, 0))) if isinstance(p, Summary))
    assert not first.last
    again = hand("b", incarnation=1)
    again.step(Recovered((), state))
    # b does not know how it began, so c must begin anew.
    assert kinds(again.receive("c", CatchUp(2, 1, first.cursor))) == ["Behind"]
    named = set()
    cursor, is_last = 0, False
    for number in range(3, 9):
        if not is_last:
            answers = sent(again.receive("c", CatchUp(number, 1, cursor)))
            piece = next(p for _, p in answers if isinstance(p, Summary))
            cursor, is_last = piece.cursor, piece.last
            named |= {known.message for known in piece.known}
    assert named == {message("x", place) for place in range(101, 171)}


def test_a_question_is_answered_once_and_the_next_piece_is_asked_for_once() -> None:
    """Whatever is repeated: else each copy of a piece brings a question, and each copy of that a new piece."""
    b = hand("b")
    for place in range(1, 101):
        b.receive("x", data(place, "x", place))
    question = CatchUp(7, 0, 0)
    pieces = [p for _ in range(3) for _, p in sent(b.receive("c", question)) if isinstance(p, Summary)]
    assert len(pieces) == 1
    c = hand("c")
    c.receive("b", Behind(1))
    piece = next(p for _, p in sent(b.receive("c", CatchUp(8, 0, 0))) if isinstance(p, Summary))
    piece = msgspec.structs.replace(piece, question=1)
    assert all("CatchUp" not in kinds(c.receive("b", piece)) for _ in range(3))
    asked = [kind for place in range(1, 101) for kind in kinds(c.receive("x", data(place, "x", place)))]
    asked += [kind for _ in range(3) for kind in kinds(c.receive("b", piece))]
    assert asked.count("CatchUp") == 1


def test_a_site_that_has_crashed_is_asked_again_although_it_has_not_confirmed_the_question_before() -> None:
    """It has answered that, its answer is lost with its memory, and its receipt is still under way: nobody repeats the
    question when that comes, and its timestamps are never heard of."""
    a = hand("a")
    a.receive("b", Behind(1))
    effects = a.receive("b", CatchUp(1 << 32, 1, 0))
    questions = [packet.number for _, packet in sent(effects) if isinstance(packet, CatchUp)]
    assert len(questions) == 1
    a.receive("b", Receipt(((1, questions[0] - 1),)))
    assert isinstance(a.core, Scalatom)
    assert [letter.number for letter in a.core.link.unconfirmed("b") if isinstance(letter, CatchUp)] == questions


def test_entries_of_a_history_that_no_promise_covers_are_forgotten_with_the_last_message() -> None:
    """What they name was decided below their timestamps, so nobody needs a promise as high."""
    x = message("x", 1)
    a = hand("a")
    core = a.core
    assert isinstance(core, Scalatom)
    a.receive("x", data(1, "x", 1))
    a.receive("b", stamps(1, (x, 1, 9)))
    core.keeping.forget(core.entries[x])
    mate = core.histories.mates["b"]
    mate.add_promise(1, 9)
    assert list(mate.newly_covered()) == []
    assert (mate.applied, mate.promise) == (1, 9)


def test_nobody_is_pinged_for_a_decision_that_is_not_wanted_any_more() -> None:
    """Somebody tells that x is over: it was decided in a consensus over which we have jumped, and we wait for the
    coordinator of the next one."""
    x = message("x", 1)
    c = hand("c")
    core = c.core
    assert isinstance(core, Scalatom)
    c.receive("x", data(1, "x", 1))
    c.receive("b", stamps(1, (x, 1, 1)))
    assert "Ping" in kinds(c.step(TimerFired("detector")))
    core.keeping.forget(core.entries[x])
    assert "Ping" not in kinds(c.step(TimerFired("detector")))
    assert not core.consensus.open
    # The next message is ordered all the same.
    c.receive("x", data(2, "x", 2))
    c.receive("b", stamps(2, (message("x", 2), 2, 2)))
    assert core.consensus.open[1, 0].watching == "a"


def test_a_site_that_has_missed_letters_while_it_asked_for_pieces_begins_anew() -> None:
    b = hand("b")
    for place in range(1, 101):
        b.receive("x", data(place, "x", place))
    piece = next(p for _, p in sent(b.receive("c", CatchUp(7, 0, 0))) if isinstance(p, Summary))
    assert isinstance(b.core, Scalatom)
    b.core.link.estrange("c")
    assert "Summary" not in kinds(b.receive("c", CatchUp(8, 0, piece.cursor)))
    assert "Summary" in kinds(b.receive("c", CatchUp(9, 0, 0)))


def test_after_a_crash_deliveries_are_replayed_and_timestamps_are_as_before() -> None:
    x = message("x", 1)
    a = hand("a")
    assert delivered(deliver_first(a)) == [x]
    a.receive("x", data(3, "x", 2))
    records = tuple(effect.record for effect in a.log)
    again = hand("a", incarnation=1)
    effects = again.step(Recovered(records))
    assert [effect.multicast.id for effect in effects if isinstance(effect, Replay)] == [x]
    assert delivered(effects) == []
    core, before = again.core, a.core
    assert isinstance(core, Scalatom)
    assert isinstance(before, Scalatom)
    assert core.entries[message("x", 2)].timestamp == before.entries[message("x", 2)].timestamp
    assert core.ordering.clock >= before.ordering.clock
    assert "CatchUp" in kinds(effects)


def test_after_a_crash_a_participant_knows_what_it_has_adopted_and_which_rounds_it_has_left() -> None:
    """Else a coordinator decides with its help, and another one something else."""
    x = message("x", 1)
    value = Value("a", ((x, 7),))
    b = hand("b")
    assert kinds(b.receive("a", Propose(1, (1, 0), 0, value))) == ["Ack"]
    second = hand("b", incarnation=1)
    second.step(Recovered(tuple(effect.record for effect in b.log)))
    effects = second.receive("c", Collect(1, (1, 0), 2, x))
    told = [(packet.adopted, packet.value) for _, packet in sent(effects) if isinstance(packet, Estimate)]
    assert told == [(0, value)]
    third = hand("b", incarnation=2)
    third.step(Recovered(tuple(effect.record for effect in (*b.log, *second.log))))
    other = Value("a", ((x, 9),))
    assert kinds(third.receive("a", Propose(2, (1, 0), 1, other))) == []
    assert kinds(third.receive("c", Propose(2, (1, 0), 2, other))) == ["Ack"]


def test_a_checkpoint_holds_what_the_records_amount_to() -> None:
    a = hand("a")
    deliver_first(a)
    a.receive("x", data(3, "x", 2))
    state = a.core.checkpoint_state()
    again = hand("a", incarnation=1)
    assert not [effect for effect in again.step(Recovered((), state)) if isinstance(effect, Replay)]
    assert again.core.checkpoint_state() == state


def test_a_history_is_in_order_after_a_crash_however_the_messages_were_heard_of() -> None:
    a = hand("a")
    a.receive("b", stamps(1, (message("x", 2), 1, 1)))
    a.receive("x", data(1, "x", 1))
    a.receive("x", data(2, "x", 2))
    again = hand("a", incarnation=1)
    again.step(Recovered((), a.core.checkpoint_state()))
    assert isinstance(again.core, Scalatom)
    assert [entry.timestamp for entry in again.core.histories._own.values()] == [1, 2]


def test_deliveries_that_nobody_expects_to_be_taken_do_no_harm() -> None:
    assert hand("a").step(Consumed(3)) == []


@pytest.mark.parametrize(
    ("sender", "packet"),
    [
        ("b", Stamps(1, (), (), 0, 0)),
        ("b", Stamps(1, (5,), (), 0, 0)),
        ("x", stamps(1, (message("x", 1), 1, 1))),
        ("x", History(1, message("x", 1), 0, 0, ())),
        ("b", Decide(1, (1,), Value("b", ((message("x", 1), 1),)))),
        ("x", Decide(1, (1, 0), Value("b", ((message("x", 1), 1),)))),
        ("b", data(1, "nobody", 1)),
        ("b", data(1, "x", 1, "nowhere")),
        ("b", stamps(1, (message("nobody", 1), 1, 1))),
    ],
)
def test_garbage_is_refused(sender: str, packet: Any) -> None:
    with pytest.raises(WireError):
        hand("a").receive(sender, packet)


def test_the_application_hears_for_whom_a_message_waits() -> None:
    a = hand("a")
    a.receive("x", data(1, "x", 1))
    reasons = [effect.reason for _ in range(3) for effect in a.step(TimerFired("watch")) if isinstance(effect, Blocked)]
    assert reasons == ["x:0:1 has no timestamp from b, c"]
