"""Answers of an API as results: text, structure, pictures, errors."""

import asyncio
import socket
import threading

import jsonschema_rs
import msgspec
import pytest

from accord import Server
from accord.compose import openapi
from accord.testing import connected
from accord.types import AudioContent, EmbeddedResource, ImageContent
from support.api import call_tool, document, json_answer, parameter, refusal, running_api, text_of
from support.tables import cases
from support.waiting import LONG

PET = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "name": {"type": "string", "maxLength": 5},
        "kind": {"type": "string", "enum": ["cat", "dog"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "owner": {"$ref": "#/components/schemas/Owner"},
        "extra": {"type": "object", "additionalProperties": {"type": "integer"}},
        "alive": {"type": "boolean"},
        "either": {
            "oneOf": [
                {"type": "string"},
                {"type": "object", "properties": {"a": {"type": "string"}}},
            ]
        },
    },
    "additionalProperties": False,
}
OWNER = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "pet": {"$ref": "#/components/schemas/Pet"}},
}


def ask(api, body, *, schema=None, kind="application/json", status=200):
    """Return the result and the output schema of a tool whose API answers with a body."""
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    api.answer = (data, kind, status)
    described = document(
        path="/answer",
        components={"schemas": {"Pet": PET, "Owner": OWNER}},
        **({} if schema is None else {"responses": json_answer(schema)}),
    )
    source = openapi(described, base_url=api.url)
    return call_tool(source), source.entries("tools")[0].item.output_schema


def test_an_answer_that_fits_is_structured_content(api):
    pet = {"id": 1, "name": "Rex", "owner": {"name": "Ada", "pet": {"id": 2}}, "new": [1]}
    result, schema = ask(api, pet, schema={"$ref": "#/components/schemas/Pet"})
    assert result.structured_content == pet
    assert msgspec.json.decode(text_of(result)) == pet
    assert jsonschema_rs.validator_for(schema).is_valid(pet)


@pytest.mark.parametrize(
    ("pet", "structured"),
    [
        ({"name": "far too long", "kind": "cow"}, {"name": "far too long", "kind": "cow"}),
        ({"id": "x", "name": None}, {"id": None, "name": None}),
        ({"id": 1.0, "tags": ["a", 5, None]}, {"id": 1.0, "tags": ["a", None, None]}),
        ({"id": True, "tags": "none"}, {"id": None, "tags": None}),
        ({"owner": {"pet": {"id": []}}}, {"owner": {"pet": {"id": None}}}),
        ({"extra": {"a": 1, "b": "c"}}, {"extra": {"a": 1, "b": None}}),
        ({"alive": True}, {"alive": True}),
        ({"alive": 1}, {"alive": None}),
        ({"either": 5}, {"either": None}),
        ({"either": {"a": "b"}}, {"either": {"a": "b"}}),
        ([1, 2], {}),
        ("text", {}),
    ],
)
def test_parts_of_an_answer_that_do_not_fit_are_null_and_the_text_is_whole(api, pet, structured):
    result, schema = ask(api, pet, schema={"$ref": "#/components/schemas/Pet"})
    assert not result.is_error
    assert result.structured_content == structured
    assert msgspec.json.decode(result.content[0].text) == pet
    assert msgspec.json.decode(result.content[-1].text) == structured
    assert jsonschema_rs.validator_for(schema).is_valid(structured)


@pytest.mark.parametrize("body", [b"{broken", b"\xff", b"", b"1" * 400, b"[" * 5000])
def test_an_answer_that_is_not_json_stays_usable(api, body):
    result, schema = ask(api, body, schema={"$ref": "#/components/schemas/Pet"})
    assert not result.is_error
    assert jsonschema_rs.validator_for(schema).is_valid(result.structured_content)


@pytest.mark.parametrize("name", ["open", "unknown"])
def test_an_answer_that_is_deeper_than_a_message_may_be_stays_usable(api, name):
    api.answer = (b'{"%b": %b}' % (name.encode(), b"[" * 300 + b"]" * 300), "application/json", 200)
    schema = {"type": "object", "properties": {"open": {}}}
    server = Server("hub")
    server.mount(openapi(document(path="/answer", responses=json_answer(schema)), base_url=api.url))
    with connected(server) as client:
        assert client.call_tool("call").structured_content == {name: None}


def test_an_array_is_the_member_result(api):
    result, schema = ask(api, [1, "x"], schema={"type": "array", "items": {"type": "integer"}})
    assert result.structured_content == {"result": [1, None]}
    assert jsonschema_rs.validator_for(schema).is_valid(result.structured_content)


