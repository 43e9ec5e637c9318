"""Sites and groups that begin later, leave and come back: what a `[[change]]` does to a run."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from msgspec.structs import replace

from ordercast.check import judge
from ordercast.core import Context, Protocol, UsageError
from ordercast.core.effects import Credit
from ordercast.core.events import Discovered, JoinRequested, MulticastRequested, ServiceChosen, Started
from ordercast.protocols import find_protocol
from ordercast.sim import Simulation
from ordercast.sim.change import Change
from ordercast.sim.scenario import Scenario, dump_scenario, parse_scenario
from ordercast.sim.site.membership import DISCOVERY_SECONDS
from tests.sim.desk import CLOSED, Ask, Desk
from tests.sim.kiosk import Kiosk

DOCUMENT = """
protocol = "desk"
duration = 8.0
settle = 2.0
[groups]
g = ["a", "b"]
[[workload]]
sources = ["a", "d"]
groups = ["g"]
rate = 2.0
arrivals = "regular"
"""
JOIN = '[[change]]\nkind = "join"\nat = 2.2\nsites = ["d"]\ngroup = "g"\n'
LEAVE = '[[change]]\nkind = "leave"\nat = 5.2\nsites = ["d"]\ngroup = "g"\n'


def find(name: str) -> type[Protocol]:
    return {"desk": Desk, "heirs": Heirs, "choosy": Choosy, "kiosk": Kiosk}.get(name) or find_protocol(name)


class Heirs(Desk):
    """Who starts again is another process."""

    contract = Desk.contract.without()


Heirs.contract = type(Heirs.contract)(
    **{name: getattr(Desk.contract, name) for name in Desk.contract.__struct_fields__}
    | {"name": "heirs", "another_process": True, "faults": ("crash",)}
)


asked: list[tuple[str, str]] = []


class Choosy(Heirs):
    """Remembers with which service sites join."""

    contract = replace(Heirs.contract, name="choosy")

    def on_join_requested(self, event: JoinRequested) -> None:
        asked.append((self.site, event.service))
        super().on_join_requested(event)

    def on_service_chosen(self, event: ServiceChosen) -> None:
        """It is all the same here."""


def scenario(text: str) -> Scenario:
    return parse_scenario(tomllib.loads(text), find)


def executed(text: str) -> Simulation:
    return scenario(text).simulation().execute()


def rows(simulation: Simulation, *kinds: str, site: str | None = None) -> list[dict[str, Any]]:
    found = simulation.table().to_pylist()
    return [row for row in found if row["kind"] in kinds and site in (None, row["site"])]


def core(simulation: Simulation, site: str) -> Desk:
    found = simulation.sites[site].instances["main"].core
    assert isinstance(found, Desk)
    return found


# ---------------------------------------------------------------------- what happens
def test_a_site_that_no_group_names_begins_with_its_first_change_and_is_in_until_it_leaves() -> None:
    run = executed(DOCUMENT + JOIN + LEAVE)
    at_d = rows(run, "join", "view", "deliver", "leave", site="d")
    assert at_d[0]["kind"] == "join"
    assert (at_d[1]["kind"], at_d[1]["members"], at_d[1]["groups"]) == ("view", ["a", "b", "d"], ["g"])
    assert {row["kind"] for row in at_d[2:-1]} == {"deliver"}
    assert (at_d[-1]["kind"], at_d[-1]["groups"]) == ("leave", ["g"])
    assert 2.2 < at_d[0]["time"] < at_d[-1]["time"] < 5.3
    assert run.change_counts == {"join": 1, "leave": 1}
    verdicts = judge(run.header(), run.table())
    assert {name for name, each in verdicts.items() if each.verdict == "violated"} == set()


def test_what_a_site_multicasts_before_it_is_in_and_after_it_has_left_is_skipped_and_counted() -> None:
    run = executed(DOCUMENT + JOIN + LEAVE)
    times = [row["time"] for row in rows(run, "multicast", site="d")]
    assert [round(time, 1) for time in times] == [2.5, 3.0, 3.5, 4.0, 4.5, 5.0]
    assert run.refused_messages == 6
    assert len(rows(run, "multicast", site="a")) == 16


def test_a_late_site_knows_itself_alone_and_is_told_whom_it_has_found() -> None:
    run = executed(DOCUMENT + JOIN)
    late, early = core(run, "d"), core(run, "a")
    assert (late.context.sites, late.context.groups) == (("d",), {})
    assert late.found == [Discovered(("a", "b"), False), Discovered(("a", "b"), True)]
    assert early.context.sites == ("a", "b")
    assert early.found == [Discovered(("b",), True), Discovered(("b", "d"), True)]


def test_a_group_can_begin_later_founded_by_whoever_finds_nobody() -> None:
    run = executed(
        """
        protocol = "desk"
        [[workload]]
        sources = ["a"]
        groups = ["new"]
        [[change]]
        kind = "join"
        at = 1.0
        sites = ["a"]
        group = "new"
        [[change]]
        kind = "join"
        at = 3.0
        sites = ["b", "c"]
        group = "new"
        """
    )
    joined = {row["site"]: row["time"] for row in rows(run, "join")}
    assert joined["a"] >= 1.0 + DISCOVERY_SECONDS
    assert core(run, "a").found[:2] == [Discovered((), False), Discovered((), True)]
    assert core(run, "a").lists == {"new": ("a", "b", "c")}
    assert rows(run, "deliver", site="c")
    assert run.header().groups == {}


def test_nobody_founds_a_group_while_everyone_else_is_down() -> None:
    run = executed(DOCUMENT + JOIN + '[[fault]]\nkind = "crash"\nfrom = 1.0\nto = 3.0\nsites = ["a", "b"]')
    assert core(run, "d").found[0] == Discovered((), False)
    assert all(each.sites for each in core(run, "d").found if each.settled)


def test_what_makes_no_sense_is_refused_to_the_site_that_asks_and_the_run_goes_on() -> None:
    run = executed(DOCUMENT + JOIN + JOIN.replace("2.2", "4.0") + LEAVE.replace('["d"]', '["b", "d"]'))
    assert run.refused_requests == ["d: d is in g already"]
    assert run.change_counts == {"join": 1, "leave": 2}
    assert [row["site"] for row in rows(run, "leave")] == ["b", "d"]


def test_what_is_being_left_is_joined_again_when_it_is_left() -> None:
    run = executed(DOCUMENT + JOIN + LEAVE + JOIN.replace("2.2", "5.2"))
    assert run.change_counts == {"join": 2, "leave": 1}
    assert [row["kind"] for row in rows(run, "join", "leave", site="d")] == ["join", "leave", "join"]
    assert run.refused_requests == []


def test_a_refused_join_is_answered_and_does_not_count_as_a_change() -> None:
    run = executed(DOCUMENT + JOIN.replace('"g"', f'"{CLOSED}"'))
    assert (run.change_counts, run.sites["d"].membership.unanswered) == ({}, ())
    assert run.sites["d"].blocked_reasons == [f"{CLOSED} cannot be joined: nobody may"]


def test_a_site_that_is_down_asks_for_nothing() -> None:
    leave = DOCUMENT.replace('"d"]', '"b"]') + LEAVE.replace('"d"', '"b"')
    run = executed(leave + '[[fault]]\nkind = "pause"\nfrom = 5\nto = 6\nsites = ["b"]')
    assert run.change_counts == {"leave": 1}, "it stood still, and its application asks when it goes on"
    run = executed(leave + '[[fault]]\nkind = "crash"\nfrom = 5\nto = 6\nsites = ["b"]')
    assert run.change_counts == {}


def test_an_application_that_is_started_again_asks_again_for_what_has_not_come_about() -> None:
    cut = '[[fault]]\nkind = "partition"\nfrom = 2.0\nto = 4.0\nparts = [["d"]]\n'
    crash = '[[fault]]\nkind = "crash"\nfrom = 3.0\nto = 4.5\nsites = ["d"]\n'
    assert executed(DOCUMENT + JOIN + cut).sites["d"].membership.unanswered == scenario(DOCUMENT + JOIN).changes
    run = executed(DOCUMENT + JOIN + cut + crash)
    assert run.change_counts == {"join": 1}
    assert rows(run, "join", site="d")[0]["time"] > 4.5


def test_what_is_left_before_the_start_is_over_was_never_asked_for_and_is_answered() -> None:
    # Where memory is lost, sites greet each other first; d is told to join and to leave while it waits for b.
    lost = '[[fault]]\nkind = "lost-log"\nrepair = true\nfrom = 2.0\nto = 4.0\nsites = ["b"]\n'
    document = DOCUMENT.replace("desk", "token").replace('"b"]', '"b", "c"]')
    run = executed(document + JOIN + LEAVE.replace("5.2", "2.3") + lost)
    assert run.refused_requests == ["d: d is not in 'g': there is nothing to leave"]
    assert (run.change_counts, run.sites["d"].membership.unanswered) == ({}, ())


def test_a_fault_does_not_wake_a_site_that_has_not_begun() -> None:
    run = executed(DOCUMENT + JOIN + '[[fault]]\nkind = "crash"\nfrom = 0.5\nto = 1.0\nsites = ["d"]')
    assert not rows(run, "fail", "awake", "recover")
    assert rows(run, "join", site="d")[0]["time"] > 2.2


# ---------------------------------------------------------------------- successors
def test_where_a_restart_is_another_process_a_crashed_site_is_succeeded() -> None:
    crash = '[[fault]]\nkind = "crash"\nfrom = 3.1\nto = 4.1\nsites = ["b"]\n'
    again = '[[fault]]\nkind = "crash"\nfrom = 5.1\nto = 6.1\nsites = ["b"]\n'
    run = executed(DOCUMENT.replace('"desk"', '"heirs"').replace('"d"]', '"b"]') + crash + again)
    assert list(run.sites) == ["a", "b", "b#1", "b#2"]
    assert [(row["site"], row["kind"]) for row in rows(run, "fail", "awake", "recover")] == [
        ("b", "fail"),
        ("b#1", "fail"),
    ]
    assert [row["site"] for row in rows(run, "join")] == ["b#1", "b#2"]
    sources = [row["source"] for row in rows(run, "multicast") if row["site"] != "a"]
    assert sources == [*["b"] * 6, *["b#1"] * 2, *["b#2"] * 4]
    assert core(run, "b#2").context.sites == ("b#2",)
    assert core(run, "b#2").found[0] == Discovered(("a",), False)
    assert run.at("b") is run.sites["b#2"]


def test_a_fault_and_a_network_know_a_successor_by_the_name_of_the_first() -> None:
    text = DOCUMENT.replace('"desk"', '"heirs"').replace('"d"]', '"b"]') + (
        '[[fault]]\nkind = "crash"\nfrom = 3.1\nto = 4.1\nsites = ["b"]\n'
        '[[fault]]\nkind = "cut"\nfrom = 5.1\nsites = ["a"]\npeers = ["b"]\n'
        '[network]\nkind = "wide-area"\nregions = { here = ["a"], there = ["b"] }\n'
        "[network.latency]\nhere = { here = 0.001, there = 0.3 }\nthere = { there = 0.001 }\n"
    )
    run = executed(text)
    assert rows(run, "join", site="b#1")[0]["time"] == pytest.approx(4.7, abs=0.01)
    assert {row["reason"] for row in rows(run, "drop", site="b#1")} == {"cut"}


# ---------------------------------------------------------------------- credit for each group
class Stingy(Desk):
    """Takes one message to h, and any number to g."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.outbox.append(Credit(1, "h"))

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        self.ask(Ask(event.multicast.groups[0], self.site, multicast=event.multicast))


