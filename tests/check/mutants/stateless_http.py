"""Servers that are wrong about requests that stand on their own over HTTP."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from accord.http.rules.sse import Event
from accord.protocol.mirroring import NAME_MEMBERS, encode_header
from check.faults import faults, hook, hook_maker
from check.mutants.between_http import Asked, Head, Headers, Hook, Send, Web, web_mutant
from check.mutants.everything import server as everything
from check.mutants.over_http import ERROR, JSON, is_answer, is_stream
from check.mutants.stateless_server import server as stateless_server

NEWEST = "2026-07-28"
VERSION = "io.modelcontextprotocol/protocolVersion"
STREAM = {"content-type": "text/event-stream"}
ARGUMENTS = {"mcp-param-region": "region", "mcp-param-number": "number", "mcp-param-fast": "fast"}


def stateless(id: str, **settings: Any) -> Callable[[Hook], Hook]:
    """Register a server without a handshake, with a hook into all that passes."""
    return web_mutant(id, **{"revision": NEWEST, "server": stateless_server} | settings)


def params(asked: Asked) -> dict[str, Any]:
    found = asked.message.get("params") if isinstance(asked.message, dict) else None
    return found if isinstance(found, dict) else {}


def meta(asked: Asked) -> dict[str, Any]:
    return params(asked).get("_meta") or {}


def named(asked: Asked) -> str | None:
    return params(asked).get(NAME_MEMBERS.get(asked.method, ""))


def is_request(asked: Asked) -> bool:
    return asked.verb == "POST" and VERSION in meta(asked)


def answer(asked: Asked, code: int = -32020, id: bool = True) -> bytes:
    """Return an error in answer to a request."""
    error = {"code": code, "message": "no"}
    return json.dumps(
        {"jsonrpc": "2.0", "id": asked.message["id"] if id else None, "error": error}
    ).encode()


@hook_maker
def refusing(web: Web, is_meant: Callable[[Asked], bool]) -> None:
    """Refuse some requests for their headers, which are right."""
    web.before = lambda asked: (
        (400, JSON, answer(asked)) if is_request(asked) and is_meant(asked) else None
    )


@hook_maker
def mending(web: Web, mend: Callable[[Asked], None]) -> None:
    """Serve requests as if their headers had been right."""

    def before(asked: Asked) -> None:
        if is_request(asked):
            mend(asked)

    web.before = before


@hook_maker
def restating(
    web: Web, is_meant: Callable[[Asked], bool], status: int, old: int | None = None
) -> None:
    """Let the answers to some requests have another status."""

    def head(asked: Asked, given: int, headers: Headers) -> Head:
        is_old = given == old if old is not None else True
        return (status if is_request(asked) and is_old and is_meant(asked) else given), headers

    web.head = head


def is_encoded(value: str) -> bool:
    return value.startswith("=?")


def lacks(name: str) -> Callable[[Asked], bool]:
    return lambda asked: name not in asked.headers


# -- Mcp-Method and Mcp-Name

MISSING = "http.headers.required-missing-rejected"
DIFFERS = "http.headers.mismatch-rejected"


@stateless(MISSING)
def needs_no_method_header(web: Web) -> None:
    mending(lambda asked: asked.headers.setdefault("mcp-method", asked.method) and None)(web)


def name_it(asked: Asked, methods: tuple[str, ...]) -> None:
    if asked.method in methods and "mcp-name" not in asked.headers:
        asked.headers["mcp-name"] = encode_header(str(named(asked)))


faults(
    stateless(MISSING),
    needs_no_name_header=mending(lambda asked: name_it(asked, tuple(NAME_MEMBERS))),
    needs_no_name_of_prompts=mending(lambda asked: name_it(asked, ("prompts/get",))),
    calls_a_missing_header_unprocessable=restating(lacks("mcp-method"), 422, 400),
)


def says_method(asked: Asked) -> None:
    given = asked.headers.get("mcp-method", "")
    if given and given.lower() != asked.method:
        asked.headers["mcp-method"] = asked.method


faults(stateless(DIFFERS), believes_the_body_about_methods=mending(says_method))


@stateless(DIFFERS)
def believes_the_body_about_names(web: Web) -> None:
    def mend(asked: Asked) -> None:
        given, name = asked.headers.get("mcp-name"), named(asked)
        if given is None or name is None or is_encoded(given):
            return
        if given.lower() != name.lower():
            asked.headers["mcp-name"] = encode_header(name)

    mending(mend)(web)


@stateless(DIFFERS)
def compares_how_names_begin(web: Web) -> None:
    def mend(asked: Asked) -> None:
        given, name = asked.headers.get("mcp-name"), named(asked)
        if given is not None and name is not None and given.startswith(name):
            asked.headers["mcp-name"] = encode_header(name)

    mending(mend)(web)


faults(
    stateless(DIFFERS),
    calls_another_method_a_conflict=restating(
        lambda asked: asked.headers.get("mcp-method", asked.method).lower() != asked.method,
        409,
        400,
    ),
)


CASE = "http.headers.names-case-insensitive"


@stateless(CASE)
def compares_methods_without_case(web: Web) -> None:
    def mend(asked: Asked) -> None:
        if asked.headers.get("mcp-method", "").lower() == asked.method:
            asked.headers["mcp-method"] = asked.method

    mending(mend)(web)


@hook_maker
def folding(web: Web, methods: tuple[str, ...]) -> None:
    def mend(asked: Asked) -> None:
        given, name = asked.headers.get("mcp-name", ""), named(asked)
        if asked.method in methods and name and given.casefold() == name.casefold():
            asked.headers["mcp-name"] = encode_header(name)

    mending(mend)(web)


faults(
    stateless(CASE),
    compares_names_without_case=folding(tuple(NAME_MEMBERS)),
    compares_uris_without_case=folding(("resources/read",)),
)


# -- values in base64

DECODED = "http.headers.decode-before-compare"
MARKERS = "http.param-headers.value.markers-exact"
faults(
    stateless(DECODED),
    takes_encoded_names_as_they_are=refusing(
        lambda asked: asked.headers.get("mcp-name", "").startswith("=?base64?")
    ),
    takes_encoded_uris_as_they_are=refusing(
        lambda asked: (
            asked.method == "resources/read"
            and asked.headers.get("mcp-name", "").startswith("=?base64?")
        )
    ),
    takes_encoded_arguments_as_they_are=refusing(
        lambda asked: any(asked.headers.get(name, "").startswith("=?base64?") for name in ARGUMENTS)
    ),
)


@hook_maker
def decoding(web: Web, prefix: str, names: tuple[str, ...]) -> None:
    def mend(asked: Asked) -> None:
        for name in names:
            given = asked.headers.get(name, "")
            if given.startswith(prefix):
                asked.headers[name] = f"=?base64?{given.removeprefix(prefix)}"

    mending(mend)(web)


faults(
    stateless(MARKERS),
    decodes_names_with_loud_markers=decoding("=?BASE64?", ("mcp-name",)),
    decodes_names_with_other_markers=decoding("=?base64url?", ("mcp-name",)),
    decodes_arguments_with_loud_markers=decoding("=?BASE64?", tuple(ARGUMENTS)),
)


# -- how a mismatch is said

BODY = "http.headers.mismatch-jsonrpc-body"


@hook_maker
def rebodied(web: Web, body: Callable[[Asked], bytes], is_meant: Callable[[Asked], bool]) -> None:
    web.body = lambda asked, given: body(asked) if b"-32020" in given and is_meant(asked) else given


faults(
    stateless(BODY),
    explains_mismatches_in_plain_text=rebodied(lambda asked: b"headers differ", lambda asked: True),
    says_nothing_about_mismatches=rebodied(lambda asked: b"", lambda asked: True),
    calls_mismatches_invalid_requests=rebodied(
        lambda asked: answer(asked, -32600), lambda asked: True
    ),
    calls_missing_names_invalid_params=rebodied(
        lambda asked: answer(asked, -32602), lacks("mcp-name")
    ),
)


# -- arguments

PARAM_MISSING = "http.param-headers.missing-with-value-rejected"
PARAM_DIFFERS = "http.param-headers.match-validated"
CHARACTERS = "http.headers.invalid-characters-rejected"
ABSENT = "http.param-headers.server-not-expected-without-value"


def arguments(asked: Asked) -> dict[str, Any]:
    return params(asked).get("arguments") or {}


@hook_maker
def repeating(
    web: Web, is_meant: Callable[[str, str | None, Any], bool], names: tuple[str, ...]
) -> None:
    """Serve calls as if headers had repeated their arguments."""

    def mend(asked: Asked) -> None:
        for name in names if asked.tool == "get_region" else ():
            value = arguments(asked).get(ARGUMENTS[name])
            if value is not None and is_meant(name, asked.headers.get(name), value):
                asked.headers[name] = encode_header(value)

    mending(mend)(web)


faults(
    stateless(PARAM_MISSING),
    needs_no_argument_in_headers=repeating(
        lambda name, given, value: given is None, tuple(ARGUMENTS)
    ),
    needs_no_numbers_in_headers=repeating(
        lambda name, given, value: given is None, ("mcp-param-number",)
    ),
    calls_a_missing_argument_forbidden=restating(
        lambda asked: "region" in arguments(asked) and lacks("mcp-param-region")(asked), 403, 400
    ),
)


def is_other(name: str, given: str | None, value: Any) -> bool:
    if given is None or is_encoded(given) or not given.isascii() or given.endswith(".0"):
        return False
    return given != encode_header(value)


faults(
    stateless(PARAM_DIFFERS),
    believes_the_body_about_arguments=repeating(is_other, tuple(ARGUMENTS)),
    believes_the_body_about_flags=repeating(is_other, ("mcp-param-fast",)),
    calls_another_argument_a_conflict=restating(
        lambda asked: asked.headers.get("mcp-param-region") == "accord-check-other", 409, 400
    ),
)


def is_beyond(asked: Asked) -> bool:
    return not asked.headers.get("mcp-param-region", "").isascii()


faults(
    stateless(CHARACTERS),
    takes_every_character=repeating(
        lambda name, given, value: given is not None and not given.isascii(), ("mcp-param-region",)
    ),
    falls_over_at_characters_beyond_ascii=restating(is_beyond, 500, 400),
    calls_characters_beyond_ascii_unprocessable=restating(is_beyond, 422, 400),
)


@stateless("http.headers.integers-compared-numerically")
def compares_numbers_as_texts(web: Web) -> None:
    refusing(lambda asked: asked.headers.get("mcp-param-number", "").endswith(".0"))(web)


faults(
    stateless(ABSENT),
    wants_headers_for_all_arguments=refusing(
        lambda asked: (
            asked.tool == "get_region"
            and any(
                name not in asked.headers and arguments(asked).get(ARGUMENTS[name]) is None
                for name in ARGUMENTS
            )
        )
    ),
    wants_headers_for_null=refusing(
        lambda asked: asked.tool == "get_region" and None in arguments(asked).values()
    ),
    wants_a_region_in_any_case=refusing(
        lambda asked: (
            asked.tool == "get_region"
            and "region" not in arguments(asked)
            and "mcp-param-region" not in asked.headers
        )
    ),
)


# -- versions

VERSION_DIFFERS = "http.version-header.mismatch-rejected"
UNSUPPORTED = "http.version-header.unsupported-400"
VERSION_MISSING = "http.version-header.missing-rejected"
HEADER = "mcp-protocol-version"


def is_older(asked: Asked) -> bool:
    return HEADER in asked.headers and asked.headers[HEADER] != meta(asked)[VERSION]


@stateless(VERSION_DIFFERS)
def believes_the_body_about_versions(web: Web) -> None:
    def mend(asked: Asked) -> None:
        if is_older(asked):
            asked.headers[HEADER] = meta(asked)[VERSION]

    mending(mend)(web)


@stateless(VERSION_DIFFERS)
def takes_every_known_version(web: Web) -> None:
    def mend(asked: Asked) -> None:
        if is_older(asked) and asked.headers[HEADER] == "2025-11-25":
            asked.headers[HEADER] = meta(asked)[VERSION]

    mending(mend)(web)


faults(stateless(VERSION_DIFFERS), calls_another_version_a_conflict=restating(is_older, 409, 400))


def is_unknown(asked: Asked) -> bool:
    return meta(asked)[VERSION] == "1999-12-31"


faults(
    stateless(UNSUPPORTED),
    regrets_unknown_versions_with_ok=restating(is_unknown, 200, 400),
    calls_unknown_versions_invalid_params=hook(
        body=lambda asked, given: (
            answer(asked, -32602) if is_request(asked) and is_unknown(asked) else given
        )
    ),
)


@stateless(UNSUPPORTED)
def serves_every_version(web: Web) -> None:
    def mend(asked: Asked) -> None:
        if is_unknown(asked):
            asked.body = asked.body.replace(b"1999-12-31", NEWEST.encode())
            asked.headers[HEADER] = NEWEST

    mending(mend)(web)


@stateless(VERSION_MISSING)
def needs_no_version_header(web: Web) -> None:
    mending(lambda asked: asked.headers.setdefault(HEADER, meta(asked)[VERSION]) and None)(web)


@stateless(VERSION_MISSING)
def needs_no_version_header_to_list(web: Web) -> None:
    def mend(asked: Asked) -> None:
        if asked.method == "tools/list":
            asked.headers.setdefault(HEADER, meta(asked)[VERSION])

    mending(mend)(web)


@stateless(VERSION_MISSING)
def wants_an_upgrade_without_a_version(web: Web) -> None:
    restating(lacks(HEADER), 426, 400)(web)


# -- statuses

NOT_FOUND = "http.method-not-found.404"
META = "meta.request.missing-field-http-400"
CAPABILITY = "capability.missing-error-http-400"
faults(
    stateless(NOT_FOUND),
    knows_no_method_and_says_ok=restating(lambda asked: asked.method.endswith("unknown"), 200, 404),
    finds_nothing_and_says_nothing=hook(
        body=lambda asked, given: b"" if asked.method.endswith("unknown") else given
    ),
    calls_unknown_methods_invalid_requests=hook(
        body=lambda asked, given: (
            answer(asked, -32600) if asked.method.endswith("unknown") else given
        )
    ),
    calls_unknown_methods_of_tools_bad_requests=restating(
        lambda asked: asked.method == "tools/unknown", 400, 404
    ),
)


def is_incapable(asked: Asked) -> bool:
    return "io.modelcontextprotocol/clientCapabilities" not in meta(asked)


faults(
    stateless(META),
    refuses_half_a_meta_with_ok=restating(is_incapable, 200, 400),
    calls_half_a_meta_unprocessable=restating(is_incapable, 422, 400),
    refuses_half_a_meta_of_lists_with_ok=restating(
        lambda asked: is_incapable(asked) and asked.method == "tools/list", 200, 400
    ),
)
faults(
    stateless(CAPABILITY),
    misses_capabilities_with_ok=restating(lambda asked: asked.tool == "query_model", 200, 400),
    forbids_what_needs_a_capability=restating(lambda asked: asked.tool == "query_model", 403, 400),
    has_not_implemented_what_needs_a_capability=restating(
        lambda asked: asked.tool == "query_model", 501, 400
    ),
)


ENDPOINT = "http.endpoint.single-post"


@stateless(ENDPOINT)
def has_prompts_somewhere_else(web: Web) -> None:
    web.before = lambda asked: (404, {}, b"") if asked.method == "prompts/list" else None


@stateless(ENDPOINT)
def has_resources_by_get(web: Web) -> None:
    web.before = lambda asked: (405, {}, b"") if asked.method == "resources/list" else None


@stateless(ENDPOINT)
def moves_prompts(web: Web) -> None:
    moved = {"location": "/mcp/prompts"}
    web.before = lambda asked: (308, moved, b"") if asked.method == "prompts/list" else None


# -- what older clients send

NO_GET = "http.legacy-traffic.get-delete-405"
NO_SESSION = "http.legacy-traffic.session-header-ignored"
NO_RESUMING = "http.legacy-traffic.last-event-id-ignored"
faults(
    stateless(NO_GET),
    has_nothing_for_get=hook(before=lambda asked: (404, {}, b"") if asked.verb == "GET" else None),
    streams_to_get=hook(
        before=lambda asked: (200, STREAM, b": hello\n\n") if asked.verb == "GET" else None
    ),
    deletes_nothing_gladly=hook(
        before=lambda asked: (200, {}, b"") if asked.verb == "DELETE" else None
    ),
)


@stateless(NO_SESSION)
def gives_session_ids(web: Web) -> None:
    web.head = lambda asked, status, headers: (status, headers | {"mcp-session-id": "s-1"})


@stateless(NO_SESSION, of="head")
def repeats_session_ids(asked: Asked, status: int, headers: Headers) -> Head:
    given = asked.headers.get("mcp-session-id")
    return status, headers if given is None else headers | {"mcp-session-id": given}


@stateless(NO_SESSION)
def does_not_know_the_session(web: Web) -> None:
    web.before = lambda asked: (404, JSON, ERROR) if "mcp-session-id" in asked.headers else None


faults(
    stateless(NO_RESUMING),
    refuses_to_resume=hook(
        before=lambda asked: (400, JSON, ERROR) if "last-event-id" in asked.headers else None
    ),
    replays_nothing=hook(
        before=lambda asked: (200, STREAM, b"") if "last-event-id" in asked.headers else None
    ),
    does_not_know_the_event=hook(
        before=lambda asked: (
            (404, JSON, ERROR) if asked.headers.get("last-event-id") == "accord-check" else None
        )
    ),
)


# -- connections

AFFINITY = "stateless.no-connection-affinity"


@stateless(AFFINITY, only=["stateless"])
def binds_cursors_to_connections(web: Web) -> None:
    given_at: dict[tuple[str, str], set[Any]] = {}

    def before(asked: Asked) -> tuple[int, Headers, bytes] | None:
        cursor = params(asked).get("cursor")
        known = given_at.get((asked.method, cursor or ""), {asked.client})
        return None if asked.client in known else (200, JSON, answer(asked, -32602))

    def body(asked: Asked, given: bytes) -> bytes:
        if b'"nextCursor"' in given:
            cursor = json.loads(given)["result"]["nextCursor"]
            given_at.setdefault((asked.method, cursor), set()).add(asked.client)
        return given

    web.before = before
    web.body = body


@stateless(AFFINITY, only=["stateless"])
def binds_questions_to_connections(web: Web) -> None:
    asked_at: dict[str, Any] = {}

    def before(asked: Asked) -> tuple[int, Headers, bytes] | None:
        state = params(asked).get("requestState")
        is_lost = asked_at.get(state or "", asked.client) != asked.client
        return (200, JSON, answer(asked, -32602)) if is_lost else None

    def body(asked: Asked, given: bytes) -> bytes:
        if b'"requestState"' in given:
            asked_at[json.loads(given)["result"]["requestState"]] = asked.client
        return given

    web.before = before
    web.body = body


# -- streams

ENDS = "http.sse.response-ends-stream"
ACCEL = "http.sse.accel-buffering-off"
NO_IDS = "http.sse.no-event-ids"
SILENT = "http.cancel.no-further-messages"


def is_streamed(asked: Asked) -> bool:
    """Return whether a call asks for progress, so that it is answered by a stream."""
    return asked.tool == "look" and "progressToken" in meta(asked)


@stateless(ENDS, of="last")
async def leaves_streams_of_answers_open(asked: Asked, send: Send) -> None:
    if asked.tool == "look":
        await asyncio.sleep(0.6)


@stateless(ENDS, of="last")
async def comments_on_answers(asked: Asked, send: Send) -> None:
    for _ in range(6 if is_streamed(asked) else 0):
        await asyncio.sleep(0.1)
        await send({"type": "http.response.body", "body": b": more\n\n", "more_body": True})


@stateless(ENDS, server=everything, of="last")
async def keeps_the_streams_of_one_tool(asked: Asked, send: Send) -> None:
    if asked.tool == "count" and "progressToken" in meta(asked):
        await asyncio.sleep(0.6)


@hook_maker
def buffering(web: Web, change: Callable[[Headers], None]) -> None:
    def head(asked: Asked, status: int, headers: Headers) -> Head:
        if is_stream(headers):
            change(headers)
        return status, headers

    web.head = head


faults(
    stateless(ACCEL),
    says_nothing_of_buffering=buffering(
        lambda headers: headers.pop("x-accel-buffering", None) and None
    ),
    asks_for_buffering=buffering(lambda headers: headers.update({"x-accel-buffering": "yes"})),
    says_off_for_no=buffering(lambda headers: headers.update({"x-accel-buffering": "off"})),
)
faults(
    stateless(NO_IDS),
    numbers_its_events=hook(event=lambda asked, event: [Event(event.data, event.name, id="1")]),
    numbers_its_answers=hook(
        event=lambda asked, event: (
            [Event(event.data, event.name, id="last")] if is_answer(event) else [event]
        )
    ),
)


@stateless(NO_IDS, of="body")
def primes_its_streams(asked: Asked, given: bytes) -> bytes:
    if is_streamed(asked) and given and not asked.headers.get("x-mutant"):
        asked.headers["x-mutant"] = "primed"
        return b"id: 0\ndata: \n\n" + given
    return given


def telling(web: Web, message: Callable[[Asked], dict[str, Any]]) -> None:
    """Tell listeners of calls whose clients left."""

    def left(asked: Asked) -> None:
        if asked.method == "tools/call" and "" in web.listening:
            web.listening[""](json.dumps({"jsonrpc": "2.0"} | message(asked)).encode())

    web.left = left


@stateless(SILENT)
def reports_progress_of_calls_that_were_left(web: Web) -> None:
    def message(asked: Asked) -> dict[str, Any]:
        progress = {"progressToken": meta(asked).get("progressToken"), "progress": 9}
        return {"method": "notifications/progress", "params": progress}

    telling(web, message)


@stateless(SILENT)
def answers_calls_that_were_left(web: Web) -> None:
    telling(web, lambda asked: {"id": asked.message["id"], "result": {"content": []}})


@stateless(SILENT)
def refuses_calls_that_were_left(web: Web) -> None:
    error = {"code": -32603, "message": "the client left"}
    telling(web, lambda asked: {"id": asked.message["id"], "error": error})


# -- what older revisions have as well


@stateless("http.post.accepted-202")
def has_an_answer_for_notifications(web: Web) -> None:
    web.head = lambda asked, status, headers: (200 if status == 202 else status, headers)


@stateless("http.post.refused-status")
def refuses_notifications_with_ok(web: Web) -> None:
    web.before = lambda asked: (
        (200, JSON, ERROR) if asked.method == "notifications/accord-check" else None
    )


@stateless("http.origin.validated", of="before")
def lets_every_page_discover(asked: Asked) -> None:
    if asked.method == "server/discover":
        asked.headers.pop("origin", None)


@stateless("http.origin.validated", of="before")
def lets_every_page_list(asked: Asked) -> None:
    if asked.method == "tools/list":
        asked.headers.pop("origin", None)


@stateless("http.origin.invalid-403")
def calls_foreign_origins_bad_requests(web: Web) -> None:
    web.head = lambda asked, status, headers: (400 if status == 403 else status, headers)


@stateless("http.post.response-content-type", of="head")
def answers_in_a_type_of_its_own(asked: Asked, status: int, headers: Headers) -> Head:
    if asked.method == "tools/list" and status == 200:
        headers["content-type"] = "application/mcp+json"
    return status, headers


@stateless("http.post.stream-one-response-per-request")
def answers_twice_on_a_stream(web: Web) -> None:
    web.event = lambda asked, event: (
        [event, event] if asked.tool == "look" and is_answer(event) else [event]
    )
