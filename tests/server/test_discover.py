"""`server/discover`: what a server says of itself to clients without a handshake."""

from typing import Any

import pytest

from accord import Server
from support.listening import SERVER_INFO, ListeningClient
from support.running import in_virtual_time
from support.tables import cases

METHODS = {
    "tools": {"tools/list": {}, "tools/call": {"name": "look", "arguments": {}}},
    "prompts": {"prompts/list": {}, "prompts/get": {"name": "greet", "arguments": {"name": "Ann"}}},
    "resources": {
        "resources/list": {},
        "resources/templates/list": {},
        "resources/read": {"uri": "note://a"},
    },
    "completions": {
        "completion/complete": {
            "ref": {"type": "ref/prompt", "name": "greet"},
            "argument": {"name": "name", "value": "A"},
        }
    },
}


def make(*kinds: str, **settings: Any) -> Server[Any]:
    server: Server[Any] = Server("desk", version="3", instructions="Be kind.", **settings)
    if "tools" in kinds:
        server.add_tool(lambda: "x", name="look", description="Look.")
    if "prompts" in kinds:
        server.add_prompt(lambda name: name, name="greet")
        server.add_completion("greet", "name", ["Ann"])
    if "resources" in kinds:
        server.add_resource("note://a", lambda: "a")
    return server


@pytest.mark.requirement(
    "discover.implemented",
    "discover.result.required-fields",
    "discover.result.server-info",
    "discover.result.lists-request-version",
)
@in_virtual_time
async def test_the_server_names_its_revisions_and_itself() -> None:
    async with ListeningClient(make("tools", "resources")) as raw:
        result = await raw.result("d", "server/discover")
        assert result["_meta"] == {SERVER_INFO: {"name": "desk", "version": "3"}}
        assert result["instructions"] == "Be kind."
        assert result["supportedVersions"] == [
            "2026-07-28",
            "2025-11-25",
            "2025-06-18",
            "2025-03-26",
            "2024-11-05",
        ]
        assert result["capabilities"] == {
            "logging": {},
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
        }


@pytest.mark.requirement(
    "discover.capability-matches-methods",
    "discover.unadvertised-method-not-found",
    "tools.list.answers-when-declared",
)
@cases("kinds", [(), ("tools",), ("prompts",), ("resources",)])
@in_virtual_time
async def test_methods_are_served_if_their_capability_is_declared(kinds: tuple[str, ...]) -> None:
    async with ListeningClient(make(*kinds)) as raw:
        declared = (await raw.result("d", "server/discover"))["capabilities"]
        for capability, methods in METHODS.items():
            for method, params in methods.items():
                raw.post(method, method, **params)
                answer = await raw.answer_to(method)
                if capability in declared:
                    assert answer["result"]["resultType"] == "complete"
                else:
                    assert answer["error"]["code"] == -32601


@in_virtual_time
async def test_capabilities_follow_the_entries() -> None:
    server = make()
    async with ListeningClient(server) as raw:
        assert "tools" not in (await raw.result(1, "server/discover"))["capabilities"]
        server.add_tool(lambda: "x", name="look", description="Look.")
        assert "tools" in (await raw.result(2, "server/discover"))["capabilities"]
        await raw.result(3, "tools/list")
