"""How fast are live groups? Beside the bare limit of the same machine, beside other systems, in the same hour.

    python benchmarks/live.py [--only ROW …] [--seconds 5] [--rounds 3] [--patience 0] [--json] [--check]
                              [--jgroups-jar FILE] [--no-peers] [--list]

Four processes on this machine, every one sending, delivered at every one in total order; a group's messages are
sealed, the others' are not. The bare limit is plain sockets under a fixed sequencer, with bundles, and with nothing
that makes a group reliable or useful (live_bare.py). Contestants take turns, several rounds of it, and medians are
compared: on a machine that others use as well, single figures say little. What others used of the processors
meanwhile is shown.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import live_bare
import live_contestants
import live_cores
from live_contestants import Absent, Contestant
from live_figures import Result
from live_machine import OtherWork, wait_until_quiet
from live_peers import Corosync, Jgroups, Peer, PeerError
from live_rows import THROUGHPUT, Row, all_rows

# More than this part of a processor used by others, and a measurement is disturbed: it counts only where all were.
OTHER_CORES_MAX = 0.1


class Progress:
    """One line that tells what is being measured; a line each where nobody watches."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.watched = sys.stderr.isatty()

    def begin(self, what: str) -> None:
        self.done += 1
        if self.watched:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{f'{self.done}/{self.total} {what} …':{width}.{width}}", end="", file=sys.stderr, flush=True)

    def end(self, what: str, figures: str) -> None:
        if not self.watched:
            print(f"{self.done}/{self.total} {what}: {figures}", file=sys.stderr, flush=True)
        elif self.done == self.total:
            print("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r", end="", file=sys.stderr, flush=True)


# --- Measuring --------------------------------------------------------------------------------------------------


def measure_all(rows: list[Row], seconds: float, rounds: int, patience_seconds: float) -> dict[str, list[Result]]:
    """Every contestant once a round, each round in the other direction, so that a slow drift falls on all alike."""
    contestants: dict[str, Contestant] = {each.key: each for row in rows for each in row.contestants}
    results: dict[str, list[Result]] = {key: [] for key in contestants}
    progress = Progress(rounds * len(contestants))
    for number in range(rounds):
        for key in list(contestants) if number % 2 == 0 else reversed(list(contestants)):
            if any("absent" in result for result in results[key]):
                progress.done += 1
                continue
            progress.begin(f"{key} (round {number + 1})")
            if patience_seconds:
                wait_until_quiet(OTHER_CORES_MAX, patience_seconds)
            result = measure_one(contestants[key], seconds)
            results[key].append(result)
            progress.end(key, describe(result))
    return results


def measure_one(contestant: Contestant, seconds: float) -> Result:
    try:
        with OtherWork() as other:
            result = contestant.measure(seconds)
    except Absent as error:
        return {"absent": str(error)}
    return result | {"other_cores": round(other.cores, 2)}


def describe(result: Result) -> str:
    if "absent" in result:
        return f"not measured: {result['absent']}"
    words = []
    if result.get("messages_per_second") is not None:
        words.append(THROUGHPUT.text(result["messages_per_second"]))
    if result.get("bytes_per_second") is not None:
        words.append(f"{result['bytes_per_second'] / 1e6:,.0f} MB/s")
    if result.get("p50_ms") is not None:
        words.append(f"p50 {result['p50_ms']:.3f} ms, p99 {result['p99_ms']:.3f} ms")
    if result.get("lost"):
        words.append(f"LOST {result['lost']:,}")
    words.append(f"others {result['other_cores']:.2f} processors")
    return ", ".join(words)


def is_disturbed(result: Result) -> bool:
    return bool(result.get("other_cores", 0.0) > OTHER_CORES_MAX)


# --- Comparing --------------------------------------------------------------------------------------------------


def medians(row: Row, results: dict[str, list[Result]]) -> dict[str, float]:
    found = {}
    for contestant in row.contestants:
        measured = [result for result in results[contestant.key] if "absent" not in result]
        measured = [result for result in measured if not is_disturbed(result)] or measured
        values = [value for value in map(row.figure.read, measured) if value is not None]
        if values:
            found[contestant.key] = statistics.median(values)
    return found


def compare(row: Row, results: dict[str, list[Result]]) -> list[dict[str, Any]]:
    """A line of the table, or, for a row where nothing is ours, one for each."""
    figures = medians(row, results)
    if row.ours is None:
        return [{"row": row.name, "against": each.key, "theirs": figures.get(each.key)} for each in row.against]
    best, ours = row.best(figures), figures.get(row.ours.key)
    line: dict[str, Any] = {"row": row.name, "contestant": row.ours.key, "ours": ours, "against": best}
    line |= {"theirs": None, "target": row.target}
    if best is not None:
        line["theirs"] = figures[best]
        line["disturbed"] = any(all(map(is_disturbed, results[key])) for key in (row.ours.key, best))
        if ours is not None:
            line["ratio"] = ours / figures[best]
            line["holds"] = row.holds(line["ratio"])
    return [line]


