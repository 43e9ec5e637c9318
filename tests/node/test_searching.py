"""The table [discovery]: what it may say, and that every bad one ends in one line that says what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.cli import main
from ordercast.core import UsageError
from ordercast.node.advice import find_warnings
from ordercast.node.configuration import Configuration, read_configuration
from ordercast.node.searching import SEEDS_MAX, Search
from tests.node import roster


@pytest.fixture(autouse=True)
def _roster() -> Iterator[None]:
    with roster.known():
        yield


def read(discovery: Any, **keys: Any) -> Configuration:
    given = {"cluster": "c", "protocol": "roster", "insecure": True, "discovery": discovery}
    return read_configuration({key: value for key, value in (given | keys).items() if value is not None}, {}, {})


def test_a_cluster_needs_no_names_where_its_processes_find_each_other() -> None:
    configuration = read({"multicast": "239.7.7.7:7500"})
    assert (configuration.processes, configuration.groups) == ({}, {})
    assert configuration.discovery == Search(multicast=("239.7.7.7", 7500))
    found = read({"seeds": ["10.0.0.1:7001", "host.example:7001"], "listen": "0.0.0.0:7002"}).discovery
    assert found == Search(None, (("10.0.0.1", 7001), ("host.example", 7001)), ("0.0.0.0", 7002))
    node = ordercast.open(
        {"cluster": "c", "protocol": "roster", "insecure": True, "discovery": {"seeds": ["h:1"]}}, "x"
    )
    assert node.process == "x"


MULTICAST = {"multicast": "239.7.7.7:7500"}
BAD: dict[str, tuple[Any, dict[str, Any], str]] = {
    "nothing": (None, {}, "configuration: the key 'processes' is missing; add a table [processes] with"),
    "or the other": (None, {}, 'or [discovery] with multicast = "239.7.7.7:7500" or seeds = ["HOST:PORT"]'),
    "both": (MULTICAST, {"processes": {"a": "h:1"}}, "processes: there is a table [discovery] too; name the processes"),
    "groups": (MULTICAST, {"groups": {"g": ["a"]}}, "groups come into being when they are joined"),
    "multicast": (MULTICAST, {"multicast": "239.1.1.1:1"}, "multicast: there is a table [discovery] too; write it"),
    "channel": (MULTICAST, {"channel": "h:1"}, "channel: there is a table [discovery] too; a hub serves"),
    "empty": ({}, {}, "[discovery]: says nowhere to look; write multicast ="),
    "no table": (3, {}, "[discovery]: expected"),
    "unknown key": ({"seed": ["h:1"]}, {}, "[discovery]: unknown key 'seed'; did you mean 'seeds'?"),
    "no address": ({"seeds": ["10.0.0.1"]}, {}, "[discovery]: seeds: '10.0.0.1' has no port; write HOST:PORT"),
    "no text": ({"seeds": [7001]}, {}, "[discovery]: seeds: expected"),
    "no list": ({"seeds": "10.0.0.1:7001"}, {}, "[discovery]: seeds: expected"),
    "a seed everywhere": ({"seeds": ["0.0.0.0:1"]}, {}, "[discovery]: seeds: 0.0.0.0 stands for every address"),
    "a seed that is multicast": (
        {"seeds": ["239.7.7.7:1"]},
        {},
        "[discovery]: seeds: 239.7.7.7 is a multicast address",
    ),
    "twice": ({"seeds": ["h:1", "h:1"]}, {}, "[discovery]: seeds: has h:1 twice; name it once"),
    "too many": ({"seeds": [f"h:{port}" for port in range(1, SEEDS_MAX + 2)]}, {}, "are too many; name some that are"),
    "no multicast": ({"multicast": "10.0.0.1:7500"}, {}, "[discovery]: multicast: '10.0.0.1' is no IPv4 multicast"),
    "routers'": ({"multicast": "224.0.0.1:7500"}, {}, "[discovery]: multicast: 224.0.0.1 is reserved for routers"),
    "mixed": ({"seeds": ["[::1]:1", "127.0.0.1:2"]}, {}, "IPv4 and IPv6 addresses are mixed"),
    "IPv6": (MULTICAST | {"listen": "[::1]:1"}, {}, "[discovery]: multicast is IPv4, and an address beside it is IPv6"),
    "listen": (MULTICAST | {"listen": "here"}, {}, "[discovery]: listen: 'here' has no port"),
    "control": (MULTICAST, {"control": "unix:run/x.sock"}, "control: is the same for every process"),
    "static": (MULTICAST, {"protocol": "two-phase"}, "[discovery]: two-phase has the processes and groups of a file"),
    "two levels": ({"multicast": {}}, {}, "[discovery]: multicast: expected"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_one_is_refused_in_one_line(name: str) -> None:
    discovery, keys, expected = BAD[name]
    with pytest.raises(UsageError) as refused:
        read(discovery, **keys)
    assert expected in str(refused.value)
    assert "\n" not in str(refused.value)


def test_names_of_processes_are_checked_where_no_file_names_them(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"cluster": "c", "protocol": "roster", "insecure": True, "discovery": MULTICAST}
    with pytest.raises(UsageError, match=r"^'x{64}…' is no name; use at most 64"):
        ordercast.open(keys, "x" * 1000)
    with pytest.raises(UsageError, match="a Unix socket's has 103 at the most"):
        ordercast.open(keys | {"control": f"unix:{tmp_path}/{'y' * 60}{{process}}"}, "x" * 60)


def test_what_costs_guarantees_is_warned_of_here_too() -> None:
    warnings = find_warnings(read({"seeds": ["127.0.0.1:1", "10.0.0.1:1"]}, interface="10.0.0.4"))
    assert any("[discovery]: some are on the loopback" in warning for warning in warnings)
    assert any("max_datagram" in warning for warning in warnings)
    assert any("interface has no effect" in warning for warning in warnings)
    assert not any("interface" in warning for warning in find_warnings(read(MULTICAST, interface="10.0.0.4")))


def test_config_new_writes_one_that_can_be_checked_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "prices.toml"
    assert main(["config", "new", str(file), "--discovery", "--protocol", "roster"]) == 0
    assert "find each other by multicast" in capsys.readouterr().out
    assert main(["config", "validate", str(file)]) == 0
    assert "ok: roster, processes that find each other" in capsys.readouterr().out
    assert main(["config", "show", str(file), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["values"]["discovery"] == {"multicast": "239.7.7.7:7500", "seeds": [], "listen": None}
    assert (shown["values"]["processes"], shown["sources"]["discovery"]) == ({}, "file")
    assert main(["config", "new", str(tmp_path / "x.toml"), "--discovery", "--protocol", "two-phase"]) == 2
    assert "two-phase has the processes and groups of a file" in capsys.readouterr().err
    assert not (tmp_path / "x.toml").exists()


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        ({"a": "127.0.0.1:9"}, "[added]: a stands in [processes], too; name it once"),
        ({"d": "127.0.0.1:1"}, "[added]: d: 127.0.0.1:1 is the address of a too; give each its own"),
        ({"d": "[::1]:9"}, "[added]: IPv4 and IPv6 addresses are mixed"),
        ({"d d": "127.0.0.1:9"}, "[added]: 'd d' is no name"),
        ("d", "[added]: expected"),
    ],
)
def test_processes_that_were_added_are_checked_like_the_others(added: Any, expected: str) -> None:
    founders = {"processes": {"a": "127.0.0.1:1"}, "groups": {"g": ["a"]}}
    assert read(None, added={"d": "127.0.0.1:9"}, **founders).addresses.keys() == {"a", "d"}
    with pytest.raises(UsageError) as refused:
        read(None, added=added, **founders)
    assert expected in str(refused.value)
