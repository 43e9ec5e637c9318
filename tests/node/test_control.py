"""The control socket: every request is answered, nothing that is written into it fills the memory, nobody is waited for
who has gone."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.node import control
from tests.node.cluster import make_configuration, open_nodes, payloads, run


def _configuration(folder: Path, **keys: Any) -> dict[str, Any]:
    return make_configuration("a", control=f"unix:{folder}/{{process}}.sock", **keys)


async def _talk(path: Path, *lines: bytes) -> dict[str, Any]:
    """Write, then read one line of an answer."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    try:
        writer.write(b"".join(lines))
        writer.write_eof()
        return dict(json.loads(await reader.readline()))
    finally:
        writer.close()


SEND = b'{"command": "send", "groups": ["g"]}\n'


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\n",
        b"not JSON\n",
        b"\xff\xfe\n",
        b"[]\n",
        b"7\n",
        b"{}\n",
        b'{"command": "dance"}\n',
        b'{"command": 7}\n',
        b'{"command": "tail"}\n',
        b'{"command": "tail", "group": 7}\n',
        b'{"command": "tail", "group": "g", "from": "now"}\n',
        b'{"command": "tail", "group": "g", "from": 1.5}\n',
        b'{"command": "tail", "group": "g", "from": -1}\n',
        b'{"command": "tail", "group": "h"}\n',
        b'{"command": "send"}\n',
        b'{"command": "send", "groups": "g"}\n',
        b'{"command": "send", "groups": [7]}\n',
        b'{"command": "send", "groups": ["h"]}\n{"payload_base64": ""}\n',
        SEND,
        SEND + b'{"payload": "one"}\n',
        SEND + b'{"payload_base64": 7}\n',
        SEND + b'{"payload_base64": null}\n',
        SEND + b'{"payload_base64": "?"}\n',
        SEND + b'{"end": "yes"}\n',
        SEND + b'{"payload_base64": "b25l", "more": true}\n{"end": true}\n',
        SEND + b'{"payload_base64": "b25l"}\n',
        b"[" * 100_000 + b"\n",
        b'{"command": "status", "x": ' + b"[" * 100_000 + b"\n",
    ],
)
def test_a_malformed_request_is_answered_and_the_node_goes_on(tmp_path: Path, request_bytes: bytes) -> None:
    async def main() -> None:
        async with open_nodes(_configuration(tmp_path)):
            answer = await _talk(tmp_path / "a.sock", request_bytes)
            assert list(answer) == ["error"]
            assert "\n" not in answer["error"]
            assert (await _talk(tmp_path / "a.sock", b'{"command": "status"}\n'))["process"] == "a"

    run(main())


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_nodes(_configuration(tmp_path)):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "a.sock"))
            block = b"x" * (1 << 20)
            answer = asyncio.create_task(reader.readline())
            written = 0
            while not answer.done() and written < 256:
                writer.write(block)
                await writer.drain()
                written += 1
            assert "longer than" in json.loads(await answer)["error"]
            writer.close()
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB
            assert written < 256

    run(main())


def test_a_message_of_many_lines_arrives_whole_and_one_that_is_too_large_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        large = os.urandom(3 * control.PIECE_BYTES_MAX + 1)
        async with open_nodes(_configuration(tmp_path, payload_max=len(large))) as (node,):
            group = await node.join("g")
            path = tmp_path / "a.sock"
            sizes = (0, 1, control.PIECE_BYTES_MAX, control.PIECE_BYTES_MAX + 1, len(large))
            answer = await control.send(path, ["g"], (large[:size] for size in sizes))
            assert (answer["sent"], answer["ordered"], answer["offset"]) == (len(sizes), True, len(sizes) - 1)
            assert await payloads(group, len(sizes)) == [large[:size] for size in sizes]
            with pytest.raises(ordercast.UsageError, match="larger than payload_max"):
                await control.send(path, ["g"], iter([large + b"x"]))

    run(main())


def test_a_command_that_is_refused_early_stops_and_says_why(tmp_path: Path) -> None:
    """It has much more to say than sockets hold, and hears the reason all the same."""
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield bytes(1 << 18)

    async def main() -> None:
        async with open_nodes(_configuration(tmp_path)):
            with pytest.raises(ordercast.UsageError, match="'h'"):
                await control.send(tmp_path / "a.sock", ["h"], endless())

    run(main())
    assert taken < 1000


def test_a_tail_that_was_abandoned_in_a_silent_group_frees_its_descriptor(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_nodes(_configuration(tmp_path)):
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(20):
                _reader, writer = await control.ask(tmp_path / "a.sock", {"command": "tail", "group": "g"})
                writer.close()
                await writer.wait_closed()
            while len(os.listdir("/proc/self/fd")) > before:
                await asyncio.sleep(0)

    run(main())


def test_a_tail_that_does_not_read_does_not_keep_the_node_from_closing(tmp_path: Path) -> None:
    async def main() -> None:
        async with open_nodes(_configuration(tmp_path)) as (node,):
            group = await node.join("g")
            group.on_batch(lambda batch: None)
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "a.sock"), limit=1)
            writer.write(b'{"command": "tail", "group": "g", "from": 0}\n')
            for _ in range(64):
                await group.multicast(bytes(1 << 16))
            await node.flush()
            assert await reader.read(1)
        writer.close()

    run(main())


def test_only_the_owner_can_open_the_socket(tmp_path: Path) -> None:
    async def main() -> None:
        mask = os.umask(0)
        try:
            async with open_nodes(_configuration(tmp_path)):
                assert (tmp_path / "a.sock").stat().st_mode & 0o777 == 0o600
        finally:
            os.umask(mask)

    run(main())


def test_what_lies_in_the_socket_s_place_and_is_no_socket_stays(tmp_path: Path) -> None:
    (tmp_path / "a.sock").write_text("precious")

    async def main() -> None:
        with pytest.raises(ordercast.UsageError, match="is no socket"):
            await ordercast.open(_configuration(tmp_path), "a").__aenter__()

    run(main())
    assert (tmp_path / "a.sock").read_text() == "precious"


def test_a_payload_is_base64_in_a_line_that_the_bound_holds() -> None:
    assert len(base64.b64encode(bytes(control.PIECE_BYTES_MAX))) + 100 < control.LINE_BYTES_MAX