def test_a_message_without_credit_in_its_group_does_not_hold_back_those_to_another() -> None:
    text = DOCUMENT.replace('sources = ["a", "d"]\ngroups = ["g"]', 'sources = ["a"]\ngroups = ["g", "h"]\nchoose = 1')
    text = text.replace('g = ["a", "b"]', 'g = ["a", "b"]\nh = ["a"]')
    run = parse_scenario(tomllib.loads(text), lambda _name: Stingy).simulation().execute()
    to = [row["groups"] for row in rows(run, "multicast")]
    assert to.count(["h"]) == 1
    assert to.count(["g"]) > 3
    assert run.sites["a"].waiting_messages == 16 - len(to)


class Slow(Desk):
    """Takes a message at a time, a second after the one before, and none before the first second."""

    timers = ("breath",)

    def on_started(self, event: Started) -> None:
        self.outbox.append(Credit(0))
        self.set_timer("breath", 1.0)

    def on_breath_timeout(self) -> None:
        self.outbox.append(Credit(1))
        self.set_timer("breath", 1.0)


@pytest.mark.parametrize("many", [3, 2000])
def test_a_message_that_is_refused_leaves_its_credit_to_the_next(many: int) -> None:
    text = DOCUMENT.replace("rate = 2.0", "rate = 4.0\ncount = 3").replace('sources = ["a", "d"]', 'sources = ["a"]')
    before = text.replace('groups = ["g"]', 'groups = ["h"]\nstart = 0.1').replace("[groups]", '[groups]\nh = ["b"]')
    before = before.replace("rate = 4.0\ncount = 3", f"rate = {4.0 * many}\ncount = {many}")
    both = before + text[text.index("[[workload]]") :]
    run = parse_scenario(tomllib.loads(both), lambda _name: Slow).simulation().execute()
    assert run.refused_messages == many
    assert [round(row["time"], 1) for row in rows(run, "multicast")] == [1.0, 2.0, 3.0]
    assert run.sites["a"].waiting_messages == 0


