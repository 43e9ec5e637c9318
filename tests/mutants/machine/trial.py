"""One mutant in a process of its own: does anything notice?

The changed module is in no file. It is compiled in the process that tries it, and an import hook gives it to whoever
asks for the module, the tests' own cores among them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any

from tests.mutants.machine.mutants import PROJECT, Module, Mutant
from tests.mutants.machine.plan import Plan

SEEDS_MAX = 1000
"""Of a campaign, whatever its budget."""
SMALL = {(3, 0): (1, 0.5), (2, 0): (2, 0.25), (2, 1): (2, 0.25)}
"""Sites of a small world and after how many records its logs are summed up -> how many times as many crashes and timers
as usual there are, and its share of the time. (A rule that breaks at the second turn of a site breaks soonest where
there are two.)"""
SOUND_SECONDS = 20.0
"""For a search of what is not broken, which must find nothing."""
MESSAGES = 2
NOT_FAST = "not campaign and not mutants and not spark and not own_process"


class Given(MetaPathFinder, Loader):
    """Gives one module from code instead of from its file."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        self._name, self._path, self._code = name, path, code

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        """Only that one."""
        if fullname != self._name:
            return None
        spec = ModuleSpec(fullname, self, origin=self._path, is_package=self._path.endswith("__init__.py"))
        spec.has_location = True
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Run the code."""
        exec(self._code, module.__dict__)


def give(module: Module, code: CodeType) -> None:
    """From here on that is the module, for everybody in this process."""
    if any(name.startswith("ordercast.protocols") for name in sys.modules):
        raise RuntimeError("a protocol is imported already: the mutant would not be the one that runs")
    sys.meta_path.insert(0, Given(module.import_name, str(module.path), code))


def try_mutant(
    module: Module,
    mutant: Mutant | None,
    plan: Plan,
    budget_seconds: float,
    hint: str | None,
    left_out: frozenset[str] = frozenset(),
) -> str | None:
    """What has noticed the mutant, `stage: detail`; None when nothing has. Without a mutant: the module as it is.

    `hint` is what noticed it when the module was another; it is asked first. Runs that are left out say nothing.
    """
    give(module, module.compile(mutant))
    for noticed in _stages(plan, budget_seconds, hint, left_out):
        if noticed is not None:
            return noticed
    return None


def _stages(plan: Plan, budget_seconds: float, hint: str | None, left_out: frozenset[str]) -> Iterator[str | None]:
    stage, _, detail = (hint or "").partition(": ")
    if stage == "test" and str(PROJECT / detail.split("::")[0]) in plan.test_files():
        yield run_tests((str(PROJECT / detail),))
    # One file after the other: most are noticed by the first, which is there before the others are imported.
    for file in plan.test_files():
        yield run_tests((file,))
    first = detail if stage == "campaign" else ""
    yield from guarded("campaign", run_campaigns(plan.campaigns, budget_seconds, left_out, first))
    yield from guarded("search", search(plan.worlds, budget_seconds, left_out))


def guarded(stage: str, results: Iterator[str | None]) -> Iterator[str | None]:
    """An exception outside of a run, at an import or a draw, is noticed as well."""
    try:
        yield from results
    except Exception as error:
        yield f"{stage}: {type(error).__name__}"


def run_tests(files: tuple[str, ...]) -> str | None:
    import pytest

    class FirstFailure:
        name: str | None = None

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed:
                self.name = self.name or report.nodeid

        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                self.name = self.name or report.nodeid

    first = FirstFailure()
    options = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", "-m", NOT_FAST]
    code = pytest.main([*options, *files], plugins=[first])
    # A test that is no longer there, of a hint, has noticed nothing.
    return f"test: {first.name}" if code in (1, 2) and first.name else None


def is_passed(run: str, campaigns: Iterable[str]) -> bool:
    """Whether the protocols as they are pass a run, `protocol:seed` or `protocol:seed:schedule`, or the search of a
    world."""
    from ordercast.campaign import run_draw

    if "/" in run:
        return _search_one(run, SOUND_SECONDS) is None
    draw = _find_draw(run, _find_protocols(campaigns))
    return draw is None or not run_draw(draw).outcome.violations


def _find_draw(run: str, protocols: dict[str, Any]) -> Any:
    """The run of that name; None when it is of another protocol."""
    from ordercast.campaign import Draw

    name, *rest = run.split(":")
    return Draw(protocols[name], int(rest[0]), schedule="".join(rest[1:])) if name in protocols else None


def _find_protocols(names: Iterable[str]) -> dict[str, Any]:
    """Protocols, and cores of the tests as `module:class`, by the names of their contracts."""
    from ordercast.protocols import find_protocol

    protocols: dict[str, Any] = {}
    for name in names:
        if ":" in name:
            module, _, kind = name.partition(":")
            protocol = getattr(import_module(module), kind)
            protocols[protocol.contract.name] = protocol
        else:
            protocols[name] = find_protocol(name)
    return protocols


def run_campaigns(
    names: tuple[str, ...], budget_seconds: float, left_out: frozenset[str] = frozenset(), first: str = ""
) -> Iterator[str | None]:
    from ordercast.campaign import run_draw

    protocols = _find_protocols(names)
    known = _find_draw(first.split(" ")[0], protocols)
    began = time.process_time()
    for draw in (*([known] if known else ()), *_draws(protocols.values())):
        if str(draw) in left_out:
            continue
        outcome = run_draw(draw).outcome
        if outcome.violations:
            yield f"campaign: {draw} {outcome.violations[0].property}"
        if time.process_time() - began > budget_seconds:
            return


def _draws(protocols: Iterable[Any]) -> Iterator[Any]:
    """The swarm, and of every second seed a run with a schedule that looks for trouble as well."""
    from ordercast.campaign import Draw
    from ordercast.campaign.schedules import choose_schedule

    for seed in range(SEEDS_MAX):
        for protocol in protocols:
            yield Draw(protocol, seed)
            schedule = choose_schedule(protocol, seed) if seed % 2 else ""
            if schedule:
                yield Draw(protocol, seed, schedule=schedule)


def search(
    worlds: tuple[str, ...], budget_seconds: float, left_out: frozenset[str] = frozenset()
) -> Iterator[str | None]:
    from ordercast.explore.quorums import check_quorums

    if worlds:
        _, problem = check_quorums(3)
        yield problem and f"search: quorum {problem}"
    for name in worlds:
        for (sites, checkpoint), (_, share) in SMALL.items():
            run = f"{name}/{sites}/{checkpoint}"
            if run not in left_out:
                problem = _search_one(run, share * budget_seconds / len(worlds))
                yield problem and f"search: {run} {problem}"


def _search_one(run: str, seconds: float) -> str | None:
    """What is wrong in a world that is named `world/sites/checkpoint`."""
    import msgspec

    from ordercast.explore.search import Search
    from ordercast.explore.worlds import find_world

    name, *numbers = run.split("/")
    sites, checkpoint = map(int, numbers)
    times, _ = SMALL[sites, checkpoint]
    world = find_world(name, sites, MESSAGES, checkpoint)
    limits = msgspec.structs.replace(
        world.limits, seconds=seconds, crashes=times * world.limits.crashes, timers=times * world.limits.timers
    )
    return Search(msgspec.structs.replace(world, limits=limits)).run().problem
