"""What an experiment is: a grid of parameters, a function that makes one run, and how exact its measures must be."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import product

from ordercast.core import UsageError, random_stream

Value = str | int | float | bool
Point = dict[str, Value]
"""One point of the grid: parameter -> value."""
RunFunction = Callable[[Point, int], Mapping[str, float | None]]
"""From a point and a seed to the measures of one run; None where the run has no value for a measure."""

_NAME = re.compile(r"[a-z][a-z0-9_]*")
RESERVED = frozenset({"repetition", "repetitions", "seed", "seconds"})
"""Columns that every table has by itself."""


@dataclass(frozen=True)
class Measure:
    """A number that every run gives, and how exactly its mean must be known: the half width of its 95 % interval."""

    name: str
    relative: float | None = None
    """At most this share of the mean."""
    absolute: float | None = None
    """At most this much; with both given, one suffices. With neither, the measure is noted and asks for nothing."""


@dataclass(frozen=True)
class Experiment:
    """Declared once, run anywhere: nothing in it depends on where, or on how many processors, it is run."""

    name: str
    grid: Mapping[str, Sequence[Value]]
    function: str
    """`module:name` of a `RunFunction`. By name, so that workers import it, as they would any other code, and nothing
    of it travels."""
    measures: Sequence[Measure]
    repetitions_min: int = 5
    """Fewer give an interval that is a matter of luck."""
    repetitions_max: int = 1000
    where: Callable[[Point], bool] | None = field(default=None, compare=False)
    """Which points make sense; all, when there is none."""

    def __post_init__(self) -> None:
        names = [*self.grid, *(measure.name for measure in self.measures)]
        for name in names:
            if not _NAME.fullmatch(name) or name in RESERVED:
                raise UsageError(f"experiment {self.name}: {name!r} cannot be a column; use small letters and _")
            if names.count(name) > 1:
                raise UsageError(f"experiment {self.name}: {name!r} is the name of two things")
        for name, values in self.grid.items():
            kinds = {type(value) for value in values}
            if not kinds or not (kinds <= {int, float} or (len(kinds) == 1 and kinds <= {str, bool})):
                raise UsageError(f"experiment {self.name}: {name} has numbers, or texts, or bools, not a mixture")
            if any(isinstance(value, float) and not math.isfinite(value) for value in values):
                raise UsageError(f"experiment {self.name}: the values of {name} are finite")
        if not self.measures:
            raise UsageError(f"experiment {self.name}: declare at least one measure")
        for measure in self.measures:
            if any(width is not None and width <= 0 for width in (measure.relative, measure.absolute)):
                raise UsageError(f"experiment {self.name}: the precision of {measure.name} is positive")
        if not 1 <= self.repetitions_min <= self.repetitions_max:
            raise UsageError(f"experiment {self.name}: needs 1 <= repetitions_min <= repetitions_max")

    def points(self) -> list[Point]:
        """The grid's points that make sense, in its order."""
        columns = [self._column(values) for values in self.grid.values()]
        points = [dict(zip(self.grid, values, strict=True)) for values in product(*columns)]
        return [point for point in points if self.where is None or self.where(point)]

    @staticmethod
    def _column(values: Sequence[Value]) -> Sequence[Value]:
        """A column has one type: 1 and 0.5 are floats, both."""
        return [float(value) for value in values] if any(isinstance(value, float) for value in values) else values

    def key(self, point: Point, repetition: int) -> str:
        """What identifies a run: who changes the grid keeps the runs of the points that stay."""
        return hashlib.blake2b(self._identity(point, repetition).encode(), digest_size=16).hexdigest()

    def seed(self, point: Point, repetition: int) -> int:
        """The run's seed, the same wherever and whenever the run is made."""
        return random_stream(0, "experiment", self._identity(point, repetition)).getrandbits(63)

    def _identity(self, point: Point, repetition: int) -> str:
        return json.dumps([self.name, dict(sorted(point.items())), repetition], separators=(",", ":"))


def find_function(reference: str) -> Callable[..., object]:
    """The function that `module:name` names."""
    module, _, name = reference.partition(":")
    try:
        function = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"{reference!r} names no function: {error}; write module:name") from error
    if not callable(function):
        raise UsageError(f"{reference!r} is no function; write module:name")
    return function
