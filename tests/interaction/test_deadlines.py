"""Deadlines of callers, in virtual time."""

import asyncio
from typing import Any

import pytest

from accord.errors import RequestTimeout
from accord.testing import run_in_virtual_time
from interaction.servers import working
from support.links import IN_MEMORY, text
from support.running import in_virtual_time

pytestmark = IN_MEMORY


@pytest.mark.requirement(
    "timeouts.established", "timeouts.cancel-by-notification", "lifecycle.errors.handled"
)
def test_silence_ends_a_call_and_cancels_it_on_the_server(
    accord_link: Any, connect_to: Any
) -> None:
    async def main() -> None:
        async with connect_to(working.make) as client:
            started = asyncio.get_running_loop().time()
            with pytest.raises(RequestTimeout, match="60 s"):
                await client.call_tool("wait", {"name": "a"})
            assert asyncio.get_running_loop().time() - started == pytest.approx(60, abs=1)
            await asyncio.sleep(0.01)
            assert working.seen[-1] == "left a"

    run_in_virtual_time(main())
    recording = accord_link.connections[0].recording
    assert len(recording.messages("client", "notifications/cancelled")) == 1


@in_virtual_time
async def test_progress_extends_the_deadline(connect_to: Any) -> None:
    async with connect_to(working.make) as client:
        started = asyncio.get_running_loop().time()
        assert text(await client.call_tool("tick", {"times": 5})) == "done"
        assert asyncio.get_running_loop().time() - started == pytest.approx(200, abs=1)


@pytest.mark.requirement("timeouts.maximum-despite-progress")
@in_virtual_time
async def test_the_cap_ends_a_call_despite_progress(connect_to: Any) -> None:
    async with connect_to(working.make, cap=300) as client:
        started = asyncio.get_running_loop().time()
        with pytest.raises(RequestTimeout):
            await client.call_tool("tick", {"times": 1000})
        assert asyncio.get_running_loop().time() - started == pytest.approx(300, abs=1)
        with pytest.raises(RequestTimeout):
            await client.call_tool("tick", {"times": 1000}, cap=100)
        assert asyncio.get_running_loop().time() - started == pytest.approx(400, abs=2)


@in_virtual_time
async def test_deadlines_are_settable_per_call(connect_to: Any) -> None:
    async with connect_to(working.make, timeout=5) as client:
        loop = asyncio.get_running_loop()
        started = loop.time()
        with pytest.raises(RequestTimeout, match="5 s"):
            await client.call_tool("wait", {"name": "a"})
        with pytest.raises(RequestTimeout, match="20 s"):
            await client.call_tool("wait", {"name": "a"}, timeout=20)
        assert loop.time() - started == pytest.approx(25, abs=1)


@pytest.mark.requirement("ping.timeout-is-failure", "ping.timeout.may-terminate")
@in_virtual_time
async def test_a_ping_without_answer_fails(accord_link: Any) -> None:
    from accord import connect
    from support.raw import RawServer

    async with connect(RawServer({"ping": lambda raw, message: None})) as client:
        with pytest.raises(RequestTimeout, match="ping"):
            await client.ping(timeout=3)
