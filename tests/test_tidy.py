"""House rules that a machine can check: who may import whom, no sleeping in tests, no strangers' paths, …

The rules are functions from a project folder to complaints, so that a second test can show that each one bites.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PROJECT = Path(__file__).parents[1]

LINES_MAX = 500
# A file that has to be longer, with the reason why it is still one idea.
LONG_FILES: dict[str, str] = {}

# --- The import table -------------------------------------------------------------------------------------------
# It stands in ARCHITECTURE.md, where people read it; here it is only read.

TABLE = "ARCHITECTURE.md"
HEADING = "## Rooms, and what each may import"
ANY_FOLDER = "<name>"
ANYTHING = "anything"
NOTHING = "–"
CELLS = 4
"""Room, holds, may import besides, libraries."""
EVERYWHERE = {"msgspec"}


class Row(NamedTuple):
    """One row of the table: a room, or one of many alike."""

    room: str
    """`core/`, `protocols/<name>/` or `__init__.py`."""
    rooms: frozenset[str]
    libraries: frozenset[str]


class Room(NamedTuple):
    """A folder or a file that a row speaks of."""

    row: Row
    path: str


def table_cells(project: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of the table as (line, cells), without its head."""
    file = project / TABLE
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    inside = False
    for number, line in enumerate(lines, start=1):
        if line.startswith("## "):
            inside = line == HEADING
        elif inside and line.startswith("| `"):
            yield number, [cell.strip() for cell in line.strip().strip("|").split("|")]


def read_table(project: Path) -> list[Row]:
    """The rows that are well formed, the most particular first."""
    rows = [
        Row(cells[0].strip("`"), words(cells[2]), words(cells[3]))
        for _, cells in table_cells(project)
        if len(cells) == CELLS
    ]
    return sorted(rows, key=lambda row: (-row.room.count("/"), ANY_FOLDER in row.room))


def words(cell: str) -> frozenset[str]:
    """`a/`, `b/` -> a/ and b/; a dash is nothing."""
    return frozenset(word.strip().strip("`") for word in cell.split(",") if word.strip() != NOTHING)


def wrong_table(project: Path) -> Iterator[str]:
    """The table speaks of what there is, of each once, and in the way in which it is read."""
    seen: set[str] = set()
    rows = list(table_cells(project))
    if not rows:
        yield f"{TABLE}: no table below {HEADING!r}"
    known = {cells[0].strip("`") for _, cells in rows}
    for line, cells in rows:
        room = cells[0].strip("`")
        if len(cells) != CELLS:
            yield f"{TABLE}:{line}: the row of {room} has {len(cells)} cells; it needs {CELLS}"
            continue
        if room in seen:
            yield f"{TABLE}:{line}: a second row of {room}"
        seen.add(room)
        if not any(there(project / "src" / "ordercast", room)):
            yield f"{TABLE}:{line}: there is no {room}"
        for other in sorted(words(cells[2]) - known - {ANYTHING}):
            yield f"{TABLE}:{line}: {room} may import {other}, which has no row"


def there(package: Path, room: str) -> Iterator[Path]:
    """The folders, or the file, that a row speaks of."""
    for path in package.glob(room.rstrip("/").replace(ANY_FOLDER, "*")):
        if path.is_dir() == room.endswith("/") and path.name != "__pycache__":
            yield path


def room_of(parts: tuple[str, ...], package: Path, table: list[Row]) -> Room | None:
    """The room of a module or of a name in it, by its path below the package without suffix."""
    for row in table:
        wanted = row.room.removesuffix(".py").strip("/").split("/")
        own = parts[: len(wanted)]
        if len(own) == len(wanted) and all(each in (ANY_FOLDER, part) for each, part in zip(wanted, own, strict=True)):
            path = "/".join(own)
            if not row.room.endswith("/") or (package / path).is_dir():
                return Room(row, path)
    return None


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


def may_import(source: Room, target: Room | None) -> bool:
    if target is None or target.row.room == "core/" or source.path == target.path:
        return True  # no room: the package itself, for its version
    return bool({ANYTHING, target.row.room} & source.row.rooms)


def wrong_imports(project: Path) -> Iterator[str]:
    package = project / "src" / "ordercast"
    table = read_table(project)
    for file in python_files(package):
        parts = file.relative_to(package).with_suffix("").parts
        source = room_of(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts, package, table)
        where = file.relative_to(project)
        if source is None:
            yield f"{where}: is in no room of {TABLE}"
            continue
        libraries = sys.stdlib_module_names | EVERYWHERE | source.row.libraries
        for line, name in imported_modules(file, package):
            if name[0] == "ordercast":
                if not may_import(source, room_of(name[1:], package, table)):
                    yield f"{where}:{line}: {source.path} may not import {'.'.join(name)}"
            elif name[0] not in libraries and ANYTHING not in libraries:
                yield f"{where}:{line}: {source.path} may not import {name[0]}"


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
    wrong_table,
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


# --- Do the rules bite? -----------------------------------------------------------------------------------------

