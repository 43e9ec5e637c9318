"""Pairwise order and source order."""

import pytest

from ordercast.check import WITNESSES_MAX
from tests.check.build import outcome, verdict_of

PAIRWISE = ("single-source-order", "multiple-source-order", "multiple-group-order", "order-equivalence")
SAME = "a multicast m g\na multicast n g\n"


@pytest.mark.parametrize("name", PAIRWISE)
def test_two_sites_with_the_same_order_hold(name: str) -> None:
    assert outcome(name, SAME + "b deliver m\nb deliver n\nc deliver m\nc deliver n") == "holds"


@pytest.mark.parametrize("name", PAIRWISE)
def test_two_sites_with_swapped_messages_violate(name: str) -> None:
    verdict = verdict_of(name, SAME + "b deliver m\nb deliver n\nc deliver n\nc deliver m")
    assert verdict.verdict == "violated"
    assert verdict.witnesses == 1
    assert verdict.first is not None
    assert (verdict.first.sites, verdict.first.messages) == (("b", "c"), ("m", "n"))
    assert verdict.first.why == "b delivers m before n, c delivers n before m"


@pytest.mark.parametrize("name", PAIRWISE)
@pytest.mark.parametrize("rows", ["", "b deliver m\nb deliver n\nc deliver m", "b deliver m\nc deliver m"])
def test_without_two_common_messages_order_is_vacuous(name: str, rows: str) -> None:
    assert outcome(name, SAME + rows) == "vacuous"


def test_swapped_messages_of_different_groups_concern_multiple_group_order_only() -> None:
    rows = "a multicast m g\na multicast n h\nb deliver m\nb deliver n\nc deliver n\nc deliver m"
    groups = "g:b,c h:b,c"
    assert outcome("multiple-group-order", rows, groups) == "violated"
    assert outcome("multiple-source-order", rows, groups) == "vacuous"
    assert outcome("single-source-order", rows, groups) == "vacuous"


def test_swapped_messages_of_different_sources_do_not_concern_single_source_order() -> None:
    rows = "a multicast m g\nb multicast n g\nb deliver m\nb deliver n\nc deliver n\nc deliver m"
    assert outcome("multiple-source-order", rows) == "violated"
    assert outcome("single-source-order", rows) == "vacuous"


def test_an_address_is_a_set_of_groups() -> None:
    rows = "a multicast m g,h\na multicast n h,g\nb deliver m\nb deliver n\nc deliver n\nc deliver m"
    assert outcome("single-source-order", rows) == "violated"


def test_destinations_of_the_name_of_a_group_are_another_address() -> None:
    rows = "a multicast m b\na multicast n destinations=b\nb deliver m\nb deliver n\nc deliver n\nc deliver m"
    assert outcome("multiple-source-order", rows, "b:b,c") == "vacuous"


def test_a_related_pair_is_found_between_unrelated_messages() -> None:
    rows = """
    a multicast m g
    a multicast x h
    b multicast n g
    b deliver m
    b deliver x
    b deliver n
    c deliver n
    c deliver x
    c deliver m
    """
    verdict = verdict_of("multiple-source-order", rows, "g:b,c h:b,c")
    assert verdict.first is not None
    assert verdict.first.messages == ("m", "n")
    assert verdict.witnesses == 1
    assert verdict_of("multiple-group-order", rows, "g:b,c h:b,c").witnesses == 3


def test_the_order_of_unknown_messages_counts_too() -> None:
    rows = "b deliver m\nb deliver n\nc deliver n\nc deliver m"
    assert outcome("multiple-group-order", rows) == "violated"
    assert outcome("single-source-order", rows) == "vacuous"


def test_only_first_deliveries_count() -> None:
    rows = "b deliver m\nb deliver n\nb deliver m\nc deliver m\nc deliver n"
    assert outcome("multiple-group-order", SAME + rows) == "holds"


def test_witnesses_are_counted_up_to_the_limit() -> None:
    names = [f"m{number:03d}" for number in range(100)]
    rows = "\n".join([f"b deliver {name}" for name in names] + [f"c deliver {name}" for name in reversed(names)])
    verdict = verdict_of("multiple-group-order", rows)
    assert verdict.witnesses == len(verdict.all_witnesses) == WITNESSES_MAX


def test_many_sites_are_judged_as_few_are() -> None:
    sites = [f"s{number:02d}" for number in range(60)]
    rows = SAME + "\n".join(f"{site} deliver m\n{site} deliver n" for site in sites)
    groups = "g:" + ",".join([*sites, "t"])
    assert outcome("multiple-source-order", rows, groups) == "holds"
    assert (
        outcome("multiple-source-order", SAME + "\n".join(f"{site} deliver m" for site in sites), groups) == "vacuous"
    )
    assert verdict_of("multiple-source-order", rows + "\nt deliver n\nt deliver m", groups).witnesses == 60


def test_delivery_in_sending_order_holds() -> None:
    assert outcome("source-order", SAME + "b deliver m\nb deliver n") == "holds"


def test_delivery_against_the_sending_order_violates() -> None:
    verdict = verdict_of("source-order", SAME + "b deliver n\nb deliver m")
    assert verdict.verdict == "violated"
    assert verdict.first is not None
    assert (verdict.first.sites, verdict.first.messages) == (("b", "a"), ("n", "m"))


@pytest.mark.parametrize("rows", ["b deliver m\nc deliver n", "b deliver m", ""])
def test_source_order_needs_two_messages_of_a_source_at_a_site(rows: str) -> None:
    assert outcome("source-order", SAME + rows) == "vacuous"


def test_source_order_ignores_what_other_sources_sent_between() -> None:
    rows = "a multicast m g\nb multicast x g\na multicast n g\nc deliver m\nc deliver n\nc deliver x"
    assert outcome("source-order", rows) == "holds"


@pytest.mark.parametrize("sites", [255, 256, 257])
def test_source_order_is_judged_at_the_last_of_many_sites(sites: int) -> None:
    """Where the numbers by which deliveries are sorted grow beyond sixteen bits."""
    names = [f"s{number:03d}" for number in range(sites)]
    last = names[-1]
    rows = f"{last} multicast m g\n{last} multicast n g\n"
    rows += "".join(f"{name} deliver m\n{name} deliver n\n" for name in names[:-1])
    verdict = verdict_of("source-order", f"{rows}{last} deliver n\n{last} deliver m", groups=f"g:{','.join(names)}")
    assert [witness.sites for witness in verdict.all_witnesses] == [(last, last)]


def test_group_source_order_is_the_sending_order_of_one_source_to_one_address() -> None:
    sent = "a multicast m g\na multicast n {}\nb deliver n\nb deliver m"
    assert outcome("group-source-order", sent.format("g")) == "violated"
    assert outcome("group-source-order", sent.format("g,h")) == "vacuous"
    assert outcome("group-source-order", sent.format("g").replace("a multicast n", "c multicast n")) == "vacuous"
    assert outcome("group-source-order", "a multicast m g\na multicast n g\nb deliver m\nb deliver n") == "holds"
    # All sites agree, so that single-source-order holds.
    agreed = sent.format("g") + "\nc deliver n\nc deliver m"
    assert outcome("single-source-order", agreed) == "holds"
    verdict = verdict_of("group-source-order", agreed)
    assert verdict.witnesses == 2
    assert verdict.first is not None
    assert verdict.first.why == "b delivers n before m, but a multicast m first"
