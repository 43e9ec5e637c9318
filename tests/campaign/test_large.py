"""Large runs: a dozen sites and more for minutes, drawn apart, so that every usual run stays as it is."""

from __future__ import annotations

from collections import Counter

import pytest

from ordercast.campaign import PROFILES, Draw, read_draw, run_draw, run_seed
from ordercast.campaign.outcome import bound_of
from ordercast.campaign.profile import LARGE_SHARE, SCHEDULES_SHARE, draw_of
from ordercast.campaign.shape import LARGE, USUAL
from ordercast.campaign.state import default_path
from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from ordercast.protocols.classic.sequencer import Sequencer
from ordercast.protocols.selective_total import SelectiveTotal
from ordercast.protocols.selective_total.options import SelectiveTotalOptions
from ordercast.sim.faults import BurstLoss, Crash, Loss, Pause


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_a_large_run_has_a_dozen_sites_and_more_for_minutes_within_the_contract(name: str) -> None:
    protocol = find_protocol(name)
    groups = set()
    for seed in range(20):
        scenario = Draw(protocol, seed, large=True).scenario()
        scenario.check()
        assert scenario.outside_contract == ()
        assert LARGE.seconds[0] <= scenario.duration <= LARGE.seconds[1]
        groups.add(len(scenario.groups))
        own_groups = protocol.arrangement.campaign.layout is not None
        assert own_groups or len(scenario.sites) >= LARGE.sites_min
    assert max(groups) >= 6 or protocol.contract.single_source is False
    if not protocol.arrangement.campaign.deaths:
        assert max(groups) >= 6


@pytest.mark.parametrize("name", [n for n in PROTOCOL_NAMES if "crash" in find_protocol(n).contract.faults])
def test_in_a_large_run_somebody_crashes_again_and_again(name: str) -> None:
    crashes = Counter(
        site
        for seed in range(10)
        for fault in Draw(find_protocol(name), seed, large=True).scenario().faults
        if isinstance(fault, Crash) and not fault.forever
        for site in fault.sites
    )
    assert max(crashes.values()) >= 10


def test_a_usual_run_is_the_same_whether_there_are_large_ones_or_not() -> None:
    assert draw_of(Sequencer, 7) == Draw(Sequencer, 7)
    assert len(Draw(Sequencer, 7).scenario().sites) <= USUAL.sites_max


def test_a_large_run_is_named_and_found_again() -> None:
    draw = draw_of(Sequencer, 7, "large")
    assert str(draw) == "sequencer:7:large"
    assert read_draw("sequencer:7:large") == draw
    assert draw.scenario() == read_draw("sequencer:7:large").scenario()


def test_a_night_has_some_runs_of_each_kind_and_the_same_ones_every_time() -> None:
    draws = [draw_of(Sequencer, seed, "nightly") for seed in range(400)]
    assert draws == [draw_of(Sequencer, seed, "nightly") for seed in range(400)]
    large = sum(draw.large for draw in draws) / 400
    hunted = sum(bool(draw.schedule) for draw in draws) / 400
    assert abs(large - LARGE_SHARE) < 0.05
    assert abs(hunted - (1 - LARGE_SHARE) * SCHEDULES_SHARE) < 0.1


def test_campaigns_of_different_profiles_go_on_in_files_of_their_own() -> None:
    assert len({default_path(("sequencer",), profile) for profile in PROFILES}) == len(PROFILES)


def test_a_large_run_of_the_sequencer_holds_what_it_claims() -> None:
    outcome = run_seed(Sequencer, 1, "large").outcome
    assert outcome.violations == ()
    assert outcome.large
    assert outcome.replay.endswith("sequencer:1:large")
    assert outcome.simulated_seconds > LARGE.seconds[0]
    assert run_draw(outcome.draw).outcome == outcome


def test_a_run_of_many_sites_may_have_as_many_more_events_as_there_are_receivers() -> None:
    # Eighteen sites on a channel that loses a packet of twenty for each of them: an agreement for most messages.
    scenario = read_draw("selective-total:900001:large").scenario()
    assert len(scenario.sites) == 18
    assert bound_of(scenario) == int(3 * 4_000 * (scenario.duration + scenario.settle))


def test_nobody_is_silent_for_so_long_that_it_is_left_out_for_good() -> None:
    silence = SelectiveTotalOptions().silence_seconds
    assert silence == SelectiveTotal.arrangement.campaign.unheard_seconds
    kinds = set()
    for seed in range(20):
        for fault in Draw(SelectiveTotal, seed, large=True).scenario().faults:
            if isinstance(fault, Loss | BurstLoss | Pause):
                kinds.add(fault.kind)
                assert fault.to is not None
                assert int(fault.from_ / silence) == int(fault.to / silence)
                assert fault.to % silence <= silence / 3 + 0.001
    assert kinds == {"loss", "burst-loss", "pause"}


@pytest.mark.parametrize("seed", [900007, 900009])
def test_a_large_run_of_selective_total_keeps_everyone(seed: int) -> None:
    """Eight windows of losses at once had lost nine packets of ten for minutes (900007), and a site was held up for
    half a minute (900009): both were left out, and never got what the others delivered meanwhile."""
    assert run_seed(SelectiveTotal, seed, "large").outcome.violations == ()
