"""Which form of HTTP a URL speaks is found out; a form that is forced wrongly is an error."""

import asyncio

import pytest

from accord.errors import ConnectFailed
from accord.testing import run_in_virtual_time
from accord_tools.check.probing.target import find_form, with_form
from accord_tools.check.server_check import ServerPlan, check_server
from check.mutants.between_http import over_http, respond, serving
from check.mutants.everything import server as everything
from support.check_targets import check_target

ENDPOINT = b"event: endpoint\ndata: /messages\n\n"
STREAM = [(b"content-type", b"text/event-stream")]


def unchanged(web):
    pass


async def stream_only(send, data):
    await send({"type": "http.response.start", "status": 200, "headers": STREAM})
    await send({"type": "http.response.body", "body": data})


def answering(post, get):
    """Return an app that answers POST with a status, GET with a status or with these bytes."""

    async def app(scope, receive, send):
        answer = get if scope["method"] == "GET" else post
        if isinstance(answer, bytes):
            await stream_only(send, answer)
        else:
            await respond(send, answer, {}, b"")

    return app


def form_at(app, path="mcp", **settings):
    async def run():
        async with serving(app) as port, asyncio.timeout(60):
            target = check_target(
                name="it", url=f"http://127.0.0.1:{port}/{path}", patience=0.3, **settings
            )
            return await find_form(target)

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "form", "options"),
    [
        ("mcp", "http", {"sse": True}),
        ("mcp", "http", {"sessions": False}),
        ("mcp", "http", {"answers": "stream"}),
        ("sse", "sse", {"sse": True}),
    ],
)
def test_the_form_of_a_server_is_found_out(path, form, options):
    assert form_at(everything.asgi(**options), path) == form


@pytest.mark.parametrize(
    ("post", "get", "path", "form"),
    [
        pytest.param(405, ENDPOINT, "mcp", "sse", id="stream by GET alone"),
        pytest.param(400, ENDPOINT, "mcp", "sse", id="POST needs a parameter"),
        pytest.param(500, ENDPOINT, "mcp", "sse", id="POST fails"),
        pytest.param(ENDPOINT, ENDPOINT, "mcp", "sse", id="stream whatever the method"),
        pytest.param(404, b"event: url\ndata: /messages\n\n", "mcp", "sse", id="wrong event"),
        pytest.param(400, 405, "mcp", "http", id="refuses this initialize"),
        pytest.param(400, b"data: {}\n\n", "mcp", "http", id="stream of the newer form"),
        pytest.param(401, 401, "mcp", "http", id="locked"),
        pytest.param(401, 401, "v1/sse", "sse", id="locked at the usual path"),
        pytest.param(404, 404, "mcp", None, id="nothing there"),
    ],
)
def test_the_form_follows_from_the_answers_to_post_and_get(post, get, path, form):
    assert form_at(answering(post, get), path) == form


def test_a_session_that_was_opened_to_find_the_form_is_ended():
    app = everything.asgi()
    assert form_at(app) == "http"
    assert len(app.sessions) == 0


def test_a_form_that_was_chosen_is_not_asked_for():
    target = check_target(name="it", url="http://127.0.0.1:9/mcp", form="sse")
    assert asyncio.run(with_form(target)) is target


def checked(form, path):
    async def run():
        async with over_http(unchanged, form="sse")() as target, asyncio.timeout(170):
            url = target.spec.url.replace("/sse", f"/{path}")
            subject = check_target(name="it", url=url, form=form, patience=5, at_once=32)
            return await check_server(subject, ServerPlan(only=["sse"]))

    return run_in_virtual_time(run())


def test_a_url_of_the_older_form_is_checked_as_such_and_the_report_says_so():
    report = checked(None, "sse")
    assert report.setting.transport == "sse"
    assert "HTTP with SSE (the older form)" in report.setting.notes[0]
    assert {each.verdict for each in report.results} & {"fail", "warn"} == set()
    assert "pass" in {each.verdict for each in report.results}


@pytest.mark.parametrize(
    ("form", "path", "says"),
    [
        (
            "http",
            "sse",
            r"speaks HTTP with SSE .*, not Streamable HTTP: leave out --transport http",
        ),
        ("sse", "mcp", r"speaks Streamable HTTP, not HTTP with SSE .*: leave out --transport sse"),
    ],
)
def test_a_form_that_is_forced_wrongly_is_an_error_that_names_the_right_one(form, path, says):
    with pytest.raises(ConnectFailed, match=says):
        checked(form, path)


# -- conversations of the older form that cannot begin


def verdicts(app, **settings):
    async def run():
        async with serving(app) as port, asyncio.timeout(60):
            url = f"http://127.0.0.1:{port}/sse"
            target = check_target(name="it", url=url, form="sse", patience=0.3, **settings)
            return await check_server(target)

    return {each.id: each for each in asyncio.run(run()).results}


def test_a_fault_that_prevents_a_conversation_breaks_its_own_requirement():
    """sse.connect.endpoint-event"""
    found = verdicts(answering(405, b"event: url\ndata: /messages\n\n"))
    first = found["sse.connect.endpoint-event"]
    assert (first.verdict, first.message) == (
        "fail",
        "sends an event 'url' first, expected 'endpoint'",
    )
    assert found["sse.endpoint.stream"].verdict == "pass"
    assert found["sse.endpoint.post"].verdict == "not-exercised"
    assert "no conversation could begin" in found["ping.response.prompt"].message


@pytest.mark.parametrize(
    "named", [b"http://203.0.113.1/messages", b"https://127.0.0.1/messages", b"//other.example/m"]
)
def test_an_endpoint_elsewhere_gets_no_message_and_is_not_a_breach(named):
    event = b"event: endpoint\ndata: " + named + b"\n\n"
    with pytest.raises(ConnectFailed, match="the endpoint event names another host"):
        verdicts(answering(405, event))


def test_a_refusal_without_a_token_is_not_a_breach():
    with pytest.raises(ConnectFailed):
        verdicts(answering(403, 403))
