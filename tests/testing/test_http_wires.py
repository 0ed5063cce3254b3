"""Connections over HTTP: the server is served while they are open, and judged."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from accord import Server
from accord.errors import ConnectFailed, MissingExtra
from accord.testing import Recording, connected
from accord.testing.connection import TransportName
from support import testing_servers as servers
from support.http_server import bounded
from support.tables import cases
from support.waiting import run

OVER_HTTP: list[TransportName] = ["http", "http-stream", "sse"]


def revision_of(transport: str) -> str:
    return "2024-11-05" if transport == "sse" else "2025-06-18"


async def called(target: Any, recording: Recording | None = None, **options: Any) -> None:
    async with connected(target, recording=recording, **options) as client:
        assert await client.call_tool("add", {"a": 1, "b": 2}, result_type=int) == 3


@cases("transport", OVER_HTTP)
@cases("target", [servers.good, servers.make], ids=["server", "maker"])
def test_a_server_is_served_in_this_process(target: Any, transport: TransportName) -> None:
    async def main() -> None:
        async with connected(target, transport=transport) as client:
            assert await client.call_tool("where", result_type=int) == os.getpid()

    run(main())


@pytest.mark.parametrize("transport", OVER_HTTP)
def test_a_plain_with_gives_the_blocking_client(transport: TransportName) -> None:
    with connected(servers.good, transport=transport) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}, result_type=int) == 3
    assert client.is_closed


@pytest.mark.parametrize(
    ("transport", "recorded", "kind"),
    [
        ("http", "http", "application/json"),
        ("http-stream", "http", "text/event-stream"),
        ("sse", "sse", "text/event-stream"),
    ],
)
def test_the_transport_chooses_json_or_event_streams(
    transport: TransportName, recorded: str, kind: str
) -> None:
    recording = Recording()
    run(called(servers.good, recording, transport=transport, revision=revision_of(transport)))
    assert {each.transport for each in recording.records} == {recorded}
    said = [each for each in recording.records if each.sender == "server" and each.http is not None]
    kinds = {each.http.exchange: each.http.header("content-type") for each in reversed(said)}  # type: ignore[union-attr]
    assert {kinds[each.http.exchange] for each in said if each.message} == {kind}  # type: ignore[union-attr]


@pytest.mark.parametrize("transport", OVER_HTTP)
def test_closing_leaves_no_task_and_no_socket(transport: TransportName) -> None:
    async def main() -> str:
        async with connected(servers.good, transport=transport) as client:
            await client.ping()
            place: str = client._link.wire.inner.place  # type: ignore[attr-defined]
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert others == set()
        return place

    port = urlsplit(run(main())).port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port or 0), timeout=1)


@pytest.mark.parametrize("transport", ["memory", *OVER_HTTP[::2]])
def test_a_url_is_a_target_whatever_the_transport(transport: TransportName) -> None:
    recording = Recording()
    with bounded(servers.make().asgi(sse=True)) as port:
        path = "sse" if transport == "sse" else "mcp"
        run(called(f"http://127.0.0.1:{port}/{path}", recording, transport=transport))
    assert {each.transport for each in recording.records} == {
        "sse" if transport == "sse" else "http"
    }


def test_an_app_is_served_with_the_settings_it_was_made_with() -> None:
    recording = Recording()
    run(called(servers.good.asgi(path="/here", sessions=False), recording, transport="http"))
    facts = [each.http for each in recording.records if each.http is not None]
    assert not any(each.header("mcp-session-id") for each in facts)


def test_options_of_connect_reach_the_client() -> None:
    recording = Recording()
    run(called(servers.good, recording, transport="http", headers={"X-Desk": "7"}))
    requests = [each.http for each in recording.records if each.sender == "client"]
    assert {each.header("x-desk") for each in requests if each is not None} == {"7"}


@pytest.mark.parametrize("transport", OVER_HTTP)
def test_a_server_that_does_not_start_says_why(transport: TransportName) -> None:
    @asynccontextmanager
    async def lifespan(server: Server[Any]) -> AsyncIterator[None]:
        raise LookupError("no database")
        yield

    async def main() -> None:
        with pytest.raises(LookupError, match="no database"):
            await called(Server("broken", lifespan=lifespan), transport=transport)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())


def test_a_url_without_a_server_is_reported() -> None:
    with pytest.raises(ConnectFailed, match="connection refused"):
        run(called("http://127.0.0.1:9/mcp"))


@pytest.mark.parametrize("target", [["python"], "served.py"])
def test_a_target_other_than_a_server_is_refused(target: Any) -> None:
    with pytest.raises(TypeError, match="over HTTP a target is a Server"):
        run(called(target, transport="http"))


@pytest.mark.parametrize("transport", ["memory", "stdio"])
def test_an_app_is_a_target_only_over_http(transport: TransportName) -> None:
    with pytest.raises((TypeError, ValueError), match="HttpApp"):
        run(called(servers.good.asgi(), transport=transport))


def test_a_missing_extra_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "accord.http.server.listener", None)
    with pytest.raises(MissingExtra, match=r"accord\[http\]|http"):
        run(called(servers.good, transport="http"))
