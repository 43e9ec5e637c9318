"""The judges: one run in, a verdict with witnesses for each property out (what each means: docs/properties.md)."""

from ordercast.check.registry import PROPERTIES, judge
from ordercast.check.verdict import WITNESSES_MAX, Verdict, Witness

__all__ = ["PROPERTIES", "WITNESSES_MAX", "Verdict", "Witness", "judge"]
