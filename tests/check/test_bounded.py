"""P1 … P4 and Q1 … Q3: bounded delivery and atomicity."""

from typing import Any

import pytest

from ordercast.check import Verdict
from tests.check.build import verdict_of

BOUND = 2.0


def judge_bounded(name: str, rows: str, groups: str = "g:a,b", **more: Any) -> Verdict:
    """The verdict with a bound of two seconds, a network that takes at most one, and an end at 100."""
    bounds = {"phi_n": 1.0, "promised": {name: BOUND}}
    given: dict[str, Any] = {"bounds": bounds, "ended_at": 100.0, **more}
    return verdict_of(name, rows, groups, **given)


SENT = "@1 a multicast m g\n@1 a send p1 peer=b messages=m\n@1.5 b receive p1 peer=a messages=m\n@1.6 a deliver m\n"
IN_TIME = SENT + "@2.9 b deliver m parent=a"
LATE = SENT + "@9 b deliver m parent=a"
NEVER = SENT + "@9 b deliver x parent=a"
BOUNDED = ("P1", "P2", "P3", "P4", "Q1", "Q2", "Q3")


@pytest.mark.parametrize("name", BOUNDED)
def test_delivery_within_the_bound_holds(name: str) -> None:
    assert judge_bounded(name, IN_TIME).verdict == "holds"


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize(("rows", "missed"), [(LATE, "does so at 9"), (NEVER, "never does")])
def test_delivery_too_late_or_never_violates(name: str, rows: str, missed: str) -> None:
    verdict = judge_bounded(name, rows)
    assert verdict.verdict == "violated"
    assert verdict.witnesses == 1
    assert verdict.first is not None
    assert verdict.first.sites[0] == "b"
    assert verdict.first.messages == ("m",)
    assert verdict.first.why.endswith(f"b must deliver m within 2 s, but {missed}")


@pytest.mark.parametrize("name", BOUNDED)
def test_a_site_that_is_down_owes_nothing(name: str) -> None:
    assert judge_bounded(name, "@0.5 b fail\n" + NEVER, "g:b").verdict == "vacuous"


@pytest.mark.parametrize("name", BOUNDED)
def test_a_window_that_ends_after_the_run_is_not_judged(name: str) -> None:
    assert judge_bounded(name, LATE, "g:b", ended_at=2.5).verdict == "vacuous"


@pytest.mark.parametrize("name", BOUNDED)
def test_without_its_bound_a_property_is_not_judged(name: str) -> None:
    assert verdict_of(name, LATE, bounds={"phi_n": 1.0, "promised": {"P9": 1.0}}).verdict == "not-judged"
    assert verdict_of(name, LATE, bounds={}).verdict == "not-judged"
    without_latency = verdict_of(name, LATE, bounds={"promised": {name: BOUND}}, ended_at=100.0).verdict
    assert without_latency == ("violated" if name == "P1" else "not-judged")


@pytest.mark.parametrize("name", BOUNDED)
def test_without_any_message_there_is_no_obligation(name: str) -> None:
    assert judge_bounded(name, "b fail\nb recover").verdict == "vacuous"


@pytest.mark.parametrize(
    ("name", "rows", "expected"),
    [
        # Up means recovered: after an awake a site is awake only.
        ("P1", "@0.2 b fail\n@0.4 b awake\n" + NEVER, "vacuous"),
        ("P1", "@0.2 b fail\n@0.4 b recover\n" + NEVER, "violated"),
        # The window is closed: [1.5, 3.5].
        ("P1", SENT + "@3.5 b fail", "vacuous"),
        ("P1", SENT + "@3.6 b fail", "violated"),
        # The source need only be awake.
        ("P2", "@0.2 a fail\n@0.4 a awake\n" + NEVER, "violated"),
        ("P2", "@0.2 a fail\n" + NEVER, "vacuous"),
    ],
)
def test_up_and_awake_are_told_apart(name: str, rows: str, expected: str) -> None:
    assert judge_bounded(name, rows, "g:b").verdict == expected


LOST = "@1 a multicast m g\n@1 a send p1 peer=b messages=m\n@1.6 a deliver m\n"


def test_p2_owes_nothing_while_the_network_loses_packets_between_the_two() -> None:
    assert judge_bounded("P2", LOST, "g:b").verdict == "vacuous"
    # The other direction breaks it too, and so does another packet.
    assert judge_bounded("P2", SENT + "@2 b send p2 peer=a", "g:b").verdict == "vacuous"
    # But not a packet to somebody else, one outside the window, or one that is late by less than the bound.
    assert judge_bounded("P2", SENT + "@2 a send p2 peer=c", "g:b").verdict == "violated"
    assert judge_bounded("P2", SENT + "@3.5 a send p2 peer=b", "g:b").verdict == "violated"
    assert judge_bounded("P2", SENT + "@2 a send p2 peer=b\n@3 b receive p2", "g:b").verdict == "violated"
    assert judge_bounded("P2", SENT + "@2 a send p2 peer=b\n@3.1 b receive p2", "g:b").verdict == "vacuous"


