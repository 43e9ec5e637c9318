"""How much of its rate does a cluster keep while somebody without the key floods one of its processes?

    python benchmarks/floods.py [--rate N] [--rounds N] [--kinds junk forged replayed] [--json] [--check]

Three sealed processes on the loopback multicast messages of 100 bytes in lists, as fast as the group takes them
(`sequencer`). The first one, which is the sequencer, is flooded with 50,000 datagrams a second: random bytes, forged
ones of the right shape, or what it was sent before (half of these are handshakes and half is data).

The flooder runs on the same processors and takes a part of them, and so does the kernel for what it sends. To tell that
from what the flood costs the process, each flood is also sent to a socket at which nobody reads. So there are two
ratios: against the cluster left alone, and against the cluster beside a flood that goes elsewhere. All are measured in
turns, many times, in one run, with one cluster. A rate is that of the process that delivered the fewest; each figure
is the median of its turns.

A flood costs its receiver a share of a processor, and that is all that it costs. Where others leave the cluster little
of the processors, that share is most of what it has: measure on a machine that is otherwise idle.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ordercast.bench.configuration import write_configuration
from ordercast.bench.load import Load
from ordercast.net import sockets
from ordercast.net.transport import COALESCE_BELOW
from ordercast.node.configuration import read_configuration

TARGETS = {"junk": 0.8, "forged": 0.5, "replayed": 0.5}
"""Of the rate of the cluster left alone."""
SETTLE_SECONDS = 0.1
PATIENCE_SECONDS = 30.0


class Member:
    """One process of the cluster."""

    def __init__(self, config: Path, name: str, recording: Path | None) -> None:
        command = [sys.executable, str(Path(__file__).with_name("floods_member.py")), str(config), name]
        self._process = subprocess.Popen(
            command + ([] if recording is None else [str(recording)]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, word: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return self.hear()

    def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("a process of the benchmark ended early; its last words are above")
        words: dict[str, Any] = json.loads(line)
        return words

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def sink(coalesced: bool) -> Iterator[str]:
    """Where floods go that nobody reads, by the same way through the kernel."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        opened.bind(("127.0.0.1", 0))
        sockets.set_buffers(opened, 0)
        if coalesced:
            sockets.receive_coalesced(opened)
        yield f"127.0.0.1:{opened.getsockname()[1]}"


