"""Credentials go where the security schemes say, to the API alone, and into no message."""

import asyncio
from base64 import b64encode

import pytest

from accord import Context, Principal, Server
from accord.client import HttpClientOptions
from accord.compose import openapi
from accord.compose.openapi.arguments import ApiRequest
from accord.compose.openapi.security import Credentials
from accord.compose.openapi.sending import ApiSender
from accord.errors import InvalidParams, RegistrationError, ToolError
from support.api import call_tool, document, parameter, refusal, running_api, send, text_of
from support.tables import cases

SCHEMES = {
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "session"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic"},
    "oauth": {"type": "oauth2", "flows": {}},
    "oidc": {"type": "openIdConnect", "openIdConnectUrl": "https://id.example"},
}
COMPONENTS = {"securitySchemes": SCHEMES}
BASIC = "Basic " + b64encode(b"ada:pass:word").decode()


def sent_with(api, auth, security=None, **more):
    sent = send(
        api,
        auth=auth,
        components=COMPONENTS,
        **more,
        **({} if security is None else {"security": security}),
    )
    headers = sent["headers"]
    kept = {name: headers[name] for name in ("authorization", "x-key", "cookie") if name in headers}
    return {**kept, "query": sent["query"]} if sent["query"] else kept


@pytest.mark.parametrize(
    ("auth", "expected"),
    [
        ("token", {"authorization": "Bearer token"}),
        (("ada", "pass:word"), {"authorization": BASIC}),
        ({"header": "k 1"}, {"x-key": "k 1"}),
        ({"query": "k&1"}, {"query": "key=k%261"}),
        ({"cookie": "k;1"}, {"cookie": "session=k%3B1"}),
        ({"bearer": "token"}, {"authorization": "Bearer token"}),
        ({"basic": ("ada", "pass:word")}, {"authorization": BASIC}),
        ({"basic": "ada:pass:word"}, {"authorization": BASIC}),
        ({"oauth": "token"}, {"authorization": "Bearer token"}),
        ({"oidc": "token"}, {"authorization": "Bearer token"}),
        ({"header": "a", "query": "b"}, {"x-key": "a", "query": "key=b"}),
        (lambda: "token", {"authorization": "Bearer token"}),
        (lambda: None, {}),
    ],
)
def test_a_credential_goes_to_the_place_that_its_scheme_names(api, auth, expected):
    assert sent_with(api, auth) == expected


@pytest.mark.parametrize(
    ("security", "expected"),
    [
        ([{"header": []}], {"x-key": "a"}),
        ([{"oauth": []}, {"query": []}], {"query": "key=b"}),
        ([{"header": [], "query": []}], {"x-key": "a", "query": "key=b"}),
        ([{"oauth": [], "header": []}], {"x-key": "a"}),
        ([{}, {"query": []}], {"query": "key=b"}),
        ([{"oauth": []}], {}),
        ([], {}),
    ],
)
def test_the_operation_says_which_schemes_it_wants(api, security, expected):
    assert sent_with(api, {"header": "a", "query": "b"}, security) == expected


def test_the_schemes_of_the_document_hold_for_operations_without_their_own(api):
    found = sent_with(api, {"header": "a", "query": "b"}, security_of_all=[{"query": []}])
    assert found == {"query": "key=b"}


def test_credentials_are_not_arguments():
    described = document(
        parameters=[
            parameter("x-key", "header"),
            parameter("key", "query"),
            parameter("q", "query"),
        ],
        components=COMPONENTS,
    )
    (entry,) = openapi(described, base_url="http://127.0.0.1:1").entries("tools")
    assert list(entry.item.input_schema["properties"]) == ["q"]


def test_a_function_gives_each_caller_a_token_of_its_own(api):
    async def token_of(ctx: Context):
        await asyncio.sleep(0)
        return f"token-of-{ctx.principal.subject}"

    server = Server("hub")
    server.mount(openapi(document(), base_url=api.url, auth=token_of))

    async def call(name):
        return await server.call_tool("call", principal=Principal(name))

    async def run():
        return await asyncio.gather(call("ada"), call("bob"))

    texts = [text_of(result) for result in asyncio.run(run())]
    assert "Bearer token-of-ada" in texts[0]
    assert "Bearer token-of-bob" in texts[1]


@pytest.mark.parametrize(
    ("auth", "code"),
    [
        ("very-secret", "403"),
        (("ada", "very-secret"), "403"),
        ({"query": "very-secret&more"}, "500"),
    ],
)
def test_errors_do_not_have_secrets_in_them(api, auth, code):
    why = refusal(api, {"code": code}, path="/status/{code}", auth=auth, components=COMPONENTS)
    assert f"HTTP {code}" in why
    assert "masked-0" in why
    assert "very-secret" not in why
    assert b64encode(b"ada:very-secret").decode() not in why


