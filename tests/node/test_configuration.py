"""Configurations: what is read from where, and that every bad one ends in one line that says what to do."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ordercast.cli import main
from ordercast.core import UsageError
from ordercast.node.advice import find_warnings
from ordercast.node.configuration import RANGES, Configuration, read_configuration, read_with_origins
from ordercast.node.layers import KEYS
from ordercast.wire.keys import create_key_file, read_keys
from tests.support import run_ordercast, run_python

GOOD = """
cluster = "bank"
protocol = "sequencer"
key_file = "bank.key"
log_directory = "log"
control = "unix:run/{process}.sock"
[processes]
main-1 = "127.0.0.1:7001"
main-2 = "127.0.0.1:7002"
branch-1 = "localhost:7003"
[groups]
accounts = ["main-1", "main-2"]
rates = ["main-1", "main-2", "branch-1"]
[options]
window_messages = 32
"""


BARE = """
cluster = "c"
protocol = "token"
insecure = true
processes = {{a = "a:1"}}
groups = {{g = ["a"]}}
{}
"""
"""Nothing but what is required, in one line each."""


def changed(old: str, new: str, text: str = GOOD) -> str:
    assert old in text
    return text.replace(old, new, 1)


def key(line: str) -> str:
    """One more key at the top level."""
    return f"{line}\n{GOOD}"


def process(address: str) -> str:
    return changed('"127.0.0.1:7002"', f'"{address}"')


BAD: dict[str, tuple[str, list[str]]] = {
    # the file
    "broken-toml": (changed('cluster = "bank"', "cluster = "), ["is not valid TOML", "line 2"]),
    "open-bracket": (changed("[groups]", "[groups"), ["is not valid TOML"]),
    "key-twice": (changed('cluster = "bank"', 'cluster = "bank"\ncluster = "shop"'), ["is not valid TOML", "line 3"]),
    "thousand-brackets": ("x = " + "[" * 5000, ["is not valid TOML"]),
    "number-beyond-measure": (key("max_datagram = " + "9" * 6000), ["is not valid TOML"]),
    "empty-file": ("", ["the key 'cluster' is missing; add cluster ="]),
    # keys
    "unknown-key": (changed("protocol", "protocoll"), ["unknown key 'protocoll'", "did you mean 'protocol'?"]),
    "unknown-key-far-off": (key("xyz = 1"), ["unknown key 'xyz'", "known: cluster, protocol"]),
    "unknown-table": (changed("[options]", "[option]"), ["unknown key 'option'", "did you mean 'options'?"]),
    "unknown-option": (
        changed("window_messages", "window_mesage"),
        ["[options]", "'window_mesage'", "did you mean 'window_messages'?"],
    ),
    "option-of-another-protocol": (
        changed("window_messages = 32", "phi_n = 1.0"),
        ["[options]", "unknown key 'phi_n'"],
    ),
    "no-cluster": (changed('cluster = "bank"', ""), ["the key 'cluster' is missing"]),
    "no-protocol": (changed('protocol = "sequencer"', ""), ["'protocol' is missing", "`ordercast protocols`"]),
    "no-processes": (GOOD.partition("[processes]")[0], ["'processes' is missing", 'NAME = "HOST:PORT"']),
    "no-groups": (GOOD.partition("[groups]")[0], ["'groups' is missing", "a table [groups]"]),
    # types
    "number-for-text": (changed('"bank"', "7"), ["cluster: expected text in quotes, got a whole number"]),
    "text-for-number": (key('max_datagram = "1450"'), ["max_datagram: expected a whole number, got text in quotes"]),
    "fraction-for-whole-number": (key("retain_bytes = 1e9"), ["retain_bytes", "a whole number"]),
    "flag-for-number": (key("socket_buffer = true"), ["socket_buffer", "a whole number", "true or false"]),
    "text-for-flag": (changed('key_file = "bank.key"', 'insecure = "true"'), ["insecure: expected true or false"]),
    "number-for-path": (changed('"log"', "1"), ["log_directory: expected text in quotes"]),
    "list-for-table": (BARE.replace('{{a = "a:1"}}', "[]").format(""), ["[processes]: expected a table, got a list"]),
    "text-for-list": (changed('["main-1", "main-2"]', '"main-1"'), ["[groups]: accounts: expected a list, got text"]),
    "number-in-list": (changed('["main-1", "main-2"]', '["main-1", 2]'), ["accounts (entry 2)", "text in quotes"]),
    "number-for-address": (changed('"127.0.0.1:7001"', "7001"), ["[processes]: main-1: expected text in quotes"]),
    "text-for-option": (
        changed("window_messages = 32", 'window_messages = "wide"'),
        ["[options]: window_messages: expected a whole number"],
    ),
    "date-for-text": (changed('"bank"', "1979-05-27"), ["cluster: expected text in quotes"]),
    "not-a-number": (key("retain_bytes = nan"), ["retain_bytes", "nan", "finite"]),
    "too-many-bits": (key(f"retain_bytes = {2**64}"), ["retain_bytes", "64 bits"]),
    "number-for-options": (BARE.format("options = 3"), ["[options]: expected a table, got a whole number"]),
    # names
    "unknown-protocol": (changed("sequencer", "sequenser"), ["protocol:", "'sequenser'", "did you mean 'sequencer'?"]),
    "empty-cluster": (changed('"bank"', '""'), ["cluster: '' is no name"]),
    "cluster-with-a-blank": (changed('"bank"', '"my bank"'), ["cluster: 'my bank' is no name", "letters, digits"]),
    "endless-name": (changed('"bank"', f'"{"b" * 65}"'), ["cluster", "at most 64"]),
    "process-that-climbs": (changed("branch-1 =", '"../branch" ='), ["[processes]: '../branch' is no name"]),
    "process-that-hides": (changed("branch-1 =", '".branch" ='), ["[processes]: '.branch' is no name"]),
    "nameless-process": (changed("branch-1 =", '"" ='), ["[processes]: '' is no name"]),
    "group-with-a-blank": (changed("accounts =", '"my accounts" ='), ["[groups]: 'my accounts' is no name"]),
    # addresses
    "no-port": (process("127.0.0.1"), ["[processes]: main-2: '127.0.0.1' has no port; write HOST:PORT"]),
    "empty-port": (process("127.0.0.1:"), ["has no port from 1 to 65535"]),
    "port-of-letters": (process("127.0.0.1:http"), ["has no port from 1 to 65535"]),
    "port-zero": (process("127.0.0.1:0"), ["has no port from 1 to 65535"]),
    "port-too-high": (process("127.0.0.1:65536"), ["has no port from 1 to 65535"]),
    "port-of-other-digits": (process("127.0.0.1:٧٧"), ["has no port from 1 to 65535"]),
    "no-host": (process(":7002"), ["has no host"]),
    "bare-ipv6": (process("::1:7002"), ["is ambiguous; write an IPv6 address in brackets: [::1]:7002"]),
    "unclosed-bracket": (process("[::1:7002"), ["write [IPV6]:PORT"]),
    "bracket-without-port": (process("[::1]"), ["write [IPV6]:PORT"]),
    "name-in-brackets": (process("[localhost]:7002"), ["'localhost' is no IPv6 address"]),
    "five-numbers": (process("127.0.0.0.1:7002"), ["is no IPv4 address; it has four numbers"]),
    "number-too-high": (process("127.0.0.256:7002"), ["is no IPv4 address"]),
    "host-with-a-blank": (process("my host:7002"), ["'my host' is no host name"]),
    "host-with-a-scheme": (process("udp//x:7002"), ["is no host name"]),
    "every-address": (process("0.0.0.0:7002"), ["others cannot send there; name one"]),
    "every-ipv6-address": (process("[::]:7002"), ["others cannot send there; name one"]),
    "multicast-process": (process("239.1.2.3:7002"), ["is a multicast address", "with the key multicast"]),
    "everyones-address": (process("255.255.255.255:7002"), ["is everyone's address"]),
    "address-twice": (process("127.0.0.1:7001"), ["main-2: 127.0.0.1:7001 is the address of main-1 too"]),
    "families-mixed": (process("[::1]:7002"), ["[processes]: IPv4 and IPv6 addresses are mixed"]),
    "processes-empty": (BARE.replace('a = "a:1"', "").format(""), ["[processes]: is empty"]),
    # groups
    "groups-empty": (GOOD.partition("accounts")[0], ["[groups]: is empty"]),
    "group-of-nobody": (changed('["main-1", "main-2"]', "[]"), ["[groups]: accounts has no members"]),
    "unknown-member": (changed('["main-1", "main-2"]', '["main-3"]'), ["no process 'main-3'", "did you mean 'main-"]),
    "unknown-member-far-off": (changed('["main-1", "main-2"]', '["x"]'), ["no process 'x'", "known: main-1, main-2"]),
    "member-twice": (changed('["main-1", "main-2"]', '["main-1", "main-1"]'), ["accounts: has 'main-1' twice"]),
    # sealing
    "neither-key-nor-insecure": (
        changed('key_file = "bank.key"', ""),
        ["neither key_file nor insecure is set", "`ordercast key new`"],
    ),
    "not-insecure-and-no-key": (
        changed('key_file = "bank.key"', "insecure = false"),
        ["neither key_file nor insecure"],
    ),
    "key-and-insecure": (key("insecure = true"), ["insecure: there is a key_file too; keep one"]),
    "no-such-key": (changed("bank.key", "shop.key"), ["key_file: there is no key file", "`ordercast key new"]),
    "open-key": (changed("bank.key", "open.key"), ["key_file:", "can be read or written by others", "chmod 600"]),
    "short-key": (changed("bank.key", "short.key"), ["key_file:", "a key of 3 bytes"]),
    "empty-path": (changed('"bank.key"', '""'), ["key_file: '' is no path"]),
    # numbers
    "datagram-too-small": (key("max_datagram = 1199"), ["max_datagram: 1199 is not from 1200 to 65000"]),
    "datagram-too-large": (key("max_datagram = 65001"), ["max_datagram: 65001 is not from 1200 to 65000", "UDP"]),
    "negative-datagram": (key("max_datagram = -1"), ["max_datagram", "leave it out for 65000"]),
    "small-buffer": (key("socket_buffer = 1000"), ["socket_buffer", "does not hold one datagram"]),
    "endless-polling": (key("busy_poll = 60_000_000"), ["busy_poll: 60000000 is not from 0", "microseconds"]),
    "negative-retain": (key("retain_bytes = -1"), ["retain_bytes", "a number of bytes"]),
    "no-payload": (key("payload_max = 0"), ["payload_max"]),
    "queue-below-payload": (key("queue_bytes = 1000"), ["queue_bytes: 1000 does not hold one payload"]),
    "payload-above-queue": (key("payload_max = 100_000_000"), ["queue_bytes", "payload_max = 100000000"]),
    # control
    "control-without-scheme": (changed("unix:", ""), ["control:", 'write "unix:run/{process}.sock"']),
    "control-by-another-scheme": (changed("unix:", "tcp:"), ["control:", "is no Unix socket"]),
    "control-of-nothing": (changed("run/{process}.sock", ""), ["control:", "is no Unix socket"]),
    "one-control-for-all": (changed("{process}", "node"), ["control:", "the same for every process"]),
    "control-with-other-braces": (changed("{process}", "{name}"), ["control:", "only {process} is replaced"]),
    "control-too-long": (changed("run/", "r" * 100 + "/"), ["control: the path has", "103 at the most"]),
    # multicast
    "multicast-of-one": (key('multicast = "192.0.2.1:7000"'), ["multicast: '192.0.2.1' is no IPv4 multicast"]),
    "multicast-by-name": (key('multicast = "all:7000"'), ["multicast: 'all' is no IPv4 multicast address"]),
    "multicast-without-port": (key('multicast = "239.1.2.3"'), ["multicast: '239.1.2.3' has no port"]),
    "multicast-ipv6": (key('multicast = "[ff15::1]:7000"'), ["multicast: 'ff15::1' is no IPv4 multicast"]),
    "multicast-of-routers": (key('multicast = "224.0.0.1:7000"'), ["multicast: 224.0.0.1 is reserved for routers"]),
    "multicast-for-ipv6": (
        key('multicast = "239.1.2.3:7000"').replace("127.0.0.1", "[::1]").replace("localhost", "[::1]"),
        ["multicast: is IPv4, and main-1 has the address [::1]:7001"],
    ),
    "interface-by-name": (key('interface = "eth0"'), ["interface: 'eth0' is no IPv4 address", "`ordercast doctor`"]),
    "interface-of-all": (key('interface = "0.0.0.0"'), ["interface: '0.0.0.0' is no IPv4 address of this machine"]),
    # options
    "option-out-of-range": (
        changed("window_messages = 32", "window_messages = 0"),
        ["[options]", "window", "1 or more"],
    ),
    "option-that-fits-no-process": (changed("window_messages = 32", 'sequencer = "z"'), ["[options]", "'z'"]),
    "option-that-needs-a-log": (
        changed(
            'log_directory = "log"\n',
            "",
            changed('"sequencer"', '"propagation-graph"', changed("window_messages = 32", 'delivery = "non-atomic"')),
        ),
        ['[options]: delivery = "non-atomic" needs a log', 'write delivery = "atomic"'],
    ),
}


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """With keys of all kinds, and no variables of ours in the environment. Its path is short enough for sockets."""
    for name in os.environ:
        if name.startswith("ORDERCAST_"):
            monkeypatch.delenv(name)
    with TemporaryDirectory(prefix="oc-") as name:
        made = Path(name)
        create_key_file(made / "bank.key")
        create_key_file(made / "open.key")
        (made / "open.key").chmod(0o644)
        (made / "short.key").write_text("AAAA\n")
        (made / "short.key").chmod(0o600)
        yield made


def written(folder: Path, text: str, name: str = "bank") -> Path:
    file = folder / f"{name}.toml"
    file.write_text(text, encoding="utf-8")
    return file


def read(
    folder: Path, text: str = GOOD, environment: Mapping[str, str] | None = None, **overrides: Any
) -> Configuration:
    return read_configuration(written(folder, text), environment or {}, overrides)


# ---------------------------------------------------------------------- bad ones
def test_there_are_at_least_sixty_of_them() -> None:
    assert len(BAD) >= 60


@pytest.mark.parametrize("name", BAD)
def test_one_line_that_names_the_file_and_what_to_do(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, words = BAD[name]
    file = written(folder, text, name)
    assert main(["config", "validate", str(file)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert output.err.startswith(f"ordercast config: {file}: ")
    for word in words:
        assert word in output.err
    assert len(output.err) < 700


def test_the_good_one_from_which_they_are_made_is_good(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(folder, GOOD)
    assert main(["config", "validate", str(file)]) == 0
    output = capsys.readouterr()
    assert output.out == f"{file}: ok: sequencer, processes main-1, main-2, branch-1\n"
    assert output.err == ""


@pytest.mark.parametrize("content", [b"\xff\xfe\x00nothing", b"#" * ((1 << 20) + 1)])
def test_a_file_that_is_no_configuration_at_all(
    content: bytes, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "binary.toml"
    file.write_bytes(content)
    assert main(["config", "validate", str(file)]) == 2
    assert "is it the right file?" in capsys.readouterr().err


def test_a_file_that_is_not_there_and_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "show", str(folder / "nothing.toml")]) == 2
    text = capsys.readouterr().err
    assert "nothing.toml: cannot be read: No such file or directory; make one with `ordercast config new" in text
    assert main(["config", "show", str(folder)]) == 2
    assert f"{folder}: cannot be read: Is a directory" in capsys.readouterr().err


def test_no_traceback_in_a_process_of_its_own(folder: Path) -> None:
    file = written(folder, changed("protocol", "protocl"))
    result = run_ordercast("config", "validate", str(file))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"ordercast config: {file}: unknown key 'protocl'; did you mean 'protocol'?\n"


# ---------------------------------------------------------------------- the environment and keywords
BAD_ENVIRONMENT = {
    "ORDERCAST_MAX_DATAGRAM=many": "ORDERCAST_MAX_DATAGRAM: expected a whole number, got 'many'",
    "ORDERCAST_MAX_DATAGRAM=1e3": "ORDERCAST_MAX_DATAGRAM: expected a whole number, got '1e3'",
    "ORDERCAST_MAX_DATAGRAM=7": "ORDERCAST_MAX_DATAGRAM: 7 is not from 1200 to 65000",
    "ORDERCAST_INSECURE=maybe": "ORDERCAST_INSECURE: expected true or false, got 'maybe'",
    "ORDERCAST_PROTOCOL=sequenser": "ORDERCAST_PROTOCOL: there is no protocol 'sequenser'; did you mean 'sequencer'?",
    "ORDERCAST_MULTICAST=here": "ORDERCAST_MULTICAST: 'here' has no port",
    "ORDERCAST_CLUSTER=a b": "ORDERCAST_CLUSTER: 'a b' is no name",
    "ORDERCAST_CONTROL=run": "ORDERCAST_CONTROL: 'run' is no Unix socket",
    "ORDERCAST_PROCESSES=main-1": "ORDERCAST_PROCESSES: processes is a table, and stands in the file",
    "ORDERCAST_OPTIONS=window": "ORDERCAST_OPTIONS: options is a table, and stands in the file",
    "ORDERCAST_LOG_DIRECTRY=log": "unknown key 'log_directry'; did you mean ORDERCAST_LOG_DIRECTORY?",
}


@pytest.mark.parametrize("setting", BAD_ENVIRONMENT)
def test_a_bad_variable_is_named(setting: str, folder: Path) -> None:
    variable, _, text = setting.partition("=")
    with pytest.raises(UsageError) as caught:
        read(folder, environment={variable: text})
    assert str(caught.value).startswith(f"environment: {variable}: ")
    assert BAD_ENVIRONMENT[setting] in str(caught.value)


BAD_KEYWORDS: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": (
        {"max_datagramm": 1450},
        "keyword arguments: unknown key 'max_datagramm'; did you mean 'max_datagram'?",
    ),
    "out-of-range": ({"max_datagram": 7}, "keyword max_datagram: 7 is not from 1200 to 65000"),
    "wrong-type": ({"max_datagram": "7"}, "keyword max_datagram: expected a whole number, got text in quotes"),
    "not-finite": ({"max_datagram": float("nan")}, "keyword arguments: max_datagram: nan"),
    "processes": ({"processes": {"a": "nowhere"}}, "keyword [processes]: a: 'nowhere' has no port"),
    "numbers-for-names": ({"processes": {1: "h:1"}}, "keyword [processes]: expected"),
    "groups": ({"groups": {"g": ["z"]}}, "keyword [groups]: g: there is no process 'z'"),
    "options": (
        {"options": {"window_mesage": 1}},
        "keyword [options]: unknown key 'window_mesage'; did you mean 'window_messages'?",
    ),
    "both": ({"insecure": True, "key_file": "bank.key"}, "keyword insecure: there is a key_file too; keep one"),
    "required": ({"cluster": None}, "the key 'cluster' is missing"),
    "no-key": ({"key_file": None}, "neither key_file nor insecure is set"),
}


@pytest.mark.parametrize("name", BAD_KEYWORDS)
def test_a_bad_keyword_is_named(name: str, folder: Path) -> None:
    overrides, words = BAD_KEYWORDS[name]
    with pytest.raises(UsageError) as caught:
        read(folder, **overrides)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_environment_overrules_the_file_and_keywords_overrule_both(folder: Path) -> None:
    text = key("max_datagram = 2000\nsocket_buffer = 100_000\npayload_max = 10")
    environment = {
        "ORDERCAST_MAX_DATAGRAM": "3000",
        "ORDERCAST_SOCKET_BUFFER": "200000",
        "ORDERCAST_CLUSTER": "shop",
        "ORDERCAST_TRACE_DIRECTORY": "",
        "ORDERCAST_MASTER": "local[2]",
    }
    configuration, origins = read_with_origins(written(folder, text), environment, {"max_datagram": 4000})
    assert (configuration.max_datagram, configuration.socket_buffer, configuration.payload_max) == (4000, 200_000, 10)
    assert configuration.cluster == "shop"
    assert configuration.trace_directory is None, "an empty variable is none"
    kinds = {name: origin.kind for name, origin in origins.items()}
    assert kinds["max_datagram"] == "keyword"
    assert kinds["socket_buffer"] == kinds["cluster"] == "environment"
    assert kinds["payload_max"] == "file"
    assert "queue_bytes" not in kinds


def test_of_a_key_and_insecure_the_upper_layer_counts(folder: Path) -> None:
    assert read(folder, environment={"ORDERCAST_INSECURE": "true"}).key_file is None
    assert read(folder, environment={"ORDERCAST_INSECURE": "false"}).key_file == folder / "bank.key"
    insecure = changed('key_file = "bank.key"', "insecure = true")
    assert read(folder, insecure).insecure
    sealed = read(folder, insecure, {"ORDERCAST_KEY_FILE": "/etc/bank.key"})
    assert (sealed.insecure, sealed.key_file) == (False, Path("/etc/bank.key"))
    assert read(folder, environment={"ORDERCAST_KEY_FILE": "x"}, insecure=True).key_file is None


def test_a_key_that_insecure_sets_aside_is_told_at_every_start(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        read(folder, environment={"ORDERCAST_INSECURE": "true"})
    read(folder, insecure=True)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3
    assert caplog.messages[0] == caplog.messages[1]
    assert caplog.messages[0].startswith(
        "environment: ORDERCAST_INSECURE: everything is sent in the clear, although there is a key ("
    )
    assert caplog.messages[2].startswith("keyword insecure: everything is sent in the clear")
    caplog.clear()
    read(folder)
    read(folder, environment={"ORDERCAST_INSECURE": "false"})
    read(folder, environment={"ORDERCAST_INSECURE": "true"}, key_file="other.key")
    read(folder, changed('key_file = "bank.key"', "insecure = true"))
    assert not caplog.records, "where the file itself says insecure, nobody has forgotten a variable"


def test_nothing_takes_a_key_away(folder: Path) -> None:
    assert read(folder).log_directory == folder / "log"
    assert read(folder, log_directory=None).log_directory is None


def test_a_mapping_serves_as_well_as_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    document = {
        "cluster": "bank",
        "protocol": "token",
        "key_file": Path("bank.key"),
        "processes": {"a": "[::1]:7001", "b": "[2001:db8::1]:7002"},
        "groups": {"g": ("a", "b")},
    }
    configuration = read_configuration(document, {}, {})
    assert configuration.key_file == folder / "bank.key"
    assert configuration.processes == {"a": ("::1", 7001), "b": ("2001:db8::1", 7002)}
    assert configuration.groups == {"g": ("a", "b")}
    with pytest.raises(UsageError, match=r"^configuration: unknown key 'grups'; did you mean 'groups'\?"):
        read_configuration(document | {"grups": {}}, {}, {})
    with pytest.raises(UsageError, match=r"^configuration: 7 is no key"):
        read_configuration({7: 1}, {}, {})  # type: ignore[dict-item]


# ---------------------------------------------------------------------- good ones
def test_relative_paths_are_relative_to_the_file_and_those_of_the_environment_to_where_one_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    written(folder, GOOD)
    monkeypatch.chdir(elsewhere)
    configuration = read_configuration("../bank.toml", {"ORDERCAST_TRACE_DIRECTORY": "trace"}, {})
    assert configuration.key_file is not None
    assert configuration.key_file.samefile(folder / "bank.key")
    assert configuration.log_folder("main-1") == Path(f"{elsewhere}/../log/main-1")
    assert configuration.trace_directory == elsewhere / "trace"
    assert configuration.control_path("main-1") == Path(f"{elsewhere}/../run/main-1.sock")


def test_absolute_paths_and_the_home_folder_stay_what_they_are(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    text = changed('"log"', '"~/log"').replace('"bank.key"', '"/etc/bank.key"')
    configuration = read(folder, text)
    assert configuration.log_directory == Path("/somewhere/log")
    assert configuration.key_file == Path("/etc/bank.key")
    assert read(folder, changed('"log"', '"~nobody-of-that-name/log"')).log_directory is not None


def test_defaults(folder: Path) -> None:
    configuration = read(folder)
    assert (configuration.max_datagram, configuration.socket_buffer) == (65000, 8 << 20)
    assert (configuration.retain_bytes, configuration.payload_max) == (128 << 20, 64 << 20)
    assert configuration.queue_bytes == 64 << 20
    assert configuration.multicast is None
    assert configuration.interface is None
    for name, allowed in RANGES.items():
        assert allowed.low <= getattr(configuration, name) <= allowed.high


def test_every_field_is_a_key_and_every_key_is_a_field() -> None:
    assert set(Configuration.__struct_fields__) == set(KEYS)


def test_multicast_and_interface(folder: Path) -> None:
    configuration = read(folder, key('multicast = "239.1.2.3:7000"\ninterface = "192.0.2.7"'))
    assert configuration.multicast == ("239.1.2.3", 7000)
    assert configuration.interface == "192.0.2.7"


def test_options_are_those_that_are_set_in_their_types(folder: Path) -> None:
    assert read(folder).options == {"window_messages": 32}
    fan = changed('"sequencer"', '"fan-3"').replace("window_messages = 32", 'sources = ["main-1"]\ndelta = 1')
    assert read(folder, fan).options == {"sources": ("main-1",), "delta": 1.0}


def test_only_the_core_dependencies_are_needed(folder: Path) -> None:
    file = written(folder, GOOD)
    code = (
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in {'numpy', 'pyarrow', 'scipy', 'networkx', 'typer', 'rich', 'uvloop'}:\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Block())\n"
        "from ordercast.node.configuration import read_configuration\n"
        "print(read_configuration(sys.argv[1], {}, {}).cluster)"
    )
    result = run_python(code, str(file))
    assert (result.returncode, result.stdout) == (0, "bank\n"), result.stderr


# ---------------------------------------------------------------------- warnings
def test_what_costs_guarantees_is_warned_of(folder: Path) -> None:
    assert find_warnings(read(folder)) == []
    assert "sent in the clear" in find_warnings(read(folder, insecure=True))[0]
    no_log = find_warnings(read(folder, log_directory=None))
    assert "sequencer keeps its guarantees through crash and torn-log only with a log" in no_log[0]
    fan = changed('"sequencer"', '"fan-0"').replace("window_messages = 32", "")
    assert "fan-0 keeps its guarantees" in find_warnings(read(folder, fan, log_directory=None))[0]
    fan = changed('"sequencer"', '"fan-1"').replace("window_messages = 32", "")
    assert any("fan-1 does not tolerate the loss of packets" in warning for warning in find_warnings(read(folder, fan)))
    assert find_warnings(read(folder, interface="192.0.2.7")) == ["interface has no effect without multicast"]
    mixed = process("192.0.2.7:7002")
    warnings = find_warnings(read(folder, mixed))
    assert "some are on the loopback" in warnings[0]
    assert "write max_datagram = 1450 there" in warnings[1]
    assert len(find_warnings(read(folder, mixed, max_datagram=1450))) == 1


def test_validate_warns_and_is_content(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(folder, changed('log_directory = "log"', ""))
    assert main(["config", "validate", str(file)]) == 0
    assert capsys.readouterr().err.startswith("warning: no log_directory: ")
    assert main(["config", "validate", str(file), "--json"]) == 0
    output = capsys.readouterr()
    document = json.loads(output.out)
    assert document["file"] == str(file)
    assert document["valid"] is True
    assert len(document["warnings"]) == 1
    assert output.err == ""


# ---------------------------------------------------------------------- show and new
def test_show_tells_where_each_value_came_from(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORDERCAST_MAX_DATAGRAM", "1450")
    file = written(folder, key('multicast = "239.1.2.3:7000"'))
    assert main(["config", "show", str(file), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    values, sources = document["values"], document["sources"]
    assert set(values) == set(sources) == set(KEYS)
    assert (values["max_datagram"], sources["max_datagram"]) == (1450, "ORDERCAST_MAX_DATAGRAM")
    assert (values["cluster"], sources["cluster"]) == ("bank", "file")
    assert (values["queue_bytes"], sources["queue_bytes"]) == (64 << 20, "default")
    assert values["multicast"] == "239.1.2.3:7000"
    assert values["processes"]["main-1"] == "127.0.0.1:7001"
    assert values["control"] == f"unix:{folder}/run/{{process}}.sock"
    assert (values["options"]["window_messages"], sources["options"]["window_messages"]) == (32, "file")
    assert sources["options"]["blocked_seconds"] == "default"
    assert main(["config", "show", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["max_datagram", "1450", "ORDERCAST_MAX_DATAGRAM"] for line in lines)
    assert any(line.split() == ["options.window_messages", "32", "file"] for line in lines)
    assert any(line.split() == ["interface", "not", "set", "default"] for line in lines)


def test_what_show_prints_is_a_configuration_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(folder, GOOD)
    assert main(["config", "show", str(file), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)["values"]
    first, second = read_configuration(file, {}, {}), read_configuration(values, {}, {})
    for name in set(KEYS) - {"options"}:
        assert getattr(first, name) == getattr(second, name)


@pytest.mark.parametrize("processes", [1, 3, 12])
@pytest.mark.parametrize("insecure", [False, True])
def test_a_new_configuration_is_valid_as_it_is(
    processes: int, insecure: bool, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "shop.toml"
    flags = ["--insecure"] if insecure else []
    assert main(["config", "new", str(file), "--processes", str(processes), *flags, "--json"]) == 0
    key_file = None if insecure else str(folder / "shop.key")
    assert json.loads(capsys.readouterr().out) == {"file": str(file), "key_file": key_file}
    assert main(["config", "validate", str(file)]) == 0
    configuration = read_configuration(file, {}, {})
    assert configuration.cluster == "shop"
    assert len(configuration.processes) == processes
    assert configuration.groups == {"everyone": tuple(configuration.processes)}
    if not insecure:
        assert stat.S_IMODE((folder / "shop.key").stat().st_mode) == 0o600
        assert len(read_keys(folder / "shop.key").used) == 32


@pytest.mark.parametrize(
    ("arguments", "protocol"),
    [
        ([], "three-step"),
        (["--processes", "3"], "three-step"),
        (["--processes", "2"], "sequencer"),
        (["--processes", "1"], "sequencer"),
        (["--processes", "5", "--protocol", "token"], "token"),
        (["--discovery"], "token"),
    ],
)
def test_a_new_cluster_goes_on_without_any_one_process_where_that_can_be(
    arguments: list[str], protocol: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "shop.toml"
    assert main(["config", "new", str(file), *arguments]) == 0
    assert read_configuration(file, {}, {}).protocol == protocol
    capsys.readouterr()
    assert main(["config", "validate", str(file)]) == 0
    assert capsys.readouterr().err == ""


GROUPS_OF_GOOD = 'accounts = ["main-1", "main-2"]\nrates = ["main-1", "main-2", "branch-1"]'


@pytest.mark.parametrize(
    ("groups", "warned"),
    [
        ('everyone = ["main-1", "main-2", "branch-1"]', []),
        ('everyone = ["main-1", "main-2"]', ["the processes main-1, main-2 are a cell of their own"]),
        (GROUPS_OF_GOOD, ["the process branch-1 is a cell of its own", "the processes main-1, main-2 are a cell"]),
    ],
)
def test_cells_of_one_and_two_are_warned_of_in_one_line_that_says_what_to_do(
    groups: str, warned: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = changed(GROUPS_OF_GOOD, groups, changed('protocol = "sequencer"', 'protocol = "three-step"'))
    assert main(["config", "validate", str(written(folder, text))]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(warned)
    for line, words in zip(lines, warned, strict=True):
        assert line.startswith(f"warning: {words}")
        assert "tolerates no failure" in line
        assert line.endswith("put at least three processes in the same groups")


def test_every_key_that_a_new_configuration_leaves_commented_out_has_its_default_there(folder: Path) -> None:
    file = folder / "shop.toml"
    assert main(["config", "new", str(file)]) == 0
    text = file.read_text()
    for name in KEYS:
        if name != "insecure":
            assert f"{name} =" in text or f"[{name}]" in text
    for name in RANGES:
        text = text.replace(f"# {name} =", f"{name} =")
    file.write_text(text)
    configuration, origins = read_with_origins(file, {}, {})
    for name in RANGES:
        assert origins[name].kind == "file"
        assert getattr(configuration, name) == getattr(read(folder), name)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bank.key"], "is the name of the key file; name the configuration"),
        (["taken.toml"], "taken.toml exists: name another file"),
        (["open.toml"], "open.key exists: name another file"),
        (["nowhere/shop.toml"], "cannot write"),
        (["my shop.toml"], "'my shop' is no name"),
        (["shop.toml", "--cluster", 'a"b'], "is no name"),
        (["shop.toml", "--protocol", "sequenser"], "did you mean 'sequencer'?"),
        (["shop.toml", "--processes", "0"], "--processes"),
        (["shop.toml", "--port", "65535"], "need ports beyond 65535"),
        ([f"{'d' * 120}.toml"], "is no name"),
    ],
)
def test_misuse_of_new_is_one_line_and_leaves_nothing_behind(
    arguments: list[str], words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "taken.toml").write_text("precious")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert main(["config", "new", str(folder / arguments[0]), *arguments[1:]]) == 2
    output = capsys.readouterr()
    assert words in output.err
    assert output.err.count("\n") == 1
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
