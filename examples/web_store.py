"""A key-value store behind HTTP: `python web_store.py store.toml NAME PORT` for each process of a configuration.

curl -X PUT -d blue http://127.0.0.1:8000/colour; curl http://127.0.0.1:8000/colour"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

import ordercast

shared = ordercast.Shared(timeout=5.0)


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    async with ordercast.open(sys.argv[1], sys.argv[2]) as node:
        # In a task: without a majority it waits, and the server must listen, say so, and end when it is told to.
        joining = asyncio.create_task(shared.join(node, "everyone"))
        try:
            yield
        finally:
            joining.cancel()


async def get(request: Request) -> PlainTextResponse:
    value = await shared.map("store", str).get(request.path_params["key"], linearizable=True)
    return PlainTextResponse(value or "", 404 if value is None else 200)


async def put(request: Request) -> PlainTextResponse:
    text = (await request.body()).decode()
    return PlainTextResponse(str(await shared.map("store", str).put(request.path_params["key"], text)))


async def unavailable(_: Request, error: Exception) -> PlainTextResponse:
    return PlainTextResponse(str(error), 503)


application = Starlette(
    routes=[Route("/{key}", get), Route("/{key}", put, methods=["PUT"])],
    exception_handlers={ordercast.OrdercastError: unavailable, TimeoutError: unavailable},
    lifespan=lifespan,
)

if __name__ == "__main__":
    # Requests that wait for a group which cannot go on are given up after a moment.
    uvicorn.run(application, port=int(sys.argv[3]), timeout_graceful_shutdown=0, log_level="warning")
