"""Receipts and keys: who sends learns the place of its message, and sending again is harmless."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

import ordercast
from ordercast.core import MessageId, Multicast
from ordercast.core.effects import Deliver
from ordercast.node.bundles import encode_bundle
from ordercast.node.deliveries import View
from ordercast.node.journal import Attachment
from ordercast.node.keys import KEYS_MAX, KEYS_OF_OWNER_MAX, REPEATED_MAX, Keys, KeysAt, Place
from ordercast.node.letters import Letter
from ordercast.node.receiver import Receiver
from ordercast.node.runs import encode_marked
from tests.node.cluster import make_configuration, open_nodes, payloads, run, take

PROTOCOLS = ("sequencer", "token", "two-phase", "lamport", "three-step")


# ---------------------------------------------------------------------- receipts
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_receipt_names_the_place_that_every_member_sees(protocol: str) -> None:
    async def main() -> None:
        async with open_nodes(make_configuration(protocol=protocol)) as nodes:
            groups = [await node.join("g") for node in nodes]
            await groups[0].multicast(b"before")
            receipts = [await group.multicast(b"%d" % index, confirm=True) for index, group in enumerate(groups)]
            for group in groups:
                seen = {delivery.payload: delivery for delivery in await take(group, 4)}
                for index, receipt in enumerate(receipts):
                    delivery = seen[b"%d" % index]
                    assert (receipt.offset, receipt.message) == (delivery.offset, delivery.message)
                    assert not receipt.repeated

    run(main())


def test_letters_keep_their_place_among_the_messages_of_their_source() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration()) as (_, b, _):
            group = await b.join("g")
            waiting = []
            for index in range(60):
                if index % 3 == 1:
                    waiting.append(asyncio.ensure_future(group.multicast(b"%d" % index, confirm=True)))
                    await asyncio.sleep(0)
                elif index % 3 == 2:
                    await group.multicast(b"%d" % index, key=str(index))
                else:
                    group.try_multicast(b"%d" % index)
            receipts = await asyncio.gather(*waiting)
            assert [receipt.offset for receipt in receipts] == list(range(1, 60, 3))
            assert await payloads(group, 60) == [b"%d" % index for index in range(60)]

    run(main())


def test_a_large_message_has_a_receipt_and_a_key_like_any_other() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration("ab")) as (a, b):
            mine, other = await a.join("g"), await b.join("g")
            large = bytes(300_000)
            first = await mine.multicast(large, confirm=True, key="large")
            again = await mine.multicast(large, confirm=True, key="large")
            assert (again.offset, again.message, again.repeated) == (first.offset, first.message, True)
            await mine.multicast(b"end")
            assert [len(payload) for payload in await payloads(other, 2)] == [300_000, 3]

    run(main())


def test_one_message_to_two_groups_has_its_offset_in_each() -> None:
    async def main() -> None:
        configuration = make_configuration("ab", groups={"g": ["a", "b"], "h": ["a", "b"]})
        async with open_nodes(configuration) as (a, b):
            g, h = await a.join("g"), await b.join("h")
            await g.multicast(b"only g", confirm=True)
            receipt = await b.multicast(b"both", ["g", "h"], confirm=True)
            assert receipt.offsets == {"g": 1, "h": 0}
            assert receipt.offset == 1
            assert await payloads(h, 1) == [b"both"]

    run(main())


def test_what_cannot_be_confirmed_is_refused_in_words(tmp_path: Path) -> None:
    async def main() -> None:
        configuration = make_configuration("ab", groups={"g": ["a", "b"], "h": ["a"], "i": ["a", "b"]})
        async with open_nodes(configuration) as (a, b):
            group = await b.join("g")
            with pytest.raises(
                ordercast.UsageError, match=r"process b is not in h .* join it, or send through a process"
            ):
                await b.multicast(b"x", ["h"], confirm=True)
            with pytest.raises(ordercast.UsageError, match="sequencer does not say when a majority has a message"):
                await group.multicast(b"x", confirm="majority")
            with pytest.raises(ordercast.UsageError, match="a key belongs to one group"):
                await b.multicast(b"x", ["g", "i"], key="k")
            with pytest.raises(ordercast.UsageError, match="a key has 1 to 200 characters"):
                await group.multicast(b"x", key="")
            with pytest.raises(TypeError, match="a key is a text, not int"):
                await group.multicast(b"x", key=7)  # type: ignore[call-overload]
            with pytest.raises(TypeError, match="a message is bytes, not str"):
                await group.multicast("x", confirm=True)  # type: ignore[call-overload]
            both = await a.join("g", "i")
            with pytest.raises(ordercast.UsageError, match="join them one by one"):
                await both.multicast(b"x", confirm=True)
        async with open_nodes(make_configuration("ab", protocol="fan-2")) as (a, _):
            group = await a.join("g")
            with pytest.raises(ordercast.UsageError, match="under fan-2 a message has no place"):
                await group.multicast(b"x", confirm=True)

    run(main())


def test_a_protocol_whose_minority_may_die_confirms_for_a_majority() -> None:
    async def main() -> None:
        async with open_nodes(make_configuration(protocol="three-step")) as nodes:
            group = await nodes[0].join("g")
            assert (await group.multicast(b"x", confirm="majority")).offset == 0

    run(main())


def test_whoever_waits_for_a_receipt_hears_that_the_group_is_blocked_and_the_retry_is_one_message() -> None:
    async def main() -> None:
        configuration = make_configuration("ab")
        async with ordercast.open(configuration, "b") as b:
            group = await b.join("g")
            for _ in range(2):
                with pytest.raises(ordercast.GroupBlocked, match="send it again with its key"):
                    await group.multicast(b"once", confirm=True, key="k")
            async with ordercast.open(configuration, "a") as a:
                receipt = await group.multicast(b"once", confirm=True, key="k")
                assert receipt.offset == 0
                await group.multicast(b"end")
                assert await payloads(await a.join("g"), 2) == [b"once", b"end"]

    run(main())


def test_who_waits_for_a_receipt_when_the_node_ends_hears_it() -> None:
    async def main() -> None:
        async with ordercast.open(make_configuration("ab"), "b") as b:
            group = await b.join("g")
            waiting = asyncio.ensure_future(group.multicast(b"x", confirm=True))
            await asyncio.sleep(0)
            b.kill()
            with pytest.raises(ordercast.NodeClosed):
                await waiting

    run(main())


# ---------------------------------------------------------------------- keys
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_key_is_delivered_once_across_kills_of_its_source(protocol: str, tmp_path: Path) -> None:
    async def main() -> None:
        configuration = make_configuration(protocol=protocol, log_directory=str(tmp_path))
        async with open_nodes(configuration, "ab") as (a, b):
            seen: list[bytes] = []
            (await a.join("g")).on_batch(seen.extend)
            (await b.join("g")).on_batch(len)
            for turn in range(3):
                async with ordercast.open(configuration, "c") as c:
                    group = await c.join("g")
                    group.on_batch(len)
                    for number in range(10):
                        receipt = await group.multicast(b"%d" % number, confirm=True, key=f"n{number}")
                        assert receipt.repeated == (turn > 0), (turn, number)
                        assert receipt.offset == number
                    # Perhaps it leaves, perhaps it does not: the next turn cannot know.
                    await group.multicast(b"%d" % (10 + turn), key=f"last {turn}")
                    c.kill()
            async with ordercast.open(configuration, "c") as c:
                group = await c.join("g")
                group.on_batch(len)
                for turn in range(3):
                    await group.multicast(b"%d" % (10 + turn), confirm=True, key=f"last {turn}")
                await group.multicast(b"end")
                while b"end" not in seen:
                    await asyncio.sleep(0)
                assert sorted(seen[:-1], key=int) == [b"%d" % number for number in range(13)]
                assert seen[:10] == [b"%d" % number for number in range(10)]

    run(main())


def letters(receiver: Receiver, number: int, *those: Letter, source: str = "a", group: str = "g") -> None:
    multicast = Multicast(MessageId(source, 0, number), (group,), encode_marked(those), count=len(those))
    receiver.deliver("main", Deliver(multicast))


def plain(receiver: Receiver, number: int, *those: bytes) -> None:
    multicast = Multicast(MessageId("a", 0, number), ("g",), encode_bundle(those), count=len(those))
    receiver.deliver("main", Deliver(multicast))


def make_receiver(attachment: Attachment | None = None) -> Receiver:
    view = View("1", "g", ("a", "b"))
    return Receiver([view], 1 << 20, attachment or Attachment(), history_bytes=1 << 20, on_taken=lambda: None)


def seen(receiver: Receiver, group: str = "g") -> list[tuple[int, bytes, str]]:
    inbox = receiver.find(group)
    assert inbox is not None
    found = [each for batch in inbox.untaken() for each in batch.deliveries()]
    return [(each.offset, each.payload, each.message) for each in found]


def test_a_letter_whose_key_was_used_has_its_offset_and_is_not_delivered() -> None:
    receiver = make_receiver()
    letters(receiver, 1, Letter(b"one", key="k"), Letter(b"two", key="l"))
    letters(receiver, 2, Letter(b"new", key="m"), Letter(b"one again", key="k"), Letter(b"three"))
    plain(receiver, 3, b"plain")
    assert [each[:2] for each in seen(receiver)] == [
        (0, b"one"),
        (1, b"two"),
        (2, b"new"),
        (4, b"three"),
        (5, b"plain"),
    ]
    assert [each[2] for each in seen(receiver)][2:4] == ["a:0:2/0", "a:0:2/2"]
    history = receiver.histories["g"]
    assert history.next_offset == 6
    inbox = receiver.find("g")
    assert inbox is not None
    assert [len(batch) for batch in inbox.untaken()] == [2, 2, 1]


def test_a_key_belongs_to_its_owner() -> None:
    receiver = make_receiver()
    letters(receiver, 1, Letter(b"of a", key="k"), Letter(b"of client", key="k", owner="client"))
    letters(receiver, 1, Letter(b"of b", key="k"), Letter(b"client again", key="k", owner="client"), source="b")
    assert [each[1] for each in seen(receiver)] == [b"of a", b"of client", b"of b"]


def test_letters_that_cannot_be_decoded_are_set_aside_and_offsets_go_on() -> None:
    receiver = make_receiver()
    multicast = Multicast(MessageId("a", 0, 1), ("g",), b"\xc0\x91\x07", count=2)
    receiver.deliver("main", Deliver(multicast))
    letters(receiver, 2, Letter(b"x"))
    assert [each[:2] for each in seen(receiver)] == [(2, b"x")]
    assert receiver.counters["bad-bundles"] == 1


def test_a_checkpoint_keeps_the_keys_and_which_letters_there_were() -> None:
    receiver = make_receiver()
    letters(receiver, 1, Letter(b"one", key="k"))
    letters(receiver, 2, Letter(b"one again", key="k"), Letter(b"two", key="l"))
    before = seen(receiver)
    again = make_receiver(receiver.attachment({}))
    assert seen(again) == before
    letters(again, 3, Letter(b"two again", key="l"), Letter(b"three", key="m"))
    assert [each[:2] for each in seen(again)] == [(0, b"one"), (2, b"two"), (4, b"three")]


def test_who_stops_in_the_middle_of_a_batch_with_holes_goes_on_there() -> None:
    async def main() -> None:
        receiver = make_receiver()
        letters(receiver, 1, Letter(b"one", key="k"))
        letters(receiver, 2, Letter(b"one", key="k"), Letter(b"two"), Letter(b"one", key="k"), Letter(b"three"))
        inbox = receiver.find("g")
        assert inbox is not None
        assert await inbox.begin_next()
        list(inbox.rest)
        assert await inbox.begin_next()
        assert next(inbox.rest).payload == b"two"
        inbox.put_back()
        assert [each[:2] for each in seen(receiver)] == [(4, b"three")]

    asyncio.run(main())


# ---------------------------------------------------------------------- who comes later
def test_what_is_behind_a_gap_waits_until_another_member_has_told_which_keys_were_used() -> None:
    giver, taker = make_receiver(), make_receiver()
    asked: list[tuple[str, int]] = []
    taker.on_lacking = lambda group, since: asked.append((group, since))
    letters(giver, 1, Letter(b"0", key="k0"), Letter(b"1", key="k1"))
    taker.enter("g", 2)
    for receiver in (giver, taker):
        plain(receiver, 2, b"2")
        letters(receiver, 3, Letter(b"3", key="k3"), Letter(b"no 4", key="k1"))
    assert asked == [("g", 3)]
    letters(giver, 4, Letter(b"5", key="k5"))
    told = giver.keys_at("g", 3)
    assert told is not None
    letters(giver, 5, Letter(b"no 6", key="k0"), Letter(b"7", key="k7"))
    letters(taker, 4, Letter(b"5", key="k5"))
    letters(taker, 5, Letter(b"no 6", key="k0"), Letter(b"7", key="k7"))
    inbox = taker.find("g")
    assert inbox is not None
    assert inbox.held is not None
    assert taker.keys_at("g", 3) is None, "it cannot tell others either"
    taker.learn_keys("g", told)
    assert seen(taker) == seen(giver)[2:]
    letters(giver, 6, Letter(b"no 8", key="k7"), Letter(b"no 9", key="k3"), Letter(b"10"))
    letters(taker, 6, Letter(b"no 8", key="k7"), Letter(b"no 9", key="k3"), Letter(b"10"))
    assert seen(taker) == seen(giver)[2:]
    assert [each[1] for each in seen(taker)] == [b"2", b"3", b"5", b"7", b"10"]


def test_what_waits_for_keys_outlives_a_restart() -> None:
    giver, taker = make_receiver(), make_receiver()
    taker.on_lacking = lambda *_: None
    letters(giver, 1, Letter(b"0", key="k0"))
    taker.enter("g", 1)
    for receiver in (giver, taker):
        letters(receiver, 2, Letter(b"no 1", key="k0"), Letter(b"2", key="k2"))
    again = make_receiver(taker.attachment({}))
    asked: list[tuple[str, int]] = []
    again.on_lacking = lambda group, since: asked.append((group, since))
    again.resume_seeking()
    assert asked == [("g", 1)]
    again.learn_keys("g", giver.keys_at("g", 1))
    assert seen(again) == seen(giver)[1:]


def test_without_anybody_who_knows_deliveries_go_on_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    receiver = make_receiver()
    receiver.enter("g", 5)
    with caplog.at_level(logging.WARNING):
        letters(receiver, 1, Letter(b"x", key="k"))
    assert "may be delivered a second time" in caplog.text
    assert [each[:2] for each in seen(receiver)] == [(5, b"x")]


def test_who_takes_batches_by_a_callback_gets_what_was_held_in_its_place() -> None:
    receiver = make_receiver()
    receiver.on_lacking = lambda *_: None
    receiver.enter("g", 1)
    inbox = receiver.claim(("g",), {})
    got: list[bytes] = []
    inbox.call(got.extend)
    letters(receiver, 1, Letter(b"1", key="k"))
    plain(receiver, 2, b"2")
    assert got == []
    receiver.learn_keys("g", KeysAt(2, [], [], 0))
    plain(receiver, 3, b"3")
    assert got == [b"1", b"2", b"3"]


def test_a_joiner_asks_a_member_and_delivers_what_the_others_do() -> None:
    async def main() -> None:
        configuration = make_configuration("abc", protocol="token")
        async with open_nodes(configuration) as (a, b, _):
            first = await a.join("quotes")
            for number in range(3):
                await first.multicast(b"%d" % number, key=f"k{number}")
            await first.flush()
            second = await b.join("quotes")
            assert second.offset == 3
            # As if the first attempts were unknown at their source: it sends them again.
            sender, internals = a.internals.sender, a.internals
            for number in range(4):
                assert sender.add_letter(internals.address(["quotes"]), Letter(b"%d" % number, key=f"k{number}"))
            await first.multicast(b"end")
            assert await payloads(second, 2) == [b"3", b"end"]
            assert await payloads(first, 5) == [b"0", b"1", b"2", b"3", b"end"]

    run(main())


# ---------------------------------------------------------------------- bounds
def test_what_is_remembered_of_keys_has_bounds() -> None:
    keys = Keys()
    for number in range(KEYS_OF_OWNER_MAX + 10):
        keys.use("a", str(number), Place(number, MessageId("a", 0, number), 0))
    assert len(keys) == KEYS_OF_OWNER_MAX
    assert keys.find("a", "9") is None
    assert keys.find("a", "10") is not None
    for number in range(KEYS_MAX):
        keys.use(f"owner {number // 100}", str(number), Place(number, MessageId("a", 0, number), 0))
    assert len(keys) == KEYS_MAX
    assert keys.find("a", str(KEYS_OF_OWNER_MAX)) is None
    for number in range(REPEATED_MAX + 1):
        keys.use("owner 1", "100", Place(10_000 + number, MessageId("a", 0, number), 0))
    assert keys.at(0).since == 10_001
    assert len(keys.at(0).repeated) == REPEATED_MAX


def test_keys_that_were_given_forget_what_the_givers_forget() -> None:
    first = Keys()
    for number in range(2 * KEYS_OF_OWNER_MAX):
        first.use(f"{number % 3}", str(number), Place(number, MessageId("a", 0, number), 0))
    second = Keys.restore(first.at(2 * KEYS_OF_OWNER_MAX))
    for number in range(2 * KEYS_OF_OWNER_MAX, 4 * KEYS_OF_OWNER_MAX):
        place = Place(number, MessageId("a", 0, number), 0)
        assert first.use("1", str(number), place) == second.use("1", str(number), place)
    assert first.at(0) == second.at(0)


def test_what_is_taken_back_has_not_used_its_key() -> None:
    keys = Keys()
    keys.use("a", "k", Place(0, MessageId("a", 0, 1), 0))
    keys.use("a", "l", Place(1, MessageId("a", 0, 2), 0))
    keys.take_back(1)
    assert keys.find("a", "l") is None
    assert keys.find("a", "k") is not None
