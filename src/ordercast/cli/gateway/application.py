"""The gateway as an application of Starlette: publish, server-sent events, health. docs/gateway.md has the table."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import ordercast
from ordercast.node.control import describe

BODY_BYTES_MAX = 1 << 20
"""Of a message. Larger ones are for clients."""

PUBLISH_SECONDS = 10.0
"""Until whoever publishes is told that it is not known whether the message is ordered."""

KEEP_ALIVE_SECONDS = 15.0
"""Without a delivery: then a comment is sent, so that nobody in between closes the connection."""

FOLLOWERS_MAX = 1000
"""Who follow groups through one gateway. All of them share its one connection."""


class Gateway(Starlette):
    """The routes, for a client that is entered."""

    def __init__(self, client: ordercast.Client) -> None:
        super().__init__(
            routes=[
                Route("/groups/{group}/messages", self._publish, methods=["POST"]),
                Route("/groups/{group}/events", self._follow, methods=["GET"]),
                Route("/health", self._health, methods=["GET"]),
            ]
        )
        self._client = client
        self._followers = 0
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def close(self) -> None:
        """Tell all followers to go elsewhere."""
        if not self._closed.done():
            self._closed.set_result(None)

    async def _publish(self, request: Request) -> Response:
        """Multicast the body; the answer comes when it is ordered."""
        payload = await _body(request)
        if payload is None:
            return _complain(413, f"a message has {BODY_BYTES_MAX} bytes at the most")
        key = request.headers.get("idempotency-key")
        try:
            group = self._client.group(request.path_params["group"])
            async with asyncio.timeout(PUBLISH_SECONDS):
                receipt = await group.multicast(payload, confirm=True, key=key)
        except ordercast.UsageError as error:
            return _complain(400, str(error))
        except (ordercast.GroupBlocked, ordercast.NoMember, TimeoutError) as error:
            why = str(error) or f"not ordered in {PUBLISH_SECONDS:.0f} s, and may be ordered all the same"
            return _complain(503, why, {"Retry-After": "1"})
        answer = {"offset": receipt.offset, "message": receipt.message, "repeated": receipt.repeated}
        return JSONResponse(answer, 200 if receipt.repeated else 201)

    async def _follow(self, request: Request) -> Response:
        """Deliveries as server-sent events, whose ids are offsets."""
        last, start = request.headers.get("last-event-id"), request.query_params.get("from")
        try:
            at = int(last) + 1 if last is not None else None if start is None else int(start)
            deliveries = self._client.group(request.path_params["group"]).subscribe(at)
        except ValueError:
            return _complain(400, "Last-Event-ID and from are offsets: whole numbers")
        except ordercast.UsageError as error:
            return _complain(400, str(error))
        if self._followers >= FOLLOWERS_MAX:
            return _complain(503, f"this gateway has {FOLLOWERS_MAX} followers: ask another one", {"Retry-After": "5"})
        return StreamingResponse(
            self._events(deliveries), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    async def _events(self, deliveries: AsyncIterator[ordercast.Delivery]) -> AsyncIterator[bytes]:
        self._followers += 1
        following: asyncio.Task[ordercast.Delivery] | None = None
        try:
            yield b": ordercast\n\n"
            while True:
                following = following or asyncio.ensure_future(_next(deliveries))
                waited_for = (following, self._closed)
                await asyncio.wait(waited_for, timeout=KEEP_ALIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if self._closed.done():
                    yield _end("the gateway is closing")
                    return
                if not following.done():
                    yield b": nothing new\n\n"
                    continue
                delivery, following = following.result(), None
                yield _event(delivery)
        except (ordercast.ClientCut, ordercast.NoMember, ordercast.NodeClosed) as error:
            yield _end(str(error))
        finally:
            self._followers -= 1
            if following is not None:
                following.cancel()

    async def _health(self, request: Request) -> Response:
        """Whether there is a member."""
        member = self._client.member
        answer = {"cluster": self._client.cluster, "member": member or None, "followers": self._followers}
        return JSONResponse(answer, 200 if member else 503)


async def _next(deliveries: AsyncIterator[ordercast.Delivery]) -> ordercast.Delivery:
    return await anext(deliveries)


async def _body(request: Request) -> bytes | None:
    """The body; None when it is too large, and then the rest is not read."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_BYTES_MAX:
            return None
    return bytes(body)


def _event(delivery: ordercast.Delivery) -> bytes:
    return f"id: {delivery.offset}\ndata: {json.dumps(describe(delivery))}\n\n".encode()


def _end(why: str) -> bytes:
    return f"event: end\ndata: {json.dumps({'why': why})}\n\n".encode()


def _complain(status: int, why: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": why}, status, headers)
