"""How a site comes back that the others have gone on without (Spauster 7.1.1, R3 of 6.3): at the current message, or by
taking back the tail of its deliveries and delivering what it missed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ordercast.core import GroupId, MessageId, Multicast, Part
from ordercast.core.effects import EnterGroup, ExitGroup, Replay, Rollback, Withdraw
from ordercast.protocols.propagation_graph.relaxed.graphs import Graph, Listed
from ordercast.protocols.propagation_graph.relaxed.history import Held

if TYPE_CHECKING:
    from ordercast.protocols.propagation_graph.relaxed.core import RelaxedGraph


class Rejoining(Part):
    """What of a site's deliveries stands when it comes back.

    With `rejoin = "skip"` all of it, and what it missed never comes. With `rejoin = "rollback"` what is in the agreed
    order, up to the first message that is not at its place; the rest is taken back, the latest first, and the site
    delivers the agreed order from there on. Where that is not kept any more, it takes back all that was not everywhere,
    and goes on at the current message. (If it did not: c has delivered m' m, the others m m', and both are up.)
    """

    branches = ("rejoined-by-skip", "rejoined-by-rollback", "rejoined-by-fallback")

    def __init__(self, core: RelaxedGraph) -> None:
        self._core = core
        self.tail: dict[MessageId, Multicast] = {}
        """After a crash: what is in the log and the application may not have seen. It is not to see it before this
        site is in the next graph. (Else: y has logged m' m and crashes before it delivers them; the others, who had
        neither, deliver m m'; y comes back and delivers m' m, and has not failed since.)"""
        self.skipped: set[MessageId] = set()
        """What this site goes on behind, of the order of a graph that does not run yet."""

    # ------------------------------------------------------------------ what stands
    def can_undo(self, graph: Graph, order: list[Listed]) -> bool:
        """Whether this site can follow the agreed order of messages to it by taking back what it remembers: what it has
        had and forgotten stands at the beginning.

        (Else: a and e alone have c1, and e knows that and forgets it; both fail; a is back first, nobody there knows
        c1, and it is ordered behind c4, which e lacks. e goes on behind both.)
        """
        if self._core.site not in graph.undoing:
            return False
        lacks = [self.may_lack(item) for item in order]
        return lacks == sorted(lacks)

    def may_lack(self, item: Listed) -> bool:
        """Whether a message of the order is not one that this site has had and forgotten, or goes on behind."""
        history = self._core.history
        held = history.held.get(item.id)
        if held is not None:
            return not held.passed
        return item.id not in self.skipped and not history.is_settled(item.id, item.groups)

    def take_back(self, order: list[Listed], undoes: bool) -> list[Held]:
        """What does not stand, in the order of its deliveries; `order` is the agreed one, of messages to this site."""
        core = self._core
        back = [held for held in core.history.held.values() if held.stands and core.is_own(held.multicast)]
        if undoes:
            back = self._find_displaced(back, order)
            for held in back:
                core.history.note_undone(held)
        else:
            for held in core.history.held.values():
                if core.is_own(held.multicast):
                    held.undone, held.passed = False, True
            self.skipped.update(item.id for item in order)
        for held in back:
            core.count(held.multicast, -1)
        return back

    @staticmethod
    def _find_displaced(standing: list[Held], order: list[Listed]) -> list[Held]:
        """The first message that is not at its place, and all behind it."""
        ordered, agreed = {item.id for item in order}, iter(order)
        for at, held in enumerate(standing):
            # What is not in the order was everywhere before it.
            if held.multicast.id in ordered and next(agreed).id != held.multicast.id:
                return standing[at:]
        return []

    # ------------------------------------------------------------------ telling the application
    def rejoin(self, undoes: bool, back: list[Held]) -> None:
        """This site comes back. The graph is in the log, and with it what is taken back. (Else: c takes m' m back,
        crashes, finds both in its log, and delivers them again as they were.)"""
        core = self._core
        core.shares.fail(core.now)
        # What the application takes from now on may be what was taken back before.
        core.untaken.clear()
        core.untaken_bytes = 0
        self._tell(back, recalled=False)
        if undoes:
            core.branch("rejoined-by-rollback")
            return
        core.branch("rejoined-by-fallback" if core.takes_back else "rejoined-by-skip")
        self.drop_waiting(str(core.number))

    def drop_waiting(self, view: str) -> None:
        """What the application has not been given, and was to get with the next share, it does not get any more."""
        self._core.outbox.append(Withdraw())
        self._replay_seen(view)

    def enter_again(self, group: GroupId, was_in: bool) -> None:
        """Behind a gap, at the offset of the others; or for the first time."""
        if was_in:
            self._core.outbox.append(ExitGroup(group))
        self._core.outbox.append(EnterGroup(group, self._core.counts[group]))

    def _tell(self, back: list[Held], recalled: bool) -> None:
        """Take these back. Of what is still in the tail of the log the application has heard before the crash, or
        never."""
        core = self._core
        for held in reversed(back):
            waits = self.tail.pop(held.multicast.id, None) is not None
            view = str(core.number) if waits or recalled else None
            core.outbox.append(Rollback(held.multicast, view, handed=not waits))

    def _replay_seen(self, view: str | None) -> None:
        """What the application has seen of the tail before a crash stands before the gap."""
        for multicast in self.tail.values():
            self._core.outbox.append(Replay(multicast, view=view, seen=True))
        self.tail.clear()

    def on_share_held(self) -> None:
        """What the log has, and the application may not have seen, comes first."""
        for multicast in self.tail.values():
            self._core.outbox.append(Replay(multicast, view=str(self._core.number)))
        self.tail.clear()

    # ------------------------------------------------------------------ reading the log
    def recall(self, multicast: Multicast) -> None:
        """A message was delivered, or was about to be."""
        self.tail[multicast.id] = multicast

    def recall_entered(self, goes_on: bool, back: list[Held]) -> None:
        """A graph was entered, and not behind a gap, or so; what was everywhere by then, the application has seen."""
        core = self._core
        self._tell(back, recalled=True)
        if goes_on:
            self.replay_but(set(core.history.held))
            return
        self._replay_seen(None)

    def recall_gone(self) -> None:
        """A graph has begun without this site: what was everywhere by then, the application has seen."""
        self._replay_seen(None)

    def replay_but(self, waiting: set[MessageId]) -> None:
        """The application has seen the tail, but for what is not known to be everywhere."""
        for message in [message for message in self.tail if message not in waiting]:
            self._core.outbox.append(Replay(self.tail.pop(message)))

    def words(self, group: GroupId, back: list[Held]) -> str:
        """For the log; empty: nothing was taken back there."""
        count = sum(held.multicast.count for held in back if group in held.multicast.groups)
        return f"took back {count} {'delivery' if count == 1 else 'deliveries'}" if count else ""
