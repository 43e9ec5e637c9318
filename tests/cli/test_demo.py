"""`ordercast demo`: the bank whose books must agree, and a protocol under which they need not."""

import json

import pytest

from ordercast.chaos.bank import Ledger
from ordercast.cli import main
from ordercast.cli.demo.simulated import bank_scenario, run_bank


@pytest.mark.parametrize("protocol", ["three-step", "sequencer"])
@pytest.mark.parametrize("seed", range(1, 9))
def test_the_books_agree(protocol: str, seed: int) -> None:
    outcome = run_bank(bank_scenario(protocol, seed))
    assert outcome.fine
    assert outcome.ledgers["main-1"].balances == outcome.ledgers["main-2"].balances
    assert outcome.ledgers["main-1"].balances == outcome.ledgers["main-3"].balances
    assert outcome.ledgers["main-2"].applied == outcome.orders
    assert outcome.simulation.fault_counts["crash"] == 1
    assert outcome.simulation.fault_counts["loss"] > 20
    # Orders were refused and rates changed: the balances do depend on the order.
    assert outcome.ledgers["main-1"].refused > 0
    assert outcome.ledgers["branch-1"].applied > 0


@pytest.mark.parametrize(("protocol", "waits"), [("three-step", False), ("sequencer", True)])
def test_the_bank_waits_for_the_one_that_orders_or_goes_on_without_it(protocol: str, waits: bool) -> None:
    outcome = run_bank(bank_scenario(protocol, 1))
    while_down = [outcome.applied_per_second["main-2"][second] for second in (4, 5)]
    assert (max(while_down) == 0) is waits
    assert outcome.applied_per_second["main-1"][4] == 0


def test_without_a_total_order_the_books_differ_though_every_promise_is_kept() -> None:
    outcome = run_bank(bank_scenario("fan-3", 1))
    assert outcome.complete
    assert not outcome.books_agree
    assert {verdict.verdict for verdict in outcome.verdicts.values() if verdict.claimed} == {"holds"}


def test_people_see_the_crash_the_diagram_the_books_and_the_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--simulated"]) == 0
    output, errors = capsys.readouterr()
    assert errors == ""
    for words in (
        "main-1 crashes",
        "F fails",
        "R recovered",
        "▶D branch-",
        "equal",
        "multiple-group-order",
        "The books agree, no order is missing, and every claim holds.",
    ):
        assert words in output
    assert "differ" not in output
    assert "violated" not in output


def test_machines_get_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--simulated", "--json", "--seed", "3"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["books_agree"] is document["rates_agree"] is document["complete"] is True
    assert document["balances"]["main-1"] == document["balances"]["main-2"] == document["balances"]["main-3"]
    assert document["violated_claims"] == 0
    assert document["seed"] == 3


def test_a_disagreement_is_exit_code_1_and_says_whose_fault_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--simulated", "--protocol", "fan-3"]) == 1
    assert "fan-3 promises no more; a bank needs multiple-group-order" in " ".join(capsys.readouterr().out.split())
    assert main(["demo", "--simulated", "--protocol", "fan-1"]) == 1
    assert "fan-1 does not tolerate the fault loss" in " ".join(capsys.readouterr().out.split())


def test_an_unknown_protocol_is_misuse(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--simulated", "--protocol", "sequencr"]) == 2
    assert "did you mean 'sequencer'?" in capsys.readouterr().err


# ---------------------------------------------------------------------- the ledger
def test_what_an_order_does_depends_on_its_place() -> None:
    ledger = Ledger()
    for order in (
        "withdraw ada 50",
        "deposit ada 100",
        "withdraw ada 60",
        "transfer ada ben 60",
        "rate 200",
        "interest",
    ):
        ledger.apply(order)
    assert (ledger.balances["ada"], ledger.balances["ben"]) == (40, 0)
    assert (ledger.applied, ledger.refused, ledger.rate) == (6, 2, 200)
    ledger.apply("deposit ben 10000")
    ledger.apply("interest")
    assert ledger.balances["ben"] == 10200


def test_an_order_that_is_none_is_a_bug_and_no_silence() -> None:
    with pytest.raises(ValueError, match="no such order"):
        Ledger().apply("rob ada 100")
