"""Targets of `connected` that stand around a server's app."""

import logging
from typing import Any

import pytest

from accord import Server
from accord.auth import Protected, StaticTokens
from accord.testing import connected
from support.waiting import in_loop


@pytest.mark.parametrize("is_protected", [False, True])
@in_loop
async def test_an_app_behind_a_log_and_a_guard_is_a_target(
    is_protected: bool, caplog: pytest.LogCaptureFixture
) -> None:
    settings: dict[str, Any] = {}
    if is_protected:
        settings["auth"] = Protected(StaticTokens({"secret": "ada"}))
    server = Server("desk", **settings)

    @server.tool
    async def hello() -> str:
        """Greet."""
        return "hello"

    app = server.asgi(access_log=True)
    with caplog.at_level(logging.INFO, logger="accord.access"):
        token = {"authorization": "Bearer secret"}
        async with connected(app, transport="http", headers=token) as client:
            assert (await client.call_tool("hello")).text == "hello"
    assert "call=tools/call name=hello" in caplog.text
