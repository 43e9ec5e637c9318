"""What does the wire cost? Microseconds per datagram to pack and seal, and to open and decode, beside bare AES-GCM.

    python benchmarks/wire.py [--rounds N] [--insecure] [--profile] [--json]

Bare is one call of `AESGCM.encrypt` or `decrypt` for as many bytes, and one of msgspec to encode or decode the message
(that is where its payload is copied). What is left is ours: headers, packing, replay window, reassembly. Fragments are
counted one by one. Every figure is the best of `--rounds` rounds in which all contestants take turns.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import time
from collections.abc import Callable

import msgspec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ordercast.core import MAIN_INSTANCE, MessageId, Multicast, SiteId
from ordercast.protocols.classic.sequencer.packets import Ordered
from ordercast.wire import ClusterKeys, Codec, Endpoint, Outgoing, new_key

PROCESSES = ("main-1", "main-2", "main-3", "main-4")
SENDER, RECEIVER, OTHERS = PROCESSES[0], PROCESSES[1], PROCESSES[1:]
HEADER = bytes(19)
FRAMES = 40
"""In one round: what a sender has in flight, and less than the receiver's window when each has 50 fragments."""

# Payload of a frame, largest datagram.
CASES = ((100, 65000), (1000, 65000), (10_000, 65000), (60_000, 65000), (60_000, 1450))
TARGETS_MICROSECONDS = {65000: 10.0, 1450: 2.0}


def message_of(payload_bytes: int) -> Ordered:
    """As the sequencer sends it: one bundle in its place."""
    return Ordered(
        7, (7, 7, 7), Multicast(MessageId(SENDER, 0, 7), ("accounts",), os.urandom(payload_bytes), None, 500)
    )


def make_endpoints(max_datagram: int, keys: ClusterKeys | None) -> dict[SiteId, Endpoint]:
    """Four processes that know each other."""
    codec = Codec({MAIN_INSTANCE: (Ordered,)})
    endpoints = {
        process: Endpoint("bank", process, PROCESSES, keys, codec, 0, True, max_datagram) for process in PROCESSES
    }
    for now in (1.0, 1.001, 1.002, 1.003):
        for endpoint in endpoints.values():
            endpoint.tick(now)
            for outgoing in endpoint.flush():
                for site in outgoing.to:
                    endpoints[site].receive(outgoing.buffer, now)
    assert all(len(endpoint.established) == len(OTHERS) for endpoint in endpoints.values())
    return endpoints


def datagrams_of(outgoing: Outgoing) -> list[memoryview]:
    """As a socket hands them over: the endpoint uses its buffer again."""
    view = memoryview(bytes(outgoing.buffer))
    size = outgoing.segment or len(view)
    return [view[start : start + size] for start in range(0, len(view), size)]


