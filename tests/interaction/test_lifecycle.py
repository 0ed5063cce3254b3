"""Opening, negotiating and closing, and messages that are refused before, during and after."""

import asyncio
from typing import Any

import pytest

from accord import connect
from accord.errors import ConnectFailed, ConnectionClosed, LocalProtocolError
from accord.types import Implementation
from interaction.servers import tools, working
from support.links import EVERYWHERE, HANDSHAKE, MISSION, everywhere, over
from support.modern import PREFIX
from support.raw import RawClient, RawServer
from support.waiting import until

pytestmark = EVERYWHERE
ONCE = over("memory", revisions=("2025-06-18",))
EACH = pytest.mark.parametrize("revision", MISSION)


@pytest.mark.requirement(
    "lifecycle.initialize.first",
    "lifecycle.initialize.method-name",
    "lifecycle.initialize.protocol-version",
    "lifecycle.initialize.client-capabilities",
    "lifecycle.initialize.client-info",
    "lifecycle.initialize-result.protocol-version",
    "lifecycle.initialize-result.server-capabilities",
    "lifecycle.initialize-result.server-info",
    "lifecycle.implementation.name-and-version",
    "lifecycle.initialized.sent",
    "lifecycle.initialized.method-name",
    "lifecycle.initialize.client-waits",
    "lifecycle.initialized.server-waits",
    "lifecycle.version.client-sends-supported",
    "lifecycle.version.server-echoes",
    "lifecycle.version.identifier",
    "lifecycle.capabilities.declared",
)
@everywhere(*HANDSHAKE)
async def test_a_connection_opens_with_the_handshake(accord_link: Any, connect_to: Any) -> None:
    info = Implementation("desk", "3.1")
    async with connect_to(working.make, client_info=info, roots=["/"]) as client:
        assert client.revision == accord_link.revision
    opening, answer, ready = accord_link.connections[0].recording.messages()[:3]
    assert opening["method"] == "initialize"
    assert opening["params"]["protocolVersion"] == accord_link.revision
    assert opening["params"]["clientInfo"] == {"name": "desk", "version": "3.1"}
    assert opening["params"]["capabilities"] == {"roots": {"listChanged": True}}
    assert answer["result"]["protocolVersion"] == accord_link.revision
    assert answer["result"]["serverInfo"]["name"] == "working"
    assert ready == {"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}} or (
        ready == {"jsonrpc": "2.0", "method": "notifications/initialized"}
    )


@pytest.mark.requirement(
    "discover.result.required-fields",
    "discover.result.lists-request-version",
    "discover.result.server-info",
    "versioning.modern-client.stdio-discover-first",
    "meta.request.protocol-version",
    "meta.request.client-capabilities",
    "meta.request.client-info",
    "roots.capability-per-request",
    "sampling.capability-per-request",
    "elicitation.capability-per-request",
    "jsonrpc.id.distinct-among-pending",
)
@everywhere("2026-07-28")
async def test_without_a_handshake_the_server_is_asked_and_every_request_introduces_the_client(
    accord_link: Any, connect_to: Any
) -> None:
    info = Implementation("desk", "3.1")
    async with connect_to(
        working.make,
        client_info=info,
        roots=["/"],
        on_sample=lambda params: None,
        on_elicit=lambda params: None,
    ) as client:
        assert client.revision == accord_link.revision
        assert client.server_info.name == "working"
        await asyncio.gather(client.list_tools(), client.call_tool("events"), client.ping())
    messages = accord_link.connections[0].recording.messages
    asked = messages("client")
    assert asked[0]["method"] == "server/discover"
    result = messages("server")[0]["result"]
    assert result["resultType"] == "complete"
    assert accord_link.revision in result["supportedVersions"]
    assert set(result["capabilities"]) >= {"tools", "logging"}
    assert isinstance(result["ttlMs"], int)
    assert result["cacheScope"] in ("public", "private")
    assert result["_meta"][f"{PREFIX}serverInfo"]["name"] == "working"
    assert len({each["id"] for each in asked}) == len(asked) == 4
    for message in asked:
        meta = message["params"]["_meta"]
        assert meta[f"{PREFIX}protocolVersion"] == accord_link.revision
        assert meta[f"{PREFIX}clientInfo"] == {"name": "desk", "version": "3.1"}
        declared = meta[f"{PREFIX}clientCapabilities"]
        assert (declared["roots"], declared["sampling"]) == ({}, {})
        assert declared["elicitation"] == {"form": {}}


