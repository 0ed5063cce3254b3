"""One pipe for both eras: a session after a handshake, and requests that stand on their own."""

import asyncio
import logging
from typing import Any

import pytest

from accord import Context, Server
from accord.server import ClientLogHandler
from support.listening import ListeningClient
from support.modern import PREFIX, ModernClient, meta
from support.running import in_virtual_time
from support.tables import cases

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
UPDATED = "notifications/resources/updated"
TOOLS = "notifications/tools/list_changed"
BURST = 0.1


def make(**settings: Any) -> Server[Any]:
    server: Server[Any] = Server("desk", **settings)

    @server.tool
    async def facts(ctx: Context) -> dict[str, Any]:
        """Say what is known of the client."""
        return {
            "name": None if ctx.client_info is None else ctx.client_info.name,
            "capabilities": sorted(ctx.client_capabilities),
            "revision": ctx.revision,
        }

    @server.tool
    async def chat(ctx: Context) -> str:
        """Log at every level."""
        for level in LEVELS:
            await ctx.log(level, level)
        logging.getLogger("desk.test").warning("by the standard library")
        return "x"

    @server.tool
    async def add(name: str) -> str:
        """Offer another tool."""
        server.add_tool(lambda: "x", name=name, description="New.")
        return "x"

    server.add_resource("note://a", lambda: "a")
    return server


def logs(raw: ListeningClient) -> list[Any]:
    return [each["params"]["data"] for each in raw.notices() if each["method"].endswith("/message")]


@pytest.fixture
def standard_logs() -> Any:
    logger = logging.getLogger("desk")
    handler = ClientLogHandler()
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)


# -- logs of one request


@pytest.mark.requirement("logging.only-with-level", "logging.level-respected")
@pytest.mark.parametrize("level", [None, "debug", "warning", "emergency"])
@in_virtual_time
async def test_a_request_gets_the_logs_it_asks_for(standard_logs: Any, level: Any) -> None:
    async with ListeningClient(make(log_level="debug")) as raw:
        await raw.result(1, "tools/call", log_level=level, name="chat", arguments={})
        wanted = [] if level is None else [*LEVELS[LEVELS.index(level) :]]
        if level in ("debug", "warning"):
            wanted.append("by the standard library")
        assert logs(raw) == wanted


@pytest.mark.requirement("logging.bad-level-32602")
@cases("level", ["loud", "", 3, {"a": 1}])
@in_virtual_time
async def test_an_unknown_log_level_is_refused(level: Any) -> None:
    async with ListeningClient(make()) as raw:
        error = await raw.error(1, "tools/call", log_level=level, name="chat", arguments={})
        assert error["code"] == -32602
        assert "logLevel" in error["message"]


@pytest.mark.requirement("logging.own-stream-only")
@in_virtual_time
async def test_no_log_message_follows_the_answer() -> None:
    server = make()
    late: list[Any] = []

    @server.tool
    async def leave(ctx: Context) -> str:
        """Log afterwards."""

        async def after() -> None:
            await asyncio.sleep(1)
            await ctx.error("late")

        late.append(asyncio.create_task(after()))
        return "x"

    async with ListeningClient(server) as raw:
        await raw.result(1, "tools/call", log_level="debug", name="leave", arguments={})
        await late[0]
        assert logs(raw) == []
        await raw.open("2025-11-25")
        await raw.ask(2, "tools/call", {"name": "leave", "arguments": {}})
        await late[1]
        assert logs(raw) == ["late"]  # a session has its own stream


@pytest.mark.requirement("http.sse.listen-excludes-request-scoped")
@in_virtual_time
async def test_a_subscription_gets_no_logs() -> None:
    async with ListeningClient(make()) as raw:
        filters = {"toolsListChanged": True}
        raw.post(1, "subscriptions/listen", log_level="debug", notifications=filters)
        await raw.result(2, "tools/call", log_level="debug", name="chat", arguments={})
        assert [each["method"] for each in raw.notices(1)] == [
            "notifications/subscriptions/acknowledged"
        ]
        assert len(logs(raw)) == len(LEVELS)


# -- side by side


