"""The source: what this site's application multicasts, until it is committed (Spauster 2.3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ordercast.core import InvariantViolation, Multicast, Part, SiteId, UsageError
from ordercast.core.effects import Credit
from ordercast.protocols.classic.token.backlog import WINDOW_BYTES
from ordercast.protocols.classic.token.packets import Data
from ordercast.protocols.classic.token.packing import pack
from ordercast.protocols.classic.token.records import Own, State
from ordercast.protocols.classic.token.turns import Entry, life_start, message_bytes

if TYPE_CHECKING:
    from ordercast.protocols.classic.token.protocol import Token

RETRY_PACKETS_MAX = 4
"""What a source sends again at a time. A token site that has some of its messages acknowledges them, and the others
follow; and all of them when the source is the token site itself."""


class Source(Part):
    """This site's own messages, and how many more there may be."""

    timers = ("source",)
    records = (Own,)
    branches = ("source-retried",)

    def __init__(self, core: Token) -> None:
        self._core = core
        self._ordered = core.ledger.ordered
        self._number = 0
        """Of the last message, across crashes."""
        self._own: dict[int, Multicast] = {}
        """The messages that are not committed."""
        self._own_bytes = 0
        self._retries = 0
        self._ordered_at_retry = 0

    def multicast(self, multicast: Multicast) -> None:
        """Number it, log it, broadcast it to the list."""
        core, own = self._core, self._own
        core.changes.check_source()
        if len(own) >= core.backlog.messages_max:
            raise UsageError(f"{len(own)} messages of {core.site} are on their way: wait for credit")
        self._number = number = self._number + 1
        core.append(Own(number, multicast))
        self._keep(number, multicast)
        core.backlog.keep(core.site, number, (multicast,))
        core.send(core.ring.peers(), Data(number, (multicast,)))
        if len(own) == 1:
            self._retries = 0
            self._watch(self._ordered.get(core.site, 0))
        core.ring.take_token()

    def _keep(self, number: int, multicast: Multicast) -> None:
        self._own[number] = multicast
        self._own_bytes += message_bytes(multicast)

    def _watch(self, ordered: int) -> None:
        """Until they are acknowledged."""
        self._ordered_at_retry = ordered
        self._core.set_timer("source", self._core.patience.retry_after(self._retries + 1))

    def on_source_timeout(self) -> None:
        """Broadcast again what nobody has acknowledged; after R times in vain, and no token site heard, that is a
        failure.

        When the history is full nobody may acknowledge, and that is no failure. Nor is it one while a list is being
        formed. (Else: every source originates a list of its own before any of the others' can begin.)
        """
        if not self._own:
            return
        core = self._core
        ordered = self._ordered.get(core.site, 0)
        waiting = [(core.site, number, multicast) for number, multicast in self._own.items() if number > ordered]
        if ordered > self._ordered_at_retry or not waiting or core.settlement.is_full:
            self._retries = 0
        else:
            core.branch("source-retried")
            self._retries += 1
            for _site, number, multicast in waiting:
                core.backlog.keep(core.site, number, (multicast,))
            self._send(waiting, RETRY_PACKETS_MAX)
            if self._retries > core.options.retries and core.stable.in_normal_phase:
                self._retries = 0
                core.probing.suspect("no acknowledgement")
        self._watch(ordered)

    def _send(self, messages: list[tuple[SiteId, int, Multicast]], packets_max: int) -> None:
        peers = self._core.ring.peers()
        for packet in pack(messages, packets_max):
            self._core.send(peers, packet)

    @property
    def is_done(self) -> bool:
        """Whether everything that this site has multicast is committed."""
        return not self._own

    def forgive(self) -> None:
        """A token site was heard, or a new list begins: silence counts from here on."""
        self._retries = 0

    def release(self, entries: Iterable[Entry]) -> bool:
        """These are committed: whether messages of this site are among them."""
        site, found = self._core.site, False
        for entry in entries:
            for run in entry.turn.runs:
                if run.first.source == site:
                    found = True
                    for number in range(run.source_number, run.source_number + run.count):
                        self._release(number)
        return found

    def skip(self, ordered: int) -> None:
        """The history goes on behind a gap, in which everything up to this number was ordered: the others have it, and
        nothing of it is sent again."""
        for number in [own for own in self._own if own <= ordered]:
            self._release(number)

    def _release(self, number: int) -> None:
        released = self._own.pop(number, None)
        if released is not None:
            self._own_bytes -= message_bytes(released)

    def give_credit(self) -> None:
        """Tell the application how much it may send; nothing while this site does not know how to go on."""
        core = self._core
        wait = core.loss.lost or self._own_bytes >= WINDOW_BYTES
        core.outbox.append(Credit(0 if wait else max(0, core.options.window_messages - len(self._own))))

    def begin_life(self, life: int) -> None:
        """This site has lost its log: go on with numbers that it cannot have used."""
        self._number = life_start(life)

    # ------------------------------------------------------------------ stable storage
    def stable_state(self) -> tuple[int, tuple[tuple[int, Multicast], ...]]:
        """For a checkpoint: the last number, and the messages that are not committed."""
        return self._number, tuple(self._own.items())

    def restore(self, state: State) -> None:
        """As the checkpoint says."""
        self._number = state.own_number
        for number, multicast in state.own:
            self._keep(number, multicast)

    def recall_own(self, record: Own) -> None:
        """A message of this site."""
        self._number = record.source_number
        self._keep(record.source_number, record.multicast)

    def resume(self) -> None:
        """The log has been read: what is not acknowledged waits for that."""
        for number, multicast in self._own.items():
            self._core.backlog.keep(self._core.site, number, (multicast,))

    def send_again(self) -> None:
        """After a crash, before anything new: the log has messages that may never have left.

        (Otherwise: message 4 is in the log, crash, the application multicasts 5, and to all the world 5 was multicast
        first.)
        """
        if self._own:
            own = [(self._core.site, number, multicast) for number, multicast in self._own.items()]
            self._send(own, len(own))
            self._watch(self._ordered.get(self._core.site, 0))

    def check_invariants(self) -> None:
        """What is kept is not committed, and is bounded."""
        core, own = self._core, self._own
        if own and min(own) <= core.ledger.committed_source_number(core.site):
            raise InvariantViolation(f"message {min(own)} of {core.site} is committed and still kept as its own")
        if len(own) > core.backlog.messages_max:
            raise InvariantViolation(f"{len(own)} messages are on their way, at most {core.backlog.messages_max} may")
