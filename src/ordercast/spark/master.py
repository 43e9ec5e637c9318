"""Spark masters: what a master URL may be, and whether the master it names answers."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass

from ordercast.core.errors import UsageError

DEFAULT_MASTER = "local[*]"
MASTER_VARIABLE = "ORDERCAST_MASTER"

STANDALONE_PORT = 7077
ANSWER_SECONDS_MAX = 5.0
"""A master on the same continent answers in a tenth of that; Spark itself would try for a minute."""

_KNOWN = re.compile(
    r"local(\[(\*|[1-9]\d*)(,[1-9]\d*)?\])?"
    r"|local-cluster\[[1-9]\d*,[1-9]\d*,[1-9]\d*\]"
    r"|spark://[^\s/,]+(,[^\s/,]+)*"
    r"|yarn"
    r"|k8s://\S+"
)


@dataclass(frozen=True)
class Master:
    """A master that can be given to Spark."""

    url: str
    driver_address: str | None = None
    """By which address its workers reach this process; None: let Spark find out."""

    @property
    def is_local(self) -> bool:
        """Whether the workers are processes of this machine that see its files and packages."""
        return self.url.startswith("local")

    @property
    def shares_package(self) -> bool:
        """Whether the workers run in this process's own installation, so that nothing has to be shipped to them."""
        return self.is_local and not self.url.startswith("local-cluster")


def find_master(url: str | None) -> Master:
    """The master to use: the one asked for, or the environment's, or this machine. It is known to answer."""
    source = "--master" if url else MASTER_VARIABLE
    url = url or os.environ.get(MASTER_VARIABLE) or DEFAULT_MASTER
    if not _KNOWN.fullmatch(url):
        raise UsageError(
            f"{source}: {url!r} is no Spark master; use local[*], local[N], spark://HOST:PORT, yarn or k8s://HOST:PORT"
        )
    if url.startswith("local"):
        return Master(url, "127.0.0.1")
    if url.startswith("spark://"):
        return Master(url, _reach(url))
    return Master(url)


def _reach(url: str) -> str:
    """Connect to one of the masters that the URL names; our address as that master sees it."""
    reasons = []
    for place in url.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":") if ":" in place else (place, "", str(STANDALONE_PORT))
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise UsageError(f"--master: {url!r} has no port number after {host!r}; use spark://HOST:PORT")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS_MAX) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            reasons.append(f"{place}: {error.strerror or error}")
    raise UsageError(
        f"no Spark master answers at {url} ({'; '.join(reasons)}); is it running, and is this its address?"
    )
