"""The rules of leases one by one, at one site that is driven by hand: each breach of one gives two holders, or none for
ever, in some run, and most of these runs are too rare for a campaign."""

from __future__ import annotations

from typing import Any

import pytest

from ordercast.core import UsageError
from ordercast.core.events import Arrival
from ordercast.protocols.parts.lease import Lease, LeaseGrant, LeaseRelease, LeaseRequest
from ordercast.protocols.parts.quorum import Quorum
from tests.protocols.parts.desk import Desk

SITES = ("a", "b", "c")
OTHERS = ("b", "c")
HERE = Arrival()


class Office(Desk):
    """Site a, with a lease of one second; clocks drift by a fifth, so 0.8 / 1.2 of it can be used."""

    def __init__(self, incarnation: int = 0, sites: tuple[str, ...] = SITES) -> None:
        super().__init__("a", sites, incarnation)
        host: Any = self
        self.told: list[str] = []
        self.lease = Lease(
            host,
            Quorum([sites]),
            lease_seconds=1.0,
            drift_max=0.2,
            on_acquired=lambda: self.told.append("acquired"),
            on_lost=lambda: self.told.append("lost"),
        )

    def granted_to(self) -> str | None:
        return self.lease.granted_to

    def asked(self, sender: str, attempt: int) -> list[Any]:
        self.take()
        self.lease.on_lease_request(sender, LeaseRequest(attempt), HERE)
        return self.take()

    def granted(self, sender: str, attempt: int) -> None:
        self.lease.on_lease_grant(sender, LeaseGrant(attempt), HERE)

    def released(self, sender: str, attempt: int) -> None:
        self.lease.on_lease_release(sender, LeaseRelease(attempt), HERE)


def holder(at: float = 10.0) -> Office:
    """It has asked at that time, and b has granted at once."""
    office = Office()
    office.now = at
    office.lease.acquire()
    office.granted("b", 1)
    office.take()
    return office


# ---------------------------------------------------------------------- clocks
@pytest.mark.parametrize("drift", [-0.01, 1.0, 1.5])
def test_a_drift_of_less_than_nothing_or_of_everything_is_refused(drift: float) -> None:
    host: Any = Desk()
    with pytest.raises(UsageError):
        Lease(host, Quorum([SITES]), lease_seconds=1.0, drift_max=drift)


def test_clocks_that_do_not_drift_use_all_of_the_time() -> None:
    host: Any = Desk()
    lease = Lease(host, Quorum([SITES]), lease_seconds=1.0, drift_max=0.0)
    lease.acquire()
    lease.on_lease_grant("b", LeaseGrant(1), HERE)
    assert lease.holds_until == 1.0


def test_it_is_held_up_to_the_last_moment_and_not_in_it() -> None:
    office = holder()
    until = 10.0 + 0.8 / 1.2
    assert office.lease.holds_until == pytest.approx(until)
    assert office.lease.hold_until() == office.lease.holds_until
    assert office.lease.is_held(until - 1e-9)
    assert not office.lease.is_held(office.lease.holds_until)


def test_a_grant_in_the_very_moment_in_which_it_runs_out_is_none() -> None:
    office = Office()
    office.lease.acquire()
    office.now = office.lease.hold_until()
    office.granted("b", 1)
    assert office.lease.holds_until is None
    assert office.told == []


# ---------------------------------------------------------------------- asking
def test_who_wants_it_asks_the_others_and_grants_it_to_itself() -> None:
    office = Office()
    office.lease.acquire()
    request, (timer, wait), own = office.take()
    assert request == (OTHERS, LeaseRequest(1))
    assert timer == "lease-ask"
    assert 0.8 * 0.8 / 1.2 / 3 <= wait <= 0.8 / 1.2 / 3
    assert own == ("lease-grant", 1.0)
    assert office.granted_to() == "a"
    assert office.told == []


