"""The stream between a client and a member: whoever lacks the key says nothing, and nothing is played again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.core import WireError
from ordercast.wire.keys import ClusterKeys, new_key
from ordercast.wire.stream import FIRST_RECORD_BYTES_MAX, GREETING_BYTES, Stream, WrongKey

KEYS = ClusterKeys(new_key())


def pair(client: ClusterKeys | None = KEYS, member: ClusterKeys | None = KEYS) -> tuple[Stream, Stream]:
    """Two sides that have greeted each other."""
    sides = (
        Stream(client, is_member=False, record_bytes_max=1 << 20),
        Stream(member, is_member=True, record_bytes_max=1 << 20),
    )
    assert sides[0].receive(sides[1].greeting()) == sides[1].receive(sides[0].greeting()) == []
    return sides


@given(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=8), st.integers(1, 50))
def test_records_arrive_as_they_were_said_however_the_bytes_are_cut(records: list[bytes], cut: int) -> None:
    client, member = pair()
    for speaker, hearer in ((client, member), (member, client)):
        said = b"".join(map(speaker.seal, records))
        heard = [record for at in range(0, len(said), cut) for record in hearer.receive(said[at : at + cut])]
        assert heard == records
        assert hearer.held_bytes == 0


def test_a_member_takes_every_key_that_it_accepts_and_answers_with_the_clients() -> None:
    old, new = new_key(), new_key()
    client, member = pair(ClusterKeys(old), ClusterKeys(new, old))
    assert member.receive(client.seal(b"hello")) == [b"hello"]
    assert client.receive(member.seal(b"welcome")) == [b"welcome"]


def test_another_key_is_refused_and_says_so() -> None:
    client, member = pair(ClusterKeys(new_key()))
    with pytest.raises(WrongKey):
        member.receive(client.seal(b"hello"))
    with pytest.raises(WrongKey):
        client.receive(member.refusal())
    for client_keys, member_keys in ((None, KEYS), (KEYS, None)):
        with pytest.raises(WrongKey, match="it seals"):
            pair(client_keys, member_keys)


def test_what_was_recorded_cannot_be_played_again_nor_back_nor_twice() -> None:
    client, member = pair()
    greeting, said = client.greeting(), client.seal(b"pay")
    assert member.receive(said) == [b"pay"]
    with pytest.raises(WireError):
        member.receive(said)
    fresh = Stream(KEYS, is_member=True, record_bytes_max=1 << 20)
    with pytest.raises(WrongKey):
        fresh.receive(greeting + said)
    other, _ = pair()
    with pytest.raises(WireError):
        other.receive(said)


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_byte_that_was_changed_is_noticed(place: int, change: int) -> None:
    client, member = pair()
    said = bytearray(client.seal(b"pay 100"))
    said[place % len(said)] ^= change
    try:
        assert member.receive(bytes(said)) == []  # a longer record is waited for, and never opens
        with pytest.raises(WireError):
            member.receive(bytes(FIRST_RECORD_BYTES_MAX))
    except WireError:
        pass


@given(st.binary(max_size=200))
def test_strangers_make_a_member_hold_next_to_nothing(noise: bytes) -> None:
    member = Stream(KEYS, is_member=True, record_bytes_max=1 << 30)
    try:
        for _ in range(100):
            member.receive(noise)
    except WireError:
        return
    assert member.held_bytes < FIRST_RECORD_BYTES_MAX + GREETING_BYTES


def test_a_record_may_not_be_longer_than_agreed() -> None:
    client, member = pair()
    assert member.receive(client.seal(b"hello")) == [b"hello"]
    with pytest.raises(WireError, match="the most is 1048576"):
        member.receive(client.seal(bytes(1 << 20)))
