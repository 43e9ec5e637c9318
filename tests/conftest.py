"""What all tests share: reproducible Hypothesis, fast tests first, one worker for all that needs Spark."""

import pytest
from hypothesis import settings

# No deadline: a loaded machine is no failure. Derandomized: the same examples on every run and machine.
settings.register_profile("ordercast", derandomize=True, deadline=None)
settings.load_profile("ordercast")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast tests, then Spark's, then campaigns; and one Spark session for the whole run, hence one worker for it."""

    def slowness(item: pytest.Item) -> int:
        return 2 if item.get_closest_marker("campaign") else 1 if item.get_closest_marker("spark") else 0

    items.sort(key=slowness)
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.xdist_group("spark"))
