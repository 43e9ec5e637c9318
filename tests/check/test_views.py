"""Virtual synchrony and self-inclusion."""

import pytest

from tests.check.build import outcome, verdict_of

SYNC = "virtual-synchrony"


def two_sites(of_a: str, of_b: str) -> str:
    """Both install v, deliver these messages (m/s: with service s), and install w."""
    rows = []
    for site, words in (("a", of_a), ("b", of_b)):
        rows.append(f"{site} view v members=a,b")
        for word in words.split():
            message, _, service = word.partition("/")
            rows.append(f"{site} deliver {message}" + (f" service={service}" if service else ""))
        rows.append(f"{site} view w members=a,b")
    return "\n".join(rows)


def test_the_same_messages_in_one_view_hold_in_whatever_order() -> None:
    assert outcome(SYNC, two_sites("m n", "n m")) == "holds"


def test_different_messages_in_one_view_violate() -> None:
    verdict = verdict_of(SYNC, two_sites("m n", "m"))
    assert verdict.verdict == "violated"
    assert verdict.witnesses == 1
    assert verdict.first is not None
    assert (verdict.first.sites, verdict.first.messages) == (("a", "b"), ("n",))
    assert verdict.first.why == "a delivers n in view v (service: none), b does not, and both install w after it"


def test_a_message_in_the_next_view_came_too_late() -> None:
    assert outcome(SYNC, two_sites("m n", "m") + "\nb deliver n") == "violated"


@pytest.mark.parametrize(
    "rows",
    [
        "",
        two_sites("", ""),
        "a view v members=a,b\na deliver m\nb view v members=a,b\nb view w members=b",  # a has not gone on
        two_sites("m", "m").replace("b view w", "b view u"),  # they went apart
        two_sites("m", "n").replace("b view w", "b view u members=b\nb view w"),  # not in a row
    ],
)
def test_without_two_sites_that_went_on_together_it_is_vacuous(rows: str) -> None:
    assert outcome(SYNC, rows) == "vacuous"


def test_each_service_is_compared_by_itself() -> None:
    assert outcome(SYNC, two_sites("m/x n/y", "m/x n/y")) == "holds"
    assert outcome(SYNC, two_sites("m/x n/y", "m/y n/x")) == "violated"


def test_a_service_that_only_one_of_the_two_uses_is_not_compared() -> None:
    assert outcome(SYNC, two_sites("m/x", "")) == "vacuous"
    assert outcome(SYNC, two_sites("m/x", "") + "\nb deliver n service=x") == "violated"
    assert outcome(SYNC, two_sites("m/x", "") + "\nb activate x") == "violated"


def test_what_was_delivered_before_an_activation_does_not_count() -> None:
    begin = "a view v members=a,b\nb view v members=a,b\n"
    end = "a view w members=a,b\nb view w members=a,b\n"
    # b has m by another service, and never got k.
    before = begin + "a deliver k service=x\na deliver m service=x\nb deliver m service=y\nb activate x\n"
    assert outcome(SYNC, before + end) == "vacuous"
    assert outcome(SYNC, before + "a deliver n service=x\nb deliver n service=x\n" + end) == "holds"
    verdict = verdict_of(SYNC, before + "a deliver n service=x\n" + end)
    assert [witness.messages for witness in verdict.all_witnesses] == [("n",)]


SELF = "self-inclusion"


def test_a_sender_in_its_own_view_holds() -> None:
    assert outcome(SELF, "a view v members=a,b\na multicast m g") == "holds"


def test_a_sender_outside_its_own_view_violates() -> None:
    verdict = verdict_of(SELF, "a view v members=b\na multicast m g")
    assert verdict.verdict == "violated"
    assert verdict.first is not None
    assert verdict.first.sites == ("a",)
    assert verdict.first.why == "a multicasts in the view v, of which it is no member"


@pytest.mark.parametrize(
    "rows",
    [
        "",
        "a view v members=b",
        "a multicast m g\na view v members=b",
        "a view v members=b\nb multicast m g",
    ],
)
def test_a_view_in_which_nothing_is_sent_is_no_obligation(rows: str) -> None:
    assert outcome(SELF, rows) == "vacuous"


def test_only_the_latest_view_counts() -> None:
    assert outcome(SELF, "a view v members=b\na view w members=a\na multicast m g") == "holds"