def test_members_of_all_of_in_an_answer_are_joined(api):
    part = {"allOf": [{"properties": {"x": {"type": "integer"}}}, {"properties": {"y": {}}}]}
    answer = {"a": {"x": "text", "y": 1}}
    result, schema = ask(api, answer, schema={"type": "object", "properties": {"a": part}})
    assert list(schema["properties"]["a"]["properties"]) == ["x", "y"]
    assert result.structured_content == {"a": {"x": None, "y": 1}}


def test_alternatives_of_an_answer_of_which_one_is_anything_allow_anything(api):
    part = {"oneOf": [{}, {"type": "string"}]}
    result, schema = ask(api, {"a": [1]}, schema={"type": "object", "properties": {"a": part}})
    assert result.structured_content == {"a": [1]}
    assert jsonschema_rs.validator_for(schema).is_valid({"a": [1]})


def test_an_answer_of_any_kind_is_text_alone(api):
    result, schema = ask(api, [1], schema={"description": "what was found"})
    assert (schema, text_of(result)) == (None, "[1]")


def test_the_schema_of_an_answer_is_that_of_its_json(api):
    api.answer = (b'{"a": 1}', "application/json", 200)
    content = {
        "text/html": {"schema": {"type": "string"}},
        "application/json": {"schema": {"type": "object", "properties": {"a": {}}}},
    }
    described = document(path="/answer", responses={"200": {"content": content}})
    source = openapi(described, base_url=api.url)
    assert list(source.entries("tools")[0].item.output_schema["properties"]) == ["a"]
    assert call_tool(source).structured_content == {"a": 1}


def test_an_answer_without_schema_is_text(api):
    result, schema = ask(api, {"a": 1})
    assert (schema, text_of(result)) == (None, '{"a":1}')
    assert result.structured_content is msgspec.UNSET


@pytest.mark.parametrize(
    ("kind", "block"),
    [
        ("image/png", ImageContent("AAE=", "image/png")),
        ("audio/wav; rate=8", AudioContent("AAE=", "audio/wav")),
    ],
)
def test_pictures_and_sounds_are_content_of_their_kind(api, kind, block):
    assert ask(api, b"\0\1", kind=kind)[0].content == [block]


def test_other_bytes_are_an_embedded_resource(api):
    (block,) = ask(api, b"\0\1", kind="application/zip")[0].content
    assert isinstance(block, EmbeddedResource)
    assert (block.resource.blob, block.resource.mime_type) == ("AAE=", "application/zip")


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("grün".encode("latin-1"), "text/plain; charset=ISO-8859-1", "grün"),
        (b"a\xff", "text/plain; charset=nonsense", "a\ufffd"),
        (b"<a/>", "application/xml", "<a/>"),
    ],
)
def test_text_is_read_in_its_charset(api, body, kind, text):
    assert text_of(ask(api, body, kind=kind)[0]) == text


def test_an_answer_without_a_body_says_so(api):
    assert text_of(ask(api, b"", status=204)[0]) == "HTTP 204 No Content, without a body"


# -- errors


def test_an_error_has_the_status_and_the_body(api):
    result, _ = ask(api, {"why": "no such pet"}, status=404)
    assert result.is_error
    assert text_of(result) == 'GET /answer: HTTP 404 Not Found: {"why":"no such pet"}'


def test_the_body_of_an_error_is_cut_and_a_page_is_summed_up(api):
    assert len(text_of(ask(api, b"x" * 100_000, kind="text/plain", status=500)[0])) < 2_100
    page = b"<html><head><title>Gateway down</title></head><body>...</body></html>"
    text = text_of(ask(api, page, kind="text/html", status=502)[0])
    assert text == "GET /answer: HTTP 502 Bad Gateway: Gateway down"


@cases(
    ("kind", "status", "text"),
    [
        ("application/zip", 500, "GET /answer: HTTP 500 Internal Server Error"),
        ("text/plain", 599, "GET /answer: HTTP 599: private"),
    ],
)
def test_an_error_without_text_or_without_a_known_status_is_reported(api, kind, status, text):
    result, _ = ask(api, b"private", kind=kind, status=status)
    assert (result.is_error, text_of(result)) == (True, text)


def test_an_error_says_when_to_try_again(api):
    why = refusal(api, {"code": "429"}, path="/status/{code}")
    assert "HTTP 429 Too Many Requests, try again in 7 s" in why


