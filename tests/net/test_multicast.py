"""IP multicast on the loopback, and what happens where it does not reach everyone."""

from __future__ import annotations

import asyncio

from ordercast.net.multicast import UNANSWERED_MAX, Reach
from ordercast.net.ports import free_ports
from tests.node.cluster import make_configuration, open_nodes, payloads, run


def _address() -> str:
    # Organisation-local addresses (RFC 2365); a port of our own, so that parallel tests do not hear each other.
    return f"239.192.77.1:{free_ports(1)[0]}"


def test_with_ip_multicast_everyone_gets_everything_once_and_datagrams_to_all_leave_once() -> None:
    async def main() -> None:
        configuration = make_configuration("abc", multicast=_address())
        async with open_nodes(configuration) as nodes:
            groups = [await node.join("g") for node in nodes]
            while not nodes[0].internals.engine.site.uses_multicast:
                await asyncio.sleep(0)
            counters = nodes[0].internals.engine.transport.counters
            before = counters["multicasts"]
            sent = [b"%d" % index for index in range(200)]
            for payload in sent:
                await groups[0].multicast(payload)
            for group in groups:
                assert await payloads(group, 200) == sent
            assert counters["multicasts"] > before

    run(main())


def test_a_process_that_multicast_does_not_reach_is_found_and_named_once() -> None:
    reach = Reach(("b", "c"))
    for _ in range(UNANSWERED_MAX + 1):
        number = reach.next_probe()
        reach.on_heard("b", number)
        assert not reach.everyone
    assert reach.missing() == ("c",)
    assert reach.news() == ("c",)
    assert reach.news() is None, "told once"
    reach.on_heard("c", number)
    assert reach.everyone
    assert reach.news() == ()
    for _ in range(UNANSWERED_MAX + 1):
        reach.on_heard("b", reach.next_probe())
    assert reach.missing() == ("c",), "who answered long ago does not count"


def test_an_answer_to_a_probe_that_was_never_sent_does_not_count() -> None:
    reach = Reach(("b",))
    reach.next_probe()
    reach.on_heard("b", 7)
    assert reach.missing() == ("b",)
