"""What an application asks of a dynamic core, and what the core answers, reaches the other and the trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from ordercast.core import Context, Contract, Options, Protocol, UsageError
from ordercast.core.effects import (
    Activate,
    Blocked,
    DeclareFailed,
    EnterGroup,
    ExitGroup,
    InstallView,
    JoinRefused,
    ServiceUnavailable,
)
from ordercast.core.events import (
    Discovered,
    JoinRequested,
    LeaveRequested,
    MulticastRequested,
    RoleChosen,
    ServiceChosen,
)
from ordercast.runtime import Instance
from ordercast.sim import Simulation
from ordercast.sim.fault import Fault
from ordercast.sim.faults import Loss, Skew
from ordercast.sim.networks import PointToPoint
from tests.runtime.test_instance import LogAndSend, rows


def adapted(contract: Contract, options: Options) -> Contract:
    return contract.without("termination")


class Alone(Protocol):
    """Everyone is in groups of their own."""

    contract = Contract(
        "alone",
        "",
        "",
        ("integrity", "termination"),
        (),
        "",
        (),
        dynamic=True,
        services={"slow": ("integrity",)},
        adapted=adapted,
    )

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.joined: list[str] = []

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        return dict.fromkeys(self.joined, (self.site,))

    def on_join_requested(self, event: JoinRequested) -> None:
        if event.group in self.joined:
            raise UsageError(f"{self.site} is in {event.group}")
        if event.group == "full":
            self.outbox.append(JoinRefused(event.group, "it is full"))
            return
        self.joined.append(event.group)
        self.outbox += [EnterGroup(event.group, 0), InstallView("v1", (self.site,), (), (event.group,))]

    def on_leave_requested(self, event: LeaveRequested) -> None:
        self.joined.remove(event.group)
        self.outbox.append(ExitGroup(event.group))

    def on_role_chosen(self, event: RoleChosen) -> None:
        if event.role == "sender":
            self.block("role", f"{event.role} has to wait", event.group)
        if event.role.startswith("failed"):
            self.outbox.append(DeclareFailed(self.now - 1.0))
        if event.role.endswith("recovered"):
            self.declare_recovered()

    def on_service_chosen(self, event: ServiceChosen) -> None:
        if event.service == "slow":
            self.outbox.append(Activate(event.group, event.service, next(iter(event.sources), None)))
        else:
            self.outbox.append(ServiceUnavailable(event.group, event.service, None, "there is none"))

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        self.deliver(event.multicast)


def simulate(*asked: Callable[[float, Instance], None], protocol: type[Protocol] = Alone) -> Simulation:
    """Site a is asked each, one second after the other."""
    simulation = Simulation(protocol, {"g": ["b"]}, PointToPoint(), sites=["a"], duration=9.0, settle=1.0)
    site = simulation.sites["a"]
    for second, ask in enumerate(asked, 1):
        simulation.queue.schedule(
            float(second),
            lambda ask: site.processor.do(lambda now, ask: ask(now, site.instances["main"]), ask),
            ask,
        )
    return simulation.execute()


def at_a(simulation: Simulation) -> list[tuple[str, float]]:
    return [(row["kind"], row["time"]) for row in rows(simulation, site="a")]


def test_a_join_and_a_leave_leave_their_rows_in_the_trace() -> None:
    run = simulate(
        lambda now, core: core.join(now, "g"),
        lambda now, core: core.leave(now, "g"),
        lambda now, core: core.join(now, "g"),
    )
    assert at_a(run) == [("join", 1.0), ("view", 1.0), ("leave", 2.0), ("join", 3.0), ("view", 3.0)]
    assert rows(run, "join", site="a")[0]["groups"] == ["g"]


def test_what_is_wrong_with_a_request_is_its_callers_and_the_instance_goes_on() -> None:
    refused: list[str] = []

    def join_again(now: float, core: Instance) -> None:
        with pytest.raises(UsageError, match="a is in g") as error:
            core.join(now, "g")
        refused.append(str(error.value))

    run = simulate(lambda now, core: core.join(now, "g"), join_again, lambda now, core: core.leave(now, "g"))
    assert refused == ["a is in g"]
    assert [kind for kind, _ in at_a(run)] == ["join", "view", "leave"]


def test_a_refused_join_and_a_service_that_cannot_be_had_are_told() -> None:
    run = simulate(
        lambda now, core: core.join(now, "full"),
        lambda now, core: core.choose_service(now, "g", "fast"),
        lambda now, core: core.choose_role(now, "g", "sender"),
    )
    assert run.sites["a"].blocked_reasons == [
        "full cannot be joined: it is full",
        "fast cannot be had in g: there is none",
        "g: sender has to wait",
    ]


def test_an_activation_has_its_row_and_the_services_stand_in_the_runs_description() -> None:
    run = simulate(lambda now, core: core.choose_service(now, "g", "slow", ("b",)))
    (row,) = rows(run, "activate")
    assert (row["site"], row["groups"], row["service"], row["source"]) == ("a", ["g"], "slow", "b")
    assert run.header().services == {"slow": ["integrity"]}


def test_what_is_claimed_depends_on_the_options() -> None:
    assert simulate().header().guarantees == ["integrity"]
    assert Alone.contract.guarantees == ("integrity", "termination")


def test_whoever_declares_itself_failed_counts_as_failed_since_then_and_runs() -> None:
    run = simulate(
        lambda now, core: core.choose_role(now, "g", "failed"),
        lambda now, core: core.join(now, "g"),
        lambda now, core: core.choose_role(now, "g", "failed-and-recovered"),
    )
    assert at_a(run) == [
        ("fail", 0.0),
        ("awake", 1.0),
        ("join", 2.0),
        ("view", 2.0),
        ("fail", 2.0),
        ("awake", 3.0),
        ("recover", 3.0),
    ]


def test_the_core_says_which_groups_there_are() -> None:
    def multicast(now: float, core: Instance) -> None:
        core.request(now, b"", ("h",))

    def multicast_in_vain(now: float, core: Instance) -> None:
        with pytest.raises(UsageError, match="there is no group 'h'"):
            core.request(now, b"", ("h",))

    run = simulate(
        multicast_in_vain,
        lambda now, core: core.join(now, "h"),
        multicast,
        lambda now, core: core.leave(now, "h"),
        multicast_in_vain,
    )
    assert len(rows(run, "deliver")) == 1


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda now, core: core.join(now, "g"), "'g' cannot be joined"),
        (lambda now, core: core.leave(now, "g"), "'g' cannot be left"),
        (lambda now, core: core.choose_role(now, "g", "sender"), "'sender' cannot be chosen"),
        (lambda now, core: core.choose_service(now, "g", "fast"), "'fast' cannot be chosen"),
    ],
)
def test_a_static_core_refuses_every_change_and_goes_on(ask: Callable[[float, Instance], None], why: str) -> None:
    def ask_in_vain(now: float, core: Instance) -> None:
        with pytest.raises(UsageError, match=why):
            ask(now, core)

    run = simulate(ask_in_vain, lambda now, core: core.handle(now, Discovered((), True)), protocol=LogAndSend)
    core = run.sites["a"].instances["main"].core
    assert (core.groups, core.sites) == ({"g": ("b",)}, ("a", "b"))


def test_reasons_of_two_groups_stand_beside_each_other() -> None:
    core = simulate().sites["a"].instances["main"].core
    core.block("source", "waiting", "g")
    core.block("source", "waiting", "h")
    core.block("source", "", "g")
    assert core.outbox == [
        Blocked("source", "waiting", "g"),
        Blocked("source", "waiting", "h"),
        Blocked("source", "", "g"),
    ]
    assert (core.obstacle("source", "g"), core.obstacle("source", "h"), core.obstacle("source")) == ("", "waiting", "")


def test_times_are_promised_only_under_the_faults_for_which_they_hold() -> None:
    bounded = replace(
        Alone.contract, promised=lambda bounds, options: {"P2": 1.0}, promised_under=("loss",), faults=("loss", "skew")
    )
    protocol = type("Bounded", (Alone,), {"contract": bounded})

    def bounds(*faults: Fault) -> dict[str, Any]:
        return Simulation(protocol, {"g": ["a"]}, PointToPoint(), faults=faults, duration=1.0).execute().header().bounds

    assert bounds(Loss(from_=0.0, rate=0.1))["promised"] == {"P2": 1.0}
    assert "promised" not in bounds(Loss(from_=0.0, rate=0.1), Skew(from_=0.0, sites=("a",)))
