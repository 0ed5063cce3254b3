"""Questions by URL and with tools: what a client declares, answers and refuses."""

import asyncio

import pytest

from accord.client import connect
from accord.errors import RequestError, UrlElicitationRequired
from accord.types import CreateMessageResult, ElicitResult, TextContent, ToolUseContent
from support.raw import RawServer

PAGE = {"mode": "url", "message": "sign in", "url": "https://a.example/", "elicitationId": "e1"}
FORM = {"message": "name?", "requestedSchema": {"type": "object", "properties": {}}}
TEXT = {"type": "text", "text": "hello"}
USE = {"type": "tool_use", "id": "u1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "toolUseId": "u1", "content": []}
TOOL = {"name": "look", "inputSchema": {"type": "object"}}
REVISION = "2025-11-25"
# What a server must not send, which these tests do send.
WRONG = ("practice.*", "sampling.*", "elicitation.*")


class Asking(RawServer):
    """A server that asks its client during a tool call; `answer` is what the client said."""

    def __init__(self, method=None, params=None, **options):
        super().__init__({"tools/call": self.call}, **options)
        self.asked = {"id": "q", "method": method, "params": params}
        self.answer = None
        self.call_id = None

    def call(self, server, request):
        self.call_id = request["id"]
        self.put(**self.asked)

    def write(self, data, exchange=None):
        super().write(data, exchange)
        message = self.heard[-1]
        if message.get("id") == "q" and "method" not in message:
            self.answer = message
            self.put(id=self.call_id, result={"content": [], "isError": False})

    def complete(self, id):
        self.put(method="notifications/elicitation/complete", params={"elicitationId": id})

    @property
    def declared(self):
        return self.heard[0]["params"]["capabilities"]


async def ask(client_options, method, params, **server_options):
    server = Asking(method, params, **server_options)
    async with connect(server, revision=REVISION, **client_options) as client:
        await client.call_tool("ask")
    server.check()
    return server


def refuse(params):
    return None


# -- what is declared


@pytest.mark.requirement("elicitation.capability.at-least-one-mode", "sampling.tools.capability")
@pytest.mark.parametrize(
    ("options", "revision", "declared"),
    [
        ({}, REVISION, {}),
        ({"on_elicit": refuse}, REVISION, {"elicitation": {"form": {}}}),
        ({"on_elicit_url": refuse}, REVISION, {"elicitation": {"url": {}}}),
        (
            {"on_elicit": refuse, "on_elicit_url": refuse},
            REVISION,
            {"elicitation": {"form": {}, "url": {}}},
        ),
        ({"on_elicit_url": refuse}, "2025-06-18", {}),
        ({"on_elicit": refuse, "on_elicit_url": refuse}, "2025-06-18", {"elicitation": {}}),
        ({"on_sample": refuse}, REVISION, {"sampling": {}}),
        ({"on_sample": refuse, "sampling_tools": True}, REVISION, {"sampling": {"tools": {}}}),
        ({"on_sample": refuse, "sampling_context": True}, REVISION, {"sampling": {"context": {}}}),
        ({"on_sample": refuse, "sampling_tools": True}, "2025-06-18", {"sampling": {}}),
    ],
)
def test_capabilities_are_declared_by_the_callbacks_given(options, revision, declared, run):
    async def main():
        server = Asking()
        async with connect(server, revision=revision, **options):
            return server.declared

    # Which of them may be tasks is declared beside them: tests/interaction/test_hosted_tasks.py.
    assert {name: each for name, each in run(main()).items() if name != "tasks"} == declared


@pytest.mark.parametrize("name", ["sampling_tools", "sampling_context"])
def test_options_of_sampling_need_its_callback(name, run):
    async def main():
        async with connect(Asking(), **{name: True}):
            pass

    with pytest.raises(TypeError, match=f"{name} is for on_sample"):
        run(main())


# -- pages


@pytest.mark.parametrize(
    ("returned", "sent"),
    [
        (True, {"action": "accept"}),
        (False, {"action": "decline"}),
        (None, {"action": "cancel"}),
        (ElicitResult("accept", {"secret": "x"}), {"action": "accept"}),
    ],
)
@pytest.mark.parametrize("on_elicit", [None, refuse])
@pytest.mark.requirement("elicitation.client.decline-and-cancel")
def test_the_answer_to_a_page_has_no_content(returned, sent, on_elicit, run):
    shown = []

    def visit(params):
        shown.append((params.url, params.elicitation_id))
        return returned

    options = {"on_elicit_url": visit, "on_elicit": on_elicit}
    server = run(ask(options, "elicitation/create", PAGE))
    assert server.answer["result"] == sent
    assert shown == [("https://a.example/", "e1")]


@pytest.mark.requirement("elicitation.mode.absent-is-form", "elicitation.error.undeclared-mode")
def test_a_form_is_refused_where_url_mode_alone_is_declared(run):
    shown = []
    options = {"on_elicit_url": shown.append}
    server = run(ask(options, "elicitation/create", FORM, allow=WRONG))
    assert server.answer["error"]["code"] == -32602
    assert shown == []


@pytest.mark.requirement("elicitation.error.undeclared-mode")
def test_a_page_is_refused_in_a_revision_without_modes(run):
    shown = []

    async def main():
        server = Asking("elicitation/create", {**PAGE, **FORM}, allow=WRONG)
        async with connect(server, revision="2025-06-18", on_elicit=shown.append) as client:
            await client.call_tool("ask")
        return server.answer

    assert run(main())["error"]["code"] == -32602
    assert shown == []


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "file:///etc/passwd", "https://", "x", "HTTPS:/a", ""]
)
def test_an_address_that_is_not_a_web_page_is_not_shown(url, run):
    shown = []
    options = {"on_elicit_url": shown.append}
    server = run(ask(options, "elicitation/create", {**PAGE, "url": url}, allow=WRONG))
    assert server.answer["error"]["code"] == -32602
    assert "expected an https or http URL" in server.answer["error"]["message"]
    assert shown == []


