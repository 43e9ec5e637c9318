"""The rules: from a piece of code to what it might be by mistake.

Each rule looks at one node of a syntax tree and gives what could stand in its place. A rule says what kind of mistake
it stands for; what it leaves alone (annotations, texts of errors, counts of branches) changes nothing that a run shows.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from copy import deepcopy

Rule = Callable[[ast.AST, str], Iterator[ast.AST]]
"""A node and the name of its function -> what may stand in its place."""

SILENT_CALLS = frozenset({"branch", "note_branch"})
"""What they do is counted and nothing else."""
RESTORING = ("restore", "recall", "resume", "load", "on_recovered")
"""How the names of functions begin that bring state back after a crash."""
SAVING = ("state", "checkpoint", "snapshot", "_state", "_checkpoint", "summary")
"""And of those that write it down."""

_BOUNDS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_SWAPPED = {"max": "min", "min": "max", "any": "all", "all": "any"}


def bounds(node: ast.AST, _function: str) -> Iterator[ast.AST]:
    """A bound that is off by one."""
    yield from _compared_by(node, _BOUNDS)


def opposites(node: ast.AST, _function: str) -> Iterator[ast.AST]:
    """A test for equality, identity or membership turned round; a negation forgotten."""
    yield from _compared_by(node, _OPPOSITES)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield deepcopy(node.operand)


def _compared_by(node: ast.AST, others: dict[type[ast.cmpop], type[ast.cmpop]]) -> Iterator[ast.AST]:
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            if type(operator) in others:
                changed = deepcopy(node)
                changed.ops[place] = others[type(operator)]()
                yield changed


def quorums(node: ast.AST, _function: str) -> Iterator[ast.AST]:
    """Whoever is there is a quorum; half is one."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "is_met":
        yield ast.Constant(True)
    if (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Add)
        and isinstance(node.left, ast.BinOp)
        and isinstance(node.left.op, ast.FloorDiv)
    ):
        yield deepcopy(node.left)


def conditions(node: ast.AST, _function: str) -> Iterator[ast.AST]:
    """A condition of several without one of them, a branch always or never taken."""
    if isinstance(node, ast.BoolOp):
        for place in range(len(node.values)):
            values = [deepcopy(value) for index, value in enumerate(node.values) if index != place]
            yield values[0] if len(values) == 1 else ast.BoolOp(node.op, values)
    elif isinstance(node, ast.If | ast.IfExp):
        for outcome in (True, False):
            changed = deepcopy(node)
            changed.test = ast.Constant(outcome)
            yield changed
    elif isinstance(node, ast.comprehension):
        for place in range(len(node.ifs)):
            unfiltered = deepcopy(node)
            del unfiltered.ifs[place]
            yield unfiltered


def dropped_statements(node: ast.AST, function: str) -> Iterator[ast.AST]:
    """Something that writes state, the log, a packet or a timer is not done, or what ends a function does not."""
    if function.endswith("__init__"):
        return  # an attribute that is not there is no mistake that anybody overlooks
    if isinstance(node, ast.Expr):
        if isinstance(node.value, ast.Call) and _name(node.value) not in SILENT_CALLS:
            yield ast.Pass()
    elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets):
            yield ast.Pass()
    elif isinstance(node, ast.Delete | ast.Continue | ast.Break | ast.Raise) or (
        isinstance(node, ast.Return) and node.value is None
    ):
        yield ast.Pass()


def extremes(node: ast.AST, _function: str) -> Iterator[ast.AST]:
    """The least for the greatest, any for all."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _SWAPPED:
        changed = deepcopy(node)
        changed.func = ast.Name(_SWAPPED[node.func.id], ast.Load())
        yield changed


def constants(node: ast.AST, _function: str) -> Iterator[ast.AST]:
    """A whole number that is one more, or one less."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield ast.Constant(node.value + 1)
        if node.value > 0:
            yield ast.Constant(node.value - 1)


def lost_fields(node: ast.AST, function: str) -> Iterator[ast.AST]:
    """A field that a checkpoint does not hold, or that is not taken out of it again."""
    name = function.rpartition(".")[2]
    if isinstance(node, ast.Assign) and name.startswith(RESTORING):
        (target, *_), value = node.targets, node.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts) > 1:
            for place in range(len(target.elts)):
                shorter = deepcopy(node)
                for sequence in (shorter.targets[0], shorter.value):
                    del sequence.elts[place]  # type: ignore[attr-defined]
                yield shorter
    if isinstance(node, ast.Call) and name.startswith(SAVING) and _name(node)[:1].isupper():
        for place, argument in enumerate(node.args):
            if not isinstance(argument, ast.Starred):
                changed = deepcopy(node)
                changed.args[place] = _empty(argument)
                yield changed
        for place, keyword in enumerate(node.keywords):
            if keyword.arg is not None:
                changed = deepcopy(node)
                changed.keywords[place].value = _empty(keyword.value)
                yield changed


def _empty(value: ast.expr) -> ast.expr:
    """0 for a number, () for a tuple, None for None."""
    return ast.Call(ast.Call(ast.Name("type", ast.Load()), [deepcopy(value)], []), [], [])


def _name(call: ast.Call) -> str:
    """What is called, without whose it is."""
    function = call.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def swapped(body: list[ast.stmt], place: int) -> list[ast.stmt] | None:
    """The order of append and send: two calls one after the other, the second one first. None where they are none."""
    for statement in body[place : place + 2]:
        if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
            return None
        if _name(statement.value) in SILENT_CALLS:
            return None
    first, second = body[place : place + 2]
    return [*body[:place], second, first, *body[place + 2 :]]


OPPOSITE = "opposite"
"""Not applied to the whole test of a branch: always and never say more."""
RULES: dict[str, Rule] = {
    "bound": bounds,
    OPPOSITE: opposites,
    "quorum": quorums,
    "condition": conditions,
    "dropped": dropped_statements,
    "extreme": extremes,
    "constant": constants,
    "field": lost_fields,
}
ORDER = "order"
"""The name of the rule that swaps statements."""