class Flood:
    """A flooder that stands still until it is let go."""

    def __init__(self, target: str, kind: str, rate: float, recording: Path) -> None:
        command = [sys.executable, "-m", "ordercast.chaos.flooder", target, "--kind", kind, "--rate", f"{rate}"]
        command += ["--seconds", "600", "--recording", str(recording), "--standing"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        _, status = os.waitpid(self._process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            raise SystemExit("the flooder ended early; its last words are above")

    def stand(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def end(self) -> dict[str, Any]:
        """What it says of itself."""
        self.go()
        self._process.terminate()
        said: dict[str, Any] = json.loads(self._process.communicate(timeout=PATIENCE_SECONDS)[0])
        return said


def rate_of(members: list[Member], seconds: float) -> float:
    """Messages a second that all of them deliver."""
    time.sleep(SETTLE_SECONDS)
    before = [member.ask("count") for member in members]
    time.sleep(seconds)
    after = [member.ask("count") for member in members]
    return min(
        (end["delivered"] - begin["delivered"]) / (end["at"] - begin["at"])
        for begin, end in zip(before, after, strict=True)
    )


def measure_kind(members: list[Member], floods: dict[str, Flood], seconds: float, rounds: int) -> dict[str, Any]:
    """The cluster left alone, beside a flood, and under it, in turns."""
    rates: dict[str, list[float]] = {"alone": [], **{where: [] for where in floods}}
    lasted = dict.fromkeys(floods, 0.0)
    for _ in range(rounds):
        rates["alone"].append(rate_of(members, seconds))
        for where, flood in floods.items():
            begin = time.monotonic()
            flood.go()
            rates[where].append(rate_of(members, seconds))
            flood.stand()
            lasted[where] += time.monotonic() - begin
    line: dict[str, Any] = {where: statistics.median(turns) for where, turns in rates.items()}
    for where, flood in floods.items():
        said = flood.end()
        line[f"{where} sent"] = said["sent"] / lasted[where]
        line[f"{where} flooder"] = said["processor_seconds"] / lasted[where]
    return line


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    load = Load(nodes=3, max_datagram=arguments.max_datagram)
    with tempfile.TemporaryDirectory(prefix="ordercast-benchmark-") as temporary:
        folder = Path(temporary)
        config, recording = write_configuration(folder, load), folder / "recording"
        host, port = read_configuration(str(config), {}, {}).processes[load.names[0]]
        members: list[Member] = []
        lines = {}
        try:
            members += [Member(config, name, None if number else recording) for number, name in enumerate(load.names)]
            for member in members:
                member.hear()
            for member in members:
                member.ask("begin")
            for kind in arguments.kinds:
                with sink(arguments.max_datagram < COALESCE_BELOW) as elsewhere:
                    targets = {"elsewhere": elsewhere, "flooded": f"{host}:{port}"}
                    floods = {
                        where: Flood(target, kind, arguments.rate, recording) for where, target in targets.items()
                    }
                    lines[kind] = measure_kind(members, floods, arguments.seconds, arguments.rounds)
            dropped = members[0].ask("end")["dropped"]
        finally:
            for member in members:
                member.end()
    return {"floods": lines, "dropped": dropped}


def compare(measured: dict[str, Any]) -> list[dict[str, Any]]:
    """A line for each kind."""
    lines = []
    for kind, line in measured["floods"].items():
        ratio = line["flooded"] / line["alone"]
        lines.append(
            {
                "kind": kind,
                **line,
                "ratio": ratio,
                "ratio to elsewhere": line["flooded"] / line["elsewhere"],
                "target": TARGETS[kind],
                "holds": ratio >= TARGETS[kind],
            }
        )
    return lines


def table(lines: list[dict[str, Any]]) -> str:
    head = f"{'flood':10}{'a second':>10}{'left alone':>12}{'flood elsewhere':>17}{'flooded':>10}"
    text = [f"{head}{'to alone':>10}{'to elsewhere':>14}  target"]
    text += [
        f"{line['kind']:10}{line['flooded sent']:>10,.0f}{line['alone']:>12,.0f}{line['elsewhere']:>17,.0f}"
        f"{line['flooded']:>10,.0f}{line['ratio']:>10.2f}{line['ratio to elsewhere']:>14.2f}"
        f"  at least {line['target']:g} to alone: {'holds' if line['holds'] else 'MISSED'}"
        for line in lines
    ]
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=50_000.0, help="datagrams a second of the flooder")
    parser.add_argument("--seconds", type=float, default=0.4, help="of one turn")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--kinds", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    parser.add_argument("--max-datagram", type=int, default=65_000, help="1450: as on Ethernet")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument("--check", action="store_true", help="exit code 1 when a target is missed")
    arguments = parser.parse_args()
    measured = measure(arguments)
    lines = compare(measured)
    takes = max(line["flooded flooder"] for line in lines)
    dropped = ", ".join(f"{reason} {count:,}" for reason, count in sorted(measured["dropped"].items()))
    said = [
        "Messages a second, medians of the turns. `flood elsewhere` is the same flood at a socket that nobody reads:",
        "the flooder, and the kernel's work for it, are on the same processors as the cluster.",
        f"The flooder took {takes:.0%} of a processor at the most. The flooded process dropped: {dropped}",
    ]
    print(table(lines), *said, sep="\n", file=sys.stderr if arguments.json else sys.stdout)
    if arguments.json:
        machine = {"machine": platform.machine(), "cores": os.cpu_count(), "system": platform.platform()}
        print(json.dumps({"rows": lines, "dropped": measured["dropped"], "machine": machine}))
    if arguments.check and not all(line["holds"] for line in lines):
        sys.exit(1)


if __name__ == "__main__":
    main()
