"""No nonce is used twice after a fork: the child cannot seal in its parent's name, and the parent goes on."""

from __future__ import annotations

import pytest

from tests.support import run_python

SESSION = """
import os, sys
from ordercast.core import UsageError
from ordercast.wire.datagram import DATA, EPOCH_BITS
from ordercast.wire.session import BootKeys, OwnSession

own = OwnSession(BootKeys(KEY, "bank", "a", bytes(16)), 1)
WAYS = {
    "a datagram": lambda: own.seal(own.what(DATA), b"\\1", b"hello"),
    "a datagram into room": lambda: own.seal(own.what(DATA), b"\\1", b"hello", memoryview(bytearray(1000))),
    "fragments": lambda: own.seal_fragments(b"\\1", 0, bytes(100), 50, range(2)),
}
seal = WAYS[sys.argv[1]]
seal()
if sys.argv[2] == "epoch":
    own.counter = (1 << EPOCH_BITS) - 1
child = os.fork()
if child:
    assert os.waitpid(child, 0)[1] == 0
for _ in range(3):
    try:
        seal()
        print("sealed", flush=True)
    except UsageError as error:
        print(error, flush=True)
"""


@pytest.mark.parametrize("key", ["bytes(32)", "None"])
@pytest.mark.parametrize("when", ["at once", "epoch"])
@pytest.mark.parametrize("what", ["a datagram", "a datagram into room", "fragments"])
def test_a_child_seals_nothing_and_its_parent_goes_on(what: str, when: str, key: str) -> None:
    result = run_python(SESSION.replace("KEY", key), what, when)
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[3:] == ["sealed"] * 3
    for line in lines[:3]:
        assert line.startswith("this process is a fork of the one that opened the node, and cannot speak in its name;")
