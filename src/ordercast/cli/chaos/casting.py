"""Who is in which group under `ordercast chaos`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ordercast.cli.graph.files import read_groups_file
from ordercast.core import GroupId, SiteId, UsageError

GROUP = "accounts"
PROCESSES = 5
PROCESSES_MAX = 16

Groups = Mapping[GroupId, tuple[SiteId, ...]]


def make_groups(file: Path | None, processes: int | None) -> Groups:
    """The groups of a file, or one with so many processes."""
    if file is None:
        return {GROUP: tuple(f"p{index}" for index in range(1, (processes or PROCESSES) + 1))}
    if processes is not None:
        raise UsageError("--processes cannot be with --groups, whose file says who there is: leave one of them out")
    groups = read_groups_file(file)
    if not 2 <= len(processes_of(groups)) <= PROCESSES_MAX:
        raise UsageError(
            f"--groups {file} names {len(processes_of(groups))} processes, and chaos takes 2 to {PROCESSES_MAX}"
        )
    return groups


def processes_of(groups: Groups) -> list[SiteId]:
    """All who are in some group."""
    return sorted({site for members in groups.values() for site in members})
