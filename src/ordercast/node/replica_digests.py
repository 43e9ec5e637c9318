"""Replicas compare their states now and then. One that differs stops and says where, before anybody relies on it.

One of them asks, at a place in the order; each makes a digest of its state as it is there, and tells it. Which state is
right the greater number decides; of as many, whoever's digest comes first in the order.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from ordercast.core import GroupId, SiteId
from ordercast.node.errors import NodeFailed
from ordercast.node.internals import Internals
from ordercast.node.replica_messages import Check, Digest

logger = logging.getLogger("ordercast.node")

CHECK_SECONDS = 10.0
"""After so long somebody asks, if anything was called since; each replica waits a little less or more."""

COST_MAX = 0.005
"""The part of the time that replicas may stand still for it: a state that takes long is looked at less often."""

CHECKS_MAX = 8
"""That are remembered. Answers to older ones come too late."""

DIGEST_BYTES = 16

TAILS = frozenset({"R2", "R3"})
"""They make an exception for the last deliveries of a process that fails."""

_encode_in_order = msgspec.msgpack.Encoder(order="deterministic").encode


def digest_steps(state: Any) -> Iterator[bytes]:
    """A digest of a state, in small steps: nothing for each of them, and the digest at the end. It does not depend on
    the order of a set or of a dictionary, which may differ between replicas whose states are the same."""
    total = 0
    for place, item in _items(state):
        digest = blake2b(_encode(place), digest_size=DIGEST_BYTES)
        digest.update(_encode(item))
        total += int.from_bytes(digest.digest())
        yield b""
    yield (total % (1 << 8 * DIGEST_BYTES)).to_bytes(DIGEST_BYTES)


def _encode(value: Any) -> bytes:
    """The same bytes for the same value, whatever the order of its sets and dictionaries."""
    try:
        return _encode_in_order(value)
    except TypeError:
        # Only keys that are texts, and members of sets that can be compared, are put in order there.
        return _encode_in_order(_put_in_order(value))


def _put_in_order(value: Any) -> list[Any]:
    """What a value is made of, each part as bytes, and those that have no order by their bytes."""
    match value:
        case dict():
            return sorted((_encode(key), _encode(content)) for key, content in value.items())
        case set() | frozenset():
            return sorted(map(_encode, value))
        case list() | tuple():
            return list(map(_encode, value))
        case msgspec.Struct():
            return [_encode(getattr(value, name)) for name in value.__struct_fields__]
        case _ if dataclasses.is_dataclass(value):
            return [_encode(getattr(value, each.name)) for each in dataclasses.fields(value)]
    raise TypeError(f"a state cannot hold a {type(value).__name__}")


def _items(state: Any) -> Iterator[tuple[Any, Any]]:
    """The parts of a state, each with its place: those of its fields that are collections, one by one."""
    if dataclasses.is_dataclass(state):
        fields: list[tuple[Any, Any]] = [(each.name, getattr(state, each.name)) for each in dataclasses.fields(state)]
    elif isinstance(state, msgspec.Struct):
        fields = [(name, getattr(state, name)) for name in state.__struct_fields__]
    else:
        fields = [("", state)]
    for name, value in fields:
        if isinstance(value, dict):
            yield from (((name, key), content) for key, content in value.items())
        elif isinstance(value, list | tuple):
            yield from (((name, index), content) for index, content in enumerate(value))
        elif isinstance(value, set | frozenset):
            yield from ((name, content) for content in value)
        elif not str(name).startswith("_"):
            yield (name,), value


class _Comparison:
    """What was told about one place of the order."""

    def __init__(self, offset: int, place: str) -> None:
        self.offset = offset
        self.place = place
        self.told: dict[SiteId, bytes] = {}
        self.named: set[SiteId] = set()

    def right(self, members: tuple[SiteId, ...]) -> bytes | None:
        """The digest of the right state, when that is known."""
        counts = Counter(self.told.values())
        best = max(counts.values())
        first = next(digest for digest in self.told.values() if counts[digest] == best)
        return first if 2 * best > len(members) or set(self.told) >= set(members) else None


class Digests:
    """The comparisons of one replica."""

    def __init__(self, internals: Internals, group: GroupId, send: Callable[[Check | Digest], object]) -> None:
        self._internals = internals
        self._process = internals.process
        self._group = group
        self._send = send
        self._may_differ = not TAILS.isdisjoint(internals.engine.contract.guarantees)
        """Whether a process that fails may have delivered a check at another place than the others."""
        self._mark = f"the state of {group} is wrong"
        """Stands beside the log of a replica that differed: its next start takes the state of the others."""
        self._checks: dict[tuple[SiteId, int], _Comparison] = {}
        self._number = random.getrandbits(40)
        self._calls = -1
        """How many calls the state had at the last check."""
        self._pause = CHECK_SECONDS
        self._timer: asyncio.TimerHandle | None = None

    def was_wrong(self) -> bool:
        """Whether an earlier start of this process has differed, and has not taken the state of the others since."""
        return self._internals.engine.journal.kept_state(self._mark) is not None

    def set_right(self) -> None:
        """This replica has the state of another one."""
        self._internals.engine.journal.forget_state(self._mark)

    def start(self, calls: Callable[[], int | None]) -> None:
        """Ask from time to time; `calls` says how many calls the state has, None where there is none."""
        self.stop()
        pause = self._pause * random.uniform(0.8, 1.2)
        self._timer = asyncio.get_running_loop().call_later(pause, self.ask, calls)

    def stop(self) -> None:
        """Ask no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def ask(self, calls: Callable[[], int | None]) -> None:
        """Let all compare, if there were calls since the last time."""
        now = calls()
        if now is not None and now != self._calls:
            self._number += 1
            self._send(Check(self._process, self._number))
        self.start(calls)

    def on_check(self, check: Check, offset: int, view: str, calls: int) -> Callable[[Sequence[bytes] | None], None]:
        """The states are compared as they are here; what is given back takes this replica's digest.

        Only where the check is at the same place. (Else: a and b are cut off with the check in their tail; the others
        deliver it again, behind other calls, and stop, for two have told another digest before they do.)
        """
        self._calls, began = calls, time.perf_counter()
        place = f"{view}:{offset}" if self._may_differ else ""
        self._checks[check.process, check.number] = _Comparison(offset, place)
        while len(self._checks) > CHECKS_MAX:
            del self._checks[next(iter(self._checks))]

        def tell(pieces: Sequence[bytes] | None) -> None:
            if pieces is not None and not self._internals.over.is_set():
                self._pause = max(CHECK_SECONDS, (time.perf_counter() - began) / COST_MAX)
                self._send(Digest(self._process, check.process, check.number, b"".join(pieces), place))

        return tell

    def on_digest(self, digest: Digest) -> None:
        """A replica has told its digest, this one too."""
        comparison = self._checks.get((digest.checker, digest.number))
        if comparison is None or comparison.place != digest.place:
            return
        comparison.told[digest.process] = digest.digest
        own, right = comparison.told.get(self._process), comparison.right(self._internals.views.members(self._group))
        if own is None or right is None:
            return
        if own != right:
            self._stop(comparison, right)
            return
        for process in sorted(comparison.told):
            if comparison.told[process] != right and process not in comparison.named:
                comparison.named.add(process)
                logger.warning(
                    "replica %s has another state of group %s than the others at offset %d, and stops",
                    process,
                    self._group,
                    comparison.offset,
                )

    def _stop(self, comparison: _Comparison, right: bytes) -> None:
        others = sorted(name for name, told in comparison.told.items() if told == right)
        why = (
            f"the state of replica {self._process} differs from that of {', '.join(others)} in group {self._group} at "
            f"offset {comparison.offset}: a method depends on more than its arguments and its Context, or this process "
            f"runs another version of it; start it again with the version of the others, and it takes their state"
        )
        self._internals.engine.journal.keep_state(self._mark, why.encode())
        self._internals.failed(NodeFailed(why))
