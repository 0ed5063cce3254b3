"""The access log: one line for each HTTP request, whatever clients send."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from accord.auth import Protected, StaticTokens
from accord.principal import Principal
from support.http_offer import offer
from support.http_server import bounded, served, serving
from support.http_talk import call, request
from support.waiting import run, until, until_sync

SECRET = "tok-0123456789-secret"


class Lines(logging.Handler):
    """Keeps the lines of the log."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def texts(self) -> list[str]:
        return [record.getMessage() for record in self.records]


@pytest.fixture
def lines() -> Iterator[Lines]:
    logger, handler = logging.getLogger("accord.access"), Lines()
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def without_time(text: str) -> str:
    return " ".join(word for word in text.split() if not word.endswith("ms"))


def test_a_line_names_the_request_its_outcome_and_the_tool(talk, lines):
    async def main(port: int) -> str:
        async with talk(port) as client:
            await client.open()
            await client.answer(call(1, "add", a=1, b=2))
            await client.answer(request(2, "resources/subscribe", uri="note://a"))
            assert (await client.send("GET", path="/nothing?token=" + SECRET)).status == 404
            return client.session[:8]

    with bounded(offer().asgi(access_log=True)) as port:
        session = run(main(port))
        until_sync(lambda: len(lines.texts) == 5)
    opening, _, added, subscribed, missing = map(without_time, lines.texts)
    assert opening.startswith("POST /mcp 200 ")
    assert opening.endswith(f"B client=127.0.0.1 call=initialize session={session}")
    assert added.endswith(f"client=127.0.0.1 call=tools/call name=add session={session}")
    assert subscribed.endswith(f"call=resources/subscribe name=note://a session={session}")
    assert missing.startswith("GET /nothing 404 ")
    assert SECRET not in "".join(lines.texts)
    assert lines.records[2].access["name"] == "add"


@served(access_log="text")
async def test_a_stream_is_logged_when_it_ends_with_all_its_bytes(port, talk, lines):
    async with talk(port) as client:
        await client.open()
        listening = await client.get()
        await client.answer(call(1, "add", a=1, b=2))
        assert not [each for each in lines.texts if each.startswith("GET")]
        await client.send("DELETE")
        await listening.rest()
        await until(lambda: [each for each in lines.texts if each.startswith("GET /mcp 200")])


def test_nothing_is_logged_or_added_by_default(talk, lines):
    app = offer().asgi()
    assert type(app).__name__ == "HttpApp"

    async def main(port: int) -> None:
        async with talk(port) as client:
            await client.open()

    with bounded(app) as port:
        run(main(port))
    assert lines.texts == []


def test_refused_tokens_are_logged_with_their_status_and_without_the_token(talk, lines):
    tokens = StaticTokens({SECRET: Principal("ann", frozenset({"read"}))})
    server = offer(auth=Protected(tokens))

    async def main(port: int) -> None:
        async with talk(port) as client:
            refused = await client.post(call(1, "add"), Authorization="Bearer wrong-" + SECRET)
            assert refused.status == 401
            foreign = await client.send("GET", Host="evil.example")
            assert foreign.status in (401, 403)
            client.headers["Authorization"] = f"Bearer {SECRET}"
            await client.open()

    with bounded(server.asgi(access_log=True)) as port:
        run(main(port))
        until_sync(lambda: len(lines.texts) == 4)
    refused, _, opened, _ = lines.texts
    assert refused.startswith("POST /mcp 401 ")
    assert "principal" not in refused
    assert opened.endswith(" principal=ann")
    assert SECRET not in "".join(lines.texts)


HOSTILE = [
    ("/a%0aPOST%20/mcp%20200%201ms", '"/a\\nPOST /mcp 200 1ms"'),
    ("/%1b%5b2J", '"/\\u001b[2J"'),
    ("/%e2%80%ae", '"/\\u202e"'),
    ("/x%20client=1.2.3.4", '"/x client=1.2.3.4"'),
    ("/" + "y" * 3000, "/" + "y" * 199 + "..."),
]


@pytest.mark.parametrize("form", ["text", "json"])
def test_hostile_requests_can_forge_neither_lines_nor_parts_of_them(talk, lines, form):
    async def main(port: int) -> None:
        async with talk(port) as client:
            for path, _ in HOSTILE:
                assert (await client.send("GET", path=path)).status == 404
            bad = request(1, "a\nb", name='x" status=1')
            await client.post(bad, Mcp_Session_Id="s\x85\x9bt 1")

    with bounded(offer().asgi(access_log=form)) as port:
        run(main(port))
        until_sync(lambda: len(lines.texts) == 6)
    for text, (_, shown) in zip(lines.texts, HOSTILE, strict=False):
        assert text.isprintable()
        assert text.isascii()
        if form == "text":
            assert text.startswith(f"GET {shown} 404 ")
        else:
            assert json.loads(text)["path"] == (json.loads(shown) if shown[0] == '"' else shown)
    last = lines.texts[-1]
    assert last.isprintable()
    if form == "text":
        assert 'call="a\\nb" name="x\\" status=1" session="s\\u0085\\u009bt 1"' in last
    else:
        parts = json.loads(last)
        assert (parts["call"], parts["name"]) == ("a\nb", 'x" status=1')
        assert set(parts) == {
            *("time", "method", "path", "status", "ms", "bytes", "client"),
            *("call", "name", "session"),
        }


def test_it_works_under_any_asgi_server_and_for_the_older_form(talk, lines):
    async def main(port: int) -> str:
        async with talk(port) as client:
            stream = await client.send("GET", path="/sse")
            client.path = await stream.event()
            await client.send("POST", path=client.path)
            stream.close()
            return client.path.partition("session_id=")[2]

    with serving(offer().asgi(sse=True, access_log=True)) as port:
        session = run(main(port))
        until_sync(lambda: len(lines.texts) == 2)
    posted = next(each for each in lines.texts if each.startswith("POST /messages "))
    assert f"session={session[:8]}" in posted
    assert session not in "".join(lines.texts)


def test_without_configured_logging_lines_go_to_stderr(talk, capfd, monkeypatch):
    monkeypatch.setattr(logging.getLogger("accord.access"), "propagate", False)

    async def main(port: int) -> Any:
        async with talk(port) as client:
            return await client.send("GET", path="/healthz")

    with bounded(offer().asgi(access_log=True)) as port:
        run(main(port))
    assert " INFO accord.access: GET /healthz 200 " in capfd.readouterr().err
    logging.getLogger("accord.access").setLevel(logging.NOTSET)


def test_another_value_is_refused():
    with pytest.raises(ValueError, match="access_log is 'xml', expected True, False"):
        offer().asgi(access_log="xml")
