"""The attachment procedure: every host looks for a good parent, again and again (sections 4.2 and 4.3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, Part, SiteId
from ordercast.protocols.broadcast_tree.packets import Adopt, Declare, Detach
from ordercast.protocols.broadcast_tree.stream import Stream

if TYPE_CHECKING:
    from ordercast.protocols.broadcast_tree.protocol import BroadcastTree

PATIENCE_MAX = 4
"""NP2 becomes so many times as long at the most: a host that is really gone is not waited for much longer."""


class Attachment(Part):
    """Parent and children of one host, in all its streams."""

    timers = ("np1", "np2", "pa")
    branches = (
        "option-1",
        "option-2",
        "case-1-option-3",
        "case-2-option-3",
        "case-3",
        "np2-expired",
        "pa-expired",
        "parent-lost",
        "child-went",
        "old-parent-adopts",
        "old-pointer",
    )

    def __init__(self, core: BroadcastTree) -> None:
        self._core = core

    # ------------------------------------------------------------------ NEW-PARENT
    def on_np1_timeout(self) -> None:
        """The regular look around. Whoever waits for an answer goes on waiting."""
        self._core.repeat("np1")
        for stream in self._core.streams.values():
            if not stream.declared:
                self.new_parent(stream)

    def on_np2_timeout(self, index: int) -> None:
        """The new parent has not answered. It is passed over once, or it would be chosen again."""
        for stream in self._core.streams.values():
            if stream.index == index and stream.declared:
                self._core.branch("np2-expired")
                # Perhaps it is only far away. (Else: a host that is further away than NP2 from all others never has a
                # parent, and each of them in turn sends it everything that it lacks.)
                stream.patience = min(2 * stream.patience, PATIENCE_MAX)
                silent = stream.parent
                self._let_go(stream)
                self.new_parent(stream, passed_over=silent)

    def on_pa_timeout(self) -> None:
        """Half of PA has passed. A parent in the same cluster that was not heard twice in a row is gone.

        For a parent elsewhere option 3 of case II, and the silence over several exchanges, do that.
        """
        self._core.repeat("pa")
        heard = self._core.hearing.take_heard()
        for stream in self._core.streams.values():
            if stream.parent is None or stream.parent not in self._core.clusters or stream.parent in heard:
                stream.silent_periods = 0
                continue
            stream.silent_periods += 1
            if stream.silent_periods >= 2:
                self._core.branch("pa-expired")
                gone = stream.parent
                self._let_go(stream)
                self.new_parent(stream, passed_over=gone)

    def new_parent(self, stream: Stream, passed_over: SiteId | None = None) -> None:
        """NEW-PARENT: try the options in their order."""
        if stream.is_source:
            return
        if stream.parent is not None and stream.parent in self._core.clusters:
            self.find_leader_above(stream)
            return
        candidates = self._candidates(stream, passed_over)
        found = self.find_leader_inside(stream, candidates) or self.find_parent_outside(stream, candidates)
        if found is not None:
            self.attach(stream, found)

    def on_news(self, stream: Stream, sender: SiteId) -> None:
        """An INFO set of a host in the same cluster has come: if that host is a leader, attach to it now if ever.

        (Else: two leaders of one cluster get messages at the same time, several in each period of EIC. Whenever NP1
        runs out, what each knows of the other is some messages old, the other seems to have less, and neither attaches
        as long as messages flow: the cluster costs two expensive packets a message.)
        """
        if stream.parent is None or stream.declared or sender not in self._core.clusters:
            return
        if stream.parent in self._core.clusters:
            self.find_leader_above(stream, news_of=sender)
        elif sender in self._candidates(stream, None):
            found = self.find_leader_inside(stream, [sender])
            if found is not None:
                self.attach(stream, found)

    def find_leader_inside(self, stream: Stream, candidates: list[SiteId]) -> SiteId | None:
        """Cases I and II, options 1 and 2: a leader in the same cluster that has more; or as much, and a greater order
        number."""
        core = self._core
        own, order = stream.highest, stream.order(core.site)
        leaders = [host for host in candidates if self._is_leader_inside(stream, host)]
        ahead = [host for host in leaders if stream.highest_of(host) > own]
        if ahead:
            core.branch("option-1")
            return self._best(stream, ahead)
        equal = [host for host in leaders if stream.highest_of(host) == own and stream.order(host) > order]
        if equal:
            core.branch("option-2")
            return max(equal, key=stream.order)
        return None

    def find_parent_outside(self, stream: Stream, candidates: list[SiteId]) -> SiteId | None:
        """Cases I and II, option 3: a host elsewhere that has more than this host, or than its parent."""
        core = self._core
        reference = stream.highest if stream.parent is None else stream.highest_of(stream.parent)
        ahead = [host for host in candidates if host not in core.clusters and stream.highest_of(host) > reference]
        if not ahead:
            return None
        core.branch("case-1-option-3" if stream.parent is None else "case-2-option-3")
        return self._best(stream, ahead)

    def find_leader_above(self, stream: Stream, news_of: SiteId | None = None) -> None:
        """Case III: attach to the ancestor that is a cluster leader; break a cycle if there is one. With `news_of`,
        only if it is that one."""
        core = self._core
        path: list[SiteId] = []
        at = stream.parent
        while at is not None and at not in path and at != core.site:
            path.append(at)
            above = stream.pointers.get(at)
            if above is None or above not in core.clusters:
                break
            at = above
        if at == core.site:
            if news_of is None:
                self.break_cycle(stream, path)
        # Pointers are late: who follows an old one to a host that has less would put itself above its own ancestors.
        elif path[-1] == at != stream.parent and stream.highest_of(at) >= stream.highest and news_of in (None, at):
            core.branch("case-3")
            self.attach(stream, at)

    def break_cycle(self, stream: Stream, path: Iterable[SiteId]) -> None:
        """A cycle within the cluster: the host with the highest order number becomes a cluster leader.

        It takes pointers that were late, a cycle over several clusters, and these clusters growing into one (4.3); no
        campaign has seen it, so it is no branch of note.
        """
        if all(stream.order(host) < stream.order(self._core.site) for host in path):
            self._core.branch("cycle-broken")
            self._let_go(stream)
            self.new_parent(stream)

    def _candidates(self, stream: Stream, passed_over: SiteId | None) -> list[SiteId]:
        """Hosts that are alive and whose known pointers do not lead here.

        (Cycles are broken anyway, by case III or by option 3 of case II. But then messages wait until somebody else is
        ahead of the whole cycle, and every host on it has had the gap fillers of the others twice.)
        """
        core = self._core
        return [
            host
            for host in stream.others
            if host not in (passed_over, stream.parent)
            and core.hearing.is_reachable(host)
            and not stream.leads_to(host, core.site)
        ]

    def _is_leader_inside(self, stream: Stream, host: SiteId) -> bool:
        clusters = self._core.clusters
        return host in clusters and stream.pointers.get(host) not in clusters

    def _best(self, stream: Stream, hosts: list[SiteId]) -> SiteId:
        """Who has most, since that is who gets messages first; of equals the nearest.

        A late joiner catches up from the nearest instead: else all that it lacks takes a long way. Who is ahead of its
        parent it sees afterwards (option 3 of case II).
        """
        distance = self._core.clusters.distance
        lacks = max(map(stream.highest_of, hosts)) - stream.highest
        if lacks > self._core.options.gap_messages_max:
            return min(hosts, key=lambda host: (distance(host), -stream.highest_of(host), -stream.order(host)))
        return max(hosts, key=lambda host: (stream.highest_of(host), -distance(host), stream.order(host)))

    # ------------------------------------------------------------------ DECLARE, ADOPT, DETACH
    def attach(self, stream: Stream, parent: SiteId) -> None:
        """Choose a parent, tell it, and tell the old one."""
        core = self._core
        self._let_go(stream)
        stream.set_parent(parent)
        stream.declared = True
        core.exchange.send_at_once(parent, Declare(stream.id, stream.numbers))
        core.set_timer(("np2", stream.index), stream.patience * core.options.np2_seconds)

    def _let_go(self, stream: Stream) -> None:
        old = stream.parent
        if old is not None:
            if stream.declared:
                self._core.cancel_timer(("np2", stream.index))
            stream.set_parent(None)
            self._core.exchange.send_at_once(old, Detach(stream.id))

    def refuse(self, stream: Stream, sender: SiteId) -> None:
        """A host that is not the parent sends new messages: it believes that this one is its child.

        Once for each exchange, not for each message: a new child of an old parent gets many at once.
        """
        if sender not in stream.refused:
            stream.refused.add(sender)
            self._core.exchange.send_at_once(sender, Detach(stream.id))

    def lose_parent(self, stream: Stream) -> None:
        """The parent has not been heard over several exchanges, or has lost its memory."""
        self._core.branch("parent-lost")
        self._let_go(stream)

    def on_declare(self, sender: SiteId, stream: Stream, item: Declare, stamp: int) -> None:
        """NEW-CHILD: fill its gaps and confirm. The INFO set comes with the request: what MAP has is older."""
        stream.learn(sender, item.numbers)
        self.note_pointer(sender, stream, self._core.site, stamp)
        if sender in stream.children:
            self._core.gaps.fill(stream, sender)
            self._core.exchange.send_at_once(sender, Adopt(stream.id))

    def on_adopt(self, sender: SiteId, stream: Stream) -> None:
        """NEW-PARENT-ACKNOWLEDGED. Who is not the parent is an old one that never heard of it."""
        if sender == stream.parent:
            if stream.declared:
                stream.declared = False
                self._core.cancel_timer(("np2", stream.index))
        else:
            self._core.branch("old-parent-adopts")
            self.refuse(stream, sender)

    def on_detach(self, sender: SiteId, stream: Stream, stamp: int) -> None:
        """DETACH-A-CHILD, unless the host has said something else since."""
        if stamp >= stream.stamps.get(sender, 0) and stream.remove_child(sender):
            stream.stamps[sender] = stamp

    def note_pointer(self, sender: SiteId, stream: Stream, parent: SiteId | None, stamp: int) -> None:
        """UPDATE-PARENT-POINTERS. Who names this host is its child, and who names another is not.

        So every exchange repeats DECLARE and DETACH. (Else: a DETACH is overtaken by the DECLARE of the same host,
        which changed its mind twice. It believes in a parent that it hears, and that sends it nothing, for ever.)
        """
        if stamp < stream.stamps.get(sender, 0):
            self._core.branch("old-pointer")
            return
        stream.stamps[sender] = stamp
        stream.pointers[sender] = parent
        if parent == self._core.site:
            stream.add_child(sender)
        elif stream.remove_child(sender):
            self._core.branch("child-went")

    def check_invariants(self) -> None:
        """Nobody is known to have less than his child, and a source has no parent."""
        site = self._core.site
        for stream in self._core.streams.values():
            if stream.parent is not None and stream.highest_of(stream.parent) < stream.highest:
                raise InvariantViolation(
                    f"{site} has message {stream.highest} of {stream.id.source}, and its parent {stream.parent} "
                    f"is not known to have more than {stream.highest_of(stream.parent)}"
                )
            if stream.is_source and stream.parent is not None:
                raise InvariantViolation(f"the source {site} has the parent {stream.parent}")
