"""What the application of a site asks of a dynamic protocol, and which other sites it has found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ordercast.core import MAIN_INSTANCE, GroupId, SiteId, UsageError
from ordercast.core.events import Discovered
from ordercast.runtime import Instance
from ordercast.sim.change import Change

if TYPE_CHECKING:
    from ordercast.sim.site.site import SimulatedSite

DISCOVERY_SECONDS = 0.2
"""So long a site that begins looks for others before its search has had its time."""


class Membership:
    """The wishes of one application. They outlive crashes: an application that is started again asks again for what
    has not come about."""

    def __init__(self, site: SimulatedSite) -> None:
        self._site = site
        self._wishes: dict[GroupId, Change] = {}
        """Group -> the last join or leave that was asked for, the join with the role and service chosen since."""
        self._chosen: dict[GroupId, dict[str, str]] = {}
        """The role and the service that were chosen in groups in which the site is since the start."""
        self._open: set[GroupId] = set()
        """Where it has not been answered."""
        self._next: dict[GroupId, Change] = {}
        """Joins that wait until a group is left."""
        self._found: set[SiteId] = set()
        self._settled = False

    @property
    def unanswered(self) -> tuple[Change, ...]:
        """What was asked for, and neither came about nor was refused."""
        return tuple(self._wishes[group] for group in sorted(self._open))

    @property
    def is_outside(self) -> bool:
        """Whether the site is in no group of a dynamic protocol: nobody takes what its application multicasts."""
        instance = self._site.instances.get(MAIN_INSTANCE)
        if instance is None or not instance.contract.dynamic:
            return False
        return not any(self._site.name in members for members in instance.core.groups.values())

    # ------------------------------------------------------------------ asking
    def ask(self, change: Change) -> None:
        """The application asks, at once or when the instance has started. What it leaves, it joins again when it has
        left."""
        group = change.group
        if change.kind == "join" and group in self._open and self._wishes[group].kind == "leave":
            self._next[group] = change
        elif MAIN_INSTANCE in self._site.instances:
            self._site.processor.do(self._request, change)
        else:
            self._note(change)

    def _note(self, change: Change) -> None:
        group = change.group
        if change.kind in ("join", "leave"):
            self._wishes[group] = change
            self._open.add(group)
            self._chosen.pop(group, None)
        elif not change.sources:
            chosen = {"role": change.role} if change.kind == "role" else {"service": change.service}
            if group in self._wishes:
                self._wishes[group] = replace(self._wishes[group], **chosen)
            else:
                self._chosen[group] = self._chosen.get(group, {}) | chosen

    def _request(self, now: float, change: Change) -> None:
        instance = self._site.instances.get(MAIN_INSTANCE)
        simulation = self._site.simulation
        if instance is None:
            return
        group = change.group
        before, was_open = self._wishes.get(group), group in self._open
        # Before the instance is asked, for it may answer at once.
        self._note(change)
        try:
            if change.kind == "join":
                instance.join(now, change.group, change.role, change.service)
            elif change.kind == "leave":
                instance.leave(now, change.group)
            elif change.kind == "role":
                instance.choose_role(now, change.group, change.role)
            else:
                instance.choose_service(now, change.group, change.service, change.sources)
        except UsageError as error:
            # (A join and a leave were both asked for before the start: the instance has never heard of the join, and
            # the leave that it refuses now has come about.)
            if before is not None and was_open and before is not change:
                self._wishes[group] = before
            else:
                self._open.discard(group)
            simulation.refused_requests.append(f"{self._site.name}: {error}")
        else:
            if change.kind not in ("join", "leave"):
                simulation.change_counts[change.kind] += 1

    def inherit(self, before: Membership, groups: tuple[GroupId, ...]) -> None:
        """The application is that of a site that has crashed, started again: it wants to be where that was."""
        at = self._site.simulation.queue.now
        place = self._site.place
        self._wishes = {
            group: replace(Change(kind="join", at=at, sites=(place,), group=group), **before._chosen.get(group, {}))
            for group in groups
        }
        self._wishes |= before._wishes
        self._wishes = {group: wish for group, wish in self._wishes.items() if wish.kind == "join"}
        self._open = set(self._wishes)

    # ------------------------------------------------------------------ answers
    def entered(self, group: GroupId) -> None:
        """The site is in a group."""
        self._answer(group, "join")

    def exited(self, group: GroupId) -> None:
        """The site is out of a group."""
        self._answer(group, "leave")

    def _answer(self, group: GroupId, kind: str) -> None:
        if group in self._open and self._wishes[group].kind == kind:
            self._open.discard(group)
            self._site.simulation.change_counts[kind] += 1
            if group in self._next:
                self.ask(self._next.pop(group))

    def refused(self, group: GroupId) -> None:
        """A join will not come about."""
        self._open.discard(group)

    # ------------------------------------------------------------------ the others
    def start(self, found: set[SiteId], settled: bool) -> None:
        """The instance has started, and these are its first finds. What it does not know of the application's wishes,
        it is asked again."""
        self._found = found
        self._settled = settled
        self._tell()
        if not settled:
            self._look_on(self._site.incarnation)
        groups = self._site.instances[MAIN_INSTANCE].core.groups
        for group, wish in self._wishes.items():
            # A leave that was not answered may not have been logged either, and the join before it was.
            unheard = wish.kind == "leave" and group in self._open
            if unheard or (wish.kind == "join") != (self._site.name in groups.get(group, ())):
                self._site.processor.do(self._request, wish)

    def find(self, site: SiteId) -> None:
        """Another site has begun."""
        if site not in self._found:
            self._found.add(site)
            self._tell()

    def _look_on(self, life: int) -> None:
        queue = self._site.simulation.queue
        queue.schedule(queue.now + DISCOVERY_SECONDS, self._settle, life)

    def _settle(self, life: int) -> None:
        """The search has had its time. (Not while somebody is down whom it has not found, and who comes back: a site
        that founds a group beside one that comes back from its logs would split it.)"""
        site = self._site
        if site.up and site.incarnation == life:
            if site.simulation.nobody_is_missing(site, self._found):
                self._settled = True
                self._tell()
            else:
                self._look_on(life)

    def _tell(self) -> None:
        event = Discovered(tuple(sorted(self._found)), self._settled)
        for instance in self._site.instances.values():
            if instance.contract.dynamic:
                self._site.processor.do(self._hand_over, (instance, event))

    def _hand_over(self, now: float, told: tuple[Instance, Discovered]) -> None:
        instance, event = told
        if instance.alive:
            instance.handle(now, event)
