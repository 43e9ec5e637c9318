"""Loss: a site that has lost its log counts for nothing until a majority of the others has vouched for what it must
know, and the others no longer believe what it said before."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ordercast.core import Part, SiteId
from ordercast.core.events import Arrival
from ordercast.protocols.classic.token.packets import Join, Lost, News, Vouch, VouchOfRoster
from ordercast.protocols.classic.token.records import KnownLoss, LogLost, State
from ordercast.protocols.classic.token.rosters import Roster, check_roster, is_majority

if TYPE_CHECKING:
    from ordercast.protocols.classic.token.protocol import Token


class Loss(Part):
    """Who has lost its log, this site or another one.

    The site may have joined any list, and accepted any turn. So it waits for a list that it is not in, and that a
    majority of all sites, itself not counted, has installed; each of these knows of its loss first, and has joined no
    later list. It promises that version, and takes over what is committed there.

    - Lists up to that one: whatever was committed in them with the site's help is in the history with which that list
      begins, for the originator counted the site as missing in the test for resilience. The site joins none of them.
    - Later lists: it may have joined one of them before its loss. The originator needs a majority, so it asks one of
      those who have vouched. That one had not joined then, and its `Join` tells of the loss: what the site said in its
      life before does not count. (Else: of five, c joins list 7 of b and loses its log. a, d and e vouch for list 6, c
      returns, and a, d and c commit turn 9 there. Then e joins list 7. The majority of b, c and e begins it without
      turn 9.)
    """

    packets = (Lost, Vouch, VouchOfRoster)
    timers = ("loss",)
    records = (LogLost, KnownLoss)
    branches = ("vouched", "repaired")

    def __init__(self, core: Token) -> None:
        self._core = core
        self._ledger = core.ledger
        self.lost = False
        """Whether this site does not know what it has promised."""
        self._lives: dict[SiteId, int] = {}
        """Site that has lost its log -> the life in which it is since then."""
        self._vouchers: dict[SiteId, Vouch] = {}

    # ------------------------------------------------------------------ the lost site
    def begin(self, life: int) -> None:
        """The log is gone. That is the first thing in the new one: after a crash the site is as lost as before."""
        self._core.append(LogLost(life))
        self.recall_log_lost(LogLost(life))

    def ask(self) -> None:
        """Ask everybody to vouch."""
        core = self._core
        vouching = self._find_vouchers()
        needed = core.system.majority
        if core.system.are_majority(core.system.others):
            silent = ", ".join(sorted(site for site in core.system.others if site not in vouching))
            wait = f"it waits for {needed} of the others to vouch for a list without it, and for any of {silent}"
        else:
            wait = f"{needed} others would have to vouch for it, and there are not so many: all sites must begin anew"
        core.block("loss", f"{core.site} has lost its log: {wait}")
        core.send((*core.system.others, *core.system.strangers), Lost(self._lives[core.site]))
        core.set_timer("loss", core.patience.retry_after(1))

    def on_loss_timeout(self) -> None:
        """Not enough of them have vouched."""
        if self.lost:
            self.ask()

    def on_vouch(self, sender: SiteId, packet: Vouch, arrival: Arrival) -> None:
        """Somebody vouches. A majority for one list is enough, when somebody knows that what it begins with is
        committed."""
        core = self._core
        roster = packet.roster if isinstance(packet, VouchOfRoster) else None
        core.system.check_summary(packet.summary, roster)
        if not self.lost or packet.life != self._lives[core.site]:
            return
        self._vouchers[sender] = packet
        vouching = self._find_vouchers()
        best = max((self._vouchers[site] for site in vouching), key=lambda vouch: vouch.summary.number)
        lives = best.list_roster.sites if isinstance(best, VouchOfRoster) else core.system.configured.sites
        if is_majority(lives, vouching) and best.summary.number >= best.base:
            core.branch("repaired")
            core.reformation.note_version(best.version)
            core.stable.take_over(best.summary, best.version, best.roster if isinstance(best, VouchOfRoster) else None)
            core.probing.suspect("left out")

    def on_vouch_of_roster(self, sender: SiteId, packet: VouchOfRoster, arrival: Arrival) -> None:
        """The same."""
        check_roster(packet.list_roster)
        self.on_vouch(sender, packet, arrival)

    def hear_of(self, roster: Roster) -> None:
        """There is another roster than that of the configuration. When this site is in it in another life, or not at
        all, then nobody vouches for it: it comes again to the groups in which it is, if there are any."""
        core = self._core
        if self.lost and roster.life(core.site) != 0:
            core.changes.begin_again(roster.groups_of(core.site))

    def _find_vouchers(self) -> tuple[SiteId, ...]:
        """Those who vouch for the latest list."""
        latest = max((vouch.version for vouch in self._vouchers.values()), default=None)
        return tuple(site for site, vouch in self._vouchers.items() if vouch.version == latest)

    def end(self) -> None:
        """The site knows what it must know."""
        self.lost = False
        self._vouchers.clear()
        self._core.cancel_timer("loss")
        self._core.block("loss", "")

    # ------------------------------------------------------------------ the others
    def on_lost(self, sender: SiteId, packet: Lost, arrival: Arrival) -> None:
        """Vouch, when this site takes part in a list without the other one. Else see that there is such a list.

        The token rests at one site, or stops at the one that has lost its log: the first one begins a new list here,
        and who waits for the second one does it anyway.
        """
        core, ledger = self._core, self._ledger
        if core.system.outside:
            return
        if packet.life > self._lives.get(sender, 0):
            record = KnownLoss(sender, packet.life)
            core.append(record)
            self.recall_known_loss(record)
        if not core.stable.in_normal_phase or packet.life != self._lives[sender]:
            return
        if core.system.roster.life(sender) != 0:
            core.send((sender,), News(ledger.committed_version, ledger.committed_roster))
        elif sender not in ledger.members:
            self._vouch(sender, packet.life)
        elif core.ring.holds_token:
            core.probing.suspect("a member has lost its log")

    def _vouch(self, to: SiteId, life: int) -> None:
        """Not for a list of which this site does not know that it was opened."""
        core, ledger = self._core, self._ledger
        vouch = (life, ledger.version, ledger.base, ledger.summary())
        if core.system.roster.is_configured:
            core.branch("vouched")
            core.send((to,), Vouch(*vouch))
        elif core.system.before is None:
            core.branch("vouched")
            core.send((to,), VouchOfRoster(*vouch, ledger.committed_roster, core.system.roster))

    def learn(self, lives: tuple[tuple[SiteId, int], ...]) -> None:
        """What somebody else knows of it, for a site that comes."""
        self._lives = dict(lives)

    def known_lives(self) -> tuple[tuple[SiteId, int], ...]:
        """Who has lost its log, as far as this site knows."""
        return tuple(self._lives.items())

    def without_old_lives(self, joins: dict[SiteId, Join]) -> dict[SiteId, Join]:
        """Those of the answers to an invitation whose senders have not lost their log since, as far as any of them
        knows."""
        current = Counter(self._lives)
        for join in joins.values():
            current |= Counter(dict(join.lives))
        return {site: join for site, join in joins.items() if dict(join.lives).get(site, 0) == current[site]}

    # ------------------------------------------------------------------ stable storage
    def recall_log_lost(self, record: LogLost) -> None:
        """See `begin`."""
        self.lost = True
        self._lives[self._core.site] = record.life
        self._core.source.begin_life(record.life)

    def recall_known_loss(self, record: KnownLoss) -> None:
        """See `on_lost`."""
        self._lives[record.site] = record.life

    def restore(self, state: State) -> None:
        """As the checkpoint says."""
        self._lives = dict(state.lives)
        self.lost = state.lost
