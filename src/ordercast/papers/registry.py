"""The artefacts by name. A module is imported when its artefact is asked for, so that listing them needs nothing."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import TYPE_CHECKING

from ordercast.core import UsageError

if TYPE_CHECKING:
    from ordercast.papers.artefact import Artefact

ARTEFACTS: dict[str, tuple[str, str]] = {
    "spauster-table-2-1": (
        "ordercast.papers.spauster.table_2_1",
        "which algorithm gives which order on which network (Table 2.1)",
    ),
    "spauster-classic-delay": (
        "ordercast.papers.spauster.classic_delay",
        "packets and delay of the classic algorithms (Tables 4.1 and 4.2)",
    ),
    "spauster-classic-load": (
        "ordercast.papers.spauster.classic_load",
        "load of the classic algorithms (4.1.2, the other curves of Graphs 4.4 and 4.5)",
    ),
    "spauster-bounds": (
        "ordercast.papers.spauster.bounds",
        "the bounds of Protocols 1 to 3 (6.4)",
    ),
}
"""Name -> its module, which has an `ARTEFACT`, and what it is."""


def find_artefact(name: str) -> Artefact:
    """The artefact of that name; `UsageError` names the nearest one when there is none."""
    if name not in ARTEFACTS:
        near = get_close_matches(name, ARTEFACTS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "see ordercast reproduce --list"
        raise UsageError(f"there is no artefact {name!r}; {hint}")
    artefact: Artefact = import_module(ARTEFACTS[name][0]).ARTEFACT
    return artefact