def test_attempts_of_another_incarnation_have_other_numbers() -> None:
    """A grant for the first attempt of an earlier incarnation would be one for the first of this."""
    office = Office(incarnation=1)
    office.lease.acquire()
    assert office.take()[0] == (OTHERS, LeaseRequest((1 << 32) + 1))
    office.granted("b", 1)
    office.granted("c", 1)
    assert office.lease.holds_until is None


def test_who_has_granted_it_to_another_does_not_count_itself() -> None:
    office = Office()
    office.asked("b", 1)
    office.lease.acquire()
    office.granted("c", 1)
    assert office.lease.holds_until is None
    office.granted("b", 1)
    assert office.lease.holds_until is not None


def test_a_majority_of_grants_makes_a_holder_who_hears_of_it_once() -> None:
    office = Office(sites=("a", "b", "c", "d", "e"))
    office.lease.acquire()
    office.granted("b", 1)
    assert office.told == []
    office.granted("c", 1)
    assert office.told == ["acquired"]
    assert office.take()[-1] == ("lease-hold", pytest.approx(0.8 / 1.2))
    office.granted("d", 1)
    assert office.told == ["acquired"]
    assert (office.branches["lease-acquired"], office.branches["lease-renewed"]) == (1, 1)


def test_a_grant_of_another_attempt_or_for_one_who_wants_nothing_does_not_count() -> None:
    office = Office()
    office.granted("b", 0)
    office.granted("b", 1)
    assert office.lease.holds_until is None
    office.lease.acquire()
    office.granted("b", 0)
    office.granted("b", 2)
    assert office.lease.holds_until is None
    office.lease.release()
    office.granted("b", 1)
    office.granted("c", 1)
    assert office.lease.holds_until is None


def test_to_renew_it_takes_a_majority_of_new_grants() -> None:
    office = holder()
    before = office.lease.holds_until
    office.now = 10.2
    office.lease.on_lease_ask_timeout()
    assert office.take()[0] == (OTHERS, LeaseRequest(2))
    assert office.lease.holds_until == before
    office.granted("c", 1)
    assert office.lease.holds_until == before
    office.granted("c", 2)
    assert office.lease.holds_until == pytest.approx(10.2 + 0.8 / 1.2)
    assert office.told == ["acquired"]
    assert office.branches["lease-renewed"] == 1


def test_who_has_no_majority_in_time_gives_back_what_it_has_and_asks_again_later() -> None:
    """Two who have half of the grants each would wait for each other for ever."""
    office = Office(sites=("a", "b", "c", "d", "e"))
    office.lease.acquire()
    office.granted("b", 1)
    office.take()
    office.lease.on_lease_ask_timeout()
    release, cancelled, (timer, wait) = office.take()
    assert release == (("b", "c", "d", "e"), LeaseRelease(1))
    assert cancelled == ("cancel", "lease-grant")
    assert timer == "lease-ask"
    assert 0.2 * 0.8 / 1.2 <= wait <= 0.8 / 1.2
    assert office.granted_to() is None
    # What was granted to the attempt that was given back counts no more, nor does the grant that is still under way.
    office.granted("c", 1)
    office.granted("d", 1)
    assert office.lease.holds_until is None
    office.lease.on_lease_ask_timeout()
    assert office.take()[0] == (("b", "c", "d", "e"), LeaseRequest(3))
    office.granted("b", 3)
    assert office.lease.holds_until is None
    office.granted("c", 3)
    assert office.lease.holds_until is not None


def test_who_has_no_grant_at_all_has_nothing_to_give_back_and_asks_again() -> None:
    office = Office()
    office.asked("b", 1)
    office.lease.acquire()
    office.take()
    office.lease.on_lease_ask_timeout()
    assert office.take()[0] == (OTHERS, LeaseRequest(2))


def test_who_wants_it_no_longer_does_not_ask() -> None:
    office = Office()
    office.lease.on_lease_ask_timeout()
    assert office.take() == []


