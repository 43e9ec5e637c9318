"""What a simulated site is made of, each piece alone: clock, processor, disk, timers, credit queue, reader."""

from __future__ import annotations

from random import Random

import pytest

from ordercast.core import Record
from ordercast.core.events import Consumed, Event
from ordercast.runtime import Instance
from ordercast.sim.kernel import EventQueue
from ordercast.sim.site.clock import SiteClock
from ordercast.sim.site.credit import CreditQueue, Request
from ordercast.sim.site.disk import Disk
from ordercast.sim.site.processor import Processor
from ordercast.sim.site.reader import Reader
from ordercast.sim.site.timers import Timers


class Machine:
    """An event queue, a clock and a processor, and what their steps have noted down."""

    def __init__(self) -> None:
        self.queue = EventQueue()
        self.clock = SiteClock(self.queue)
        self.caught_up: list[float] = []
        self.processor = Processor(self.queue, self.clock, self.caught_up.append)
        self.seen: list[tuple[float, object]] = []
        """When, by the simulated time along the processor, and what."""

    def note(self, now: float, what: object) -> None:
        """A step that takes no time."""
        self.seen.append((self.processor.cursor, what))

    def work(self, now: float, seconds: float) -> None:
        """A step that takes its time."""
        self.seen.append((self.processor.cursor, seconds))
        self.processor.cursor += seconds


class StubInstance(Instance):
    """Only hears: the reader and the disk need no more of an instance."""

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.alive = True
        self.heard: list[tuple[float, object]] = []

    def handle(self, now: float, event: Event) -> None:
        assert isinstance(event, Consumed)
        self.heard.append((now, event.count))

    def on_synced(self, position: int) -> None:
        self.heard.append((0.0, position))


# ---------------------------------------------------------------------- the clock
def test_a_clock_shows_the_simulated_time_until_it_is_changed() -> None:
    clock = SiteClock(EventQueue())
    assert (clock.read(0.1 + 0.2), clock.untouched) == (0.1 + 0.2, True)


def test_a_clock_jumps_and_runs_at_its_rate_from_the_moment_of_the_change() -> None:
    queue = EventQueue()
    clock = SiteClock(queue)
    queue.run(10.0)
    clock.change(1.5, 100.0)
    assert clock.read(10.0) == 110.0
    assert clock.read(12.0) == 113.0
    queue.run(12.0)
    clock.change(1.0, 0.0)
    assert clock.read(20.0) == pytest.approx(121.0), "what it is ahead it stays ahead"


def test_a_clock_that_jumps_back_to_nought_stays_behind() -> None:
    queue = EventQueue()
    clock = SiteClock(queue)
    queue.run(5.0)
    clock.change(1.0, -5.0)
    assert clock.read(7.0) == 2.0


# ---------------------------------------------------------------------- the processor
def test_a_step_that_finds_the_site_idle_runs_at_once_with_the_time_of_its_clock() -> None:
    machine = Machine()
    machine.clock.change(1.0, 100.0)
    machine.queue.run(1.0)
    times: list[float] = []
    machine.processor.do(lambda now, _: times.append(now), None)
    assert (times, machine.processor.steps) == ([101.0], 1)


def test_steps_wait_for_the_one_before_and_keep_their_order() -> None:
    machine = Machine()
    for seconds in (2.0, 1.0, 0.5):
        machine.processor.do(machine.work, seconds)
    machine.queue.run(10.0)
    assert machine.seen == [(0.0, 2.0), (2.0, 1.0), (3.0, 0.5)]
    assert machine.processor.cursor == 3.5


def test_waiting_counts_as_slowness_when_the_processor_cannot_keep_up() -> None:
    machine = Machine()
    machine.processor.run(machine.work, 2.0)
    machine.processor.run(machine.work, 1.0)
    assert machine.processor.slowest_seconds == 3.0
    machine.processor.do(machine.work, 0.5)
    machine.queue.run(10.0)
    assert machine.processor.slowest_seconds == 3.5


def test_waiting_for_the_end_of_a_pause_is_no_slowness_of_the_processor() -> None:
    machine = Machine()
    machine.processor.pause()
    machine.processor.do(machine.work, 1.0)
    machine.queue.run(10.0)
    machine.processor.resume()
    machine.queue.run(20.0)
    assert machine.processor.slowest_seconds == 1.0


