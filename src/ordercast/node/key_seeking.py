"""How a process that comes to a group behind a gap learns which keys were used there, and how it tells others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from ordercast.core import GroupId, SiteId
from ordercast.node.engine import Engine
from ordercast.node.keys import KeysAt
from ordercast.node.receiver import Receiver
from ordercast.node.state_giving import Head
from ordercast.node.state_packets import Offer, WantKeys, recut
from ordercast.node.state_transfer import StateTransfer

ASK_AGAIN_SECONDS = 0.25
"""Until a question is asked again, of the same one or of the next."""

GIVE_UP_SECONDS = 5.0
"""Then deliveries that wait for the answer go on without it."""

NOT_SHARED = (1 << 63) - 1
"""An offset that nothing has: what is given to one asker is not given to another, who has asked for something else."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(KeysAt).decode


class KeySeeker:
    """The search for the keys of one group."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transfer: StateTransfer,
        group: GroupId,
        since: int,
        others: Callable[[], list[SiteId]],
        on_keys: Callable[[GroupId, KeysAt | None], None],
    ) -> None:
        """`others` are those who may be asked, the best one first; `on_keys` gets what one of them knows, or None when
        nobody does. All deliveries from `since` on are here."""
        self._loop = loop
        self._transfer = transfer
        self._group = group
        self._since = since
        self._others = others
        self._on_keys: Callable[[GroupId, KeysAt | None], None] | None = on_keys
        self._tried: set[SiteId] = set()
        self._number = 0
        self._began = loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._next()

    def _next(self) -> None:
        """Ask somebody who was not asked yet; when there is nobody, begin again after a while."""
        self.stop()
        others = self._others()
        giver = next((site for site in others if site not in self._tried), None)
        if not others or self._loop.time() - self._began > GIVE_UP_SECONDS:
            self._end(None)
        elif giver is None:
            self._tried.clear()
            self._timer = self._loop.call_later(ASK_AGAIN_SECONDS, self._next)
        else:
            self._number = self._transfer.draw_number()
            self._transfer.take(self._number, self._group, giver, self)
            self._ask(giver, self._number)

    def _ask(self, giver: SiteId, number: int) -> None:
        """And again, should it get lost: until the giver says what it has, it is not known whether it was asked."""
        if self._loop.time() - self._began > GIVE_UP_SECONDS:
            self._next()
        elif number == self._number:
            self._transfer.ask_for_keys(giver, number, self._group, self._since)
            self._timer = self._loop.call_later(ASK_AGAIN_SECONDS, self._ask, giver, number)

    def stop(self) -> None:
        """Seek no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._number:
            self._transfer.give_up(self._number)
            self._number = 0

    def _end(self, told: KeysAt | None) -> None:
        on_keys, self._on_keys = self._on_keys, None
        self.stop()
        if on_keys is not None:
            on_keys(self._group, told)

    # ------------------------------------------------------------------ what the transfer says
    def accepts(self, offer: Offer) -> bool:
        """Whether it stands where everything since is here."""
        return offer.offset >= self._since

    def waits_for(self, giver: SiteId) -> bool:
        """Whether it is still in the group."""
        return giver in self._others()

    def on_state(self, giver: SiteId, offer: Offer, content: bytearray) -> None:
        """They are here."""
        self._number = 0
        try:
            told = _decode(content)
        except msgspec.DecodeError:
            self.on_no_state(giver, "not a list of keys")
            return
        if told.since > self._since or told.offset < self._since:
            self.on_no_state(giver, "it has forgotten too much")
        else:
            self._end(told)

    def on_no_state(self, giver: SiteId, reason: str) -> None:
        """Somebody does not know them, or has died meanwhile."""
        self._number = 0
        self._tried.add(giver)
        self._next()

    def on_followed(self, giver: SiteId) -> None:
        """Nobody says that of keys."""
        self.on_no_state(giver, "no answer")


class KeySeeking:
    """All that one process asks and answers about keys."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, engine: Engine, transfer: StateTransfer, receiver: Receiver
    ) -> None:
        self._loop = loop
        self._engine = engine
        self._transfer = transfer
        self._receiver = receiver
        self._seekers: dict[GroupId, KeySeeker] = {}
        transfer.on_keys_wanted = self._answer
        receiver.on_lacking = self._begin

    def _begin(self, group: GroupId, since: int) -> None:
        """Keys are needed that others have to tell. Nobody is asked before the turn has ended."""

        def seek() -> None:
            self._seekers[group] = KeySeeker(
                self._loop, self._transfer, group, since, lambda: self._others(group), self._learn
            )

        self.stop(group)
        self._loop.call_soon(seek)

    def _others(self, group: GroupId) -> list[SiteId]:
        """The other members of a group, those who are there first; each process begins with another one."""
        own, present = self._engine.process, self._engine.endpoint.present
        members = [site for site in self._engine.groups.get(group, ()) if site != own]
        return sorted(members, key=lambda site: (site not in present, site > own, site))

    def _learn(self, group: GroupId, told: KeysAt | None) -> None:
        self._seekers.pop(group, None)
        # In a turn of its own, as any delivery: what was held goes to the application, whose mistakes end the node.
        self._engine.site.step(lambda _now: self._receiver.learn_keys(group, told))

    def _answer(self, asker: SiteId, want: WantKeys) -> None:
        told = self._receiver.keys_at(want.group, want.since)
        if told is None:
            self._transfer.refuse(asker, want.transfer, "it does not know all keys itself")
            return
        head, content = Head(f"{want.group} (keys)", told.offset, ""), _encode(told)
        self._transfer.give(asker, want.transfer, NOT_SHARED, head, lambda done: done(tuple(recut((content,)))))

    def stop(self, group: GroupId) -> None:
        """Nobody needs them any more."""
        seeker = self._seekers.pop(group, None)
        if seeker is not None:
            seeker.stop()

    def end(self) -> None:
        """Ask nothing any more."""
        for group in tuple(self._seekers):
            self.stop(group)
