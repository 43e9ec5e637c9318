"""A fork of a process has nothing of its log: not the lock, and no way to write to it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from ordercast.core import MAIN_INSTANCE
from ordercast.storage.folder import open_log
from tests.support import run_python

FORK = """
import os, sys, signal, time
from pathlib import Path
from ordercast.core import Record, StorageError
from ordercast.storage.folder import open_log

class Note(Record, frozen=True):
    number: int

opened = open_log(Path(sys.argv[1]), "bank", "main-1")
log = opened.log("main")
log.append(Note(0))
log.flush()
child = os.fork()
"""


def test_a_child_that_lives_on_does_not_keep_the_lock(tmp_path: Path) -> None:
    """The process is killed; its child runs on; the process comes back."""
    code = FORK + (
        "if child == 0:\n"
        "    for descriptor in range(3): os.close(descriptor)\n"
        "    time.sleep(60); os._exit(0)\n"
        "print(child, flush=True)\n"
        "time.sleep(0.2)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = run_python(code, str(tmp_path / "main-1"))
    child = int(killed.stdout)
    try:
        opened = open_log(tmp_path / "main-1", "bank", "main-1")
        assert opened.incarnation == 1
        assert opened.log(MAIN_INSTANCE).position == 1
        opened.close()
    finally:
        os.kill(child, signal.SIGKILL)


def test_the_process_keeps_the_lock_when_its_child_ends(tmp_path: Path) -> None:
    code = FORK + (
        "if child == 0: opened.close(); sys.exit()\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "try: open_log(Path(sys.argv[1]), 'bank', 'main-1')\n"
        "except Exception as error: print(error)\n"
        "log.append(Note(1)); log.flush(); opened.close()"
    )
    result = run_python(code, str(tmp_path / "main-1"))
    assert (result.returncode, result.stderr) == (0, "")
    assert "is in use by another process" in result.stdout


def test_a_child_cannot_write_to_the_log(tmp_path: Path) -> None:
    code = FORK + (
        "if child == 0:\n"
        "    log.append(Note(1))\n"
        "    try: log.flush()\n"
        "    except StorageError as error: print(error)\n"
        "    opened.close(); sys.exit()\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "log.append(Note(2)); log.flush(); print(log.position); opened.close()"
    )
    result = run_python(code, str(tmp_path / "main-1"))
    assert (result.returncode, result.stderr) == (0, "")
    refusal, position = result.stdout.splitlines()
    assert "this process is a fork of the one that opened the log, and cannot write to it; open nodes" in refusal
    assert position == "2"
    opened = open_log(tmp_path / "main-1", "bank", "main-1")
    assert opened.log(MAIN_INSTANCE).position == 2
    opened.close()
