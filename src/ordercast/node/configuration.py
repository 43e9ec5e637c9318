"""The configuration of a cluster: one TOML file for all of its processes (docs/configuration.md).

Whatever is wrong is told in one line that names the file, the key, and what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from os.path import expanduser  # pathlib's raises where there is no such user
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from ordercast.core import Context, Contract, GroupId, Protocol, SiteId, UsageError
from ordercast.core.tables import nearest, rename_options, to_struct, to_value
from ordercast.node.addresses import HostPort, as_ip, parse_address, parse_listen, parse_multicast, show_address
from ordercast.node.layers import Layers, Origin, Source
from ordercast.node.searching import EXAMPLE, Search, read_search
from ordercast.node.tuning import live_options
from ordercast.protocols import PROTOCOL_NAMES, find_protocol

CONTROL_SCHEME = "unix:"
PLACE_OF_PROCESS = "{process}"
SOCKET_PATH_BYTES_MAX = 103
"""What the address of a Unix socket holds on every system (macOS; Linux: 107)."""
NAME_CHARACTERS_MAX = 64
EVERYWHERE = ("0.0.0.0", "::")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the file of a cluster says, checked. Paths are absolute."""

    cluster: str
    """Its name: processes of another cluster are not listened to."""
    protocol: str
    processes: dict[SiteId, HostPort]
    """None where the processes find each other (`discovery`): whoever holds the key may come."""
    groups: dict[GroupId, tuple[SiteId, ...]]
    """Group -> its members, as they stand in the file."""
    added: dict[SiteId, HostPort] = {}
    """Processes that were added while the cluster ran. They are in no group of the file, and nobody has to agree on
    them: those who know of one talk with it."""
    clients: dict[SiteId, HostPort] = {}
    """Process -> where it listens for clients, by TCP."""
    metrics: dict[SiteId, HostPort] = {}
    """Process -> where it shows its figures, by HTTP."""
    discovery: Search | None = None
    options: dict[str, Any] = {}
    """What is set of the protocol's own options, in their types."""
    key_file: Path | None = None
    """None means insecure, which somebody has asked for by name."""
    insecure: bool = False
    log_directory: Path | None = None
    trace_directory: Path | None = None
    control: str | None = None
    """The path of the socket for commands, with `{process}` in it."""
    max_datagram: int = 65000
    """Nearly what UDP carries: the loopback and every network fragment it. 1450 where fragments are lost."""
    multicast: HostPort | None = None
    interface: str | None = None
    channel: HostPort | None = None
    """Where the hub is, for protocols that need one channel (`ordercast hub`)."""
    socket_buffer: int = 1 << 23
    """Over a hundred of the largest datagrams may wait in the kernel while the process is busy."""
    busy_poll: int = 200
    """Microseconds for which a process looks for the next datagram before it sleeps: time of a processor for time of a
    message. The default is about what a message takes through the sequencer, and what Linux itself polls for in a
    virtual machine before it halts the processor."""
    retain_bytes: int = 1 << 27
    """Log that is kept for a restarted application: 128 MiB are read back in about a second."""
    payload_max: int = 1 << 26
    """A payload is held in memory whole at every member."""
    queue_bytes: int = 1 << 26
    """Deliveries that wait for an application which is slower than the group."""
    history_bytes: int = 1 << 24
    """Of each group's last deliveries, for whoever looks at the node through its control socket: some hundred thousand
    small messages."""

    @property
    def contract(self) -> Contract:
        """What holds with the options that are configured."""
        promised = find_protocol(self.protocol).contract
        return promised.with_options(promised.options(**self.options))

    def is_looked_at(self, process: SiteId) -> bool:
        """Whether others ask the process for what it has delivered: commands, or clients."""
        return self.control is not None or process in self.clients

    def agreed(self) -> dict[str, Any]:
        """What the greetings and the logs of all processes must agree on (see `ordercast.core.agreement`). Where a
        process is, and what only tunes it, may change with a restart of one process after the other."""
        kind = find_protocol(self.protocol).contract.options
        options = msgspec.to_builtins(kind(**self.options))
        return {
            "protocol": self.protocol,
            "[processes]": sorted(self.processes),
            **{f"[groups] {name}": sorted(members) for name, members in self.groups.items()},
            **{f"[options] {name}": options[name] for name in kind.shared},
        }

    @property
    def addresses(self) -> dict[SiteId, HostPort]:
        """Where each process is that the file names."""
        return self.processes | self.added

    @property
    def client_addresses(self) -> dict[SiteId, HostPort]:
        """Where clients reach each process: where it listens, and at its own host where it listens everywhere."""
        own = self.addresses
        return {
            name: (own[name][0], port) if name in own and host in EVERYWHERE else (host, port)
            for name, (host, port) in self.clients.items()
        }

    def log_folder(self, process: SiteId) -> Path | None:
        """Where one process has its log; None for none."""
        return None if self.log_directory is None else self.log_directory / process

    def control_path(self, process: SiteId) -> Path | None:
        """The socket by which commands reach a process; None for none."""
        return None if self.control is None else Path(self.control.replace(PLACE_OF_PROCESS, process))


