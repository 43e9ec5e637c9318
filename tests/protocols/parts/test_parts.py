"""The parts alone: campaigns, contracts, and the steps that they rest on."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from ordercast.campaign import run_seed
from ordercast.core import Context, InvariantViolation, MessageId, Multicast, Protocol, UsageError, WireError
from ordercast.core.effects import Effect
from ordercast.core.events import Arrival
from ordercast.protocols.parts.consensus_packets import Decide, Estimate, Propose, Value
from ordercast.protocols.parts.link import Behind, Receipt
from ordercast.protocols.parts.multicast import WANTED_MAX, Finished
from ordercast.protocols.parts.quorum import Quorum
from tests.protocols.classic_runs import sent
from tests.protocols.parts.hosts import (
    ConsensusHost,
    EagerMulticastHost,
    Host,
    HostOptions,
    LinkHost,
    MulticastHost,
    Parcel,
)
from tests.protocols.parts.primary_host import PrimaryHost

EMPTY = Multicast(MessageId("a", 0, 1), ("g",))
HOSTS: list[type[Host]] = [LinkHost, MulticastHost, EagerMulticastHost, ConsensusHost, PrimaryHost]


@pytest.mark.campaign
@pytest.mark.parametrize("host", HOSTS)
def test_the_part_keeps_its_promises_under_any_mixture_of_faults(host: type[Host]) -> None:
    taken: Counter[str] = Counter()
    for seed in range(40):
        outcome = run_seed(host, seed).outcome
        assert outcome.violations == (), seed
        taken.update(outcome.branches)
    assert [branch for branch in host.contract.branches if not taken[branch]] == []


# ---------------------------------------------------------------------- quorums
def test_a_qualified_majority_has_a_majority_of_each_group() -> None:
    """The example of section 3.5."""
    quorum = Quorum([("p1", "p2", "p3"), ("p4", "p5", "p6")])
    assert quorum.is_met({"p1", "p2", "p4", "p5"})
    assert not quorum.is_met({"p1", "p2", "p3", "p4"})
    assert quorum.missing({"p1", "p2", "p3", "p4"}) == ("p5", "p6")
    assert quorum.minimum == 4


@pytest.mark.parametrize("groups", [[], [()], [("a", "b"), ("b", "c")]])
def test_groups_without_sites_or_with_common_ones_are_refused(groups: list[tuple[str, ...]]) -> None:
    with pytest.raises(UsageError):
        Quorum(groups)


# ---------------------------------------------------------------------- the link
def core(kind: type[Protocol], letters_max: int = 3, incarnation: int = 0) -> Any:
    options = HostOptions(letters_max=letters_max)
    return kind(Context("a", {"g": ("a", "b", "c")}, ("a", "b", "c"), options, Random(0), incarnation=incarnation))


def drain(host: Any) -> list[tuple[tuple[str, ...], Any]]:
    effects: list[Effect] = host.outbox
    host.outbox = []
    return sent(effects)


def post(host: Any, *to: str) -> int:
    number: int = host.link.next
    host.link.post(to, Behind(number))
    return number


def test_a_letter_to_several_sites_is_one_send_and_is_repeated_to_those_who_do_not_confirm_it() -> None:
    host = core(LinkHost)
    number = post(host, "b", "c")
    assert drain(host) == [(("b", "c"), Behind(number))]
    host.link.on_link_resend_timeout()
    assert drain(host) == []
    host.link.peers["b"].kept.clear()
    host.link.on_link_resend_timeout()
    assert drain(host) == [(("c",), Behind(number))]


def test_letters_are_repeated_in_turns() -> None:
    host = core(LinkHost, letters_max=9)
    for _ in range(2):
        host.link.post(("b",), Parcel(host.link.next, EMPTY))
    drain(host)
    repeated = set()
    for _ in range(200):
        host.link.on_link_resend_timeout()
        later = {letter.number for _, letter in drain(host)}
        if len(later) == 1:
            repeated |= later
    assert repeated == {1, 2}


def test_letters_of_another_incarnation_have_other_numbers() -> None:
    assert core(LinkHost, incarnation=1).link.next > core(LinkHost).link.next + (1 << 31)


def test_a_receipt_may_say_anything() -> None:
    host = core(LinkHost)
    for _ in range(2):
        host.link.post(("b",), Parcel(host.link.next, EMPTY))
    with pytest.raises(WireError):
        host.link.on_receipt("b", Receipt(((5, 4),)), Arrival())
    host.link.on_receipt("c", Receipt(((1, 2),)), Arrival())
    host.link.on_receipt("b", Receipt(((-(1 << 60), 1), (1 << 61, 1 << 62))), Arrival())
    assert [letter.number for letter in host.link.unconfirmed("b")] == [2]


def test_a_site_that_does_not_answer_is_estranged_and_hears_only_that_it_is_behind() -> None:
    host = core(LinkHost, letters_max=2)
    for _ in range(3):
        host.link.post(("b", "c"), Parcel(host.link.next, EMPTY))
        host.link.peers["b"].kept.clear()
    assert [type(letter) for letter in host.link.unconfirmed("c")] == [Behind]
    host.link.on_receipt("c", Receipt(((0, 99),)), Arrival())
    assert [type(letter) for letter in host.link.unconfirmed("c")] == [Behind]
    drain(host)
    host.link.post(("c",), Parcel(host.link.next, EMPTY))
    assert drain(host) == []
    host.link.restore("c")
    host.link.post(("c",), Parcel(host.link.next, EMPTY))
    assert len(drain(host)) == 1


def test_letters_are_numbered_without_gaps() -> None:
    host = core(LinkHost)
    with pytest.raises(InvariantViolation):
        host.link.post(("b",), Behind(host.link.next + 1))


def test_receipts_are_gathered() -> None:
    host = core(LinkHost)
    for number in (3, 1, 2, 7, 3):
        host.link.acknowledge("b", Behind(number))
    drain(host)
    host.link.on_link_receipt_timeout()
    assert drain(host) == [(("b",), Receipt(((1, 3), (7, 7))))]


# ---------------------------------------------------------------------- reliable multicast
def test_what_is_below_the_floor_or_marked_is_finished() -> None:
    finished = Finished((1, 4), ((1, 7), (2, 1)))
    finished.raise_floor((1, 6))
    finished.raise_floor((1, 2))
    assert (finished.floor, finished.above) == ((1, 6), {(1, 7), (2, 1)})


def test_messages_that_nobody_has_do_not_keep_others_from_being_asked_for() -> None:
    host = core(MulticastHost)
    names = [MessageId("c", 0, number) for number in range(1, 2 * WANTED_MAX)]
    for name in names:
        host.multicast.want(name, ("b",))
    asked = set()
    for _ in range(2):
        host.multicast.on_want_timeout()
        asked |= {name for _, want in drain(host) for name in want.wanted}
    assert asked == set(names)


def test_what_was_found_in_the_log_is_not_asked_for() -> None:
    host = core(MulticastHost)
    host.multicast.want(EMPTY.id, ("b",))
    host.got[EMPTY.id] = EMPTY
    host.multicast.on_want_timeout()
    assert drain(host) == []


# ---------------------------------------------------------------------- consensus
TOPIC = MessageId("b", 0, 1)
VALUE = Value("b", ((TOPIC, 0),))


def consensus_of(site: str) -> Any:
    sites = ("a", "b", "c", "d", "e")
    return ConsensusHost(Context(site, {"g": sites}, sites, HostOptions(), Random(0)))


def decisions_told(host: Any) -> list[tuple[str, ...]]:
    return [to for to, letter in drain(host) if isinstance(letter, Decide)]


def test_whoever_has_come_to_the_round_of_a_coordinator_hears_what_that_one_hears_of_the_decision() -> None:
    """e suspects a and comes to the round of b; a decides, tells b alone, and is gone."""
    b = consensus_of("b")
    b.consensus.on_estimate("e", Estimate(1, (1,), 1, 0, VALUE, TOPIC), Arrival())
    assert decisions_told(b) == []
    b.consensus.on_decide("a", Decide(1, (1,), VALUE), Arrival())
    assert decisions_told(b) == [("a", "c", "d", "e")]


def test_the_first_coordinator_passes_on_what_others_have_decided_without_it() -> None:
    """Everyone who does not suspect it waits for it, and need not have said so."""
    a = consensus_of("a")
    a.consensus.on_decide("b", Decide(1, (1,), VALUE), Arrival())
    assert decisions_told(a) == [("b", "c", "d", "e")]
    a = consensus_of("a")
    a.consensus.learn((1,), VALUE)
    assert decisions_told(a) == [("b", "c", "d", "e")]


def test_while_nobody_suspects_anybody_only_the_coordinator_tells_the_decision() -> None:
    c = consensus_of("c")
    c.consensus.on_propose("a", Propose(1, (1,), 0, VALUE), Arrival())
    c.consensus.on_decide("a", Decide(2, (1,), VALUE), Arrival())
    assert decisions_told(c) == []
