"""`ordercast send`: multicast from a shell."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from io import BufferedReader
from typing import Annotated, Any, cast

import typer

import ordercast
from ordercast.cli.live import AnyProcessOption, ConfigOption, check_group, find_way
from ordercast.core import UsageError
from ordercast.node.control import send as send_through
from ordercast.node.posting import UNKNOWN, describe_receipt

NOT_ORDERED = 1
"""The exit code when messages were taken and are not ordered yet."""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("send")(send)


def send(
    group: Annotated[str, typer.Argument(help="The group, or several joined by commas.")],
    config: ConfigOption,
    process: AnyProcessOption = None,
    lines: Annotated[
        bool, typer.Option("--lines", help="Every line is a message; else all of the input is one.")
    ] = False,
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Sent again with the same key, it is delivered once; line N has KEY/N."),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.001, metavar="SECONDS", help="How long to wait until it is ordered.")
    ] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
) -> int:
    """Multicast standard input through a running node; done when it has its place in the order of the group. What was
    taken and is not ordered in time ends with exit code 1, and may be ordered later. Where the configuration has
    [clients] this works from every machine that has the configuration and the key.

    Example: echo "deposit 42 100" | ordercast send everyone --config bank.toml --process node-1 --lines
    """
    groups = group.split(",")
    for name in groups:
        check_group(config, name)
    way, source = find_way(config, process), cast(BufferedReader, sys.stdin.buffer)
    if isinstance(way, ordercast.Client):
        answer = ordercast.run(_send_as_client(way, groups, _read(source, lines), key, timeout))
    else:
        answer = ordercast.run(send_through(way, groups, _messages(source, lines), key, timeout))
    if as_json:
        print(json.dumps(answer | {"groups": groups, "process": process}))
    else:
        print(_describe(answer, ", ".join(groups)), file=sys.stderr)
    return NOT_ORDERED if answer["ordered"] is False else 0


def _describe(answer: dict[str, Any], groups: str) -> str:
    sent = f"{answer['sent']} message{'s' if answer['sent'] != 1 else ''}"
    if answer["repeated"]:
        return f"{sent} to {groups} had been sent before, the last one is at offset {answer['offset']}"
    if answer["ordered"]:
        return f"{sent} sent to {groups}, the last one at offset {answer['offset']}"
    if answer["ordered"] is None:
        return f"{sent} sent to {groups}" + (f"; {answer['why']}" if answer["why"] else "")
    return f"{sent} to {groups} taken, not yet ordered: {answer['why']}"


async def _send_as_client(
    client: ordercast.Client, groups: list[str], payloads: AsyncIterator[bytes], key: str | None, timeout: float
) -> dict[str, Any]:
    """What a client sends to a group is ordered as it was sent, so when the last one has its place, all have theirs."""
    if len(groups) > 1:
        raise UsageError("a client sends to one group at a time: name one, or send to each of them")
    answer: dict[str, Any] = {"sent": 0} | UNKNOWN
    try:
        async with client:
            group, last = client.group(groups[0]), None
            async for payload in payloads:
                if last is not None:
                    await group.multicast(last, key=_key(key, answer["sent"]))
                last = payload
                answer["sent"] += 1
            if last is None:
                return answer
            async with asyncio.timeout(timeout):
                receipt = await group.multicast(last, confirm=True, key=_key(key, answer["sent"]))
    except TimeoutError:
        return answer | {"ordered": False, "why": f"the group has not ordered them in {timeout:g} s"}
    except (ordercast.GroupBlocked, ordercast.NoMember) as error:
        if not answer["sent"]:
            raise UsageError(str(error)) from None
        return answer | {"ordered": False, "why": str(error)}
    return answer | describe_receipt(receipt)


def _key(key: str | None, number: int) -> str | None:
    return None if key is None else f"{key}/{number}"


async def _read(source: BufferedReader, lines: bool) -> AsyncIterator[bytes]:
    """Messages as they come, without a wait in which the client would be silent."""
    if not lines:
        yield await asyncio.to_thread(source.read)
        return
    rest = b""
    while data := await asyncio.to_thread(source.read1, 1 << 16):
        *whole, rest = (rest + data).split(b"\n")
        for line in whole:
            yield line.rstrip(b"\r")
    if rest:
        yield rest.rstrip(b"\r")


def _messages(source: BufferedReader, lines: bool) -> Iterator[bytes]:
    if lines:
        for line in source:
            yield line.rstrip(b"\r\n")
    else:
        yield source.read()
