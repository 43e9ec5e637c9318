"""Other systems with totally ordered multicast, on this machine, asked the same: four members, all sending.

    python benchmarks/live_peers.py [--size 100 1000 10000] [--seconds 5] [--rate 500] [--peers corosync jgroups]
                                    [--jgroups-jar FILE] [--corosync-netmtu 65000]

- Corosync (closed process groups): four Corosync processes, each in a network namespace of its own on one bridge,
  and a client of each; unsealed, by UDP, 65000 bytes a datagram unless told otherwise. Needs the packages corosync
  and libcpg-dev, a C compiler, and the right to make namespaces.
- JGroups 5: four Java processes on the loopback interface, a SEQUENCER stack on IP multicast
  (peers/jgroups-sequencer.xml). Needs a JDK, and the jar: given, in Maven's repository, or fetched by Maven.

Members send single messages through the peer's own interface, and the peer bundles as it likes. A peer that is not
there is told of in one line.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import live_namespaces
from live_figures import Result, group_figures

SOURCES = Path(__file__).parent / "peers"
STOP_SECONDS = 5.0
# Beyond what is measured: starting, finding each other, warming up.
PATIENCE_SECONDS = 90.0

JGROUPS = "org.jgroups:jgroups"
JGROUPS_VERSION = "5.5.3.Final"
# With two processors for four members, one thread that collects garbage is better than several.
JAVA_OPTIONS = ("-Xms1g", "-Xmx1g", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true")
# Bytes of messages that a member may have on the way: four members' fit into the 4 MB of buffer that a kernel with the
# usual limits grants a socket. When it overflows, the stack falls to a hundredth of its speed.
JGROUPS_WINDOW_BYTES = 1_000_000
JGROUPS_WINDOW_MESSAGES = (256, 4096)

COROSYNC_MTU = 65535  # of the bridge; Corosync's own frames are cut to netmtu


class PeerError(Exception):
    """A peer that is here, but does not work; in one line."""


def run_members(commands: list[list[str]], seconds: float) -> list[Result]:
    """All members at once; each prints its report as the last line of its output."""
    with tempfile.TemporaryFile("w+") as errors:
        members = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True)
            for command in commands
        ]
        reports = []
        until = time.monotonic() + seconds + PATIENCE_SECONDS
        try:
            for member in members:
                output, _ = member.communicate(timeout=max(1.0, until - time.monotonic()))
                if member.returncode:
                    errors.seek(0)
                    raise PeerError(last_line(errors.read()) or f"exit code {member.returncode}")
                reports.append(json.loads(output.splitlines()[-1]))
        except subprocess.TimeoutExpired:
            raise PeerError(f"no result after {seconds + PATIENCE_SECONDS:.0f} seconds") from None
        finally:
            for member in members:
                stop(member)
    return reports


def stop(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1]


def call(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as error:
        raise PeerError(f"{command[0]}: {last_line(error.stderr or error.stdout)}") from None
    return done.stdout


# --- Corosync ---------------------------------------------------------------------------------------------------


class Corosync:
    name = "Corosync"

    def __init__(self, folder: Path, netmtu: int = 65000) -> None:
        self.folder = folder
        self.netmtu = netmtu
        self.member = folder / "corosync_member"

    def obstacle(self) -> str | None:
        """Why it cannot be measured here."""
        if not shutil.which("corosync"):
            return "no `corosync` command (Debian: corosync)"
        if not ctypes.util.find_library("cpg") or not Path("/usr/include/corosync/cpg.h").exists():
            return "no library to build against (Debian: libcpg-dev)"
        if not shutil.which("cc"):
            return "no C compiler"
        return live_namespaces.obstacle()

    def prepare(self) -> None:
        call("cc", "-O2", "-o", str(self.member), str(SOURCES / "corosync_member.c"), "-lcpg")

    def configuration(self, namespaces: list[live_namespaces.Namespace]) -> str:
        nodes = "".join(
            f"  node {{\n    ring0_addr: {each.address}\n    name: node{number}\n    nodeid: {number}\n  }}\n"
            for number, each in enumerate(namespaces, 1)
        )
        text = (SOURCES / "corosync.conf").read_text().replace("NETMTU", str(self.netmtu))
        return f"{text}nodelist {{\n{nodes}}}\n"

    @contextlib.contextmanager
    def daemons(self, namespaces: list[live_namespaces.Namespace]) -> Iterator[None]:
        configuration = self.folder / "corosync.conf"
        configuration.write_text(self.configuration(namespaces))
        # Each has a /run and a /var/lib/corosync of its own; sockets are apart because network namespaces are.
        script = (
            "mount -t tmpfs tmpfs /run && mkdir -p /run/corosync && mount -t tmpfs tmpfs /var/lib/corosync"
            f" && exec corosync -f -c '{configuration}'"
        )
        processes = [
            subprocess.Popen(
                [*live_namespaces.inside(each), "unshare", "--mount", "sh", "-c", script],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
            for each in namespaces
        ]
        try:
            yield
        finally:
            for process in processes:
                stop(process)

    def measure(self, size: int, seconds: float, rate: float | None = None, nodes: int = 4) -> Result:
        with live_namespaces.joined(nodes, COROSYNC_MTU) as namespaces, self.daemons(namespaces):
            commands = [
                [*live_namespaces.inside(each), str(self.member), *map(str, (nodes, index, size, seconds, rate or 0))]
                for index, each in enumerate(namespaces)
            ]
            return group_figures(run_members(commands, seconds))


# --- JGroups ----------------------------------------------------------------------------------------------------


class Jgroups:
    name = "JGroups"

    def __init__(self, folder: Path, jar: Path | None = None) -> None:
        self.folder = folder
        self.jar = jar

    def obstacle(self) -> str | None:
        if not shutil.which("javac"):
            return "no JDK"
        if self.jar is None:
            self.jar = self.find_jar()
        if self.jar is None:
            return "no jar of JGroups 5 given, and none found by Maven"
        return None if self.jar.is_file() else f"{self.jar} is not there"

    def find_jar(self) -> Path | None:
        """In Maven's repository, or, through it, from wherever its settings say."""
        pattern = "org/jgroups/jgroups/5.*/jgroups-5.*.Final.jar"
        found = sorted((Path.home() / ".m2" / "repository").glob(pattern))
        wanted = [each for each in found if each.parent.name == JGROUPS_VERSION] or found
        if wanted:
            return wanted[-1]
        if not shutil.which("mvn"):
            return None
        try:
            artefact = f"-Dartifact={JGROUPS}:{JGROUPS_VERSION}"
            call("mvn", "-B", "-q", "dependency:copy", artefact, f"-DoutputDirectory={self.folder}")
        except PeerError:
            return None
        return self.folder / f"jgroups-{JGROUPS_VERSION}.jar"

    def prepare(self) -> None:
        call("javac", "-cp", str(self.jar), "-d", str(self.folder), str(SOURCES / "JgroupsMember.java"))

    def measure(self, size: int, seconds: float, rate: float | None = None, nodes: int = 4) -> Result:
        # Not above: the bare limit's processes read this file too, and are to have nothing of a group's in memory.
        from ordercast.net.ports import free_ports

        (port,) = free_ports(1)
        least, most = JGROUPS_WINDOW_MESSAGES
        # Ring buffers: a power of two.
        capacity = min(most, max(least, 1 << (JGROUPS_WINDOW_BYTES // size).bit_length() - 1))
        properties = {"port": port, "capacity": capacity, "ack_threshold": capacity // 8}
        start = ["java", *JAVA_OPTIONS, *(f"-Dbench.{name}={value}" for name, value in properties.items())]
        start += ["-cp", f"{self.jar}{os.pathsep}{self.folder}"]
        configuration = str(SOURCES / "jgroups-sequencer.xml")
        commands = [
            [*start, "JgroupsMember", configuration, *map(str, (nodes, index, size, seconds, rate or 0))]
            for index in range(nodes)
        ]
        return group_figures(run_members(commands, seconds))


Peer = Corosync | Jgroups


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, nargs="*", default=[100, 1000, 10000])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=float, help="messages a second in all, for latency")
    parser.add_argument("--peers", nargs="*", choices=["corosync", "jgroups"], default=["corosync", "jgroups"])
    parser.add_argument("--jgroups-jar", type=Path)
    parser.add_argument("--corosync-netmtu", type=int, default=65000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ordercast-benchmark-") as temporary:
        peers: dict[str, Peer] = {
            "corosync": Corosync(Path(temporary), arguments.corosync_netmtu),
            "jgroups": Jgroups(Path(temporary), arguments.jgroups_jar),
        }
        for peer in (peers[name] for name in arguments.peers):
            why_not = peer.obstacle()
            if why_not:
                print(f"{peer.name}: not measured: {why_not}", file=sys.stderr)
                continue
            try:
                peer.prepare()
                for size in arguments.size:
                    figures = peer.measure(size, arguments.seconds, arguments.rate)
                    print(json.dumps({"peer": peer.name, "size": size} | figures), flush=True)
            except PeerError as error:
                print(f"{peer.name}: not measured: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
