"""`ordercast doctor`: what this machine has and lacks for ordercast. It sends on the loopback interface only."""

import json
import os
import platform
import secrets
import socket
import struct
import sys
from typing import Annotated, Any

import typer

import ordercast
from ordercast.cli.extras import CORE_MODULES, EXTRA_MODULES, is_installed, missing_modules, pip_line
from ordercast.cli.interfaces import list_interfaces
from ordercast.net.sockets import can_segment
from ordercast.node.loop import uvloop_is_installed
from ordercast.spark.java import OLDEST_VERSION, find_java

LOOPBACK = "127.0.0.1"
ANSWER_SECONDS_MAX = 1.0  # a datagram to oneself takes microseconds
BUFFER_WANTED_BYTES = 16 * 1024 * 1024  # more than any default limit, so that the limit shows
BUFFER_SMALL_BYTES = 1024 * 1024  # holds 16 datagrams of 65,000 bytes, the default max_datagram


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("doctor")(doctor)


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> None:
    """Tell what this machine has and lacks for ordercast: Python, Java, extras, multicast, ports, buffers, interfaces.

    Example: ordercast doctor --json
    """
    findings = examine()
    if as_json:
        print(json.dumps(findings, indent=2))
    else:
        _print_table(findings)


def examine() -> dict[str, Any]:
    """All findings, as the JSON document has them."""
    return {
        "ordercast": ordercast.__version__,
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "java": examine_java(),
        "core": {"missing": [module for module in CORE_MODULES if not is_installed(module)]},
        "extras": {extra: examine_extra(extra) for extra in EXTRA_MODULES},
        "multicast": examine_multicast(),
        "udp": examine_udp(),
        "buffers": examine_buffers(),
        "segmentation": examine_segmentation(),
        "event_loop": "uvloop" if uvloop_is_installed() else "asyncio",
        "interfaces": list_interfaces(),
    }


def examine_java() -> dict[str, Any]:
    java = find_java()
    if java is None:
        return {"found": False, "install": pip_line(["java"])}
    return {"found": True, "version": java.version, "home": str(java.home), "source": java.source}


def examine_extra(extra: str) -> dict[str, Any]:
    missing = missing_modules(extra)
    return {"installed": not missing, "missing": missing, "install": pip_line([extra])}


def examine_multicast() -> dict[str, Any]:
    """Join a multicast group on the loopback interface and send a datagram to it."""
    group = f"239.255.{secrets.randbelow(254) + 1}.{secrets.randbelow(254) + 1}"
    token = secrets.token_bytes(16)
    membership = struct.pack("4s4s", socket.inet_aton(group), socket.inet_aton(LOOPBACK))
    try:
        with _udp_socket() as receiver, _udp_socket() as sender:
            receiver.bind(("", 0))
            receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
            receiver.settimeout(ANSWER_SECONDS_MAX)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(LOOPBACK))
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
            sender.sendto(token, (group, receiver.getsockname()[1]))
            while receiver.recv(64) != token:  # a stranger's datagram
                pass
    except OSError as error:
        return {"works": False, "group": group, "why": _why(error)}
    return {"works": True, "group": group}


def examine_udp() -> dict[str, Any]:
    """Bind a port on the loopback interface and send a datagram to it."""
    token = secrets.token_bytes(16)
    try:
        with _udp_socket() as receiver, _udp_socket() as sender:
            receiver.bind((LOOPBACK, 0))
            receiver.settimeout(ANSWER_SECONDS_MAX)
            sender.sendto(token, receiver.getsockname())
            while receiver.recv(64) != token:
                pass
    except OSError as error:
        return {"works": False, "why": _why(error)}
    return {"works": True}


def examine_buffers() -> dict[str, Any]:
    """How large socket buffers may get, which bounds the burst that a receiver survives."""
    try:
        with _udp_socket() as endpoint:
            return {
                "receive_bytes": _largest_buffer(endpoint, socket.SO_RCVBUF),
                "send_bytes": _largest_buffer(endpoint, socket.SO_SNDBUF),
            }
    except OSError as error:
        return {"receive_bytes": None, "send_bytes": None, "why": _why(error)}


