"""What several judges need to know about a run; each part is worked out when the first of them asks."""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Final

import pyarrow as pa

from ordercast.check.facts.activations import Activations
from ordercast.check.facts.causal_past import CausalPast
from ordercast.check.facts.columns import Bools, Columns
from ordercast.check.facts.cycles import Cycles
from ordercast.check.facts.deliveries import Deliveries
from ordercast.check.facts.intervals import Network, Outages
from ordercast.check.facts.inversions import InvertedPairs
from ordercast.check.facts.membership import Membership
from ordercast.check.facts.messages import Messages
from ordercast.check.facts.packets import Packets
from ordercast.check.facts.stays import Stays
from ordercast.check.facts.streams import Stream, streams
from ordercast.check.facts.views import ViewRows
from ordercast.check.verdict import Witness
from ordercast.trace.schema import Run

_OF_DELIVERIES: Final = ("deliveries", "owed", "streams", "cycles", "inverted", "past")
"""What hangs on which deliveries count."""


class Facts:
    """One run, in every aspect that a judge may ask about."""

    def __init__(self, run: Run, events: pa.Table) -> None:
        self.run = run
        self.columns = Columns(run, events)
        self.whole = self
        """The facts in which every delivery counts."""
        self.services: frozenset[str] | None = None
        """The services with which a delivery counts; None: with whatever service."""
        self._counting: dict[frozenset[str], Facts] = {}

    def counting(self, name: str) -> Facts:
        """The facts for one property: where the run says with which services it holds, no other delivery counts."""
        services = frozenset(service for service, names in self.run.services.items() if name in names)
        if not services:
            return self
        if services not in self._counting:
            # What does not hang on deliveries is worked out here, and shared.
            _ = self.packets, self.messages, self.views, self.membership, self.outages, self.activations
            part = copy(self)
            for part_of_deliveries in _OF_DELIVERIES:
                part.__dict__.pop(part_of_deliveries, None)
            part.services = services
            self._counting[services] = part
        return self._counting[services]

    @cached_property
    def packets(self) -> Packets:
        return Packets(self.columns)

    @cached_property
    def messages(self) -> Messages:
        return Messages(self.columns, self.packets)

    @cached_property
    def deliveries(self) -> Deliveries:
        return Deliveries(self.columns, self.services)

    @cached_property
    def views(self) -> ViewRows:
        return ViewRows(self.columns)

    @cached_property
    def membership(self) -> Membership:
        return Membership(self.columns, self.messages, self.views)

    @cached_property
    def owed(self) -> Bools:
        """[site, message]: whether the site is owed the message, and has a service active for it that counts."""
        if self.services is None:
            return self.membership.owed
        return self.membership.owed & self.activations.active(self.messages, self.services)

    @cached_property
    def activations(self) -> Activations:
        return Activations(self.columns)

    @cached_property
    def streams(self) -> list[Stream]:
        return streams(self.columns, self.messages, self.deliveries, self.activations)

    def stays(self, site: int) -> Stays:
        return Stays(self.columns, self.messages, self.views, site)

    @cached_property
    def outages(self) -> Outages:
        return Outages(self.columns)

    @cached_property
    def network(self) -> Network:
        return Network(self.columns, self.packets, self.outages, float(self.run.bounds["phi_n"]))

    @cached_property
    def cycles(self) -> Cycles:
        return Cycles(self.columns, self.deliveries)

    @cached_property
    def inverted(self) -> InvertedPairs:
        return InvertedPairs(self.messages, self.deliveries, self.cycles)

    @cached_property
    def past(self) -> CausalPast:
        return CausalPast(self.columns, self.messages, self.deliveries)

    def witness(self, sites: tuple[int, ...], messages: tuple[int, ...], why: str, **more: str) -> Witness:
        """A witness with names for codes; in `why`, {0}, {1} … are the sites and {a}, {b} … the messages."""
        site_names = tuple(self.columns.sites[site] for site in sites)
        message_names = tuple(self.columns.message_name(message) for message in messages)
        letters = dict(zip("abcdefgh", message_names, strict=False))
        return Witness(site_names, message_names, why.format(*site_names, **letters, **more))
