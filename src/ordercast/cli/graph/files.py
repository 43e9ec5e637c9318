"""The file of groups that `ordercast graph` reads."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

from ordercast.core import GroupId, SiteId, UsageError
from ordercast.graphs import read_groups


def read_groups_file(path: Path) -> dict[GroupId, tuple[SiteId, ...]]:
    """The `[groups]` of a cluster configuration or scenario, or a file that has nothing but groups; TOML or JSON."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 text; is it the right file?") from error
    try:
        document = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: {error}; write a table [groups] with lines like accounts = ['a', 'b']") from error
    groups: Any = document.get("groups", document) if isinstance(document, dict) else document
    if not isinstance(groups, dict):
        raise UsageError(f"{path}: groups is a table from names to lists of sites")
    for group, members in groups.items():
        if not isinstance(members, list) or not all(isinstance(site, str) and site for site in members):
            raise UsageError(f"{path}: group {group!r} is not a list of site names")
    try:
        return read_groups(groups)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
