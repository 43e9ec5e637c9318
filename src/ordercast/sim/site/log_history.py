"""What has become of a site's log: whether it is new, was lost, and is to be repaired by an operator."""

from __future__ import annotations


class LogHistory:
    """Tells how the instances of a site start: for the first time, from their logs, or after a repair."""

    def __init__(self) -> None:
        self.is_new = True
        """Whether there is nothing to recover from: to the instances this is a first start."""
        self.is_repaired = False
        """Whether an operator has declared the log lost, and the site has not recovered since."""
        self.awaits_operator = False
        """Whether an operator will see to it when the site has been refused."""
        self.began = 0
        """The incarnation with which the log began: 0, or the first one after a repair."""

    def lose(self, repair: bool) -> None:
        """Everything on the disk is gone; `repair`: an operator will see to it when the site has been refused."""
        # Nor does anything say that the site was being repaired.
        self.is_new, self.is_repaired = True, False
        self.awaits_operator = repair

    def repair(self, incarnation: int) -> None:
        """An operator has declared the log lost: a new one begins with the site's next incarnation."""
        self.is_new, self.is_repaired = False, True
        self.awaits_operator = False
        self.began = incarnation
