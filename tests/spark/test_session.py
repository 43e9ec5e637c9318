"""Sessions: silent, explained in one line when something is missing, and gone when they are over."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import SparkSession

from ordercast.core.errors import UsageError
from ordercast.spark import session
from ordercast.spark.java import find_bundled_java
from ordercast.spark.launch import explain
from ordercast.spark.master import Master, find_master
from ordercast.spark.progress import watch
from ordercast.spark.session import open_session
from tests.spark.traces import by_hand, refused
from tests.support import RUN_ORDERCAST, run_ordercast, run_python

TEXT = "a multicast m g\na deliver m\nb deliver m\nc deliver m"
START_SECONDS_MAX = 120.0
"""A deadline against hanging: a loaded machine takes half a minute to start Java and two workers."""


def test_workers_have_pyspark_from_where_the_session_has_it_and_not_from_an_archive(spark: SparkSession) -> None:
    """Out of the archive, every one of them compiles it anew."""

    def tell(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch([pa.array([pyspark.__file__])], names=["file"])

    found = {row.file for row in spark.range(2).mapInArrow(tell, "file string").collect()}
    assert found == {pyspark.__file__}


# ---------------------------------------------------------------------- masters
@pytest.mark.parametrize("url", ["local", "local[*]", "local[4]", "local[2,3]", "local-cluster[1,1,1024]"])
def test_a_local_master_is_this_machine(url: str) -> None:
    assert find_master(url) == Master(url, "127.0.0.1")


@pytest.mark.parametrize("url", ["local[0]", "local[", "http://x:1", "spark://", "spark:/x:7077", "sc://x", "me"])
def test_what_is_no_master_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match=r"is no Spark master; use local\[\*\]"):
        find_master(url)


def test_the_environment_names_a_master_and_the_option_overrules_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERCAST_MASTER", "local[3]")
    assert find_master(None).url == "local[3]"
    assert find_master("local[1]").url == "local[1]"
    monkeypatch.setenv("ORDERCAST_MASTER", "here")
    with pytest.raises(UsageError, match="ORDERCAST_MASTER: 'here'"):
        find_master(None)


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port at which nobody listens: bound, but no more."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield unused.getsockname()[1]


def test_a_master_that_does_not_answer_is_refused_at_once(silent_port: int) -> None:
    with pytest.raises(UsageError, match=rf"no Spark master answers at spark://127.0.0.1:{silent_port} "):
        find_master(f"spark://127.0.0.1:{silent_port}")
    with pytest.raises(UsageError, match="has no port number"):
        find_master("spark://127.0.0.1:seven")


def test_one_of_several_masters_is_enough_and_tells_our_address(silent_port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"spark://127.0.0.1:{silent_port},127.0.0.1:{server.getsockname()[1]}"
        assert find_master(url) == Master(url, "127.0.0.1")


def test_master_errors_are_one_line_of_the_command(
    silent_port: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = by_hand(tmp_path / "trace", TEXT)
    assert "is no Spark master" in refused(capfd, folder, "--master", "locl[2]")
    assert "no Spark master answers" in refused(capfd, folder, "--master", f"spark://127.0.0.1:{silent_port}")


# ---------------------------------------------------------------------- what is missing
def test_no_java_is_one_line(tmp_path: Path) -> None:
    folder = by_hand(tmp_path / "trace", TEXT)
    environment = {**os.environ, "ORDERCAST_JAVA": str(tmp_path)}
    result = run_python(RUN_ORDERCAST, "verify", "--spark", str(folder), environment=environment)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"ordercast verify: ORDERCAST_JAVA={tmp_path} is no Java home with Java 17 or newer\n"


def test_a_java_that_does_not_start_is_one_line(tmp_path: Path) -> None:
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="17.0.1"\n')
    program = home / "bin" / "java"
    program.write_text("#!/bin/sh\necho 'Error: out of coffee' >&2\nexit 1\n")
    program.chmod(0o755)
    folder = by_hand(tmp_path / "trace", TEXT)
    environment = {**os.environ, "ORDERCAST_JAVA": str(home)}
    result = run_python(RUN_ORDERCAST, "verify", "--spark", str(folder), environment=environment)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "ordercast verify: Spark did not start: out of coffee\n"


def test_no_pyspark_is_one_line(tmp_path: Path) -> None:
    folder = by_hand(tmp_path / "trace", TEXT)
    result = run_ordercast("verify", "--spark", str(folder), blocked=["pyspark"])
    assert result.returncode == 2
    assert result.stderr == "ordercast verify needs the extra [spark]: pip install 'ordercast[spark]'\n"


@pytest.mark.parametrize("command", ["verify", "measure"])
def test_a_small_trace_needs_no_spark_at_all(command: str, tmp_path: Path) -> None:
    folder = by_hand(tmp_path / "trace", TEXT, claims=["integrity"])
    result = run_ordercast(command, str(folder), blocked=["pyspark", "py4j"])
    assert (result.returncode, result.stderr) == (0, "")


def test_a_missing_matplotlib_is_noticed_before_the_work(tmp_path: Path) -> None:
    result = run_ordercast("verify", str(tmp_path), "--report", str(tmp_path / "page"), blocked=["matplotlib"])
    assert result.returncode == 2
    assert result.stderr == "ordercast verify needs the extra [dashboard]: pip install 'ordercast[dashboard]'\n"


def test_the_last_complaint_of_java_is_the_explanation(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert explain(log, "nothing at all") == "nothing at all"
    log.write_text('12:00:00 WARN Utils: host\nException in thread "main" org.a.SparkException: no yarn\n\tat x\n')
    assert explain(log, "") == "no yarn"
    log.write_text(
        "12:00:00 ERROR Backend: All masters are gone\n12:00:01 ERROR X: Error initializing SparkContext.\n\tat x\n"
    )
    assert explain(log, "") == "All masters are gone"


# ---------------------------------------------------------------------- a session
def test_a_process_shares_its_session(spark: SparkSession) -> None:
    with open_session("again") as shared:
        assert shared.sparkContext is spark.sparkContext
    assert spark.range(3).count() == 3
    with pytest.raises(UsageError, match=r"has a Spark session on local\[2\] already; stop it to use local\[7\]"):  # noqa: SIM117
        with open_session("another", "local[7]"):
            pass


def test_a_cluster_that_has_no_room_is_refused_in_one_line(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that has been given no worker: there is nobody in it but its driver."""
    monkeypatch.setattr(session, "WORKERS_SECONDS_MAX", 0.0)
    with pytest.raises(UsageError, match=r"^spark://here:7077 gives no worker within 0 s; has one free cores and mem"):
        session._await_workers(spark.sparkContext, Master("spark://here:7077", "127.0.0.1"))


