"""What `proxy` takes as target, and what it refuses at once."""

from pathlib import Path
from typing import Any

import pytest

from accord import Server, connect
from accord.compose import proxy
from accord.errors import InvalidParams, RegistrationError
from support.raw import RawServer
from support.tables import cases
from support.waiting import in_loop

RESOURCE = {"uri": "memo://today", "name": "today"}


@cases(
    ("target", "said"),
    [
        ("npx some-server", 'a command is a list, such as \\["python", "server.py"\\]'),
        ("localhost:8000/mcp", "is it http://localhost:8000/mcp"),
        ("mcp.json", "configuration_server"),
        (Path("mcp.json"), "configuration_server"),
        ("ftp://example.com", "URLs begin with http:// or https://"),
    ],
)
def test_a_text_that_cannot_be_a_target_is_refused_at_once(target: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        proxy(target)


@pytest.mark.parametrize("target", [None, [], 7])
def test_another_type_is_refused_at_once(target: Any) -> None:
    with pytest.raises(TypeError, match="a target is a command as a list, a Python file, a URL"):
        proxy(target)


def test_a_proxy_to_the_server_that_mounts_it_is_refused() -> None:
    hub: Server[Any] = Server("hub")
    with pytest.raises(RegistrationError, match="would be a loop"):
        hub.mount(proxy(hub), prefix="self")


@in_loop
async def test_a_subscription_that_the_other_server_lacks_is_refused() -> None:
    server = RawServer(
        {"resources/list": {"resources": [RESOURCE]}}, capabilities={"resources": {}}
    )
    hub: Server[Any] = Server("hub")
    hub.mount(proxy(server, name="raw"))
    async with connect(hub, revision="2025-06-18") as client:
        with pytest.raises(InvalidParams, match="reports no changes of resources"):
            await client.subscribe("memo://today")
