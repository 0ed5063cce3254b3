"""How servers and clients introduce themselves: description, icons, website."""

from typing import Any

import pytest

from accord import Server, connect
from accord.errors import RegistrationError
from accord.types import Icon, Implementation
from support.links import over
from support.raw import RawServer
from support.tables import cases
from support.waiting import run

ICON = Icon("https://desk.example/i.png", mime_type="image/png", sizes=["48x48"], theme="light")


def desk() -> Server:
    return Server(
        "desk",
        version="2.1",
        title="Desk",
        description="Answers questions",
        icons=[ICON, {"src": "data:image/png;base64,AA==", "mimeType": "image/png"}],
        website_url="https://desk.example",
    )


@over("memory", revisions=("2025-06-18", "2025-11-25"))
@pytest.mark.requirement("icons.src-required")
async def test_a_server_introduces_itself_as_far_as_the_revision_goes(
    accord_link: Any, connect_to: Any
) -> None:
    async with connect_to(desk) as client:
        info = client.server_info
    assert (info.name, info.version, info.title) == ("desk", "2.1", "Desk")
    if accord_link.revision == "2025-06-18":
        assert (info.description, info.icons, info.website_url) == (None, None, None)
    else:
        data = Icon("data:image/png;base64,AA==", mime_type="image/png")
        assert info.icons == [ICON, data]
        assert (info.description, info.website_url) == ("Answers questions", "https://desk.example")


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_a_client_introduces_itself_as_far_as_the_revision_goes(revision: Any) -> None:
    info = Implementation("host", "1", title="Host", description="A host", icons=[ICON])

    async def main() -> Any:
        server = RawServer()
        async with connect(server, client_info=info, revision=revision):
            return server.heard[0]["params"]["clientInfo"]

    expected: dict[str, Any] = {"name": "host", "version": "1", "title": "Host"}
    if revision == "2025-11-25":
        icon = {"mimeType": "image/png", "sizes": ["48x48"], "theme": "light", "src": ICON.src}
        expected |= {"description": "A host", "icons": [icon]}
    assert run(main()) == expected


@cases(
    ("settings", "reported"),
    [
        ({"description": 3}, "description: expected text, got 3"),
        ({"website_url": "javascript:alert(1)"}, "website_url is 'javascript:alert\\(1\\)'"),
        ({"icons": [Icon("file:///i.png")]}, "icons: src is 'file:///i.png', expected an https or"),
        ({"icons": [{"mimeType": "image/png"}]}, "icons: object missing required field `src`"),
        ({"icons": 3}, "icons: "),
    ],
)
def test_an_introduction_that_clients_cannot_use_is_refused(settings: Any, reported: str) -> None:
    with pytest.raises(RegistrationError, match=reported):
        Server("desk", **settings)


@pytest.mark.requirement("icons.src-required")
def test_an_icon_of_a_tool_that_clients_may_not_fetch_is_refused() -> None:
    with pytest.raises(RegistrationError, match=r"tool\(\): icons: src is 'javascript:x'"):
        Server("desk").add_tool(print, icons=[Icon("javascript:x")])


@pytest.mark.requirement("tools.name.length", "tools.name.charset")
@pytest.mark.parametrize(
    ("name", "warns"),
    [
        ("a.b-c_D9", False),
        ("x" * 128, False),
        ("x" * 129, True),
        ("two words", True),
        ("naïve", True),
        ("a,b", True),
    ],
)
def test_a_tool_name_that_hosts_refuse_is_warned_about(
    name: str, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def tool() -> None:
        """Do nothing."""

    Server("desk").add_tool(tool, name=name)
    assert ("hosts refuse this name" in caplog.text) is warns


@over("memory", revisions=("2024-11-05", "2025-11-25"))
@pytest.mark.requirement(
    "tools.input-schema.not-null",
    "tools.input-schema.type-object",
    "tools.errors.input-validation-in-result",
    "tools.errors.execution-errors-to-model",
)
async def test_a_tool_without_parameters_refuses_arguments_in_its_result(connect_to: Any) -> None:
    def ping() -> str:
        """Answer."""
        return "pong"

    server = Server("desk")
    server.add_tool(ping)
    async with connect_to(server) as client:
        (tool,) = [tool async for tool in client.tools()]
        good = await client.call_tool("ping")
        bad = await client.call_tool("ping", {"why": "because"})
    assert tool.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert good.text == "pong"
    assert bad.is_error
    assert bad.text == 'unknown arguments "why"; the tool takes no arguments'