@pytest.mark.requirement(
    "versioning.dual-era.meta-selects-modern", "stateless.interleaved-conversations"
)
@in_virtual_time
async def test_nothing_of_a_session_is_visible_to_a_request_on_its_own() -> None:
    server = make()
    async with ListeningClient(server) as raw:
        await raw.open("2025-11-25", roots={"listChanged": True}, sampling={})
        await raw.ask(1, "logging/setLevel", {"level": "debug"})
        await raw.ask(2, "resources/subscribe", {"uri": "note://a"})

        before = len(raw.received)
        result = await raw.result(3, "tools/call", name="chat", arguments={})
        assert result["content"][0]["text"] == "x"
        assert len(raw.received) == before + 1

        bare = {f"{PREFIX}protocolVersion": "2026-07-28", f"{PREFIX}clientCapabilities": {}}
        params = {"_meta": bare, "name": "facts", "arguments": {}}
        answer = await raw.ask(4, "tools/call", params)
        assert answer["result"]["structuredContent"] == {
            "name": None,
            "capabilities": [],
            "revision": "2026-07-28",
        }

        raw.listen(5, toolsListChanged=True)
        server.resource_updated("note://a")
        await asyncio.sleep(BURST)
        assert [each["method"] for each in raw.notices(5)][1:] == []
        (update,) = [each for each in raw.notices() if each["method"] == UPDATED]
        assert update["params"] == {"uri": "note://a"}  # of the session


@in_virtual_time
async def test_a_session_is_as_before_after_requests_on_their_own() -> None:
    server = make()
    async with ListeningClient(server) as raw:
        await raw.open("2025-06-18", sampling={})
        said = meta({"elicitation": {}}, logLevel="debug")
        request = {"_meta": said, "name": "chat", "arguments": {}}
        await raw.ask(1, "tools/call", request)
        raw.received.clear()
        await raw.ask(2, "logging/setLevel", {"level": "alert"})
        await raw.ask(3, "tools/call", {"name": "chat", "arguments": {}})
        assert logs(raw) == ["alert", "emergency"]
        answer = await raw.ask(4, "tools/call", {"name": "facts", "arguments": {}})
        assert answer["result"]["structuredContent"] == {
            "name": "bytes",
            "capabilities": ["sampling"],
            "revision": "2025-06-18",
        }
        assert "resultType" not in answer["result"]
        assert "_meta" not in answer["result"]


@pytest.mark.requirement("versioning.dual-era.initialize-selects-legacy", "discover.implemented")
@in_virtual_time
async def test_a_session_may_be_opened_after_requests_on_their_own() -> None:
    server = make()
    async with ListeningClient(server) as raw:
        found = await raw.result("d", "server/discover")
        assert found["supportedVersions"][0] == "2026-07-28"
        await raw.result(1, "tools/list")
        raw.listen(2, toolsListChanged=True)
        opened = await raw.open("2025-11-25")
        assert opened["protocolVersion"] == "2025-11-25"
        await raw.ask(3, "tools/call", {"name": "add", "arguments": {"name": "new"}})
        await asyncio.sleep(BURST)
        announced = [each for each in raw.notices() if each["method"] == TOOLS]
        assert len(announced) == 2  # to the session, and to the subscription
        assert len([each for each in raw.notices(2) if each["method"] == TOOLS]) == 1


@in_virtual_time
async def test_methods_of_the_other_era_do_not_exist() -> None:
    async with ListeningClient(make()) as raw:
        removed = ("ping", "resources/subscribe", "logging/setLevel", "initialize")
        for number, method in enumerate(removed):
            error = await raw.error(number, method, uri="note://a", level="debug")
            assert error["code"] == -32601
        await raw.open("2025-11-25")
        for number, method in enumerate(("subscriptions/listen", "server/discover"), 10):
            answer = await raw.ask(number, method, {"notifications": {}})
            assert answer["error"]["code"] == -32601


@pytest.mark.requirement(
    "versioning.modern-only.initialize-names-versions", "versioning.unsupported.data-supported"
)
@in_virtual_time
async def test_a_server_of_the_newest_revision_alone_refuses_a_handshake_with_its_list() -> None:
    async with ListeningClient(make(revisions=["2026-07-28"])) as raw:
        opening = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "old", "version": "1"},
        }
        answer = await raw.ask(1, "initialize", opening)
        error = answer["error"]
        assert error["code"] == -32022
        assert error["data"] == {"supported": ["2026-07-28"], "requested": "2025-11-25"}
        assert "2026-07-28" in error["message"]
        await raw.result(2, "tools/list")


