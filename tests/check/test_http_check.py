"""Checks of servers over HTTP: good ones raise no alarm, protected ones are judged from outside."""

import asyncio
import json
import logging
import socket
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest
from msgspec import Meta
from msgspec.structs import replace

from accord import Context, Server
from accord.auth import AuthorizationServer, MemoryStore
from accord.errors import ConnectFailed
from accord.protocol.mirroring import decode_header
from accord.server import Header, Proceed
from accord.testing import run_in_virtual_time, unattended
from accord.types import EmptyResult, ToolAnnotations
from accord_tools.check.probing.authorization import obtain
from accord_tools.check.probing.target import serve_target
from accord_tools.check.server_check import ServerPlan, check_server
from check.mutants.between_http import PROBED, over_http, serving
from check.mutants.everything import server as everything
from check.mutants.foundation import found
from check.mutants.protected import PROBED as AUTH
from check.mutants.protected import RESOURCE, protected
from check.mutants.stateless_http import refusing
from check.mutants.stateless_server import server as stateless
from support.check_targets import check_target

OLD, MIDDLE, NEW, NEWEST = "2024-11-05", "2025-03-26", "2025-06-18", "2026-07-28"
AREAS = [*PROBED, *AUTH]


def unchanged(web):
    pass


def checked(making, revision, only=AREAS, **changes):
    async def run():
        async with making() as subject, asyncio.timeout(170):
            plan = ServerPlan(revisions=[revision] if revision else [], only=only)
            return await check_server(replace(subject, **changes), plan)

    report = asyncio.run(run())
    return {result.id: result for result in report.results}


def breaches(results):
    return {
        id: result.message for id, result in results.items() if result.verdict in ("fail", "warn")
    }


def serving_everything(path="mcp", form="http", **options):
    @asynccontextmanager
    async def making():
        async with serving(everything.asgi(**options)) as port:
            yield check_target(
                name="everything",
                url=f"http://127.0.0.1:{port}/{path}",
                form=form,
                is_launched=True,
                patience=5,
                settling=0.1,
                at_once=32,
            )

    return making


# -- good servers raise no alarm


@pytest.mark.parametrize(("form", "revision"), [("http", MIDDLE), ("http", NEW), ("sse", OLD)])
def test_a_good_server_over_http_raises_no_alarm(form, revision):
    assert asyncio.run(found(over_http(unchanged, form=form), revision)) == {}


@pytest.mark.parametrize(
    ("form", "revision"), [("http", "2025-11-25"), ("http", NEWEST), ("sse", "2025-11-25")]
)
def test_a_good_server_raises_no_alarm_in_later_revisions(form, revision):
    assert run_in_virtual_time(found(over_http(unchanged, form=form), revision)) == {}


def test_a_good_server_without_a_handshake_raises_no_alarm():
    making = over_http(unchanged, server=stateless)

    async def run():
        async with making() as subject:
            return await check_server(subject)

    results = {result.id: result for result in run_in_virtual_time(run()).results}
    assert breaches(results) == {}
    for id in (
        "http.legacy-traffic.get-delete-405",
        "http.version-header.missing-rejected",
        "http.param-headers.match-validated",
        "http.headers.integers-compared-numerically",
        "capability.missing-error-http-400",
        "stateless.no-connection-affinity",
    ):
        assert results[id].verdict == "pass", (id, results[id].message)


@pytest.mark.parametrize(
    "options", [{"sessions": False}, {"answers": "json"}, {"answers": "stream"}], ids=str
)
def test_a_server_that_leaves_out_what_is_optional_raises_no_alarm(options):
    assert breaches(checked(serving_everything(**options), NEW, PROBED)) == {}


def test_every_requirement_over_http_gets_a_verdict_or_a_reason():
    results = checked(over_http(unchanged), NEW, ["http", "session"])
    assert {
        id
        for id, result in results.items()
        if result.verdict == "not-exercised" and "person" not in result.message
    } == set()