def test_a_callback_for_pages_that_returns_a_form_is_an_error(run, caplog):
    options = {"on_elicit_url": lambda params: {"a": 1}}
    server = run(ask(options, "elicitation/create", PAGE))
    assert server.answer["error"] == {"code": -32603, "message": "internal error"}
    assert "on_elicit_url returned a dict" in caplog.text


@pytest.mark.requirement("elicitation.complete.unknown-ignored")
@pytest.mark.parametrize("accepts", [True, False])
def test_only_completions_of_pages_that_were_agreed_to_are_passed_on(accepts, run):
    heard = []

    async def main():
        server = Asking("elicitation/create", PAGE, allow=WRONG)
        async with connect(
            server,
            revision=REVISION,
            on_elicit_url=lambda params: accepts,
            on_elicitation_complete=heard.append,
        ) as client:
            server.complete("e1")
            await client.call_tool("ask")
            for id in ("other", "e1", "e1"):
                server.complete(id)

    run(main())
    assert heard == (["e1"] if accepts else [])


# -- pages that an error names


def requiring(*pages):
    """A server that answers each call with the error that names pages."""

    def fail(server, request):
        error = {"code": -32042, "message": "first", "data": {"elicitations": list(pages)}}
        server.put(id=request["id"], error=error)

    return RawServer({"tools/call": fail}, allow=WRONG)


@pytest.mark.parametrize(
    ("pages", "shown_pages", "calls"),
    [
        pytest.param([PAGE], 1, 2, id="one"),
        pytest.param([PAGE] * 2, 2, 2, id="several"),
        pytest.param([PAGE] * 11, 0, 1, id="too many"),
        pytest.param([], 0, 1, id="none"),
        pytest.param([{**PAGE, "url": "file:///"}], 0, 1, id="not a web page"),
        pytest.param([{"message": "form"}], 0, 1, id="a form"),
        pytest.param([3], 0, 1, id="malformed"),
        pytest.param([{**PAGE, "elicitationId": None}], 1, 2, id="without id"),
    ],
)
def test_a_call_is_repeated_once_after_its_pages(pages, shown_pages, calls, run):
    shown = []

    def visit(params):
        shown.append(params.url)
        return True

    async def main():
        server = requiring(*pages)
        async with connect(server, revision=REVISION, on_elicit_url=visit) as client:
            with pytest.raises(UrlElicitationRequired, match="first"):
                await client.call_tool("pay", timeout=0.001)
        return [each for each in server.heard if each.get("method") == "tools/call"]

    assert len(run(main())) == calls
    assert len(shown) == shown_pages


