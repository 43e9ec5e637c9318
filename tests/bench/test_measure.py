"""A cluster is started, loaded, measured, and gone."""

from pathlib import Path

import msgspec
import pytest

from ordercast.bench.configuration import write_configuration
from ordercast.bench.load import Load, Place
from ordercast.bench.member import Work
from ordercast.bench.run import measure
from ordercast.bench.summary import summarize
from ordercast.cli import main
from ordercast.core import UsageError
from ordercast.node.configuration import read_configuration


def test_what_two_processes_deliver_is_counted_and_timed(capfd: pytest.CaptureFixture[str]) -> None:
    result = measure(Load(nodes=2, seconds=0.3, rate=100.0, busy_poll=0))
    assert (result["protocol"], result["nodes"], result["size"], result["sealed"]) == ("sequencer", 2, 100, True)
    assert result["messages_per_second"] > 0
    assert result["lost"] == 0
    assert 0 < result["p50_ms"] <= result["p99_ms"]
    assert len(result["counters"]) == len(result["memory_mb"]) == 2
    # The processes have nothing to say but what was measured.
    assert capfd.readouterr() == ("", "")


def test_every_process_chooses_the_service_that_is_measured() -> None:
    load = Load(nodes=2, seconds=0.3, rate=100.0, busy_poll=0, protocol="intergroup", service="unreliable")
    assert measure(load)["messages_per_second"] > 0


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--protocol", "intergroup", "--service", "unrelable"], "did you mean 'unreliable'?"),
        (["--service", "unreliable"], "sequencer has no service 'unreliable'"),
    ],
)
def test_a_service_that_the_protocol_lacks_is_refused_in_one_line(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *words]) == 2
    error = capsys.readouterr().err
    assert why in error
    assert error.count("\n") == 1


def test_an_option_that_the_protocol_does_not_know_is_refused_before_any_process_starts() -> None:
    with pytest.raises(UsageError, match="unknown key 'bogus'"):
        measure(Load(nodes=2, options=("bogus = 1",)))


def test_overlapping_groups_lack_one_process_each() -> None:
    load = Load(nodes=3, overlap=True)
    assert load.groups == {"first": ["p00", "p01"], "last": ["p01", "p02"]}
    assert Load(nodes=2).groups == {"bench": ["p00", "p01"]}


def test_the_configuration_says_what_the_load_asks_for(tmp_path: Path) -> None:
    places = (Place("127.0.0.1", "one"), Place("127.0.0.2", "two"))
    load = Load(nodes=2, log=True, max_datagram=1450, busy_poll=0, places=places, options=("window_messages = 7",))
    configuration = read_configuration(str(write_configuration(tmp_path, load)), {}, {})
    assert [host for host, _ in configuration.processes.values()] == ["127.0.0.1", "127.0.0.2"]
    assert configuration.max_datagram == 1450
    assert configuration.channel is None
    assert places[1].command == ["ip", "netns", "exec", "two"]
    one_channel = msgspec.structs.replace(load, one_channel=True, protocol="selective-total", options=())
    assert read_configuration(str(write_configuration(tmp_path, one_channel)), {}, {}).channel is not None


def test_throughput_is_that_of_the_slowest_member_and_what_did_not_arrive_is_lost() -> None:
    work = Work("bench.toml", "p00", 100, 2.0, None, "batches", ["bench"])
    report = {"groups": ["bench"], "latencies": [1_000_000, 3_000_000], "latencies_every": 1, "cpu_seconds": 0.5}
    report |= {"memory_mb": [10.0, 12.0], "counters": {}}
    reports = [
        report | {"sent": {"bench": 60}, "delivered": 100, "within": {"bench": 100}},
        report | {"sent": {"bench": 40}, "delivered": 95, "within": {"bench": 80}},
    ]
    result = summarize(reports, work)
    assert result["messages_per_second"] == 40.0
    assert result["lost"] == 5
    assert result["cpu_seconds"] == 1.0
    assert 1.0 <= result["p50_ms"] <= result["p99_ms"] <= 3.0
