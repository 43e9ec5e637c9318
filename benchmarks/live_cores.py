"""How far apart two processors are: what a large datagram costs from one to the other, and on one alone.

    python benchmarks/live_cores.py

A virtual machine's processors can lie on different chips, and its host can move them: the same copy between two
processes then takes several times as long as an hour ago, and every figure for large messages with it.
"""

from __future__ import annotations

import os
import socket
import time
from itertools import pairwise

try:
    from os import sched_getaffinity, sched_setaffinity
except ImportError:  # not Linux
    sched_getaffinity = sched_setaffinity = None  # type: ignore[assignment]

DATAGRAM_BYTES = 65000
WINDOW = 8
SECONDS = 0.3
END = b"end"


def microseconds(sender_core: int, receiver_core: int) -> float:
    """For a datagram to be sent and received, when the sender waits for the receiver twice a window.

    Of all half windows, a quick one counts (the first decile): the slow ones are those that others interrupted.
    """
    ends = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for end in ends:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2 * WINDOW * DATAGRAM_BYTES)
        end.bind(("127.0.0.1", 0))
    sending, receiving = ends
    sending.connect(receiving.getsockname())
    receiving.connect(sending.getsockname())
    child = os.fork()
    if child == 0:
        try:
            sched_setaffinity(0, {receiver_core})
            receive(receiving)
        finally:
            os._exit(0)
    own_cores = sched_getaffinity(0)
    sched_setaffinity(0, {sender_core})
    datagram = bytearray(DATAGRAM_BYTES)
    sending.settimeout(1.0)
    under_way = 0
    marks = [time.perf_counter()]
    try:
        while marks[-1] - marks[0] < SECONDS:
            while under_way < WINDOW:
                sending.send(datagram)
                under_way += 1
            sending.recv(len(END))
            under_way -= WINDOW // 2
            marks.append(time.perf_counter())
        taken = sorted(after - before for before, after in pairwise(marks))
        return 1e6 * taken[len(taken) // 10] / (WINDOW // 2)
    finally:
        sending.send(END)
        os.waitpid(child, 0)
        sched_setaffinity(0, own_cores)
        for end in ends:
            end.close()


def receive(receiving: socket.socket) -> None:
    buffer = bytearray(DATAGRAM_BYTES)
    receiving.settimeout(2.0)
    count = 0
    while receiving.recv_into(buffer) != len(END):
        count += 1
        if count % (WINDOW // 2) == 0:
            receiving.send(b"on")


def distance() -> str | None:
    """A sentence, or nothing where there is only one processor, or no choice between them."""
    if sched_getaffinity is None or len(sched_getaffinity(0)) < 2:
        return None
    first, second, *_ = sorted(sched_getaffinity(0))
    try:
        alone, across = microseconds(first, first), microseconds(first, second)
    except TimeoutError:
        return None
    return f"a 65 kB datagram takes {across:.0f} µs from processor to processor, {alone:.0f} µs on one"


if __name__ == "__main__":
    print(distance() or "one processor only, or no choice between them")
