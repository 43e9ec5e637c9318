"""Options of Protocol 5, and the times that follow from them."""

from __future__ import annotations

from typing import ClassVar

from ordercast.core import Options, SiteId, UsageError


class Tree5Options(Options, frozen=True):
    """Options of Protocol 5."""

    phi_n: float = 0.2
    """Seconds within which the network brings a packet, as the run promises it."""
    phi_p: float = 0.1
    """Seconds within which a site performs any one operation, as the run promises it."""
    delta: float = 2.0
    """δ: the next in rank takes over when it has heard nothing from the root for so many seconds, and a source that has
    nothing to multicast for so long says so."""
    children_max: int = 2
    """How many children a site of the tree has at the most."""
    sources: tuple[SiteId, ...] = ()
    """The sites that multicast, and that are told of a new root; none named: any may, and all are."""
    log_messages_max: int = 4096
    """How many messages a source keeps that the group has not all delivered; then it stops."""
    log_bytes_max: int = 1 << 25
    """And how many bytes of payload."""

    shared: ClassVar[frozenset[str]] = frozenset({"phi_n", "phi_p", "delta", "children_max", "sources"})

    def __post_init__(self) -> None:
        if self.phi_n < 0 or self.phi_p < 0 or min(self.children_max, self.log_messages_max, self.log_bytes_max) < 1:
            raise UsageError(
                "options of tree-5: phi_n and phi_p are 0 or more, children_max, log_messages_max and log_bytes_max "
                "1 or more"
            )
        if self.heartbeat_seconds <= 0:
            raise UsageError(
                f"options of tree-5: delta is {self.delta:g} s and must be more than phi_n + 2 phi_p, which is "
                f"{self.phi_n + 2 * self.phi_p:g} s: else a root that only hurries is taken for dead"
            )

    @property
    def heartbeat_seconds(self) -> float:
        """How often the root speaks, so that no jitter makes a pause of δ: its timer may be φP late, the packet φN, and
        its handling φP."""
        return self.delta - self.phi_n - 2 * self.phi_p

    @property
    def catching_up_seconds(self) -> float:
        """Fragment (H): how long a new root stays closed. The new tree takes φN to the others, they φP to answer, the
        answer φN to come, and the root φP to handle it."""
        return 2 * self.phi_n + 2 * self.phi_p

    @property
    def succession_seconds(self) -> float:
        """[A8]: from the failure of a root to the moment at which its successor may fail.

        The thesis has δ + 3φP + 2φN. It counts δ from the failure; the successor counts it from the last packet of the
        root, which may arrive φN after the failure and be handled φP later; and the opening takes one more φP.
        """
        return self.delta + 5 * self.phi_p + 3 * self.phi_n
