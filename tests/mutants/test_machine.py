"""Mutants by machine: the rules change what they say, one thing at a time, and a verdict is kept while it is true."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ordercast.protocols import PROTOCOL_NAMES
from tests.mutants.machine import mutants
from tests.mutants.machine.kept import Kept, Verdict, read_reasons
from tests.mutants.machine.mutants import Module, find_files, find_modules
from tests.mutants.machine.plan import CORE, PLANS, find_plan
from tests.mutants.machine.pool import HANGS, run_each
from tests.mutants.machine.report import Result
from tests.mutants.machine.sound import run_soundly
from tests.mutants.machine.told import read_told, sum_up, write_told


def module_of(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Module:
    monkeypatch.setattr(mutants, "PROTOCOLS", folder)
    path = folder / "part.py"
    path.write_text(text, encoding="utf-8")
    return Module(path)


@pytest.mark.parametrize(
    ("text", "rule", "changes"),
    [
        ("x = a < b", "bound", ["a < b -> a <= b"]),
        ("x = a >= b > c", "bound", ["a >= b > c -> a > b > c", "a >= b > c -> a >= b >= c"]),
        ("x = [a == b, not c]", "opposite", ["a == b -> a != b", "not c -> c"]),
        ("x = q.is_met(acks)", "quorum", ["q.is_met(acks) -> True"]),
        ("x = n // 2 + 1", "quorum", ["n // 2 + 1 -> n // 2"]),
        ("x = a and b and c", "condition", ["-> b and c", "-> a and c", "-> a and b"]),
        ("if a is None:\n    f()", "condition", ["if a is None -> if True", "if a is None -> if False"]),
        ("x = [a for a in b if a > c]", "condition", ["_ for a in b if a > c -> _ for a in b"]),
        ("def f():\n    self.log.append(x)\n    self.branch('y')", "dropped", ["self.log.append(x) -> nothing"]),
        ("def f():\n    self.round = 1\n    x = 2", "dropped", ["self.round = 1 -> nothing"]),
        ("def f():\n    raise ValueError(a < b)", "dropped", ["raise ValueError(a < b) -> nothing"]),
        ("x = max(a, b)", "extreme", ["max(a, b) -> min(a, b)"]),
        ("x: Literal[3] = 1", "constant", ["1 -> 2", "1 -> 0"]),
        ("def restore(s):\n    i.a, i.b = s.a, s.b", "field", ["-> i.b, = (s.b,)", "-> i.a, = (s.a,)"]),
        ("def state(self):\n    return State(self.a)", "field", ["State(self.a) -> State(type(self.a)())"]),
        ("def f():\n    self.append(r)\n    self.send(p)", "order", ["self.send(p) before self.append(r)"]),
    ],
)
def test_a_rule_makes_these_changes_and_no_others(
    text: str, rule: str, changes: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = module_of(text, tmp_path, monkeypatch)
    made = [mutant.change for mutant in module.mutants if mutant.rule == rule]
    assert len(made) == len(changes)
    for change, wanted in zip(made, changes, strict=True):
        assert change.endswith(wanted)


def test_the_test_of_a_branch_is_always_or_never_true_and_not_turned_round_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = module_of("if a == b:\n    f()", tmp_path, monkeypatch)
    assert [mutant.rule for mutant in module.mutants] == ["condition", "condition", "dropped"]


def test_what_is_compiled_has_the_change_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def least(a, b):\n    return a if a < b else b\n\nx = 5\n"
    before = ast.dump(ast.parse(text))
    (change,) = (each for each in module_of(text, tmp_path, monkeypatch).mutants if each.change == "5 -> 6")
    module = module_of(text, tmp_path, monkeypatch)
    (again,) = (each for each in module.mutants if str(each) == str(change))
    names: dict[str, object] = {}
    exec(module.compile(again), names)
    assert names["x"] == 6
    assert ast.dump(ast.parse(ast.unparse(module.tree))) != before


def test_every_mutant_of_a_part_compiles_and_has_a_name_of_its_own() -> None:
    path = mutants.PROTOCOLS / "parts" / "quorum.py"
    names = [str(mutant) for mutant in Module(path).mutants]
    assert len(set(names)) == len(names) > 10
    for place in range(len(names)):
        module = Module(path)
        module.compile(module.mutants[place])


def test_comments_and_docstrings_are_not_in_the_hash_of_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = module_of("def f():\n    return 1", tmp_path, monkeypatch).code
    assert module_of('def f():\n    """One."""\n    return 1  # why', tmp_path, monkeypatch).code == plain
    assert module_of("def f():\n    return 2", tmp_path, monkeypatch).code != plain


def test_a_kill_is_kept_while_the_module_is_as_it_was_and_a_survivor_only_for_these_tests_and_this_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = module_of("x = a < b\ny = 5", tmp_path, monkeypatch)
    killed, survivor, *_ = module.mutants
    kept = Kept(tmp_path / "kept.jsonl")
    kept.add(Verdict(module.name, module.code, str(killed), "test: some", "p", 1.0, 0.1))
    kept.add(Verdict(module.name, module.code, str(survivor), None, "p", 1.0, 0.1))
    with (tmp_path / "kept.jsonl").open("a", encoding="utf-8") as file:
        file.write('["part", "cut sho')
    again = Kept(tmp_path / "kept.jsonl")
    assert again.find(module, killed, "other tests", 9.0) is not None
    assert again.find(module, survivor, "p", 1.0) is not None
    assert again.find(module, survivor, "p", 9.0) is None
    assert again.find(module, survivor, "other tests", 1.0) is None
    changed = module_of("x = a < b\ny = 5\nz = 6", tmp_path, monkeypatch)
    assert again.find(changed, changed.mutants[0], "p", 1.0) is None
    assert again.hint(changed.mutants[0]) == "test: some"


def test_what_has_come_of_a_whole_module_is_told_in_short_to_whoever_has_the_same_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = module_of("x = a < b\ny = 5", tmp_path, monkeypatch)
    stages = ["test: some", "campaign: token:17 P1", None]
    verdicts = [
        Verdict(module.name, module.code, str(mutant), by, "p", 4.0, 0.1)
        for mutant, by in zip(module.mutants, stages, strict=True)
    ]
    results = [Result(mutant, verdict, None) for mutant, verdict in zip(module.mutants, verdicts, strict=True)]
    assert sum_up(module, [*results, results[0]._replace(verdict=None)], "p") is None
    told = sum_up(module, results, "p")
    assert told is not None
    write_told({told.name: told}, tmp_path / "told.toml")
    again = read_told(tmp_path / "told.toml")
    assert again == {module.name: told}
    kept = Kept(tmp_path / "kept.jsonl", lambda module, name: again[module.name].verdict(name))
    found = [kept.find(module, mutant, "p", 4.0) for mutant in module.mutants]
    assert [each and each.by for each in found] == ["test: told", "campaign: told", None]
    assert kept.find(module, module.mutants[2], "other tests", 4.0) is None


def test_what_is_told_of_modules_is_told_of_modules_that_there_are() -> None:
    assert set(read_told()) <= set(find_files())


def test_each_trial_is_a_process_of_its_own_with_a_limit() -> None:
    def trial(job: str) -> str | None:
        while job == "loops":
            pass
        return f"test: {job}" if job == "fails" else None

    results = {job: noticed for job, noticed, _ in run_each(["passes", "fails", "loops"], trial, 1.0, 3)}
    assert results == {"passes": None, "fails": "test: fails", "loops": HANGS}


def test_a_run_that_fails_without_any_mutant_says_nothing_about_one(capsys: pytest.CaptureFixture[str]) -> None:
    def trial(job: str, left_out: frozenset[str]) -> str | None:
        runs = [run for run in ("p:1", "p:2") if run not in left_out]
        worlds = [world for world in ("w/2/0", "w/3/0") if world not in left_out]
        return {
            "broken": f"campaign: {runs[0]} termination",
            "searched": f"search: {worlds[0]} stuck",
            "sound": None,
            "odd": "campaign: TypeError",
        }[job]

    def passes(run: str) -> bool:
        return run not in ("p:1", "w/2/0")

    jobs = ["broken", "searched", "sound", "odd"]
    results = {job: noticed for job, noticed, _ in run_soundly(jobs, trial, 5.0, 1, passes)}
    assert results == {
        "broken": "campaign: p:2 termination",
        "searched": "search: w/3/0 stuck",
        "sound": None,
        "odd": "campaign: TypeError",
    }
    assert "p:1 fails without any mutant" in capsys.readouterr().err


# ---------------------------------------------------------------------- the tables
def test_every_module_has_a_plan_and_every_plan_has_tests_and_campaigns() -> None:
    for name in find_files():
        plan = find_plan(name)
        assert plan.test_files(), name
        assert plan.campaigns, name
    named = {name for plan in PLANS.values() for name in plan.campaigns if ":" not in name}
    assert named == set(PROTOCOL_NAMES)


def test_every_core_function_is_there() -> None:
    for name, functions in CORE.items():
        (module,) = find_modules((name,))
        assert set(functions) <= {mutant.function for mutant in module.mutants}, name


def test_every_reason_is_about_a_mutant_that_there_is() -> None:
    reasons = read_reasons()
    modules = find_modules(tuple({reason.module for reason in reasons}))
    all_mutants = {(each.module, each.function, each.change) for module in modules for each in module.mutants}
    for reason in reasons:
        assert (reason.module, reason.function, reason.change) in all_mutants
        assert len(reason.reason.split()) >= 4, f"say why: {reason}"
