"""One Spark session for the whole test run; every test in this folder may use it and shares its worker."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ordercast.spark.session import BRIEF, open_session


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.spark)
            # The hook of the whole project may have run before this one.
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Commands that a test runs in its own process share it, too."""
    with open_session("tests", "local[2]", {**BRIEF, "spark.sql.shuffle.partitions": "2"}) as session:
        yield session
