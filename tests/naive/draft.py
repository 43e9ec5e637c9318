"""A sensible run in the making: messages in one order that every site keeps, with packets, failures and views."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from .terms import Row


@dataclass(frozen=True)
class Profile:
    """Probabilities of features; mutations with their weights; properties that may hold for one service only."""

    name: str
    mutations: dict[str, int]
    explicit_destinations: float = 0.2
    packets: float = 0.3
    relays: float = 0.3
    failures: float = 0.3
    churn: float = 0.15
    views: float = 0.2
    services: float = 0.1
    settled: float = 0.7
    one_group: float = 0.3
    bound_absent: float = 0.03
    untouched: float = 0.25
    mutations_max: int = 3
    dynamic: bool = False
    per_service: tuple[str, ...] = ()


@dataclass
class Draft:
    """A trace in the making. Rows have no `seq` yet: at each site it will follow from the times."""

    random: Random
    profile: Profile
    sites: list[str]
    groups: dict[str, list[str]]
    rows: list[Row] = field(default_factory=list)
    guarantees: list[str] = field(default_factory=list)
    packets: int = 0
    size_per_message: int = 20
    size_per_destination: int = 4
    phi_n: float = 0.6
    promised: dict[str, float] = field(default_factory=dict)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def between(self, low: float, high: float) -> float:
        return self.random.uniform(low, high)

    def add(self, kind: str, site: str, time: float, **columns: object) -> Row:
        row = {"kind": kind, "site": site, "time": time, **columns}
        self.rows.append(row)
        return row

    def of(self, *kinds: str, site: str | None = None) -> list[Row]:
        found = [row for row in self.rows if row["kind"] in kinds and site in (None, row["site"])]
        return sorted(found, key=lambda row: row["time"])

    def remove(self, rows: Iterable[Row]) -> None:
        doomed = {id(row) for row in rows}
        self.rows = [row for row in self.rows if id(row) not in doomed]

    def end(self) -> float:
        return max((row["time"] for row in self.rows), default=0.0)

    def is_down(self, site: str, time: float, back: str) -> bool:
        """Whether the site has failed and has not come back (`awake` or `recover`) yet."""
        state = [row["kind"] for row in self.of("fail", back, site=site) if row["time"] <= time]
        return bool(state) and state[-1] == "fail"

    def returns(self, site: str, time: float) -> float | None:
        return next((row["time"] for row in self.of("recover", site=site) if row["time"] > time), None)

    def members(self, group: str, time: float) -> list[str]:
        members = set(self.groups[group])
        for row in self.of("join", "leave"):
            if row["time"] <= time and group in row["groups"]:
                (members.add if row["kind"] == "join" else members.discard)(row["site"])
        return sorted(members)

    def targets(self, multicast: Row) -> list[str]:
        if "destinations" in multicast:
            return list(multicast["destinations"])
        return sorted({site for group in multicast["groups"] for site in self.members(group, multicast["time"])})

    def next_packet(self) -> str:
        self.packets += 1
        return f"p{self.packets}"


def swap_times(one: Row, other: Row) -> None:
    one["time"], other["time"] = other["time"], one["time"]


def _draft_failures(draft: Draft, length: float) -> None:
    for site in draft.sites:
        time = draft.between(0.0, length)
        while draft.chance(0.4) and time < length:
            draft.add("fail", site, time)
            if draft.chance(0.3):
                break
            awake = time + draft.between(0.1, 1.0)
            recover = awake + draft.between(0.1, 1.0)
            if draft.chance(0.8):
                draft.add("awake", site, awake)
            draft.add("recover", site, recover)
            time = recover + draft.between(0.1, length)


def _draft_churn(draft: Draft, length: float) -> None:
    for group, members in draft.groups.items():
        for site in draft.sites:
            if draft.chance(0.25):
                draft.add("leave" if site in members else "join", site, draft.between(0.0, length), groups=[group])


def _draft_views(draft: Draft, messages: int) -> dict[int, tuple[str, list[str]]]:
    """Which view begins before which message, and its members."""
    if not draft.chance(draft.profile.views):
        return {}
    beginnings = sorted({0, *(draft.random.randint(0, messages) for _ in range(draft.random.randint(0, 3)))})
    views = {}
    for number, index in enumerate(beginnings):
        members = [site for site in draft.sites if draft.chance(0.85 if number else 0.97)] or draft.sites
        views[index] = (f"v{number}", members)
    return views


def _draft_packet(draft: Draft, sender: str, sent: float, receivers: list[str], multicast: Row) -> dict[str, float]:
    """The packets that carry a message to these receivers, and when they arrive."""
    arrivals = {}
    destinations = len(draft.targets(multicast))
    limit = draft.size_per_message + draft.size_per_destination * destinations + multicast["size"]
    columns = {"packet": "data", "messages": [multicast["message"]], "size": int(limit * draft.between(0.5, 1.0))}
    by_multicast, one_packet_for_all = draft.chance(0.3), draft.chance(0.15)
    packet_id = draft.next_packet()
    if by_multicast and receivers:
        draft.add("send", sender, sent, packet_id=packet_id, **columns)
    for receiver in receivers:
        if not by_multicast:
            packet_id = packet_id if one_packet_for_all else draft.next_packet()
            sent += draft.between(0.0001, 0.01)
            draft.add("send", sender, sent, peer=receiver, packet_id=packet_id, **columns)
        arrival = sent + draft.between(0.02, 0.5)
        if draft.is_down(receiver, arrival, "awake"):
            if draft.chance(0.5):
                draft.add("drop", receiver, arrival, peer=sender, packet_id=packet_id, reason="down", **columns)
            continue
        draft.add("receive", receiver, arrival, peer=sender, packet_id=packet_id, **columns)
        arrivals[receiver] = arrival
    return arrivals


def draft_arrivals(draft: Draft, multicast: Row, parents: dict[str, str]) -> dict[str, float]:
    """When each target has the message; with packets where the profile wants them."""
    source, time = multicast["site"], multicast["time"]
    others = [site for site in draft.targets(multicast) if site != source]
    arrivals = {source: time}
    if not draft.chance(0.95 if draft.profile.packets == 1.0 else draft.profile.packets):
        arrivals.update({site: time + draft.between(0.02, 0.6) for site in others})
        return arrivals
    sent = time + (draft.between(-0.05, 0.0) if draft.chance(0.15) else draft.between(0.0, 0.05))
    relayed = [site for site in others if parents.get(site) in others]
    arrivals.update(_draft_packet(draft, source, sent, [site for site in others if site not in relayed], multicast))
    for site in sorted(relayed, key=lambda site: draft.sites.index(parents[site])):
        parent = parents[site]
        if parent in arrivals:
            sent = arrivals[parent] + draft.between(0.0, 0.05)
            arrivals.update(_draft_packet(draft, parent, sent, [site], multicast))
    return arrivals


def _draft_background(draft: Draft, length: float) -> None:
    """Heartbeats, of which some are lost: they serve no message, but show that two sites cannot talk."""
    for _ in range(draft.random.randint(0, 3)):
        sender, receiver = draft.random.sample(draft.sites, 2)
        sent, packet_id = draft.between(0.0, length), draft.next_packet()
        draft.add("send", sender, sent, peer=receiver, packet="alive", packet_id=packet_id, size=8)
        if draft.chance(0.6):
            draft.add(
                "receive", receiver, sent + draft.between(0.02, 0.5), peer=sender, packet="alive", packet_id=packet_id
            )


def draft_base(draft: Draft) -> None:
    random, profile = draft.random, draft.profile
    messages = random.choices([0, 1, 2, 3, 4, 5, 6, 7, 8, 10], [1, 2, 6, 8, 8, 8, 6, 4, 2, 1])[0]
    length = 0.7 * messages + 0.5
    if draft.chance(profile.failures):
        _draft_failures(draft, length)
    if draft.chance(profile.churn):
        _draft_churn(draft, length)
    if draft.chance(profile.packets):
        _draft_background(draft, length)
    views = _draft_views(draft, messages)
    # A tree over the sites: everybody's parent is somebody earlier.
    parents: dict[str, str] = {}
    if draft.chance(profile.relays):
        parents = {site: random.choice(draft.sites[:number]) for number, site in enumerate(draft.sites) if number}
    sources = random.sample(draft.sites, random.randint(1, min(3, len(draft.sites))))
    with_services = draft.chance(profile.services)
    common_service = random.choice([None, "total", "source"])
    services = {
        site: common_service if not with_services or draft.chance(0.7) else random.choice([None, "total", "source"])
        for site in draft.sites
    }
    latest = dict.fromkeys(draft.sites, 0.0)
    view_of: dict[str, str] = {}
    excluded: set[str] = set()
    delivered_since: dict[str, list[str]] = {site: [] for site in draft.sites}
    numbers = dict.fromkeys(draft.sites, 0)
    clock = 0.0
    for index in range(messages + 1):
        clock += draft.between(0.1, 1.2)
        if index in views:
            name, members = views[index]
            excluded = set(draft.sites) - set(members)
            for site in draft.sites:
                latest[site] = max(latest[site] + draft.between(0.001, 0.05), clock - draft.between(0.0, 0.1))
                if site in members and not draft.is_down(site, latest[site], "recover"):
                    draft.add("view", site, latest[site], view=name, members=members, transitional=members)
                    view_of[site] = name
                elif draft.chance(0.3):
                    draft.add("view", site, latest[site], view=f"{name}-{site}", members=[site])
                    view_of[site] = f"{name}-{site}"
        if index == messages:
            break
        if with_services and draft.chance(0.25):
            site = random.choice(draft.sites)
            services[site] = random.choice([common_service, "total"])
            latest[site] += draft.between(0.001, 0.05)
            draft.add("activate", site, latest[site], service=services[site])
        awake = [site for site in sources if not draft.is_down(site, clock, "recover")]
        if not awake:
            continue
        source, message = random.choice(awake), f"m{index}"
        numbers[source] += 1
        multicast = draft.add("multicast", source, clock, message=message, source=source, source_seq=numbers[source])
        multicast["size"] = random.randint(10, 100)
        if draft.chance(profile.explicit_destinations):
            multicast["destinations"] = sorted(random.sample(draft.sites, random.randint(1, len(draft.sites))))
        else:
            several = 1 if draft.chance(0.8) else min(2, len(draft.groups))
            multicast["groups"] = sorted(random.sample(sorted(draft.groups), several))
        if draft.chance(0.5):
            multicast["depends"] = delivered_since[source]
        delivered_since[source] = []
        targets = draft.targets(multicast)
        for site, arrival in sorted(draft_arrivals(draft, multicast, parents).items()):
            if site not in targets or (site in excluded and draft.chance(0.6)):
                continue
            time = max(arrival + draft.between(0.02, 0.3), latest[site] + draft.between(0.001, 0.05))
            if draft.is_down(site, time, "recover"):
                recovered = draft.returns(site, time)
                if recovered is None or draft.chance(0.2):
                    continue
                time = recovered + draft.between(0.001, 0.1)
            if any(
                row["time"] < time and set(row["groups"]) & set(multicast.get("groups", ()))
                for row in draft.of("leave", site=site)
            ):
                continue
            latest[site] = time
            delivered_since[site].append(message)
            delivery = draft.add("deliver", site, time, message=message, source=source, delivery=1)
            delivery["source_seq"] = numbers[source]
            if site != source and draft.chance(0.9):
                delivery["parent"] = parents.get(site, source)
            if services[site] is not None:
                delivery["service"] = services[site]
            if site in view_of:
                delivery["view"] = view_of[site]
