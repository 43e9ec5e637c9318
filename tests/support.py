"""Helpers that several test files use."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence

COMMAND_SECONDS_MAX = 60  # a deadline against hanging, not a measure of speed

RUN_ORDERCAST = "import sys; from ordercast.cli import main; sys.exit(main())"


def run_python(
    code: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    seconds_max: float = COMMAND_SECONDS_MAX,
) -> subprocess.CompletedProcess[str]:
    """Run code in a Python of its own; past the deadline it is killed with all the processes that it started."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=None if environment is None else dict(environment),
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=seconds_max)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def run_ordercast(*arguments: str, blocked: Sequence[str] = (), setup: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command line; `blocked` modules are as if not installed, `setup` is code to run before."""
    code = (
        f"{BLOCK_IMPORTS.format(blocked=set(blocked))}\n{setup}\n{RUN_ORDERCAST}" if blocked or setup else RUN_ORDERCAST
    )
    return run_python(code, *arguments)


BLOCK_IMPORTS = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Block())
"""


ATTRIBUTES_MAX = 29
"""From the thirtieth on Python 3.11 keeps those of an object in a dictionary of its own, and finds methods and
attributes more slowly. Slots do not count."""


def find_crowded(*objects: object) -> dict[str, int]:
    """Kinds of objects with more attributes than that, and how many they have."""
    counts = {type(each).__name__: len(getattr(each, "__dict__", ())) for each in objects}
    return {name: count for name, count in counts.items() if count > ATTRIBUTES_MAX}
