"""The token protocol: its contract, the roles of which it consists, and its start."""

from __future__ import annotations

from typing import cast

from ordercast.core import EVERY_FAULT, TOTAL_ORDER, Context, Contract, Protocol
from ordercast.core.events import Consumed, MulticastRequested, Recovered, Started
from ordercast.protocols.classic.token.arrangement import ARRANGEMENT
from ordercast.protocols.classic.token.attempt import Attempt
from ordercast.protocols.classic.token.backlog import Backlog
from ordercast.protocols.classic.token.delivery import Delivery
from ordercast.protocols.classic.token.joining import Joining
from ordercast.protocols.classic.token.ledger import Ledger
from ordercast.protocols.classic.token.loss import Loss
from ordercast.protocols.classic.token.options import TokenOptions
from ordercast.protocols.classic.token.patience import Patience
from ordercast.protocols.classic.token.probing import Probing
from ordercast.protocols.classic.token.records import State
from ordercast.protocols.classic.token.reformation import Reformation
from ordercast.protocols.classic.token.repair import Repair
from ordercast.protocols.classic.token.ring import Ring
from ordercast.protocols.classic.token.settlement import Settlement
from ordercast.protocols.classic.token.sites import Sites
from ordercast.protocols.classic.token.source import Source
from ordercast.protocols.classic.token.stable import Stable
from ordercast.protocols.classic.token.suspicion import Suspicion

ROLES = (Source, Ring, Repair, Stable, Delivery, Settlement, Suspicion, Attempt, Probing, Reformation, Joining, Loss)


class Token(Protocol):
    """Chang and Maxemchuk's reliable broadcast with a rotating token site, one token for all groups."""

    contract = Contract(
        name="token",
        title="rotating token site with L-resilience and reformation: one order for all groups, any minority may crash",
        paper="Chang, Maxemchuk 1984, as described in Spauster 1991, 2.3",
        guarantees=TOTAL_ORDER,
        faults=EVERY_FAULT,
        crash="the others, if a majority, form a new token list without it; when it comes back it gets what they keep",
        branches=tuple(branch for role in ROLES for branch in role.branches),
        options=TokenOptions,
        minority_may_die=True,
        repairs=True,
    )
    arrangement = ARRANGEMENT
    parts = (Sites, Ledger, Backlog, *ROLES)
    records = (State,)
    wants_consumed = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.options = options = cast(TokenOptions, context.options)
        self.patience = Patience(options)
        self.system = self.attach(Sites(self.site, context.sites, options.resilience))
        self.ledger = self.attach(Ledger(self.system.all))
        self.backlog = self.attach(Backlog(self.ledger, self.system.all, options.window_messages))
        self.source = self.attach(Source(self))
        self.ring = self.attach(Ring(self))
        self.repair = self.attach(Repair(self))
        self.stable = self.attach(Stable(self))
        self.delivery = self.attach(Delivery(self))
        self.settlement = self.attach(Settlement(self))
        self.suspicion = self.attach(Suspicion(self))
        self.attempt = self.attach(Attempt(self))
        self.probing = self.attach(Probing(self))
        self.reformation = self.attach(Reformation(self))
        self.joining = self.attach(Joining(self))
        self.loss = self.attach(Loss(self))

    def on_started(self, event: Started) -> None:
        """Everybody begins with the list of all sites."""
        self._begin()
        self.ring.take_token()

    def _begin(self) -> None:
        """Tell the application who is in the list and how much it may send."""
        self.stable.end_reading()
        self.stable.install_view()
        self.source.give_credit()
        self.suspicion.watch_ring()

    def on_multicast_requested(self, event: MulticastRequested) -> None:
        """Any site may multicast to any groups."""
        self.source.multicast(event.multicast)

    def on_consumed(self, event: Consumed) -> None:
        """The application has taken deliveries: there is room for more, and these are settled."""
        self.delivery.consume(event.count)
        self.settlement.note(self.site, self.delivery.settled)
        self.repair.note_taken()

    # ------------------------------------------------------------------ stable storage
    def checkpoint_messages(self) -> int:
        """What is kept for the others."""
        return self.ledger.messages

    def checkpoint_state(self) -> State:
        """Everything that must survive."""
        return self.stable.checkpoint()

    def restore(self, state: State) -> None:
        """Take up the state of a checkpoint."""
        self.stable.restore(state)

    def on_recovered(self, event: Recovered) -> None:
        """As everywhere; a log that is lost says nothing, not even that."""
        if event.lost:
            self.loss.begin(self.context.incarnation)
        super().on_recovered(event)

    def resume(self) -> None:
        """What the log says was delivered is replayed; what is committed besides is delivered behind it. Then find out
        whether the list goes on without this site."""
        self.reformation.note_version(self.stable.promised)
        self._begin()
        self.delivery.deliver()
        self.source.send_again()
        self.suspicion.begin_recovery()
        if self.loss.lost:
            self.loss.ask()

    def declare_recovered(self) -> None:
        """Not yet, when the log has been read: `Suspicion` says it when the site is in a list that works."""
