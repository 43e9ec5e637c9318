"""Where messages stand in our cell, said to others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ordercast.core import SiteId
from ordercast.protocols.parts.address import Destinations
from ordercast.protocols.three_step.entries import Entry
from ordercast.protocols.three_step.packets import Proposal, Propose

if TYPE_CHECKING:
    from ordercast.protocols.three_step.protocol import ThreeStep

PROPOSALS_MAX = 256
"""Proposals in one packet: some kilobytes."""


def send_proposals(
    core: ThreeStep,
    to: tuple[SiteId, ...],
    address: Destinations,
    proposals: list[Proposal],
    all_speak: bool = False,
) -> None:
    """Tell some destinations of messages that all have this address."""
    for first in range(0, len(proposals), PROPOSALS_MAX):
        part = tuple(proposals[first : first + PROPOSALS_MAX])
        core.send(to, Propose(core.primary.started, address.cells, part, all_speak))


def standings_by_address(cell: int, entries: Iterable[Entry]) -> dict[Destinations, list[Proposal]]:
    """Where messages stand in our cell, by their destinations and in the order of their places."""
    by_address: dict[Destinations, list[Proposal]] = {}
    for entry in entries:
        proposal = Proposal(entry.place, entry.message, entry.standings[cell].timestamp)
        by_address.setdefault(entry.address, []).append(proposal)
    for proposals in by_address.values():
        proposals.sort(key=lambda proposal: proposal.place)
    return by_address
