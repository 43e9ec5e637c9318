"""The trace folder: both formats, byte for byte, and everything that can be wrong with it."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ordercast.core.errors import UsageError
from ordercast.trace import EVENTS, KINDS, Run, TraceWriter, iterate_runs, read_events, read_runs, write_trace
from ordercast.trace import write as write_module
from ordercast.trace.json_lines import Event
from ordercast.trace.schema import COLUMNS, REQUIRED
from ordercast.trace.write import Format

FORMATS: tuple[Format, ...] = ("parquet", "jsonl")


def example_rows(run: str) -> list[dict[str, object]]:
    common = {"run": run, "time": 0.1}
    return [
        {
            **common,
            "site": "b",
            "seq": 1,
            "kind": "deliver",
            "message": "a:0:1",
            "order_key": [1, -(2**40)],
            "count": 3,
        },
        {**common, "site": "b", "seq": 0, "kind": "view", "view": "v", "members": ["a", "b"], "transitional": []},
        {**common, "site": "a", "seq": 0, "kind": "multicast", "message": "a:0:1", "groups": ["g"], "depends": []},
        {**common, "site": "a", "seq": 1, "kind": "send", "packet": "Data", "packet_id": "7", "messages": ["a:0:1"]},
    ]


def example_run(name: str = "r1") -> Run:
    return Run(
        run=name,
        protocol="sequencer",
        seed=7,
        parameters={"z": 1, "a": {"y": [1.5], "b": None}},
        groups={"g": ["a", "b"]},
        guarantees=["integrity"],
        ended_at=12.5,
        settled=True,
        bounds={"phi_n": 0.1, "promised": {"P2": 1.0}},
    )


def example_table(name: str = "r1") -> pa.Table:
    return pa.Table.from_pylist(example_rows(name), schema=EVENTS)


def write_example(folder: Path, format_name: Format = "parquet", names: tuple[str, ...] = ("r1",)) -> Path:
    write_trace(folder, [(example_run(name), example_table(name)) for name in names], format_name)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_schema_the_json_lines_and_the_kinds_have_the_same_columns() -> None:
    assert tuple(EVENTS.names) == tuple(COLUMNS) == Event.__struct_fields__
    assert Event.__struct_fields__[: len(REQUIRED)] == REQUIRED
    assert len(KINDS) == len(set(KINDS)) == 14


@pytest.mark.parametrize("format_name", FORMATS)
def test_what_is_written_is_read_back_sorted_by_run_site_and_seq(tmp_path: Path, format_name: Format) -> None:
    folder = write_example(tmp_path / "trace", format_name, ("r2", "r1"))
    assert read_runs(folder) == [example_run("r1"), example_run("r2")]
    events = read_events(folder)
    assert events.schema.equals(EVENTS)
    expected = sorted(example_rows("r1") + example_rows("r2"), key=lambda row: (row["run"], row["site"], row["seq"]))
    assert events.equals(pa.Table.from_pylist(expected, schema=EVENTS))
    for (run, table), name in zip(iterate_runs(folder), ("r1", "r2"), strict=True):
        assert run == example_run(name)
        assert table.to_pylist() == [row for row in events.to_pylist() if row["run"] == name]


@pytest.mark.parametrize("format_name", FORMATS)
def test_the_same_runs_give_the_same_bytes_however_the_tables_are_cut(tmp_path: Path, format_name: Format) -> None:
    first = write_example(tmp_path / "first", format_name, ("r1", "r2"))
    table = example_table("r1")
    pieces = pa.concat_tables([table.slice(3), table.slice(0, 3)])
    shuffled = example_run("r1")
    shuffled.parameters = dict(reversed(shuffled.parameters.items()))
    write_trace(tmp_path / "second", [(example_run("r2"), example_table("r2")), (shuffled, pieces)], format_name)
    assert contents(first) == contents(tmp_path / "second")


def test_both_formats_say_the_same(tmp_path: Path) -> None:
    tables = [read_events(write_example(tmp_path / name, name)) for name in FORMATS]
    assert tables[0].equals(tables[1])


def test_json_lines_have_a_fixed_order_of_keys_and_no_nulls(tmp_path: Path) -> None:
    lines = (write_example(tmp_path / "trace", "jsonl") / "events.jsonl").read_text().splitlines()
    assert lines[0] == (
        '{"run":"r1","site":"a","seq":0,"time":0.1,"kind":"multicast","message":"a:0:1","groups":["g"],"depends":[]}'
    )
    run = json.loads((tmp_path / "trace" / "runs.jsonl").read_text())
    assert list(run) == list(Run.__struct_fields__)


def test_a_run_never_spans_files_and_small_runs_share_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_module, "_ROWS_PER_FILE", 8)
    folder = write_example(tmp_path / "trace", names=("r1", "r2", "r3"))
    parts = sorted((folder / "events").iterdir())
    assert [part.name for part in parts] == ["part-00000.parquet", "part-00001.parquet"]
    held = [set(pq.read_table(part, partitioning=None)["run"].to_pylist()) for part in parts]
    assert held == [{"r1", "r2"}, {"r3"}]
    assert [run.run for run, table in iterate_runs(folder) if len(table) == 4] == ["r1", "r2", "r3"]
    assert pq.ParquetFile(parts[0]).metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_run_without_events_is_a_run(tmp_path: Path, format_name: Format) -> None:
    write_trace(tmp_path / "trace", [(example_run(), EVENTS.empty_table())], format_name)
    [(run, table)] = iterate_runs(tmp_path / "trace")
    assert run == example_run()
    assert len(table) == 0
    assert read_events(tmp_path / "trace").schema.equals(EVENTS)


def test_nothing_is_visible_before_the_trace_is_whole(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "trace")
    writer.write(example_run(), example_table())
    assert not (tmp_path / "trace").exists()
    with pytest.raises(UsageError, match=r"no runs.jsonl"):
        read_runs(tmp_path)
    writer.close()
    writer.close()
    assert [path.name for path in tmp_path.iterdir()] == ["trace"]
    assert (tmp_path / "trace").stat().st_mode & 0o777 == 0o777 & ~_umask()
    with pytest.raises(UsageError, match="closed"):
        writer.write(example_run("r2"), example_table("r2"))


def test_a_writer_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    def write_and_fail() -> None:
        with TraceWriter(tmp_path / "trace") as writer:
            writer.write(example_run(), example_table())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it_is_not_overwritten(tmp_path: Path) -> None:
    write_example(tmp_path / "trace")
    with pytest.raises(UsageError, match="exists already"):
        write_example(tmp_path / "trace")
    (tmp_path / "empty").mkdir()
    assert read_runs(write_example(tmp_path / "empty"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda table: table.drop_columns(["seq"]), "column 'seq' is missing"),
        (lambda table: example_table("r9"), "has events of run 'r9'"),
        (
            lambda table: with_column(table, "kind", ["deliver", "view", "multicast", "sent"]),
            "unknown kind 'sent'.*'send'",
        ),
        (lambda table: with_column(table, "time", [0.0, float("nan"), 1.0, 1.0]), "row 2 has the time nan"),
        (lambda table: with_column(table, "site", ["a", "b", None, "c"]), "row 3 has no 'site'"),
        (lambda table: with_column(table, "message", [None] * 4), "row 1 is a 'deliver' without 'message'"),
    ],
)
def test_a_table_that_does_not_fit_is_not_written(
    tmp_path: Path, wrong: Callable[[pa.Table], pa.Table], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        write_trace(tmp_path / "trace", [(example_run(), wrong(example_table()))])
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_written_once_and_formats_have_names(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'r1' was written already"):
        write_example(tmp_path / "trace", names=("r1", "r1"))
    with pytest.raises(UsageError, match="'csv'"):
        TraceWriter(tmp_path / "trace", "csv")  # type: ignore[arg-type]


# --- Reading what others wrote ------------------------------------------------------------------------------------


def with_column(table: pa.Table, name: str, values: object) -> pa.Table:
    place = table.schema.get_field_index(name)
    return table.set_column(place, name, values if isinstance(values, pa.ChunkedArray | pa.Array) else pa.array(values))


def foreign_parquet(folder: Path, table: pa.Table) -> Path:
    """A trace whose Parquet file some other tool has written."""
    (folder / "events").mkdir(parents=True)
    pq.write_table(table, folder / "events" / "whatever.parquet")
    (folder / "runs.jsonl").write_text('{"run": "r1"}\n')
    return folder


def foreign_lines(folder: Path, *lines: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "runs.jsonl").write_text('{"run": "r1"}\n')
    return folder


GOOD = '{"run": "r1", "site": "a", "seq": 0, "time": 1, "kind": "fail", "note": "extra keys do not matter"}'


def test_optional_columns_may_be_missing_and_further_ones_present(tmp_path: Path) -> None:
    table = example_table().select(["kind", "run", "site", "seq", "time", "message"])
    table = table.append_column("remark", pa.array(["x"] * 4))
    events = read_events(foreign_parquet(tmp_path / "parquet", table))
    assert events.schema.equals(EVENTS)
    assert events["groups"].null_count == 4
    [row] = read_events(foreign_lines(tmp_path / "lines", GOOD, "")).to_pylist()
    assert row["time"] == 1.0
    assert row["message"] is None


def test_other_spellings_of_the_same_types_are_understood(tmp_path: Path) -> None:
    table = example_table()
    expected = read_events(foreign_parquet(tmp_path / "plain", table))
    for name, kind in (
        ("site", pa.dictionary(pa.int32(), pa.string())),
        ("message", pa.large_string()),
        ("seq", pa.int32()),
        ("time", pa.float32()),
        ("count", pa.int64()),
        ("members", pa.large_list(pa.large_string())),
    ):
        table = with_column(table, name, table[name].cast(kind))
    table = with_column(table, "time", pa.array([0, 0, 0, 0]))
    table = with_column(table, "reason", pa.nulls(4))
    events = read_events(foreign_parquet(tmp_path / "spelled", table))
    assert events.drop_columns(["time"]).equals(expected.drop_columns(["time"]))


def test_a_run_that_another_tool_spread_over_files_is_put_together(tmp_path: Path) -> None:
    folder = foreign_parquet(tmp_path / "trace", example_table().slice(0, 2))
    pq.write_table(example_table().slice(2), folder / "events" / "zzz.parquet")
    [(_, table)] = iterate_runs(folder)
    assert len(table) == len(read_events(folder)) == 4


@pytest.mark.parametrize("column", REQUIRED)
def test_a_missing_required_column_is_refused(tmp_path: Path, column: str) -> None:
    folder = foreign_parquet(tmp_path / "parquet", example_table().drop_columns([column]))
    assert f"required column {column!r} is missing" in refusal(read_events, folder)
    assert f"required column {column!r} is missing" in refusal(lambda path: list(iterate_runs(path)), folder)
    line = json.dumps({key: value for key, value in json.loads(GOOD).items() if key != column})
    assert f"line 2: Object missing required field `{column}`" in refusal(
        read_events, foreign_lines(tmp_path / "lines", GOOD, line)
    )


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("time", ["1.0", "2.0", "3.0", "4.0"]),
        ("seq", [0.0, 1.0, 0.0, 1.0]),
        ("site", [1, 1, 2, 2]),
        ("groups", ["g", "g", "g", "g"]),
        ("messages", [[1], [2], [3], [4]]),
        ("count", pa.array([2**40, 1, 1, 1])),
    ],
)
def test_a_wrong_type_is_refused(tmp_path: Path, column: str, values: object) -> None:
    folder = foreign_parquet(tmp_path / "trace", with_column(example_table(), column, values))
    assert f"column {column!r}" in refusal(read_events, folder)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (GOOD.replace('"fail"', '"failed"'), r"line 2: Invalid enum value 'failed' - at `$.kind`"),
        (GOOD.replace('"time": 1', '"time": "1"'), r"line 2: Expected `float`, got `str` - at `$.time`"),
        (GOOD[:-5], "line 2: "),
        ("[1]", "line 2: Expected `object`, got `array`"),
        (GOOD.replace('"seq": 0', f'"seq": {2**70}'), "too large"),
        (GOOD.replace('"fail"', '"deliver"'), "row 2 is a 'deliver' without 'message'"),
    ],
)
def test_a_broken_line_is_refused_with_its_number(tmp_path: Path, line: str, message: str) -> None:
    assert message in refusal(read_events, foreign_lines(tmp_path / "trace", GOOD, line))


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    table = with_column(example_table(), "kind", ["deliver", "view", "multicast", "crash"])
    assert "unknown kind 'crash'" in refusal(read_events, foreign_parquet(tmp_path / "trace", table))


@pytest.mark.parametrize("kept", [0, 3, 100, 2000])
def test_a_truncated_parquet_file_is_refused(tmp_path: Path, kept: int) -> None:
    folder = write_example(tmp_path / "trace")
    part = folder / "events" / "part-00000.parquet"
    part.write_bytes(part.read_bytes()[:kept])
    for read in (read_events, lambda path: list(iterate_runs(path))):
        assert "not a readable Parquet file" in refusal(read, folder)


def test_a_corrupt_parquet_file_is_refused(tmp_path: Path) -> None:
    folder = write_example(tmp_path / "trace")
    part = folder / "events" / "part-00000.parquet"
    damaged = bytearray(part.read_bytes())
    damaged[4:200] = bytes(196)
    part.write_bytes(damaged)
    assert "not a readable Parquet file" in refusal(read_events, folder)


def test_folders_that_are_no_traces_are_refused(tmp_path: Path) -> None:
    assert "no such folder" in refusal(read_runs, tmp_path / "absent")
    assert "no runs.jsonl" in refusal(read_runs, tmp_path)
    (tmp_path / "file").write_text("x")
    assert "this is a file" in refusal(read_runs, tmp_path / "file")
    trace = foreign_lines(tmp_path / "trace", GOOD)
    (trace / "events").mkdir()
    assert "both events.jsonl and events/" in refusal(read_events, trace)
    (trace / "events.jsonl").unlink()
    assert "no .parquet file" in refusal(read_events, trace)
    (trace / "events").rmdir()
    assert "neither events.jsonl nor a folder events/" in refusal(read_events, trace)
    (trace / "runs.jsonl").write_text("")
    assert "runs.jsonl is empty" in refusal(read_runs, trace)


def test_broken_descriptions_of_runs_are_refused(tmp_path: Path) -> None:
    trace = foreign_lines(tmp_path / "trace", GOOD)
    (trace / "runs.jsonl").write_text('{"run": "r1"}\n{"run": ')
    assert "runs.jsonl, line 2: " in refusal(read_runs, trace)
    (trace / "runs.jsonl").write_text('{"protocol": "token"}\n')
    assert "line 1: Object missing required field `run`" in refusal(read_runs, trace)
    (trace / "runs.jsonl").write_text('{"run": "r1", "groups": ["a"]}\n')
    assert "`$.groups`" in refusal(read_runs, trace)


@pytest.mark.parametrize("format_name", FORMATS)
def test_events_of_a_run_that_is_not_described_are_refused(tmp_path: Path, format_name: Format) -> None:
    folder = write_example(tmp_path / "trace", format_name)
    (folder / "runs.jsonl").write_text('{"run": "other"}\n')
    for read in (read_events, lambda path: list(iterate_runs(path))):
        assert "events of run 'r1', which runs.jsonl does not describe" in refusal(read, folder)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    folder = write_example(tmp_path / "trace", "jsonl")
    (folder / "events.jsonl").chmod(0)
    assert "cannot be read" in refusal(read_events, folder)


def test_a_directory_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    trace = foreign_lines(tmp_path / "trace", GOOD)
    (trace / "runs.jsonl").unlink()
    (trace / "runs.jsonl").mkdir()
    assert "cannot be read: Is a directory" in refusal(read_runs, trace)


# --- Folders of traces --------------------------------------------------------------------------------------------


def process_trace(folder: Path, site: str, **changes: object) -> Path:
    run = example_run()
    for name, value in changes.items():
        setattr(run, name, value)
    table = pa.Table.from_pylist([row for row in example_rows("r1") if row["site"] == site], schema=EVENTS)
    write_trace(folder / site, [(run, table)], "jsonl" if site == "a" else "parquet")
    return folder


def test_the_traces_of_the_processes_of_a_cluster_are_one_run(tmp_path: Path) -> None:
    process_trace(tmp_path, "a", ended_at=10.0, guarantees=["integrity", "R2"], groups={"g": ["a"], "h": ["a"]})
    process_trace(tmp_path, "b", guarantees=["R2", "R1"], parameters={"further": 1})
    (tmp_path / "notes").mkdir()
    [run] = read_runs(tmp_path)
    assert run.ended_at == 12.5
    assert run.guarantees == ["R2"]
    assert run.groups == {"g": ["a", "b"], "h": ["a"]}
    assert run.parameters == {**example_run().parameters, "further": 1}
    assert run.settled
    [(merged, table)] = iterate_runs(tmp_path)
    assert merged == run
    assert sorted(table["site"].to_pylist()) == ["a", "a", "b", "b"]
    assert table.equals(read_events(tmp_path))


def test_a_run_is_settled_only_when_all_processes_say_so(tmp_path: Path) -> None:
    process_trace(tmp_path, "a")
    process_trace(tmp_path, "b", settled=False)
    assert not read_runs(tmp_path)[0].settled


def test_processes_that_ran_different_things_under_one_name_are_refused(tmp_path: Path) -> None:
    process_trace(tmp_path, "a")
    process_trace(tmp_path, "b", protocol="token")
    assert "protocol 'token', another process says 'sequencer'" in refusal(read_runs, tmp_path)


def test_traces_of_different_runs_in_one_folder_stay_apart(tmp_path: Path) -> None:
    write_example(tmp_path / "x", names=("r2",))
    write_example(tmp_path / "y", names=("r1", "r3"))
    assert [(run.run, len(table)) for run, table in iterate_runs(tmp_path)] == [("r1", 4), ("r2", 4), ("r3", 4)]


def refusal(read: Callable[[Path], object], folder: Path) -> str:
    """The one line with which reading is refused."""
    with pytest.raises(UsageError) as caught:
        read(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
