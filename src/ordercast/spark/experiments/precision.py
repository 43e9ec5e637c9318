"""How many repetitions a point needs: until the 95 % interval of every measure is as narrow as asked for.

The decision looks at nothing but the values of the first so many repetitions, so that it comes out the same on one
processor and on a thousand, in one go and after an interruption.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy import stats

from ordercast.spark.experiments.experiment import Experiment, Measure

CONFIDENCE = 0.95
GROWTH_MAX = 2.0
"""A point's repetitions at most double at a time: the spread of the first few promises little."""

Values = Mapping[str, float | None]


def t_quantile(count: int) -> float:
    """What the standard error is multiplied with for the half width of the interval of that many values."""
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)) if count > 1 else math.inf


def half_width(values: Sequence[float]) -> float:
    """Of the interval of the mean (Student's t); one value alone has none."""
    count = len(values)
    return t_quantile(count) * float(np.std(values, ddof=1)) / math.sqrt(count) if count > 1 else math.inf


def target(experiment: Experiment, find: Callable[[int], Values | None]) -> int:
    """How many repetitions to make, as far as can be told from those that `find` finds."""
    count = experiment.repetitions_min
    known: list[Values] = []
    while count < experiment.repetitions_max:
        for number in range(len(known), count):
            values = find(number)
            if values is None:
                return count
            known.append(values)
        excess = max(_excess(measure, known) for measure in experiment.measures)
        if excess <= 1:
            break
        # The width goes with the root of the number. A tenth more, or the last few come one at a time.
        wanted = math.ceil(count * min(1.1 * excess**2, GROWTH_MAX))
        count = min(max(wanted, count + 1), experiment.repetitions_max)
    return count


def _excess(measure: Measure, repetitions: Sequence[Values]) -> float:
    """How many times too wide the interval is."""
    if measure.relative is None and measure.absolute is None:
        return 0.0
    values = [value for values in repetitions if (value := values[measure.name]) is not None]
    if not values:
        return 0.0  # no run has the measure at this point, and more of them will not either
    width = half_width(values)
    if width == 0:
        return 0.0
    allowed = max((measure.relative or 0.0) * abs(float(np.mean(values))), measure.absolute or 0.0)
    return width / allowed if allowed > 0 else math.inf