# ---------------------------------------------------------------------- the end of holding
def test_who_gives_it_back_holds_it_no_longer_and_tells_everyone() -> None:
    office = holder()
    office.lease.release()
    assert office.take() == [
        ("cancel", "lease-hold"),
        ("cancel", "lease-ask"),
        (OTHERS, LeaseRelease(1)),
        ("cancel", "lease-grant"),
    ]
    assert (office.lease.holds_until, office.lease.granted_to) == (None, None)
    assert not office.lease.is_held(10.1)
    assert office.told == ["acquired", "lost"]
    office.lease.on_lease_ask_timeout()
    assert office.take() == []


def test_who_does_not_hold_it_loses_nothing() -> None:
    office = Office()
    office.lease.acquire()
    office.lease.release()
    assert office.told == []


def test_a_lease_that_has_run_out_is_lost_once_and_can_be_had_again() -> None:
    office = holder()
    office.now = 10.7
    office.lease.on_lease_hold_timeout()
    assert office.told == ["acquired", "lost"]
    assert office.lease.holds_until is None
    office.lease.on_lease_hold_timeout()
    assert office.told == ["acquired", "lost"]
    office.lease.ask()
    office.granted("b", 2)
    assert office.told == ["acquired", "lost", "acquired"]


def test_who_asks_again_when_it_hears_that_it_has_lost_the_lease_holds_the_new_one_to_its_end() -> None:
    """Alone, it is a majority: the timer of the new one must not go with that of the old one."""
    office = Office(sites=("a",))
    office.lease.acquire()
    office.lease._on_lost = office.lease.acquire
    office.take()
    office.lease.release()
    timers = [each for each in office.take() if "lease-hold" in each]
    assert timers == [("cancel", "lease-hold"), ("lease-hold", pytest.approx(0.8 / 1.2))]


# ---------------------------------------------------------------------- granting
def test_who_comes_first_has_a_grant_for_the_whole_time_and_nobody_else() -> None:
    office = Office()
    assert office.asked("b", 1) == [("lease-grant", 1.0), (("b",), LeaseGrant(1))]
    assert office.asked("c", 1) == []
    assert office.branches["lease-refused"] == 1
    assert office.granted_to() == "b"
    # The same one again, for longer.
    assert office.asked("b", 2) == [("lease-grant", 1.0), (("b",), LeaseGrant(2))]
    office.lease.on_lease_grant_timeout()
    assert office.granted_to() is None
    assert office.asked("c", 1) == [("lease-grant", 1.0), (("c",), LeaseGrant(1))]


def test_only_the_one_to_whom_it_was_granted_gives_it_back_and_only_by_its_last_attempt() -> None:
    office = Office()
    office.asked("b", 3)
    office.asked("b", 2)  # overtaken
    office.released("c", 9)
    office.released("b", 2)
    assert office.granted_to() == "b"
    office.released("b", 3)
    assert office.granted_to() is None
    assert office.take() == [("cancel", "lease-grant")]


@pytest.mark.parametrize("runs_out", [False, True])
def test_the_attempts_of_one_say_nothing_of_those_of_the_next(runs_out: bool) -> None:
    """b has tried five times; the first attempt of c is given back as well."""
    office = Office()
    office.asked("b", 5)
    if runs_out:
        office.lease.on_lease_grant_timeout()
    else:
        office.released("b", 5)
    office.asked("c", 1)
    office.released("c", 1)
    assert office.granted_to() is None


# ---------------------------------------------------------------------- after a crash
def test_who_has_not_crashed_grants_from_the_start() -> None:
    office = Office()
    office.lease.start()
    assert office.take() == []
    assert office.asked("b", 1) != []


def test_who_has_crashed_grants_nothing_to_anybody_until_what_it_may_have_granted_has_run_out() -> None:
    office = Office(incarnation=1)
    office.lease.start()
    assert office.take() == [("lease-grant", 1.0)]
    assert office.asked("b", 1) == []
    office.lease.acquire()
    assert office.granted_to() is None
    office.granted("b", (1 << 32) + 1)
    assert office.lease.holds_until is None
    office.lease.on_lease_grant_timeout()
    assert office.asked("c", 1) == [("lease-grant", 1.0), (("c",), LeaseGrant(1))]
