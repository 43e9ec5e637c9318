"""A home for Spark, from which its Python processes start in a fraction of the time.

Spark puts `$SPARK_HOME/python/lib/pyspark.zip` before everything else on the path of its workers. Python keeps no
compiled files of what lies in an archive: every worker, and every process that plans a question for Java, compiles
PySpark anew, which takes it 1.7 processor seconds instead of 0.5. And the process behind a stream has ten seconds to
start, which nothing can change: on a busy machine queries failed by that before they had read anything.

So the home of a local session has all that PySpark's own has, but no archive. Its workers find PySpark where the
session itself has it from.
"""

from __future__ import annotations

from pathlib import Path

import pyspark


def make_home(folder: Path) -> Path:
    """In a folder that lasts as long as the session."""
    home = folder / "home"
    home.mkdir()
    for name in ("bin", "jars", "sbin"):
        (home / name).symlink_to(Path(pyspark.__file__).parent / name)
    return home