def table(rows: list[Row], lines: list[dict[str, Any]]) -> str:
    figures = {row.name: row.figure for row in rows}
    text = [f"{'row':20}{'ordercast':>16}{'against':>16}  {'':44}{'ratio':>7}  target"]
    for line in lines:
        figure = figures[line["row"]]
        words = f"{line['row']:20}{figure.text(line.get('ours')):>16}{figure.text(line['theirs']):>16}"
        words += f"  {line['against'] or '':44}"
        if "ratio" in line:
            words += f"{line['ratio']:7.2f}"
        if line.get("target") is not None:
            bound = "at most" if figure.lower_is_better else "at least"
            verdict = {True: "holds", False: "MISSED", None: "not measured"}[line.get("holds")]
            words += f"{'' if 'ratio' in line else ' ' * 7}  {bound} {line['target']:g}: {verdict}"
        if line.get("disturbed"):
            words += "  (disturbed)"
        text.append(words.rstrip())
    return "\n".join(text)


def remarks(results: dict[str, list[Result]]) -> list[str]:
    said = []
    for key, measured in results.items():
        said += [f"{key}: not measured: {result['absent']}" for result in measured if "absent" in result]
        lost = sum(result.get("lost", 0) for result in measured)
        if lost:
            said.append(f"{key}: LOST {lost:,} messages")
    every = [result for measured in results.values() for result in measured]
    disturbed = [result["other_cores"] for result in every if is_disturbed(result)]
    if disturbed:
        said.append(
            f"{len(disturbed)} of {len(every)} measurements were disturbed: others used "
            f"{statistics.median(disturbed):.2f} processors in the median of those, {max(disturbed):.2f} at most"
        )
    if live_bare.LOOP != "uvloop":
        said.append("uvloop is not installed: the bare limit runs on asyncio's own loop")
    return said


# --- The command ------------------------------------------------------------------------------------------------


def present_peers(arguments: argparse.Namespace, folder: Path, say: list[str]) -> list[Peer]:
    peers: list[Peer] = [Corosync(folder), Jgroups(folder, arguments.jgroups_jar)]
    present = []
    for peer in [] if arguments.no_peers else peers:
        why_not = peer.obstacle()
        if not why_not:
            try:
                peer.prepare()
            except PeerError as error:
                why_not = str(error)
        if why_not:
            say.append(f"{peer.name}: not measured: {why_not}")
        else:
            present.append(peer)
    return present


def chosen_rows(rows: list[Row], only: list[str] | None) -> list[Row]:
    if not only:
        return rows
    for name in only:
        if not any(row.name.startswith(name) for row in rows):
            raise LookupError(f"no row begins with {name!r}; there are: {', '.join(row.name for row in rows)}")
    return [row for row in rows if any(row.name.startswith(name) for name in only)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", metavar="ROW", help="only rows whose names begin so")
    parser.add_argument("--list", action="store_true", help="only tell which rows there are")
    parser.add_argument("--seconds", type=float, default=5.0, help="measured of every contestant in every round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--patience", type=float, default=0.0, help="seconds to wait, before each, until others leave the processors"
    )
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--jgroups-jar", type=Path, help="default: what Maven finds")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument("--check", action="store_true", help="exit code 1 when a target is missed")
    arguments = parser.parse_args()
    # So that what is being measured ends with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    said: list[str] = []
    with tempfile.TemporaryDirectory(prefix="ordercast-benchmark-") as temporary:
        if arguments.list:
            print("\n".join(row.name for row in all_rows([])))
            return
        try:
            rows = chosen_rows(all_rows([]), arguments.only)
        except LookupError as error:
            parser.error(str(error.args[0]))
        if any(row.name.startswith("peers") for row in rows):
            rows = chosen_rows(all_rows(present_peers(arguments, Path(temporary), said)), arguments.only)
        if any("datagrams" in each.key for row in rows for each in row.contestants):
            said.append(live_contestants.where_small_datagrams_go())
        before = live_cores.distance()
        results = measure_all(rows, arguments.seconds, arguments.rounds, arguments.patience)
        said += [f"before: {before}", f"after: {live_cores.distance()}"] if before else []
    lines = [line for row in rows for line in compare(row, results)]
    said += remarks(results)
    out = sys.stderr if arguments.json else sys.stdout
    print(table(rows, lines), *said, sep="\n", file=out)
    if arguments.json:
        machine = {"machine": platform.machine(), "cores": os.cpu_count(), "system": platform.platform()}
        print(json.dumps({"rows": lines, "results": results, "remarks": said, "machine": machine}))
    if arguments.check and any(line.get("holds") is False for line in lines):
        sys.exit(1)


if __name__ == "__main__":
    main()
