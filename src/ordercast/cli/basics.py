"""The work of `ordercast config` and `ordercast key`, for which the core installation is enough: whoever prepares a
machine needs a key and a configuration before anything else."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

import ordercast
from ordercast.cli.starter import discovery_text, members_text, starter_text
from ordercast.core import UsageError
from ordercast.node.addresses import show_address
from ordercast.node.advice import find_warnings
from ordercast.node.configuration import (
    CONTROL_SCHEME,
    Configuration,
    check_name,
    check_process,
    read_configuration,
    read_with_origins,
)
from ordercast.node.control import ask_once
from ordercast.node.layers import KEYS, Origin
from ordercast.node.tuning import live_options
from ordercast.protocols import find_protocol
from ordercast.wire.keys import create_key_file, fingerprint, read_keys

FIRST_PORT = 7001
PROCESSES = 3
PROCESSES_MAX = 64
"""More than one machine has a use for."""
MAJORITY_PROCESSES_MIN = 3
"""With so many, most are left when one is gone."""


# ---------------------------------------------------------------------- keys
def make_key(file: Path, as_json: bool) -> int:
    """A new cluster key, in a file that only its owner can read."""
    key = create_key_file(file)
    if as_json:
        print(json.dumps({"key_file": str(file), "fingerprint": fingerprint(key)}))
    else:
        print(f"{file}: a new cluster key, for your eyes only (fingerprint {fingerprint(key)})")
    return 0


def reload_key(config: Path, process: str, as_json: bool) -> int:
    """Let a running node read its key file again."""
    keys = ordercast.run(ask_once(control_path(config, process), {"command": "reload-keys"}))
    if as_json:
        print(json.dumps({"process": process} | keys))
    else:
        also = f", and also takes {keys['also_accepted']}" if keys["also_accepted"] else ""
        print(f"{process} seals with the key {keys['used']}{also}")
    return 0


def control_path(config: Path, process: str) -> Path:
    """Where the running node listens to commands; `UsageError` when the configuration does not say."""
    configuration = read_configuration(config, os.environ, {})
    try:
        check_process(configuration, process)
    except UsageError as error:
        raise UsageError(f"{config}: {error}") from None
    path = configuration.control_path(process)
    if path is None:
        raise UsageError(f'{config} has no `control`: add control = "unix:run/{{process}}.sock" and restart the node')
    return path


# ---------------------------------------------------------------------- a new configuration
def make_config(
    file: Path,
    processes: int,
    protocol: str | None,
    discovery: bool,
    cluster: str | None,
    port: int,
    insecure: bool,
    as_json: bool,
) -> int:
    """Write a configuration to start from, and a new cluster key beside it."""
    if not 1 <= processes <= PROCESSES_MAX:
        raise UsageError(f"--processes {processes}: 1 to {PROCESSES_MAX}")
    if port + processes - 1 > 65535:
        raise UsageError(f"--port {port}: {processes} processes need ports beyond 65535; begin with a lower one")
    key_file = None if insecure else file.with_suffix(".key")
    if file == key_file:
        raise UsageError(f"{file}: is the name of the key file; name the configuration {file.with_suffix('.toml')}")
    chosen = protocol or _usual_protocol(processes, discovery)
    find_protocol(chosen)
    check_name(cluster or file.stem)
    members = discovery_text() if discovery else members_text(processes, port)
    text = starter_text(cluster or file.stem, chosen, None if key_file is None else key_file.name, members)
    _create(file, text)
    try:
        # Checked like every other: the folder's path may be too long for sockets, say.
        read_configuration(file, {}, {})
        if key_file is not None:
            create_key_file(key_file)
    except BaseException:
        file.unlink()
        raise
    if as_json:
        print(json.dumps({"file": str(file), "key_file": None if key_file is None else str(key_file)}))
    else:
        key = "" if key_file is None else f", with its key in {key_file}"
        if discovery:
            print(f"{file}: a cluster whose processes find each other by multicast{key}")
            start = f"start a process by any name: ordercast node --config {file} --process NAME --group everyone"
        else:
            print(f"{file}: a cluster of {processes} on this machine{key}")
            start = f"start each process: ordercast node --config {file} --process node-1"
        print(start, file=sys.stderr)
    return 0


def _usual_protocol(processes: int, discovery: bool) -> str:
    """What goes on without any one process, where that can be: two processes have no majority without one of them."""
    if discovery:
        return "token"
    return "three-step" if processes >= MAJORITY_PROCESSES_MIN else "sequencer"


def _create(file: Path, text: str) -> None:
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise UsageError(f"{file} exists: name another file, or remove it") from None
    except OSError as error:
        raise UsageError(f"cannot write {file} ({error.strerror}): name a file in a folder of yours") from None


# ---------------------------------------------------------------------- one that there is
def validate_config(file: Path, as_json: bool) -> int:
    """Check a configuration and its key file; warn of what costs guarantees."""
    configuration = read_configuration(file, os.environ, {})
    if configuration.key_file is not None:
        try:
            read_keys(configuration.key_file)
        except UsageError as error:
            raise UsageError(f"{file}: key_file: {error}") from error
    warnings = find_warnings(configuration)
    if as_json:
        print(json.dumps({"file": str(file), "valid": True, "warnings": warnings}))
        return 0
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    who = (
        "processes that find each other"
        if configuration.discovery
        else f"processes {', '.join(configuration.addresses)}"
    )
    print(f"{file}: ok: {configuration.protocol}, {who}")
    return 0


def show_config(file: Path, as_json: bool) -> int:
    """Show every value that counts, and where it came from."""
    configuration, origins = read_with_origins(file, os.environ, {})
    values = plain_values(configuration)
    sources = {key: _source(key, origins) for key in KEYS}
    given = configuration.options
    option_sources = {name: sources["options"] if name in given else "default" for name in values["options"]}
    if as_json:
        sources_of_all: dict[str, Any] = sources | {"options": option_sources}
        print(json.dumps({"file": str(file), "values": values, "sources": sources_of_all}, indent=2))
        return 0
    rows = [("key", "value", "from")]
    for key, value in values.items():
        if isinstance(value, dict):
            for name, inner in value.items():
                rows.append(
                    (f"{key}.{name}", _shown(inner), option_sources[name] if key == "options" else sources[key])
                )
        else:
            rows.append((key, _shown(value), sources[key]))
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for key, shown, source in rows:
        print(f"{key:<{widths[0]}}   {shown:<{widths[1]}}   {source}")
    return 0


def plain_values(configuration: Configuration) -> dict[str, Any]:
    """Key -> the value that counts, as it could stand in a file; the protocol's options with those that are chosen."""
    options = live_options(
        find_protocol(configuration.protocol),
        dict(configuration.options),
        configuration.socket_buffer,
        configuration.queue_bytes,
        len(configuration.processes),
    )
    values = {key: getattr(configuration, key) for key in KEYS}
    for key in ("key_file", "log_directory", "trace_directory"):
        values[key] = None if values[key] is None else str(values[key])
    if configuration.control is not None:
        values["control"] = f"{CONTROL_SCHEME}{configuration.control}"
    if configuration.multicast is not None:
        values["multicast"] = show_address(configuration.multicast)
    if configuration.channel is not None:
        values["channel"] = show_address(configuration.channel)
    search = configuration.discovery
    if search is not None:
        values["discovery"] = {
            "multicast": None if search.multicast is None else show_address(search.multicast),
            "seeds": list(map(show_address, search.seeds)),
            "listen": None if search.listen is None else show_address(search.listen),
        }
    values["processes"] = {name: show_address(address) for name, address in configuration.processes.items()}
    values["added"] = {name: show_address(address) for name, address in configuration.added.items()}
    values["groups"] = {name: list(members) for name, members in configuration.groups.items()}
    values["options"] = msgspec.to_builtins(options)
    return values


def _source(key: str, origins: dict[str, Origin]) -> str:
    if key not in origins:
        return "default"
    origin = origins[key]
    return origin.where.removeprefix("environment: ") if origin.kind == "environment" else origin.kind


def _shown(value: Any) -> str:
    return "not set" if value is None else json.dumps(value, ensure_ascii=False)
