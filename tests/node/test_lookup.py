"""A process whose host is not known yet keeps nobody from starting, and is found when it is."""

from __future__ import annotations

import logging

import pytest

import ordercast
from ordercast.core import UsageError
from ordercast.net.sockets import Resolved, resolve
from ordercast.node import lookup, surroundings
from tests.node.cluster import make_configuration, payloads, run


def test_a_peer_whose_name_does_not_resolve_does_not_prevent_the_start_and_is_found_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    known: dict[str, str] = {}

    def look_up(host: str, port: int) -> Resolved:
        if host.endswith(".test") and host not in known:
            raise UsageError(f"there is no host {host!r}")
        return resolve(known.get(host, host), port)

    for module in (lookup, surroundings):
        monkeypatch.setattr(module, "resolve", look_up)
    monkeypatch.setattr(lookup, "LOOK_AGAIN_SECONDS", 0.05)
    configuration = make_configuration()
    port = configuration["processes"]["c"].rpartition(":")[2]
    elsewhere = configuration | {"processes": configuration["processes"] | {"c": f"c.test:{port}"}}

    async def main() -> None:
        async with ordercast.open(elsewhere, "a") as a, ordercast.open(elsewhere, "b") as b:
            await a.wait_for_peers("b")
            await b.multicast(b"without c", ["g"])
            assert await payloads(await a.join("g"), 1) == [b"without c"]
            with pytest.raises(UsageError, match="there is no host"):
                async with ordercast.open(elsewhere, "c"):
                    pass
            async with ordercast.open(configuration, "c") as c:
                known["c.test"] = "127.0.0.1"
                await a.wait_for_peers()
                assert await payloads(await c.join("g"), 1) == [b"without c"]
                for node in (a, b, c):
                    node.kill()

    with caplog.at_level(logging.WARNING, logger="ordercast"):
        run(main())
    assert "process c cannot be reached yet, and is looked for again: there is no host 'c.test'" in caplog.text