class Range(msgspec.Struct, frozen=True):
    """The whole numbers that a key may have, and why not others."""

    low: int
    high: int
    reason: str


RANGES: dict[str, Range] = {
    "max_datagram": Range(1200, 65000, "less does not hold a handshake, more is not carried by UDP"),
    "socket_buffer": Range(1 << 16, 1 << 30, "less does not hold one datagram"),
    "busy_poll": Range(0, 10_000_000, "it is a number of microseconds, up to ten seconds"),
    "retain_bytes": Range(0, 1 << 50, "it is a number of bytes"),
    "payload_max": Range(1, 1 << 32, "payloads are held in memory"),
    "history_bytes": Range(1, 1 << 40, "deliveries are held in memory"),
    "queue_bytes": Range(1, 1 << 40, "deliveries are held in memory"),
}
_REQUIRED = {
    "cluster": 'cluster = "NAME"',
    "protocol": 'protocol = "three-step", or another of `ordercast protocols`',
}
_REQUIRED_OF_CONFIGURED = {
    "processes": f'a table [processes] with lines NAME = "HOST:PORT", or {EXAMPLE}',
    "groups": 'a table [groups] with lines NAME = ["PROCESS", …]',
}
_NOT_WITH_DISCOVERY = {
    "processes": "name the processes in [processes], or let them find each other; keep one of the two",
    "added": "whoever holds the key may come; take [added] away",
    "groups": "groups come into being when they are joined; take [groups] away",
    "multicast": "write it in [discovery]",
    "channel": "a hub serves the processes that a file names; take it away",
}


def read_configuration(source: Source, environment: Mapping[str, str], overrides: Mapping[str, Any]) -> Configuration:
    """The configuration in a file (or a mapping of its keys), with what overrules it; any flaw is a `UsageError`."""
    return read_with_origins(source, environment, overrides)[0]


def read_with_origins(
    source: Source, environment: Mapping[str, str], overrides: Mapping[str, Any]
) -> tuple[Configuration, dict[str, Origin]]:
    """The configuration, and where each key that is set came from."""
    return _Reader(Layers(source, environment, overrides)).read()


