"""How long does it take until a process that no file names is in a group? By IP multicast, and by one seed.

    python benchmarks/joining.py [--protocol token] [--nodes 5] [--rounds 5] [--json]

So many processes that have found each other are in a group. Then another one is started, with the key and the name of
the group, joins it, and leaves again; its file names nobody, and knows the multicast address of the cluster or the
address of one of the others. Told are the seconds from `ordercast.open` to the first view, and beside them those from
the start of the process, which have to load Python and this package, too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import ordercast
from ordercast.net.ports import free_ports
from ordercast.wire.keys import create_key_file

SECONDS_MAX = 1.0
WAYS = ("multicast", "seed")
GROUP = "bench"


# ------------------------------------------------------------------ a member
async def _play(config: str, process: str, nodes: int) -> None:
    """Join, say when the first view was there, and leave when told; whoever is there from the start says so when the
    others are there as well."""
    began = time.monotonic()
    async with ordercast.open(config, process) as node:
        # Where members have roles, a view has those who send.
        roles = node.internals.engine.contract.roles
        group = await node.join(GROUP, role="sender" if "sender" in roles else "")
        view: object = None
        async for view in group.events():
            if isinstance(view, ordercast.View) and node.process in view.members:
                break
        if not isinstance(view, ordercast.View):
            sys.exit(f"{node.process} has no view of which it is a member")
        seen = time.monotonic()
        while len(group.members) < nodes:
            await asyncio.sleep(0.01)
        print(json.dumps({"began": began, "seen": seen, "members": len(view.members)}), flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await group.leave()


# ------------------------------------------------------------------ whoever watches
class Watched:
    """A member as seen from outside."""

    def __init__(self, config: Path, process: str, nodes: int) -> None:
        self._command = [sys.executable, __file__, "--member", str(config), process, str(nodes)]

    async def start(self) -> None:
        """Begin."""
        pipe = asyncio.subprocess.PIPE
        self.started = time.monotonic()
        self._process = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe)

    async def join(self) -> dict[str, Any]:
        """What it says when it is in the group."""
        if self._process.stdout is None:
            raise RuntimeError("a member without pipes")
        line = await self._process.stdout.readline()
        if not line:
            sys.exit("a member has ended; its last words are above")
        said: dict[str, Any] = json.loads(line)
        return said

    async def leave(self) -> None:
        """In good order."""
        await self._process.communicate(b"\n")

    async def kill(self) -> None:
        """It is not asked any more."""
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


def _write(path: Path, protocol: str, discovery: list[str], *top: str) -> Path:
    lines = ['cluster = "bench"', f'protocol = "{protocol}"', 'key_file = "bench.key"', *top, "[discovery]", *discovery]
    path.write_text("\n".join(lines) + "\n")
    return path


async def _measure(way: str, protocol: str, nodes: int, rounds: int) -> dict[str, Any]:
    """In one group, one newcomer after the other."""
    with tempfile.TemporaryDirectory(prefix="ordercast-joining-") as text:
        folder = Path(text)
        create_key_file(folder / "bench.key")
        (port,) = free_ports(1)
        if way == "multicast":
            discovery, top = [f'multicast = "239.7.7.7:{port}"'], ['interface = "127.0.0.1"']
            first = rest = _write(folder / "all.toml", protocol, discovery, *top)
        else:
            discovery = [f'seeds = ["127.0.0.1:{port}"]']
            rest = _write(folder / "rest.toml", protocol, discovery)
            first = _write(folder / "first.toml", protocol, [*discovery, f'listen = "127.0.0.1:{port}"'])
        members = [Watched(rest if index else first, f"p{index:02}", nodes) for index in range(nodes)]
        began: list[Watched] = []
        try:
            for member in members:
                await member.start()
                began.append(member)
            for member in members:
                await member.join()
            taken, with_start = [], []
            for number in range(rounds):
                newcomer = Watched(rest, f"desk-{number}", nodes + 1)
                await newcomer.start()
                began.append(newcomer)
                said = await newcomer.join()
                if said["members"] != nodes + 1:
                    sys.exit(f"the newcomer has begun a group of its own: its first view has {said['members']} members")
                taken.append(said["seen"] - said["began"])
                with_start.append(said["seen"] - newcomer.started)
                await newcomer.leave()
        finally:
            for member in began:
                await member.kill()
    return {
        "way": way,
        "protocol": protocol,
        "nodes": nodes,
        "seconds": taken,
        "median": statistics.median(taken),
        "longest": max(taken),
        "median_with_start": statistics.median(with_start),
    }


def main() -> int:
    """Measure, and say whether it is good enough."""
    if sys.argv[1:2] == ["--member"]:
        config, process, nodes = sys.argv[2:5]
        asyncio.run(_play(config, process, int(nodes)))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", default="token")
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    good = True
    for way in WAYS:
        figures = asyncio.run(_measure(way, arguments.protocol, arguments.nodes, arguments.rounds))
        good &= figures["longest"] <= SECONDS_MAX
        if arguments.json:
            print(json.dumps(figures))
        else:
            print(
                f"{figures['protocol']}, {figures['nodes']} processes, one more by {way}: first view after "
                f"{figures['median']:.3f} s, at the longest {figures['longest']:.3f} s (wanted {SECONDS_MAX:.0f} s); "
                f"from the start of the process {figures['median_with_start']:.2f} s"
            )
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
