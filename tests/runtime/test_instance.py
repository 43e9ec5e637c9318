"""The interpreter keeps the promise of the log: an append is stable before any later effect leaves the site."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from ordercast.core import Context, Contract, Multicast, Packet, Protocol, Record, UsageError
from ordercast.core.effects import (
    Blocked,
    Checkpoint,
    Credit,
    Deliver,
    InstallView,
    Replay,
)
from ordercast.core.events import Arrival, Consumed, MulticastRequested, Recovered, Started
from ordercast.sim import Simulation, Workload
from ordercast.sim.faults import Crash, SlowReader, TornLog
from ordercast.sim.networks import PointToPoint


class Note(Record, frozen=True):
    multicast: Multicast


class Carry(Packet, frozen=True):
    multicast: Multicast


class LogAndSend(Protocol):
    """Logs each multicast, then sends it; delivers on receipt; after a crash it sends again what the log holds."""

    contract = Contract("log-and-send", "", "", (), (), "", ())
    packets = (Carry,)
    records = (Note,)

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        self.append(Note(event.multicast))
        self.send(self.context.members(event.multicast.groups), Carry(event.multicast))

    def on_carry(self, sender: str, packet: Carry, arrival: Arrival) -> None:
        self.outbox.append(Deliver(packet.multicast))

    def on_recovered(self, event: Recovered) -> None:
        for record in event.records:
            assert isinstance(record, Note)
            self.outbox.append(Replay(record.multicast))
        self.declare_recovered()


def simulate(protocol: type[Protocol], **changes: object) -> Simulation:
    given: dict[str, object] = {
        "workloads": [Workload(sources=("a",), groups=("g",), rate=10.0, arrivals="regular", count=3)],
        "duration": 2.0,
        "settle": 2.0,
    }
    return Simulation(protocol, {"g": ["a", "b"]}, PointToPoint(0.0, 0.01), **(given | changes))  # type: ignore[arg-type]


def rows(simulation: Simulation, *kinds: str, site: str | None = None) -> list[dict]:
    table: pa.Table = simulation.table()
    found = table.to_pylist()
    return [row for row in found if (not kinds or row["kind"] in kinds) and (site is None or row["site"] == site)]


def times(found: list[dict]) -> list[float]:
    return [round(row["time"], 6) for row in found]


def test_a_send_waits_until_the_record_before_it_is_stable() -> None:
    run = simulate(LogAndSend, sync_seconds=0.004).execute()
    assert times(rows(run, "send", site="a"))[::2] == [0.104, 0.204, 0.304]


def test_a_multicast_counts_from_the_moment_that_its_record_is_stable_and_comes_before_its_sends() -> None:
    run = simulate(LogAndSend, sync_seconds=0.004).execute()
    assert [row["kind"] for row in rows(run, "multicast", "send", site="a")][:3] == ["multicast", "send", "send"]
    assert times(rows(run, "multicast")) == [0.104, 0.204, 0.304]


def test_a_crash_before_the_sync_means_that_the_message_was_never_multicast() -> None:
    run = simulate(LogAndSend, sync_seconds=0.004, faults=[Crash(from_=0.102, to=0.15, sites=("a",))]).execute()
    assert times(rows(run, "multicast")) == [0.204, 0.304]
    assert not any(row["messages"] == ["a:0:1"] for row in rows(run, "send"))


def test_a_record_that_survives_a_torn_crash_makes_the_message_one_that_was_multicast_and_delivered() -> None:
    """The append survived, the step that was about to send did not: the next incarnation's replay is its first
    delivery."""
    outcomes = set()
    for seed in range(30):
        run = simulate(
            LogAndSend, sync_seconds=0.004, seed=seed, faults=[TornLog(from_=0.102, to=0.15, sites=("a",))]
        ).execute()
        multicast = {row["message"] for row in rows(run, "multicast")}
        delivered = {row["message"] for row in rows(run, "deliver", site="a")}
        assert delivered <= multicast
        outcomes.add("a:0:1" in multicast)
    assert outcomes == {True, False}


def test_what_the_application_has_seen_before_a_crash_is_replayed_and_not_delivered_again() -> None:
    run = simulate(LogAndSend, faults=[Crash(from_=1.0, to=1.5, sites=("a",))]).execute()
    assert [row["message"] for row in rows(run, "deliver", site="a")] == ["a:0:1", "a:0:2", "a:0:3"]
    assert [row["message"] for row in rows(run, "replay", site="a")] == ["a:0:1", "a:0:2", "a:0:3"]
    assert [row["kind"] for row in rows(run, "fail", "awake", "recover")] == ["fail", "awake", "recover"]


class Checkpointing(LogAndSend):
    """Delivers at once, and takes a checkpoint in the same step."""

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        self.append(Note(event.multicast))
        self.outbox.append(Deliver(event.multicast))
        self.outbox.append(Checkpoint(Note(event.multicast)))


def test_a_checkpoint_is_not_taken_before_the_delivery_that_it_includes() -> None:
    """Had it been written at once, the message would be in the history and not at the application."""
    run = simulate(Checkpointing, sync_seconds=0.004)
    log = run.sites["a"].disk.logs
    seen: list[bool] = []
    for time in (0.102, 0.106):
        run.queue.schedule(time, lambda: seen.append(log["main"].recover().checkpoint is not None))
    run.execute()
    assert times(rows(run, "deliver"))[0] == 0.104
    assert seen == [False, True]


class TooLate(Checkpointing):
    """Its deliveries never leave in time."""

    guards_deliveries = True

    def may_deliver(self, effect: Deliver | Replay, now: float) -> bool:
        return False


def test_a_checkpoint_is_not_taken_while_deliveries_wait() -> None:
    """It may be without them, and after a crash nothing would say that the application has not had them."""
    run = simulate(TooLate, sync_seconds=0.004).execute()
    kept = run.sites["a"].disk.logs["main"].recover()
    assert kept.checkpoint is None
    assert len(kept.records) == 3


class Everything(Protocol):
    """Uses the effects that the first protocols do not use."""

    contract = Contract("everything", "", "", (), (), "", (), explicit_destinations=True)
    packets = (Carry,)
    records = (Note,)
    wants_consumed = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.consumed = 0

    def on_started(self, event: Started) -> None:
        self.outbox.append(InstallView("v1", ("a", "b"), ("a",), ("g",)))
        self.outbox.append(Credit(2))
        self.outbox.append(Blocked("b", "waiting for b"))

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        self.append(Note(event.multicast))
        self.outbox.append(Deliver(event.multicast, (7, 1), "b", "v1", "fast"))
        self.outbox.append(Deliver(event.multicast))

    def on_carry(self, sender: str, packet: Carry, arrival: Arrival) -> None:
        """Not used."""

    def on_consumed(self, event: Consumed) -> None:
        self.consumed += event.count


def test_every_effect_leaves_its_row_in_the_trace() -> None:
    run = simulate(Everything)
    run.execute()
    found = rows(run, site="a")
    assert found[0]["kind"] == "view"
    view = found[0]
    assert (view["view"], view["members"], view["transitional"], view["groups"]) == ("v1", ["a", "b"], ["a"], ["g"])
    first, second = rows(run, "deliver", site="a")[:2]
    assert (first["order_key"], first["parent"], first["view"], first["service"]) == ([7, 1], "b", "v1", "fast")
    assert (first["delivery"], second["delivery"]) == (1, 2)
    assert run.sites["a"].blocked_reasons == ["waiting for b"]
    assert [row["seq"] for row in found] == list(range(len(found)))


def test_without_credit_the_application_waits() -> None:
    run = simulate(Everything).execute()
    assert len(rows(run, "multicast")) == 2


def test_the_core_learns_what_the_application_has_taken_and_a_slow_reader_takes_its_time() -> None:
    quick = simulate(Everything, tracing=False).execute()
    assert quick.sites["a"].instances["main"].core.consumed == 4  # type: ignore[attr-defined]
    slow = simulate(Everything, settle=0.0, duration=0.35, faults=[SlowReader(from_=0.0, sites=("a",), seconds=0.1)])
    slow.execute()
    assert slow.sites["a"].instances["main"].core.consumed == 2  # type: ignore[attr-defined]


def test_a_multicast_depends_on_what_was_delivered_since_the_one_before() -> None:
    workload = Workload(sources=("a", "b"), groups=("g",), rate=5.0, arrivals="regular", count=2)
    run = simulate(LogAndSend, workloads=[workload]).execute()
    by_message = {row["message"]: row["depends"] for row in rows(run, "multicast")}
    assert by_message["a:0:1"] == []
    assert sorted(by_message["a:0:2"]) == ["a:0:1", "b:0:1"]


@pytest.mark.parametrize(
    "request_it",
    [
        lambda instance: instance.request(0.0, b"", ("nowhere",)),
        lambda instance: instance.request(0.0, b"", ()),
        lambda instance: instance.request(0.0, b"", (), ("a",)),
    ],
)
def test_an_address_that_makes_no_sense_is_refused_to_the_caller(request_it: Callable[[object], object]) -> None:
    run = simulate(LogAndSend).execute()
    with pytest.raises(UsageError):
        request_it(run.sites["a"].instances["main"])
