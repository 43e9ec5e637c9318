"""All mutants of a module, each with a name that stays while its function does."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from tests.mutants.machine.rules import OPPOSITE, ORDER, RULES, swapped

PROJECT = Path(__file__).parents[3]
PROTOCOLS = PROJECT / "src" / "ordercast" / "protocols"

_ANNOTATIONS = ("annotation", "returns", "decorator_list", "bases")
"""Fields of nodes in which a change would be none, or be one of the declaration."""
_WIDTH = 100
"""Characters of code in a name."""


class Place(NamedTuple):
    """Where a node hangs in its tree."""

    owner: ast.AST
    field: str
    position: int | None

    def put(self, value: Any) -> None:
        """Hang another one there."""
        if self.position is None:
            setattr(self.owner, self.field, value)
        else:
            getattr(self.owner, self.field)[self.position] = value


class Mutant(NamedTuple):
    """One change of one module."""

    module: str
    """`parts/consensus`: below `ordercast/protocols`, without the suffix."""
    function: str
    rule: str
    line: int
    change: str
    """What it was, and what it is: with the function's name this is what a reviewed reason refers to."""
    number: int
    """Of those that read alike in that function."""
    place: Place
    value: Any

    def __str__(self) -> str:
        return f"{self.function}: {self.change}" + (f" #{self.number}" if self.number else "")


class Module:
    """One source file and its mutants."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.relative_to(PROTOCOLS).with_suffix("").as_posix()
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.code = hashlib.sha256(ast.dump(_bare(self.tree)).encode()).hexdigest()[:16]
        """Of what the file says, whatever its comments and docstrings."""
        self.mutants = tuple(_numbered(self._all()))

    @property
    def import_name(self) -> str:
        """As Python names it."""
        parts = self.path.relative_to(PROJECT / "src").with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def compile(self, mutant: Mutant | None) -> CodeType:
        """The module with that change. (For good: whoever calls this is a process of its own.)"""
        if mutant is not None:
            mutant.place.put(mutant.value)
        return compile(ast.fix_missing_locations(self.tree), str(self.path), "exec")

    def _all(self) -> Iterator[Mutant]:
        for place, node, function in _walk(self.tree, ""):
            line = getattr(node, "lineno", getattr(place.owner, "lineno", 0))
            if isinstance(node, list):
                for index in range(len(node) - 1):
                    body = swapped(node, index)
                    if body is not None:
                        first, second = (_text(statement) for statement in node[index : index + 2])
                        change = f"{second} before {first}"
                        yield Mutant(self.name, function, ORDER, node[index].lineno, change, 0, place, body)
                continue
            for rule, replacements in RULES.items():
                if rule == OPPOSITE and place.field == "test":
                    continue
                for value in replacements(node, function):
                    change = f"{_text(node)} -> {_text(value)}"
                    yield Mutant(self.name, function, rule, line, change, 0, place, value)


def _walk(owner: ast.AST, function: str) -> Iterator[tuple[Place, Any, str]]:
    """Every node below, and every body of several statements, with where it hangs and the function that it is in."""
    if isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        function = f"{function}.{owner.name}".lstrip(".")
    for field, value in ast.iter_fields(owner):
        if field in _ANNOTATIONS:
            continue
        if isinstance(value, ast.AST) and not _is_text(value):
            yield Place(owner, field, None), value, function
            yield from _walk(value, function)
        elif isinstance(value, list):
            if value and all(isinstance(each, ast.stmt) for each in value):
                yield Place(owner, field, None), value, function
            for index, each in enumerate(value):
                if isinstance(each, ast.AST) and not _is_text(each):
                    yield Place(owner, field, index), each, function
                    # A raise may be left out as a whole; how it words its error is nobody's business.
                    if not isinstance(each, ast.Raise):
                        yield from _walk(each, function)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr | ast.Import | ast.ImportFrom)


def _numbered(mutants: Iterator[Mutant]) -> Iterator[Mutant]:
    seen: Counter[tuple[str, str]] = Counter()
    for mutant in mutants:
        key = mutant.function, mutant.change
        yield mutant._replace(number=seen[key])
        seen[key] += 1


def _text(node: ast.AST) -> str:
    """A node in a line; of a branch only its head."""
    if isinstance(node, ast.If):
        text = f"if {ast.unparse(node.test)}"
    elif isinstance(node, ast.comprehension):
        text = ast.unparse(ast.GeneratorExp(ast.Name("_", ast.Load()), [node])).strip("()")
    elif isinstance(node, ast.Pass):
        return "nothing"
    else:
        text = ast.unparse(node)
    text = " ".join(text.split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH // 2]} … {text[-_WIDTH // 2 :]}"


def _bare(tree: ast.Module) -> ast.Module:
    """The tree without its strings that are statements."""

    class Strip(ast.NodeTransformer):
        def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
            text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
            return None if text else node

    bare: ast.Module = Strip().visit(ast.parse(ast.unparse(tree)))
    return bare


def find_modules(names: tuple[str, ...]) -> list[Module]:
    """The modules of these names, or below these folders; all of them when none is named."""
    chosen = (
        path
        for name, path in find_files().items()
        if not names or any(name == each or name.startswith(f"{each}/") for each in names)
    )
    return [module for module in map(Module, chosen) if module.mutants]


def find_files() -> dict[str, Path]:
    """All modules that may have mutants, by name. (The registry is none.)"""
    paths = sorted(path for path in PROTOCOLS.rglob("*/*.py") if path.name != "__init__.py")
    return {path.relative_to(PROTOCOLS).with_suffix("").as_posix(): path for path in paths}