def test_progress_is_told_while_jobs_run(spark: SparkSession) -> None:
    told: list[tuple[int, int]] = []
    enough = Event()

    def listen(done: int, total: int) -> None:
        told.append((done, total))
        if total >= 3 and done == total:
            enough.set()

    with watch(spark, listen):
        spark.sparkContext.parallelize(range(3), 3).count()
        assert enough.wait(START_SECONDS_MAX)
    assert all(done <= total for done, total in told)


@pytest.mark.own_process
def test_on_the_bundled_java_and_an_empty_environment_nothing_is_said_and_nothing_left_in_the_folder(
    tmp_path: Path,
) -> None:
    """No PATH, no JAVA_HOME, and the finder is told to pass over what else the machine may have."""
    folder = by_hand(tmp_path / "trace", TEXT, claims=["integrity", "uniform-agreement"])
    for name in ("empty", "home"):
        (tmp_path / name).mkdir()
    log = tmp_path / "spark.log"
    environment = {
        "ORDERCAST_JAVA": "bundled",
        "ORDERCAST_SPARK_LOG": str(log),
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "home"),
    }
    code = f"import os; os.chdir({str(tmp_path / 'empty')!r})\n{RUN_ORDERCAST}"
    # As a run that is too large for a worker: Spark reads it itself, and shuffles, and hands it to Python.
    words = ["verify", str(folder), "--json", "--large-rows", "1"]
    result = run_python(code, *words, environment=environment, seconds_max=START_SECONDS_MAX)
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["violated_claims"] == 0
    assert result.stdout.startswith("{")
    assert result.stdout.endswith("}\n")
    assert list((tmp_path / "empty").iterdir()) == []
    bundled = find_bundled_java()
    assert bundled is not None
    assert f"Java version {bundled.version}" in log.read_text()


INTERRUPTED = """
import sys
from ordercast.cli import main
from ordercast.spark import tables
from ordercast.trace import event_file

def wait(piece):
    import time
    print("waiting", file=open(sys.argv[4], "w"))
    time.sleep(600)
    yield from ()

import ordercast.spark.verify.verification as verification
verification.judge_files = wait
sys.exit(main(sys.argv[1:4]))
"""


@pytest.mark.own_process
def test_ctrl_c_ends_everything_with_exit_code_130(tmp_path: Path) -> None:
    folder = by_hand(tmp_path / "trace", TEXT, claims=["integrity"])
    waiting = tmp_path / "waiting"
    code = INTERRUPTED.replace("sys.argv[4]", repr(str(waiting)))
    process = subprocess.Popen(
        [sys.executable, "-c", code, "verify", str(folder), "--spark"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        never = Event()
        for _ in range(int(START_SECONDS_MAX / 0.1)):
            if waiting.exists() or process.poll() is not None:
                break
            never.wait(0.1)
        # As a terminal does: to the command, to Java and to its workers.
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=START_SECONDS_MAX)
        assert (process.returncode, output, errors) == (130, "", "")
        for _ in range(int(START_SECONDS_MAX / 0.1)):
            if not left_of(process.pid):
                break
            never.wait(0.1)
        assert left_of(process.pid) == []
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)


def left_of(session: int) -> list[str]:
    """The processes of a session of the operating system."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(folder.name)
    return found