def test_a_packet_to_a_site_that_is_down_does_not_break_the_network() -> None:
    rows = SENT + "@2 a send p2 peer=b\n@2.5 a fail\n@2.6 a recover\n"
    assert judge_bounded("Q2", rows + "@50 b deliver x", "g:a,b").verdict == "violated"
    # Here the packet counts, and the first good moment is after it.
    still = judge_bounded("Q2", SENT + "@2 a send p2 peer=b\n@4 b deliver m", "g:a,b")
    assert still.verdict == "holds"


def test_a_network_multicast_counts_for_those_who_saw_it() -> None:
    rows = "@1 a multicast m g\n@1 a send p1 messages=m\n"
    assert judge_bounded("P2", rows + "@1.2 b drop p1", "g:b").verdict == "vacuous"
    assert judge_bounded("P2", rows + "@1.2 b receive p1", "g:b").verdict == "violated"
    assert judge_bounded("P2", rows, "g:b").verdict == "violated"
    assert judge_bounded("P4", rows, "g:b").verdict == "vacuous"
    assert judge_bounded("P4", rows + "@1.2 b drop p1\n", "g:b").verdict == "violated"


def test_p3_needs_enough_other_members_within_reach() -> None:
    groups = "g:a,b,c"
    rows = "@1 a multicast m g\n@1 a send p1 peer=b messages=m\n@1.5 b receive p1 messages=m\n"
    assert judge_bounded("P3", rows, groups).verdict == "violated"
    cut = rows + "@2 c send p9 peer=b\n"
    assert judge_bounded("P3", cut, groups).verdict == "vacuous"
    bounds = {"phi_n": 1.0, "promised": {"P3": BOUND}, "p3_sites": 1}
    assert judge_bounded("P3", cut, groups, bounds=bounds).verdict == "violated"
    assert judge_bounded("P3", cut, groups, bounds={**bounds, "p3_sites": 3}).verdict == "vacuous"


def test_p4_and_q2_wait_for_the_first_good_moment() -> None:
    # The only packet is lost, so the window begins just after it was sent: at 1, and it ends at 3.
    for name in ("P4", "Q2"):
        assert judge_bounded(name, LOST + "@3 b deliver m", "g:a,b").verdict == "holds"
        assert judge_bounded(name, LOST + "@3.1 b deliver m", "g:a,b").verdict == "violated"
        # b is down until 5: by 7.
        down = LOST.replace("@1.6", "@1.2 b fail\n@1.6") + "@5 b recover\n"
        assert judge_bounded(name, down + "@7 b deliver m", "g:a,b").verdict == "holds"
        assert judge_bounded(name, down + "@7.1 b deliver m", "g:a,b").verdict == "violated"
        # a fails again before the window is over, and comes back at 8: by 10.
        again = down + "@6 a fail\n@8 a awake\n"
        assert judge_bounded(name, again + "@10 b deliver m", "g:a,b").verdict == "holds"
        assert judge_bounded(name, again + "@10.1 b deliver m", "g:a,b").verdict == "violated"


def test_no_good_moment_before_the_end_is_no_obligation() -> None:
    assert judge_bounded("P4", LOST + "@2 b fail", "g:b").verdict == "vacuous"
    # Just after 1 the window would end just after 3.
    assert judge_bounded("P4", LOST, "g:b", ended_at=3.0).verdict == "vacuous"
    assert judge_bounded("P4", LOST, "g:b", ended_at=3.1).verdict == "violated"


def test_q1_needs_a_delivery_at_another_member() -> None:
    assert judge_bounded("Q1", "@1 a multicast m g", "g:a,b").verdict == "vacuous"
    assert judge_bounded("Q1", "@1 a multicast m g\n@2 a deliver m", "g:b").verdict == "vacuous"


def test_q2_needs_a_delivery_at_some_member() -> None:
    assert judge_bounded("Q2", "@1 a multicast m g", "g:a,b").verdict == "vacuous"
    assert judge_bounded("Q2", "@1 a multicast m g\n@2 a deliver m", "g:a,b").verdict == "violated"


def test_q3_takes_the_one_parent_that_a_site_ever_names() -> None:
    missed = "@1 a multicast m g\n@1.6 a deliver m\n"
    assert judge_bounded("Q3", missed + "@2 b deliver x parent=a").verdict == "violated"
    assert judge_bounded("Q3", missed + "@2 b deliver x parent=a\n@2 b deliver y parent=c").verdict == "vacuous"
    assert judge_bounded("Q3", missed + "@2 b deliver x").verdict == "vacuous"
    assert judge_bounded("Q3", missed + "@2 b deliver x parent=b").verdict == "vacuous"
    assert judge_bounded("Q3", missed + "@2 b deliver x parent=c").verdict == "vacuous"
