"""The roles of the token protocol, each tried alone by its short interface, and the borders between them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from ordercast.core import MessageId, Multicast, UsageError, WireError
from ordercast.core.effects import Blocked, CancelTimer, Credit, DeclareRecovered, Deliver, Send, SetTimer
from ordercast.core.events import Started
from ordercast.protocols.classic import token
from ordercast.protocols.classic.token import Token
from ordercast.protocols.classic.token.backlog import Backlog
from ordercast.protocols.classic.token.hearing import Hearing
from ordercast.protocols.classic.token.ledger import Ledger
from ordercast.protocols.classic.token.options import TokenOptions
from ordercast.protocols.classic.token.packets import Ask, Data, Open
from ordercast.protocols.classic.token.packing import DATA_BYTES_MAX, DATA_MESSAGES_MAX, pack
from ordercast.protocols.classic.token.patience import CALM_SECONDS, Patience
from ordercast.protocols.classic.token.protocol import ROLES
from ordercast.protocols.classic.token.sites import Sites
from ordercast.protocols.classic.token.turns import FIRST_VERSION, Entry, Run, Turn
from tests.protocols.classic_runs import Hand

SITES = ("a", "b", "c")
FOLDER = Path(token.__file__).parent


def core(site: str = "b", options: TokenOptions | None = None) -> Token:
    """A core that has started and whose outbox is empty."""
    led = Hand(Token, site, {"g": SITES}, SITES, options)
    led.step(Started())
    made = led.core
    assert isinstance(made, Token)
    made.outbox.clear()
    return made


def message(source: str, number: int, payload: bytes = b"") -> Multicast:
    return Multicast(MessageId(source, 0, number), ("g",), payload)


def entry(number: int, sequence: int, *messages: Multicast) -> Entry:
    """A turn with one message of each source, numbered as in its name."""
    runs = tuple(Run(each.id.number, each.id, 1) for each in messages)
    return Entry(Turn(number, FIRST_VERSION, sequence, runs), messages)


# ---------------------------------------------------------------------- the borders
def role_names() -> tuple[str, ...]:
    return tuple(role.__name__.lower() for role in ROLES)


def test_no_role_writes_what_belongs_to_another() -> None:
    for file in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
                assert ast.unparse(node.value) == "self", f"{file.name}:{node.lineno} writes {ast.unparse(node)}"


@pytest.mark.parametrize("role", role_names())
def test_the_table_of_roles_names_those_that_a_role_calls(role: str) -> None:
    source = (FOLDER / f"{role}.py").read_text(encoding="utf-8")
    called = {name for name in re.findall(r"core\.([a-z]+)\.", source) if name in role_names()}
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| `{role}` \|[^|]*\|([^|]*)\|$", readme, re.MULTILINE)
    assert row is not None
    assert sorted(called) == [name.strip() for name in row[1].split(",")]


# ---------------------------------------------------------------------- pieces that belong to all
def test_a_majority_is_more_than_half_of_all_sites() -> None:
    sites = Sites("a", ("a", "b", "c", "d"), None)
    assert [sites.are_majority("abcd"[:count]) for count in (2, 3)] == [False, True]
    assert [sites.are_all("abcd"[:count]) for count in (3, 4)] == [False, True]
    assert sites.others == ("b", "c", "d")


def test_half_of_the_sites_may_fail_by_default_and_a_small_list_asks_all_of_its_sites() -> None:
    assert Sites("a", SITES, None).transfers_needed(3) == 1
    assert Sites("a", SITES, 2).transfers_needed(2) == 1
    with pytest.raises(UsageError):
        Sites("a", SITES, 3)


def test_only_the_sites_of_the_system_are_heard() -> None:
    hearing = Hearing(core("a"))
    assert not hearing.on_heard("c", Open(FIRST_VERSION))
    with pytest.raises(WireError, match="'z' is no site"):
        hearing.on_heard("z", Open(FIRST_VERSION))


def test_retries_take_twice_as_long_each_time_up_to_eight_times() -> None:
    patience = Patience(TokenOptions(retry_seconds=1.0))
    assert [patience.retry_after(retries) for retries in range(5)] == [1.0, 2.0, 4.0, 8.0, 8.0]


def test_suspicions_that_follow_each_other_make_patient_and_calm_forgets_them() -> None:
    patience = Patience(TokenOptions(retry_seconds=1.0))
    patience.note_suspicion(0.0)
    assert not patience.is_stretched
    patience.note_suspicion(1.0)
    assert (patience.retry_after(0), patience.silence()) == (2.0, 2.0)
    patience.note_suspicion(1.0 + CALM_SECONDS)
    assert (patience.retry_after(0), patience.silence()) == (1.0, 1.0)


def test_messages_that_follow_each_other_share_a_packet() -> None:
    one, two, four, other = message("a", 1), message("a", 2), message("a", 4), message("b", 5)
    numbered = [("a", 1, one), ("a", 2, two), ("a", 4, four), ("b", 5, other)]
    assert list(pack(numbered, 9)) == [Data(1, (one, two)), Data(4, (four,)), Data(5, (other,))]
    assert list(pack(numbered, 2)) == [Data(1, (one, two)), Data(4, (four,))]


def test_packets_are_bounded_by_messages_and_by_bytes() -> None:
    many = [("a", number, message("a", number)) for number in range(1, DATA_MESSAGES_MAX + 2)]
    assert [len(packet.multicasts) for packet in pack(many, 9)] == [DATA_MESSAGES_MAX, 1]
    large = [("a", number, message("a", number, bytes(DATA_BYTES_MAX))) for number in (1, 2)]
    assert [len(packet.multicasts) for packet in pack(large, 9)] == [1, 1]


def test_the_backlog_keeps_what_is_near_the_history_only() -> None:
    ledger = Ledger(SITES)
    backlog = Backlog(ledger, SITES, 1)
    backlog.keep("a", 1, tuple(message("a", number) for number in (1, 2, 3)))
    assert [number for number in (1, 2, 3) if backlog.find("a", number)] == [1, 2]
    ledger.accept(entry(1, 1, message("a", 1)))
    backlog.remove(entry(1, 1, message("a", 1)))
    backlog.keep("a", 1, tuple(message("a", number) for number in (1, 2, 3)))
    backlog.check_invariants()
    # The first is in the history, not here, and can still be found until it is committed.
    assert [number for number in (1, 2, 3) if backlog.find("a", number)] == [1, 2, 3]
    ledger.commit(1)
    assert backlog.find("a", 1) is None


def test_a_turn_is_assembled_when_all_its_messages_are_here() -> None:
    backlog = Backlog(Ledger(SITES), SITES, 4)
    wanted = entry(1, 1, message("a", 1), message("c", 1))
    backlog.keep("a", 1, (message("a", 1),))
    assert backlog.assemble(wanted.turn) is None
    backlog.keep("c", 1, (message("c", 1),))
    assert backlog.assemble(wanted.turn) == wanted


def test_another_source_is_acknowledged_first_each_time() -> None:
    ledger = Ledger(SITES)
    backlog = Backlog(ledger, SITES, 4)
    for source in SITES:
        backlog.keep(source, 1, (message(source, 1),))
    assert [each.id.source for each in backlog.choose(2, 4096)[1]] == ["a", "b"]
    ledger.accept(entry(1, 1))
    assert [each.id.source for each in backlog.choose(2, 4096)[1]] == ["b", "c"]


# ---------------------------------------------------------------------- roles
def test_the_source_gives_back_credit_for_its_own_messages_only() -> None:
    b = core("b", TokenOptions(window_messages=4, batch_messages_max=4))
    b.source.multicast(message("b", 1))
    b.source.multicast(message("b", 2))
    assert not b.source.release([entry(1, 1, message("a", 1))])
    assert b.source.release([entry(2, 2, message("b", 1))])
    b.outbox.clear()
    b.source.give_credit()
    assert b.outbox == [Credit(3)]


def test_what_is_delivered_is_what_the_application_has_room_for() -> None:
    b = core("b", TokenOptions(reader_messages_max=1))
    b.delivery.queue([entry(1, 1, message("a", 1), message("c", 1))])
    b.delivery.deliver()
    b.delivery.consume(1)
    delivered = [effect.order_key for effect in b.outbox if isinstance(effect, Deliver)]
    assert delivered == [(1,), (2,)]
    assert b.branches["reader-slow"] == 1


def test_the_history_is_cleared_of_what_every_site_has_delivered() -> None:
    b = core("b")
    for number in (1, 2, 3):
        b.ledger.accept(entry(number, number, message("a", number)))
    b.stable.commit(3)
    b.settlement.note("a", 3)
    assert b.ledger.forgotten == 0
    b.settlement.note("c", 2)
    assert b.ledger.forgotten == 2
    assert b.settlement.slowest_sites() == ("c",)


def test_a_full_history_is_said_once_and_taken_back() -> None:
    b = core("b", TokenOptions(history_messages_max=1))
    b.ledger.accept(entry(1, 1, message("a", 1)))
    b.stable.commit(1)
    b.outbox.clear()
    b.settlement.finish_step()
    b.settlement.finish_step()
    assert b.settlement.is_full
    assert b.settlement.room() == 0
    b.settlement.note("a", 1)
    b.settlement.note("c", 1)
    b.settlement.finish_step()
    assert b.outbox == [
        Blocked("history", "the history is full: waiting until a, c has delivered it"),
        Blocked("history", ""),
    ]
    assert b.branches["history-full"] == 1


def test_the_ring_knows_a_missing_turn_from_one_that_waits_for_messages() -> None:
    b = core("b")
    assert not b.ring.misses_turns()
    b.ring.note_turn(entry(2, 2, message("c", 1)).turn)
    assert b.ring.misses_turns()
    b.ring.note_turn(entry(1, 1, message("a", 1)).turn)
    assert not b.ring.misses_turns()
    assert [turn.number for turn in b.ring.pending_turns()] == [1, 2]
    b.ring.leave()
    assert list(b.ring.pending_turns()) == []


def test_only_what_is_urgent_is_asked_at_once_and_nothing_twice() -> None:
    b = core("b")
    b.repair.prefer("c")
    b.ring.note_turn(entry(1, 1, message("a", 1)).turn)
    b.repair.ask_soon()
    assert [type(effect) for effect in b.outbox] == [SetTimer]
    b.repair.ask_soon(urgent=True)
    assert len(b.outbox) == 1
    b.outbox.clear()
    b.repair.ask_anew()
    assert [effect for effect in b.outbox if isinstance(effect, Send)] == [
        Send(("c",), Ask(FIRST_VERSION, -1, ((1, "a", 1, 1),), 0))
    ]


def test_rounds_count_for_the_stage_in_which_an_attempt_is() -> None:
    b, rounds = core("b"), []
    b.attempt.begin("probing", lambda: rounds.append(b.attempt.rounds))
    b.attempt.on_reform_timeout()
    b.attempt.on_reform_timeout()
    b.attempt.note_progress()
    b.attempt.on_reform_timeout()
    b.attempt.begin("inviting", lambda: rounds.append(-b.attempt.rounds))
    b.attempt.on_reform_timeout()
    b.attempt.end()
    b.attempt.on_reform_timeout()
    assert rounds == [1, 2, 1, -1]
    assert b.outbox[-1] == CancelTimer("reform")


def test_an_attempt_that_fails_says_why_and_comes_again_later_each_time() -> None:
    b = core("b")
    seconds = []
    for _ in range(4):
        b.attempt.begin("probing", b.attempt.end)
        b.attempt.fail("nobody there")
        waits = [effect for effect in b.outbox if isinstance(effect, SetTimer) and effect.timer == "watchdog"]
        seconds.append(waits[-1].after_seconds)
    assert [effect.reason for effect in b.outbox if isinstance(effect, Blocked)] == ["nobody there"]
    assert seconds[0] <= 1.0 < seconds[2] <= 4.0
    assert not b.attempt.stage


def test_a_site_is_recovered_once_and_only_after_a_crash() -> None:
    b = core("b")
    b.suspicion.note_recovered()
    assert b.outbox == []
    b.suspicion.begin_recovery()
    b.outbox.clear()
    b.suspicion.note_alive()
    b.suspicion.note_alive()
    assert b.outbox.count(DeclareRecovered()) == 1


def test_an_originator_chooses_a_version_larger_than_any_that_it_has_heard_of() -> None:
    b = core("b")
    b.reformation.note_version((7, "c"))
    b.reformation.note_version((3, "a"))
    b.reformation.originate()
    assert b.stable.promised == (8, "b")
    assert b.attempt.stage == "inviting"
    assert not b.stable.in_normal_phase
