"""What each site has delivered and not taken back."""

from __future__ import annotations

import numpy as np

from ordercast.check.facts.columns import Columns, Floats, Ints
from ordercast.check.facts.deliveries import Deliveries


class ValidDeliveries:
    """What each site has delivered and not taken back, at any moment."""

    def __init__(self, columns: Columns, deliveries: Deliveries) -> None:
        self._columns = columns
        self._deliveries = deliveries
        rollbacks = columns.rows("rollback")
        self.ever_removed = len(rollbacks) > 0 or len(deliveries.repeats) > 0
        self._rows = np.sort(np.concatenate([deliveries.rows, rollbacks[columns.message[rollbacks] >= 0]]))
        self._states: dict[tuple[int, int], tuple[Ints, Ints]] = {}

    def removal_times(self, site: int) -> Floats:
        """When a delivery at the site ceased to be the valid one: rolled back, or delivered again."""
        columns = self._columns
        rows = self._at(site)
        times = columns.time[rows]
        if (times[1:] < times[:-1]).any():
            # Against the clock (a trace from elsewhere): any row may be the one, so look before each.
            return times
        repeats = self._deliveries.repeats
        here = repeats[columns.site[repeats] == site]
        return columns.time[np.concatenate([columns.rows_at("rollback", site), here])]

    def delivered_before(self, site: int, moment: float) -> int:
        rows = self._deliveries.rows
        low, high = np.searchsorted(rows, self._columns.site_start[site : site + 2])
        return int(np.count_nonzero(self._columns.time[rows[low:high]] < moment))

    def at(self, site: int, moment: float) -> tuple[Ints, Ints]:
        """The valid deliveries before that moment: messages in order, and the row of each message (-1: none)."""
        columns = self._columns
        rows = self._at(site)
        rows = rows[columns.time[rows] < moment]
        key = (site, len(rows))
        if key not in self._states:
            # The last row of each message tells.
            latest = np.full(columns.message_count, -1, dtype=np.int64)
            np.maximum.at(latest, columns.message[rows], rows)
            delivers = (latest >= 0) & columns.are("deliver", latest)
            row = np.where(delivers, latest, -1)
            valid = np.flatnonzero(delivers)
            self._states[key] = valid[np.argsort(row[valid])], row
        return self._states[key]

    def _at(self, site: int) -> Ints:
        low, high = np.searchsorted(self._rows, self._columns.site_start[site : site + 2])
        return self._rows[low:high]