def test_an_api_that_is_away_is_named_by_its_host():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        source = openapi(
            document(parameters=[parameter("q", "query")]),
            base_url=f"http://127.0.0.1:{port}",
            auth="secret-token",
        )
        text = text_of(call_tool(source, {"q": "private"}))
    assert text.startswith(f"127.0.0.1:{port} cannot be reached: ")
    assert "private" not in text


def test_an_api_that_hangs_up_in_an_answer_is_named_by_its_host():
    def hang_up(listening):
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        host = "{}:{}".format(*listening.getsockname())
        api = threading.Thread(target=hang_up, args=(listening,), daemon=True)
        api.start()
        described = document(parameters=[parameter("q", "query")])
        source = openapi(described, base_url=f"http://{host}", auth="secret-token")
        result = call_tool(source, {"q": "private"})
        api.join(LONG)
    assert result.is_error
    assert text_of(result).startswith(f"{host} gave no answer: ")
    assert "secret-token" not in text_of(result)


def test_a_slow_answer_ends_after_the_timeout(api):
    why = refusal(api, path="/slow", timeout=0.05)
    assert why.endswith("did not answer within 0.05 s")


def test_a_large_answer_is_refused(api):
    api.answer = (b" " * 2_000, "text/plain", 200)
    why = refusal(api, path="/answer", max_bytes=1_000)
    assert "larger than 1000 bytes (max_bytes)" in why


# -- redirects


def redirect(api, to, *, method="get", auth="secret-token"):
    source = openapi(
        document(path="/redirect", method=method, parameters=[parameter("to", "query")]),
        base_url=api.url,
        auth=auth,
        headers={"X-Own": "1"},
    )
    return call_tool(source, {"to": to})


def test_a_redirect_within_the_origin_is_followed_with_credentials(api):
    sent = msgspec.json.decode(text_of(redirect(api, "/there")))
    assert (sent["path"], sent["headers"]["authorization"]) == ("/there", "Bearer secret-token")


def test_a_redirect_of_a_post_becomes_a_get(api):
    sent = msgspec.json.decode(text_of(redirect(api, "/there", method="post")))
    assert (sent["method"], sent["path"]) == ("GET", "/there")


def test_a_redirect_to_another_origin_carries_no_credentials(api):
    with running_api() as other:
        sent = msgspec.json.decode(text_of(redirect(api, f"{other.url}/there")))
    assert sent["path"] == "/there"
    assert not sent["headers"].keys() & {"authorization", "cookie", "x-own"}


def test_a_redirect_of_a_post_to_another_origin_is_not_followed(api):
    result = redirect(api, "http://127.0.0.1:1/there", method="post")
    assert "HTTP 302 Found" in text_of(result)


def test_a_redirect_to_an_origin_that_does_not_answer_is_an_error(api):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        result = redirect(api, f"http://127.0.0.1:{taken.getsockname()[1]}/there")
    assert result.is_error
    assert text_of(result).startswith("the API redirects elsewhere: ")


def test_redirects_without_end_are_an_error(api):
    assert "redirects more than 5 times" in text_of(redirect(api, "/redirect"))


# -- running


def test_one_connection_serves_many_calls_and_many_callers(api):
    server = Server("hub")
    server.mount(openapi(document(parameters=[parameter("q", "query")]), base_url=api.url))

    async def run():
        async with connected(server) as client:
            results = await asyncio.gather(
                *(client.call_tool("call", {"q": str(n)}) for n in range(20))
            )
        return [msgspec.json.decode(text_of(result))["query"] for result in results]

    assert asyncio.run(run()) == [f"q={n}" for n in range(20)]


def test_a_source_serves_again_on_another_loop(api):
    source = openapi(document(), base_url=api.url)
    assert not call_tool(source).is_error
    assert not call_tool(source).is_error


def test_cookies_that_an_api_sets_for_one_caller_do_not_go_with_the_next(api):
    server = Server("hub")
    server.mount(openapi(document(), base_url=api.url))
    with connected(server) as client:
        results = [client.call_tool("call") for _ in range(2)]
    assert all("cookie" not in msgspec.json.decode(text_of(each))["headers"] for each in results)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2026-07-28"])
def test_tools_of_an_api_keep_to_the_protocol_in_every_era(api, revision):
    server = Server("hub")
    described = document(
        responses=json_answer({"type": "object", "properties": {"path": {"type": "string"}}})
    )
    server.mount(openapi(described, base_url=api.url), prefix="shop")
    with connected(server, revision=revision) as client:
        (tool,) = client.list_tools().tools
        result = client.call_tool("shop_call")
    assert tool.name == "shop_call"
    assert msgspec.json.decode(text_of(result))["path"] == "/items"
