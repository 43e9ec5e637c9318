"""What the tests of this folder share."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["here", "spark"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the command does its work: in this process, or on Spark because the environment names a master."""
    where: str = request.param
    if where == "spark":
        request.getfixturevalue("spark")
        monkeypatch.setenv("ORDERCAST_MASTER", "local[*]")
    return where
