"""Packets and bytes of a run by site and type, counted while it runs: what runs that are too large for a trace still
tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from ordercast.core import SiteId
from ordercast.trace.interface import Envelope


class Tally(msgspec.Struct, gc=False):
    """So many packets, with so many bytes (headers of the datagrams not counted)."""

    packets: int = 0
    bytes: int = 0


class Traffic:
    """What crossed the network. What a site says to itself does not, and a frame for several is sent once."""

    def __init__(self) -> None:
        self.sent: dict[SiteId, dict[str, Tally]] = {}
        """Site -> type of packet -> what left it."""
        self.received: dict[SiteId, dict[str, Tally]] = {}
        """Site -> type of packet -> what reached its instances."""

    def count_sent(self, site: SiteId, envelope: Envelope) -> None:
        """A packet leaves a site."""
        tallies = self.sent.setdefault(site, {})
        tally = tallies.get(envelope.name)
        if tally is None:
            tally = tallies[envelope.name] = Tally()
        tally.packets += 1
        tally.bytes += envelope.size

    def count_received(self, site: SiteId, envelope: Envelope) -> None:
        """A packet reaches a site; one of its own has crossed nothing."""
        if site == envelope.sender:
            return
        tallies = self.received.setdefault(site, {})
        tally = tallies.get(envelope.name)
        if tally is None:
            tally = tallies[envelope.name] = Tally()
        tally.packets += 1
        tally.bytes += envelope.size

    def copy(self) -> Traffic:
        """What has been counted so far, so that a later count can be compared with it."""
        copy = Traffic()
        for site, tallies in self.sent.items():
            copy.sent[site] = {name: Tally(tally.packets, tally.bytes) for name, tally in tallies.items()}
        for site, tallies in self.received.items():
            copy.received[site] = {name: Tally(tally.packets, tally.bytes) for name, tally in tallies.items()}
        return copy


def total(
    tallies: Mapping[SiteId, Mapping[str, Tally]], counts: Callable[[SiteId, str], bool] = lambda site, name: True
) -> Tally:
    """The sum over the sites and types that count: of all of them, unless something else is said."""
    sum_ = Tally()
    for site, by_type in tallies.items():
        for name, tally in by_type.items():
            if counts(site, name):
                sum_.packets += tally.packets
                sum_.bytes += tally.bytes
    return sum_
