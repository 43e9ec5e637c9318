"""`ordercast beacon` (Berket 2000, 6.2.4): what it makes of what comes, and three processes that hear each other."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from ordercast.cli import main
from ordercast.cli.beacon.hearing import Heard, Hearing
from ordercast.cli.beacon.matrix import cell
from ordercast.cli.beacon.talk import BARE, Report, Talk
from ordercast.net.ports import free_ports
from ordercast.node.beacon_packets import Beacon, Echo
from ordercast.trace import read_events
from tests.net.strangers import until
from tests.node.cluster import make_configuration, open_nodes, run


def heard(numbers: list[int], life: int = 1) -> Hearing:
    """A beacon each second, half a second under way."""
    hearing = Hearing()
    for place, number in enumerate(numbers):
        hearing.hear(Beacon(life, number, float(number), {}), 1000.5 + place)
    return hearing


# ---------------------------------------------------------------------- one source
def test_what_is_missing_between_the_numbers_is_lost() -> None:
    found = heard([1, 2, 5, 6]).report()
    assert (found.received, found.lost, found.late, found.repeated) == (4, 2, 0, 0)


def test_what_comes_after_a_later_one_is_late_and_not_lost_and_a_second_copy_is_repeated() -> None:
    found = heard([1, 3, 2, 2, 4]).report()
    assert (found.received, found.lost, found.late, found.repeated) == (4, 0, 1, 1)


def test_whoever_comes_later_has_lost_nothing_of_before() -> None:
    assert heard([100, 101]).report().lost == 0


def test_each_period_counts_for_itself_and_one_in_which_nothing_comes_is_told() -> None:
    hearing = heard([1, 2, 4])
    assert hearing.report().lost == 1
    hearing.hear(Beacon(1, 6, 6.0, {}), 2000.0)
    assert (hearing.report().lost, hearing.report().received) == (1, 0)


def test_a_source_that_starts_again_begins_anew_and_what_comes_of_its_life_before_is_nothing() -> None:
    hearing = heard([7, 8])
    hearing.report()
    hearing.hear(Beacon(2, 1, 0.0, {}), 2000.0)
    hearing.hear(Beacon(1, 9, 9.0, {}), 2000.1)
    found = hearing.report()
    assert (found.received, found.lost, found.late) == (1, 0, 0)


def test_the_latency_is_half_of_the_way_there_and_back_whatever_the_clocks_show() -> None:
    hearing = Hearing()
    # Sent at 10 of our clock, held there for 3 seconds, back at 13.5.
    hearing.measure(Echo(10.0, 3.0), 13.5)
    hearing.measure(Echo(20.0, 1.0), 21.1)
    found = hearing.report()
    assert found.latency_ms == pytest.approx(150.0)
    assert found.latency_ms_max == pytest.approx(250.0)
    assert hearing.report().latency_ms is None


def test_an_echo_says_what_was_heard_last_and_how_long_ago() -> None:
    assert Hearing().echo(5.0) is None
    assert heard([1, 2]).echo(1001.75) == Echo(2.0, 0.25)


def test_even_ways_have_no_jitter_and_uneven_ones_have() -> None:
    assert heard([1, 2, 3]).report().jitter_ms == 0
    hearing = heard([1, 2])
    hearing.hear(Beacon(1, 3, 3.0, {}), 1002.5 + 0.16)
    assert hearing.report().jitter_ms == pytest.approx(10.0)


def test_numbers_that_are_remembered_are_bounded() -> None:
    assert len(heard(list(range(1, 5000)))._recent) == 1024


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (None, "no report"),
        (Heard(), "not heard"),
        (Heard(30), "heard"),
        (Heard(28, 2, 1, 3, 1.25, 2.0, 0.5), "1.2 ms ±0.5, lost 2 of 30, 1 late, 3 repeated"),
    ],
)
def test_a_cell_of_the_matrix_is_short(found: Heard | None, text: str) -> None:
    assert cell(found).plain == text


# ---------------------------------------------------------------------- three processes
def test_three_processes_tell_each_other_who_hears_whom_by_both_ways(tmp_path: Path) -> None:
    async def talk() -> None:
        configuration = make_configuration("abc", protocol="intergroup", trace_directory=str(tmp_path / "trace"))
        async with open_nodes(configuration) as nodes:
            told: list[dict[str, Report]] = []
            talks = [Talk(node, await node.join("g"), lambda _, found: told.append(found)) for node in nodes]
            copies = iter(range(1_000_000))
            # Of what c sends, every third datagram is lost.
            nodes[2].internals.engine.transport.disturb(lambda *_: 0 if next(copies) % 3 == 0 else 1)
            running = [asyncio.create_task(each.run(0.02, 0.4, None)) for each in talks]

            def everything_is_known() -> bool:
                return any(
                    set(found) == set("abc")
                    and all(
                        heard.received and heard.latency_ms is not None
                        for name, report in found.items()
                        for way in (BARE, "intergroup")
                        for source, heard in report.ways[way].items()
                        if source != name
                    )
                    and found["a"].ways[BARE]["c"].lost > 0
                    for found in told
                )

            await until(everything_is_known)
            await nodes[1].multicast(b"of somebody else", ["g"])
            await until(lambda: talks[0].foreign == 1)
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    run(talk())
    rows = read_events(tmp_path / "trace").select(["kind", "packet", "site", "peer"]).to_pylist()
    bare = {(row["site"], row["peer"]) for row in rows if row["kind"] == "receive" and row["packet"] == "Beacon"}
    assert bare == {(one, other) for one in "abc" for other in "abc" if one != other}


def test_alone_it_tells_that_nobody_is_heard(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path)
    words = ["beacon", "--config", str(file), "--process", "a", "--interval", "0.01", "--every", "0.05"]
    assert main([*words, "--reports", "2", "--json"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["report"], second["report"]) == (1, 2)
    assert second["reports"]["a"]["ways"]["bare"] == {"b": {**dict.fromkeys(NOTHING, 0), **dict.fromkeys(UNKNOWN)}}


def test_where_no_file_lists_the_processes_a_report_is_of_this_life(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (port,) = free_ports(1)
    file = tmp_path / "open.toml"
    file.write_text(
        'cluster = "test"\nprotocol = "intergroup"\ninsecure = true\n[discovery]\n'
        f'seeds = ["127.0.0.1:{port}"]\nlisten = "127.0.0.1:{port}"\n'
    )
    words = ["beacon", "--config", str(file), "--process", "a", "--group", "g", "--interval", "0.01"]
    assert main([*words, "--every", "0.05", "--reports", "1"]) == 0
    assert "report 1 of a#" in capsys.readouterr().out


def test_whoever_has_gone_is_forgotten_unless_it_is_expected_to_come_back() -> None:
    async def talk() -> None:
        async with open_nodes(make_configuration("abc", protocol="intergroup")) as (node, _, _):
            told: list[dict[str, Report]] = []
            talk = Talk(node, await node.join("g"), lambda _, found: told.append(found))
            for gone in ("b", "z"):
                talk.ways[BARE][gone] = heard([1, 2])
                talk.reports[gone] = Report(1, 1.0, {})
            running = asyncio.create_task(talk.run(0.01, 0.02, 3))
            await running
            assert set(talk.ways[BARE]) == {"b", "c"}
            assert set(told[-1]) == {"a", "b"}

    run(talk())


NOTHING = ("received", "lost", "late", "repeated")
UNKNOWN = ("latency_ms", "latency_ms_max", "jitter_ms")


def written(folder: Path) -> Path:
    configuration = make_configuration("ab", protocol="intergroup")
    lines = ['cluster = "test"', 'protocol = "intergroup"', "insecure = true", "[processes]"]
    lines += [f'{name} = "{where}"' for name, where in configuration["processes"].items()]
    lines += ["[groups]", 'g = ["a", "b"]', 'h = ["b"]']
    (folder / "beacons.toml").write_text("\n".join(lines))
    return folder / "beacons.toml"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--process", "z"], "there is no process 'z'"),
        (["--process", "b"], "which group? name one with --group; known: g, h"),
        (["--process", "a", "--group", "x"], "there is no group 'x'; known: g, h"),
        (["--process", "a", "--group", "h"], "is not in group 'h'"),
        (["--process", "a", "--service", "relible-source"], "did you mean 'reliable-source'?"),
        (["--process", "a", "--interval", "0"], "--interval"),
        (["--process", "a", "--interval", "9", "--every", "3"], "there would be nothing to report"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    words: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["beacon", "--config", str(written(tmp_path)), *words]) == 2
    output = capsys.readouterr()
    assert why in output.err
    assert output.err.count("\n") == 1
