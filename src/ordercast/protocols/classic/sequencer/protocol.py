"""The central sequencer: three roles at each site, one of them at one site only."""

from __future__ import annotations

from typing import cast

from ordercast.core import (
    EVERY_FAULT,
    TOTAL_ORDER,
    AtRest,
    Context,
    Contract,
    GroupId,
    Protocol,
    SiteId,
    UsageError,
    WireError,
)
from ordercast.core.events import Consumed, MulticastRequested, Started
from ordercast.protocols.classic.sequencer.arrangement import ARRANGEMENT
from ordercast.protocols.classic.sequencer.center import Center
from ordercast.protocols.classic.sequencer.destination import Destination
from ordercast.protocols.classic.sequencer.options import SequencerOptions
from ordercast.protocols.classic.sequencer.packets import State
from ordercast.protocols.classic.sequencer.source import Source


class Sequencer(Protocol):
    """All messages go through one site, which gives them their order (Spauster 2.4, after Kaashoek et al. 1989)."""

    contract = Contract(
        name="sequencer",
        title="one site orders everything: cheap, total order across groups, blocks while that site is down",
        paper="Spauster 1991, 2.4 (Kaashoek, Tanenbaum, Hummel, Bal 1989; Publishing: Cheriton, Zwaenepoel 1985)",
        guarantees=TOTAL_ORDER,
        faults=EVERY_FAULT,
        crash="everyone waits while the sequencer is down, or when its history is full of a crashed destination's",
        branches=(
            "duplicate-submission",
            "early-submission",
            "resubmitted",
            "blocked",
            "history-full",
            "old",
            "gap",
            "requested",
            "resent",
            "announced",
            "direct",
            "body-late",
        ),
        options=SequencerOptions,
        at_rest=lambda sites, groups, options: AtRest(
            messages=2 * sites, entries=45 + 5 * sites, credit=options.window_messages
        ),
    )
    arrangement = ARRANGEMENT
    parts = (Source, Center, Destination)
    records = (State,)
    wants_consumed = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = cast(SequencerOptions, context.options)
        self.sequencer = self.options.sequencer or context.members(tuple(context.groups))[0]
        if self.sequencer not in context.sites:
            raise UsageError(f"option sequencer: there is no site {self.sequencer!r}")
        self.direct_bytes = self.options.direct_bytes
        """Messages from this size on are sent to their destinations by the source itself."""
        self.source = self.attach(Source(self))
        self.center = Center(self)
        self.destination = Destination(self)
        # A submission goes to the sequencer, which orders it. To the others a source sends those that are large.
        at_center = self.site == self.sequencer
        for role in (self.center, self.destination) if at_center else (self.destination, self.center):
            self.attach(role)

    @property
    def ordering_site(self) -> SiteId:
        """The sequencer."""
        return self.sequencer

    # ------------------------------------------------------------------ events
    def on_started(self, event: Started) -> None:
        """Tell the application how much it may send."""
        self.source.give_credit()

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """To the sequencer, also when that is here: the same window and the same order for everyone."""
        self.source.multicast(event.multicast)

    def on_consumed(self, event: Consumed) -> None:
        """The application has taken deliveries."""
        self.destination.on_consumed(event.count)

    # ------------------------------------------------------------------ addresses
    def find_sites(self, groups: tuple[GroupId, ...], destinations: tuple[SiteId, ...] | None) -> tuple[SiteId, ...]:
        """The destinations of an address, in order of names; `WireError` for an address that is none."""
        known = self.context.groups if destinations is None else self.center.links
        unknown = [name for name in (groups if destinations is None else destinations) if name not in known]
        if unknown:
            raise WireError(f"a message is addressed to {', '.join(unknown)}, of which nobody knows")
        return self.context.members(groups) if destinations is None else destinations

    # ------------------------------------------------------------------ stable storage
    def checkpoint_messages(self) -> int:
        """What a checkpoint would hold, at the most."""
        return len(self.source.pending) + max(len(link.kept) for link in self.center.links.values())

    def checkpoint_state(self) -> State:
        """All three roles."""
        center = self.center
        return State(
            submissions=tuple((submit.multicast, submit.previous) for submit in self.source.pending.values()),
            last_submitted=self.source.last_submitted,
            delivered_link=self.destination.stream.released,
            number=center.number,
            accepted=tuple(center.accepted.items()),
            links=tuple((site, link.highest, link.acknowledged) for site, link in center.links.items()),
            history=center.history(),
        )

    def restore(self, state: State) -> None:
        """All three roles."""
        self.source.restore(state)
        self.destination.restore(state.delivered_link)
        self.center.restore(state)

    def resume(self) -> None:
        """Take up all three roles where the log left them, and say everything again that may not have been heard."""
        self.source.give_credit()
        self.source.resume()
        if self.site == self.sequencer:
            self.center.resume()
