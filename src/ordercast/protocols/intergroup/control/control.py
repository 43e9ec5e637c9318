"""The control process of a site (Berket 2000, chapter 2): the distribution of control messages (2.3), and what the
other parts of InterGroup ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite

from ordercast.core import ChannelId, GroupId, Part, Protocol, SiteId, WireError
from ordercast.core.effects import Broadcast, JoinChannel, LeaveChannel
from ordercast.core.events import Arrival
from ordercast.protocols.intergroup.control.determination import SelfDetermination
from ordercast.protocols.intergroup.control.distances import Distances
from ordercast.protocols.intergroup.control.hierarchy import Hierarchy
from ordercast.protocols.intergroup.control.local_group import LocalGroup
from ordercast.protocols.intergroup.control.options import ControlOptions
from ordercast.protocols.intergroup.control.pacing import PATIENCE_INTERVALS, Pace
from ordercast.protocols.intergroup.control.packets import (
    COORDINATORS,
    CCon,
    CoordinatorLeave,
    GCon,
    LCon,
    RingQuery,
    SearchResponse,
    approximate_size,
)
from ordercast.protocols.intergroup.control.report import ControlData, CutReport, GroupReport, merge
from ordercast.protocols.intergroup.control.states import State
from ordercast.protocols.intergroup.control.tables import Entry
from ordercast.protocols.parts.back_off import ticks_in

LATE = 1.5
"""An interval of Figure 2.2 is at most so many times as long as it should be on average."""


class Control(Part):
    """One site's place in the hierarchy, and what it knows of the others."""

    packets = (LCon, CCon, GCon, RingQuery, SearchResponse, CoordinatorLeave)
    timers = (
        "control-local",
        "control-global",
        "control-check",
        "control-start",
        "control-ring",
        "control-determination",
    )
    branches = (
        *(
            "started-as-coordinator",
            "started-as-child",
            "to-coordinator",
            "to-child",
            "cannot-leave",
            "stayed",
            "wanted",
        ),
        *("moved", "coordinator-leaves", "lost-coordinator", "search-failed", "stale-local", "stale-coordinator"),
        "impossible-distance",
    )

    def __init__(
        self,
        host: Protocol,
        options: ControlOptions,
        *,
        local_report: Callable[[], Mapping[GroupId, GroupReport]],
        local_cuts: Callable[[], Mapping[GroupId, CutReport]] = dict,
        on_system_report: Callable[[GroupId, GroupReport], None],
    ) -> None:
        """`local_report` says how far this site is in each group that it takes part in; it is asked whenever a control
        message is made. `on_system_report` hears what the whole system says of a group, when that is new."""
        self.host = host
        self.options = options
        self._site = host.site
        self._name_bytes = len(host.site.encode())
        self._local_report = local_report
        self._local_cuts = local_cuts
        self._on_system_report = on_system_report
        self.system = ControlData()
        """What was said last of the whole system."""
        self._heard_coordinators = 0
        """While this site starts: how many coordinators there are, as the GCons say."""
        self._groups: dict[ChannelId | None, LocalGroup] = {}
        """The local groups in which this site is, by their channels."""
        self._distance_max = options.distance_seconds_unknown, -1
        """Seconds, and in which period of the check they were worked out."""
        self.local_pace = Pace(options, host.context.random)
        self.global_pace = Pace(options, host.context.random)
        self.determination = SelfDetermination(self)
        self.hierarchy = Hierarchy(self)
        self.distances = Distances(host.site, options, self.hierarchy)

    def start(self) -> None:
        """Begin, when the host starts."""
        self.hierarchy.start()
        self.host.set_timer("control-local", self.local_pace.begin())
        self.host.set_timer("control-check", self.options.check_seconds * self.host.context.random.random())

    # ------------------------------------------------------------------ for the other parts
    @property
    def state(self) -> State:
        """Where this site is in the hierarchy."""
        return self.hierarchy.state

    @property
    def coordinator(self) -> SiteId:
        """The coordinator with which this site is associated; itself when it is one."""
        return self.hierarchy.coordinator

    def distance(self, site: SiteId, coordinator: SiteId | None = None) -> float:
        """Seconds to a site (Table 2.1); its coordinator helps where nothing is known of the site itself."""
        return self.distances.to(site, coordinator)

    def distance_max(self) -> float:
        """Seconds to the site that is furthest away, of those that are known; it is worked out once in a while."""
        seconds, tick = self._distance_max
        if tick != self.hierarchy.tick:
            seconds = self.distances.furthest()
            self._distance_max = seconds, self.hierarchy.tick
        return seconds

    def round_seconds(self) -> float:
        """How long it takes at the most, without loss, until what this site reports has gone through the hierarchy, and
        everyone knows: three control messages, and their ways."""
        return self.messages_seconds() + 3 * self.distance_max()

    def messages_seconds(self) -> float:
        """How long an LCon, a GCon and a CCon wait at the most until they are sent, one after the other."""
        return LATE * (2 * self.local_pace.usual_seconds + self.global_seconds())

    def receivers(self, group: GroupId) -> int:
        """How many take part in a group, as far as the system has reported."""
        report = self.system.reports.get(group)
        return 0 if report is None else report.receivers

    def cut_of(self, group: GroupId, epoch: tuple[int, str, int]) -> CutReport | None:
        """What those who wait for a new view of a group have of an old one, as far as the system has reported."""
        report = self.system.cuts.get(group)
        return report if report is not None and report.epoch == epoch else None

    def global_seconds(self) -> float:
        """How long it is between two GCons of a coordinator."""
        joined = self.hierarchy.joined
        if self.hierarchy.own is not None or joined is None:
            return self.global_pace.usual_seconds
        return max(joined.global_seconds, self.options.control_seconds_min)

    # ------------------------------------------------------------------ timers
    def on_control_start_timeout(self) -> None:
        """This site has listened for long enough (2.6.1)."""
        self.hierarchy.decide(max(self._heard_coordinators, len(self.hierarchy.coords)))

    def on_control_ring_timeout(self) -> None:
        """A ring of the search has had its time."""
        self.hierarchy.search.on_timeout()

    def on_control_determination_timeout(self) -> None:
        """The timer of Table 2.4."""
        self.determination.on_timeout()

    def on_control_check_timeout(self) -> None:
        """Fault detection, then self-determination: both run periodically."""
        self.host.set_timer("control-check", self.options.check_seconds)
        self._count()
        self.hierarchy.check()
        self.determination.run()

    def on_control_local_timeout(self) -> None:
        """Figure 2.3, local send module."""
        self.send_local()

    def on_control_global_timeout(self) -> None:
        """Figure 2.3, global send module."""
        self.send_global()

    # ------------------------------------------------------------------ sending (2.3)
    def send_local(self) -> None:
        """An LCon from a child, a CCon from a coordinator, both from who is both; then wait."""
        hierarchy = self.hierarchy
        size = 0
        for group in (hierarchy.joined, hierarchy.approached):
            if group is not None:
                size += self._send_lcon(group, group.coordinator)
        if hierarchy.own is not None:
            if hierarchy.state is State.TO_CHILD:
                hierarchy.ask_to_leave()
            size += self._send_ccon(hierarchy.own)
        self._count()
        self.host.set_timer("control-local", self.local_pace.sent(size))

    def send_global(self) -> None:
        """A GCon from a coordinator; then wait."""
        hierarchy = self.hierarchy
        own = hierarchy.own
        if own is None:
            return
        gcon = GCon(
            self.host.now,
            len(own.locals),
            hierarchy.num_coords,
            hierarchy.coords.pairs(),
            self._group_data(own),
            hierarchy.state is State.TO_CHILD,
        )
        self.host.outbox.append(Broadcast(COORDINATORS, gcon, self.options.system_ttl))
        self._count()
        size = approximate_size(gcon, self._name_bytes)
        self.host.set_timer("control-global", self.global_pace.sent(size))

    def _count(self) -> None:
        """See how many others keep to the same bandwidth: the children and coordinator of a local group, the larger one
        where there are two, and the coordinators."""
        hierarchy = self.hierarchy
        self.local_pace.members = 1 + max(
            (max(group.size, len(group.locals) + (group is not hierarchy.own)) for group in hierarchy.local_groups()),
            default=0,
        )
        self.global_pace.members = 1 + len(hierarchy.coords)

    def send_farewell(self, group: LocalGroup) -> None:
        """Tell a local group that this site is a child of somebody else from now on, or a coordinator."""
        self._send_lcon(group, self.coordinator if self.coordinator != group.coordinator else self._site)

    def _send_lcon(self, group: LocalGroup, coordinator: SiteId) -> int:
        pairs = group.locals.pairs()
        if group.head.pair is not None:
            pairs[group.coordinator] = group.head.pair
        ttl = max(group.head.hops, 1)
        lcon = LCon(ttl, self.host.now, coordinator, len(group.locals) + 1, pairs, self._local_data())
        self.host.outbox.append(Broadcast(group.channel, lcon, ttl))
        return approximate_size(lcon, self._name_bytes)

    def _send_ccon(self, own: LocalGroup) -> int:
        self._tell(self._system_data(own))
        ttl, distances = self.far_ttl(), own.locals.distances()
        ccon = CCon(
            ttl,
            self.host.now,
            max(distances.values(), default=0.0),
            len(own.locals),
            self.hierarchy.num_coords,
            own.locals.pairs(),
            distances,
            self.hierarchy.coords.distances(),
            self.system,
            self.global_pace.usual_seconds,
        )
        self.host.outbox.append(Broadcast(own.channel, ccon, ttl))
        return approximate_size(ccon, self._name_bytes)

    def far_ttl(self) -> int:
        """farTTL: how far away the furthest child is, in hops."""
        own = self.hierarchy.own
        return 1 if own is None else max((entry.hops for entry in own.locals), default=1)

    def enter(self, group: LocalGroup) -> None:
        """Hear a local group, and be heard there at once."""
        self._groups[group.channel] = group
        self.host.outbox.append(JoinChannel(group.channel))
        self.send_local()

    def quit(self, group: LocalGroup) -> None:
        """Hear a local group no more."""
        self._groups.pop(group.channel, None)
        self.host.outbox.append(LeaveChannel(group.channel))

    # ------------------------------------------------------------------ control data (3.5)
    def _local_data(self) -> ControlData:
        """The local acknowledgement: of all groups of this process."""
        return ControlData(dict(self._local_report()), dict(self._local_cuts()))

    def _group_data(self, own: LocalGroup) -> ControlData:
        """The group acknowledgement: of the local group."""
        return merge((self._local_data(), *own.locals.data()))

    def _system_data(self, own: LocalGroup) -> ControlData:
        """The system acknowledgement: of all local groups. A coordinator that has not heard all others yet stays with
        what it was told before. (Else: one that has just begun, and has heard one of five, takes what those two have
        for what all have.)"""
        coords = self.hierarchy.coords
        return merge((self._group_data(own), *coords.data())) if coords.is_complete() else self.system

    def _tell(self, system: ControlData) -> None:
        """Tell the host what is new."""
        before, self.system = self.system, system
        for group, report in system.reports.items():
            if before.reports.get(group) != report:
                self._on_system_report(group, report)

    # ------------------------------------------------------------------ receiving
    def on_lcon(self, sender: SiteId, packet: LCon, arrival: Arrival) -> None:
        """A child of a local group in which this site is."""
        group = self._groups.get(arrival.channel)
        if group is None or sender == self._site:
            return
        self._check(packet)
        if packet.coordinator != group.coordinator:
            group.locals.depart(sender, self._known_elsewhere_at())
            self.hierarchy.go_on()
            return
        entry = group.locals.get(sender)
        if entry is None or entry.pair is None:
            entry = entry or group.locals.add(sender, self.hierarchy.tick)
            if group is self.hierarchy.own:
                self.determination.on_wanted()
        self._hear(entry, packet, arrival)
        self.local_pace.heard(approximate_size(packet, self._name_bytes))
        if group is self.hierarchy.own:
            packet.data.check(self.options.groups_max)
            entry.data = packet.data

    def on_ccon(self, sender: SiteId, packet: CCon, arrival: Arrival) -> None:
        """The coordinator of a local group in which this site is."""
        group = self._groups.get(arrival.channel)
        if group is None or sender == self._site:
            return
        self._check(packet)
        if sender != group.coordinator:
            raise WireError(f"a CCon in the local group of {group.coordinator!r}, which is another process")
        if not (packet.far_distance >= 0 and 0 <= packet.global_seconds < float("inf") and packet.num_coords >= 0):
            raise WireError("a CCon with impossible distances or numbers")
        hierarchy, tick = self.hierarchy, self.hierarchy.tick
        self._hear(group.head, packet, arrival)
        self.local_pace.heard(approximate_size(packet, self._name_bytes))
        group.size = packet.num_local
        group.num_coords = packet.num_coords
        group.far_ttl = packet.ttl
        group.far_distance = packet.far_distance
        group.global_seconds = packet.global_seconds
        group.locals.learn(packet.local_distances, self._site, tick)
        if hierarchy.own is None:
            hierarchy.coords.learn(packet.coord_distances, self._site, tick)
            if group is hierarchy.joined or hierarchy.joined is None:
                if len(hierarchy.coords) > len(packet.coord_distances):
                    hierarchy.coords.keep_only(packet.coord_distances)
                packet.data.check(self.options.groups_max)
                self._tell(packet.data)
        elif self._site in packet.coord_distances:
            hierarchy.on_known_as_coordinator()
        if self._site in packet.timestamp_pairs and group.channel in self._groups:
            hierarchy.on_listed(group)

    def on_gcon(self, sender: SiteId, packet: GCon, arrival: Arrival) -> None:
        """Another coordinator."""
        hierarchy = self.hierarchy
        if sender == self._site or (hierarchy.own is None and hierarchy.state is not State.START):
            return
        self._check(packet)
        if not 0 <= packet.num_coords <= self.options.processes_max:
            raise WireError(f"{packet.num_coords} coordinators")
        self._heard_coordinators = max(self._heard_coordinators, packet.num_coords)
        entry = hierarchy.coords.get(sender) or hierarchy.coords.add(sender, hierarchy.tick)
        self._hear(entry, packet, arrival)
        packet.data.check(self.options.groups_max)
        entry.data = packet.data
        entry.num_coords = packet.num_coords
        (hierarchy.coords.leaving.add if packet.leaving else hierarchy.coords.leaving.discard)(sender)
        self.global_pace.heard(approximate_size(packet, self._name_bytes))
        if self._site in packet.timestamp_pairs:
            hierarchy.on_known_as_coordinator()

    def on_ring_query(self, sender: SiteId, packet: RingQuery, arrival: Arrival) -> None:
        """Somebody looks for a coordinator."""
        own = self.hierarchy.own
        if sender == self._site or own is None or not self.hierarchy.allows_children():
            return
        self.determination.on_wanted()
        self.host.send((sender,), SearchResponse(packet.number, len(own.locals), self.hierarchy.num_coords))

    def on_search_response(self, sender: SiteId, packet: SearchResponse, arrival: Arrival) -> None:
        """A coordinator would take this site."""
        if packet.num_local < 0 or not 0 <= packet.num_coords <= self.options.processes_max:
            raise WireError(f"a Search Response with {packet.num_local} children and {packet.num_coords} coordinators")
        self.hierarchy.search.on_response(sender, packet, arrival.hops)

    def on_coordinator_leave(self, sender: SiteId, packet: CoordinatorLeave, arrival: Arrival) -> None:
        """On the coordinators' channel: it has left them. In a local group: it would like to."""
        if sender == self._site:
            return
        if arrival.channel == COORDINATORS:
            self.hierarchy.coords.depart(sender, self._known_elsewhere_at())
            return
        group = self._groups.get(arrival.channel)
        if group is None:
            return
        if sender != group.coordinator:
            raise WireError(
                f"a Coordinator Leave in the local group of {group.coordinator!r}, which is another process"
            )
        self.hierarchy.on_coordinator_leaves(group)

    def _hear(self, entry: Entry, packet: LCon | CCon | GCon, arrival: Arrival) -> None:
        """Note when a control message came, and measure the distance if it says something about one of ours (2.4)."""
        now = self.host.now
        entry.hear(packet.timestamp, now, arrival.hops, self.hierarchy.tick)
        pair = packet.timestamp_pairs.get(self._site)
        if pair is not None and not entry.measure(packet.timestamp, pair, now, self.options):
            self.host.branch("impossible-distance")

    def _check(self, packet: LCon | CCon | GCon) -> None:
        if not isfinite(packet.timestamp):
            raise WireError(f"a control message of the time {packet.timestamp}")
        most = self.options.processes_max
        if len(packet.timestamp_pairs) > most or not 0 <= packet.num_local <= most:
            raise WireError(f"a control message with {len(packet.timestamp_pairs)} entries, from {packet.num_local}")

    def _known_elsewhere_at(self) -> int:
        """The period of the check by which a GCon of everyone has come, even if some are lost: whoever is listed in
        another local group now has been reported from there."""
        seconds = PATIENCE_INTERVALS * self.global_seconds() + self.distance_max()
        return self.hierarchy.tick + 1 + ticks_in(seconds, self.options.check_seconds)

    def check_invariants(self) -> None:
        """The state fits what the process does."""
        self.hierarchy.check_invariants()
