"""The configuration of a cluster that is measured, in a folder of its own."""

from __future__ import annotations

import json
from pathlib import Path

from ordercast.bench.load import Load
from ordercast.net.ports import free_ports
from ordercast.wire.keys import key_text, new_key


def write_configuration(folder: Path, load: Load) -> Path:
    """Write it, with a new key and free ports; where it lies."""
    lines = ['cluster = "bench"', f'protocol = "{load.protocol}"']
    lines += [f"max_datagram = {load.max_datagram}", f"busy_poll = {load.busy_poll}"]
    if load.insecure:
        lines.append("insecure = true")
    else:
        key = folder / "bench.key"
        key.touch(mode=0o600)
        key.write_text(key_text(new_key()))
        lines.append('key_file = "bench.key"')
    if load.log:
        lines.append('log_directory = "log"')
    if load.one_channel:
        lines.append(f'channel = "127.0.0.1:{free_ports(1)[0]}"')
    if load.multicast:
        lines.append(f'multicast = "{load.multicast}"')
    lines.append("[processes]")
    places = load.place_of
    ports = free_ports(len(places))
    lines += [f'{name} = "{place.address}:{port}"' for (name, place), port in zip(places.items(), ports, strict=True)]
    lines += ["[groups]", *(f"{group} = {json.dumps(members)}" for group, members in load.groups.items())]
    lines += ["[options]", *load.options]
    path = folder / "bench.toml"
    path.write_text("\n".join(lines) + "\n")
    return path
