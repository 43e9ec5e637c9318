"""A fork of a process has none of its sockets."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path

import pytest

from tests.node.cluster import make_configuration
from tests.support import run_python

CODE = """
import asyncio, json, os, signal, sys, time
import ordercast

async def main():
    async with ordercast.open(json.loads(sys.argv[1]), "a") as node:
        heard, tell = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(tell, b"runs")
            for descriptor in range(3): os.close(descriptor)
            time.sleep(60)
            os._exit(0)
        print(child, flush=True)
        os.read(heard, 4)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def test_a_child_that_lives_on_keeps_neither_the_address_nor_the_control_socket(tmp_path: Path) -> None:
    """The process is killed; its child runs on; the process comes back."""
    configuration = make_configuration("ab", control=f"unix:{tmp_path}/{{process}}.sock")
    killed = run_python(CODE, json.dumps(configuration))
    assert killed.stdout, killed.stderr
    child = int(killed.stdout)
    try:
        host, port = configuration["processes"]["a"].split(":")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
            again.bind((host, int(port)))
        with socket.socket(socket.AF_UNIX) as command, pytest.raises(ConnectionRefusedError):
            command.connect(str(tmp_path / "a.sock"))
    finally:
        os.kill(child, signal.SIGKILL)
