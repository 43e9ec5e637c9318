"""Replicas whose classes differ: they tell each other when they join, and the log says so once."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ordercast.core import GroupId, SiteId
from ordercast.node.replica_messages import Announce

logger = logging.getLogger("ordercast.node")

TOLD_MAX = 1_000
"""Strangers, and replicas with other classes, that the log names."""


class Versions:
    """What one replica knows of the others' classes."""

    def __init__(
        self, process: SiteId, incarnation: int, class_name: str, schema: str, send: Callable[[Announce], object]
    ) -> None:
        self._process = process
        self._incarnation = incarnation
        self._class_name = class_name
        self._schema = schema
        self._send = send
        self._told: set[tuple[str, ...]] = set()
        """What the log has said once and need not say again."""
        self._is_current = False
        """Whether a message of this incarnation was delivered: what comes before it may be of long ago."""

    def announce(self, is_answer: bool = False) -> None:
        """Tell the others what this class looks like."""
        self._send(Announce(self._process, self._incarnation, self._schema, is_answer))

    def on_own_message(self) -> None:
        """A message of this very start has its place in the order."""
        self._is_current = True

    def on_announce(self, announce: Announce) -> None:
        """A replica has joined."""
        if announce.process == self._process:
            self._is_current |= announce.incarnation == self._incarnation
        elif announce.schema != self._schema and self._is_current:
            # The other one began later, so it has not heard of us: of two, one hears the other's announcement after
            # its own, and answers.
            self.on_other(announce.process, announce.schema)
            if not announce.is_answer:
                self.announce(is_answer=True)

    def on_other(self, process: SiteId, schema: str) -> None:
        """A process has another class."""
        if schema != self._schema and self._is_current and self.tell_once("schema", process, schema):
            logger.warning(
                "process %s runs another version of %s: its schema is %s, that of %s is %s; install the same version "
                "at both, for a call that one of them does not understand stops it",
                process,
                self._class_name,
                schema,
                self._process,
                self._schema,
            )

    def tell_stranger(self, message: str, source: SiteId, group: GroupId) -> None:
        """Something came that no replica sends."""
        if self.tell_once("stranger", source):
            logger.warning(
                "skipped message %s to group %s: it is no call of a replica; send it to a group that has no replicas "
                "(more from process %s is counted, and not logged)",
                message,
                group,
                source,
            )

    def tell_once(self, *what: str) -> bool:
        """Whether this was not told yet. Bounded: others decide what there is to tell."""
        if what in self._told or len(self._told) >= TOLD_MAX:
            return False
        self._told.add(what)
        return True
