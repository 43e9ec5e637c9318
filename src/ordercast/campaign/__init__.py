"""Campaigns: thousands of random runs under random faults, each from a seed, each judged; and what to do with a
failing one."""

from ordercast.campaign.campaign import Report, run_campaign
from ordercast.campaign.draw import Draw, draw_scenario, read_draw
from ordercast.campaign.hunt import Found, find_failing_trial, find_violation, find_violation_without_faults
from ordercast.campaign.outcome import Outcome, Trial, Violation, run_draw, run_scenario, run_seed
from ordercast.campaign.profile import PROFILES, Profile
from ordercast.campaign.steer import run_steered, steer

__all__ = [
    "PROFILES",
    "Draw",
    "Found",
    "Outcome",
    "Profile",
    "Report",
    "Trial",
    "Violation",
    "draw_scenario",
    "find_failing_trial",
    "find_violation",
    "find_violation_without_faults",
    "read_draw",
    "run_campaign",
    "run_draw",
    "run_scenario",
    "run_seed",
    "run_steered",
    "steer",
]
