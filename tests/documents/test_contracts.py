"""docs/contracts.md: what papers promise and what contracts claim, held to both."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from ordercast.check import PROPERTIES
from ordercast.check.registry import JUDGES
from ordercast.protocols import PROTOCOL_NAMES, find_protocol
from tests.mutants.registry import MUTANTS
from tests.mutants.test_membership import VIOLATES
from tests.naive import CHECKERS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "contracts.md").read_text(encoding="utf-8")
SECTIONS = {part.split("\n", 1)[0].strip(" `"): part for part in TEXT.split("\n## ")[1:]}
EVERY = "Every property"
PROMISE_NOTHING = {"P0", "Q0", "R0"}

for path in sorted((ROOT / "tests" / "mutants").glob("[a-z]*.py")):
    if not path.stem.startswith("test_") and path.stem != "conftest":
        import_module(f"tests.mutants.{path.stem}")


def table(section: str) -> list[list[str]]:
    """The rows of a section's table, without its head."""
    lines = [line for line in SECTIONS[section].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_every_protocol_has_its_section() -> None:
    assert set(SECTIONS) == {*PROTOCOL_NAMES, EVERY}


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_the_page_names_what_the_contract_claims_and_nothing_else(name: str) -> None:
    claimed = [each for row in table(name) for each in code(row[2])]
    assert len(claimed) == len(set(claimed))
    assert set(claimed) == set(find_protocol(name).contract.guarantees)


@pytest.mark.parametrize("name", PROTOCOL_NAMES)
def test_every_row_says_whence_why_and_by_what_it_is_shown(name: str) -> None:
    for paper, promises, _, why, shown in table(name):
        assert paper
        assert promises or paper == "own"
        assert why
        (file,) = code(shown)
        assert (ROOT / file).is_file(), file


def test_every_property_has_a_judge_a_naive_twin_and_a_source() -> None:
    rows = table(EVERY)
    assert [code(row[0])[0] for row in rows] == list(PROPERTIES)
    for property_, source, _ in rows:
        name = code(property_)[0]
        assert name in JUDGES
        assert name in CHECKERS or name in PROMISE_NOTHING
        assert source


def test_the_page_of_properties_defines_every_property_that_has_a_judge_and_no_other() -> None:
    defined: set[str] = set()
    for line in (ROOT / "docs" / "properties.md").read_text(encoding="utf-8").splitlines():
        heads = re.match(r"(?:- |\| |(?=`P0))((?:`[^`]+`(?: \([^)]*\))?,? ?(?:and )?)+)(.*)", line)
        names = code(heads[1]) if heads else []
        defined.update(names)
        if heads and "its two variants" in line:
            defined.update(f"{names[0]}-{source}" for source in ("single-source", "multiple-source"))
    assert set(JUDGES) <= defined
    assert {name for name in defined if name[0] in "PQR" and name[1:2].isdigit()} <= set(PROPERTIES)
    assert {name for name in defined if "-" in name} <= set(PROPERTIES)


def test_a_mutant_that_is_named_for_a_property_must_be_caught_by_it_and_no_mutant_is_left_out() -> None:
    caught_by: dict[str, str | None] = {**{str(mutant): mutant.caught_by for mutant in MUTANTS}, **VIOLATES}
    for property_, _, mutant in table(EVERY):
        name = code(property_)[0]
        if mutant.startswith("none"):
            assert name not in caught_by.values(), f"{name} has a mutant of its own now: name it"
        else:
            assert caught_by[code(mutant)[0]] == name
