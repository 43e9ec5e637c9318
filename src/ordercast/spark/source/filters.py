"""Conditions that Spark hands down, as expressions of pyarrow: a file's row groups that they rule out are not read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import datasource as given

from ordercast.trace.schema import COLUMNS

_COMPARISONS: dict[type[given.Filter], Callable[[Any, Any], Any]] = {
    given.EqualTo: lambda column, value: column == value,
    given.GreaterThan: lambda column, value: column > value,
    given.GreaterThanOrEqual: lambda column, value: column >= value,
    given.LessThan: lambda column, value: column < value,
    given.LessThanOrEqual: lambda column, value: column <= value,
}


def split(filters: Iterable[given.Filter]) -> tuple[list[given.Filter], list[given.Filter]]:
    """Those that a reader of a trace can take upon itself, and the others."""
    taken: list[given.Filter] = []
    left: list[given.Filter] = []
    for each in filters:
        (taken if expression(each) is not None else left).append(each)
    return taken, left


def expression(condition: given.Filter) -> pc.Expression | None:
    """Of one condition; None where it is left to Spark."""
    if isinstance(condition, given.Not):
        inner = expression(condition.child)
        if inner is not None and isinstance(condition.child, given.In):
            # To pyarrow a null is not in a list, to SQL that is unknown; what is unknown is not taken.
            return pc.field(condition.child.attribute[0]).is_valid() & ~inner
        return None if inner is None else ~inner
    path: tuple[str, ...] = getattr(condition, "attribute", ())
    if len(path) != 1 or COLUMNS.get(path[0], "list").startswith("list"):
        return None
    column = pc.field(path[0])
    if isinstance(condition, given.IsNull):
        return column.is_null()
    if isinstance(condition, given.IsNotNull):
        return column.is_valid()
    if isinstance(condition, given.In):
        return column.isin([value for value in condition.value if value is not None])
    if isinstance(condition, given.StringStartsWith):
        return pc.starts_with(column, condition.value)
    compare = _COMPARISONS.get(type(condition))
    return None if compare is None else compare(column, getattr(condition, "value", None))


def joined(filters: Iterable[given.Filter]) -> pc.Expression | None:
    """All of them together; None where there are none."""
    whole: pc.Expression | None = None
    for each in filters:
        one = expression(each)
        if one is not None:
            whole = one if whole is None else whole & one
    return whole
