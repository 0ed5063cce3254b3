"""Several apps at one address, as behind a balancer."""

import asyncio
import itertools
from contextlib import contextmanager
from typing import Any

from support.http_server import serving


async def _nothing(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError("not asked")


@contextmanager
def balanced(*servers, start=None):
    """Serve authorization servers at one address, each request by another one; yield its URL."""

    async def begin(app, receive, send):
        while (message := await receive())["type"] != "lifespan.shutdown":
            if start is not None:
                await start()
            await send({"type": f"{message['type']}.complete"})
        await send({"type": "lifespan.shutdown.complete"})

    def with_start(app):
        async def run(scope, receive, send):
            await (begin if scope["type"] == "lifespan" else app)(scope, receive, send)

        return run

    with balanced_apps(*(with_start(each.guard(_nothing)) for each in servers)) as url:
        yield url


@contextmanager
def balanced_apps(*apps):
    """Serve apps at one address, each request by another one; yield its URL."""
    turns = itertools.cycle(apps)

    async def app(scope, receive, send):
        if scope["type"] != "lifespan":
            await next(turns)(scope, receive, send)
            return
        said, asked = asyncio.Queue(), [asyncio.Queue() for _ in apps]
        async with asyncio.TaskGroup() as group:
            for each, messages in zip(apps, asked, strict=True):
                group.create_task(each(scope, messages.get, said.put))
            for _ in ("startup", "shutdown"):
                message = await receive()
                for messages in asked:
                    messages.put_nowait(message)
                answers = [await said.get() for _ in apps]
                assert len({each["type"] for each in answers}) == 1, answers
                await send(answers[0])

    with serving(app, lifespan="on") as port:
        yield f"http://127.0.0.1:{port}"
