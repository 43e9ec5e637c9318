"""A page of a report: tables, texts and pictures in one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import io
import os
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ordercast.core.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PIXELS_PER_INCH = 150
"""Sharp on a screen of twice the usual density, and still a few hundred kilobytes a picture."""

_STYLE = """
:root { color-scheme: light dark; --ink: #222; --soft: #666; --line: #ccc; --paper: #fff;
  --good: #1a7f37; --bad: #cf222e; --doubt: #9a6700 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ddd; --soft: #999; --line: #444; --paper: #161616; --good: #3fb950; --bad: #ff7b72; --doubt: #d29922 }
}
body { font: 15px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem;
  color: var(--ink); background: var(--paper) }
h1 { font-size: 1.6rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
section { overflow-x: auto }
table { border-collapse: collapse; margin: .6rem 0; font-variant-numeric: tabular-nums }
th, td { padding: .2rem 1.1rem .2rem 0; text-align: left; vertical-align: top }
th { font-weight: 600; color: var(--soft); border-bottom: 1px solid var(--line); white-space: nowrap }
td:first-child { white-space: nowrap }
tr + tr td { border-top: 1px solid color-mix(in srgb, var(--line) 45%, transparent) }
figure { margin: 1rem 0 } figcaption, .note { color: var(--soft) }
img, svg { max-width: 100%; height: auto; border-radius: 4px }
.good { color: var(--good) } .bad { color: var(--bad); font-weight: 600 } .doubt { color: var(--doubt) }
"""


class Cell(str):
    """The text of a cell that means something: `good`, `bad`, `doubt` or `note`."""

    __slots__ = ("meaning",)

    def __new__(cls, text: str, meaning: str = "") -> Cell:
        cell = super().__new__(cls, text)
        cell.meaning = meaning
        return cell

    meaning: str


class Page:
    """A page in the making. Its folder is made at once: the work would be in vain if the page could not be written."""

    def __init__(self, folder: str | Path, title: str) -> None:
        self.folder = Path(folder)
        self.file = self.folder / "index.html"
        self._title = title
        self._parts = [f"<h1>{escape(title)}</h1>"]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not os.access(self.folder, os.W_OK | os.X_OK):
                raise PermissionError(0, "no permission to write there")
        except OSError as error:
            raise UsageError(f"{folder}: cannot be made a folder for the report: {error.strerror or error}") from error

    def heading(self, text: str) -> None:
        self._parts.append(f"<h2>{escape(text)}</h2>")

    def text(self, text: str, meaning: str = "") -> None:
        """A paragraph."""
        self._parts.append(f"<p{_class(meaning)}>{escape(text)}</p>")

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Cells are texts, or `Cell`s where colour should say something."""
        head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
        lines = [
            "<tr>" + "".join(f"<td{_class(getattr(cell, 'meaning', ''))}>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in rows
        ]
        body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
        self._parts.append(f"<section><table>{body}</table></section>")

    def picture(self, picture: Figure | str, caption: str = "") -> None:
        """A figure of matplotlib, or the text of an SVG."""
        shown = picture if isinstance(picture, str) else _embedded(picture, caption)
        words = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
        self._parts.append(f"<figure>{shown}{words}</figure>")

    def write(self) -> None:
        """Let the page appear, whole."""
        body = "\n".join(self._parts)
        page = (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta name="viewport" content="width=device-width"><title>{escape(self._title)}</title>'
            f"<style>{_STYLE}</style></head>\n<body>{body}</body></html>\n"
        )
        try:
            descriptor, temporary = tempfile.mkstemp(prefix=".", suffix=".partial", dir=self.folder)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(page)
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o666 & ~umask)
            os.replace(temporary, self.file)
        except OSError as error:
            raise UsageError(f"{self.file}: cannot be written: {error.strerror or error}") from error


def _class(meaning: str) -> str:
    return f' class="{escape(meaning)}"' if meaning else ""


def _embedded(figure: Figure, caption: str) -> str:
    output = io.BytesIO()
    figure.savefig(output, format="png", dpi=PIXELS_PER_INCH, bbox_inches="tight")
    picture = base64.b64encode(output.getvalue()).decode()
    return f'<img alt="{escape(caption)}" src="data:image/png;base64,{picture}">'
