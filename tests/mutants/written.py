"""Broken rules of non-atomic delivery in a run that is written for them: mutants that need several things to
happen within a moment.

In each of them the rule is what stands between two sites that deliver the same messages in two orders, or between a
message and its second delivery. With the rule nothing is violated.
"""

from __future__ import annotations

from typing import NamedTuple

from ordercast.core import Protocol
from ordercast.protocols.propagation_graph import PropagationGraphOptions
from ordercast.sim import Simulation, Workload
from ordercast.sim.faults import AnyFault, Crash, Cut, Delay, Duplication, Partition
from ordercast.sim.networks import PointToPoint

FIGURE_7_1 = {"alpha": tuple("abcde"), "beta": tuple("cde"), "gamma": tuple("ab")}
ONE_GROUP = {"alpha": tuple("abcde")}


class Written(NamedTuple):
    """A run, and what the mutant violates in it."""

    groups: dict[str, tuple[str, ...]]
    multicasts: tuple[tuple[str, str, float, int, float], ...]
    """Source, group, from when, how many, how many a second."""
    faults: tuple[AnyFault, ...]
    violated: str
    seed: int = 1
    duration: float = 6.0

    def run(self, protocol: type[Protocol], *more: AnyFault, drift_max: float = 0.01) -> Simulation:
        """With the mutant, or with what it is made of; and with more faults."""
        return Simulation(
            protocol,
            self.groups,
            PointToPoint(processing=0.0001, latency=0.01),
            workloads=[
                Workload(sources=(source,), groups=(group,), count=count, rate=rate, arrivals="regular", start=start)
                for source, group, start, count, rate in self.multicasts
            ],
            faults=(*self.faults, *more),
            options=PropagationGraphOptions(
                delivery="non-atomic", lease_seconds=2.0, retransmit_seconds=0.3, drift_max=drift_max
            ),
            seed=self.seed,
            duration=self.duration,
            settle=3.0,
        ).execute()


_TWO_IN_TURN = (("d", "alpha", 1.15, 1, 10.0), ("c", "alpha", 1.17, 1, 10.0))
"""d multicasts, and then c, to a, who orders: in the next graph, without a, c's own message comes first."""
_A_IS_NOT_HEARD = Cut(from_=1.2, to=4.5, sites=("a",), peers=("c", "d", "e"))
_FIGURE_7_5 = Partition(from_=1.4, to=4.5, parts=(("a", "b"),))

WRITTEN: dict[str, Written] = {
    # a and b have both messages; c, d and e, who have neither, are a majority.
    "opens_before_old_shares_end": Written(FIGURE_7_1, _TWO_IN_TURN, (_A_IS_NOT_HEARD, _FIGURE_7_5), "R2"),
    # a orders d's before c's, and is cut off; c and d have their own, b neither, and the sort says c's before d's.
    "catches_up_before_old_shares_end": Written(
        {"alpha": tuple("abc"), "beta": tuple("abd")},
        (("d", "beta", 1.0, 1, 10.0), ("c", "alpha", 1.05, 1, 10.0)),
        (Cut(from_=1.0, to=4.5, sites=("a",), peers=("b",)), Partition(from_=1.2, to=4.5, parts=(("a",),))),
        "R2",
        duration=5.0,
    ),
    # The same as in the first; b's share is long on its way.
    "counts_a_share_from_its_arrival": Written(
        FIGURE_7_1,
        _TWO_IN_TURN,
        (Delay(from_=0.0, to=4.5, sites=("b",), seconds=0.6), _A_IS_NOT_HEARD, _FIGURE_7_5),
        "R2",
    ),
    # a and b do not hear each other; c, d and e hear both.
    "grants_the_lease_to_two_managers": Written(
        ONE_GROUP,
        (("d", "alpha", 1.1, 1, 10.0), ("c", "alpha", 1.12, 1, 10.0)),
        (
            Cut(from_=1.15, to=1.35, sites=("a",), peers=("c", "d", "e")),
            Cut(from_=0.6, to=5.5, sites=("a",), peers=("b",)),
            Cut(from_=0.6, to=5.5, sites=("b",), peers=("a",)),
        ),
        "R2",
        duration=7.0,
    ),
    # What goes to e comes twice, the second time seconds later; c dies meanwhile.
    "takes_a_message_of_an_old_graph": Written(
        ONE_GROUP,
        (("a", "alpha", 1.0, 8, 10.0), ("a", "alpha", 3.0, 4, 1.0)),
        (
            Duplication(from_=1.0, to=1.9, sites=("e",), rate=0.5, seconds=3.5),
            Crash(from_=1.95, sites=("c",), forever=True),
        ),
        "no-duplication",
        seed=8,
    ),
    # e lacks the first of three messages, and nobody hears that it does; when it is back there are others.
    "keeps_what_waits_for_its_number_in_another_graph": Written(
        ONE_GROUP,
        (("c", "alpha", 1.0, 1, 10.0), ("a", "alpha", 1.05, 3, 10.0), ("a", "alpha", 3.6, 6, 2.0)),
        (
            Cut(from_=1.05, to=1.16, sites=("a",), peers=("e",)),
            Cut(from_=1.05, to=4.5, sites=("e",), peers=tuple("abcd")),
        ),
        "R2",
    ),
    # The manager dies, and its first backup with it.
    "takes_the_next_in_rank_for_the_maker": Written(
        FIGURE_7_1, (("d", "alpha", 1.0, 30, 10.0),), (Crash(from_=1.5, sites=("a", "b"), forever=True),), "recovery"
    ),
}
"""By the name of the mutant."""
