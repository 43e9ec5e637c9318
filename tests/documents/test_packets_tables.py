"""Each protocol's README names the packets that its class has, all of them and no others."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from pathlib import Path

import pytest

from ordercast.protocols import PROTOCOL_NAMES, find_protocol

ROW = re.compile(r"^\| ((?:`\w+`,? )+)\|", re.MULTILINE)


def packets_by_folder() -> dict[Path, set[str]]:
    """Folder -> the packets of the protocols that live there."""
    found: defaultdict[Path, set[str]] = defaultdict(set)
    for name in PROTOCOL_NAMES:
        protocol = find_protocol(name)
        folder = Path(inspect.getfile(protocol)).parent
        found[folder] |= {packet.__name__ for packet in protocol.packets}
    return found


def table_of_packets(readme: str) -> str:
    """The section whose table begins with the word."""
    begin = readme.index("| packet |")
    return readme[begin : readme.find("\n\n", begin)]


@pytest.mark.parametrize(
    ("folder", "packets"), packets_by_folder().items(), ids=lambda value: getattr(value, "name", "")
)
def test_the_readme_names_every_packet(folder: Path, packets: set[str]) -> None:
    table = table_of_packets((folder / "README.md").read_text(encoding="utf-8"))
    named = [name for row in ROW.findall(table) for name in re.findall(r"\w+", row)]
    assert sorted(named) == sorted(packets)
