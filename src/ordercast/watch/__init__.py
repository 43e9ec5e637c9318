"""Guarantees of a run that goes on, looked after row by row, in memory that does not grow with the run."""

from ordercast.watch.alert import ALERT_COLUMNS, Alert
from ordercast.watch.watch import Settings, Watch

__all__ = ["ALERT_COLUMNS", "Alert", "Settings", "Watch"]
