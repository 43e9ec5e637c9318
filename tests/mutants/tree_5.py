"""Mutants of Protocol 5 (Spauster 1991, 7.2.2)."""

from __future__ import annotations

from ordercast.core import GroupId, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.tree_5 import Tree5
from ordercast.protocols.tree_5.member import Member
from ordercast.protocols.tree_5.packets import NewRoot, Pass, Submit
from tests.mutants.registry import mutant


class CountsTooEarly(Member):
    """(E) as printed: L_s is computed before the root catches up."""

    def on_pass(self, sender: SiteId, packet: Pass) -> None:
        source = packet.multicast.id.source
        before = self.stream(source).released
        super().on_pass(sender, packet)
        if not self.open:
            self.stream(source).released = before


@mutant(Tree5, "make_member", caught_by="no-duplication")
def counts_sources_before_it_catches_up(self: Tree5, group: GroupId, ranks: tuple[SiteId, ...]) -> Member:
    """What the new root has caught up with does not raise L_s: after the opening it is taken from its source again."""
    return CountsTooEarly(self, group, ranks)


class HelpsNobody(Member):
    """(F) as printed: nobody helps who is behind, and nobody asks."""

    def _help(self, site: SiteId) -> None:
        self.answered[site] = self.place

    def ask(self, last: int) -> None:
        return None


@mutant(Tree5, "make_member", caught_by="termination")
def helps_nobody_who_is_behind(self: Tree5, group: GroupId, ranks: tuple[SiteId, ...]) -> Member:
    """A site that lacks what the new root has is sent nothing, and waits for ever."""
    return HelpsNobody(self, group, ranks)


class OpensAtOnce(Member):
    """(H) without its wait."""

    def on_silence(self) -> None:
        super().on_silence()
        if not self.open:
            self.on_open()


@mutant(Tree5, "make_member", caught_by="R2-multiple-source")
def opens_before_it_has_caught_up(self: Tree5, group: GroupId, ranks: tuple[SiteId, ...]) -> Member:
    """The new root gives places that others have filled otherwise."""
    return OpensAtOnce(self, group, ranks)


class AsksNoSource(Member):
    """A null that tells of a gap is ignored."""

    def on_null(self, source: SiteId, highest: int) -> None:
        return None


@mutant(Tree5, "make_member", caught_by="termination")
def asks_no_source_for_what_died_with_the_root(self: Tree5, group: GroupId, ranks: tuple[SiteId, ...]) -> Member:
    """The new root does not ask a source for the last messages that only the old root had."""
    return AsksNoSource(self, group, ranks)


class TakesWhatComes(Member):
    """(B) without the numbers of the source."""

    def accept(self, source: SiteId, packet: Submit) -> None:
        stream = self.stream(source)
        if self.is_root and self.open and packet.number > stream.released + 1:
            stream.released = packet.number - 1
        super().accept(source, packet)


@mutant(Tree5, "make_member", caught_by="termination")
def does_not_wait_for_the_number_before(self: Tree5, group: GroupId, ranks: tuple[SiteId, ...]) -> Member:
    """A root that hears of message 5 first delivers it, and takes 4 for an old one."""
    return TakesWhatComes(self, group, ranks)


@mutant(Tree5, "on_new_root", caught_by="termination")
def stays_with_the_old_root(self: Tree5, sender: SiteId, packet: NewRoot, arrival: Arrival) -> None:
    """A source hears of a new root and submits to the old one as before, from the second succession on."""
    if packet.epoch == 1:
        Tree5.on_new_root(self, sender, packet, arrival)