@pytest.mark.requirement("lifecycle.version.client-prefers-latest", "discover.stdio-probe")
@ONCE
async def test_without_a_choice_the_newest_revision_is_asked_for(accord_link: Any) -> None:
    server = RawServer()
    async with connect(server) as client:
        assert client.revision == "2025-11-25"
    probe, opening, *_ = server.heard
    assert probe["method"] == "server/discover"
    assert probe["params"]["_meta"][f"{PREFIX}protocolVersion"] == "2026-07-28"
    assert opening["params"]["protocolVersion"] == "2025-11-25"
    server.check()


@pytest.mark.requirement(
    "lifecycle.version.server-offers-other", "lifecycle.version.server-offers-latest"
)
@pytest.mark.parametrize("asked", ["2025-06-18", "2025-11-25", "1999-01-01", "nonsense"])
@ONCE
async def test_a_server_offers_its_latest_revision_instead_of_an_unknown_one(
    accord_link: Any, asked: str
) -> None:
    async with RawClient(
        working.make_old(), allow=("practice.*", "lifecycle.version.client-*")
    ) as raw:
        answer = await raw.open(asked)
    assert answer["protocolVersion"] == "2025-03-26"


@ONCE
async def test_both_sides_agree_on_a_common_revision(accord_link: Any, connect_to: Any) -> None:
    async with connect_to(working.make_old, revisions=["2025-03-26", "2025-06-18"]) as client:
        assert client.revision == "2025-03-26"
        assert (await client.call_tool("facts")).is_error is False


@pytest.mark.requirement("lifecycle.version.client-disconnects", "lifecycle.errors.handled")
@ONCE
async def test_a_client_leaves_a_server_with_an_unsupported_revision(accord_link: Any) -> None:
    with pytest.raises(ConnectFailed, match="2025-03-26") as caught:
        async with connect(working.make_old(), revision="2025-06-18"):
            pass
    assert caught.value.phase == "initialize"


@pytest.mark.requirement("lifecycle.errors.handled")
@ONCE
async def test_a_refused_handshake_raises_the_error_of_the_server(accord_link: Any) -> None:
    def refuse(raw: RawServer, message: Any) -> None:
        error = {"code": -32602, "message": "unsupported", "data": {"supported": ["2030-01-01"]}}
        raw.put(id=message["id"], error=error)

    server = RawServer({"initialize": refuse})
    with pytest.raises(ConnectFailed, match="refused initialize: unsupported"):
        await connect(server)
    assert server.is_closed


@pytest.mark.requirement("lifecycle.initialize.first", "errors.code.invalid-request")
@EACH
@ONCE
async def test_nothing_but_pings_is_served_before_the_opening(
    accord_link: Any, revision: str
) -> None:
    async with RawClient(tools.make()) as raw:
        refused = await raw.ask(1, "tools/list")
        assert "error" in refused
        assert (await raw.ask(2, "ping"))["result"] == {}
        assert (await raw.open(revision))["protocolVersion"] == revision
        assert "result" in await raw.ask(3, "tools/list")


@ONCE
async def test_the_revision_of_a_second_opening_counts_from_then_on(accord_link: Any) -> None:
    async with RawClient(tools.make()) as raw:
        await raw.open("2025-06-18")
        params = {
            "protocolVersion": "2024-11-05",
            "capabilities": {},
            "clientInfo": {"name": "other", "version": "1"},
        }
        again = await raw.ask("again", "initialize", params)
        assert again["result"]["protocolVersion"] == "2024-11-05"
        raw.notify("notifications/initialized")
        listed = await raw.ask(3, "tools/list")
        assert not any("outputSchema" in each for each in listed["result"]["tools"])


