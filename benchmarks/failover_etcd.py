"""A member of an etcd cluster under load, for failover.py: a server of its own, and a client that writes through it.

    python benchmarks/failover_etcd.py FOLDER NAME RATE

It tells the same as a member of ours: silences between two writes that were acknowledged, who leads, and how far it is.
"""

from __future__ import annotations

import base64
import http.client
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

GAP_SECONDS = 0.03
TELL_SECONDS = 0.1
ANSWER_SECONDS = 0.2
"""A write that is not answered by then is tried again: what a dead leader had taken is never answered, and the wait for
that is not etcd's."""
NAMES = ("p0", "p1", "p2")


def write_ports(folder: Path, ports: list[int]) -> None:
    """Where each member talks with its client, and with the others."""
    pairs = zip(ports[::2], ports[1::2], strict=True)
    (folder / "ports.json").write_text(json.dumps(dict(zip(NAMES, pairs, strict=True))))


def start_server(folder: Path, name: str) -> subprocess.Popen[bytes]:
    """The server; its data stays when it is killed."""
    ports = json.loads((folder / "ports.json").read_text())
    clients, peers = ports[name]
    cluster = ",".join(f"{each}=http://127.0.0.1:{both[1]}" for each, both in ports.items())
    client, peer = f"http://127.0.0.1:{clients}", f"http://127.0.0.1:{peers}"
    arguments = ["--name", name, "--data-dir", str(folder / name), "--initial-cluster", cluster]
    arguments += ["--listen-client-urls", client, "--advertise-client-urls", client]
    arguments += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--logger", "zap"]
    return subprocess.Popen(["etcd", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Client:
    """Writes one key after the other, as fast as the rate allows, through one server."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: http.client.HTTPConnection | None = None

    def call(self, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        """The answer; None where there is none, or it is a refusal."""
        if self._connection is None:
            self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_SECONDS)
        try:
            self._connection.request("POST", path, json.dumps(body))
            response = self._connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError):
            self._connection.close()
            self._connection = None
            return None
        return answer if response.status == 200 else None


def tell(document: dict[str, Any]) -> None:
    """One line to whoever measures."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def report(port: int, counted: list[int]) -> None:
    """Who leads, from time to time."""
    client = Client(port)
    while True:
        status = client.call("/v3/maintenance/status", {})
        if status is not None:
            leads = status.get("leader", "") == status["header"]["member_id"]
            epoch = int(status.get("raftTerm", 0))
            tell({"leads": leads, "epoch": epoch, "delivered": counted[0], "offset": 0})
        time.sleep(TELL_SECONDS)


def main() -> None:
    """Until it is killed, and its server with it."""
    folder, name, rate = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    start_server(folder, name)
    port = json.loads((folder / "ports.json").read_text())[name][0]
    counted = [0]
    threading.Thread(target=report, args=(port, counted), daemon=True).start()
    client = Client(port)
    body = {"key": base64.b64encode(name.encode()).decode(), "value": base64.b64encode(bytes(100)).decode()}
    last = due = time.monotonic()
    while True:
        if client.call("/v3/kv/put", body) is None:
            time.sleep(0.005)
            continue
        now = time.monotonic()
        if now - last > GAP_SECONDS:
            tell({"gap": [last, now]})
        last = now
        counted[0] += 1
        due = max(due + 1 / rate, now - 0.1)
        time.sleep(max(0.0, due - now))


if __name__ == "__main__":
    main()