TABLE_TEXT = (PROJECT / TABLE).read_text(encoding="utf-8")
EMPTY_ROOMS = {
    f"src/ordercast/{row.room}{'' if row.room.endswith('.py') else '__init__.py'}": '"""Sound."""\n'
    for row in read_table(PROJECT)
    if ANY_FOLDER not in row.room
}
SOUND_FILES = EMPTY_ROOMS | {
    TABLE: TABLE_TEXT,
    "src/ordercast/__init__.py": '"""Sound."""\n\nfrom ordercast.node import open\n',
    "src/ordercast/core/__init__.py": '"""Sound."""\n\nimport msgspec\n',
    "src/ordercast/node/__init__.py": '"""Sound."""\n\nfrom ordercast.protocols import registry\n',
    "src/ordercast/wire/__init__.py": '"""Sound."""\n\nfrom cryptography import x\nfrom ordercast import __version__\n',
    "src/ordercast/check/facts/__init__.py": '"""Sound."""\n\nimport numpy\n',
    "src/ordercast/check/judges/order.py": "from ordercast.check import facts, verdict\n",
    "src/ordercast/cli/__init__.py": '"""Sound."""\n\nimport typer\nimport ordercast.sim\n',
    "src/ordercast/spark/verify/__init__.py": '"""Sound."""\n\nfrom ordercast import check\n',
    "src/ordercast/papers/__init__.py": '"""Sound."""\n\nfrom ordercast.bench import x\n',
    "src/ordercast/protocols/registry.py": "from ordercast.protocols.scalatom import core\n",
    "src/ordercast/protocols/scalatom/__init__.py": '"""Sound."""\n\nfrom ..parts import link\nfrom . import core\n',
    "src/ordercast/protocols/scalatom/packets.py": "",
    "src/ordercast/protocols/scalatom/README.md": "",
    "src/ordercast/protocols/mto/__init__.py": '"""Sound."""\n',
    "src/ordercast/protocols/mto/README.md": "",
    "src/ordercast/protocols/classic/__init__.py": '"""Sound."""\n',
    "src/ordercast/protocols/classic/README.md": "",
    "src/ordercast/protocols/classic/token/__init__.py": '"""Sound."""\n\nfrom . import core\n',
    "src/ordercast/protocols/classic/lamport/__init__.py": '"""Sound."""\n\nfrom ...parts import link\n',
    "tests/test_sound.py": "import asyncio\n\nasync def test() -> None:\n    await asyncio.sleep(0)\n",
    "notes.md": "framework/at/home and work/in/progress are fine, and so is /etc/hosts.\n",
}

PLANTED = [
    (wrong_table, TABLE, TABLE_TEXT.replace("| `sim/` |", "| `cellar/` | wine | – | – |\n| `sim/` |")),
    (wrong_table, TABLE, TABLE_TEXT.replace("| `sim/` |", "| `sim/` | the same | – | – |\n| `sim/` |")),
    (wrong_table, TABLE, TABLE_TEXT.replace("| `runtime/`, `trace/` |", "| `runtime/`, `attic/` |")),
    (wrong_table, TABLE, TABLE_TEXT.replace("| `runtime/`, `trace/` |", "|")),
    (wrong_table, TABLE, TABLE_TEXT.replace(HEADING, "## Rooms")),
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
    (
        wrong_imports,
        "src/ordercast/protocols/classic/token/bad.py",
        "from ordercast.protocols.classic.lamport import x\n",
    ),
    (wrong_imports, "src/ordercast/protocols/classic/token/bad.py", "from .. import lamport\n"),
    (wrong_imports, "src/ordercast/protocols/classic/lamport/bad.py", "from ..token import x\n"),
    (wrong_imports, "src/ordercast/protocols/classic/lamport/bad.py", "from ..common import x\n"),
    (wrong_imports, "src/ordercast/protocols/classic/common.py", "from .token import x\n"),
    (wrong_imports, "src/ordercast/wire/bad.py", "from ordercast.protocols.scalatom.core import x\n"),
    (wrong_imports, "src/ordercast/wire/bad.py", "from ordercast.protocols.scalatom.packets import x\n"),
    (wrong_imports, "src/ordercast/check/facts/bad.py", "from ordercast.check.judges.order import x\n"),
    (wrong_imports, "src/ordercast/papers/bad.py", "from ordercast.cli.bench import x\n"),
    (wrong_imports, "src/ordercast/spark/bad.py", "from ordercast.spark.experiments import x\n"),
    (wrong_imports, "src/ordercast/node/bad.py", "from ordercast.protocols.scalatom import x\n"),
    (wrong_imports, "src/ordercast/check/bad.py", "import ordercast.protocols.mto\n"),
    (wrong_imports, "src/ordercast/check/bad.py", "from ordercast.protocols.mto.packets import x\n"),
    (wrong_imports, "src/ordercast/spark/verify/bad.py", "from ordercast.protocols import registry\n"),
    (wrong_imports, "src/ordercast/spark/verify/bad.py", "from ordercast.sim import x\n"),
    (wrong_imports, "src/ordercast/sim/bad.py", "from ordercast.protocols import registry\n"),
    (wrong_imports, "src/ordercast/sim/bad.py", "from ordercast.cli import x\n"),
    (wrong_imports, "src/ordercast/loose.py", ""),
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


def test_the_imports_of_the_project_are_held_against_the_rows_as_they_stand(tmp_path: Path) -> None:
    """With one word less in one row, the modules that need it are found, and no others."""
    (tmp_path / "src").symlink_to(PROJECT / "src")
    (tmp_path / TABLE).write_text(TABLE_TEXT.replace("| `runtime/`, `trace/` |", "| `trace/` |"))
    complaints = list(wrong_imports(tmp_path))
    assert complaints
    assert all("src/ordercast/sim/" in line and "sim may not import ordercast.runtime" in line for line in complaints)
