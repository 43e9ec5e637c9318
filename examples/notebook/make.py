"""Runs the cells of `trace.py` and writes them with what they print as a notebook; no Jupyter is needed.

    python examples/notebook/make.py            # writes docs/trace.ipynb

Cells begin with `# %%`, as in the editors that know such files; `# %% [markdown]` begins one of text.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CELLS = HERE / "trace.py"
NOTEBOOK = HERE.parent.parent / "docs" / "trace.ipynb"

Cell = dict[str, Any]


def read_cells(source: str) -> list[tuple[str, str]]:
    """Of each cell, whether it is `markdown` or `code`, and its text."""
    cells = []
    for part in source.split("# %%")[1:]:
        head, _, body = part.partition("\n")
        if head.strip() == "[markdown]":
            lines = [line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines()]
            cells.append(("markdown", "\n".join(lines)))
        else:
            cells.append(("code", body.strip()))
    return cells


def run_cells(cells: list[tuple[str, str]]) -> list[Cell]:
    """The cells of a notebook, one after the other in one namespace, with what each printed."""
    names: dict[str, Any] = {"__name__": "__main__"}
    made: list[Cell] = []
    for number, (kind, text) in enumerate(cells):
        lines = text.splitlines(keepends=True)
        cell: Cell = {"id": f"cell-{number}", "cell_type": kind, "metadata": {}, "source": lines}
        if kind == "code":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(text, f"cell {number}", "exec"), names)
            told = printed.getvalue().splitlines(keepends=True)
            cell["execution_count"] = 1 + sum(each["cell_type"] == "code" for each in made)
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": told}] if told else []
        made.append(cell)
    return made


def as_notebook(cells: list[Cell]) -> str:
    """The file, in version 4.5 of the format."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    NOTEBOOK.write_text(as_notebook(run_cells(read_cells(CELLS.read_text()))))
    print(f"written: {NOTEBOOK}", file=sys.stderr)


if __name__ == "__main__":
    main()
