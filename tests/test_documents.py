"""What the documents say of the protocols is what the protocols say of themselves."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ordercast.core import Protocol
from ordercast.protocols import PROTOCOL_NAMES, find_protocol

PROJECT = Path(__file__).parents[1]
PROTOCOLS = {name: find_protocol(name) for name in PROTOCOL_NAMES}


def text_of(name: str) -> str:
    return (PROJECT / name).read_text(encoding="utf-8")


def test_the_table_of_guarantees_is_that_of_the_protocols() -> None:
    rows = "\n".join(
        f"| `{name}` | {protocol.arrangement.order} | {protocol.arrangement.crash} |"
        for name, protocol in PROTOCOLS.items()
    )
    table = re.search(r"^\| protocol \|.*\n\| --- .*\n((?:\|.*\n)+)", text_of("README.md"), re.MULTILINE)
    assert table is not None
    assert table[1].strip() == rows, f"\nthe table in README.md should be:\n{rows}"


def is_made_for_other_networks(protocol: type[Protocol]) -> bool:
    return protocol.arrangement.campaign.networks is not None


LISTS: list[tuple[str, str, Callable[[type[Protocol]], bool]]] = [
    ("docs/campaigns.md", r"^- a network: .*", is_made_for_other_networks),
    (
        "docs/campaigns.md",
        r"^- two to six sites .*",
        lambda protocol: protocol.arrangement.campaign.sites_max is not None,
    ),
    (
        "docs/campaigns.md",
        r"minority_may_die` in the contract: .*?\)",
        lambda protocol: protocol.contract.minority_may_die,
    ),
    ("docs/chaos.md", r"For a protocol that needs one channel .*?\)", lambda protocol: protocol.contract.one_channel),
    ("docs/chaos.md", r"^message crossed .*", lambda protocol: bool(protocol.arrangement.clusters(1.0))),
    (
        "docs/configuration.md",
        r"for protocols that need one channel .*?\)",
        lambda protocol: protocol.contract.one_channel,
    ),
]


@pytest.mark.parametrize(("document", "sentence", "belongs"), LISTS)
def test_a_sentence_that_names_protocols_names_those_of_which_it_is_true(
    document: str, sentence: str, belongs: Callable[[type[Protocol]], bool]
) -> None:
    found = re.search(sentence, text_of(document), re.MULTILINE)
    assert found is not None, f"{document} no longer has that sentence"
    named = {name for name in PROTOCOLS if f"`{name}`" in found[0]}
    assert named == {name for name, protocol in PROTOCOLS.items() if belongs(protocol)}


def test_every_page_can_be_reached_from_the_readme() -> None:
    linked = re.findall(r"\((docs/[\w-]+\.md)\)", text_of("README.md"))
    assert {f"docs/{page.name}" for page in (PROJECT / "docs").glob("*.md")} <= set(linked)


def test_the_tests_that_the_page_on_threats_names_are_there() -> None:
    named = re.findall(r"`(\w+/test_\w+\.py)`(?:: ((?:`test_\w+`(?:, )?)+))?", text_of("docs/threats.md"))
    assert len(named) > 15
    for file, tests in named:
        text = text_of(f"tests/{file}")
        for test in re.findall(r"`(test_\w+)`", tests):
            assert f"def {test}(" in text, f"{file}: {test}"