@pytest.mark.requirement("meta.request.missing-field-rejected")
@in_virtual_time
async def test_a_server_of_the_newest_revision_alone_refuses_requests_that_name_none() -> None:
    async with ListeningClient(make(revisions=["2026-07-28"])) as raw:
        for number, method in enumerate(("server/discover", "tools/list", "ping")):
            answer = await raw.ask(number, method, {})
            assert answer["error"]["code"] == (-32601 if method == "ping" else -32602)


@pytest.mark.requirement("versioning.modern-error-is-not-legacy")
@in_virtual_time
async def test_a_server_of_older_revisions_alone_lets_clients_fall_back_to_a_handshake() -> None:
    older = make(revisions=["2025-06-18", "2025-11-25"])
    async with ListeningClient(older) as raw:
        error = await raw.error("probe", "server/discover")
        assert error["code"] == -32601
        error = await raw.error("call", "tools/list")
        assert error["code"] == -32600
        assert (await raw.open("2025-11-25"))["protocolVersion"] == "2025-11-25"


# -- lists and look-ups


@pytest.mark.requirement("tools.list.not-per-connection", "tools.list.deterministic-order")
@in_virtual_time
async def test_lists_do_not_depend_on_the_connection_or_on_earlier_calls() -> None:
    server = make()

    async def listed(raw: ListeningClient, id: Any, **era: Any) -> list[str]:
        answer = await raw.ask(id, "tools/list", era)
        return [tool["name"] for tool in answer["result"]["tools"]]

    async with ListeningClient(server) as raw, ListeningClient(server) as other:
        await raw.open("2025-11-25")
        expected = ["facts", "chat", "add"]
        assert await listed(raw, 1) == expected
        assert await listed(raw, 2, _meta=meta()) == expected
        await raw.result(3, "tools/call", log_level="debug", name="chat", arguments={})
        raw.listen(4, toolsListChanged=True)
        assert await listed(raw, 5, _meta=meta()) == expected
        assert await listed(other, 1, _meta=meta()) == expected
        await raw.result(6, "tools/call", name="add", arguments={"name": "new"})
        for client in (raw, other):  # for all alike
            assert await listed(client, 7, _meta=meta()) == [*expected, "new"]


@pytest.mark.requirement("resources.read.not-found-32602", "errors.resource-not-found.data-uri")
@in_virtual_time
async def test_unknown_names_are_invalid_params_under_the_newest_revision() -> None:
    async with ListeningClient(make()) as raw:
        await raw.open("2025-11-25")
        error = await raw.error(1, "tools/call", name="nothing", arguments={})
        assert error["code"] == -32602
        error = await raw.error(2, "resources/read", uri="note://missing")
        assert error["code"] == -32602
        assert error["data"] == {"uri": "note://missing"}
        answer = await raw.ask(3, "resources/read", {"uri": "note://missing"})
        assert answer["error"]["code"] == -32002


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@in_virtual_time
async def test_settings_of_extensions_reach_the_handler(revision: str) -> None:
    ui = "io.modelcontextprotocol/ui"
    server: Server[Any] = Server("desk")

    @server.tool
    async def facts(ctx: Context) -> dict[str, Any]:
        """Say what the client can show."""
        assert (ui in ctx.client_extensions) == (f"extensions.{ui}" in ctx.client_capabilities)
        return ctx.client_extensions

    for settings in ({"mimeTypes": ["text/html"]}, {"mimeTypes": ["text/plain"]}, {}):
        declared = {"extensions": {ui: settings}}
        async with ModernClient(server) as raw:
            if revision == "2026-07-28":
                result = await raw.call("facts", capabilities=declared, arguments={})
            else:
                client = {"name": "raw", "version": "1"}
                opening = {"protocolVersion": revision, "capabilities": declared}
                await raw.ask("open", "initialize", {**opening, "clientInfo": client})
                raw.notify("notifications/initialized")
                answer = await raw.ask(1, "tools/call", {"name": "facts", "arguments": {}})
                result = answer["result"]
            assert result["structuredContent"] == {ui: settings}