@pytest.mark.parametrize("revision", [MIDDLE, NEW])
def test_a_protected_server_raises_no_alarm(revision):
    results = checked(protected(unchanged), revision)
    assert breaches(results) == {}
    assert results["auth.token.validated"].verdict == "pass"
    assert results["tools.server.access-controlled"].verdict == "pass"


Region = Annotated[str, Header("Region"), Meta(examples=["S\u00f8nderjylland"])]


def far_stateless():
    server = Server("far", revisions=[NEWEST])

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def get_region(region: Region) -> str:
        """Tell about a region."""
        return region

    return server


def decodes_once(web):
    def is_encoded_twice(asked):
        text = decode_header(asked.headers.get("mcp-param-region", ""))
        return text is not None and text.startswith("=?base64?")

    refusing(web, is_encoded_twice)


def test_an_argument_beyond_ascii_is_encoded_once_in_a_header():
    making = over_http(decodes_once, server=far_stateless())
    results = checked(making, NEWEST, ["http.headers", "http.param-headers"])
    assert breaches(results) == {}
    assert results["http.headers.decode-before-compare"].verdict == "pass"


def names_a_closed_port(web):
    # Where no other program listens: the port was this test's until now.
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def body(asked, body):
        if asked.path.startswith(RESOURCE) and body:
            issuer = f"http://127.0.0.1:{port}"
            return json.dumps(json.loads(body) | {"authorization_servers": [issuer]}).encode()
        return body

    web.body = body


def test_an_authorization_server_that_cannot_be_reached_is_not_accused():
    results = checked(protected(names_a_closed_port), NEW, ["auth.as", "auth.as-metadata"])
    assert breaches(results) == {}
    assert results["auth.as.rfc8414-required"].verdict == "not-exercised"


# -- targets that are not servers


async def a_page(scope, receive, send):
    """Answer like a web server that does not know the protocol."""
    status = 200 if scope["method"] == "GET" else 405
    headers = [(b"content-type", b"text/html")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"<h1>hello</h1>"})


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ("http", r"answers with HTTP status 405; is it another path\?"),
        (None, r"answers with HTTP status 405; is it another path\?"),
        ("sse", "answered with status 200 and text/html, not with a stream of events"),
    ],
)
def test_a_web_page_is_recognized_as_not_a_server(form, says):
    async def run():
        async with serving(a_page) as port:
            url = f"http://127.0.0.1:{port}/"
            await check_server(check_target(name="page", url=url, form=form, patience=20))

    with pytest.raises(ConnectFailed, match=says):
        asyncio.run(run())


def test_a_file_that_exits_while_starting_is_an_error_without_warnings(tmp_path, caplog):
    place = tmp_path / "broken.py"
    place.write_text("import no_such_module\n")

    async def serve():
        with pytest.raises(ConnectFailed, match="no_such_module"):
            async with serve_target(str(place), "http", {}):
                pass

    async def run():
        # Several tries, because the moment between the end of a process and its report is short.
        async with asyncio.timeout(170), asyncio.TaskGroup() as group:
            for _ in range(6):
                group.create_task(serve())

    asyncio.run(run())
    assert caplog.records == []


def test_a_file_that_logs_endlessly_while_starting_is_served(tmp_path):
    place = tmp_path / "chatty.py"
    place.write_text(
        "import sys, accord\nprint('x' * 300_000, file=sys.stderr)\nit = accord.Server('it')\n"
    )

    async def run():
        async with asyncio.timeout(60), serve_target(str(place), "http", {}) as url:
            return url

    assert asyncio.run(run()).endswith("/mcp")


