"""Code of the user's own, for workers that do not have it."""

from __future__ import annotations

import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

from pyspark.sql import SparkSession

from ordercast.core import UsageError

_BROUGHT = frozenset({"ordercast"})
"""The session sees to these (ordercast.spark.session)."""


def ship(spark: SparkSession, reference: str) -> None:
    """Let the workers import the module of `module:name`, if it is not one that they have anyway."""
    top = reference.partition(":")[0].partition(".")[0]
    if top in _BROUGHT:
        return
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise UsageError(f"{reference!r}: there is no module {top!r}; write module:name")
    if "site-packages" in (spec.origin or ""):
        return  # installed: workers elsewhere have it installed as well, or nothing that it needs either
    if spec.submodule_search_locations:
        root = Path(next(iter(spec.submodule_search_locations)))
        with tempfile.TemporaryDirectory(prefix="ordercast-ship-") as folder:
            archive = Path(folder) / f"{top}.zip"
            with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
                for file in sorted(root.rglob("*.py")):
                    zipped.write(file, Path(root.name) / file.relative_to(root))
            spark.sparkContext.addPyFile(str(archive))
    elif spec.origin:
        spark.sparkContext.addPyFile(spec.origin)
