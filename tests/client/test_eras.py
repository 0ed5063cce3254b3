"""Finding out which revision a server speaks: it is asked, and initialized where it has to be."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from accord import Server
from accord.client import connect
from accord.client.negotiation import KnownServers
from accord.errors import ConnectFailed, LocalProtocolError, RequestTimeout
from accord.protocol.revisions import HANDSHAKE, REVISIONS
from accord.testing import run_in_virtual_time
from accord.types import Implementation
from client.loopback import Loopback
from support.http_server import bounded
from support.running import in_virtual_time, to_the_end
from support.tables import cases

ALL = list(REVISIONS)
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
DONE = {"content": [], "isError": False}
UNKNOWN = {"code": -32601, "message": "unknown method"}
DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": [MODERN],
    "capabilities": {"tools": {}, "logging": {}},
    "instructions": "be brief",
    "ttlMs": 0,
    "cacheScope": "private",
    "_meta": {f"{META}serverInfo": {"name": "loop", "version": "3"}},
}


class Scripted(Loopback):
    """A server whose answers to the openings the test gives, one after another.

    An answer is a result, an error, or None for silence.
    """

    def __init__(self, discover=(), initialize=()):
        super().__init__(lambda wire, message: wire.put(id=message["id"], result=DONE))
        self.script = {"server/discover": list(discover), "initialize": list(initialize)}
        self.connections = 0

    async def connect_memory(self):
        self.connections += 1
        return self

    def write(self, data, exchange):
        message = json.loads(data)
        answers = self.script.get(message.get("method"))
        if not answers:
            super().write(data, exchange)
            return
        self.sent.append(message)
        answer = answers.pop(0)
        if answer is not None:
            self.put(id=message["id"], **answer)

    @property
    def methods(self):
        return [message["method"] for message in self.sent if "method" in message]


def unsupported(*revisions):
    data = {"supported": list(revisions), "requested": MODERN}
    return {"error": {"code": -32022, "message": "unsupported", "data": data}}


def talk(wire, **options):
    """Connect, call a tool; return the client."""

    async def main():
        async with connect(wire, **{"revisions": ALL, **options}) as client:
            await client.call_tool("any")
            return client

    return run_in_virtual_time(main())


def failure(wire, **options):
    with pytest.raises(ConnectFailed) as caught:
        talk(wire, **options)
    return str(caught.value)


# -- which opening


def test_a_server_of_the_newest_revision_is_asked_and_not_initialized():
    # discover.stdio-probe
    wire = Scripted([{"result": DISCOVERED}])
    client = talk(wire)
    assert wire.methods == ["server/discover", "tools/call"]
    assert client.revision == MODERN
    assert client.server_info == Implementation("loop", "3")
    assert client.instructions == "be brief"
    assert client.capabilities.tools is not None
    assert client.capabilities.prompts is None


@pytest.mark.requirement("versioning.modern-client.stdio-discover-first")
def test_a_pinned_revision_without_handshake_is_asked_for_first():
    wire = Scripted([{"result": DISCOVERED}])
    assert talk(wire, revisions=MODERN).revision == MODERN
    assert wire.methods[0] == "server/discover"


def test_a_pinned_revision_with_handshake_is_opened_by_it_alone():
    wire = Scripted()
    assert talk(wire, revision="2025-06-18", revisions=None).revision == "2025-06-18"
    assert wire.methods[:2] == ["initialize", "notifications/initialized"]


@pytest.mark.requirement("stdio.fallback.not-one-code")
@cases("code", [-32601, -32600, -32602, -32000, -32603, 7])
def test_any_other_error_means_a_server_with_a_handshake(code):
    wire = Scripted([{"error": {"code": code, "message": "no"}}])
    assert talk(wire).revision == "2025-11-25"
    assert wire.methods[:3] == ["server/discover", "initialize", "notifications/initialized"]


def test_an_answer_that_does_not_fit_means_a_server_with_a_handshake():
    wire = Scripted([{"result": {}}])
    assert talk(wire).revision == "2025-11-25"


def test_a_server_without_our_revision_but_with_a_handshake_is_initialized():
    wire = Scripted([{"result": {**DISCOVERED, "supportedVersions": ["2025-06-18"]}}])
    assert talk(wire).revision == "2025-11-25"
    wire = Scripted([unsupported("2025-06-18", "2031-01-01")])
    assert talk(wire).revision == "2025-11-25"


@pytest.mark.requirement("versioning.unsupported.client-retries")
def test_a_refusal_that_names_the_same_revision_is_followed_by_one_more_request():
    wire = Scripted([unsupported(MODERN), {"result": DISCOVERED}])
    assert talk(wire).revision == MODERN
    assert wire.methods == ["server/discover", "server/discover", "tools/call"]
    wire = Scripted([unsupported(MODERN), unsupported(MODERN)])
    assert "refused server/discover" in failure(wire)
    assert wire.methods == ["server/discover", "server/discover"]


@pytest.mark.requirement("versioning.unsupported.client-retries")
@pytest.mark.parametrize(
    "answer",
    [
        unsupported("2031-01-01", "2032-01-01"),
        {"result": {**DISCOVERED, "supportedVersions": ["2031-01-01", "2032-01-01"]}},
    ],
    ids=["error", "result"],
)
def test_with_nothing_in_common_both_sides_are_listed(answer):
    wire = Scripted([answer])
    text = failure(wire)
    assert "2031-01-01" in text
    assert "2032-01-01" in text
    assert all(revision in text for revision in ALL)
    assert "initialize" not in wire.methods


@pytest.mark.parametrize("code", [-32020, -32021])
def test_a_refusal_of_our_request_is_not_taken_for_a_handshake(code):
    # versioning.modern-error-is-not-legacy
    wire = Scripted([{"error": {"code": code, "message": "not like this"}}])
    assert "not like this" in failure(wire)
    assert "initialize" not in wire.methods


def test_a_pinned_revision_that_the_server_does_not_know_fails_without_a_handshake():
    wire = Scripted([{"error": UNKNOWN}])
    text = failure(wire, revision=MODERN, revisions=None)
    assert "refused server/discover, so it speaks 2025-11-25 or older, and we offered" in text
    assert wire.methods == ["server/discover"]


# -- silence


def test_silence_means_a_server_with_a_handshake_on_the_same_connection(caplog):
    wire = Scripted([None])
    assert talk(wire, probe_timeout=3).revision == "2025-11-25"
    assert "within 3 s (probe_timeout)" in caplog.text
    assert "name its revision to skip the question" in caplog.text
    # Nothing but the handshake may follow: such servers may end on anything else.
    assert wire.methods[:3] == ["server/discover", "initialize", "notifications/initialized"]
    assert wire.connections == 1


def test_silence_is_waited_for_a_third_of_the_time_to_connect():
    async def main():
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with connect(Scripted([None]), revisions=ALL, connect_timeout=6):
            return loop.time() - began

    assert 2 <= run_in_virtual_time(main()) < 2.1


def test_a_late_answer_to_an_abandoned_probe_is_ignored(caplog):
    wire = Scripted([None])

    async def main():
        async with connect(wire, revisions=ALL) as client:
            wire.put(id=wire.sent[0]["id"], result=DISCOVERED)
            await client.call_tool("any")
            assert client.revision == "2025-11-25"

    run_in_virtual_time(main())
    assert "skipped a message" not in caplog.text


def test_a_server_whose_answer_was_only_late_is_asked_once_more():
    wire = Scripted([None, {"result": DISCOVERED}], [unsupported(MODERN)])
    assert talk(wire).revision == MODERN
    assert wire.methods[:3] == ["server/discover", "initialize", "server/discover"]


def test_a_pinned_revision_is_waited_for_until_the_time_to_connect_is_over():
    text = failure(Scripted([None]), revision=MODERN, revisions=None, probe_timeout=1)
    assert "no answer to server/discover within 30 s" in text


def test_connecting_that_is_cancelled_while_the_server_is_asked_leaves_nothing():
    wire = Scripted([None])

    async def main():
        task = asyncio.ensure_future(asyncio.wait_for(connect(wire, revisions=ALL), 1))
        with pytest.raises(TimeoutError):
            await task

    run_in_virtual_time(main())
    assert wire.methods == ["server/discover"]
    assert wire.aborted


# -- launched servers


@to_the_end
async def test_a_server_that_exits_on_an_unknown_message_is_started_again(wayward):
    command = wayward(exit_on_unknown=3)
    async with connect(command, revisions=ALL) as client:
        assert client.revision == "2025-11-25"
        history = (await client.call_tool("history")).structured_content["messages"]
        assert history[0]["method"] == "initialize"
    # versioning.era.cached: the second time it is not asked at all.
    async with connect(command, revisions=ALL) as client:
        history = (await client.call_tool("history")).structured_content["messages"]
        assert [message["method"] for message in history[:2]] == [
            "initialize",
            "notifications/initialized",
        ]


@to_the_end
async def test_a_server_that_exits_whatever_it_is_asked_fails_by_its_last_words(wayward):
    with pytest.raises(ConnectFailed) as caught:
        await connect(wayward(stderr=["no licence"], exit=4), revisions=ALL)
    assert "no licence" in str(caught.value)
    assert "before it answered initialize" in str(caught.value)
    assert caught.value.exit_code == 4


# -- what is remembered


def test_the_memory_of_servers_is_bounded_and_forgets_on_request():
    known = KnownServers()
    known.remember(("first",), handshake=True)
    for number in range(1_000):
        known.remember((str(number),), handshake=False)
    assert known.has_handshake(("first",)) is None
    assert known.has_handshake(("999",)) is False
    known.forget(("999",))
    assert known.has_handshake(("999",)) is None
    known.remember(None, handshake=True)
    known.forget(None)
    assert known.has_handshake(None) is None


@pytest.mark.requirement("versioning.era.cached")
def test_a_server_that_changed_since_it_was_remembered_is_found_out_anew(run, tmp_path):
    program = tmp_path / "server.py"
    older = f"exec(open({str(Path(__file__).parent / 'wayward_server.py')!r}).read())"
    newer = "from accord import Server\nServer('demo', revisions=['2026-07-28']).run()"
    command = [sys.executable, str(program)]

    async def speak(content):
        program.write_text(content)
        async with connect(command, revisions=ALL) as client:
            await client.ping()
            return client.revision

    async def main():
        assert await speak(older) == "2025-11-25"
        assert await speak(newer) == MODERN
        assert await speak(older) == "2025-11-25"

    run(main())


@pytest.mark.parametrize("target", ["command", "url"])
@pytest.mark.parametrize(
    "first",
    [{"revision": "2025-06-18"}, {"revisions": ["2025-11-25"]}],
    ids=["revision", "revisions"],
)
def test_a_connection_with_a_pinned_revision_does_not_decide_about_later_ones(
    run, tmp_path, target, first
):
    program = tmp_path / "server.py"
    program.write_text("from accord import Server\nServer('demo').run()")

    async def main(server):
        revisions = []
        for options in ({}, first, {}):
            async with connect(server, **options) as client:
                revisions.append(client.revision)
        assert revisions[0] == revisions[2] == MODERN
        assert revisions[1] in HANDSHAKE

    if target == "command":
        run(main([sys.executable, str(program)]))
    else:
        with bounded(Server("demo").asgi()) as port:
            run(main(f"http://127.0.0.1:{port}/mcp"))


# -- requests without handshake


def modern(**options):
    """Connect to a scripted server of the newest revision; returns the wire and the opening."""
    return Scripted([{"result": {**DISCOVERED, **options}}])


def metas(wire):
    return [message["params"]["_meta"] for message in wire.sent]


def test_every_request_says_revision_capabilities_and_name(tmp_path):
    # meta.request.protocol-version, meta.request.client-capabilities, meta.request.client-info
    wire = modern()
    options = {"on_sample": print, "on_elicit": print, "roots": [tmp_path]}
    talk(wire, client_info=Implementation("mine", "2"), **options)
    assert len(wire.sent) == 2
    for meta in metas(wire):
        assert meta[f"{META}protocolVersion"] == MODERN
        assert meta[f"{META}clientInfo"] == {"name": "mine", "version": "2"}
        assert meta[f"{META}clientCapabilities"] == {
            "sampling": {},
            "elicitation": {"form": {}},
            "roots": {},
            "extensions": {"io.modelcontextprotocol/tasks": {}},
        }
        assert f"{META}logLevel" not in meta


def test_the_log_level_goes_with_each_request_once_it_is_chosen():
    wire = modern()

    async def main():
        async with connect(wire, revisions=ALL) as client:
            await client.call_tool("any")
            await client.set_log_level("warning")
            await client.call_tool("any")

    run_in_virtual_time(main())
    levels = [meta.get(f"{META}logLevel") for meta in metas(wire)]
    assert levels == [None, None, "warning"]


def test_with_a_callback_for_logs_the_level_is_info_until_another_is_chosen():
    wire = modern()
    talk(wire, on_log=print)
    assert [meta.get(f"{META}logLevel") for meta in metas(wire)] == [None, "info"]


@in_virtual_time
async def test_a_log_level_for_a_server_without_logging_is_refused():
    async with connect(modern(capabilities={"tools": {}}), revisions=ALL) as client:
        with pytest.raises(LocalProtocolError, match="capability logging"):
            await client.set_log_level("warning")


def test_meta_of_a_call_travels_beside_that_of_the_revision():
    wire = modern()

    async def main():
        async with connect(wire, revisions=ALL) as client:
            await client.call_tool("any", meta={"mine": 1})

    run_in_virtual_time(main())
    assert metas(wire)[-1]["mine"] == 1
    assert metas(wire)[-1][f"{META}protocolVersion"] == MODERN


def test_a_ping_asks_what_the_server_speaks():
    wire = Scripted([{"result": DISCOVERED}, {"result": DISCOVERED}])

    async def main():
        async with connect(wire, revisions=ALL) as client:
            await client.ping()

    run_in_virtual_time(main())
    assert wire.methods == ["server/discover", "server/discover"]


def test_roots_do_not_change_on_a_connection_made_without_them():
    wire = modern()

    async def main():
        async with connect(wire, revisions=ALL) as client:
            with pytest.raises(LocalProtocolError, match="made with roots"):
                await client.roots_changed()

    run_in_virtual_time(main())
    assert wire.methods == ["server/discover"]


def test_a_request_whose_capability_the_server_did_not_declare_is_not_sent():
    wire = modern(capabilities={"tools": {}})

    async def main():
        async with connect(wire, revisions=ALL) as client:
            with pytest.raises(LocalProtocolError, match="prompts/get needs the capability"):
                await client.get_prompt("greet")

    run_in_virtual_time(main())
    assert wire.methods == ["server/discover"]


def test_roots_change_without_a_message(tmp_path):
    wire = modern()

    async def main():
        async with connect(wire, revisions=ALL, roots=[]) as client:
            await client.roots_changed([tmp_path])
            assert client._link.callbacks.roots[0].uri == tmp_path.as_uri()

    run_in_virtual_time(main())
    assert wire.methods == ["server/discover"]


def test_a_request_of_the_server_is_not_answered():
    # jsonrpc.client-no-responses
    wire = modern()

    async def main():
        async with connect(wire, revisions=ALL):
            wire.put(id="q", method="ping", params={})

    run_in_virtual_time(main())
    assert wire.methods == ["server/discover"]
    assert len(wire.sent) == 1


def test_a_timeout_cancels_by_a_notification_that_names_the_request():
    # stdio.cancel.by-notification, timeouts.cancel-on-expiry
    wire = modern()
    wire.answer = lambda *_: None

    async def main():
        async with connect(wire, revisions=ALL) as client:
            with pytest.raises(RequestTimeout):
                await client.call_tool("any", timeout=1)

    run_in_virtual_time(main())
    assert wire.methods[-1] == "notifications/cancelled"
    assert wire.sent[-1]["params"]["requestId"] == wire.sent[-2]["id"]


def test_a_server_that_does_not_introduce_itself_has_an_empty_name():
    client = talk(modern(_meta={}))
    assert client.server_info == Implementation("", "")


def test_the_client_finds_the_newest_revision_of_a_server_in_memory():
    async def main(supported):
        server = Server("demo", revisions=supported)
        async with connect(server, revisions=ALL) as client:
            return client.revision, client.server_info.name

    assert run_in_virtual_time(main(ALL)) == (MODERN, "demo")
    assert run_in_virtual_time(main([MODERN])) == (MODERN, "demo")
    assert run_in_virtual_time(main(list(HANDSHAKE))) == ("2025-11-25", "demo")
