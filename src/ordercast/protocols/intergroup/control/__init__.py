"""The control hierarchy (Berket 2000, chapter 2)."""

from ordercast.protocols.intergroup.control.control import Control
from ordercast.protocols.intergroup.control.options import ControlOptions
from ordercast.protocols.intergroup.control.report import CutReport, GroupReport

__all__ = ["Control", "ControlOptions", "CutReport", "GroupReport"]