def test_a_refusal_without_credentials_says_how_to_give_them(api):
    why = refusal(api, {"code": "401"}, path="/status/{code}")
    assert "(no credentials were sent; auth= gives them)" in why


@cases(
    ("auth", "schemes", "why"),
    [
        ({"other": "x"}, SCHEMES, "auth has a value for 'other', and the document has 'header'"),
        ({"header": ("a", "b")}, SCHEMES, "the value of 'header' is an API key, expected text"),
        ("x", {"header": SCHEMES["header"]}, "write auth={'header': ...}"),
        (5, SCHEMES, "auth is a token, a pair"),
        ("a\r\nb", SCHEMES, "a value has a line break"),
        ({"header": "a\nb"}, SCHEMES, "a value has a line break"),
    ],
)
def test_credentials_that_do_not_fit_the_document_are_refused_at_once(auth, schemes, why):
    described = document(components={"securitySchemes": schemes})
    with pytest.raises(RegistrationError) as caught:
        openapi(described, base_url="http://127.0.0.1:1", auth=auth)
    assert why in str(caught.value)


def test_headers_of_every_request_have_one_line():
    with pytest.raises(RegistrationError, match="not text on one line"):
        openapi(document(), base_url="http://127.0.0.1:1", headers={"A": "b\r\nc"})


def test_a_function_that_fails_shows_the_caller_nothing_of_it(api, caplog):
    def fail():
        raise RuntimeError("very-secret")

    result = call_tool(openapi(document(), base_url=api.url, auth=fail))
    assert result.is_error
    assert "very-secret" not in text_of(result)


# Each is written after the URL of the server, and would change its host or its port.
PATHS_THAT_LEAVE = [
    ("http://127.0.0.1:{own}", "@127.0.0.1:{other}/x"),
    ("http://127.0.0.1:{own}", ".@127.0.0.1:{other}/x"),
    ("http://127.0.0.1", ":{other}/x"),
    ("http://127.0.0", ".1:{other}/x"),
    ("http://user:word@127.0.0", ".1:{other}/x"),
    ("http://127.0.0.1", ":80@127.0.0.1:{other}/x"),
]


@pytest.mark.parametrize(("base", "path"), PATHS_THAT_LEAVE)
@pytest.mark.parametrize("place", ["header", "query", "bearer"])
def test_a_path_without_a_slash_is_skipped_and_no_credential_leaves(api, base, path, place):
    with running_api() as other:
        ports = {"own": port_of(api), "other": port_of(other)}
        source = openapi(
            document(path.format(**ports), components=COMPONENTS, security=[{place: []}]),
            base_url=base.format(**ports),
            auth={place: "secret"},
            headers={"X-Internal": "secret"},
        )
        ((operation, why),) = source.skipped
        assert operation == f"GET {path.format(**ports)}"
        assert why == 'its path does not begin with "/"'
        with pytest.raises(InvalidParams, match="call"):
            call_tool(source)
        assert other.requests == []


@pytest.mark.parametrize(
    ("base", "path"), [*PATHS_THAT_LEAVE, ("http://127.0.0.1:{own}", ":{other}/x")]
)
def test_a_request_to_another_server_is_not_sent_whatever_was_read(api, base, path):
    async def send_there() -> None:
        sender = ApiSender(HttpClientOptions(), timeout=10.0, max_bytes=1000)
        request = ApiRequest("GET", path.format(**ports), [], {}, [], None)
        try:
            await sender.exchange(base.format(**ports), request, {"X-Key": "secret"}, Credentials())
        finally:
            await sender.close()

    with running_api() as other:
        ports = {"own": port_of(api), "other": port_of(other)}
        with pytest.raises(ToolError, match="leads to another server than 127"):
            asyncio.run(send_there())
        assert other.requests == []


def port_of(api):
    return api.url.rpartition(":")[2]


def test_a_scheme_that_cannot_be_read_does_not_stop_the_others(api):
    components = {"securitySchemes": {"gone": {"$ref": "#/none"}, **SCHEMES}}
    sent = send(api, auth={"bearer": "token"}, components=components)
    assert sent["headers"]["authorization"] == "Bearer token"


def test_credentials_are_shown_without_their_secrets():
    found = Credentials(headers={"Authorization": "Bearer s3cret"}, secrets=("s3cret",))
    assert repr(found) == "Credentials(...)"
