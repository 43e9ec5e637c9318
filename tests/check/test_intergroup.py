"""What each delivery service of InterGroup promises (Berket 2000, 1.3, 4.6 to 4.9), held against planted traces.

A broken promise is seen where the service makes it, by the judge and by the naive checker alike, and nowhere else.
"""

from __future__ import annotations

import msgspec
import pytest

from tests.check.build import describe, events, verdict_of
from tests.naive import CHECKERS

ORDERED = ["source-order"]
TIMESTAMPED = ["source-order", "causal-order", "timestamp-order"]
SERVICES: dict[str, list[str]] = {
    "unreliable": [],
    "reliable-source": ["source-order", "reliable-source-order", "view-termination"],
    "group-timestamp": [*TIMESTAMPED, "reliable-source-order", "reliable-timestamp-order", "view-termination"],
    "unreliable-source": ORDERED,
    "unreliable-timestamp": TIMESTAMPED,
    "on-request": [],
}
EVERYONE = ("integrity", "no-duplication")
"""What is promised whatever the service."""

CHOSEN = "b activate {0} groups=g\nc activate {0} groups=g\n"
SENT = CHOSEN + "a multicast k g\na multicast m g\na multicast n g\n"
TWO_SOURCES = CHOSEN + "a multicast m g\nd multicast n g\n"
CAUSED = CHOSEN + "a multicast k g\na multicast m g\nd deliver m service=unreliable\nd multicast n g depends=m\n"
"""The source of n has seen m, with whatever service."""

PLANTED: dict[str, tuple[str, str]] = {
    "overtaken": ("source-order", SENT + "b deliver n service={0}\nb deliver m service={0}"),
    "a gap": ("reliable-source-order", SENT + "b deliver k service={0}\nb deliver n service={0}"),
    "a gap that is filled too late": (
        "reliable-source-order",
        SENT + "b deliver k service={0}\nb deliver n service={0}\nb deliver m service={0}",
    ),
    "two orders": (
        "timestamp-order",
        TWO_SOURCES
        + "b deliver m service={0}\nb deliver n service={0}\nc deliver n service={0}\nc deliver m service={0}",
    ),
    "before its cause": ("causal-order", CAUSED + "b deliver n service={0}\nb deliver m service={0}"),
    "a cause that never comes": (
        "reliable-timestamp-order",
        CAUSED + "b deliver k service={0}\nb deliver n service={0}",
    ),
    "silence": ("view-termination", SENT + "c deliver k service={0}\nc deliver m service={0}\nc deliver n service={0}"),
    "the end is missing": ("view-termination", SENT + "b deliver k service={0}\nb deliver m service={0}"),
    "twice": ("no-duplication", SENT + "b deliver k service={0}\nb deliver k service={0}"),
    "twice, before and after a choice": (
        "no-duplication",
        SENT + "b deliver k service=unreliable\nb activate {0} groups=g\nb deliver k service={0}",
    ),
    "out of nowhere": ("integrity", CHOSEN + "b deliver m service={0}"),
    "to a stranger": ("integrity", SENT + "z deliver m service={0}"),
}
GROUPS = "g:a,b,c,d"


def both(name: str, text: str, guarantees: tuple[str, ...] = EVERYONE) -> str:
    """The verdict of the judge, which is that of the naive checker."""
    found = verdict_of(name, text, GROUPS, guarantees, services=SERVICES).verdict
    run = msgspec.to_builtins(describe(GROUPS, guarantees, services=SERVICES))
    rows = [{key: value for key, value in row.items() if value is not None} for row in events(text).to_pylist()]
    assert CHECKERS[name](run, rows)[0] == found
    return found


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("planted", PLANTED)
def test_a_broken_promise_is_seen_where_it_was_made_and_nowhere_else(planted: str, service: str) -> None:
    name, text = PLANTED[planted]
    promised = name in EVERYONE or name in SERVICES[service]
    assert (both(name, text.format(service)) == "violated") == promised


@pytest.mark.parametrize("service", SERVICES)
def test_receivers_with_other_services_excuse_and_accuse_nobody(service: str) -> None:
    """Beside one that keeps its promise, another one has chosen to see anything in any order."""
    good = "".join(f"b deliver {message} service={service}\n" for message in "kmn")
    wild = "c deliver n service=unreliable\nc deliver k service=unreliable\n"
    rows = SENT.format(service).replace(f"c activate {service}", "c activate unreliable") + good + wild
    for name in SERVICES[service]:
        assert both(name, rows) in ("holds", "vacuous"), name
        # A certain receiver has broken it, whatever the others do.
        broken = PLANTED["the end is missing" if name == "view-termination" else "overtaken"][1].format(service)
        if name in ("source-order", "view-termination"):
            assert both(name, broken + "\n" + wild) == "violated"


@pytest.mark.parametrize("name", ["source-order", "reliable-source-order", "causal-order", "reliable-timestamp-order"])
@pytest.mark.parametrize("service", ["reliable-source", "group-timestamp"])
def test_what_came_before_the_last_activation_is_not_held_against_what_comes_after_it(name: str, service: str) -> None:
    again = f"b deliver k service={service}\nb activate {service} groups=g\nb deliver n service={service}"
    assert both(name, SENT.format(service) + again) != "violated"
    only_of_d = again.replace("groups=g", "groups=g source=d")
    expected = name == "reliable-source-order" or (name == "reliable-timestamp-order" and service == "group-timestamp")
    assert (both(name, SENT.format(service) + only_of_d) == "violated") == expected


def test_whoever_was_told_of_its_gap_is_owed_nothing_from_before() -> None:
    missed = SENT.format("group-timestamp") + "c deliver k service=group-timestamp\n"
    told = "b activate group-timestamp groups=g\na multicast o g\n"
    rest = "".join(f"c deliver {message} service=group-timestamp\n" for message in "mno")
    assert both("view-termination", missed + rest) == "violated"
    assert both("view-termination", missed + told + rest + "b deliver o service=group-timestamp") == "holds"
    assert both("view-termination", missed + told + rest) == "violated"


ACROSS = (
    "a multicast m g\nd multicast n h\nb deliver m service={0}\nb deliver n service={0}\n"
    "c deliver n service={0}\nc deliver m service={0}"
)


@pytest.mark.parametrize("service", ["group-timestamp", "unreliable-timestamp", "reliable-source", "unreliable"])
def test_order_across_groups_is_promised_only_where_it_is_claimed_and_only_by_timestamps(service: str) -> None:
    groups = "g:a,b,c,d h:a,b,c,d"
    timestamped = service in ("group-timestamp", "unreliable-timestamp")
    services = {
        name: [*names, "multiple-group-order"] if "timestamp-order" in names else names
        for name, names in SERVICES.items()
    }
    chosen = f"b activate {service}\nc activate {service}\n"
    rows = chosen + ACROSS.format(service)
    within = verdict_of("timestamp-order", rows, groups, EVERYONE, services=SERVICES).verdict
    across = verdict_of("timestamp-order", rows, groups, (*EVERYONE, "multiple-group-order"), services=services).verdict
    pairwise = verdict_of("multiple-group-order", rows, groups, ("multiple-group-order",), services=services).verdict
    assert within == "vacuous"
    assert (across == "violated", pairwise == "violated") == (timestamped, timestamped)
