"""The fenced blocks of the documents, and the commands in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "src").rglob("README.md")),
)
TUTORIAL = ROOT / "docs" / "write-a-protocol.md"
LANGUAGES = ("python", "toml", "json", "console", "text", "mermaid")
"""`console` is what one types (behind a `$` where the output is shown too); `text` is drawings and formats; `mermaid`
is diagrams that readers of Markdown draw."""

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One fenced block."""

    document: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def iterate_blocks(*languages: str) -> Iterator[Block]:
    """Every block of these languages, in all documents; of any language without one. The tutorial's files and commands
    belong together, and are run by a test of their own."""
    for path in DOCUMENTS:
        if languages and path == TUTORIAL:
            continue
        text = path.read_text(encoding="utf-8")
        for found in _FENCED.finditer(text):
            if not languages or found[1] in languages:
                line = text.count("\n", 0, found.start()) + 1
                yield Block(str(path.relative_to(ROOT)), line, found[1], found[2])


def commands(block: Block) -> list[str]:
    """The command lines of a console block, without comments, continued lines joined."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if any(line.startswith("$ ") for line in lines):
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    uncommented = (re.split(r"(?:^|\s)#\s", line)[0].strip() for line in lines)
    return [line for line in uncommented if line]
