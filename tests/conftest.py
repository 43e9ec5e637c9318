"""What all tests share: reproducible Hypothesis, fast tests first, a mark on all that needs Spark, and its session."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_FOLDER = Path(__file__).parent / "spark"

# No deadline: a loaded machine is no failure. Derandomized: the same examples on every run and machine.
settings.register_profile("ordercast", derandomize=True, deadline=None)
settings.load_profile("ordercast")

# A shell that starts the tests in the background has everything below it ignore Ctrl-C, and tests that press it wait
# in vain.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    """What lies in the folder of Spark's tests is one of them: `make test` runs them by file on two sessions."""
    if SPARK_FOLDER in item.path.parents and not item.get_closest_marker("own_process"):
        item.add_marker(pytest.mark.spark)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast tests, then Spark's, then campaigns."""

    def slowness(item: pytest.Item) -> int:
        return 2 if item.get_closest_marker("campaign") else 1 if item.get_closest_marker("spark") else 0

    items.sort(key=slowness)


JAVA_ENDED = 86
"""How pytest ends when the Java process behind its shared session is gone. A worker of pytest-xdist is ended by it, and
pytest ends with 3: then `make test` begins the Spark tests anew, in one process."""


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Without Java, every test that follows would fail with a refused connection that says nothing about the cause."""
    if item.get_closest_marker("spark") and "pyspark" in sys.modules:
        from pyspark import SparkContext

        process = getattr(SparkContext._gateway, "proc", None)
        if process is not None and process.poll() is not None:
            code = process.returncode
            pytest.exit(f"Java, which all Spark tests share, ended with {code} in {item.nodeid}", returncode=JAVA_ENDED)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for the whole test run; commands that a test runs in its own process share it, too."""
    # Imported here: most tests do without, and collecting them should not wait for it.
    from ordercast.spark.session import LITTLE, open_session

    with open_session("tests", "local[2]", LITTLE) as session:
        yield session
