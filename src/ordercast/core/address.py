"""Whether a protocol can multicast to an address: one rule, for whoever asks first."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from ordercast.core.contract import Contract
from ordercast.core.errors import UsageError
from ordercast.core.identifiers import GroupId, SiteId
from ordercast.core.memo import Address

_PLURALS = {"site": "sites", "process": "processes"}


def check_address(
    contract: Contract,
    groups: Collection[GroupId],
    sites: Collection[SiteId],
    address: Address,
    word: Literal["site", "process"] = "site",
) -> None:
    """Raise `UsageError` unless a protocol can multicast to an address where there are these groups and sites. `word`
    is what whoever reads that calls a site."""
    to_groups, destinations = address
    if destinations is not None:
        if not contract.explicit_destinations:
            raise UsageError(f"{contract.name} addresses groups, not single {_PLURALS[word]}")
        if not destinations:
            raise UsageError("a multicast needs at least one destination")
        for site in destinations:
            if site not in sites:
                raise UsageError(f"there is no {word} {site!r}")
    elif not to_groups:
        raise UsageError("a multicast needs at least one group")
    if len(to_groups) > 1 and not contract.several_groups:
        raise UsageError(f"{contract.name} multicasts to one group at a time, not to {', '.join(to_groups)}")
    for group in to_groups:
        if group not in groups:
            hint = "; whoever joins it first makes it" if contract.dynamic else ""
            raise UsageError(f"there is no group {group!r}; known: {', '.join(groups) or 'none'}{hint}")