class Case:
    """One size of frames in one size of datagrams."""

    def __init__(self, payload_bytes: int, max_datagram: int, sealed: bool) -> None:
        self.payload_bytes = payload_bytes
        self.max_datagram = max_datagram
        self.best: dict[str, float] = {}
        self._sealed = sealed
        self._endpoints = make_endpoints(max_datagram, ClusterKeys(new_key()) if sealed else None)
        self._message = message_of(payload_bytes)
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(Ordered)
        self._encoded = self._encoder.encode(self._message)
        self._cipher = AESGCM(os.urandom(32))
        self._nonce = os.urandom(12)
        self._now = 2.0
        self.prepare()
        self.fragments = len(self._arriving) // FRAMES
        size = min(len(self._arriving[0]) - len(HEADER) - 16, len(self._encoded))
        self._plaintext = os.urandom(size)
        self._ciphertext = self._cipher.encrypt(self._nonce, self._plaintext, HEADER)

    def send(self) -> None:
        """To all the others; each frame leaves at once."""
        endpoint, message = self._endpoints[SENDER], self._message
        for _ in range(FRAMES):
            endpoint.send(OTHERS, MAIN_INSTANCE, message)
            endpoint.flush()

    def prepare(self) -> None:
        """What the receiver gets."""
        endpoint = self._endpoints[SENDER]
        self._arriving: list[memoryview] = []
        for _ in range(FRAMES):
            endpoint.send(OTHERS, MAIN_INSTANCE, self._message)
            for outgoing in endpoint.flush():
                self._arriving += datagrams_of(outgoing)
        self._now += 0.001

    def receive(self) -> None:
        """At one of them."""
        receive, now = self._endpoints[RECEIVER].receive, self._now
        taken = 0
        for datagram in self._arriving:
            taken += len(receive(datagram, now))
        assert taken == FRAMES

    def seal_bare(self) -> None:
        encrypt, nonce, plaintext = self._cipher.encrypt, self._nonce, self._plaintext
        for _ in range(FRAMES * self.fragments):
            encrypt(nonce, plaintext, HEADER)

    def open_bare(self) -> None:
        decrypt, nonce, ciphertext = self._cipher.decrypt, self._nonce, self._ciphertext
        for _ in range(FRAMES * self.fragments):
            decrypt(nonce, ciphertext, HEADER)

    def encode_bare(self) -> None:
        encode, message = self._encoder.encode, self._message
        for _ in range(FRAMES):
            encode(message)

    def decode_bare(self) -> None:
        decode, encoded = self._decoder.decode, self._encoded
        for _ in range(FRAMES):
            decode(encoded)

    def round(self) -> None:
        """Everybody's turn."""
        self.measure(self.send)
        self.prepare()
        self.measure(self.receive)
        for contestant in (self.seal_bare, self.open_bare, self.encode_bare, self.decode_bare):
            self.measure(contestant)

    def measure(self, contestant: Callable[[], None]) -> None:
        started = time.perf_counter()
        contestant()
        seconds = time.perf_counter() - started
        name = contestant.__name__
        self.best[name] = min(self.best.get(name, seconds), seconds)

    def result(self) -> dict[str, float]:
        """Microseconds per datagram."""
        each = {name: seconds * 1e6 / FRAMES / self.fragments for name, seconds in self.best.items()}
        if not self._sealed:
            each["seal_bare"] = each["open_bare"] = 0.0
        return {
            "payload_bytes": self.payload_bytes,
            "max_datagram": self.max_datagram,
            "datagrams_per_frame": self.fragments,
            "send": each["send"],
            "seal_bare": each["seal_bare"],
            "send_overhead": each["send"] - each["seal_bare"] - each["encode_bare"],
            "seal_share": each["seal_bare"] / each["send"],
            "receive": each["receive"],
            "open_bare": each["open_bare"],
            "receive_overhead": each["receive"] - each["open_bare"] - each["decode_bare"],
            "open_share": each["open_bare"] / each["receive"],
        }


def show(results: list[dict[str, float]]) -> None:
    print("microseconds per datagram; share: of bare AES-GCM; overhead: without AES-GCM and msgspec")
    print(f"{'payload':>8}{'datagram':>9}{'each':>5} | {'send':>7}{'AES':>7}{'share':>7}{'overhead':>9} |", end="")
    print(f"{'receive':>8}{'AES':>7}{'share':>7}{'overhead':>9}{'wanted':>8}")
    for row in results:
        print(
            f"{row['payload_bytes']:>8.0f}{row['max_datagram']:>9.0f}{row['datagrams_per_frame']:>5.0f} |"
            f"{row['send']:>8.2f}{row['seal_bare']:>7.2f}{row['seal_share']:>7.0%}{row['send_overhead']:>9.2f} |"
            f"{row['receive']:>8.2f}{row['open_bare']:>7.2f}{row['open_share']:>7.0%}{row['receive_overhead']:>9.2f}"
            f"{'<= ' + format(TARGETS_MICROSECONDS[int(row['max_datagram'])], 'g'):>8}"
        )


def profile(cases: list[Case], rounds: int) -> None:
    profiler = cProfile.Profile()
    for case in cases:
        for _ in range(rounds):
            case.prepare()
            profiler.enable()
            case.receive()
            case.send()
            profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--insecure", action="store_true", help="nothing is sealed")
    parser.add_argument("--profile", action="store_true", help="where the time goes, in Python functions")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    cases = [Case(payload, datagram, not arguments.insecure) for payload, datagram in CASES]
    if arguments.profile:
        profile(cases, arguments.rounds)
        return
    for _ in range(arguments.rounds):
        for case in cases:
            case.round()
    results = [case.result() for case in cases]
    if arguments.json:
        print(json.dumps(results, indent=2))
    else:
        show(results)


if __name__ == "__main__":
    main()
