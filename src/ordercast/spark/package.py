"""The package as one file, for workers on machines where it is not installed."""

from __future__ import annotations

import zipfile
from pathlib import Path

import ordercast


def write_package(file: Path) -> Path:
    """Write a zip of the package from which Python can import it."""
    root = Path(ordercast.__file__).parent
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in sorted(root.rglob("*")):
            if member.is_file() and "__pycache__" not in member.parts:
                archive.write(member, Path(root.name) / member.relative_to(root))
    return file
