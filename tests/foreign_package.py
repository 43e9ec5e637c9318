"""A second package, as an installation leaves it behind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def install(site: Path, name: str, modules: Mapping[str, str], entry_points: Mapping[str, Mapping[str, str]]) -> None:
    """Write the package's modules (path -> text), its name and its entry points (group -> name -> object) to a folder
    that is on Python's path. No build backend and no network is needed for that."""
    for path, text in modules.items():
        file = site / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    metadata = site / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
            for group, entries in entry_points.items()
        )
    )
