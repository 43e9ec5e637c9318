"""Host names of other processes, or of seeds, that cannot be resolved yet: a machine that is not known today must not
keep the others from starting."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread

from ordercast.core import UsageError
from ordercast.net.sockets import Resolved, resolve
from ordercast.node.addresses import HostPort

logger = logging.getLogger("ordercast.node")

LOOK_AGAIN_SECONDS = 5.0


class Lookup:
    """Looks for hosts again and again, in a thread of its own: a name server may take its time."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        missing: dict[str, HostPort],
        on_found: Callable[[str, Resolved], None],
    ) -> None:
        self._loop = loop
        self._missing = missing
        self._on_found = on_found
        self._stopped = Event()
        if missing:
            # A daemon: whoever closes the node does not wait for a name server.
            Thread(target=self._work, name="ordercast-lookup", daemon=True).start()

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()

    def _work(self) -> None:
        while self._missing and not self._stopped.wait(LOOK_AGAIN_SECONDS):
            for name, where in tuple(self._missing.items()):
                with suppress(UsageError, RuntimeError):  # RuntimeError: the loop is closed
                    self._loop.call_soon_threadsafe(self._tell, name, resolve(*where))
                    del self._missing[name]

    def _tell(self, name: str, where: Resolved) -> None:
        if not self._stopped.is_set():
            logger.info("%s is at %s:%d", name, *where.address[:2])
            self._on_found(name, where)
