"""One Spark session for the whole test run; every test in this folder may use it and shares its worker."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from ordercast.spark.session import BRIEF, open_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Commands that a test runs in its own process share it, too."""
    with open_session("tests", "local[2]", {**BRIEF, "spark.sql.shuffle.partitions": "2"}) as session:
        yield session
