"""No test of the log waits for a real disk: what a crash does to one is simulated (`crashing_disk.py`)."""

from collections.abc import Iterator

import pytest

from ordercast.storage import disk
from tests.storage.crashing_disk import FastDisk


@pytest.fixture(autouse=True, scope="module")
def _fast_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "os", FastDisk())
        yield
