"""What a site remembers of the others' logs, so that one that has lost its history is noticed.

Every effect leaves a site only when its log is stable up to a position, and that position travels with it. A site
whose log ends earlier when it comes back has forgotten what others rely on: it must not go on.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ordercast.core.identifiers import SiteId

ROLL_CALL_SECONDS = 1.0
"""A site that starts waits so long for the greetings of the others, at the most: whoever is silent for longer is taken
as down."""


def describe_loss(position: int, heard: int) -> str:
    """What it means that a log ended at a position when its owner started, and a higher one was heard before."""
    return (
        f"its log had {position} record{'s' * (position != 1)} when it started, and {heard} when it was heard before: "
        f"what it acknowledged since is lost (a backup was restored, the disk returned to an earlier state, or its "
        f"folder was emptied)"
    )


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    peer: SiteId
    incarnation: int
    boot: bytes
    position: int


class _Greeted(msgspec.Struct, frozen=True):
    position: int
    life: tuple[int, bytes]
    began: int


_decoder = msgspec.msgpack.Decoder(list[_Entry])


class Memory:
    """What one site has heard of the others. It is to be as stable as the site's own log: whatever a commit makes
    stable relies on nothing that was heard later."""

    def __init__(self) -> None:
        self.heard: dict[SiteId, int] = {}
        """The position up to which each peer's log was stable, as far as it was heard here."""
        self._lives: dict[SiteId, tuple[int, bytes]] = {}
        """The incarnation and the boot of each peer that was heard last."""
        self._greeted: dict[SiteId, _Greeted] = {}
        """Peers that were accepted and of which nothing was heard since."""
        self._changed: set[SiteId] = set()

    def note(self, peer: SiteId, position: int) -> None:
        """Something has come from a peer whose log is stable up to a position."""
        greeted = self._greeted.pop(peer, None)
        if greeted is not None:
            self._begin_life(peer, greeted)
        if position > self.heard.get(peer, 0):
            self.heard[peer] = position
            self._changed.add(peer)

    def judge(self, peer: SiteId, position: int, incarnation: int = 0, began: int = 0, boot: bytes = b"") -> str | None:
        """Why a peer must not go on whose log ended at `position` when it started; None when nothing speaks against it.

        `began` is the incarnation with which that log began: 0, or the one of a repair, before which nothing counts.
        A peer that was met in the life in which it is now has lost nothing since.
        """
        heard = self.heard.get(peer, 0)
        if position >= heard or self._precedes(peer, began) or self._is_in_life(peer, (incarnation, boot)):
            return None
        return describe_loss(position, heard)

    def has_met_later(self, peer: SiteId, incarnation: int, boot: bytes = b"") -> bool:
        """Whether a later incarnation of the peer was here, or another boot of this one."""
        known = self._lives.get(peer)
        return known is not None and (incarnation < known[0] or (incarnation == known[0] and boot != known[1]))

    def meet(self, peer: SiteId, position: int, incarnation: int = 0, began: int = 0, boot: bytes = b"") -> None:
        """The peer is accepted. Its life counts when something is heard of it.

        (At once: b, which never heard of the lost end of c's log, accepts c after a rollback; d refuses c, which ends.
        Given the log that it had, c comes back with the same incarnation, and b takes it for an older one.)
        """
        if not self._is_in_life(peer, (incarnation, boot)):
            self._greeted[peer] = _Greeted(position, (incarnation, boot), began)

    def _begin_life(self, peer: SiteId, greeted: _Greeted) -> None:
        """From now on this is the life in which the peer is; what came before a repair is forgotten."""
        heard = 0 if self._precedes(peer, greeted.began) else self.heard.get(peer, 0)
        self.heard[peer] = max(heard, greeted.position)
        self._lives[peer] = greeted.life
        self._changed.add(peer)

    def _is_in_life(self, peer: SiteId, life: tuple[int, bytes]) -> bool:
        greeted = self._greeted.get(peer)
        return life == (self._lives.get(peer) if greeted is None else greeted.life)

    def _precedes(self, peer: SiteId, began: int) -> bool:
        """Whether all that was heard of the peer is from before the incarnation with which its log began."""
        return self._lives.get(peer, (0, b""))[0] < began

    # ------------------------------------------------------------------ on the disk
    @property
    def has_changed(self) -> bool:
        """Whether there is something that was not taken to the disk."""
        return bool(self._changed)

    def take_changes(self) -> bytes:
        """What has changed since this was asked last; nothing for nothing."""
        if not self._changed:
            return b""
        changed, self._changed = self._changed, set()
        return self._encode(sorted(changed))

    def everything(self) -> bytes:
        """All that there is to remember; nothing for nothing."""
        return self._encode(sorted(self.heard)) if self.heard else b""

    def restore(self, pieces: Iterable[bytes]) -> None:
        """Remember what was written, in whatever order: a later incarnation is right, and then a higher position."""
        for piece in pieces:
            for entry in _decoder.decode(piece):
                peer = entry.peer
                last = self._lives.get(peer, (-1, b""))[0]
                if (entry.incarnation, entry.position) > (last, self.heard.get(peer, -1)):
                    self._lives[peer] = entry.incarnation, entry.boot
                    self.heard[peer] = entry.position

    def _encode(self, peers: list[SiteId]) -> bytes:
        return msgspec.msgpack.encode(
            [_Entry(peer, *self._lives.get(peer, (0, b"")), self.heard[peer]) for peer in peers]
        )