@pytest.mark.requirement(
    "errors.code.parse-error",
    "errors.code.invalid-request",
    "errors.code.method-not-found",
    "errors.code.invalid-params",
    "jsonrpc.error.code-and-message",
    "jsonrpc.error.code-integer",
    "jsonrpc.response.id-echo",
    "practice.server.survives-errors",
)
@EACH
@pytest.mark.parametrize(
    ("sent", "id", "code"),
    [
        (b"{", None, -32700),
        (b"\xff", None, -32700),
        (b"3", None, -32600),
        (b"{}", None, -32600),
        (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', 7, -32600),
        (b'{"jsonrpc":"2.0","id":7}', 7, -32600),
        (b'{"jsonrpc":"2.0","id":7,"method":3}', 7, -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None, -32600),
        (b'{"jsonrpc":"2.0","id":"7","method":"no/such"}', "7", -32601),
        (b'{"jsonrpc":"2.0","id":7,"method":"sampling/createMessage","params":{}}', 7, -32601),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}', 7, -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call"}', 7, -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[1]}', 7, -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":1}}', 7, -32602),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":3}}', 7, -32602),
    ],
    ids=lambda value: None,
)
@ONCE
async def test_each_kind_of_bad_message_has_its_code(
    accord_link: Any, revision: str, sent: bytes, id: Any, code: int
) -> None:
    async with RawClient(tools.make()) as raw:
        await raw.open(revision)
        before = len(raw.received)
        raw.write(sent)
        answer = raw.received[before]
        assert (answer["id"], answer["error"]["code"]) == (id, code)
        assert answer["error"]["message"]
        assert (await raw.ask("still there", "ping"))["result"] == {}


@pytest.mark.requirement("jsonrpc.notification.not-answered")
@pytest.mark.parametrize("method", ["notifications/nonsense", "nonsense", "tools/list"])
@ONCE
async def test_notifications_are_never_answered(accord_link: Any, method: str) -> None:
    async with RawClient(tools.make()) as raw:
        await raw.open()
        before = len(raw.received)
        raw.notify(method)
        await raw.ask(1, "ping")
        assert len(raw.received) == before + 1


@pytest.mark.requirement("logging.set-level.invalid-params")
@EACH
@ONCE
async def test_an_unknown_log_level_is_an_invalid_parameter(
    accord_link: Any, revision: str
) -> None:
    async with RawClient(tools.make()) as raw:
        await raw.open(revision)
        answer = await raw.ask(1, "logging/setLevel", {"level": "shouting"})
        assert answer["error"]["code"] == -32602


@pytest.mark.requirement("jsonrpc.request.id-unique", "jsonrpc.request.answered")
@ONCE
async def test_one_id_twice_in_flight_is_refused_and_the_first_is_answered(
    accord_link: Any,
) -> None:
    async with RawClient(working.make()) as raw:
        await raw.open()
        raw.request(1, "tools/call", {"name": "wait", "arguments": {"name": "g"}})
        raw.request(1, "ping")
        await raw.ask(2, "tools/call", {"name": "open_gate", "arguments": {"name": "g"}})
        await until(lambda: len(raw.answers_to(1)) == 2)
        assert sorted("error" in each for each in raw.answers_to(1)) == [False, True]


@pytest.mark.requirement("lifecycle.shutdown.no-message")
async def test_closing_needs_no_message(accord_link: Any, connect_to: Any) -> None:
    async with connect_to(tools.make) as client:
        await client.ping()
    *_, asked, answered = accord_link.connections[0].recording.messages()
    has_handshake = accord_link.revision in HANDSHAKE
    assert asked["method"] == ("ping" if has_handshake else "server/discover")
    assert answered["id"] == asked["id"]
    assert (answered["result"] == {}) is has_handshake
    with pytest.raises(ConnectionClosed):
        await client.ping()


@pytest.mark.requirement("lifecycle.capabilities.only-declared")
async def test_features_that_the_revision_or_server_lacks_raise_before_anything_is_sent(
    accord_link: Any, connect_to: Any
) -> None:
    from accord import Server

    async with connect_to(tools.make) as client:
        before = len(accord_link.connections[0].recording.records)
        with pytest.raises(LocalProtocolError, match="prompts, which the server did not declare"):
            await client.get_prompt("x")
        with pytest.raises(LocalProtocolError, match="roots"):
            await client.roots_changed(["/"])
        assert len(accord_link.connections[0].recording.records) == before
    assert Server("bare")._core.capabilities().tools is None
