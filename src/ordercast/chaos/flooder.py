"""Somebody without the key who floods one process: a steady stream of datagrams that it has to drop.

`python -m ordercast.chaos.flooder HOST:PORT --kind KIND --rate N --seconds S [--recording FILE] [--seed N]`

| kind | what is sent |
| --- | --- |
| `junk` | random bytes |
| `forged` | what is in the recording, with higher counters and another sealed part: the right shape, the wrong key |
| `replayed` | what is in the recording, byte by byte |

Half of what is forged or replayed are handshakes and half is data, where the recording has both. It ends after so many
seconds or at SIGTERM, and writes one line of JSON: how many datagrams have left, in how long, and how much processor
time that took. All datagrams are made before the first leaves, and leave in trains where the kernel can cut them, so
that the flooder itself takes little of a machine that it shares with those whom it floods.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import IO

from ordercast.core import UsageError
from ordercast.net import sockets
from ordercast.node.addresses import parse_address
from ordercast.wire.datagram import HEADER, HELLO, PLAINTEXT, REFUSAL
from ordercast.wire.sealing import SALT_BYTES

KINDS = ("junk", "forged", "replayed")

TRAIN_MAX = 32
"""Datagrams that leave together: a burst that a switch would let through."""

TRAINS = 256
"""Made before the first leaves; then they come again."""

SIZE_MIN, SIZE_MAX = 20, 1472
"""Of a datagram: longer than a header, and not longer than an Ethernet frame holds. (Larger ones would be a flood of
bytes, which fills the network before it keeps a process busy.)"""

LATE_SECONDS = 0.1
"""A flooder that did not get the processor for longer than this does not make up for it."""

_LENGTH = struct.Struct(">H")

Train = tuple[bytes, int, int]
"""Datagrams one after the other, the size of each, how many there are."""


# ---------------------------------------------------------------------- recordings
def record(file: IO[bytes], datagram: bytes | memoryview) -> None:
    """Add a datagram to a recording."""
    file.write(_LENGTH.pack(len(datagram)))
    file.write(datagram)


def read_recording(path: Path) -> list[bytes]:
    """All datagrams of a recording; one that was cut off at the end is left out."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the recording {path} ({error.strerror}): name a file that exists") from None
    found, start = [], 0
    while start + _LENGTH.size <= len(content):
        (length,) = _LENGTH.unpack_from(content, start)
        start += _LENGTH.size
        if start + length <= len(content):
            found.append(content[start : start + length])
        start += length
    return found


