"""What the documents say of the protocols is what the protocols say of themselves."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ordercast.core import Protocol
from ordercast.node.bundles import BUNDLE_BYTES_MAX
from ordercast.node.tuning import live_options
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


KEPT: dict[str, Callable[[Any], int]] = {
    "fan-2": lambda options: min(options.log_messages_max * BUNDLE_BYTES_MAX, options.log_bytes_max),
    "fan-3": lambda options: min(options.log_messages_max * BUNDLE_BYTES_MAX, options.log_bytes_max),
    "tree-5": lambda options: min(options.log_messages_max * BUNDLE_BYTES_MAX, options.log_bytes_max),
    "sequencer": lambda options: min(options.history_messages_max * BUNDLE_BYTES_MAX, options.history_bytes_max),
    "two-phase": lambda options: min(options.window_messages * BUNDLE_BYTES_MAX, options.window_bytes_max),
    "lamport": lambda options: min(options.window_messages * BUNDLE_BYTES_MAX, options.window_bytes_max),
    "propagation-graph": lambda options: min(
        options.history_messages_max * BUNDLE_BYTES_MAX, options.history_bytes_max
    ),
    "broadcast-tree": lambda options: min(options.kept_messages_max * BUNDLE_BYTES_MAX, options.kept_bytes_max),
    "intergroup": lambda options: min(
        options.outstanding_messages_max * BUNDLE_BYTES_MAX, options.outstanding_bytes_max
    ),
    "selective-total": lambda options: min(
        options.window_messages * BUNDLE_BYTES_MAX, options.buffer_bytes_max // (4 * options.buffer_share)
    ),
}
"""The bytes that fill up while a member is away, from the options of a live node; of bundles that are full."""


def milliseconds(kept_bytes: int, bytes_a_second: int) -> str:
    spent = 1000 * kept_bytes / bytes_a_second
    return f"{spent:.0f} ms" if spent >= 10 else f"{spent:.1f} ms"


def test_the_table_of_members_that_are_away_is_computed_from_the_bounds_of_a_live_node() -> None:
    table = re.search(r"^\| while a member .*\n\| --- .*\n((?:\|.*\n)+)", text_of("README.md"), re.MULTILINE)
    assert table is not None
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()]
    assert [name for row in rows for name in re.findall(r"`([\w-]+)`", row[0])] == list(PROTOCOLS)
    for name, kept in KEPT.items():
        (row,) = (row for row in rows if f"`{name}`" in row[0])
        options = live_options(PROTOCOLS[name], {}, 8 << 20, 64 << 20, 4)
        kept_bytes = kept(options)
        assert row[2].split(" ")[0] == f"{kept_bytes:,}"
        assert row[4:] == [milliseconds(kept_bytes, 100 * 3_000_000), milliseconds(kept_bytes, 10_000 * 20_000)]
        for option in re.findall(r"`(\w+)`", row[3]):
            assert hasattr(options, option)


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
    blocks = re.findall(r"\((blocks/\w+\.md)\)", text_of("docs/blocks.md"))
    assert {f"blocks/{page.name}" for page in (PROJECT / "docs" / "blocks").glob("*.md")} == set(blocks)


def test_the_tests_that_the_page_on_threats_names_are_there() -> None:
    named = re.findall(r"`(\w+/test_\w+\.py)`(?:: ((?:`test_\w+`(?:, )?)+))?", text_of("docs/threats.md"))
    assert len(named) > 15
    for file, tests in named:
        text = text_of(f"tests/{file}")
        for test in re.findall(r"`(test_\w+)`", tests):
            assert f"def {test}(" in text, f"{file}: {test}"
