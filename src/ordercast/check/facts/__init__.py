"""Facts: what is true of a run, whoever judges it; nothing here knows a property."""

from ordercast.check.facts.facts import Facts

__all__ = ["Facts"]