# ---------------------------------------------------------------------- what is sent
def make_trains(kind: str, recorded: Sequence[bytes], random: Random) -> list[Train]:
    """What a flooder sends, in turn; `UsageError` when the recording has nothing for it."""
    if kind == "junk":
        return [_junk(random) for _ in range(TRAINS)]
    usable = [datagram for datagram in recorded if SIZE_MIN <= len(datagram) <= SIZE_MAX]
    handshakes = [datagram for datagram in usable if is_handshake(datagram)]
    data = [datagram for datagram in usable if not is_handshake(datagram)]
    kinds = [some for some in (handshakes, data) if some]
    if not kinds:
        raise UsageError(f"the recording has no datagrams of {SIZE_MIN} to {SIZE_MAX} bytes: record some first")
    highest: dict[bytes, int] = {}
    for datagram in recorded:
        _, session, counter = HEADER.unpack_from(datagram.ljust(HEADER.size))
        highest[session] = max(counter, highest.get(session, 0))
    trains = []
    for number in range(TRAINS):
        some = kinds[number % len(kinds)]
        # One after the other, as they were recorded: a receiver that remembers the last one is not helped by that.
        original = some[number // len(kinds) % len(some)]
        trains.append(_train([original] * TRAIN_MAX if kind == "replayed" else _forge(original, highest, random)))
    return trains


def is_handshake(datagram: bytes) -> bool:
    """By its kind, which everybody can read."""
    return HELLO <= datagram[1] & ~PLAINTEXT <= REFUSAL


def _junk(random: Random) -> Train:
    size = random.randint(SIZE_MIN, SIZE_MAX)
    return _train([random.randbytes(size) for _ in range(TRAIN_MAX)])


def _forge(original: bytes, highest: Mapping[bytes, int], random: Random) -> list[bytes]:
    """Datagrams under a genuine session's name, which their receiver has not seen and cannot open."""
    what, session, _ = HEADER.unpack_from(original)
    readable = HEADER.size + 1
    if is_handshake(original):
        readable = HEADER.size + SALT_BYTES + 1
        readable += original[readable - 1]
    forged = []
    for _ in range(TRAIN_MAX):
        # Of the session's epoch, the next one, or a far one: whatever makes a receiver do the most.
        counter = highest[session] + (1 << random.randrange(20, 40)) + random.randrange(1 << 12)
        header = HEADER.pack(what, session, counter % (1 << 64)) + original[HEADER.size : readable]
        forged.append(header + random.randbytes(len(original) - len(header)))
    return forged


def _train(datagrams: Sequence[bytes]) -> Train:
    """As many of them as one segmented send takes; all have one size."""
    size = len(datagrams[0])
    datagrams = datagrams[: sockets.DATAGRAM_MAX // size]
    return b"".join(datagrams), size, len(datagrams)


# ---------------------------------------------------------------------- sending
class Flooder:
    """Sends trains at a steady rate."""

    def __init__(self, where: sockets.Resolved, trains: Sequence[Train], rate: float) -> None:
        self.sent = 0
        self._trains = trains
        self._rate = rate
        self._stopped = False
        self._socket = socket.socket(where.family, socket.SOCK_DGRAM)
        self._socket.connect(where.address)
        self._segments = sockets.can_segment(self._socket)

    def stop(self) -> None:
        """Send no more."""
        self._stopped = True

    def run(self, seconds: float) -> None:
        """Send for so long."""
        due = time.monotonic()
        end = due + seconds
        number = 0
        while not self._stopped:
            now = time.monotonic()
            if now >= end:
                break
            if now < due:
                time.sleep(min(due, end) - now)
                continue
            train, size, count = self._trains[number % len(self._trains)]
            self._send(train, size)
            number += 1
            self.sent += count
            due = max(due, now - LATE_SECONDS) + count / self._rate

    def _send(self, train: bytes, size: int) -> None:
        try:
            if self._segments:
                self._socket.sendmsg((train,), sockets.segment_option(size))
            else:
                for start in range(0, len(train), size):
                    self._socket.send(train[start : start + size])
        except OSError:
            pass  # nobody listens there at the moment, and soon somebody may

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Flood one process with datagrams that it has to drop.")
    parser.add_argument("target", metavar="HOST:PORT", help="where the process listens")
    parser.add_argument("--kind", choices=KINDS, default="junk")
    parser.add_argument("--rate", type=float, default=50_000.0, help="datagrams a second")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--recording", type=Path, help="datagrams to forge or to replay (see `record`)")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other random bytes")
    arguments = parser.parse_args()
    if arguments.kind != "junk" and arguments.recording is None:
        parser.error(f"--kind {arguments.kind} needs --recording FILE")
    if arguments.rate <= 0:
        parser.error("--rate must be more than 0")
    return arguments


def main() -> None:
    """The process."""
    arguments = _arguments()
    try:
        recorded = [] if arguments.recording is None else read_recording(arguments.recording)
        trains = make_trains(arguments.kind, recorded, Random(f"flooder {arguments.seed}"))
        flooder = Flooder(sockets.resolve(*parse_address(arguments.target)), trains, arguments.rate)
    except UsageError as error:
        raise SystemExit(f"flooder: {error}") from None
    signal.signal(signal.SIGTERM, lambda *_: flooder.stop())
    begin, used = time.monotonic(), time.process_time()
    flooder.run(arguments.seconds)
    seconds, used = time.monotonic() - begin, time.process_time() - used
    flooder.close()
    print(json.dumps({"kind": arguments.kind, "sent": flooder.sent, "seconds": seconds, "processor_seconds": used}))


if __name__ == "__main__":
    main()
