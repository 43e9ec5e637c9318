"""The gateway: whoever speaks HTTP publishes once and follows from where it was."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import uvicorn

import ordercast
from ordercast.cli.gateway.application import BODY_BYTES_MAX
from ordercast.cli.gateway.application import Gateway as Application
from ordercast.net.ports import free_ports
from tests.client.test_client import open_cluster, where, with_clients
from tests.node.cluster import run
from tests.support import RUN_ORDERCAST


class Gateway:
    """One that runs in this event loop, and a small client of HTTP."""

    def __init__(self, client: ordercast.Client) -> None:
        (self.port,) = free_ports(1)
        config = uvicorn.Config(Application(client), "127.0.0.1", self.port, log_config=None, lifespan="off")
        self.server = uvicorn.Server(config)

    async def __aenter__(self) -> Gateway:
        self._task = asyncio.create_task(self.server.serve())
        while not self.server.started:
            await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.server.force_exit = True
        await self._task

    async def open(self, head: str, body: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter, int]:
        """Send a request; what follows its head, and the status."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        text = f"{head}\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(text.replace(" HTTP", " HTTP/1.1", 1).encode() + body)
        status = int((await reader.readline()).split()[1])
        while (await reader.readline()).strip():
            pass
        return reader, writer, status

    async def ask(self, head: str, body: bytes = b"") -> tuple[int, dict[str, Any]]:
        reader, writer, status = await self.open(head, body)
        answer = json.loads(await reader.read())
        writer.close()
        return status, answer


def test_a_gateway_publishes_once_and_follows_from_an_offset() -> None:
    async def main() -> None:
        configuration = with_clients()
        async with (
            open_cluster(configuration),
            ordercast.connect(where(configuration), insecure=True) as client,
            Gateway(client) as gateway,
        ):
            assert (await gateway.ask("GET /health HTTP"))[0] == 200
            first = await gateway.ask("POST /groups/g/messages HTTP\r\nIdempotency-Key: 17", b"pay")
            again = await gateway.ask("POST /groups/g/messages HTTP\r\nIdempotency-Key: 17", b"pay")
            assert (first[0], first[1]["offset"], first[1]["repeated"]) == (201, 0, False)
            assert (again[0], again[1]["offset"], again[1]["repeated"]) == (200, 0, True)
            assert (await gateway.ask("POST /groups/g/messages HTTP", b"two"))[1]["offset"] == 1
            for head in ("GET /groups/g/events?from=0 HTTP", "GET /groups/g/events HTTP\r\nLast-Event-ID: 0"):
                reader, writer, status = await gateway.open(head)
                assert status == 200
                events = ""
                while '"two"' not in events:
                    events += (await reader.readline()).decode()
                assert ('"pay"' in events) == ("from" in head)
                assert "id: 1\n" in events
                writer.close()
            assert (await gateway.ask("POST /groups/h/messages HTTP", b"x"))[0] == 400
            assert (await gateway.ask("GET /groups/g/events?from=x HTTP"))[0] == 400
            large = bytes(BODY_BYTES_MAX + 1)
            assert (await gateway.ask("POST /groups/g/messages HTTP", large))[0] == 413

    run(main())


def test_a_gateway_without_members_says_so_in_one_line(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    (tmp_path / "c.toml").write_text(
        f'cluster = "c"\nprotocol = "sequencer"\ninsecure = true\n[processes]\na = "127.0.0.1:{port}"\n'
        f'[groups]\ng = ["a"]\n'
    )
    done = subprocess.run(
        [sys.executable, "-c", RUN_ORDERCAST, "gateway", "--config", str(tmp_path / "c.toml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "has no [clients]" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_gateway_ends_in_good_order_and_tells_its_followers(tmp_path: Path) -> None:
    process_port, client_port, port = free_ports(3)
    (tmp_path / "c.toml").write_text(
        f'cluster = "c"\nprotocol = "sequencer"\ninsecure = true\n[processes]\na = "127.0.0.1:{process_port}"\n'
        f'[groups]\ng = ["a"]\n[clients]\na = "127.0.0.1:{client_port}"\n'
    )
    words = [sys.executable, "-c", RUN_ORDERCAST, "gateway", "--config", str(tmp_path / "c.toml"), "--listen"]
    with ordercast.open_synchronous(tmp_path / "c.toml", "a") as node:
        node.join("g").multicast(b"x", confirm=True)
        command = [*words, f"127.0.0.1:{port}", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as gateway:
            assert gateway.stdout is not None
            assert json.loads(gateway.stdout.readline()) == {"listen": f"127.0.0.1:{port}", "member": "a"}
            # It listens when it says so.
            with urlopen(f"http://127.0.0.1:{port}/groups/g/events?from=0") as followed:
                while not followed.readline().startswith(b"data"):
                    pass
                taken = subprocess.run(
                    [*words, f"127.0.0.1:{port}"], capture_output=True, text=True, check=False, timeout=60
                )
                gateway.send_signal(signal.SIGTERM)
                assert b'event: end\ndata: {"why": "the gateway is closing"}' in followed.read()
            assert (gateway.wait(), gateway.communicate()) == (0, ("", ""))
    assert taken.returncode == 2
    assert f"cannot listen on 127.0.0.1:{port} (Address already in use)" in taken.stderr
    assert taken.stderr.count("\n") == 1
