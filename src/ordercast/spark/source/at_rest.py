"""A group as the log of a process has it, while the process does not run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import msgspec

from ordercast.core.errors import UsageError
from ordercast.node.at_rest import read_at_rest
from ordercast.node.configuration import read_configuration
from ordercast.node.history import History
from ordercast.node.reading import HeldBatch, read_stretch
from ordercast.spark.source.members import Extent, OnLost, members_of


@dataclass(frozen=True)
class LogAtRest:
    """Of one group, in the log of one process. It is read when it is first asked for, as a whole."""

    config: str
    group: str
    process: str | None

    @cached_property
    def _history(self) -> History:
        configuration = read_configuration(self.config, os.environ, {})
        names = members_of(configuration, self.config, self.group, self.process)
        if configuration.log_directory is None:
            raise UsageError(f"{self.config} has no log_directory: its groups are read from running nodes")
        here = [name for name in names if (configuration.log_directory / name).is_dir()]
        if not here:
            raise UsageError(
                f"{configuration.log_directory}: there is no log of a member of group {self.group!r} "
                f"(members: {', '.join(names)})"
            )
        histories = read_at_rest(configuration, here[0])
        if self.group not in histories:
            raise UsageError(f"the log of {here[0]} has nothing of group {self.group!r}")
        return histories[self.group]

    def look(self) -> Extent:
        """From where to where the log has anything."""
        return Extent(self._history.first_offset, self._history.next_offset)

    def read(self, start: int, stop: int, on_lost: OnLost) -> Iterator[HeldBatch]:
        """The bundles with these offsets. What is missing between them is told, and left out."""
        at = start
        while at < stop:
            held = read_stretch(self._history, at, stop).held()
            if not held:
                return
            for batch in held:
                if batch.offset > at:
                    on_lost(at, min(batch.offset, stop))
                # When the process delivered it, the log does not say.
                yield msgspec.structs.replace(batch, time=0.0)
                at = batch.offset + batch.count
