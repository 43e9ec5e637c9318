"""Options of three steps."""

from __future__ import annotations

from ordercast.core import Options, UsageError


class ThreeStepOptions(Options, frozen=True):
    """Every bound and every timer, with a reason for its value."""

    window_messages: int = 256
    """Messages of a source that it has not delivered yet (or, where it is no destination, that the applications of a
    qualified majority have not taken): some round trips at full rate."""
    kept_messages_max: int = 16384
    """Messages that a site keeps for those who have not taken them: half a minute at five hundred bundles a second. At
    the bound whoever is silent is given up, and whoever is there but slow holds the sources up."""
    kept_bytes_max: int = 32 << 20
    """The same in bytes, with what is known about each message: small beside a machine, and more than what is under way
    among the sites that are there."""
    acknowledge_every: int = 32
    """Messages that an application takes until the other sites hear of it, together with whatever else they hear next:
    an eighth of the window."""
    acknowledge_seconds: float = 0.05
    """How long they wait for that at the most."""
    turn_seconds: float = 0.0
    """How long a site gathers what comes before it answers with one record and one packet for each address. 0: as long
    as there is something to read. On a slow network, where each packet counts, it can be as long as a packet takes."""
    want_seconds: float = 0.05
    """How long a message may be known by name only before somebody is asked for it."""
    ask_seconds: float = 0.1
    """How often a site looks at what it keeps. What is there for two such intervals is asked about, then ever more
    seldom: some round trips of a wide network."""
    ping_seconds: float = 0.1
    """How often a primary that is waited for is asked whether it is there."""
    suspicion_seconds: float = 0.6
    """How long a primary may be silent at first. Each wrong suspicion doubles this, and a calm time halves it again;
    whoever was down and is back was suspected rightly."""
    suspicion_seconds_max: float = 10.0
    """How long it may be silent at the most: longer than any round trip."""
    retry_seconds: float = 0.1
    """How often a site repeats what it says about a new epoch until that has begun."""
    blocked_seconds: float = 2.0
    """How long a message may wait before the application hears for whom."""

    @property
    def blocked_ticks(self) -> int:
        """`blocked_seconds` in intervals of `ask_seconds`."""
        return max(2, round(self.blocked_seconds / self.ask_seconds))

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name.endswith(("_messages", "_every", "_messages_max", "_bytes_max")) and value < 1:
                raise UsageError(f"{name} is at least 1, not {value}")
            if name.endswith(("_seconds", "_seconds_max")) and value <= 0 and name != "turn_seconds":
                raise UsageError(f"{name} is positive, not {value}")
        if self.turn_seconds < 0:
            raise UsageError(f"turn_seconds is 0 or more, not {self.turn_seconds}")
        if self.kept_messages_max < self.window_messages:
            raise UsageError(
                f"kept_messages_max = {self.kept_messages_max} is below window_messages = {self.window_messages}"
            )
        if self.suspicion_seconds_max < self.suspicion_seconds:
            raise UsageError("suspicion_seconds_max is not below suspicion_seconds")
