"""A node seen from outside: figures for machines, and whether it goes on."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import ordercast
from ordercast.net.ports import free_ports
from tests.node.cluster import make_configuration, open_nodes, run

ROOT = Path(__file__).parents[2]
SAMPLE = re.compile(r'(ordercast_[a-z_]+)\{cluster="test",process="a"(,[a-z]+="[^"]*")?\} ([0-9.e+-]+)')

NOT_DRAWN = {
    f"ordercast_{name}" for name in ("up_seconds", "incarnation", "idle", "refused_peers", "transfers", "members")
}


def with_metrics(names: str) -> tuple[dict[str, Any], int]:
    (port,) = free_ports(1)
    return make_configuration(names, metrics={"a": f"127.0.0.1:{port}"}), port


async def ask(port: int, line: str) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{line} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
    writer.close()
    return int(head.split()[1]), body


def test_metrics_are_open_metrics_and_tell_what_status_tells() -> None:
    async def main() -> None:
        configuration, port = with_metrics("a")
        async with open_nodes(configuration) as (node,):
            group = await node.join("g")
            group.on_batch(lambda batch: None)
            await group.multicast_many([b"x"] * 1_234_567)
            await node.flush()
            status, text = await ask(port, "GET /metrics")
            *lines, end = text.splitlines()
            assert (status, end) == (200, "# EOF")
            samples = [SAMPLE.fullmatch(line) for line in lines if not line.startswith("#")]
            assert all(samples)
            assert 'ordercast_delivered_total{cluster="test",process="a",group="g"} 1234567' in lines
            described = {line.split()[2] for line in lines if line.startswith("# TYPE")}
            assert {match[1].removesuffix("_total") for match in samples if match} <= described
            for line, wanted in (
                ("GET /nothing", 404),
                ("POST /metrics", 405),
                ("GET /health", 200),
            ):
                assert (await ask(port, line))[0] == wanted

    run(main())


def test_health_says_why_a_process_does_not_go_on() -> None:
    async def main() -> None:
        configuration, port = with_metrics("ba")
        configuration["options"] = {"sequencer": "b"}
        async with ordercast.open(configuration, "a") as node:
            group = await node.join("g")
            try:
                await group.multicast(b"x", confirm=True)
            except ordercast.GroupBlocked:
                status, body = await ask(port, "GET /health")
                assert status == 503
                assert "b" in json.loads(body)["why"]
            else:
                raise AssertionError("b does not run, and has ordered something")

    run(main())


def test_the_dashboard_and_the_alerts_ask_for_figures_that_there_are() -> None:
    async def main() -> set[str]:
        configuration, port = with_metrics("a")
        async with open_nodes(configuration):
            _, text = await ask(port, "GET /metrics")
            kinds = dict(line.split()[2:4] for line in text.splitlines() if line.startswith("# TYPE"))
            return {f"{name}_total" if kind == "counter" else name for name, kind in kinds.items()}

    known = run(main())
    for file in ("docs/grafana.json", "docs/operations.md"):
        asked = set(re.findall(r"ordercast_[a-z_]+", (ROOT / file).read_text(encoding="utf-8")))
        assert asked
        assert asked <= known
    dashboard = (ROOT / "docs/grafana.json").read_text(encoding="utf-8")
    panels = json.loads(dashboard)["panels"]
    assert all(panel["targets"] for panel in panels)
    assert len({panel["id"] for panel in panels}) == len({str(panel["gridPos"]) for panel in panels}) == len(panels)
    # Every figure is on the dashboard, or is told by another one that is there.
    assert known - set(re.findall(r"ordercast_[a-z_]+", dashboard)) <= NOT_DRAWN
