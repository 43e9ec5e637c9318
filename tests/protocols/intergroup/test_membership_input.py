"""Membership messages that no sound process sends: refused or ignored; they start no repair, and keep no memory."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from ordercast.core import Context, MessageId, Multicast, Packet, WireError
from ordercast.core.events import Arrival, MulticastRequested, Received, Started, TimerFired
from ordercast.protocols.intergroup.dynamic import DynamicInterGroup
from ordercast.protocols.intergroup.group import channel_of
from ordercast.protocols.intergroup.membership.member import Member
from ordercast.protocols.intergroup.membership.options import MembershipOptions
from ordercast.protocols.intergroup.membership.packets import (
    MC,
    RTC,
    SENDERS_MAX,
    Cut,
    PFailBlock,
    PJoin,
    ProxyRequest,
    RecInfo,
    SponsorRequest,
    ViewAnswer,
    ViewRequest,
)
from ordercast.protocols.intergroup.packets import ViewId

FIRST = ViewId(0, "a", 0)
OTHER = ViewId(7, "z", 1)
MANY = tuple(f"s{number}" for number in range(100_000))
NO_CUT = Cut({}, 0, 0)
OUT_OF_ORDER = Multicast(MessageId("x", 0, 1), ("g",))


class Post:
    """The process a, in the sender group of g with b and c."""

    def __init__(self) -> None:
        options = MembershipOptions()
        groups = {"g": ("a", "b", "c"), "h": ("b", "c")}
        self.core = DynamicInterGroup(Context("a", groups, ("a", "b", "c"), options, Random(1)))
        self.core.step(0.0, Started())
        self.core.step(0.1, MulticastRequested(Multicast(MessageId("a", 0, 1), ("g",), b"m")))
        self.core.outbox.clear()

    @property
    def member(self) -> Member:
        member = self.core.process_groups["g"].member
        assert member is not None
        return member

    def receive(self, sender: str, packet: Packet, channel: str | None = "g", now: float = 0.2) -> None:
        arrival = Arrival(None if channel is None else channel_of(channel))
        self.core.step(now, Received(sender, packet, arrival))

    def memory(self) -> tuple[Any, ...]:
        member = self.member
        return (
            *(member.state, member.epoch, member.attempts, dict(member.newest), dict(member.blocked)),
            *(member.detector.suspected, sorted(member.group.streams), dict(member.proxied)),
            *(len(member.group.buffer), len(member.order), list(self.core.process_groups)),
        )


def mc(**changed: Any) -> MC:
    sound = MC(
        "g", "p", ViewId(9, "b", 1), {"a": FIRST, "b": FIRST}, ((FIRST, Cut({"a": 1}, 5, 5)),), {"a": 2, "b": 1}, {}
    )
    return msgspec.structs.replace(sound, **changed)


def answer(**changed: Any) -> ViewAnswer:
    sound = ViewAnswer("g", 1, FIRST, FIRST, ("b",), {}, {"b": 1}, 5, {}, 0, {})
    return msgspec.structs.replace(sound, **changed)


REFUSED: dict[str, Packet] = {
    "failed, and not considered": PJoin(FIRST, 1, 1, ("a", "b"), ("c",), 0),
    "a later life of this process": PJoin(FIRST, 1, 1, ("a", "a#1", "b"), (), 0),
    "somebody twice": PJoin(FIRST, 1, 1, ("a", "a"), (), 0),
    "no name": PJoin(FIRST, 1, 1, ("a", ""), (), 0),
    "a name beyond all measure": PJoin(FIRST, 1, 1, ("a", "x" * 10_000), (), 0),
    "100,000 processes": PJoin(FIRST, 1, 1, MANY, (), 0),
    "100,000 failures": PJoin(FIRST, 1, 1, ("a",), MANY, 0),
    "no attempt": PJoin(FIRST, 0, 1, ("a",), (), 0),
    "a message that was never sent cannot be had": PFailBlock(FIRST, 1, "a", 2),
    "somebody has a message that was never sent": RecInfo("p", 1, FIRST, 0, {"a": 2}, {}, 1),
    "100,000 numbers": RecInfo("p", 1, FIRST, 0, dict.fromkeys(MANY, 1), {}, 1),
    "a number below all": RecInfo("p", 1, FIRST, 0, {"b": -1}, {}, 1),
    "a time beyond all": RecInfo("p", 1, FIRST, 1 << 62, {}, {}, 1),
    "ready with what was never sent": RTC("p", FIRST, Cut({"a": 2}, 0, 0), 1, 1, {}),
    "ready at no time": RTC("p", FIRST, NO_CUT, 1, -1, {}),
    "ready with 100,000 sources": RTC("p", FIRST, NO_CUT, 1, 1, dict.fromkeys(MANY, 1)),
    "a view with what was never sent": mc(cuts=((FIRST, Cut({"a": 2}, 5, 5)),)),
    "a view of nobody": mc(old={}, first={}, cuts=()),
    "a view without first numbers": mc(first={"a": 2}),
    "a view from nowhere": mc(cuts=()),
    "a view of 100,000": mc(old=dict.fromkeys(MANY, FIRST), first=dict.fromkeys(MANY, 1)),
    "a view of another group": mc(group="h"),
    "a view without time": mc(view=ViewId(-1, "b", 1)),
    "an answer of 100,000": answer(members=MANY, first=dict.fromkeys(MANY, 1)),
    "an answer without first numbers": answer(first={}),
    "an answer with less than nothing": answer(count=-1),
    "a request at no time": ViewRequest("g", 1, FIRST, -1),
    "a sponsor for a number below all": SponsorRequest("g", FIRST, -1),
    "somebody else's message by proxy": ProxyRequest("g", 1, 0, 5, False, Multicast(MessageId("a", 0, 5), ("g",))),
    "another group's message by proxy": ProxyRequest("g", 1, 0, 5, False, Multicast(MessageId("x", 0, 1), ("h",))),
    "a number by proxy below all": ProxyRequest("g", -1, 0, 5, False, OUT_OF_ORDER),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_contradicts_itself_is_refused_starts_nothing_and_is_forgotten(what: str) -> None:
    post = Post()
    before = post.memory()
    packet = REFUSED[what]
    direct = isinstance(packet, ViewAnswer | ViewRequest | SponsorRequest | ProxyRequest)
    with pytest.raises(WireError):
        post.receive("x" if isinstance(packet, ProxyRequest) else "b", packet, None if direct else "g")
    assert post.memory() == before


IGNORED: dict[str, tuple[str, Packet, str | None]] = {
    "a stranger that does not consider this process": ("x", PJoin(OTHER, 1, 1, ("x", "y"), (), 0), "g"),
    "a stranger that goes on without it": ("x", PJoin(OTHER, 1, 1, ("a", "x"), ("a",), 0), "g"),
    "a stranger that goes on without a member": ("x", PJoin(OTHER, 1, 1, ("a", "b", "x"), ("b",), 0), "g"),
    "a RecInfo of no repair": ("b", RecInfo("p", 1, FIRST, 0, {"b": 3}, {}, 4), "g"),
    "an RTC of no repair": ("b", RTC("p", FIRST, NO_CUT, 1, 5, {}), "g"),
    "a view for somebody else": ("x", mc(old={"x": OTHER}, first={"x": 1}, cuts=((OTHER, NO_CUT),)), "g"),
    "a stranger that cannot get a message": ("x", PFailBlock(FIRST, 1, "b", 1), "g"),
    "what cannot be had in another view": ("b", PFailBlock(OTHER, 1, "c", 1), "g"),
    "an answer that nobody has asked for": ("b", answer(), None),
    "a request of another group": ("x", ViewRequest("h", 1, FIRST, 5), None),
    "a sponsor in another view": ("x", SponsorRequest("g", OTHER, 1), None),
    "a proxy in another group": ("x", ProxyRequest("h", 1, 0, 5, False, Multicast(MessageId("x", 0, 1), ("h",))), None),
}


@pytest.mark.parametrize("what", IGNORED)
def test_what_does_not_concern_this_process_starts_nothing(what: str) -> None:
    post = Post()
    before = post.memory()
    sender, packet, channel = IGNORED[what]
    post.receive(sender, packet, channel)
    after = post.memory()
    assert after[:3] == before[:3]
    assert after[5:] == before[5:]
    # Of strangers, the newest attempt is known: one number for each, and a bound of how many.
    assert len(after[3]) <= 1
    assert post.member.repair is None


def test_a_message_of_another_group_is_refused() -> None:
    with pytest.raises(WireError):
        Post().receive("b", PJoin(FIRST, 1, 1, ("a", "b"), (), 0), "h")


def test_a_proposal_of_a_repair_that_is_over_starts_no_other() -> None:
    post = Post()
    post.member.newest["b"] = (3, 1)
    post.receive("b", PJoin(FIRST, 2, 9, ("a", "b", "c"), ("a",), 0))
    assert post.member.repair is None
    assert post.core.branches["stale"] == 1


def test_random_packets_leave_every_invariant_and_bound() -> None:
    """Sound ones with one field exchanged for that of another one, again and again, while timers run."""
    random = Random(7)
    sound: list[Packet] = [
        *(packet for packet in REFUSED.values() if not isinstance(packet, MC)),
        *(packet for _, packet, _ in IGNORED.values()),
        *(PJoin(FIRST, 5, n, ("a", "b", "c"), (), 0) for n in range(1, 4)),
        mc(),
    ]
    values = [msgspec.structs.asdict(packet) for packet in sound if not isinstance(packet, ProxyRequest)]
    post = Post()
    refused = 0
    for step in range(1500):
        packet = random.choice(sound)
        field = random.choice(packet.__struct_fields__)
        mine = getattr(packet, field)
        other = random.choice([mine, *(each[field] for each in values if type(each.get(field)) is type(mine))])
        changed = msgspec.structs.replace(packet, **{field: other})
        now = 0.2 + step / 100
        try:
            post.receive(random.choice(("b", "c", "x", f"y{step}")), changed, random.choice(("g", None)), now)
        except WireError:
            refused += 1
        if step % 25 == 0:
            post.core.step(now, TimerFired(("membership", "g")))
        post.core.outbox.clear()
        post.core.check_invariants()
    assert refused > 250
    assert len(post.member.newest) <= 1024
    assert len(post.member.blocked) <= 1024


def test_a_flood_of_joins_by_those_who_have_the_key_takes_bounded_memory() -> None:
    """Three times as many strangers as a sender group may have want to be in it, each in all ways that there are."""
    post = Post()
    refused, largest = 0, 0
    for number in range(3 * SENDERS_MAX):
        name, now = f"y{number}", 0.2 + number / 1000
        wishes: tuple[Packet, ...] = (
            ViewRequest("g", 1, post.member.epoch, 5),
            SponsorRequest("g", post.member.epoch, 1),
            PJoin(ViewId(7, name, 1), 1, 1, ("a", "b", "c", name), (), 0),
        )
        for wish in wishes:
            try:
                post.receive(name, wish, "g" if isinstance(wish, PJoin) else None, now)
            except WireError:
                refused += 1
        post.core.outbox.clear()
        largest = max(largest, *(len(each) for each in sized(post.member)))
    post.core.check_invariants()
    assert largest == SENDERS_MAX, "the bound is reached, and nothing is above it"
    assert refused


def sized(member: Member) -> list[Any]:
    """Everything in a member, and in its parts, that has a length."""
    found: list[Any] = []
    group = member.group
    for part in (member, member.detector, member.repair, group, group.sending, member.order, member.proxying):
        slots = {name for kind in type(part).__mro__ for name in getattr(kind, "__slots__", ())}
        values = [getattr(part, name, None) for name in sorted(slots | {*getattr(part, "__dict__", {})})]
        found += [value for value in values if hasattr(value, "__len__")]
    return [*found, group.buffer]