def examine_segmentation() -> dict[str, Any]:
    """Whether the kernel cuts one buffer into many datagrams, which makes small datagrams cheap."""
    try:
        with _udp_socket() as endpoint:
            return {"works": can_segment(endpoint)}
    except OSError:
        return {"works": False}


def _largest_buffer(endpoint: socket.socket, which: int) -> int:
    wanted = BUFFER_WANTED_BYTES
    while True:
        try:
            endpoint.setsockopt(socket.SOL_SOCKET, which, wanted)
            break
        except OSError:  # Linux grants less than was asked for, other systems refuse
            wanted //= 2
            if wanted < 1024:
                raise
    granted = endpoint.getsockopt(socket.SOL_SOCKET, which)
    return granted // 2 if sys.platform == "linux" else granted  # Linux counts its own bookkeeping, as much again


def _udp_socket() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def _why(error: OSError) -> str:
    return "nothing came back" if isinstance(error, TimeoutError) else (error.strerror or str(error))


def _print_table(findings: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title="ordercast doctor", title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, fine, text in _rows(findings):
        table.add_row("ok" if fine else "--", Text(name), Text(text), style=None if fine else "yellow")
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def _rows(findings: dict[str, Any]) -> list[tuple[str, bool, str]]:
    """(what, whether it is there, in words)."""
    python, java, core = findings["python"], findings["java"], findings["core"]
    rows = [
        ("ordercast", not core["missing"], findings["ordercast"] + _missing(core["missing"], "pip install ordercast")),
        ("Python", True, f"{python['version']} ({python['executable']})"),
        (
            "Java",
            java["found"],
            f"{java['version']} from {java['source']} ({java['home']})"
            if java["found"]
            else f"none from {OLDEST_VERSION} on, which Spark needs: {java['install']}",
        ),
    ]
    for extra, state in findings["extras"].items():
        words = "installed" if state["installed"] else "not installed" + _missing(state["missing"], state["install"])
        rows.append((f"extra [{extra}]", state["installed"], words))
    multicast, udp, buffers = findings["multicast"], findings["udp"], findings["buffers"]
    rows.append(
        (
            "IP multicast",
            multicast["works"],
            "works on the loopback interface"
            if multicast["works"]
            else f"does not work on the loopback interface ({multicast['why']}): ordercast sends unicast instead",
        )
    )
    rows.append(
        (
            "UDP",
            udp["works"],
            f"ports can be bound on {LOOPBACK}" if udp["works"] else f"does not work on {LOOPBACK}: {udp['why']}",
        )
    )
    receive, send = buffers["receive_bytes"], buffers["send_bytes"]
    if receive is None:
        rows.append(("socket buffers", False, buffers["why"]))
    else:
        roomy = receive >= BUFFER_SMALL_BYTES
        words = f"at most {receive // 1024} KiB to receive, {send // 1024} KiB to send"
        rows.append(("socket buffers", roomy, words if roomy else f"{words}; {_how_to_grow()}"))
    segmented = findings["segmentation"]["works"]
    words = "the kernel cuts buffers into datagrams" if segmented else "the kernel takes datagrams one by one: slower"
    rows.append(("UDP segmentation", segmented, f"{words} (matters when max_datagram is small)"))
    fast = findings["event_loop"] == "uvloop"
    rows.append(("event loop", fast, "uvloop" if fast else f"asyncio's own, at half the speed: {pip_line(['fast'])}"))
    for interface in findings["interfaces"]:
        if interface.get("address"):
            able = "can multicast" if interface["multicast"] else "cannot multicast"
            words = f"{interface['address']}, MTU {interface['mtu']}, {able}{'' if interface['up'] else ', down'}"
            rows.append((f"interface {interface['name']}", interface["up"], words))
    return rows


def _missing(modules: list[str], install: str) -> str:
    return f": {', '.join(modules)} missing: {install}" if modules else ""


def _how_to_grow() -> str:
    if sys.platform == "linux" and os.path.exists("/proc/sys/net/core/rmem_max"):
        return f"bursts are lost sooner than need be: sysctl -w net.core.rmem_max={BUFFER_WANTED_BYTES}"
    return "bursts are lost sooner than need be: raise the system's limit"
