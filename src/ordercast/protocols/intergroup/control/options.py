"""Options of the control hierarchy: the constants of 2.2.3, and those to which the text refers as "a given time"."""

from __future__ import annotations

from ordercast.core import Options, UsageError

TTL_MAX = 255
"""The field of the Internet Protocol has eight bits."""


class ControlOptions(Options, frozen=True):
    """Every constant of 2.2.3, every time and every bound, each with a reason for its value."""

    control_seconds_min: float = 1.0
    """RTCP_MIN_TIME of Figure 2.2: between two control messages of a process at the least, on average. What has been
    sent is stable after three of them, so a buffer allows a rate of buffer / (3 control_seconds_min)."""
    target_bandwidth: float = 390_000.0
    """TARGET_BANDWIDTH: bytes a second for all control messages of a local group together, and of the coordinators.
    390 kB/s is what the prototype had (7.1.3). It bounds what a process hears, however many there are."""
    coordinators_low: int = 2
    """LOW_THRESH_COORD_SIZE: fewer coordinators than this ask for more. Two, so that one may fail."""
    coordinators_high: int = 16
    """HIGH_THRESH_COORD_SIZE: with more coordinators than this some become children. Sixteen GCons a second with
    sixteen entries each are 10 kB/s. Where there are thousands of processes: about sites / local_target_size, times
    two."""
    local_target_size: int = 16
    """LOCAL_TARGET_SIZE: how many children a coordinator should have. LCons grow with the local group, and so do their
    number: what a child hears grows with the square."""
    boundary_ttl: int = 16
    """BOUNDARY_TTL: a coordinator more hops away than this is far. The prototype's value: scopes of multicast are
    configured so that 16 stays within a site."""
    coordinator_closeness_seconds: float = 0.03
    """COORD_CLOSENESS: a coordinator nearer than this is close. The prototype's value."""
    state_change_low_seconds: float = 2.0
    """LOW_STATE_CHNG_PARAM, S1 of Table 2.4: two rounds of control messages, so that whoever decides knows what the
    others have just done."""
    state_change_high_seconds: float = 8.0
    """HIGH_STATE_CHNG_PARAM, S2 of Table 2.4: long against S1, so that few of many decide at the same time."""
    system_ttl: int = 64
    """With which GCons travel, and the last ring of a search: further than any two processes of the system are apart.
    64 is what hosts use for everything."""
    start_seconds: float = 4.0
    """How long a process that starts waits for a GCon at the most (2.6.1). Few of those who start together wait for
    less than half of it, and their GCons stop the others from becoming coordinators, too."""
    ring_seconds: float = 0.25
    """How long the coordinators within a ring have for their answer: a round trip around the world."""
    search_seconds: float = 5.0
    """How long a search goes on before it has failed: every ring once, and the last one some times, so that loss alone
    does not make coordinators."""
    check_seconds: float = 1.0
    """How often self-determination (2.5) and the removal of stale entries (2.6.3) run: as often as control messages
    come."""
    silence_seconds: float = 5.0
    """How long a child hears nothing of its coordinator before it looks for another one: five messages."""
    stale_seconds: float = 12.0
    """How long a process that is not heard stays in the tables (2.6.3), and holds acknowledgements back. Children that
    have lost their coordinator must be in another local group before it is removed: silence_seconds, a search, and a
    control message. A fault detector has to be quicker, too."""
    distance_seconds_min: float = 0.0005
    """No distance is shorter. Timers are multiples of distances: with none between processes of a machine, all would
    fire at once, and none would suppress another."""
    distance_seconds_max: float = 2.0
    """A measured distance above this is a clock that was set, or a packet that somebody held, and no distance: several
    satellites in a row are nearer."""
    distance_seconds_unknown: float = 0.1
    """Assumed of a process of which nothing is known yet: half a round trip around the world."""
    processes_max: int = 16384
    """Entries of a table, and of what a control message may bring: eight times as many as were ever simulated."""
    groups_max: int = 4096
    """Process groups of which control messages report."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name.endswith(("_seconds", "_seconds_min", "_seconds_max", "_seconds_unknown", "_bandwidth")):
                if not 0 < value < float("inf"):
                    raise UsageError(f"{name} is positive, not {value}")
            elif name in _COUNTS and value < 1:
                raise UsageError(f"{name} is at least 1, not {value}")
        if self.coordinators_low > self.coordinators_high:
            raise UsageError(
                f"coordinators_low = {self.coordinators_low} is above coordinators_high = {self.coordinators_high}"
            )
        if not self.boundary_ttl <= self.system_ttl <= TTL_MAX:
            raise UsageError(
                f"system_ttl is from boundary_ttl = {self.boundary_ttl} to {TTL_MAX}, not {self.system_ttl}"
            )
        if self.state_change_low_seconds > self.state_change_high_seconds:
            raise UsageError("state_change_low_seconds is not above state_change_high_seconds")
        if self.search_seconds < self.ring_seconds:
            raise UsageError("search_seconds is not below ring_seconds")
        if self.stale_seconds < self.silence_seconds + self.search_seconds:
            raise UsageError(
                f"stale_seconds = {self.stale_seconds} is below silence_seconds + search_seconds: whoever has lost its "
                "coordinator would be forgotten before it has another one"
            )
        if self.distance_seconds_min > self.distance_seconds_max:
            raise UsageError("distance_seconds_min is not above distance_seconds_max")


_COUNTS = ("coordinators_low", "local_target_size", "boundary_ttl", "processes_max", "groups_max")
