"""The flooder sends what its kind says, and nothing that a process without the key could not make."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from ordercast.chaos.flooder import SIZE_MAX, TRAINS, is_handshake, make_trains, read_recording, record
from ordercast.core import MAIN_INSTANCE, UsageError
from ordercast.wire.datagram import DATA, HEADER, VERSION
from tests.hand_loop import DEADLINE_SECONDS
from tests.wire.cluster import Note, known_cluster


def recorded_traffic() -> list[bytes]:
    """What somebody on the network sees of a cluster that starts and talks a little."""
    cluster = known_cluster()
    for number in range(10):
        cluster.endpoints["a"].send(("b",), MAIN_INSTANCE, Note(number))
        cluster.exchange()
    return [datagram for _, receiver, datagram in cluster.sent if receiver == "b"]


def datagrams_of(kind: str) -> list[bytes]:
    trains = make_trains(kind, recorded_traffic(), Random(0))
    assert len(trains) == TRAINS
    assert all(len(train) == size * count for train, size, count in trains)
    return [train[start : start + size] for train, size, _ in trains for start in range(0, len(train), size)]


def test_a_recording_gives_back_what_was_recorded_and_no_half_datagram(tmp_path: Path) -> None:
    path = tmp_path / "recording"
    with path.open("wb") as file:
        for datagram in (b"first", b"", b"second"):
            record(file, datagram)
        file.write(b"\x00\x09half")
    assert read_recording(path) == [b"first", b"", b"second"]


@pytest.mark.parametrize("kind", ["forged", "replayed"])
def test_handshakes_and_data_are_half_each(kind: str) -> None:
    flood = datagrams_of(kind)
    handshakes = sum(map(is_handshake, flood))
    assert 0.4 < handshakes / len(flood) < 0.6


def test_what_is_replayed_is_what_was_recorded() -> None:
    assert set(datagrams_of("replayed")) == set(recorded_traffic())


def test_what_is_forged_has_a_recorded_sessions_name_and_a_counter_that_was_not_used() -> None:
    recorded = {HEADER.unpack_from(datagram)[1:] for datagram in recorded_traffic()}
    for datagram in datagrams_of("forged"):
        _, session, counter = HEADER.unpack_from(datagram)
        assert counter > max(used for name, used in recorded if name == session)


def test_nothing_is_larger_than_an_ethernet_frame_holds() -> None:
    large = [bytes((VERSION, DATA)) + bytes(SIZE_MAX), *recorded_traffic()]
    for kind in ("junk", "replayed"):
        assert max(size for _, size, _ in make_trains(kind, large, Random(0))) <= SIZE_MAX
    with pytest.raises(UsageError, match="record some first"):
        make_trains("replayed", large[:1], Random(0))


def test_a_flooder_of_its_own_process_floods_and_says_how_much() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.settimeout(DEADLINE_SECONDS)
        sink.bind(("127.0.0.1", 0))
        command = [sys.executable, "-m", "ordercast.chaos.flooder", f"127.0.0.1:{sink.getsockname()[1]}"]
        command += ["--rate", "2000", "--seconds", "0.2"]
        said = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=DEADLINE_SECONDS).stdout)
        assert len(sink.recv(1 << 16)) <= SIZE_MAX
    assert said["kind"] == "junk"
    assert 0 < said["sent"] <= 2000 * 0.3
