"""Genuineness and message size."""

import pytest

from ordercast.check import Verdict
from tests.check.build import outcome, verdict_of

SENT = "a multicast m g size=10\na send p1 peer=b messages=m size=30\nb receive p1 peer=a messages=m size=30\n"


def test_packets_between_source_and_destinations_are_genuine() -> None:
    assert outcome("genuineness", SENT, "g:b,c") == "holds"


@pytest.mark.parametrize("row", ["d receive p2 messages=m", "d send p2 messages=m", "d send p2 messages=x,m"])
def test_a_packet_at_a_site_that_a_message_does_not_concern_is_not_genuine(row: str) -> None:
    verdict = verdict_of("genuineness", SENT + row, "g:b,c")
    assert verdict.verdict == "violated"
    assert verdict.witnesses == 1
    assert verdict.first is not None
    assert (verdict.first.sites, verdict.first.messages) == (("d",), ("m",))


@pytest.mark.parametrize(
    "rows", ["", "a multicast m g", "d send p messages=x", "d send p", "a multicast m g\nd drop p messages=m"]
)
def test_without_packets_for_known_messages_genuineness_is_vacuous(rows: str) -> None:
    assert outcome("genuineness", rows) == "vacuous"


def test_explicit_destinations_take_part() -> None:
    assert outcome("genuineness", "a multicast m destinations=d\nd receive p messages=m") == "holds"
    assert outcome("genuineness", "a multicast m destinations=d\nb receive p messages=m") == "violated"


def size_of(rows: str, bound: object) -> Verdict:
    return verdict_of("message-size", rows, "g:b,c", bounds={"message_size": bound})


def test_a_packet_within_the_bound_holds() -> None:
    assert size_of(SENT, 20).verdict == "holds"
    assert size_of(SENT, {"a": 10, "b": 5}).verdict == "holds"


def test_a_packet_above_the_bound_violates() -> None:
    verdict = size_of(SENT, 19)
    assert verdict.verdict == "violated"
    assert verdict.first is not None
    assert (verdict.first.sites, verdict.first.messages) == (("a",), ("m",))
    assert verdict.first.why == "a sends a packet of 30 bytes where 29 are allowed"
    assert size_of(SENT, {"a": 9, "b": 5}).verdict == "violated"


def test_a_packet_may_take_as_much_as_all_its_messages_together() -> None:
    rows = "a multicast m g size=10\na multicast n g\na send p messages=m,n size=50"
    assert size_of(rows, 20).verdict == "holds"
    assert size_of(rows, 19).verdict == "violated"


def test_message_size_is_vacuous_without_sizes_and_not_judged_without_a_bound() -> None:
    assert size_of("a multicast m g\na send p messages=m\na send q size=99", 1).verdict == "vacuous"
    assert outcome("message-size", SENT) == "not-judged"
