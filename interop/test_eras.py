"""Peers of different eras: what happens where a client and a server have no revision in common."""

import asyncio
import json
from typing import Any

import pytest
from sessions import CLIENTS, MODERN, NEWEST_HANDSHAKE, SERVERS, run

from accord import connect
from accord.errors import ConnectFailed

CODE_UNSUPPORTED = -32022


def test_a_client_says_what_both_sides_speak_where_they_share_nothing() -> None:
    async def meet() -> None:
        async with connect([*SERVERS["sdk-2"], MODERN], revision="2025-06-18"):
            pass

    with pytest.raises(ConnectFailed) as failed:
        asyncio.run(meet())
    assert "2025-06-18" in str(failed.value)
    assert MODERN in str(failed.value)


# A server that was set up for the older era answers as servers did then: one of the errors of the
# newer one would keep clients from falling back (versioning.modern-error-is-not-legacy).
@pytest.mark.thorough
@pytest.mark.parametrize("client", ["mcp", "fastmcp", "sdk-2"])
def test_a_server_of_the_older_era_refuses_clients_of_the_newer(client: str) -> None:
    command = [*CLIENTS[client], MODERN, *SERVERS["accord"], NEWEST_HANDSHAKE]
    _, printed, said = run(command)
    outcomes: dict[str, Any] = json.loads(printed)
    assert outcomes.get("tools", outcomes.get("broken"))["error"], said
    assert str(CODE_UNSUPPORTED) not in printed


@pytest.mark.thorough
@pytest.mark.parametrize("client", ["mcp", "fastmcp", "sdk-2"])
def test_a_client_that_may_choose_falls_back_to_the_older_era(client: str) -> None:
    command = [*CLIENTS[client], "default", *SERVERS["accord"], NEWEST_HANDSHAKE]
    _, printed, said = run(command)
    outcomes: dict[str, Any] = json.loads(printed)
    assert outcomes["opened"]["revision"] == NEWEST_HANDSHAKE, said
    assert outcomes["add"]["text"] == "3"
