"""Token passing with L-resilience and reformation: what it promises under faults, and the steps that this rests on."""

from __future__ import annotations

from collections import Counter

import pytest

from ordercast.core import MessageId, Multicast, UsageError, WireError
from ordercast.core.effects import Append, Blocked, Credit, Deliver, Effect, InstallView, Replay, Send
from ordercast.core.events import Consumed, Recovered, Started, TimerFired
from ordercast.protocols import find_protocol
from ordercast.protocols.classic.token import Token
from ordercast.protocols.classic.token.loss import Loss
from ordercast.protocols.classic.token.options import TokenOptions
from ordercast.protocols.classic.token.packets import (
    Accept,
    Acknowledge,
    Ask,
    Beacon,
    Data,
    History,
    Install,
    Installed,
    Invite,
    Join,
    Open,
    Probe,
    Refuse,
    Status,
)
from ordercast.protocols.classic.token.records import Accepted, Delivered, Promised
from ordercast.protocols.classic.token.turns import FIRST_VERSION, Run, Turn
from ordercast.sim import Simulation
from ordercast.sim.faults import Crash, Cut, Fault, Partition, Pause, SlowReader
from ordercast.sim.networks import PointToPoint
from ordercast.sim.workload import Workload
from tests.protocols.classic_runs import Hand, branches_never_taken, broken_claims, delivered, random_run, sent
from tests.protocols.token_changes import BRANCHES_OF_CHANGES

GROUPS = {"g": ("a", "b", "c"), "h": ("b", "c")}
SITES = ("a", "b", "c")
TINY = TokenOptions(
    window_messages=2, batch_messages_max=2, history_messages_max=6, reader_messages_max=1, resilience=0
)
BIG_LISTS = TokenOptions(resilience=2, retries=2)
SHORT = TokenOptions(history_bytes_max=2000, window_messages=4, batch_messages_max=2)


def hand(site: str, options: TokenOptions | None = None, incarnation: int = 0) -> Hand:
    led = Hand(Token, site, GROUPS, SITES, options, incarnation)
    if not incarnation:
        led.step(Started())
    return led


def data(source: str, number: int, *groups: str) -> Data:
    return Data(number, (Multicast(MessageId(source, 0, number), groups),))


def turn(number: int, *sources: str, version: tuple[int, str] = FIRST_VERSION, sequence: int = 1) -> Turn:
    """A turn that acknowledges the first message of each source."""
    return Turn(number, version, sequence, tuple(Run(1, MessageId(source, 0, 1), 1) for source in sources))


def acknowledge(turn: Turn, committed: int = 0) -> Acknowledge:
    return Acknowledge(turn.version, turn, committed, 0, 0)


def messages(effects: list[Effect], kind: type) -> list[object]:
    return [message for _to, message in sent(effects) if isinstance(message, kind)]


def simulate(
    faults: list[Fault], options: TokenOptions | None = None, sites: str = "abcde", rate: float = 20.0
) -> Simulation:
    return Simulation(
        Token,
        {"g": tuple(sites), "h": tuple(sites[:3])},
        PointToPoint(),
        options=options,
        faults=faults,
        workloads=[Workload(sources=tuple(sites), groups=("g", "h"), choose=1, rate=rate, count=50)],
        duration=10.0,
        settle=15.0,
    )


def test_it_is_found_by_its_name() -> None:
    assert find_protocol("token") is Token


