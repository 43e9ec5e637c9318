"""The judges: one run in, a verdict with witnesses for each property out (what each means: docs/properties.md)."""

from ordercast.check.choice import CLAIMED, EVERYTHING, Choice, choose
from ordercast.check.judging import judge
from ordercast.check.registry import PROPERTIES
from ordercast.check.verdict import WITNESSES_MAX, Verdict, Witness

__all__ = [
    "CLAIMED",
    "EVERYTHING",
    "PROPERTIES",
    "WITNESSES_MAX",
    "Choice",
    "Verdict",
    "Witness",
    "choose",
    "judge",
]
