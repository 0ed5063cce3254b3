"""What one request on the listener leaves for the next: nothing, whatever its client does."""

import pytest

from support.listened import post
from support.listened_here import run_on, serving


@pytest.fixture(params=["uvloop", "asyncio"])
def loop(request):
    return request.param


def test_an_asgi_app_may_change_its_headers(loop):
    seen = []

    async def app(scope, receive, send):
        await receive()
        seen.append(len(scope["headers"]))
        scope["headers"].append((b"x-user", b"ann"))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def check():
        async with serving(app) as here, await here.connect() as client:
            for _ in range(4):
                await client.ask(post())

    run_on(loop, check())
    assert seen == [4] * 4