def test_without_a_callback_the_error_has_the_pages(run):
    async def main():
        async with connect(requiring(PAGE), revision=REVISION) as client:
            await client.call_tool("pay")

    with pytest.raises(RequestError) as caught:
        run(main())
    assert isinstance(caught.value, UrlElicitationRequired)
    assert [page.url for page in caught.value.elicitations] == ["https://a.example/"]


# -- sampling


def sampling(*messages):
    return {"messages": list(messages), "maxTokens": 5, "tools": [TOOL]}


def said(role, *blocks):
    return {"role": role, "content": list(blocks)}


@pytest.mark.requirement(
    "sampling.error.missing-tool-result",
    "sampling.error.mixed-tool-results",
    "sampling.tool-result.id-matches",
)
@pytest.mark.parametrize(
    ("messages", "reported"),
    [
        ([said("user", TEXT), said("assistant", USE)], "the next message has no result"),
        (
            [said("user", TEXT), said("assistant", USE), said("user", RESULT, TEXT)],
            "tool results and other content",
        ),
        ([said("user", RESULT)], "which no message before it has"),
    ],
)
def test_tool_messages_that_do_not_match_are_refused(messages, reported, run):
    asked = []
    options = {"on_sample": asked.append, "sampling_tools": True}
    server = run(ask(options, "sampling/createMessage", sampling(*messages), allow=WRONG))
    assert server.answer["error"]["code"] == -32602
    assert reported in server.answer["error"]["message"]
    assert asked == []


@pytest.mark.parametrize(
    ("given", "sent"), [({}, "toolUse"), ({"stop_reason": "maxTokens"}, "maxTokens")]
)
def test_an_answer_with_tool_uses_says_so(given, sent, run):
    blocks = [TextContent("look"), ToolUseContent("u1", "look", {})]
    options = {
        "on_sample": lambda params: CreateMessageResult("assistant", blocks, "m", **given),
        "sampling_tools": True,
    }
    server = run(ask(options, "sampling/createMessage", sampling(said("user", TEXT))))
    assert server.answer["result"]["stopReason"] == sent
    assert [block["type"] for block in server.answer["result"]["content"]] == ["text", "tool_use"]


@pytest.mark.requirement("sampling.tool-choice.none", "sampling.tool-choice.required")
@pytest.mark.parametrize(
    ("mode", "content", "reported"),
    [
        ("none", ToolUseContent("u1", "look", {}), 'the mode is "none"'),
        ("required", TextContent("no"), 'the mode is "required"'),
    ],
)
def test_an_answer_that_breaks_the_choice_of_tools_does_not_leave(mode, content, reported, run):
    options = {
        "on_sample": lambda params: CreateMessageResult("assistant", content, "m"),
        "sampling_tools": True,
    }
    asked = {**sampling(said("user", TEXT)), "toolChoice": {"mode": mode}}
    server = run(ask(options, "sampling/createMessage", asked))
    assert server.answer["error"]["code"] == -32603
    assert reported in server.answer["error"]["message"]


@pytest.mark.requirement("sampling.error.user-rejected")
@pytest.mark.parametrize("returned", [None, False])
def test_a_refused_sampling_request_has_its_own_code(returned, run):
    options = {"on_sample": lambda params: returned, "sampling_tools": True}
    server = run(ask(options, "sampling/createMessage", sampling(said("user", TEXT))))
    assert server.answer["error"]["code"] == -1


@pytest.mark.requirement(
    "elicitation.client.no-prefetch", "elicitation.client.no-open-without-consent"
)
@pytest.mark.parametrize("agrees", [True, False])
def test_a_page_is_neither_fetched_nor_opened_by_the_client(agrees, run, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)

    async def main():
        connections = []

        async def count(reader, writer):
            connections.append(writer)

        listener = await asyncio.start_server(count, "127.0.0.1", 0)
        host, port = listener.sockets[0].getsockname()
        page = {**PAGE, "url": f"http://{host}:{port}/"}
        server = await ask({"on_elicit_url": lambda params: agrees}, "elicitation/create", page)
        listener.close()
        assert server.answer["result"] == {"action": "accept" if agrees else "decline"}
        return connections

    assert run(main()) == []
    assert opened == []
