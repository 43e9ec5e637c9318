"""`ordercast config` and `ordercast key` without the extra [cli]: the same work and words, read by argparse."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import ordercast
from ordercast.core.errors import UsageError

KEY = """The key that the processes of a cluster share.

Example: ordercast key new bank.key"""

KEY_NEW = """Make a new cluster key, in a file that only you can read.

Copy the file to every process of the cluster, over a channel that you trust, and name it as key_file in the
configuration. To rotate a key: put the new one on a second line of every process' file; then make it the first line
everywhere; then remove the old one. After each step let every process read its file, by `ordercast key reload` or a
restart, one at a time.

Example: ordercast key new bank.key"""

KEY_RELOAD = """Let a running node read its key file again: it takes both lines from then on, and seals with the first.

Example: ordercast key reload --config bank.toml --process node-1"""

CONFIG = """Make, check and show the configuration of a cluster.

Example: ordercast config new bank.toml"""

CONFIG_NEW = """Write a configuration to start from, with comments, and a new cluster key beside it.

Example: ordercast config new bank.toml --processes 3"""

CONFIG_VALIDATE = """Check a configuration, the environment's part included, and the key file; warn of what costs
guarantees.

Example: ordercast config validate bank.toml"""

CONFIG_SHOW = """Show every value that counts, and where it came from: the file, the environment, or a default.

Example: ORDERCAST_MAX_DATAGRAM=1450 ordercast config show bank.toml"""

MORE = "All other commands need the extra [cli]: pip install 'ordercast[cli]'"

COMMANDS = ("config", "key")
"""Those that are in the core installation."""


class _Parser(argparse.ArgumentParser):
    """Misuse is a `UsageError`, as everywhere."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


def run(words: Sequence[str]) -> int:
    """Run one of these commands; its exit code."""
    parser = _Parser(prog="ordercast", description="What the core installation has of the command.", epilog=MORE)
    parser.add_argument("--version", action="version", version=f"ordercast {ordercast.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    for name, description, add in (("key", KEY, _add_key), ("config", CONFIG, _add_config)):
        add(
            commands.add_parser(
                name,
                help=description.partition("\n")[0],
                description=description,
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
        )
    try:
        given = vars(parser.parse_args(list(words)))
        if "work" not in given:
            parser.parse_args([*words[:1], "--help"])
    except SystemExit as error:  # after --help
        return int(error.code or 0)
    del given["command"]
    work: Callable[..., int] = given.pop("work")
    return work(**given)


def _add(parent: argparse.ArgumentParser, commands: dict[str, tuple[str, Callable[..., int]]]) -> list[_Parser]:
    subparsers = parent.add_subparsers(metavar="COMMAND", parser_class=_Parser)
    found = []
    for name, (words, work) in commands.items():
        parser = subparsers.add_parser(
            name,
            help=words.partition("\n")[0],
            description=words,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.set_defaults(work=work)
        parser.add_argument("--json", dest="as_json", action="store_true", help="One JSON document on standard output.")
        found.append(parser)
    return found


def _add_key(parent: argparse.ArgumentParser) -> None:
    from ordercast.cli.basics import make_key, reload_key

    new, reload = _add(parent, {"new": (KEY_NEW, make_key), "reload": (KEY_RELOAD, reload_key)})
    new.add_argument("file", metavar="FILE", type=Path, help="Where to write it; there must be no such file yet.")
    reload.add_argument("--config", metavar="FILE", type=Path, required=True, help="The cluster's configuration.")
    reload.add_argument("--process", metavar="NAME", required=True, help="Which process of it.")


def _add_config(parent: argparse.ArgumentParser) -> None:
    from ordercast.cli.basics import FIRST_PORT, PROCESSES, make_config, show_config, validate_config

    new, validate, show = _add(
        parent,
        {
            "new": (CONFIG_NEW, make_config),
            "validate": (CONFIG_VALIDATE, validate_config),
            "show": (CONFIG_SHOW, show_config),
        },
    )
    new.add_argument("file", metavar="FILE", type=Path, help="Where to write it; there must be no such file yet.")
    new.add_argument("--processes", metavar="N", type=int, default=PROCESSES, help="How many, on this machine.")
    new.add_argument("--protocol", metavar="NAME", help="See `ordercast protocols`.")
    new.add_argument("--discovery", action="store_true", help="No names in the file: processes find each other.")
    new.add_argument("--cluster", metavar="NAME", help="Its name; by default the file's.")
    new.add_argument("--port", metavar="N", type=int, default=FIRST_PORT, help="Of the first process.")
    new.add_argument("--insecure", action="store_true", help="Without a key: everything in the clear.")
    for parser in (validate, show):
        parser.add_argument("file", metavar="FILE", type=Path, help="The cluster's configuration.")