class _Reader:
    """One check for each key."""

    def __init__(self, layers: Layers) -> None:
        self._name = layers.name
        self._values = layers.values
        self._origins = layers.origins
        self._where = layers.where

    def read(self) -> tuple[Configuration, dict[str, Origin]]:
        is_open = "discovery" in self._values
        for key, what in (_REQUIRED if is_open else _REQUIRED | _REQUIRED_OF_CONFIGURED).items():
            if key not in self._values:
                raise UsageError(f"{self._name}: the key {key!r} is missing; add {what}")
        protocol = self._checked("protocol", find_protocol)
        search = self._discovery() if is_open else None
        processes = {} if is_open else self._processes()
        groups = {} if is_open else self._groups(processes)
        numbers = {key: self._number(key, RANGES[key]) for key in RANGES if key in self._values}
        options = self._options(
            protocol,
            processes,
            groups,
            numbers.get("socket_buffer", _DEFAULTS.socket_buffer),
            numbers.get("queue_bytes", _DEFAULTS.queue_bytes),
        )
        contract = protocol.contract.with_options(protocol.contract.options(**options))
        values: dict[str, Any] = {
            "cluster": self._checked("cluster", check_name),
            "protocol": protocol.contract.name,
            "processes": processes,
            "groups": groups,
            "added": {} if is_open else self._added(contract, processes),
            "clients": self._listening("clients", processes),
            "metrics": self._listening("metrics", processes),
            "discovery": search,
            "options": options,
            **numbers,
            **{key: self._path(key) for key in ("log_directory", "trace_directory") if key in self._values},
            **self._sealing(),
        }
        if "control" in self._values:
            values["control"] = self._control(processes | values["added"])
        if "multicast" in self._values:
            values["multicast"] = self._checked("multicast", parse_multicast)
            self._check_family(processes | values["added"])
        if "channel" in self._values:
            values["channel"] = self._checked("channel", parse_address)
        if "interface" in self._values:
            values["interface"] = self._checked("interface", _check_interface)
        configuration = Configuration(**values)
        if configuration.queue_bytes < configuration.payload_max:
            raise UsageError(
                f"{self._where('queue_bytes')}: {configuration.queue_bytes} does not hold one payload of payload_max = "
                f"{configuration.payload_max} bytes; raise the one or lower the other"
            )
        return configuration, self._origins

    def _checked(self, key: str, check: Callable[[str], Any]) -> Any:
        """A text that a function makes something of, or refuses."""
        text = to_value(self._values[key], str, self._where(key))
        try:
            return check(text)
        except UsageError as error:
            raise UsageError(f"{self._where(key)}: {error}") from error

    def _number(self, key: str, allowed: Range) -> int:
        number: int = to_value(self._values[key], int, self._where(key))
        if not allowed.low <= number <= allowed.high:
            raise UsageError(
                f"{self._where(key)}: {number} is not from {allowed.low} to {allowed.high} ({allowed.reason}); "
                f"leave it out for {getattr(_DEFAULTS, key)}"
            )
        return number

    def _path(self, key: str) -> Path:
        value = self._values[key]
        text: str = to_value(str(value) if isinstance(value, Path) else value, str, self._where(key))
        if not text or "\0" in text:
            raise UsageError(f"{self._where(key)}: {text!r} is no path; name one, or leave {key} out")
        return self._origins[key].folder / expanduser(text)

    def _sealing(self) -> dict[str, Any]:
        """Exactly one of key_file and insecure: nobody runs without sealing by forgetting something."""
        insecure = to_value(self._values.get("insecure", False), bool, self._where("insecure"))
        if "key_file" not in self._values:
            if not insecure:
                raise UsageError(
                    f"{self._name}: neither key_file nor insecure is set; make a key with `ordercast key new` and name "
                    f"it with key_file, or write insecure = true to send everything in the clear"
                )
            return {"insecure": True}
        if insecure:
            raise UsageError(f"{self._where('insecure')}: there is a key_file too; keep one of the two")
        return {"key_file": self._path("key_file")}

    def _control(self, processes: Mapping[SiteId, HostPort]) -> str:
        where = self._where("control")
        text: str = to_value(self._values["control"], str, where)
        rest = text.removeprefix(CONTROL_SCHEME)
        if rest == text or not rest or "\0" in rest:
            raise UsageError(f'{where}: {text!r} is no Unix socket; write "unix:run/{PLACE_OF_PROCESS}.sock"')
        if re.search(r"[{}]", rest.replace(PLACE_OF_PROCESS, "")):
            raise UsageError(f"{where}: {text!r} has braces; only {PLACE_OF_PROCESS} is replaced")
        if PLACE_OF_PROCESS not in rest and len(processes) != 1:
            raise UsageError(f"{where}: is the same for every process; write {PLACE_OF_PROCESS} into it")
        template = str(self._origins["control"].folder / expanduser(rest))
        for process in processes:
            _check_socket_path(template, process, where)
        return template

    def _discovery(self) -> Search:
        for key, what in _NOT_WITH_DISCOVERY.items():
            if key in self._values:
                raise UsageError(f"{self._where(key)}: there is a table [discovery] too; {what}")
        return read_search(self._values["discovery"], self._where_discovery)

    @property
    def _where_discovery(self) -> str:
        return f"{self._where('discovery').removesuffix('discovery')}[discovery]"

    def _check_open(self, contract: Contract) -> None:
        """Whether a protocol, with its options, can do without a file that lists the processes."""
        if not contract.dynamic:
            dynamic = [name for name in PROTOCOL_NAMES if _can_be_open(find_protocol(name))]
            raise UsageError(
                f"{self._where_discovery}: {contract.name} has the processes and groups of a file; name them in "
                f"[processes] and [groups], or take a protocol whose processes come and go: {', '.join(dynamic)}"
            )
        if contract.another_process and "log_directory" in self._values:
            raise UsageError(
                f"{self._where('log_directory')}: whoever starts again is another process to {contract.name}, and has "
                f"no use for a log; take log_directory away"
            )

    def _processes(self) -> dict[SiteId, HostPort]:
        processes = self._addresses("processes", {})
        if not processes:
            where = f"{self._where('processes').removesuffix('processes')}[processes]"
            raise UsageError(f"{where}: is empty; name at least one process and its address")
        return processes

    def _added(self, contract: Contract, processes: Mapping[SiteId, HostPort]) -> dict[SiteId, HostPort]:
        if "added" not in self._values:
            return {}
        added = self._addresses("added", processes)
        if added and not contract.dynamic:
            where = f"{self._where('added').removesuffix('added')}[added]"
            raise UsageError(
                f"{where}: {contract.name} has the processes of [processes]; to have others, stop all and "
                f"begin anew with another log_directory"
            )
        return added

    def _addresses(self, key: str, others: Mapping[SiteId, HostPort]) -> dict[SiteId, HostPort]:
        where = f"{self._where(key).removesuffix(key)}[{key}]"
        table: dict[str, Any] = to_value(self._values[key], dict[str, Any], where)
        processes: dict[SiteId, HostPort] = {}
        taken = {address: name for name, address in others.items()}
        for name, value in table.items():
            if name in others:
                raise UsageError(f"{where}: {name} stands in [processes], too; name it once")
            try:
                check_name(name)
            except UsageError as error:
                raise UsageError(f"{where}: {error}") from error
            text = to_value(value, str, f"{where}: {name}")
            try:
                address = parse_address(text)
            except UsageError as error:
                raise UsageError(f"{where}: {name}: {error}") from error
            if address in taken:
                raise UsageError(f"{where}: {name}: {text} is the address of {taken[address]} too; give each its own")
            taken[address] = name
            processes[name] = address
        together = (*others.values(), *processes.values())
        versions = {literal.version for host, _ in together if (literal := as_ip(host)) is not None}
        if len(versions) > 1:
            raise UsageError(f"{where}: IPv4 and IPv6 addresses are mixed; write all of them in one family")
        return processes

    def _listening(self, key: str, processes: Mapping[SiteId, HostPort]) -> dict[SiteId, HostPort]:
        """Where processes listen beside their own address. It may be the same for all that are on machines of their
        own."""
        where = f"{self._where(key).removesuffix(key)}[{key}]"
        table: dict[str, Any] = to_value(self._values.get(key, {}), dict[str, Any], where)
        known = {*processes, *to_value(self._values.get("added", {}), dict[str, Any], where)}
        listening: dict[SiteId, HostPort] = {}
        for name, value in table.items():
            if known and name not in known:
                raise UsageError(f"{where}: there is no process {name!r}; {nearest(name, known)}")
            text = to_value(value, str, f"{where}: {name}")
            try:
                listening[check_name(name)] = parse_listen(text)
            except UsageError as error:
                raise UsageError(f"{where}: {name}: {error}") from error
        return listening

    def _groups(self, processes: Mapping[SiteId, HostPort]) -> dict[GroupId, tuple[SiteId, ...]]:
        where = f"{self._where('groups').removesuffix('groups')}[groups]"
        table: dict[str, Any] = to_value(self._values["groups"], dict[str, Any], where)
        if not table:
            raise UsageError(f"{where}: is empty; name at least one group and its members")
        groups: dict[GroupId, tuple[SiteId, ...]] = {}
        for name, value in table.items():
            try:
                check_group_name(name)
            except UsageError as error:
                raise UsageError(f"{where}: {error}") from error
            members: tuple[SiteId, ...] = to_value(value, tuple[str, ...], f"{where}: {name}")
            if not members:
                raise UsageError(f"{where}: {name} has no members; name at least one process")
            for member in members:
                if member not in processes:
                    raise UsageError(f"{where}: {name}: there is no process {member!r}; {nearest(member, processes)}")
                if members.count(member) > 1:
                    raise UsageError(f"{where}: {name}: has {member!r} twice; name it once")
            groups[name] = members
        return groups

    def _options(
        self,
        protocol: type[Protocol],
        processes: Mapping[SiteId, HostPort],
        groups: Mapping[GroupId, tuple[SiteId, ...]],
        socket_buffer: int,
        queue_bytes: int,
    ) -> dict[str, Any]:
        where = f"{self._where('options').removesuffix('options')}[options]"
        given = to_value(self._values.get("options", {}), dict[str, Any], where)
        given = (protocol.arrangement.listed if processes else protocol.arrangement.unlisted) | given
        table = rename_options(given, protocol.contract.options, where)
        sites = tuple(sorted(processes)) or ("process",)
        try:
            checked = to_struct(table, protocol.contract.options, where)
            given = {key: getattr(checked, key) for key in table}
            contract = protocol.contract.with_options(checked)
            if not processes:
                self._check_open(contract)
            # A protocol may refuse options that make no sense for these processes, or beside those that a node chooses
            # by itself: ask it before anything runs.
            options = live_options(protocol, given, socket_buffer, queue_bytes, len(processes))
            members = {group: tuple(sorted(names)) for group, names in groups.items()}
            stable = self._values.get("log_directory") is not None
            protocol(
                Context(site=sites[0], groups=members, sites=sites, options=options, random=Random(0), stable=stable)
            )
        except UsageError as error:
            text = str(error)
            is_told = text.startswith((where, self._name))
            raise UsageError(text if is_told else f"{where}: {text}") from error
        return given

    def _check_family(self, processes: Mapping[SiteId, HostPort]) -> None:
        for name, address in processes.items():
            literal = as_ip(address[0])
            if literal is not None and literal.version != 4:
                raise UsageError(
                    f"{self._where('multicast')}: is IPv4, and {name} has the address {show_address(address)}; leave "
                    f"multicast out, or give every process an IPv4 address"
                )