def test_a_connection_that_the_server_may_be_closing_is_not_used_again():
    async def answer_once(reader, writer):
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        await reader.read(1)  # a further request here is cut off
        writer.close()

    async def run():
        async with (
            asyncio.timeout(60),
            await asyncio.start_server(answer_once, "127.0.0.1") as each,
        ):
            port = each.sockets[0].getsockname()[1]
            subject = check_target(name="it", url=f"http://127.0.0.1:{port}/", patience=20)
            async with subject.connection(is_judged=False) as line:
                first = await line.carrier.request("POST", headers={}, body=b"{}")
                await asyncio.sleep(1.2)
                second = await line.carrier.request("POST", headers={}, body=b"{}")
                return first, second

    assert asyncio.run(run()) == (202, 202)


# -- authorization


def test_authorization_is_not_applicable_to_a_server_without_it():
    results = checked(over_http(unchanged), NEW, ["auth", "session.requests"])
    judged = {result.verdict for id, result in results.items() if "human" not in result.message}
    assert judged <= {"not-applicable", "not-exercised"}
    assert results["auth.prm.server"].verdict == "not-applicable"
    assert results["session.requests.verified"].message == "the server asks for no authorization"


def test_a_server_that_requires_a_token_is_judged_from_outside():
    results = checked(protected(unchanged, has_token=False), None)
    assert breaches(results) == {}
    assert results["auth.server.401-when-required"].verdict == "pass"
    assert results["auth.prm.lists-as"].verdict == "pass"
    assert results["http.post.accepted-202"].verdict == "not-exercised"
    assert "--bearer or --oauth" in results["http.post.accepted-202"].message


@asynccontextmanager
async def authorizing():
    """Serve everything behind an authorization server that grants without asking."""
    guard = AuthorizationServer(auto_approve="ada", scopes=["read"])
    async with serving(guard.guard(everything.asgi())) as port:
        yield check_target(
            name="everything",
            url=f"http://127.0.0.1:{port}/mcp",
            patience=5,
            settling=0.1,
            at_once=32,
        )


def test_a_token_is_obtained_and_the_authorization_server_judged():
    async def run():
        async with authorizing() as subject, asyncio.timeout(170):
            granted = await obtain(subject, unattended(store=MemoryStore()))
            assert granted is not None
            assert granted.token not in repr(granted)
            headers = {"authorization": f"Bearer {granted.token}"}
            known = replace(subject.reached_with(headers=headers), granted=granted)
            return await check_server(known, ServerPlan(revisions=[NEW], only=["auth", "session"]))

    results = {result.id: result for result in asyncio.run(run()).results}
    assert breaches(results) == {}
    for id in (
        "auth.redirect.exact-match",
        "auth.token.short-lived",
        "auth.tokens.refresh-rotated",
        "auth.as.rfc8414-required",
        "auth.oauth21.authorization-server",
        "auth.dcr.authorization-server",
        "session.requests.verified",
    ):
        assert results[id].verdict == "pass", (id, results[id].message)


def test_no_token_is_obtained_if_the_server_asks_for_none():
    async def run():
        async with serving_everything()() as subject:
            return await obtain(subject, unattended(store=MemoryStore()))

    assert asyncio.run(run()) is None


def test_a_failed_oauth_flow_is_reported_as_connect_failed():
    async def run():
        async with protected(unchanged, has_token=False)() as subject:
            await obtain(subject, unattended(store=MemoryStore()))

    with pytest.raises(ConnectFailed, match="no token could be obtained"):
        asyncio.run(run())


@pytest.fixture(autouse=True)
def quiet():
    """Expect the logs of tools that fail on purpose."""
    log = logging.getLogger("accord")
    level = log.level
    log.setLevel(logging.CRITICAL)
    yield
    log.setLevel(level)