def test_a_paused_processor_takes_no_step_and_says_when_it_has_caught_up() -> None:
    machine = Machine()
    machine.processor.pause()
    for seconds in (1.0, 2.0):
        machine.processor.do(machine.work, seconds)
    machine.queue.run(5.0)
    assert machine.seen == []
    machine.processor.resume()
    machine.processor.do(machine.work, 4.0)
    machine.queue.run(20.0)
    assert machine.seen == [(5.0, 1.0), (6.0, 2.0), (8.0, 4.0)]
    assert machine.caught_up == [8.0], "what came after the pause is not counted"


def test_a_pause_in_which_nothing_came_is_caught_up_with_at_once() -> None:
    machine = Machine()
    machine.processor.pause()
    machine.queue.run(3.0)
    machine.processor.resume()
    assert machine.caught_up == [3.0]


def test_a_second_pause_before_the_backlog_is_done_begins_a_new_count() -> None:
    machine = Machine()
    machine.processor.pause()
    for seconds in (2.0, 2.0):
        machine.processor.do(machine.work, seconds)
    machine.processor.resume()
    machine.queue.run(1.0)
    machine.processor.pause()
    machine.queue.run(10.0)
    assert machine.caught_up == []
    machine.processor.resume()
    machine.queue.run(20.0)
    assert machine.caught_up == [12.0]


def test_a_halted_processor_forgets_what_waited_and_can_be_started_again() -> None:
    machine = Machine()
    machine.processor.do(machine.work, 5.0)
    for what in (1.0, "packet", "other packet"):
        machine.processor.do(machine.note, what)
    assert machine.processor.waiting(str) == ["packet", "other packet"]
    machine.processor.halt()
    machine.queue.run(2.0)
    assert machine.processor.waiting(str) == []
    machine.processor.restart()
    machine.processor.do(machine.note, "again")
    assert machine.seen == [(0.0, 5.0), (2.0, "again")]


# ---------------------------------------------------------------------- the disk
class Note(Record, frozen=True):
    number: int


def disk_of(machine: Machine, sync_seconds: float) -> Disk:
    return Disk(machine.queue, machine.processor, sync_seconds, Random(1))


def test_a_disk_without_sync_time_loses_nothing_and_one_with_it_loses_what_was_not_synced() -> None:
    for sync_seconds, kept in ((0.0, 3), (0.1, 1)):
        disk = disk_of(Machine(), sync_seconds)
        log = disk.log("main")
        for number in range(3):
            log.append(Note(number))
        log.sync(1)
        disk.crash("main", torn=False)
        assert disk.log("main") is log, "the log outlives the crash"
        assert len(log.recover().records) == kept


def test_a_torn_crash_of_the_disk_keeps_what_was_synced_and_perhaps_more() -> None:
    kept = set()
    for seed in range(30):
        machine = Machine()
        disk = Disk(machine.queue, machine.processor, 0.1, Random(seed))
        log = disk.log("main")
        for number in range(3):
            log.append(Note(number))
        log.sync(1)
        disk.crash("main", torn=True)
        kept.add(len(log.recover().records))
    assert kept == {1, 2, 3}


def test_a_sync_takes_its_time_and_the_processor_and_is_lost_with_its_instance() -> None:
    machine = Machine()
    disk = disk_of(machine, 0.5)
    alive, dead = StubInstance(), StubInstance()
    disk.start_sync(alive, 7)
    disk.start_sync(dead, 8)
    dead.alive = False
    machine.queue.run(0.4)
    assert alive.heard == []
    machine.queue.run(0.5)
    assert (alive.heard, dead.heard) == ([(0.0, 7)], [])
    assert machine.processor.steps == 1


# ---------------------------------------------------------------------- timers
def timers_of(machine: Machine) -> Timers:
    return Timers(machine.queue, machine.clock, machine.processor, lambda now, *which: machine.note(now, which))


def test_a_timer_fires_once_after_so_many_seconds_of_the_sites_clock() -> None:
    machine = Machine()
    machine.clock.change(2.0, 0.0)
    timers_of(machine).set("main", "alarm", 3.0)
    machine.queue.run(10.0)
    assert machine.seen == [(1.5, ("main", "alarm"))]


def test_a_timer_that_is_set_again_fires_at_the_last_deadline_only() -> None:
    for second in (1.0, 5.0):
        machine = Machine()
        timers = timers_of(machine)
        timers.set("main", "alarm", 3.0)
        timers.set("main", "alarm", second)
        machine.queue.run(10.0)
        assert machine.seen == [(second, ("main", "alarm"))]


