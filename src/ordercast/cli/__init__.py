"""The command line. `main` runs with the core dependencies alone and says which extra a command misses.

Exit codes: 0 fine, 1 what was checked does not hold, 2 misuse or bad input, 130 interrupted.
"""

import sys
from collections.abc import Callable, Sequence

from ordercast.cli.commands import COMMANDS
from ordercast.cli.extras import explain_missing, extra_of
from ordercast.cli.plain import COMMANDS as CORE_COMMANDS
from ordercast.core.errors import StorageError, UsageError, WireError

MISUSE = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; misuse and bad input end in one line on standard error."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _find_runner(words)(words)
    except (UsageError, StorageError, WireError) as error:
        command = f"ordercast {words[0]}" if words and words[0] in COMMANDS else "ordercast"
        return complain(f"{command}: {error}")
    except ModuleNotFoundError as error:
        explanation = explain_missing(error, words)
        if explanation is None:  # a module of ours: a bug, not a missing extra
            raise
        return complain(explanation)
    except KeyboardInterrupt:
        return INTERRUPTED


def _find_runner(words: Sequence[str]) -> Callable[[Sequence[str]], int]:
    """What reads the words: typer, or for the commands of the core installation, where that is missing, argparse."""
    try:
        from ordercast.cli.app import run
    except ModuleNotFoundError as error:
        if {*words[:1]} - {*CORE_COMMANDS, "--help", "--version"} or extra_of(error.name or "") != "cli":
            raise
        from ordercast.cli.plain import run
    return run


def complain(text: str) -> int:
    """Put the text on standard error as one line; the exit code for misuse."""
    print(" ".join(text.split()), file=sys.stderr)
    return MISUSE