# ---------------------------------------------------------------------- scenarios
def test_a_scenario_with_changes_is_written_and_read_again() -> None:
    service = '[[change]]\nkind = "service"\nat = 3\nsites = ["a"]\ngroup = "g"\nservice = "fast"\nsources = ["b"]\n'
    written = scenario(DOCUMENT + JOIN + LEAVE + service)
    assert parse_scenario(tomllib.loads(dump_scenario(written)), find) == written
    assert written.changes[2] == Change(kind="service", at=3.0, sites=("a",), group="g", service="fast", sources=("b",))
    assert (written.sites, written.late_sites) == (("a", "b", "d"), frozenset("d"))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (JOIN.replace("join", "jion"), "scenario: [[change]] 1: kind: 'jion'"),
        (JOIN.replace("at = 2.2\n", ""), "scenario: [[change]] 1: the key 'at' is missing"),
        (JOIN.replace("group", "gruop"), "scenario: [[change]] 1: unknown key 'gruop'; did you mean 'group'?"),
        (JOIN.replace('["d"]', "[]"), "[[change]] 1: sites is empty; name the sites that ask"),
        (JOIN.replace("2.2", "-1"), "[[change]] 1: at is 0 or later, not -1"),
        (JOIN.replace("2.2", "8.0"), "[[change]] 1: at = 8.0 is not before the end, duration = 8.0"),
        (LEAVE.replace('"g"', '"gg"'), "[[change]] 1: nobody is in a group 'gg', nor joins it; "),
        (LEAVE + 'role = "sender"', "[[change]] 1: role belongs to a join or a role, not to a leave"),
        (LEAVE + 'service = "fast"', "[[change]] 1: service belongs to a join or a service, not to a leave"),
        (JOIN + 'sources = ["a"]', "[[change]] 1: sources belongs to a service, not to a join"),
        (JOIN.replace("join", "role"), "[[change]] 1: a role needs role = the one that is chosen"),
        (JOIN.replace("join", "service"), "[[change]] 1: a service needs service = the one that is chosen"),
        (
            JOIN.replace("join", "service") + 'service = "x"\nsources = ["bb"]',
            "[[change]] 1: there is no site 'bb'; did you mean 'b'?",
        ),
        (JOIN.replace('"g"', '"a group"'), "[[change]]: group: 'a group' is no name"),
        ("change = 1\n", "write [[change]], with double brackets"),
    ],
)
def test_what_is_wrong_with_a_change_is_told_in_one_line(change: str, complaint: str) -> None:
    text = change + DOCUMENT if change.startswith("change") else DOCUMENT + change
    with pytest.raises(UsageError) as error:
        scenario(text)
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_a_protocol_that_is_not_dynamic_has_no_changes() -> None:
    with pytest.raises(UsageError, match="sequencer has the same groups and sites all the time"):
        scenario(DOCUMENT.replace('"desk"', '"sequencer"') + JOIN)