@pytest.mark.parametrize(
    "options",
    [
        {"resilience": -1},
        {"retries": 0},
        {"retry_seconds": 0.0},
        {"beacon_seconds": 1.0, "suspicion_seconds": 1.5},
        {"window_messages": 4, "batch_messages_max": 5},
        {"history_messages_max": 0},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        TokenOptions(**options)  # type: ignore[arg-type]


def test_the_resilience_is_below_the_number_of_sites() -> None:
    with pytest.raises(UsageError, match="below the number of sites"):
        hand("a", TokenOptions(resilience=3))


# ---------------------------------------------------------------------- the normal phase
def test_the_token_site_acknowledges_and_delivers_only_after_a_transfer() -> None:
    a = hand("a")
    effects = a.receive("c", data("c", 1, "g"))
    assert messages(effects, Acknowledge) == [acknowledge(turn(1, "c"))]
    assert delivered(effects) == []
    assert delivered(a.receive("b", acknowledge(turn(2, sequence=2), 1))) == [MessageId("c", 0, 1)]


def test_a_turn_is_in_the_log_before_anybody_hears_of_it() -> None:
    effects = hand("a").receive("c", data("c", 1, "g"))
    logged = next(
        at for at, effect in enumerate(effects) if isinstance(effect, Append) and isinstance(effect.record, Accepted)
    )
    heard = next(
        at for at, effect in enumerate(effects) if isinstance(effect, Send) and isinstance(effect.packet, Acknowledge)
    )
    assert logged < heard


def test_the_next_site_accepts_the_token_only_with_the_message() -> None:
    b = hand("b")
    effects = b.receive("a", acknowledge(turn(1, "c")))
    assert sent(effects) == [(("a",), Ask(FIRST_VERSION, -1, ((1, "c", 1, 1),), 0))]
    effects = b.receive("a", data("c", 1, "g"))
    assert [t.turn.number for t in messages(effects, Acknowledge)] == [2]  # type: ignore[attr-defined]
    # It has what a has: with L = 1 that is enough.
    assert delivered(effects) == [MessageId("c", 0, 1)]


def test_a_delivery_is_in_the_log_before_the_application_has_it() -> None:
    b = hand("b")
    b.receive("c", data("c", 1, "g"))
    effects = b.receive("a", acknowledge(turn(1, "c")))
    logged = next(
        at for at, effect in enumerate(effects) if isinstance(effect, Append) and isinstance(effect.record, Delivered)
    )
    assert logged < next(at for at, effect in enumerate(effects) if isinstance(effect, Deliver))


def test_a_source_is_acknowledged_in_its_own_order() -> None:
    a = hand("a")
    assert messages(a.receive("c", data("c", 2, "g")), Acknowledge) == []
    effects = a.receive("c", data("c", 1, "g"))
    assert messages(effects, Acknowledge) == [
        acknowledge(Turn(1, FIRST_VERSION, 1, (Run(1, MessageId("c", 0, 1), 2),))),
    ]


def test_only_the_members_of_the_addressed_groups_deliver() -> None:
    a = hand("a")
    a.receive("c", data("c", 1, "h"))
    assert delivered(a.receive("b", acknowledge(turn(2, sequence=2), 1))) == []


def test_the_token_rests_when_everybody_has_everything() -> None:
    a = hand("a")
    effects = a.step(TimerFired("token"))
    assert [to for to, message in sent(effects) if isinstance(message, Beacon)] == [("b", "c")]
    assert messages(effects, Acknowledge) == []


def test_a_beacon_shows_what_is_missing() -> None:
    c = hand("c")
    c.receive("b", Beacon(FIRST_VERSION, 2, 1, 1, 0))
    assert messages(c.step(TimerFired("ask")), Ask) == [Ask(FIRST_VERSION, 0, (), 0)]


def test_history_is_taken_over_when_its_messages_have_come() -> None:
    c = hand("c")
    history = History(FIRST_VERSION, 0, 2, FIRST_VERSION, (turn(1, "a"),), (), 0, 0)
    effects = c.receive("b", history)
    assert messages(effects, Ask) == [Ask(FIRST_VERSION, -1, ((1, "a", 1, 1),), 0)]
    assert delivered(c.receive("b", data("a", 1, "g"))) == [MessageId("a", 0, 1)]


def test_a_token_that_was_accepted_already_is_accepted_again() -> None:
    b = hand("b")
    b.receive("c", data("c", 1, "g"))
    b.receive("a", acknowledge(turn(1, "c")))
    assert [to for to, m in sent(b.receive("a", acknowledge(turn(1, "c")))) if isinstance(m, Accept)] == [("a",)]


def test_an_application_that_ignores_its_credit_is_told() -> None:
    c = hand("c", TINY)
    for _ in range(4):
        c.multicast("g")
    with pytest.raises(UsageError, match="credit"):
        c.multicast("g")


def test_strangers_are_not_heard() -> None:
    with pytest.raises(WireError):
        hand("a").receive("z", Invite((1, "z")))
    with pytest.raises(WireError):
        hand("a").receive("b", data("z", 1, "g"))


# ---------------------------------------------------------------------- the reformation
def test_a_promise_is_in_the_log_before_the_invitation_is_answered() -> None:
    effects = hand("b").receive("c", Invite((1, "c")))
    logged = next(
        at for at, effect in enumerate(effects) if isinstance(effect, Append) and isinstance(effect.record, Promised)
    )
    answered = next(
        at for at, effect in enumerate(effects) if isinstance(effect, Send) and isinstance(effect.packet, Join)
    )
    assert logged < answered


def test_a_site_that_has_joined_ignores_the_old_list_and_says_so() -> None:
    b = hand("b")
    b.receive("c", data("c", 1, "g"))
    b.receive("c", Invite((1, "c")))
    effects = b.receive("a", acknowledge(turn(1, "c")))
    assert messages(effects, Acknowledge) == []
    assert [m.promised for m in messages(effects, Status)] == [(1, "c")]  # type: ignore[attr-defined]


def test_the_smaller_version_is_refused() -> None:
    b = hand("b")
    b.receive("c", Invite((2, "c")))
    assert messages(b.receive("a", Invite((2, "a"))), Refuse) == [Refuse((2, "c"))]


def test_only_who_hears_a_majority_invites() -> None:
    c = hand("c")
    effects = c.step(TimerFired("watchdog"))
    assert messages(effects, Probe)
    for _ in range(TokenOptions().retries + 1):
        effects = c.step(TimerFired("reform"))
        assert messages(effects, Invite) == []
    assert [effect.reason for effect in effects if isinstance(effect, Blocked)] == [
        "no majority: of 3 sites c reaches only c"
    ]


def test_the_new_list_begins_with_the_history_of_whoever_has_the_latest_list_and_the_most_turns() -> None:
    c = hand("c")
    c.step(TimerFired("watchdog"))
    status = Status(1, FIRST_VERSION, FIRST_VERSION, True, 0, 0)
    c.receive("a", status)
    assert messages(c.receive("b", status), Invite) == [Invite((1, "c"))]
    c.receive("a", Join((1, "c"), FIRST_VERSION, SITES, 0, (turn(1, "a"), turn(2, sequence=2)), 0, 0))
    effects = c.receive("b", Join((1, "c"), FIRST_VERSION, SITES, 0, (turn(1, "a"),), 0, 0))
    install = Install((1, "c"), SITES, 0, (turn(1, "a"), turn(2, sequence=2)), 0)
    assert messages(effects, Install) == [install]
    # It lacks the message itself, and installs nothing without it.
    assert not any(isinstance(effect, InstallView) for effect in effects)
    effects = c.receive("a", data("a", 1, "g"))
    assert [effect.view for effect in effects if isinstance(effect, InstallView)] == ["1:c"]
    assert messages(effects, Open) == []
    assert messages(c.receive("a", Installed((1, "c"), 0)), Open) == [Open((1, "c"))]


def test_a_list_that_lacks_more_sites_than_the_resilience_is_not_formed() -> None:
    c = hand("c", TokenOptions(resilience=0, retries=2))
    c.step(TimerFired("watchdog"))
    c.receive("b", Status(1, FIRST_VERSION, FIRST_VERSION, True, 0, 0))
    c.step(TimerFired("reform"))
    c.receive("b", Join((1, "c"), FIRST_VERSION, SITES, 0, (), 0, 0))
    for _ in range(3):
        effects = c.step(TimerFired("reform"))
        assert messages(effects, Install) == []
    assert any(isinstance(effect, Blocked) for effect in effects)


def test_what_a_list_that_is_over_acknowledged_is_acknowledged_again() -> None:
    a = hand("a")
    a.receive("c", data("c", 1, "g"))
    a.receive("c", Invite((1, "c")))
    effects = a.receive("c", Install((1, "c"), ("b", "c", "a"), 0, (), 0))
    assert [effect.members for effect in effects if isinstance(effect, InstallView)] == [SITES]
    assert a.core.branches["acknowledgement-lost"] == 1
    a.receive("b", Acknowledge((1, "c"), Turn(1, (1, "c"), 1, ()), 0, 0, 0))
    effects = a.receive("c", Acknowledge((1, "c"), Turn(2, (1, "c"), 1, ()), 1, 0, 0))
    assert [m.turn.runs for m in messages(effects, Acknowledge)] == [turn(1, "c").runs]  # type: ignore[attr-defined]


# ---------------------------------------------------------------------- recovery
def test_a_site_is_after_a_crash_what_its_log_says() -> None:
    b = hand("b")
    b.receive("c", data("c", 1, "g"))
    b.receive("a", acknowledge(turn(1, "c")))
    b.multicast("g")
    b.receive("c", Invite((1, "c")))
    again = hand("b", incarnation=1)
    effects = again.step(Recovered(tuple(effect.record for effect in b.log)))
    assert [effect.multicast.id for effect in effects if isinstance(effect, Replay)] == [MessageId("c", 0, 1)]
    assert delivered(effects) == []
    # Its own message may never have left; it leaves before anything new does.
    assert messages(effects, Data) == [data("b", 1, "g")]
    assert [m.promised for m in messages(again.receive("a", Probe(1, FIRST_VERSION)), Status)] == [(1, "c")]  # type: ignore[attr-defined]
    assert isinstance(again.core, Token)
    assert isinstance(b.core, Token)
    assert again.core.checkpoint_state() == b.core.checkpoint_state()


def test_a_checkpoint_says_the_same_as_the_records() -> None:
    b = hand("b", TokenOptions(reader_messages_max=1))
    for source in SITES[::2]:
        b.receive(source, data(source, 1, "g"))
    b.receive("a", acknowledge(turn(1, "a", "c")))
    assert isinstance(b.core, Token)
    state = b.core.checkpoint_state()
    again = hand("b", incarnation=1)
    effects = again.step(Recovered((), state))
    # One of the two was still waiting for the slow reader.
    assert delivered(effects) == [MessageId("c", 0, 1)]


# ---------------------------------------------------------------------- whole runs
def test_a_minority_that_crashes_for_ever_stops_nobody() -> None:
    run = simulate([Crash(from_=1.0, sites=("b",), forever=True), Crash(from_=1.5, sites=("d",), forever=True)])
    assert broken_claims(run) == {}
    lists = {run.sites[site].instances["main"].core.ledger.members for site in "ace"}  # type: ignore[attr-defined]
    assert {frozenset(members) for members in lists} == {frozenset("ace")}


def test_without_a_majority_everybody_waits_and_says_so() -> None:
    run = simulate([Crash(from_=1.0, to=6.0, sites=("b", "c", "d"))])
    assert broken_claims(run) == {}
    assert any("no majority" in reason for reason in run.sites["a"].blocked_reasons)


def test_a_token_site_that_slept_finds_the_others_in_another_list() -> None:
    run = simulate([Pause(from_=1.0, to=5.0, sites=("b",)), Pause(from_=6.0, to=9.0, sites=("c",))])
    assert broken_claims(run) == {}
    assert run.branches["stale-version"]
    assert run.branches["formed-without-some"]


def test_a_site_that_was_away_gets_everything_before_it_joins() -> None:
    run = simulate([Partition(from_=0.5, to=8.0, parts=(("e",),))])
    assert broken_claims(run) == {}
    assert run.branches["caught-up-outside"]


def test_a_site_that_hears_nothing_does_not_stop_the_others() -> None:
    run = simulate([Cut(from_=0.5, to=9.0, sites=("a", "b", "c", "d"), peers=("e",))])
    assert broken_claims(run) == {}
    # One list without it, one with it again.
    assert run.branches["opened"] <= 4


def test_a_slow_reader_fills_the_history_and_that_stops_the_sources() -> None:
    options = TokenOptions(window_messages=4, batch_messages_max=4, history_messages_max=12, reader_messages_max=2)
    run = simulate([SlowReader(from_=0.0, to=8.0, sites=("c",), seconds=0.2)], options, sites="abc")
    assert broken_claims(run) == {}
    assert run.branches["history-full"]
    assert any("the history is full: waiting until c" in reason for reason in run.sites["a"].blocked_reasons)


def test_one_site_alone_needs_nobody() -> None:
    run = Simulation(
        Token,
        {"g": ("a",)},
        PointToPoint(),
        faults=[Crash(from_=1.0, to=2.0, sites=("a",))],
        workloads=[Workload(sources=("a",), groups=("g",), rate=50.0)],
        duration=4.0,
    )
    assert broken_claims(run) == {}


def test_consumption_gives_room_for_more() -> None:
    b = hand("b", TokenOptions(reader_messages_max=1))
    for source in SITES[::2]:
        b.receive(source, data(source, 1, "g"))
    assert delivered(b.receive("a", acknowledge(turn(1, "a", "c")))) == [MessageId("a", 0, 1)]
    assert delivered(b.step(Consumed(1))) == [MessageId("c", 0, 1)]


def test_credit_comes_back_when_messages_are_committed() -> None:
    b = hand("b", TokenOptions(window_messages=2, batch_messages_max=2))
    b.multicast("g")
    effects = b.receive("a", acknowledge(turn(1, "b")))
    assert [effect.available for effect in effects if isinstance(effect, Credit)] == [2]


@pytest.mark.campaign
def test_random_faults_break_no_claim_and_every_branch_is_taken() -> None:
    taken: Counter[str] = Counter()
    for seed in range(64):
        run = random_run(Token, seed, (None, TINY, BIG_LISTS, SHORT)[seed % 4])
        assert broken_claims(run) == {}, f"seed {seed}"
        taken.update(run.branches)
    # Nobody loses its log in these runs (test_token_loss), and nobody comes or goes (test_token_changes, which also
    # lets the originator crash within the few milliseconds between its first `Install` and the first turn).
    moments = {"crashed-installing", "crashed-opening"}
    assert branches_never_taken(Token, taken) - moments == set(Loss.branches) | BRANCHES_OF_CHANGES
