"""A sensible run of groups that come and go: each has views of its own, sites join and leave it, choose services for
it, crash and come back. One thing happens after the other, so that everybody agrees; mutations see to the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .draft import Draft, draft_arrivals
from .terms import Row

SERVICES = ("total", "source", "loose")


@dataclass
class _Run:
    draft: Draft
    receivers: set[tuple[str, str]] = field(default_factory=set)
    """Site and group: there it only listens, and is not among the members of views."""
    down: set[str] = field(default_factory=set)
    latest: dict[str, float] = field(default_factory=dict)
    last_view: dict[tuple[str, str | None], str] = field(default_factory=dict)
    missed: dict[str, list[Row]] = field(default_factory=dict)
    since_multicast: dict[str, list[str]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    default_service: str | None = None
    views: int = 0
    clock: float = 0.0

    def tick(self, site: str) -> float:
        """The next moment of the site."""
        time = max(self.clock, self.latest.get(site, 0.0)) + self.draft.between(0.001, 0.03)
        self.latest[site] = time
        return time

    def present(self, group: str) -> list[str]:
        return [site for site in self.draft.members(group, self.clock + 1e6) if site not in self.down]

    def install(self, group: str | None) -> None:
        """All who are in the group, or all who are up, install its next view."""
        draft = self.draft
        self.views += 1
        groups = [] if group is None else [group]
        present = self.present(group) if group is not None else [s for s in draft.sites if s not in self.down]
        if group is not None and draft.chance(0.3):
            alike = [other for other in draft.groups if other != group and self.present(other) == present]
            groups += alike[:1]
        members = [site for site in present if not any((site, each) in self.receivers for each in groups)]
        name = f"v{self.views}" if draft.chance(0.8) else f"v{self.views % 3}"
        before = {site: self.last_view.get((site, group)) for site in draft.sites}
        for site in present:
            transitional = [p for p in members if before[site] is not None and before[p] == before[site]]
            draft.add("view", site, self.tick(site), view=name, members=members, transitional=transitional)
            if groups:
                draft.rows[-1]["groups"] = groups
            for each in groups:
                self.last_view[site, each] = name
            if group is None:
                self.last_view[site, None] = name

    def change(self, group: str) -> None:
        """Somebody joins or leaves; a view follows, mostly."""
        draft = self.draft
        site = draft.random.choice(draft.sites)
        if site in self.down:
            return
        inside = site in draft.members(group, self.clock + 1e6)
        row = draft.add("leave" if inside else "join", site, self.tick(site), groups=[group])
        if not inside:
            to_groups = [sent for sent in draft.of("multicast") if "destinations" not in sent]
            row["offset"] = sum(group in sent["groups"] for sent in to_groups)
        self.last_view.pop((site, group), None)
        if not inside and draft.chance(0.25):
            self.receivers.add((site, group))
        if draft.profile.views and draft.chance(0.9):
            self.install(group)

    def fail_or_return(self) -> None:
        draft = self.draft
        if self.down and draft.chance(0.7):
            site = draft.random.choice(sorted(self.down))
            if draft.chance(0.7):
                draft.add("awake", site, self.tick(site))
            draft.add("recover", site, self.tick(site))
            self.down.discard(site)
            for multicast in self.missed.pop(site, []):
                self.deliver(site, multicast, self.tick(site))
        else:
            site = draft.random.choice(draft.sites)
            if site in self.down:
                return
            draft.add("fail", site, self.tick(site))
            self.down.add(site)
        if draft.profile.views and draft.chance(0.85):
            for group in draft.groups:
                if site in draft.members(group, self.clock + 1e6):
                    self.install(group)

    def activate(self) -> None:
        draft = self.draft
        site = draft.random.choice(draft.sites)
        if site in self.down:
            return
        row = draft.add("activate", site, self.tick(site), service=draft.random.choice(SERVICES))
        if draft.chance(0.6):
            row["groups"] = [draft.random.choice(sorted(draft.groups))]
        if draft.chance(0.3):
            row["source"] = draft.random.choice(draft.sites)

    def service(self, site: str, multicast: Row) -> str | None:
        chosen = self.default_service
        for row in self.draft.of("activate", site=site):
            if (not row.get("groups") or set(row["groups"]) & set(multicast.get("groups", ()))) and row.get(
                "source"
            ) in (None, multicast["site"]):
                chosen = row["service"]
        return chosen

    def deliver(self, site: str, multicast: Row, time: float) -> None:
        draft = self.draft
        self.latest[site] = time
        self.since_multicast.setdefault(site, []).append(multicast["message"])
        row = draft.add("deliver", site, time, message=multicast["message"], source=multicast["site"], delivery=1)
        service = self.service(site, multicast)
        if service is not None:
            row["service"] = service
        if site != multicast["site"] and draft.chance(0.8):
            row["parent"] = multicast["site"]

    def multicast(self, number: int, sources: list[str]) -> None:
        draft = self.draft
        up = [site for site in sources if site not in self.down]
        if not up:
            return
        group = draft.random.choice(sorted(draft.groups))
        senders = [site for site in up if site in self.present(group) and (site, group) not in self.receivers]
        source = draft.random.choice(senders if senders and draft.chance(0.9) else up)
        self.numbers[source] = self.numbers.get(source, 0) + 1
        row = draft.add("multicast", source, self.tick(source), message=f"m{number}", source=source)
        row |= {"source_seq": self.numbers[source], "size": draft.random.randint(10, 100)}
        if draft.chance(draft.profile.explicit_destinations):
            row["destinations"] = sorted(draft.random.sample(draft.sites, draft.random.randint(1, len(draft.sites))))
        else:
            row["groups"] = sorted({group, *([draft.random.choice(sorted(draft.groups))] if draft.chance(0.2) else [])})
        if source not in senders and draft.chance(0.8):
            row["service"] = "proxy"
        if draft.chance(0.5):
            row["depends"] = self.since_multicast.pop(source, [])
        targets = draft.targets(row)
        for site, arrival in sorted(draft_arrivals(draft, row, {}).items()):
            if site in self.down:
                if draft.chance(0.85):
                    self.missed.setdefault(site, []).append(row)
            elif site in targets:
                time = max(arrival, self.latest.get(site, 0.0)) + draft.between(0.001, 0.1)
                self.deliver(site, row, time)


def draft_dynamic(draft: Draft) -> None:
    random, profile = draft.random, draft.profile
    run = _Run(draft, default_service=random.choice([None, None, "total"]))
    for group, members in draft.groups.items():
        run.receivers |= {(site, group) for site in members if draft.chance(0.15)}
    everything = draft.chance(0.2)
    for group in sorted(draft.groups):
        if draft.chance(profile.views):
            run.install(group)
    sources = random.sample(draft.sites, random.randint(1, min(3, len(draft.sites))))
    services, failures = draft.chance(profile.services), draft.chance(profile.failures)
    churn = draft.chance(profile.churn)
    for number in range(random.randint(2, 9)):
        run.clock = max([run.clock, *run.latest.values()]) + draft.between(0.05, 0.8)
        if churn and draft.chance(0.3):
            run.change(random.choice(sorted(draft.groups)))
        if failures and draft.chance(0.25):
            run.fail_or_return()
        if services and draft.chance(0.4):
            run.activate()
        if profile.views and everything and draft.chance(0.3):
            run.install(None)
        if profile.views and draft.chance(0.15):
            run.install(random.choice(sorted(draft.groups)))
        run.multicast(number, sources)
        if draft.chance(0.5):
            run.clock += 0.3
            run.multicast(number + 100, sources)
    run.clock = max([run.clock, *run.latest.values()]) + 1.0
    if profile.views and draft.chance(0.7):
        for group in sorted(draft.groups):
            run.install(group)
