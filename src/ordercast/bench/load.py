"""What is to be measured: which cluster, where its processes run, and how they send."""

from __future__ import annotations

import msgspec


class Place(msgspec.Struct, frozen=True):
    """Where one of the processes runs."""

    address: str = "127.0.0.1"
    namespace: str | None = None

    @property
    def command(self) -> list[str]:
        """What stands before the command that starts it."""
        return [] if self.namespace is None else ["ip", "netns", "exec", self.namespace]


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster all of whose processes are senders and members, and what they are to do."""

    nodes: int = 4
    size: int = 100
    """Bytes of a message."""
    seconds: float = 5.0
    """Measured, after the processes have warmed up."""
    protocol: str = "sequencer"
    rate: float | None = None
    """Messages a second of all processes together; None: the most."""
    api: str = "batches"
    """How deliveries are taken: batches, iterate or callback."""
    insecure: bool = False
    log: bool = False
    """Whether the processes have a stable log."""
    max_datagram: int = 65000
    busy_poll: int = 200
    overlap: bool = False
    """Two groups, each without one process, instead of one group of all."""
    multicast: str | None = None
    """An IP multicast group, `ADDRESS:PORT`."""
    one_channel: bool = False
    """Whether the protocol needs a hub."""
    options: tuple[str, ...] = ()
    """Of the protocol, each a line of a configuration."""
    service: str = ""
    """That every process chooses, once they talk with each other; the protocol's own where it is empty."""
    places: tuple[Place, ...] | None = None
    """Where each process runs; None: all of them right here."""

    @property
    def names(self) -> list[str]:
        """The processes."""
        return [f"p{index:02}" for index in range(self.nodes)]

    @property
    def groups(self) -> dict[str, list[str]]:
        """The groups and their members."""
        names = self.names
        return {"first": names[:-1], "last": names[1:]} if self.overlap else {"bench": names}

    @property
    def place_of(self) -> dict[str, Place]:
        """Process -> where it runs."""
        places = (Place(),) * self.nodes if self.places is None else self.places
        return dict(zip(self.names, places, strict=True))
