"""The relay between processes: what it does to datagrams, and to whose."""

from __future__ import annotations

import socket
from random import Random

from ordercast.chaos.proxy import Proxy, Terrain, Weather
from ordercast.net.ports import free_ports
from tests.net.strangers import until
from tests.node.cluster import run

CLUSTERS = (frozenset("ab"), frozenset("cd"))


def test_weather_is_between_clusters_alone_where_they_are_calm_within() -> None:
    async def main() -> None:
        real = {name: ("127.0.0.1", port) for name, port in zip("abcd", free_ports(4), strict=True)}
        for calm_within, lost in ((True, 2), (False, 3)):
            relay = Proxy(real, Random(1), Terrain(CLUSTERS, calm_within=calm_within))
            relay.weather = Weather(loss=1.0)
            try:
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sending:
                    for where in relay.addresses_for("a").values():
                        sending.sendto(b"from a", where)
                    await until(lambda relay=relay: relay.counters.total() == 3)  # type: ignore[misc]
            finally:
                relay.close()
            assert (relay.counters["lost"], relay.counters["passed"]) == (lost, 3 - lost)

    run(main())