KIOSK = DOCUMENT.replace('"desk"', '"kiosk"').replace('["a", "d"]', '["a"]')
CHOICE = '[[change]]\nkind = "service"\nat = 3.0\nsites = ["b"]\ngroup = "g"\nservice = "in-order"\n'


def test_where_groups_stay_as_they_are_services_can_be_chosen_all_the_same() -> None:
    run = executed(KIOSK + CHOICE + 'sources = ["a"]\n')
    served = [(row["time"] > 3.0, row["service"]) for row in rows(run, "deliver", site="b")]
    assert set(served) == {(False, "as-it-comes"), (True, "in-order")}
    (chosen,) = [row for row in rows(run, "activate", site="b") if row["service"] == "in-order"]
    assert (chosen["groups"], chosen["source"]) == (["g"], "a")
    assert run.change_counts == {"service": 1}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (CHOICE.replace('service = "in-order"', 'service = "in-oder"'), "kiosk has no service 'in-oder'; did you mean"),
        (CHOICE.replace('["b"]', '["b", "c"]'), "'c' is not in g; its members are a, b"),
        (CHOICE + 'sources = ["z"]\n', "there is no site 'z'"),
        (JOIN, "kiosk knows no change of kind 'join'; known: service"),
    ],
)
def test_what_cannot_be_chosen_is_told_in_one_line(change: str, complaint: str) -> None:
    with pytest.raises(UsageError) as error:
        scenario(KIOSK.replace("settle", 'sites = ["c", "d"]\nsettle') + change)
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_whoever_succeeds_a_crashed_site_asks_for_the_service_that_was_chosen_there() -> None:
    chosen = CHOICE.replace("in-order", "fast") + CHOICE.replace("3.0", "3.5").replace("in-order", "slow")
    crash = '[[fault]]\nkind = "crash"\nfrom = 4.0\nto = 4.5\nsites = ["b"]\n'
    run = executed(KIOSK.replace('"kiosk"', '"choosy"') + chosen + crash)
    assert asked == [("b#1", "slow")]
    assert not run.refused_requests


def test_groups_may_be_left_out_only_where_somebody_joins_one() -> None:
    with pytest.raises(UsageError, match="the key 'groups' is missing"):
        scenario('protocol = "desk"')
    with pytest.raises(UsageError, match=r"\[groups\]: is empty"):
        scenario('protocol = "desk"\n' + LEAVE)
