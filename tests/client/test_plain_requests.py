"""Requests of any method as plain JSON: nothing is lost on the way, and the rules still hold."""

import asyncio
import sys
from pathlib import Path

import msgspec
import pytest

from accord import Server, connect
from accord.client import blocking
from accord.errors import InvalidParams, LocalProtocolError, MethodNotFound, RequestTimeout
from accord.testing import Recording, connected
from accord.types import REVISION_IDS
from support.running import on_a_loop

SCRIPTED = Path(__file__).parents[1] / "inspector" / "scripted_server.py"


@pytest.fixture
def desk():
    server = Server("desk")

    @server.tool
    def add(a: int, b: float = 2) -> float:
        """Add two numbers."""
        return a + b

    @server.tool
    async def wait() -> str:
        """Wait."""
        await asyncio.sleep(600)
        return ""

    return server


@pytest.mark.parametrize("revision", REVISION_IDS)
def test_methods_of_the_revision_are_sent_with_unknown_members(desk, revision):
    recording = Recording()
    params = {
        "name": "add",
        "arguments": {"a": 1, "b": msgspec.Raw(b"0.5000")},
        "x-more": [1],
        "_meta": {"com.example/a": 1},
    }
    with connected(desk, revision=revision, recording=recording) as client:
        result = client.request("tools/call", params, meta={"com.example/b": 2})
        assert result["content"][0]["text"] == "1.5"
    (sent,) = recording.messages("client", "tools/call")
    assert sent["params"]["x-more"] == [1]
    assert sent["params"]["_meta"].items() >= {"com.example/a": 1, "com.example/b": 2}.items()
    texts = [bytes(each.message) for each in recording.records]
    assert any(b'"b":0.5000' in each for each in texts)


@on_a_loop
async def test_methods_of_extensions_are_sent_as_they_are():
    command = [sys.executable, "-I", "-S", str(SCRIPTED)]
    async with connect(command, revision="2025-06-18") as client:
        result = await client.request("org.example/echo", {"a": None, "b": [1]}, meta={"c": 1})
        assert result == {"params": {"a": None, "b": [1], "_meta": {"c": 1}}, "more": [1.5]}
        with pytest.raises(MethodNotFound):
            await client.request("org.example/other")


def test_rules_hold_before_anything_is_sent(desk):
    recording = Recording()
    with connected(desk, revision="2025-06-18", recording=recording) as client:
        count = len(recording.records)
        for method, params, why in (
            ("tasks/list", {}, "not part of revision 2025-06-18"),
            ("prompts/list", {}, "capability prompts"),
            ("tools/call", {"arguments": {}}, "params do not fit 2025-06-18"),
            ("notifications/cancelled", {}, "not part of revision"),
            ("subscriptions/listen", {}, "use client.listen"),
        ):
            with pytest.raises(LocalProtocolError, match=why):
                client.request(method, params)
        with pytest.raises(TypeError, match="mapping"):
            client.request("tools/list", [1])
        with pytest.raises(TypeError, match="the method"):
            client.request(5)
        assert len(recording.records) == count
        with pytest.raises(InvalidParams):
            client.request("tools/call", {"name": "missing"})


def test_deadlines_and_middleware_apply(desk):
    seen = []

    async def note(request, proceed):
        seen.append((request.method, dict(request.params)))
        return await proceed()

    with blocking.connect(desk, middleware=[note]) as client:
        with pytest.raises(RequestTimeout):
            client.request("tools/call", {"name": "wait"}, timeout=0.01)
        progress = []
        client.request("tools/list", on_progress=progress.append)
    assert seen == [("tools/call", {"name": "wait"}), ("tools/list", {})]
