"""What a client follows: deliveries of a group, in order, each once, whichever member gives them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from ordercast.core import GroupId
from ordercast.node.deliveries import Delivery, Origin
from ordercast.node.serving.packets import Deliveries, Request, Started, Subscribe, Taken
from ordercast.node.serving.subscription import size_of


class ClientSubscription:
    """Deliveries from an offset on, as an asynchronous iterator."""

    def __init__(self, number: int, group: GroupId, start: int | None, say: Callable[[Request], object]) -> None:
        self._number = number
        self.group = group
        self.position = start
        """The offset of the next delivery; None while that is wherever the group is now."""
        self.given_up = 0
        """Members, one after the other, that did not have what comes next."""
        self._say = say
        self._waiting: deque[Deliveries] = deque()
        self._rest: deque[Delivery] = deque()
        self._rest_size = 0
        self._grown = asyncio.Event()
        self._end: BaseException | None = None

    def request(self) -> Subscribe:
        """What a member is asked."""
        return Subscribe(self._number, self.group, self.position)

    def begin_again(self, number: int) -> None:
        """Another member is asked for what was not taken from the last one."""
        self._number = number
        self._waiting.clear()

    def on_started(self, answer: Started) -> None:
        """The member has begun."""
        if self.position is None:
            self.position = answer.offset

    def on_deliveries(self, answer: Deliveries) -> None:
        """The next ones."""
        self.given_up = 0
        self._waiting.append(answer)
        self._grown.set()

    def end(self, why: BaseException) -> None:
        """Nothing more will come."""
        self._end = why
        self._grown.set()

    def __aiter__(self) -> ClientSubscription:
        return self

    async def __anext__(self) -> Delivery:
        while not self._rest:
            if self._rest_size:
                self._say(Taken(self._number, self._rest_size))
                self._rest_size = 0
            while not self._waiting:
                if self._end is not None:
                    raise self._end
                self._grown.clear()
                await self._grown.wait()
            self._unpack(self._waiting.popleft())
        delivery = self._rest.popleft()
        self.position = delivery.offset + 1
        return delivery

    def _unpack(self, answer: Deliveries) -> None:
        """Those that the application has not seen: the last member may have given some of them."""
        self._rest_size = size_of(answer.payloads)
        origin, groups, source = (
            Origin(answer.bundle, answer.view, answer.replayed),
            (self.group,),
            answer.bundle.source,
        )
        at = self.position or 0
        for index, payload in zip(answer.places, answer.payloads, strict=True):
            if answer.offset + index >= at:
                self._rest.append(Delivery(payload, answer.offset + index, source, groups, origin, index))