def cancelled_on_a_busy_machine(actual_seconds):
    """Check a cancellation of a call that takes other times than it is asked for.

    Args:
        actual_seconds: of a call, by its number, from 1 on, and the seconds that it is asked for.
    """
    server, asked = Server("hasty"), []

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def wait(seconds: Annotated[float, Meta(ge=0, le=60)]) -> str:
        """Wait."""
        asked.append(seconds)
        await asyncio.sleep(actual_seconds(len(asked), seconds))
        return "done"

    @asynccontextmanager
    async def making():
        async with serving(server.asgi()) as port:
            url = f"http://127.0.0.1:{port}/mcp"
            yield check_target(name="hasty", url=url, form="http", is_launched=True, settling=0.1)

    results = checked(making, NEW, only=["cancellation.receiver.stops"])
    return asked, results["cancellation.receiver.stops"].verdict


@pytest.mark.thorough
def test_a_call_that_is_over_too_soon_is_cancelled_while_it_takes_longer():
    # The fourth is the one that is cancelled first.
    found = cancelled_on_a_busy_machine(lambda number, seconds: seconds if number != 4 else 0)
    assert found == ([0.2] * 4 + [1.6], "pass")


@pytest.mark.thorough
def test_a_call_that_was_slow_when_it_was_measured_is_cancelled_before_it_is_over():
    # The second and the third are measured; half of that time passes before a cancellation.
    found = cancelled_on_a_busy_machine(lambda number, seconds: 4 if number in (2, 3) else seconds)
    assert found == ([0.2] * 4 + [1.6], "pass")


def in_one_piece(app, is_whole):
    """Wrap an app so that the answers to some POSTs leave in one piece, as from a busy machine."""

    async def wrapped(scope, receive, send):
        pieces = []

        async def gather(message):
            if message["type"] != "http.response.body" or not is_whole():
                await send(message)
                return
            pieces.append(message.get("body", b""))
            if not message.get("more_body"):
                await send(message | {"body": b"".join(pieces)})

        is_post = scope["type"] == "http" and scope["method"] == "POST"
        await app(scope, receive, gather if is_post else send)

    return wrapped


@pytest.mark.parametrize("patient", [7])
def test_a_call_that_is_over_too_soon_is_disconnected_again(patient):
    """http.disconnect.not-cancel"""
    server, asked = Server("hasty"), []

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def report(ctx: Context) -> str:
        asked.append(None)
        await ctx.progress(1)
        await asyncio.sleep(0.3)
        return "done"

    @asynccontextmanager
    async def making():
        app = in_one_piece(server.asgi(answers="stream"), lambda: len(asked) < patient)
        async with serving(app) as port:
            url = f"http://127.0.0.1:{port}/mcp"
            yield check_target(name="hasty", url=url, form="http", is_launched=True, settling=0.1)

    results = checked(making, NEW, only=["http.disconnect.not-cancel"])
    result = results["http.disconnect.not-cancel"]
    assert (result.verdict, len(asked)) == ("pass", patient), result.message


@pytest.mark.requirement("resources.updated.subscribers-only")
@pytest.mark.parametrize(("ends", "verdict"), [(True, "pass"), (False, "warn")])
def test_a_server_is_warned_about_updates_long_after_the_end_of_a_subscription(ends, verdict):
    """The first updates may have been sent before, on the stream of the session."""

    async def change(server):
        while True:
            await asyncio.sleep(0.05)
            server.resource_updated("desk://board")

    @asynccontextmanager
    async def lifespan(server):
        changing = asyncio.create_task(change(server))
        yield
        changing.cancel()

    server = Server("board", lifespan=lifespan)

    @server.resource("desk://board")
    def board() -> str:
        """Show what changes all the time."""
        return "board"

    @server.middleware("resources/unsubscribe")
    async def ignore(ctx: Context, proceed: Proceed) -> Any:
        """Keep subscriptions for ever, or not."""
        return await proceed() if ends else EmptyResult()

    @asynccontextmanager
    async def making():
        async with serving(server.asgi()) as port:
            url = f"http://127.0.0.1:{port}/mcp"
            yield check_target(name="board", url=url, form="http", is_launched=True)

    name = "resources.updated.subscribers-only"
    assert checked(making, NEW, only=[name])[name].verdict == verdict
