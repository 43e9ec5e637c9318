"""Properties that hold for the deliveries of one service, or from an activation on."""

import pytest

from ordercast.core.errors import UsageError
from tests.check.build import outcome, verdict_of

TWICE = "a multicast m g\nb deliver m service=unreliable\nb deliver m service=unreliable\nc deliver m service=total"


def test_a_property_of_a_service_counts_only_deliveries_with_it() -> None:
    assert outcome("no-duplication", TWICE) == "violated"
    assert outcome("no-duplication", TWICE, services={"total": ["no-duplication"]}) == "holds"
    assert outcome("no-duplication", TWICE, services={"unreliable": ["no-duplication"]}) == "violated"
    assert outcome("no-duplication", TWICE, services={"total": ["integrity"]}) == "violated"
    assert outcome("no-duplication", TWICE, services={"other": ["no-duplication"]}) == "vacuous"


def test_several_services_may_promise_one_property() -> None:
    services = {"total": ["multiple-group-order"], "source": ["multiple-group-order"], "unreliable": []}
    rows = "a multicast m g\na multicast n g\nb deliver m service=total\nb deliver n service=total\n"
    for service, expected in (("source", "violated"), ("total", "violated"), ("unreliable", "vacuous")):
        other = f"c deliver n service={service}\nc deliver m service={service}"
        assert outcome("multiple-group-order", rows + other, services=services) == expected


def test_an_unknown_property_of_a_service_is_refused() -> None:
    with pytest.raises(UsageError, match=r"run 'run' claims for the service 'total' .*'integrty'.*'integrity'"):
        outcome("integrity", TWICE, services={"total": ["integrty"]})


@pytest.mark.parametrize("name", ["termination", "uniform-agreement", "agreement", "view-termination"])
def test_nothing_is_owed_to_a_site_without_the_service(name: str) -> None:
    rows = "{}a multicast m g\nb deliver m service=total"
    services = {"total": [name]}
    assert outcome(name, rows.format(""), services=services) == "vacuous"
    assert outcome(name, rows.format("c activate total\n"), services=services) == "violated"
    assert outcome(name, rows.format("c activate total groups=g source=a\n"), services=services) == "violated"
    for missing in ("c activate total groups=h\n", "c activate total source=b\n", "c activate loose\n"):
        assert outcome(name, rows.format(missing), services=services) == "vacuous"
    # Chosen too late, or chosen again since.
    assert outcome(name, rows.format("") + "\nc activate total", services=services) == "vacuous"
    assert outcome(name, rows.format("c activate total\n") + "\nc activate total", services=services) == "vacuous"
    assert outcome(name, rows.format("c activate total\nc activate loose\n"), services=services) == "vacuous"


REORDERED = "a multicast m g\na multicast n g\nb deliver n\n{}b deliver m"


@pytest.mark.parametrize("name", ["source-order", "causal-order"])
def test_order_begins_anew_at_an_activation(name: str) -> None:
    assert outcome(name, REORDERED.format("")) == "violated"
    for activation in ("b activate x", "b activate x groups=g", "b activate x source=a"):
        assert outcome(name, REORDERED.format(activation + "\n")) == "vacuous"
    for activation in ("c activate x", "b activate x groups=h", "b activate x source=c"):
        assert outcome(name, REORDERED.format(activation + "\n")) == "violated"
    assert outcome(name, "b activate x\n" + REORDERED.format("")) == "violated"


def test_timestamp_order_begins_anew_at_an_activation_of_either_site_and_source() -> None:
    sent = "a multicast m g\nd multicast n g\nb deliver m\n{}b deliver n\nc deliver n\n{}c deliver m"
    assert outcome("timestamp-order", sent.format("", "")) == "violated"
    for source in ("a", "d"):
        assert outcome("timestamp-order", sent.format(f"b activate x source={source}\n", "")) == "vacuous"
        assert outcome("timestamp-order", sent.format("", f"c activate x source={source}\n")) == "vacuous"
    assert outcome("timestamp-order", sent.format("b activate x source=b\n", "")) == "violated"


def test_a_gap_across_an_activation_is_none() -> None:
    sent = "a multicast k g\na multicast m g\na multicast n g\nb deliver k\n{}b deliver n"
    assert outcome("reliable-source-order", sent.format("")) == "violated"
    assert outcome("reliable-timestamp-order", sent.format("")) == "violated"
    for name in ("reliable-source-order", "reliable-timestamp-order"):
        assert outcome(name, sent.format("b activate x\n")) == "vacuous"
        assert outcome(name, sent.format("b activate x source=c\n")) == "violated"


ACROSS = "a multicast m g\na multicast n h\nb deliver n\nb deliver m"


@pytest.mark.parametrize("name", ["source-order", "causal-order", "timestamp-order"])
def test_the_properties_of_intergroup_end_at_the_border_of_a_group_unless_one_order_is_claimed(name: str) -> None:
    groups = "g:b h:b"
    assert outcome(name, ACROSS, groups) == "vacuous"
    assert outcome(name, ACROSS, groups, guarantees=("multiple-group-order",)) == "violated"
    assert outcome(name, ACROSS.replace(" n h", " n g,h"), groups) == "violated"
    # Explicit destinations are no group that could have a border.
    assert outcome(name, ACROSS.replace(" n h", " n destinations=b"), groups) == "violated"


def test_a_hole_in_another_group_is_none() -> None:
    sent = "a multicast k g\na multicast m {}\na multicast n g\nb deliver k\nb deliver n"
    for name in ("reliable-source-order", "reliable-timestamp-order"):
        assert outcome(name, sent.format("g"), "g:b h:b") == "violated"
        assert outcome(name, sent.format("h"), "g:b h:b") == "holds"
        assert outcome(name, sent.format("h"), "g:b h:b", guarantees=("multiple-group-order",)) == "violated"


def test_a_source_must_stay_in_the_views_of_that_group() -> None:
    rows = "a multicast k g\na multicast m g\na multicast n g\nb deliver k\nb view v members=b groups={}\nb deliver n"
    for name in ("reliable-source-order", "reliable-timestamp-order"):
        assert outcome(name, rows.format("g"), "g:b h:b") == "vacuous"
        assert outcome(name, rows.format("h"), "g:b h:b") == "violated"


STAYS = "view-termination"


def test_what_a_source_that_stays_in_the_views_multicasts_is_delivered() -> None:
    rows = "b view v members=a,b groups=g\na multicast m g\n{}\na deliver m\nc deliver m"
    assert outcome(STAYS, rows.format("b deliver m")) == "holds"
    verdict = verdict_of(STAYS, rows.format(""))
    assert verdict.verdict == "violated"
    assert verdict.first is not None
    assert (verdict.first.sites, verdict.first.messages) == (("b",), ("m",))
    assert outcome(STAYS, rows.format("b view w members=b groups=g")) == "holds"
    assert outcome(STAYS, rows.format("b view w members=b groups=h")) == "violated"
    assert outcome(STAYS, rows.format("b view w members=b")) == "holds"
    assert outcome(STAYS, rows.format("b leave g")) == "holds"
    assert outcome(STAYS, rows.format("b activate x")) == "holds"
    assert outcome(STAYS, rows.format("a fail")) == "vacuous"
    assert outcome(STAYS, rows.format(""), settled=False) == "not-judged"
