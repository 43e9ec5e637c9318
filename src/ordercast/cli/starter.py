"""The configuration that `ordercast config new` writes: it works as it is, and says what can be changed."""

from __future__ import annotations

from ordercast.node.configuration import CONTROL_SCHEME, PLACE_OF_PROCESS, Configuration

_WAYS = """\
# multicast = "239.1.2.3:7000"    # IP multicast between machines; without it, each gets its own copy
# channel = "192.0.2.1:7000"    # of `ordercast hub`, for protocols that need one channel
"""

_DEFAULTS = Configuration(cluster="", protocol="", processes={}, groups={})


def members_text(processes: int, first_port: int) -> str:
    """So many processes on this machine, and the group of all of them."""
    names = [f"node-{number}" for number in range(1, processes + 1)]
    width = max(map(len, names))
    addresses = "\n".join(f'{name:<{width}} = "127.0.0.1:{first_port + index}"' for index, name in enumerate(names))
    members = ", ".join(f'"{name}"' for name in names)
    return f"""\
# Processes that come later are in [added] (`ordercast processes add`). Or nobody is named, and they find each other:
# [discovery] (`ordercast config new --discovery`).
[processes]    # name = "host:port", UDP
{addresses}

[groups]    # name = [its members]; any process may multicast to any group
everyone = [{members}]"""


def discovery_text() -> str:
    """How processes find each other that no file names."""
    return """\
[discovery]    # whoever holds the key may come; groups come into being when they are joined
multicast = "239.7.7.7:7500"    # where IP multicast reaches everybody
# seeds = ["192.0.2.1:7001"]    # elsewhere: some that are always there, and that know the others
# listen = "192.0.2.4:7001"    # by default an address of this machine and any free port"""


def starter_text(cluster: str, protocol: str, key_file: str | None, members: str) -> str:
    """A configuration with comments; `members` says which processes and groups there are, or how they are found."""
    ways = "" if members.startswith("[discovery]") else _WAYS
    sealing = 'insecure = true    # everything in the clear! Else: key_file = "FILE", made by `ordercast key new FILE`'
    if key_file is not None:
        sealing = f'key_file = "{key_file}"    # the same file at every process, and nobody else can read it'
    return f"""\
# A cluster of ordercast. The same file serves all of its processes. Every key: docs/configuration.md.
# Check it with `ordercast config validate FILE`, see what counts with `ordercast config show FILE`.

cluster = "{cluster}"
protocol = "{protocol}"    # `ordercast protocols` tells what each guarantees
{sealing}

# Relative paths are relative to this file. Each process has a folder of its own in these.
log_directory = "log"    # without it, a process that restarts has lost its history
# trace_directory = "trace"    # what happened, for `ordercast verify`
control = "{CONTROL_SCHEME}run/{PLACE_OF_PROCESS}.sock"    # how `ordercast send` and `tail` reach a running process

# max_datagram = {_DEFAULTS.max_datagram}    # 1450 on a network of 1500-byte packets
{ways}# interface = "192.0.2.1"    # for multicast; by default the one that the process' own address is on
# socket_buffer = {_DEFAULTS.socket_buffer}    # bytes
# busy_poll = {_DEFAULTS.busy_poll}    # microseconds awake after a datagram; more for fast answers, 0 for none
# retain_bytes = {_DEFAULTS.retain_bytes}    # of the log, for an application that restarts
# payload_max = {_DEFAULTS.payload_max}    # bytes of one message
# history_bytes = {_DEFAULTS.history_bytes}    # of each group's last deliveries, kept for ordercast tail and for Spark
# queue_bytes = {_DEFAULTS.queue_bytes}    # deliveries that may wait for the application

{members}

# [clients]    # name = "host:port", TCP: where a process listens for clients (docs/clients.md)
# [metrics]    # name = "host:port", HTTP: where a process shows /metrics and /health (docs/operations.md)

[options]    # of the protocol: `ordercast protocols {protocol}` lists them
"""