# A struct's defaults can only be seen on an instance.
_DEFAULTS = Configuration(cluster="", protocol="", processes={}, groups={})


def check_name(name: str) -> str:
    """Names of clusters and processes stand in file names, datagrams and tables."""
    if not _NAME.fullmatch(name) or len(name) > NAME_CHARACTERS_MAX:
        raise UsageError(
            f"{_shorten(name)!r} is no name; use at most {NAME_CHARACTERS_MAX} letters, digits, dots, - and _, "
            f"with a letter or digit first"
        )
    return name


def _can_be_open(protocol: type[Protocol]) -> bool:
    options = protocol.contract.options(**protocol.arrangement.unlisted)
    return protocol.contract.with_options(options).dynamic


def check_process(configuration: Configuration, process: SiteId) -> None:
    """`UsageError` when there can be no such process."""
    if configuration.discovery is None:
        if process not in configuration.addresses:
            known = ", ".join(sorted(configuration.addresses))
            raise UsageError(f"there is no process {process!r} in [processes]; known: {known}")
        return
    check_name(process)
    if configuration.control is not None:
        _check_socket_path(configuration.control, process, "control")


def _check_socket_path(template: str, process: SiteId, where: str) -> None:
    length = len(template.replace(PLACE_OF_PROCESS, process).encode())
    if length > SOCKET_PATH_BYTES_MAX:
        raise UsageError(
            f"{where}: the path has {length} bytes for the process {process!r}, and a Unix socket's has "
            f"{SOCKET_PATH_BYTES_MAX} at the most; name a folder with a shorter path"
        )


def _shorten(name: str) -> str:
    """For a message of one line."""
    return name if len(name) <= NAME_CHARACTERS_MAX else f"{name[:NAME_CHARACTERS_MAX]}…"


def check_group_name(name: str) -> None:
    """Names of groups stand in datagrams and tables, and in a list with commas on a command line."""
    if not isinstance(name, str):
        raise TypeError(f"a group's name is a text, not {type(name).__name__}")
    if not name or not name.isprintable() or {" ", ","} & {*name} or len(name) > NAME_CHARACTERS_MAX:
        raise UsageError(
            f"{_shorten(name)!r} is no name; use at most {NAME_CHARACTERS_MAX} letters, digits and marks, "
            f"without blanks and commas"
        )


def _check_interface(text: str) -> str:
    literal = as_ip(text)
    if literal is None or literal.version != 4 or literal.is_multicast or literal.is_unspecified:
        raise UsageError(f"{text!r} is no IPv4 address of this machine; `ordercast doctor` lists them")
    return text
