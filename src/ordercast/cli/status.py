"""`ordercast status`: what the running processes of a cluster say of themselves."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer

import ordercast
from ordercast.cli.live import ConfigOption, control_path
from ordercast.core import UsageError
from ordercast.node.configuration import read_configuration
from ordercast.node.control import ask_once

WATCH_SECONDS = 1.0

RATE_SECONDS = 0.25
"""Between two looks that tell a rate."""

NOT_UP = 1
"""The exit code when a process does not answer, or cannot go on."""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("status")(status)


def status(
    config: ConfigOption,
    process: Annotated[str | None, typer.Option("--process", metavar="NAME", help="Which process of it.")] = None,
    everyone: Annotated[
        bool, typer.Option("--all", help="Every process of the file; the default without NAME.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Again every second, until Ctrl-C.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on standard output; a line with --watch.")
    ] = False,
) -> int:
    """Print who is up, how far each group is at each process, what waits, and who holds whom up. Processes are asked by
    their control sockets, so those of other machines have to be asked there. Ends with exit code 1 when one does not
    answer, or cannot go on.

    Example: ordercast status --config bank.toml --watch
    """
    if process is not None and everyone:
        raise UsageError("--process and --all: choose one")
    names = [process] if process is not None else sorted(read_configuration(config, os.environ, {}).addresses)
    if not names:
        raise UsageError(f"{config} names no processes: say which one, --process NAME")
    paths = {name: control_path(config, name) for name in names}
    before = ordercast.run(_ask_all(paths))
    time.sleep(RATE_SECONDS)
    while True:
        answers = ordercast.run(_ask_all(paths))
        add_rates(answers, before)
        before = answers
        if as_json:
            print(json.dumps({"processes": answers}), flush=True)
        else:
            print("\n".join([*([time.strftime("--- %H:%M:%S")] if watch else []), *describe(answers)]), flush=True)
        if not watch:
            return NOT_UP if any(not each["up"] or each["blocked"] for each in answers.values()) else 0
        time.sleep(WATCH_SECONDS)


async def _ask_all(paths: dict[str, Path]) -> dict[str, dict[str, Any]]:
    answers = await asyncio.gather(*(_ask(path) for path in paths.values()))
    return dict(zip(paths, answers, strict=True))


async def _ask(path: Path) -> dict[str, Any]:
    try:
        async with asyncio.timeout(5.0):
            return {"up": True} | await ask_once(path, {"command": "status"})
    except (UsageError, TimeoutError) as error:
        return {"up": False, "blocked": None, "why": str(error) or "it does not answer"}


def add_rates(answers: dict[str, dict[str, Any]], before: dict[str, dict[str, Any]]) -> None:
    """Deliveries a second of each group at each process, since the last look."""
    for name, answer in answers.items():
        last = before.get(name, {})
        if not answer["up"] or not last.get("up") or answer["incarnation"] != last["incarnation"]:
            continue
        seconds = max(answer["now"] - last["now"], 1e-3)
        answer["rates"] = {
            group: max(0.0, (offset - last["offsets"].get(group, offset)) / seconds)
            for group, offset in answer["offsets"].items()
        }


def describe(answers: dict[str, dict[str, Any]]) -> list[str]:
    """Some lines for people: one for each process, and one for each of its groups."""
    ahead: dict[str, int] = {}
    for answer in answers.values():
        for group, offset in answer.get("offsets", {}).items():
            ahead[group] = max(offset, ahead.get(group, 0))
    lines = []
    for name, answer in answers.items():
        if not answer["up"]:
            lines.append(f"{name}: down, or not on this machine ({answer['why']})")
            continue
        peers = ", ".join(answer["peers"]) or "nobody"
        lines.append(
            f"{name}: up for {answer['up_seconds']:.0f} s, {answer['protocol']}, talks with {peers}; "
            f"{answer['memory_bytes'] / 1e6:.0f} MB"
        )
        if answer["blocked"]:
            lines.append(f"  blocked: {answer['blocked']}")
        lines += [f"  {line}" for line in _describe_work(answer)]
        for group, offset in answer["offsets"].items():
            waiting = answer["waiting"].get(group, 0)
            members = ", ".join(answer["groups"].get(group, {}).get("members", ()))
            behind = ahead[group] - offset
            rate = answer.get("rates", {}).get(group)
            lines.append(
                f"  {group}: offset {offset}"
                + (f", {behind} behind" if behind else "")
                + (f", {rate:,.0f} a second" if rate is not None else "")
                + (f", {waiting} bytes wait for the application" if waiting else "")
                + f"; members {members}"
            )
        lines += [f"  refuses {peer}: {why}" for peer, why in answer["refused"].items()]
    return lines


def _describe_work(answer: dict[str, Any]) -> list[str]:
    """Who orders, who is up and who is not, since when, how sending goes, the log, what was sent again."""
    lines = []
    if answer["orders"]:
        lines.append(f"{answer['orders']} orders")
    up = [f"{name} for {about['up_seconds']:.0f} s" for name, about in answer["members"].items() if _is_up(about)]
    if up:
        lines.append(f"up: {', '.join(up)}")
    for member, about in answer["members"].items():
        if not _is_up(about):
            since = (
                "never heard of" if about["silent_seconds"] is None else f"silent for {about['silent_seconds']:.0f} s"
            )
            lines.append(f"{member} is {about['state']}: {since}")
    sending, log = answer["sending"], answer["log"]
    words = [] if sending["credit"] is None else [f"credit for {sending['credit']} bundles"]
    if sending["waiting_bytes"]:
        words.append(f"{sending['waiting_bytes']:,} bytes wait for it")
    if sending["round_trip_seconds"] is not None:
        words.append(f"round trip {1e3 * sending['round_trip_seconds']:.1f} ms")
    if log is not None:
        words.append(
            f"log {log['bytes'] / 1e6:.1f} MB, a sync takes {1e3 * log['sync_seconds']:.1f} ms (at the most "
            f"{1e3 * log['sync_seconds_max']:.1f})"
        )
    again = sum(answer["retransmissions"].values())
    if again:
        causes = ", ".join(f"{cause} {count:,}" for cause, count in answer["retransmissions"].items())
        words.append(f"{again:,} sent or asked for again ({causes})")
    return [*lines, *([", ".join(words)] if words else [])]


def _is_up(about: dict[str, Any]) -> bool:
    return bool(about["state"] == "up")
