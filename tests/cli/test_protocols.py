"""`ordercast protocols`: whole sentences, however wide the terminal."""

from __future__ import annotations

import os

import pytest

from ordercast.cli.protocols import describe, find_readme, opening, service_promises
from ordercast.protocols import find_protocols
from tests.sim.kiosk import Kiosk
from tests.support import RUN_ORDERCAST, run_ordercast, run_python

FOUND, _PROBLEMS = find_protocols()

AS_TERMINAL = "import sys; sys.stdout.isatty = lambda: True\n"


def _words(text: str) -> str:
    """Without line breaks, wherever they fall."""
    return "".join(text.split())


@pytest.mark.parametrize("name", sorted(FOUND))
def test_what_is_shown_of_a_readme_ends_with_a_sentence(name: str) -> None:
    readme = find_readme(FOUND[name])
    assert readme is not None
    shown = opening(readme.read_text(encoding="utf-8"))
    assert shown.endswith((".", "|"))  # a sentence, or a row of a table
    assert readme.read_text(encoding="utf-8").startswith(shown)


def test_the_opening_of_a_document_does_not_end_in_a_paragraph_a_heading_or_code() -> None:
    first = [f"line {number}" for number in range(14)]
    assert opening("\n".join([*first, "", "the rest"])) == "\n".join(first)
    code = ["# Title", "", "```", *[""] * 20, "```"]
    assert opening("\n".join([*code, "", "the rest"])) == "\n".join(code)
    assert opening("\n".join(["one.", *[""] * 9, "## Next", "", "", "two"])) == "one."
    assert opening("short") == "short"


@pytest.mark.parametrize("columns", [40, 80, 120, 200])
def test_nothing_is_cut_off_in_a_terminal_of_any_width(columns: int) -> None:
    environment = {**os.environ, "COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "dumb"}
    for words in (("protocols",), ("protocols", "token")):
        result = run_python(AS_TERMINAL + RUN_ORDERCAST, *words, environment=environment)
        assert result.returncode == 0
        assert "\u2026" not in result.stdout
        assert max(map(len, result.stdout.splitlines())) <= columns
    assert _words("than L sites of a list that cannot be reached block the others until they come back.") in _words(
        result.stdout
    )


def test_nothing_is_cut_off_in_a_pipe() -> None:
    for words in (("protocols",), *(("protocols", name) for name in ("token", "fan-1"))):
        assert "\u2026" not in run_ordercast(*words).stdout


def test_the_promise_of_each_service_is_told_and_one_that_promises_nothing_says_so() -> None:
    promises = service_promises(Kiosk.contract)
    assert promises["in-order"] == "source-order, view-termination"
    assert promises["as-it-comes"] == "nothing beside integrity, no-duplication"
    described = describe(Kiosk)
    assert described["services"] == {"as-it-comes": [], "in-order": ["source-order", "view-termination"]}
    assert described["roles"] == []
    assert describe(FOUND["sequencer"])["services"] == {}


@pytest.mark.parametrize("name", sorted(FOUND))
def test_what_a_service_promises_the_protocol_claims(name: str) -> None:
    """A property that a contract does not claim is judged for nobody."""
    contract = FOUND[name].contract
    assert {promise for names in contract.services.values() for promise in names} <= set(contract.guarantees)
