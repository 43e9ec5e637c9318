"""What a line of the results is about: a protocol or a run, and a window of time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from ordercast.core.errors import UsageError

SLICES: Final = 16
"""Into so many equal parts the time of a run (or of a window of it) is cut for confidence intervals within one run:
enough for Student's t to be close to normal, few enough for a slice to be long beside what ties messages together (the
usual advice for batch means is 10 to 30). A power of two, so that the parts of a second add up to a second."""

WINDOWS_MAX: Final = 20_000
"""Windows of all runs together; each is a line of several tables, and nobody reads more."""


class Grouping(NamedTuple):
    """One line of results for each …

    Times are cut into windows [k·S, (k+1)·S) of the trace's own clock, so that the windows of different runs lie on
    each other and on the times of a scenario's faults.
    """

    by: Literal["protocol", "run"] = "protocol"
    window_seconds: float | None = None

    @property
    def keys(self) -> list[str]:
        """The columns that tell one line from another."""
        keys = ["protocol"] if self.by == "protocol" else ["protocol", "run"]
        return keys if self.window_seconds is None else [*keys, "window"]

    def check(self, times: Mapping[str, tuple[float, float]]) -> None:
        """Refuse windows so short that the result could not be held; `times` has when each run began and ended."""
        if self.window_seconds is None:
            return
        windows = sum((last - first) / self.window_seconds + 1 for first, last in times.values())
        if windows > WINDOWS_MAX:
            raise UsageError(
                f"windows of {self.window_seconds:g} s cut this trace into {windows:.0f}; "
                f"choose longer ones, {WINDOWS_MAX} are the most"
            )
