"""How a replica comes to a state: it asks the others, one after the other, until one of them has given it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from ordercast.core import SiteId
from ordercast.node.group import Group
from ordercast.node.node import Node
from ordercast.node.replica_messages import Want
from ordercast.node.state_packets import Offer

logger = logging.getLogger("ordercast.node")

ASK_AGAIN_SECONDS = 2.0
"""Until a question is sent again that was not delivered."""

ROUND_SECONDS = 0.5
"""Until all are asked again when none of them had a state, or nobody was there."""

ROUNDS_PATIENT = 4
"""Rounds in vain after which the log says so. The first may come before it is known who is in the group."""

NOWHERE = (1 << 63) - 1
"""An offset that no state has: nobody gives one that was made for another."""


class Seeker:
    """The search for a state, from the gap on which it is needed to the last byte of it."""

    def __init__(
        self,
        node: Node,
        group: Group,
        send: Callable[[Want], asyncio.Task[None] | None],
        on_state: Callable[[SiteId, Offer, bytearray, int], None],
        on_followed: Callable[[], None],
        counts_alike: bool,
    ) -> None:
        """`send` multicasts a question to the group; `on_state` gets the state, who gave it, and where it stands;
        `on_followed` hears that the others take the state that this replica has brought along. `counts_alike`: whether
        a delivery has the same offset at every member."""
        self._node = node
        self._group = group
        self._send = send
        self._on_state = on_state
        self._on_followed = on_followed
        self._brings: tuple[str, int] = ("", 0)
        """The name of the state that this replica has brought along, and its calls."""
        self._counts_alike = counts_alike
        self._givers: Collection[SiteId] | None = None
        """Who may be asked; None: every member of the group."""
        self._place = 0
        """The offset behind the question, as it is counted here."""
        self._transfer: int | None = None
        """The one for which somebody was asked; None while no state is sought."""
        self._giver: SiteId = ""
        self._since = 0
        self._tried: set[SiteId] = set()
        """Who was asked in this round, and has not given one."""
        self._rounds = 0
        """In vain."""
        self._question: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, since: int, givers: Collection[SiteId] | None = None, brings: tuple[str, int] = ("", 0)) -> None:
        """Seek a state from this offset or a later one, of these or of any; one that is on its way is from before a
        gap. (Not where the question has not left: several deliveries are taken back one by one.)"""
        if self._is_asking and since <= self._since and (givers, brings) == (self._givers, self._brings):
            self._since = since
            return
        self.stop()
        self._node.internals.transfer.sought.add(self._group.name)
        # Where others count from elsewhere, only the state at the question itself will do.
        self._since = since if self._counts_alike else NOWHERE
        self._givers = givers
        self._brings = brings
        self._tried.clear()
        self._next()

    @property
    def _is_asking(self) -> bool:
        return self._transfer is not None and self._question is not None and not self._question.done()

    def stop(self) -> None:
        """Seek no more."""
        self._node.internals.transfer.sought.discard(self._group.name)
        if self._timer is not None:
            self._timer.cancel()
        if self._transfer is not None:
            self._node.internals.transfer.give_up(self._transfer)
            self._transfer = None

    def _next(self) -> None:
        """Ask somebody whom this round has not asked yet; when there is nobody, begin another after a while."""
        giver = self._choose()
        if giver is not None:
            self._giver = giver
            self._transfer = self._node.internals.transfer.draw_number()
            self._ask()
            return
        self._rounds += 1
        if self._rounds == ROUNDS_PATIENT:
            logger.warning(
                "replica %s has no state, and nobody in group %s gives it one: start a process that has it",
                self._node.process,
                self._group.name,
            )
        self._tried.clear()
        self._timer = asyncio.get_running_loop().call_later(ROUND_SECONDS, self._next)

    def _choose(self) -> SiteId | None:
        """The one before this process in the circle of their names, so that several that come at once ask different
        ones; those that are there before those that seem not to be."""
        own, present = self._node.process, self._node.internals.engine.endpoint.present
        givers = self._group.members if self._givers is None else self._givers
        others = [site for site in givers if site != own and site not in self._tried]
        return max(others, key=lambda site: (site in present, site < own, site), default=None)

    def _ask(self) -> None:
        """Send the question, and again when it was not delivered after a while: a group that is blocked takes none."""
        if self._transfer is not None and not self._is_asking:
            node = self._node
            want = Want(node.process, node.incarnation, self._giver, self._transfer, self._since, *self._brings)
            self._question = self._send(want)
        self._timer = asyncio.get_running_loop().call_later(ASK_AGAIN_SECONDS, self._ask)

    def on_delivered(self, want: Want, offset: int) -> None:
        """A question of this process has its place in the order: the one that was asked has it soon, too."""
        if want.transfer == self._transfer and self._timer is not None:
            self._timer.cancel()
            self._timer = None  # it may be delivered a second time
            self._place = offset + 1
            self._node.internals.transfer.take(want.transfer, self._group.name, want.giver, self)

    # ------------------------------------------------------------------ what the transfer says
    def accepts(self, offer: Offer) -> bool:
        """Whether a state contains everything that this replica has missed."""
        return not self._counts_alike or offer.offset >= self._since

    def waits_for(self, giver: SiteId) -> bool:
        """Whether it is still in the group."""
        return giver in self._group.members

    def on_no_state(self, giver: SiteId, reason: str) -> None:
        """Somebody cannot give one: it has none, or it has died meanwhile."""
        self._tried.add(giver)
        self._next()

    def on_followed(self, giver: SiteId) -> None:
        """This replica need not take one."""
        self.stop()
        self._on_followed()

    def on_state(self, giver: SiteId, offer: Offer, content: bytearray) -> None:
        """It is here."""
        self._transfer = None
        self._rounds = 0
        self._node.internals.transfer.sought.discard(self._group.name)
        self._on_state(giver, offer, content, offer.offset if self._counts_alike else self._place)
