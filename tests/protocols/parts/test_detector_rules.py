"""The rules of the failure detector one by one, at one site that is driven by hand."""

from __future__ import annotations

from typing import Any

from ordercast.core import Packet
from ordercast.core.events import Arrival
from ordercast.protocols.parts.detector import FailureDetector, Ping, Pong
from tests.protocols.parts.desk import Desk

HERE = Arrival()


class Back(Packet, frozen=True):
    """Somebody is back after a crash."""


class Office(Desk):
    """Site a, which suspects whoever was silent for more than three intervals, and is never more patient than 12."""

    def __init__(self, calm_ticks: int = 0, most: float = 1.2) -> None:
        super().__init__("a")
        host: Any = self
        self.told: list[tuple[str, str]] = []
        self.detector = FailureDetector(
            host,
            ping_seconds=0.1,
            suspicion_seconds=0.3,
            suspicion_seconds_max=most,
            on_suspected=lambda site: self.told.append(("suspected", site)),
            on_trusted=lambda site: self.told.append(("trusted", site)),
            is_return=lambda packet: isinstance(packet, Back),
            calm_ticks=calm_ticks,
        )

    def tick(self, times: int = 1) -> list[Any]:
        self.take()
        for _ in range(times):
            self.detector.on_detector_timeout()
        return self.take()


# ---------------------------------------------------------------------- watching
def test_the_timer_runs_while_anybody_is_watched_and_is_set_once() -> None:
    office = Office()
    office.detector.watch("b")
    office.detector.watch("c")
    office.detector.watch("b")
    assert office.take() == [("detector", 0.1)]
    assert office.tick() == [("detector", 0.1), (("b", "c"), Ping())]
    office.detector.watch("d")
    assert office.take() == []
    office.detector.unwatch("d")
    office.detector.unwatch("b")
    office.detector.unwatch("c")
    assert office.tick() == [("detector", 0.1), (("b",), Ping())]
    office.detector.unwatch("b")
    assert office.tick() == []
    office.detector.watch("c")
    assert office.take() == [("detector", 0.1)]


def test_who_is_watched_by_two_is_watched_until_both_have_enough_and_its_silence_is_counted_through() -> None:
    office = Office()
    office.detector.watch("b")
    office.tick(2)
    office.detector.watch("b")
    office.detector.unwatch("b")
    office.tick(2)
    assert office.told == [("suspected", "b")]


def test_who_is_watched_anew_has_its_whole_time() -> None:
    office = Office()
    office.detector.watch("b")
    office.tick(3)
    office.detector.unwatch("b")
    office.detector.watch("b")
    office.tick(3)
    assert office.told == []
    office.tick()
    assert office.told == [("suspected", "b")]


def test_whoever_is_asked_answers() -> None:
    office = Office()
    office.detector.on_ping("c", Ping(), HERE)
    assert office.take() == [(("c",), Pong())]
    office.detector.on_pong("c", Pong(), HERE)
    assert office.take() == []


# ---------------------------------------------------------------------- suspicion
def test_who_is_silent_for_longer_than_patience_is_suspected_and_mentioned_again_as_long_as_it_lasts() -> None:
    office = Office()
    office.detector.watch("b")
    office.tick(3)
    assert (office.told, office.detector.suspected) == ([], set())
    office.tick()
    assert (office.told, office.detector.suspected) == ([("suspected", "b")], {"b"})
    office.tick(3)
    assert len(office.told) == 1
    office.tick()
    assert office.told == [("suspected", "b")] * 2
    assert office.branches["suspected"] == 1


def test_who_is_heard_is_not_silent_and_who_is_not_watched_is_nothing() -> None:
    office = Office()
    office.detector.watch("b")
    for _ in range(9):
        assert office.tick(3)[-1] == (("b",), Ping())
        office.detector.on_heard("b", Pong())
        office.detector.on_heard("c", Pong())
    assert (office.told, office.detector.patience) == ([], {})


def test_each_wrong_suspicion_doubles_the_patience_up_to_the_bound() -> None:
    office = Office()
    office.detector.watch("b")
    for patience in (6, 12, 12):
        while "b" not in office.detector.suspected:
            office.tick()
        office.detector.on_heard("b", Pong())
        assert office.detector.suspected == set()
        assert office.told[-1] == ("trusted", "b")
        assert office.detector.patience == {"b": patience}
    assert office.branches["wrongly-suspected"] == 3


def test_the_bound_is_never_below_the_first_patience() -> None:
    office = Office(most=0.1)
    office.detector.trust("b")
    assert office.detector.patience == {"b": 3}


# ---------------------------------------------------------------------- returns
def test_who_comes_back_after_a_crash_was_suspected_rightly() -> None:
    office = Office()
    office.detector.trust("b")
    office.detector.suspect("b")
    office.detector.on_heard("b", Back())
    assert (office.detector.suspected, office.detector.patience) == (set(), {})
    assert office.told[-1] == ("trusted", "b")


def test_that_somebody_is_back_undoes_the_patience_that_an_overtaking_packet_has_brought() -> None:
    office = Office()
    office.detector.trust("b")
    office.detector.on_heard("b", Pong())
    assert office.detector.patience == {"b": 6}
    office.detector.on_heard("b", Back())
    assert office.detector.patience == {}
    before = list(office.told)
    office.detector.on_heard("b", Back())
    assert office.told == before


# ---------------------------------------------------------------------- patience that goes
def patient(calm_ticks: int) -> Office:
    """Twelve intervals with b."""
    office = Office(calm_ticks)
    office.detector.watch("b")
    office.detector.trust("b")
    office.detector.trust("b")
    return office


def test_after_so_many_intervals_without_a_long_silence_patience_is_halved_until_it_is_the_first_one() -> None:
    office = patient(4)
    for patience in (12, 12, 12, 6, 6, 6, 6, None, None):
        office.tick()
        assert office.detector.patience.get("b") == patience
        office.detector.on_heard("b", Pong())


def test_a_silence_of_more_than_a_quarter_of_the_patience_begins_the_count_anew() -> None:
    office = patient(5)
    office.tick(4)  # silent for 0 to 3 of 12 when looked at: the last one is not more than a quarter
    office.detector.on_heard("b", Pong())
    office.tick()
    assert office.detector.patience == {"b": 6}
    office = patient(5)
    office.tick(5)  # and then for 4
    office.detector.on_heard("b", Pong())
    office.tick(4)
    office.detector.on_heard("b", Pong())
    assert office.detector.patience == {"b": 12}
    office.tick()
    assert office.detector.patience == {"b": 6}


def test_patience_stays_where_nobody_wants_it_to_go() -> None:
    office = patient(0)
    host: Any = office
    usual = FailureDetector(
        host, ping_seconds=0.1, suspicion_seconds=0.3, suspicion_seconds_max=1.2, on_suspected=lambda site: None
    )
    usual.watch("b")
    usual.trust("b")
    for _ in range(50):
        usual.on_detector_timeout()
        usual.on_heard("b", Pong())
    assert usual.patience == {"b": 6}
    for _ in range(50):
        office.tick()
        office.detector.on_heard("b", Pong())
    assert office.detector.patience == {"b": 12}
