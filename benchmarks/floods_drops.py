"""What does it cost a process to drop a datagram that somebody without the key has sent? Microseconds for each kind.

    python benchmarks/floods_drops.py [--rounds N] [--profile KIND] [--json]

Each is one call of `Endpoint.receive` at a process that knows its two peers; what the socket costs comes to that. The
recording has what was sent to the process: handshakes of its peers' current and earlier starts, and data. Beside each
figure stands why the datagrams were dropped. Every figure is the best of `--rounds` rounds.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import time
from collections import Counter
from collections.abc import Callable
from random import Random

from ordercast.chaos.flooder import is_handshake, make_trains
from ordercast.core import MAIN_INSTANCE, MessageId, Multicast, SiteId
from ordercast.protocols.classic.sequencer.packets import Ordered
from ordercast.wire import ClusterKeys, Codec, Endpoint, new_key
from ordercast.wire.datagram import EPOCH_BITS, HEADER, VERSION

PROCESSES = ("main-1", "main-2", "main-3")
VICTIM, PEER = PROCESSES[:2]
CODEC = Codec({MAIN_INSTANCE: (Ordered,)})
MAX_DATAGRAM = 1450
PAYLOAD_BYTES = 300
BOOTS = 5
COUNT = 4000
DATAGRAMS_A_SECOND = 50_000


class Network:
    """Processes that know each other, and everything that the victim was sent."""

    def __init__(self) -> None:
        self.keys = ClusterKeys(new_key())
        self.now = 1.0
        self.endpoints: dict[SiteId, Endpoint] = {name: self.boot(name, 0) for name in PROCESSES}
        self.recorded: list[bytes] = []
        self.exchange()
        for incarnation in range(1, BOOTS):
            self.endpoints[PEER] = self.boot(PEER, incarnation)
            self.exchange()

    @property
    def victim(self) -> Endpoint:
        return self.endpoints[VICTIM]

    def boot(self, name: SiteId, incarnation: int) -> Endpoint:
        return Endpoint("bank", name, PROCESSES, self.keys, CODEC, incarnation, True, MAX_DATAGRAM)

    def exchange(self) -> None:
        """Let everything arrive, greetings first."""
        for _ in range(5):
            self.now += 0.1
            for endpoint in self.endpoints.values():
                endpoint.tick(self.now)
                for outgoing in endpoint.flush():
                    size = outgoing.segment or len(outgoing.buffer)
                    for start in range(0, len(outgoing.buffer), size):
                        datagram = bytes(outgoing.buffer[start : start + size])
                        for site in outgoing.to:
                            if site == VICTIM:
                                self.recorded.append(datagram)
                            self.endpoints[site].receive(datagram, self.now)

    def send_data(self, payload_bytes: int) -> list[bytes]:
        """What the victim gets when the peer sends it something."""
        before = len(self.recorded)
        message = Multicast(MessageId(PEER, 0, 7), ("accounts",), os.urandom(payload_bytes), None, 1)
        self.endpoints[PEER].send((VICTIM,), MAIN_INSTANCE, Ordered(7, (7, 7, 7), message))
        self.exchange()
        return self.recorded[before:]


def cut(train: tuple[bytes, int, int]) -> list[bytes]:
    content, size, _ = train
    return [content[start : start + size] for start in range(0, len(content), size)]


def kinds(network: Network) -> dict[str, list[bytes]]:
    """What a flooder may send, by what it makes a receiver do."""
    random = Random(0)
    data = [datagram for _ in range(20) for datagram in network.send_data(PAYLOAD_BYTES)]
    current = network.recorded[-1][2:10]
    handshakes = [datagram for datagram in network.recorded if is_handshake(datagram)]
    forged = [datagram for train in make_trains("forged", network.recorded, random) for datagram in cut(train)]
    far = [datagram for datagram in forged if HEADER.unpack_from(datagram)[2] >> EPOCH_BITS]
    near = [datagram for datagram in forged if not HEADER.unpack_from(datagram)[2] >> EPOCH_BITS]
    unknown = [datagram[:2] + random.randbytes(8) + datagram[10:] for datagram in data]
    return {
        "junk": [datagram for train in make_trains("junk", [], random) for datagram in cut(train)],
        "right version, no kind": [bytes((VERSION, 99)) + random.randbytes(300) for _ in range(100)],
        "data of no session": unknown,
        "forged handshake": [datagram for datagram in forged if is_handshake(datagram)],
        "forged data": [datagram for datagram in near if not is_handshake(datagram)],
        "forged data, a later epoch": [datagram for datagram in far if not is_handshake(datagram)],
        "replayed hello": [datagram for datagram in handshakes if datagram[1] == 1 and datagram[2:10] == current],
        "replayed hello, older start": [
            datagram for datagram in handshakes if datagram[1] == 1 and datagram[2:10] != current
        ],
        "replayed answer": [datagram for datagram in handshakes if datagram[1] != 1],
        "replayed data": data,
    }


def measure(endpoint: Endpoint, datagrams: list[bytes], now: float) -> tuple[float, dict[str, float]]:
    """Microseconds for each; the share of each reason."""
    views = [memoryview(datagrams[number % len(datagrams)]) for number in range(COUNT)]
    receive, before = endpoint.receive, Counter(endpoint.counters)
    begin = time.thread_time()
    for view in views:
        receive(view, now)
    micros = (time.thread_time() - begin) / COUNT * 1e6
    endpoint.tick(now)
    endpoint.flush()
    return micros, {why: times / COUNT for why, times in (Counter(endpoint.counters) - before).items()}


def profile(run: Callable[[], object]) -> None:
    profiler = cProfile.Profile()
    profiler.runcall(run)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(15)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", metavar="KIND", help="where the time goes for one kind")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    arguments = parser.parse_args()
    network = Network()
    floods = kinds(network)
    if arguments.profile:
        profile(lambda: measure(network.victim, floods[arguments.profile], network.now))
        return
    best: dict[str, float] = {}
    why: dict[str, dict[str, float]] = {}
    for _ in range(arguments.rounds):
        for kind, datagrams in floods.items():
            network.now += 0.01
            micros, why[kind] = measure(network.victim, datagrams, network.now)
            best[kind] = min(micros, best.get(kind, micros))
    if arguments.json:
        print(json.dumps({"microseconds": best, "dropped": why}))
        return
    print(f"{'kind':32}{'µs':>7}  {f'of a processor at {DATAGRAMS_A_SECOND:,}/s':32}dropped as")
    for kind, micros in best.items():
        reasons = ", ".join(f"{reason} {share:.0%}" for reason, share in sorted(why[kind].items()))
        print(f"{kind:32}{micros:7.2f}  {f'{micros * DATAGRAMS_A_SECOND / 1e6:.0%}':32}{reasons}")


if __name__ == "__main__":
    main()
