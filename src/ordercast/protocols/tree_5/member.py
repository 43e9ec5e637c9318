"""A member's part in the tree of one group: fragments (B) to (F), (H) and (K)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import GroupId, SiteId, WireError
from ordercast.core.effects import Deliver
from ordercast.protocols.parts.numbered import Incoming, Intervals, MeasuredOutgoing
from ordercast.protocols.tree_5.packets import (
    Acknowledge,
    Answer,
    Heartbeat,
    Logged,
    NewRoot,
    NewTree,
    Pass,
    Request,
    RequestOfSource,
    Submit,
    Taken,
)
from ordercast.protocols.tree_5.shape import children, parent

if TYPE_CHECKING:
    from ordercast.protocols.tree_5.protocol import Tree5

MISSING_MAX = 64
"""So many messages are asked for at once, and the rest when these have come."""


class Member:
    """What a site knows of the tree of one group."""

    def __init__(self, core: Tree5, group: GroupId, ranks: tuple[SiteId, ...]) -> None:
        self.core = core
        self.group = group
        self.ranks = ranks
        """The sites of the tree by rank, the root first."""
        self.epoch = 0
        """How many roots there were before this one."""
        self.log: MeasuredOutgoing[Pass] = MeasuredOutgoing(group)
        """LOG by place, as far as somebody may still need it; its highest number is L_D."""
        self.early: Incoming[Pass] = Incoming()
        """Q of the thesis, and Q_temp: what came before its place."""
        self.submitted: dict[SiteId, Incoming[Submit]] = {}
        """Source -> L_s, and at the root what came before its number."""
        self.open = True
        """*state* of the thesis; False at a new root that catches up."""
        self.answered: dict[SiteId, int] = {}
        """At a new root: site -> what it has, as far as the root knows."""
        self.below: dict[SiteId, int] = {}
        """Child -> what everyone there has delivered."""
        self.settled: dict[SiteId, int] = {}
        """Source -> the number up to which the whole group has its messages."""
        self.told: dict[SiteId, int] = {}
        """Source -> what of that it was told."""
        self.heard_at = core.now
        self.out_since: float | None = None
        """When the others were found to have gone on without this site."""
        self._install(ranks)

    def _install(self, ranks: tuple[SiteId, ...]) -> None:
        options = self.core.options
        self.ranks = ranks
        self.children = children(ranks, self.core.site, options.children_max)
        self.parent = parent(ranks, self.core.site, options.children_max)
        self.below = dict.fromkeys(self.children, 0)

    @property
    def place(self) -> int:
        """L_D."""
        return self.log.highest

    @property
    def is_root(self) -> bool:
        return self.ranks[0] == self.core.site

    @property
    def is_next(self) -> bool:
        """Whether this is the site that watches the root."""
        return len(self.ranks) > 1 and self.ranks[1] == self.core.site

    def start(self) -> None:
        """The root speaks, and the next in rank listens."""
        if self.is_root:
            self.core.set_timer(("heartbeat", self.group), self.core.options.heartbeat_seconds)
        elif self.is_next:
            self.heard_at = self.core.now
            self.core.set_timer(("silence", self.group), self.core.options.delta)

    def stream(self, source: SiteId) -> Incoming[Submit]:
        """What is known of one source."""
        if source not in self.submitted:
            self.submitted[source] = Incoming(self.core.options.log_messages_max)
        return self.submitted[source]

    # ------------------------------------------------------------------ the root
    def accept(self, source: SiteId, packet: Submit) -> None:
        """Fragment (B). A closed root takes nothing from sources: none knows of it yet."""
        if not self.is_root or not self.open:
            return
        stream = self.stream(source)
        if packet.number <= stream.released:
            self.core.branch("old")
            return
        stream.keep(packet.number, packet)
        if packet.number > stream.released + 1:
            self.core.branch("early-from-source")
            self.ask_source(source, packet.number - 1)
            return
        for submit in stream.release():
            self._take(Pass(self.group, self.epoch, self.place + 1, submit.number, submit.multicast), source)

    def on_null(self, source: SiteId, highest: int) -> None:
        """A source has given so many numbers: ask for those that never came."""
        if self.is_root and self.open and highest > self.stream(source).released:
            self.core.branch("null-found-gap")
            self.ask_source(source, highest)

    def ask_source(self, source: SiteId, last: int) -> None:
        """For what is missing up to this number."""
        stream = self.stream(source)
        missing = stream.missing(stream.released + 1, min(last, stream.released + MISSING_MAX))
        if missing:
            self.core.send((source,), RequestOfSource(self.group, missing))

    # ------------------------------------------------------------------ what goes down the tree
    def on_pass(self, sender: SiteId, packet: Pass) -> None:
        """Fragments (C) and (D)."""
        if packet.epoch != self.epoch:
            # Of an old root, or on its way when the tree changed: whoever had delivered it has told the new root, and
            # everybody gets it from there. (Taken here: the old root's 8 arrives when the new root's 8 is another one.)
            self.core.branch("late-message")
            return
        if packet.place <= self.place:
            self.core.branch("old")
            return
        self.early.keep(packet.place, packet)
        if packet.place > self.place + 1:
            self.core.branch("early")
            self.ask(packet.place - 1)
            return
        for each in self.early.release():
            source = each.multicast.id.source
            self.stream(source).restore(each.number)
            if self.is_root:
                self.core.branch("caught-up")
            self._take(each, sender)

    def _take(self, packet: Pass, sender: SiteId) -> None:
        """LOG, deliver, and pass on. What the new root has caught up with goes straight to each site that lacks it.

        (Down the tree, as (C) has it: x has 7 already and ignores it, and its child y never gets it.)
        """
        core = self.core
        self.early.restore(packet.place)
        next(self.log.numbers)
        self.log.keep(packet)
        core.append(Logged(self.group, packet.place, packet.number, packet.multicast))
        core.outbox.append(Deliver(packet.multicast, None, sender))
        if self.open:
            core.send(self.children, packet)
        else:
            for site, place in self.answered.items():
                if place < packet.place:
                    self._help(site)

    def _help(self, site: SiteId) -> None:
        """Send a site what it lacks and this new root has."""
        for _, packet in self.log.asked_for(((self.answered[site] + 1, self.place),)):
            self.core.branch("helped")
            self.core.send((site,), self._now(packet))
        self.answered[site] = self.place

    def _now(self, packet: Pass) -> Pass:
        """The same with the epoch of today."""
        return Pass(self.group, self.epoch, packet.place, packet.number, packet.multicast)

    def ask(self, last: int) -> None:
        """Ask the parent for what is missing up to this place. (A new root gets all of it unasked.)"""
        missing = self.early.missing(self.place + 1, min(last, self.place + MISSING_MAX))
        if missing and self.parent is not None:
            self.core.branch("gap-asked")
            self.core.send((self.parent,), Request(self.group, self.epoch, missing))

    def on_request(self, sender: SiteId, epoch: int, missing: Intervals) -> None:
        """Fragment (K)."""
        if epoch == self.epoch:
            for _, packet in self.log.asked_for(missing):
                self.core.send((sender,), self._now(packet))

    # ------------------------------------------------------------------ heartbeats, and what they bring back
    def beat(self) -> None:
        """Tell the children that all is well and what there is; tell sources what they need not keep any more."""
        if self.is_root:
            self.core.set_timer(("heartbeat", self.group), self.core.options.heartbeat_seconds)
            if self.open:
                self._settle(min((self.place, *self.below.values())))
                for source, number in self.settled.items():
                    if number > self.told.get(source, 0):
                        self.told[source] = number
                        self.core.send((source,), Acknowledge(self.group, number))
        self.core.send(self.children, Heartbeat(self.group, self.epoch, self.place, self.log.acknowledged))

    def on_heartbeat(self, sender: SiteId, packet: Heartbeat) -> None:
        """Pass it on; ask for what is missing; say what everyone below has."""
        if packet.epoch != self.epoch or sender != self.parent:
            return
        self._settle(min(packet.stable, self.place))
        if packet.highest > self.place:
            self.ask(packet.highest)
        self.beat()
        taken = min((self.place, *self.below.values()))
        self.core.send((sender,), Taken(self.group, self.epoch, taken))

    def on_taken(self, sender: SiteId, packet: Taken) -> None:
        """A child and all below it have so much."""
        if packet.epoch == self.epoch and sender in self.below:
            self.below[sender] = max(self.below[sender], min(packet.place, self.place))

    def _settle(self, stable: int) -> None:
        """Forget what everyone has."""
        for packet in self.log.acknowledge(stable):
            self.settled[packet.multicast.id.source] = packet.number

    # ------------------------------------------------------------------ another root
    def on_silence(self) -> None:
        """Fragment (E): the next in rank has heard nothing from the root for δ, and takes over."""
        if not self.is_next:
            return
        rest = self.heard_at + self.core.options.delta - self.core.now
        if rest > 0:
            self.core.set_timer(("silence", self.group), rest)
            return
        self.core.branch("took-over")
        self._install(self.ranks[1:])
        self._begin(self.epoch + 1)
        self.open = False
        self.core.send(self.ranks[1:], NewTree(self.group, self.epoch, self.ranks, self.place))
        # The one that is next now listens already.
        self.core.set_timer(("heartbeat", self.group), self.core.options.heartbeat_seconds)
        self.core.set_timer(("open", self.group), self.core.options.catching_up_seconds)

    def _begin(self, epoch: int) -> None:
        """What waits for its place was numbered by the old root, and may be numbered otherwise by the new one."""
        self.epoch = epoch
        self.early.early.clear()
        self.answered.clear()

    def on_new_tree(self, sender: SiteId, packet: NewTree) -> None:
        """Fragment (F): install the tree, and tell the root everything that it lacks."""
        if packet.epoch <= self.epoch:
            return
        if not packet.ranks or packet.ranks[0] != sender or not set(packet.ranks) <= set(self.ranks):
            raise WireError(f"a tree of {self.group!r} that {sender} may not propose")
        if self.core.site not in packet.ranks:
            self.go_out(sender)
            return
        self._install(packet.ranks)
        self._begin(packet.epoch)
        self.core.send((sender,), Answer(self.group, self.epoch, self.place))
        for _, each in self.log.asked_for(((packet.place + 1, self.place),)):
            self.core.branch("reported")
            self.core.send((sender,), self._now(each))
        self.start()

    def on_answer(self, sender: SiteId, packet: Answer) -> None:
        """A site is in the new tree: give it what it lacks."""
        if packet.epoch == self.epoch and self.is_root and not self.open and sender in self.ranks:
            self.answered[sender] = packet.place
            if packet.place < self.place:
                self._help(sender)

    def on_open(self) -> None:
        """Fragment (H): the new tree is in place, and its root has what anybody has."""
        self.open = True
        self.core.branch("opened")
        self.core.send(self.core.sources_of(self.group), NewRoot(self.group, self.epoch))
        self.beat()

    def go_out(self, root: SiteId) -> None:
        """The others have taken this site for dead, and gone on. That does not happen while [A2] to [A8] hold; where it
        does, the site must not deliver any more, and nothing brings it back ([A7])."""
        if self.out_since is None:
            self.out_since = self.core.now
            self.core.block(
                "tree", f"{root} is the root of {self.group} now, and {self.core.site} is out for good", self.group
            )
