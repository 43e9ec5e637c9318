"""Changes: in two runs of three of a dynamic protocol, sites come and go while messages and faults are under way.

Each story is one that protocols get wrong: newcomers, two at once, leavers, those who come back, the last who leaves,
a group that begins later; and whoever asks may crash, die or be cut off while it does. They are drawn by a stream of
their own, so that all other runs are as they would be without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from random import Random
from typing import Final

import msgspec

from ordercast.campaign.swarm import round_trip
from ordercast.core import GroupId, SiteId, UsageError, log_uniform, random_stream
from ordercast.sim.change import Change, ChangeKind
from ordercast.sim.faults import AnyFault, Crash, Partition
from ordercast.sim.network_table import NetworkTable, ServersTable, TopologyTable, WideAreaTable
from ordercast.sim.scenario import Scenario, needs_log
from ordercast.sim.workload import Workload

SHARE: Final = 2 / 3
"""Of the runs."""
STORIES_MAX: Final = 3
NEWCOMERS: Final = ("p", "q", "r", "t")
NEW_GROUP: Final = "n"
FROM_NOTHING_SHARE: Final = 1 / 8
"""Of the runs with changes: they begin without any group, and whoever would be in one joins it first."""
MOMENTS_SHARE: Final = 1 / 6
"""Of the runs with changes: something happens within the very moments in which somebody is let in. Drawn apart, too."""
CALM_SECONDS: Final = 1.0
"""So long nothing has happened when somebody comes then: a list that is formed under faults takes any time."""
TROUBLE_SHARE: Final = 0.5
"""Of the stories, in which something happens to somebody while they are told."""
END: Final = 0.8
"""The share of the run after which nobody asks for anything: that has to come about under faults, too."""


def add_changes(scenario: Scenario, attempt: int) -> tuple[Scenario, tuple[SiteId, ...]]:
    """The scenario, in two seeds of three with changes, and the sites that never leave anything."""
    name = scenario.protocol.contract.name
    random = random_stream(scenario.seed, "changes", name)
    if not scenario.contract.dynamic or random.random() >= SHARE:
        return scenario, scenario.sites
    apart = random_stream(scenario.seed, "changes", name, "moments", attempt)
    moments = [story for story, fault in _MOMENTS if fault in scenario.contract.faults]
    if moments and apart.random() < MOMENTS_SHARE:
        cast = _Cast(scenario, apart)
        apart.choice(moments)(cast)
        return cast.scenario()
    cast = _Cast(scenario, random_stream(scenario.seed, "changes", name, attempt))
    for _ in range(cast.random.randint(1, STORIES_MAX)):
        story = cast.random.choice(_STORIES)
        begin = len(cast.changes)
        story(cast)
        if cast.random.random() < TROUBLE_SHARE:
            cast.trouble(cast.changes[begin:])
    if cast.random.random() < FROM_NOTHING_SHARE:
        cast.begin_with_nothing()
    return cast.scenario()


class _Cast:
    """Who takes part in a run, and what happens to them so far."""

    def __init__(self, scenario: Scenario, random: Random) -> None:
        self.random = random
        self.changes: list[Change] = []
        self._before = scenario
        self._faults: list[AnyFault] = []
        self._workloads: list[Workload] = []
        self._newcomers: list[SiteId] = []
        self._groups = dict(scenario.groups)
        self._dying = {site for fault in scenario.faults if getattr(fault, "forever", False) for site in fault.sites}
        self._some_die = bool(self._dying)
        """Whether the options were drawn for a run in which not everyone comes back (`Situation.somebody_dies`)."""
        self._leavers: set[SiteId] = set()
        """Those who leave something, and may be in nothing then."""

    def scenario(self) -> tuple[Scenario, tuple[SiteId, ...]]:
        """The run with all of it, and who never leaves anything."""
        before = self._before
        table = before.network
        for site in self._newcomers:
            table = _with_place(table, site, before.sites, self.random)
        candidate = msgspec.structs.replace(
            before,
            groups=self._groups,
            network=table,
            changes=tuple(sorted(self.changes, key=lambda change: change.at)),
            faults=(*before.faults, *self._faults),
            workloads=(*before.workloads, *self._workloads),
        )
        stay = tuple(site for site in before.sites if site not in self._leavers)
        try:
            candidate.check()
        except UsageError:
            return before, before.sites
        return candidate, stay

    # ------------------------------------------------------------------ who
    def newcomers(self, most: int, least: int = 1) -> tuple[SiteId, ...]:
        """Some who are not there yet, and want to say something when they are."""
        left = NEWCOMERS[len(self._newcomers) :]
        come = left[: self.random.randint(least, most)]
        self._newcomers.extend(come)
        return come

    def members(self, group: GroupId) -> tuple[SiteId, ...]:
        """Those who are in a group at the start."""
        return self._before.groups.get(group, ())

    def group(self) -> GroupId:
        """One of those at the start."""
        return self.random.choice(tuple(self._before.groups))

    def groups_of(self, sites: tuple[SiteId, ...]) -> tuple[GroupId, ...]:
        """The groups in which any of them is at the start."""
        return tuple(group for group, members in self._before.groups.items() if set(sites) & set(members))

    @property
    def sites(self) -> tuple[SiteId, ...]:
        """All who are there at the start."""
        return self._before.sites

    @property
    def pace(self) -> float:
        """What a question and its answer take."""
        return round_trip(self._before.network, self.sites) + self._before.sync_seconds

    def everyone(self) -> tuple[SiteId, ...]:
        """Those who are in groups from the start. (Whoever is in none would begin later.)"""
        return tuple(sorted({site for group in self._before.groups.values() for site in group}))

    def some_sites(self) -> tuple[SiteId, ...]:
        """Up to three of them."""
        members = self.everyone()
        return tuple(sorted(self.random.sample(members, self.random.randint(1, min(3, len(members))))))

    def is_dying(self, site: SiteId) -> bool:
        """Whether it never comes back from some crash."""
        return site in self._dying

    def leavers(self, sites: Iterable[SiteId]) -> tuple[SiteId, ...]:
        """Those of the sites that may leave: nobody who dies, and so many are left that the dead are a minority."""
        allowed = []
        for site in sites:
            left = len(self._before.sites) - len(self._leavers | {site})
            if site not in self._dying and (2 * len(self._dying) < left or (not self._dying and left == 0)):
                self._leavers.add(site)
                allowed.append(site)
        return tuple(allowed)

    # ------------------------------------------------------------------ when and what
    def moment(self, after: float = 0.05) -> float:
        """A time for somebody to ask, after a share of the run has passed."""
        return round(self.random.uniform(after, END) * self._before.duration, 3)

    def later(self, at: float) -> float:
        """A moment later, or a good while."""
        end = END * self._before.duration
        return round(min(at + log_uniform(self.random, 0.01, 0.4 * self._before.duration), max(end, at)), 3)

    def ask(self, kind: ChangeKind, at: float, sites: tuple[SiteId, ...], group: GroupId) -> None:
        """The sites ask for it."""
        if sites:
            self.changes.append(Change(kind=kind, at=at, sites=tuple(sorted(sites)), group=group))

    def speak(self, sites: tuple[SiteId, ...], group: GroupId, at: float) -> None:
        """They multicast from then on, too early at first."""
        count = self.random.randint(2, 6)
        rate = round(count / max(0.2, 0.5 * (self._before.duration - at)), 3)
        size = self.random.choice((0, 10, 100))
        self._workloads.append(
            Workload(sources=sites, groups=(group,), choose=1, count=count, rate=rate, start=at, size=size)
        )

    def begin_with_nothing(self) -> None:
        """Whoever would be in a group at the start joins it, at once with all others or not. (A list of a few cannot
        spare anybody, and sites that are in no group cannot come later.)"""
        if self._dying or self._before.extra_sites:
            return
        at_once = self.random.random() < 0.5
        for group, members in self._groups.items():
            if at_once:
                self.ask("join", 0.0, members, group)
            else:
                for site in members:
                    self.ask("join", round(self.random.uniform(0.0, 0.5), 3), (site,), group)
        self._groups = {}

    # ------------------------------------------------------------------ trouble
    def trouble(self, changes: list[Change]) -> None:
        """Something happens to somebody while one of them comes about."""
        if not changes:
            return
        random, faults = self.random, self._before.contract.faults
        change = random.choice(changes)
        about = round(max(0.0, change.at + random.uniform(-0.05, 0.4)), 3)
        asks = random.choice(change.sites)
        other = random.choice(self._before.sites)
        kind = random.choice(("crash", "crash", "death", "partition"))
        victim = asks if random.random() < 0.6 else other
        if victim in self._dying:
            return
        if kind == "partition" and "partition" in faults:
            self._cut_off(victim, max(0.0, about - 0.2))
        elif kind == "death" and self._may_die(victim):
            self._dying.add(victim)
            self._faults.append(Crash(from_=about, sites=(victim,), forever=True))
        elif "crash" in faults:
            end = round(about + log_uniform(random, 0.02, 0.3 * self._before.duration), 3)
            self._faults.append(Crash(from_=about, to=end, sites=(victim,)))

    def within_moments(self, at: float) -> float:
        """A time within the moments that it takes to let somebody in who asks at `at`; until then nothing else happens
        to anybody."""
        soon = at + log_uniform(self.random, 2.0, 12.0) * self.pace
        calm = [fault for fault in self._before.faults if fault.from_ > soon or (fault.to or inf) < at - CALM_SECONDS]
        self._before = msgspec.structs.replace(self._before, faults=tuple(calm))
        return round(soon, 4)

    def split(self, part: Iterable[SiteId], begin: float) -> None:
        """The part and the others cannot reach each other for a good while."""
        end = begin + self.random.uniform(0.2, 0.5) * self._before.duration
        self._faults.append(Partition(from_=begin, to=round(end, 3), parts=(tuple(sorted(part)),)))

    def crash(self, site: SiteId, begin: float) -> None:
        """The site crashes, and comes back soon."""
        end = round(begin + log_uniform(self.random, 0.02, 0.2 * self._before.duration), 3)
        self._faults.append(Crash(from_=begin, to=end, sites=(site,)))

    def _cut_off(self, victim: SiteId, begin: float) -> None:
        random = self.random
        others = [site for site in self._before.sites if site != victim]
        part = (victim, *random.sample(others, random.randint(0, len(others) // 2)))
        end = round(begin + log_uniform(random, 0.3, 0.4 * self._before.duration), 3)
        self._faults.append(Partition(from_=round(begin, 3), to=end, parts=(tuple(sorted(part)),)))

    def _may_die(self, site: SiteId) -> bool:
        """Whether the dead are a minority even of those who never leave, and nothing brings this one back."""
        if not self._before.contract.minority_may_die or site in self._leavers or not self._some_die:
            return False
        if any(needs_log(fault) and site in fault.sites for fault in (*self._before.faults, *self._faults)):
            return False
        stay = len(self._before.sites) - len(self._leavers)
        # A newcomer that dies is one more of whom the dead are a minority, or it was never in.
        return 2 * (len(self._dying) + 1) < stay + (site in self._newcomers)


# ---------------------------------------------------------------------- stories
def _come(cast: _Cast) -> None:
    """One or two newcomers, sometimes at once."""
    group, at = cast.group(), cast.moment()
    come = cast.newcomers(2)
    if not come:
        return
    if cast.random.random() < 0.5:
        cast.ask("join", at, come, group)
    else:
        for site in come:
            cast.ask("join", cast.moment(), (site,), group)
    cast.speak(come, group, at)


def _come_and_go(cast: _Cast) -> None:
    """A newcomer leaves again, perhaps before it is in."""
    group, at = cast.group(), cast.moment()
    come = cast.newcomers(1)
    if not come:
        return
    cast.ask("join", at, come, group)
    cast.ask("leave", cast.later(at), come, group)
    cast.speak(come, group, at)


def _go(cast: _Cast) -> None:
    """A member leaves, one group or all; sometimes it comes back."""
    group, at = cast.group(), cast.moment()
    sites = cast.leavers((cast.random.choice(cast.members(group)),))
    everything = cast.random.random() < 0.5
    back = cast.later(at) if cast.random.random() < 0.5 else None
    for each in cast.groups_of(sites) if everything else (group,):
        cast.ask("leave", at, sites, each)
        if back is not None:
            cast.ask("join", back, sites, each)


def _last_one_goes(cast: _Cast) -> None:
    """Everyone leaves a group, at once or one after the other; sometimes somebody comes back, or a newcomer finds it
    empty."""
    group, at = cast.group(), cast.moment()
    sites = cast.leavers(cast.members(group))
    at_once = cast.random.random() < 0.5
    end = at
    for site in sites:
        end = at if at_once else cast.later(at)
        cast.ask("leave", end, (site,), group)
    if sites and cast.random.random() < 0.6:
        again = (cast.random.choice(sites),) if cast.random.random() < 0.5 else cast.newcomers(1)
        cast.ask("join", cast.later(end), again, group)


def _everyone_goes(cast: _Cast) -> None:
    """Everyone leaves everything, and somebody comes back to what is no more."""
    at = cast.moment()
    end = at
    gone = cast.leavers(cast.everyone())
    for site in gone:
        end = max(end, leaves := at if cast.random.random() < 0.5 else cast.later(at))
        for group in cast.groups_of((site,)):
            cast.ask("leave", leaves, (site,), group)
    if gone:
        back = cast.random.sample(gone, cast.random.randint(1, min(2, len(gone))))
        group = cast.groups_of((back[0],))[0]
        cast.ask("join", cast.later(end), tuple(back), group)
        cast.speak(tuple(back), group, end)


def _new_group(cast: _Cast) -> None:
    """A group begins later, with members or newcomers, several at once; sometimes all of them leave it again."""
    at = cast.moment()
    some = cast.some_sites()
    found = some if cast.random.random() < 0.5 else (*some[:1], *cast.newcomers(1))
    cast.ask("join", at, found, NEW_GROUP)
    cast.speak(found, NEW_GROUP, at)
    if cast.random.random() < 0.4:
        cast.ask("leave", cast.later(at), found, NEW_GROUP)


def _crowd_comes_to_a_part(cast: _Cast) -> None:
    """Just enough newcomers at once to make a majority of the list with them out of a minority of the one before; and
    while they are let in, the network splits between that minority and the others.

    Protocols let the site with the smallest or the largest name go ahead, so these are with the newcomers mostly.
    """
    sites = cast.sites
    few = (len(sites) - 1) // 2
    crowd = min(len(sites) - 2 * few + 1, len(NEWCOMERS))
    group, at = cast.group(), cast.moment()
    come = cast.newcomers(crowd, crowd)
    cast.ask("join", at, come, group)
    cast.speak(come, group, at)
    others = cast.random.sample(sites, len(sites) - few)
    if few > 1 and cast.random.random() < 0.8:
        others = cast.random.sample(sites[1:-1], len(sites) - few)
    cast.split(others, cast.within_moments(at))


def _door_falls_shut(cast: _Cast) -> None:
    """A newcomer comes, and while it is let in, somebody crashes who may be the one that lets it in."""
    group, at = cast.group(), cast.moment()
    come = cast.newcomers(1)
    cast.ask("join", at, come, group)
    cast.speak(come, group, at)
    victim = cast.sites[0] if cast.random.random() < 0.6 else cast.random.choice(cast.sites)
    if not cast.is_dying(victim):
        cast.crash(victim, cast.within_moments(at))


_MOMENTS: Final[tuple[tuple[Callable[[_Cast], None], str], ...]] = (
    (_crowd_comes_to_a_part, "partition"),
    (_door_falls_shut, "crash"),
)
"""Each with the fault that it needs."""

_STORIES: Final[tuple[Callable[[_Cast], None], ...]] = (
    _come,
    _come,
    _come_and_go,
    _go,
    _go,
    _last_one_goes,
    _everyone_goes,
    _new_group,
)


# ---------------------------------------------------------------------- a place in the network
def _with_place(table: NetworkTable, site: SiteId, sites: tuple[SiteId, ...], random: Random) -> NetworkTable:
    """The network with one more site in it, beside one of the others."""
    if isinstance(table, WideAreaTable):
        region = random.choice(tuple(table.regions))
        regions = {**table.regions, region: (*table.regions[region], site)}
        return msgspec.structs.replace(table, regions=regions)
    if isinstance(table, TopologyTable) and table.links is not None:
        link = (random.choice(sites), site, float(random.randint(1, 3)))
        return msgspec.structs.replace(table, links=(*table.links, link))
    if isinstance(table, ServersTable):
        return msgspec.structs.replace(table, hosts={**table.hosts, site: table.hosts[random.choice(sites)]})
    return table
