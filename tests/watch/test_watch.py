"""A run that goes on is watched: what is wrong is told when it is seen, once, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import msgspec
import pytest

from ordercast.check import choose, judge
from ordercast.trace.schema import Event, Run
from ordercast.watch import Alert, Settings, Watch
from tests.check.build import describe, events

CLAIMS = ("integrity", "no-duplication", "source-order", "multiple-group-order", "uniform-agreement")
VIEWS = ("self-inclusion", "view-agreement")


def rows_of(text: str) -> list[Event]:
    """As tests/check/build.py reads them, in the order of their times."""
    rows = [msgspec.convert(row, Event) for row in events(text).to_pylist()]
    return sorted(rows, key=lambda row: row.time)


def watched(
    text: str, claims: Iterable[str] = CLAIMS, groups: str = "g:a,b,c", lag_seconds: float = 10.0
) -> list[Alert]:
    watch = Watch(describe(groups, tuple(claims)), Settings(lag_seconds))
    return watch.see(rows_of(text))


def told(alerts: list[Alert]) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return [(alert.property, alert.sites, alert.messages) for alert in alerts]


def test_messages_that_everybody_has_are_not_remembered() -> None:
    watch = Watch(describe("g:a,b,c", CLAIMS))
    assert watch.see(rows_of("@1 a multicast m g\n@2 a deliver m\n@3 b deliver m")) == []
    assert watch.remembered == 1
    later = msgspec.structs.replace(rows_of("@4 c deliver m")[0])
    assert watch.see([later]) == []
    assert (watch.remembered, watch.forgotten) == (0, 0)


def test_two_sites_that_deliver_two_messages_in_different_orders_are_told_when_the_last_one_is_delivered() -> None:
    alerts = watched(
        "@1 a multicast m g\n@1 b multicast n g\n@2 a deliver m\n@3 b deliver n\n@4 a deliver n\n@5 c deliver m\n"
        "@6 b deliver m\n@7 c deliver n"
    )
    name = "multiple-group-order"
    assert told(alerts) == [(name, ("b", "a"), ("m", "n")), (name, ("c", "b"), ("n", "m"))]
    assert alerts[0].why == "b delivers m after n, and a before it"
    assert alerts[0].time == 6


def test_a_message_that_only_one_of_two_sites_has_is_in_no_order() -> None:
    """a dies before it has delivered n: b may have it anywhere."""
    assert watched("@1 a multicast m g\n@1 b multicast n g\n@2 a deliver m\n@3 b deliver n\n@4 b deliver m") == []


def test_a_delivery_again_is_told_but_not_after_a_crash_and_not_of_a_replay() -> None:
    text = "@1 a multicast m g source_seq=1\n@2 a deliver m source=a source_seq=1\n"
    again = "@5 a deliver m source=a source_seq=1"
    assert told(watched(text + again)) == [("no-duplication", ("a",), ("m",))]
    assert watched(f"{text}@3 a fail\n@4 a recover\n{again}") == []
    assert watched(f"{text}@5 a replay m") == []


def test_the_messages_of_a_source_are_delivered_as_it_sent_them() -> None:
    sent = "@1 a multicast m g source_seq=1\n@1.5 a multicast n g source_seq=2\n"
    text = f"{sent}@2 b deliver n source=a source_seq=2\n@3 b deliver m source=a source_seq=1"
    assert told(watched(text)) == [("source-order", ("b",), ("m",))]
    assert watched(text, ["integrity"]) == []


def test_whoever_lacks_for_long_what_others_have_is_told_of_once_until_it_has_caught_up() -> None:
    watch = Watch(describe("g:a,b,c", CLAIMS), Settings(lag_seconds=5))
    rows = rows_of(
        "@1 a multicast m g\n@2 a deliver m\n@2 b deliver m\n@3 a multicast n g\n@4 a deliver n\n@9 b deliver n\n"
        "@20 c deliver m\n@21 c deliver n\n@22 b multicast o g\n@23 a deliver o\n@24 b deliver o\n@40 a multicast p g"
    )
    alerts = [told(watch.see([row])) for row in rows]
    lag = [("agreement-lag", ("c",), ("m",))]
    assert [number for number, found in enumerate(alerts) if found] == [5, 11]
    assert alerts[5] == lag
    assert alerts[11] == [("agreement-lag", ("c",), ("o",))]


def test_a_site_that_is_down_or_was_not_there_lacks_nothing() -> None:
    text = "@1 a multicast m g\n@1 c fail\n@2 a deliver m\n@2 b deliver m\n@30 a multicast n g"
    assert watched(text, lag_seconds=5) == []
    text = "@1 a multicast m g\n@1 c fail\n@2 a deliver m\n@2 b deliver m\n@3 c recover\n@30 a multicast n g"
    assert watched(text, lag_seconds=5) == []
    text = "@1 a multicast m g\n@2 a deliver m\n@2 b deliver m\n@2 c deliver m\n@3 d join g\n@30 a multicast n g"
    assert watched(text, lag_seconds=5) == []


def test_what_nobody_has_multicast_is_told_when_its_row_could_have_come() -> None:
    text = "@2 b deliver m source=a source_seq=7\n"
    assert watched(f"{text}@3 a multicast n g source_seq=1", lag_seconds=5) == []
    alerts = watched(f"{text}@9 b deliver n source=a source_seq=8", lag_seconds=5)
    assert told(alerts) == [("integrity", ("b",), ("m",))]
    assert watched(f"{text}@4 a multicast m g source_seq=7\n@9 b view v members=b", lag_seconds=50) == []


def test_views_have_their_own_site_and_the_same_members_everywhere() -> None:
    text = "@1 a view v members=a,b\n@2 b view v members=a,b,c\n@3 c view w members=a,b"
    assert [alert.property for alert in watched(text, VIEWS)] == ["view-agreement", "self-inclusion"]
    assert watched(text, CLAIMS) == []


def test_a_watch_that_is_packed_goes_on_where_it_was() -> None:
    rows = rows_of(
        "@1 a multicast m g source_seq=1\n@1 b multicast n g source_seq=1\n@2 a deliver m source=a source_seq=1\n"
        "@3 b deliver n source=b source_seq=1\n@4 a deliver n source=b source_seq=1\n"
        "@6 b deliver m source=a source_seq=1\n@7 b deliver m source=a source_seq=1"
    )
    run = describe("g:a,b,c", CLAIMS)
    whole = Watch(run).see(rows)
    assert len(whole) == 2
    state, found = None, []
    for row in rows:
        watch = Watch(run, state=state)
        found += watch.see([row])
        state = watch.pack()
    assert found == whole


def test_what_is_remembered_has_a_bound() -> None:
    watch = Watch(describe("g:a,b,c", CLAIMS), Settings(open_max=100, lag_seconds=1e9))
    for number in range(1000):
        watch.see(rows_of(f"@{number} a multicast m{number} g source_seq={number}\n@{number}.5 a deliver m{number}"))
    assert watch.remembered == 100
    assert watch.forgotten == 900
    assert len(watch.pack()) < 10_000


@pytest.mark.parametrize("seed", range(40))
def test_inverted_pairs_are_told_exactly_where_the_judge_finds_some(seed: int) -> None:
    """Random orders at four sites, some with gaps; rows mixed at random, but for those of each site."""
    random = Random(seed)
    sites, messages = "abcd", [f"m{number}" for number in range(random.randint(2, 8))]
    lines = [f"@{number} a multicast {message} g" for number, message in enumerate(messages)]
    time = len(messages)
    orders = {}
    for site in sites:
        orders[site] = [message for message in messages if random.random() < 0.8]
        if random.random() < 0.3 and len(orders[site]) > 1:
            one, other = random.sample(range(len(orders[site])), 2)
            orders[site][one], orders[site][other] = orders[site][other], orders[site][one]
    while any(orders.values()):
        site = random.choice([site for site in sites if orders[site]])
        time += 1
        lines.append(f"@{time} {site} deliver {orders[site].pop(0)}")
    text, claims = "\n".join(lines), ["multiple-group-order"]
    expected = judge(describe("g:a,b,c,d", tuple(claims)), events(text), choose(claims))["multiple-group-order"]
    alerts = watched(text, claims, "g:a,b,c,d", lag_seconds=1e9)
    assert bool(alerts) == (expected.verdict == "violated")
    pairs = {(frozenset(witness.sites), frozenset(witness.messages)) for witness in expected.all_witnesses}
    assert {(frozenset(alert.sites), frozenset(alert.messages)) for alert in alerts} <= pairs


def test_with_services_each_receiver_chooses_its_own_order() -> None:
    run = msgspec.structs.replace(describe("g:a,b", CLAIMS), services={"total": ["multiple-group-order"]})
    text = "@1 a multicast m g\n@1 b multicast n g\n@2 a deliver m\n@3 b deliver n\n@4 a deliver n\n@6 b deliver m"
    assert isinstance(run, Run)
    assert Watch(run).see(rows_of(text)) == []
