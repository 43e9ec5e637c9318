"""`ordercast tail`: follow a group."""

from __future__ import annotations

import json
import sys
import unicodedata
from pathlib import Path
from typing import Annotated, Any

import typer

import ordercast
from ordercast.cli.live import AnyProcessOption, ConfigOption, check_group, find_way
from ordercast.core import UsageError
from ordercast.node.control import ask, describe, read

UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Unicode that moves a terminal's cursor, colours it, rings its bell, turns its text round or ends its line."""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("tail")(tail)


def tail(
    group: Annotated[str, typer.Argument(help="The group.")],
    config: ConfigOption,
    process: AnyProcessOption = None,
    start: Annotated[
        int | None, typer.Option("--from", min=0, metavar="N", help="From this offset; else from now.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, metavar="N", help="Stop after so many.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
) -> int:
    """Print what a running node delivers, in order, until Ctrl-C. Where the configuration has [clients] this works from
    every machine that has the configuration and the key, and goes on at another node when one is lost.

    Example: ordercast tail everyone --config bank.toml --process node-1 --from 0 --json
    """
    check_group(config, group)
    way = find_way(config, process)
    if isinstance(way, ordercast.Client):
        ordercast.run(_follow_as_client(way, group, start, count, as_json))
        return 0
    printed = ordercast.run(_follow(way, group, start, count, as_json))
    if count is not None and printed < count:
        raise UsageError(f"the node ended after {printed} of {count} deliveries: start it again, then go on")
    if count is None:
        print("the node ended", file=sys.stderr)
    return 0


async def _follow_as_client(
    client: ordercast.Client, group: str, start: int | None, count: int | None, as_json: bool
) -> None:
    printed = 0
    try:
        async with client:
            async for delivery in client.group(group).subscribe(start):
                _print(describe(delivery), as_json)
                printed += 1
                if printed == count:
                    return
    except (ordercast.ClientCut, ordercast.NoMember) as error:
        wanted = "" if count is None else f" of {count}"
        raise UsageError(f"{error}; deliveries that were printed: {printed}{wanted}") from None


async def _follow(path: Path, group: str, start: int | None, count: int | None, as_json: bool) -> int:
    """How many were printed, before there were enough or the node ended."""
    reader, writer = await ask(path, {"command": "tail", "group": group, "from": start})
    printed = 0
    try:
        while (delivery := await read(reader)) is not None:
            _print(delivery, as_json)
            printed += 1
            if printed == count:
                break
    finally:
        writer.close()
    return printed


def _print(delivery: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(delivery), flush=True)
    else:
        payload = delivery.get("payload", f"(base64) {delivery.get('payload_base64')}")
        # The end of the line that `echo … | ordercast send` sends is not worth showing; --json has every byte.
        text = printable(payload.removesuffix("\n"))
        line = f"{delivery['offset']:>8}  {delivery['source']:<12}  {text}"
        encoding = sys.stdout.encoding
        print(line.encode(encoding, "backslashreplace").decode(encoding), flush=True)


def printable(text: str) -> str:
    """A text in which everything that a terminal would obey is spelled out: whoever may send must not command it."""
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode() if unicodedata.category(character) in UNPRINTABLE else character
        for character in text
    )