def test_a_timer_that_is_pushed_back_again_and_again_keeps_one_place_in_the_event_queue() -> None:
    machine = Machine()
    timers = timers_of(machine)
    for _ in range(100):
        timers.set("main", "alarm", 3.0)
        machine.processor.cursor += 1 / 64
    machine.queue.run(10.0)
    assert machine.seen == [(3.0 + 99 / 64, ("main", "alarm"))]
    assert machine.queue.handled == 2


def test_a_timer_that_is_cancelled_or_pushed_back_while_it_waits_for_the_processor_does_not_fire_then() -> None:
    machine = Machine()
    timers = timers_of(machine)
    for name in ("cancelled", "pushed back"):
        timers.set("main", name, 1.0)
    machine.queue.run(0.5)
    machine.processor.do(machine.work, 2.0)
    machine.queue.run(1.5)
    timers.cancel("main", "cancelled")
    timers.set("main", "pushed back", 1.0)
    machine.queue.run(10.0)
    assert machine.seen == [(0.5, 2.0), (3.5, ("main", "pushed back"))]


def test_the_timers_of_a_crashed_instance_are_forgotten_and_those_of_others_are_not() -> None:
    machine = Machine()
    timers = timers_of(machine)
    timers.set("main", "alarm", 1.0)
    timers.set("control", "alarm", 1.0)
    timers.forget("main")
    machine.queue.run(2.0)
    assert machine.seen == [(1.0, ("control", "alarm"))]


# ---------------------------------------------------------------------- the application: what it sends
def request(text: bytes) -> Request:
    return Request(text, ("g",), None)


def test_an_instance_that_never_gave_credit_takes_everything_in_order() -> None:
    queue = CreditQueue()
    assert queue.take() is None
    for text in (b"1", b"2"):
        queue.put(request(text))
    assert [queue.take(), queue.take(), queue.take()] == [request(b"1"), request(b"2"), None]


def test_each_message_costs_one_credit_and_without_credit_it_waits() -> None:
    queue = CreditQueue()
    for text in (b"1", b"2", b"3"):
        queue.put(request(text))
    assert queue.give(2) == 2
    assert [queue.take(), queue.take(), queue.take()] == [request(b"1"), request(b"2"), None]
    assert (len(queue), queue.least()) == (1, 0)
    assert queue.give(5) == 1, "so many go on as wait"
    assert queue.take() == request(b"3")


def test_credit_for_single_groups_lets_messages_past_those_that_wait_for_other_groups() -> None:
    queue = CreditQueue()
    to_f, to_g, to_both = (Request(b"", groups, None) for groups in (("f",), ("g",), ("f", "g")))
    for each in (to_f, to_both, to_g):
        queue.put(each)
    assert queue.give(0, "f") == 0
    assert queue.give(1, "g") == 1, "of the two messages to g, one"
    assert [queue.take(), queue.take()] == [to_g, None]
    assert queue.give(2, "f") == 2
    assert [queue.take(), queue.take()] == [to_f, None], "the message to both still waits for g"
    queue.give(1, "g")
    queue.give(0)
    assert queue.take() is None, "nor does it go when all groups together have none"
    queue.give(1)
    assert queue.take() == to_both
    queue.give_back(to_both)
    queue.put(to_both)
    assert queue.take() == to_both, "what was given back is for the next message"
    assert (len(queue), queue.least()) == (0, 0)


# ---------------------------------------------------------------------- the application: what it reads
def test_a_quick_reader_takes_all_that_there_is_at_once() -> None:
    machine = Machine()
    reader, instance = Reader(machine.queue, machine.processor), StubInstance()
    for _ in range(3):
        reader.deliver(instance)
    machine.queue.run(1.0)
    assert instance.heard == [(0.0, 3)]


def test_a_slow_reader_takes_one_after_the_other() -> None:
    machine = Machine()
    reader, instance = Reader(machine.queue, machine.processor), StubInstance()
    reader.seconds = 0.5
    for _ in range(3):
        reader.deliver(instance)
    machine.queue.run(10.0)
    assert instance.heard == [(0.5, 1), (1.0, 1), (1.5, 1)]


def test_what_a_crashed_instance_delivered_is_not_read() -> None:
    machine = Machine()
    reader, before, after = Reader(machine.queue, machine.processor), StubInstance(), StubInstance()
    reader.deliver(before)
    before.alive = False
    reader.forget("main")
    reader.deliver(after)
    machine.queue.run(1.0)
    assert (before.heard, after.heard) == ([], [(0.0, 1)])
