"""Further recorded sessions with one fault each: streams, the older form, tokens, stateless."""

from collections.abc import Callable
from typing import Any

import msgspec

from protocol.rules.http_mutants import ELEVENTH, SIXTH, THIRD, mutants
from protocol.rules.http_sessions import (
    EVENTS,
    JSON,
    OLDER,
    RESOURCE,
    STATELESS,
    Session,
    add,
    all_of,
    drop,
    error,
    finished,
    header,
    locked,
    notice,
    older,
    put,
    request,
    result,
    stamped,
    stateless,
    streamable,
)

Spoil = Callable[[Session], None]


def _stateless(_: str) -> Session:
    return stateless()


def _older(_: str) -> Session:
    return older()


# -- streams of POSTs

for _revision, _row in (
    (THIRD, "http.sse.closed-after-response"),
    (SIXTH, "http.sse.closed-after-response"),
    (ELEVENTH, "http.sse.terminate-after-response"),
    (STATELESS, "http.sse.response-ends-stream"),
):
    _id = None if _revision == STATELESS else "c-9"
    mutants(
        _row,
        _revision,
        {
            "a notification": add(
                "call-result", "call-progress", message=notice("tools/list_changed"), id=_id
            ),
            "a request": add("call-result", "call-progress", message=request("q", "ping"), id=_id),
            "another answer": add("call-result", "call-progress", message=result(77), id=_id),
            "progress": add("call-result", "call-progress", id=_id),
        },
        _stateless if _revision == STATELESS else streamable,
        "http.post.stream-one-response-per-request",
        "http.post.related-requests-on-stream",
        "http.sse.no-requests",
        "http.sse.notifications-related",
    )

for _revision, _row in (
    (THIRD, "http.sse.not-closed-before-response"),
    (SIXTH, "http.sse.not-closed-before-response"),
    (ELEVENTH, "http.sse.retry-before-close"),
    (STATELESS, "http.post.stream-one-response-per-request"),
):
    _id = None if _revision == STATELESS else "c-9"
    mutants(
        _row,
        _revision,
        {
            "no answer": drop("call-result"),
            "nothing but progress": all_of(
                drop("call-result"), add("call-progress", "call-progress", "more", id=_id)
            ),
            "another answer": put("call-result", message=result(77)),
        },
        _stateless if _revision == STATELESS else streamable,
    )

mutants(
    "http.sse.priming-event",
    ELEVENTH,
    {
        "none": drop("call-prime"),
        "with data": put("call-prime", data="hello"),
        "without an id": put("call-prime", id=None),
        "after the progress": all_of(
            drop("call-prime"), add("call-progress", "call-progress", message=None, id="c-9")
        ),
    },
)
mutants(
    "http.sse.no-event-ids",
    STATELESS,
    {
        "one": put("call-progress", id="1"),
        "of the answer": put("call-result", id="a-2"),
        "a priming event": add("call-answer", "call-progress", message=None, id="p-0"),
    },
    _stateless,
)
mutants(
    "http.sse.accel-buffering-off",
    STATELESS,
    {
        "none": header("call-answer", "x-accel-buffering", None),
        "yes": header("call-answer", "x-accel-buffering", "yes"),
        "empty": header("call-answer", "x-accel-buffering", ""),
    },
    _stateless,
)


def _lost(_: str) -> Session:
    """A request whose stream the server ended, sent again as a new one."""
    session = stateless()
    drop("call-result")(session)
    add("again-answer", "call", "anew", exchange="anew", stream="anew")(session)
    arguments = {"region": "eu"}
    put("anew", message=stamped(9, "tools/call", name="add", arguments=arguments))(session)
    return session


mutants(
    "http.sse.client-reissues-lost-request",
    STATELESS,
    {
        "the same id": put(
            "anew", message=stamped(2, "tools/call", name="add", arguments={"region": "eu"})
        ),
        "the id for another method": all_of(
            put("anew", message=stamped(2, "tools/list"), headers={}),
        ),
        "a resumed stream": all_of(
            put("anew", method="GET", message=None), header("anew", "last-event-id", "1")
        ),
    },
    _lost,
    "http.post.stream-one-response-per-request",
    "http.post.metadata-headers",
    "http.client.accept-both",
)

# -- versions of a session

for _revision in (SIXTH, ELEVENTH):
    mutants(
        "http.version-header.bad-400",
        _revision,
        {
            "a request": header("ping", "mcp-protocol-version", "banana"),
            "a notification": header("ready", "mcp-protocol-version", "1999-01-01"),
            "the GET": header("get", "mcp-protocol-version", ""),
        },
        streamable,
        "http.client.protocol-version-header",
    )

# -- HTTP with SSE

mutants(
    "sse.connect.endpoint-event",
    OLDER,
    {
        "another name": put("endpoint", event="url"),
        "a message first": all_of(
            drop("endpoint"), add("get-answer", "ping-result", message=notice("tools/list_changed"))
        ),
        "no place": put("endpoint", data=""),
        "JSON": put("endpoint", data='{"uri": "/messages"}'),
        "half an address": put("endpoint", data="http://[x"),
    },
    _older,
    "sse.client.posts-to-endpoint",
)
mutants(
    "sse.client.posts-to-endpoint",
    OLDER,
    {
        "another path": put("list", path="/sse"),
        "another query": put("ping", query="session_id=masked-9"),
        "no query": put("ready", query=""),
        "put": put("list", method="PUT"),
    },
    _older,
)
mutants(
    "sse.endpoint.post",
    OLDER,
    {
        "not found": all_of(put("ready-answer", status=404)),
        "not allowed": put("list-answer", status=405),
        "gone": put("ping-answer", status=410),
    },
    _older,
)
mutants(
    "sse.server.message-event",
    OLDER,
    {
        "another name": put("list-result", event="mcp"),
        "as data": put(
            "ping-result",
            event="response",
            message=None,
            data=msgspec.json.encode(result(3)).decode(),
        ),
        "in the POST": put(
            "ping-answer", headers={"content-type": JSON}, message=result(3), status=200
        ),
    },
    _older,
)
mutants(
    "sse.server.event-data-json",
    OLDER,
    {
        "text": put("ping-result", message=None, raw="pong"),
        "cut off": put("list-result", message=None, raw='{"jsonrpc": "2.0", "id": 1, "res'),
        "form data": put("ping-result", message=None, raw="id=3&result="),
    },
    _older,
)

# -- tokens

for _revision in (THIRD, SIXTH, ELEVENTH, STATELESS):
    mutants(
        "auth.token.not-in-query",
        _revision,
        {
            "by its name": put("list", query="access_token=masked-7"),
            "by another name": put("list", query="x=1&t=masked-7"),
            "beside the header": put("again", query="Access_Token=masked-9"),
            "of the metadata": put("metadata", query="access_token=masked-1"),
        },
        locked,
    )
    mutants(
        "auth.token.bearer-header",
        _revision,
        {
            "without a scheme": header("list", "authorization", "masked-7"),
            "of another scheme": header("list", "authorization", "Token masked-7"),
            "in another header": all_of(
                header("again", "authorization", None), header("again", "x-api-key", "masked-7")
            ),
        },
        locked,
        "auth.every-request",
    )
    mutants(
        "auth.every-request",
        _revision,
        {
            "the last": header("again", "authorization", None),
            "all but the first": all_of(
                header("again", "authorization", None),
                header("list", "authorization", None) if _revision != STATELESS else put("list"),
            ),
            "after success alone": all_of(
                header("again", "authorization", None), header("again", "x-user", "me")
            ),
        },
        locked,
    )
    for _row, _ways in {
        "auth.token.invalid-401": {
            name: (status, "invalid_token")
            for name, status in (("403", 403), ("400", 400), ("500", 500))
        },
        "auth.status-codes": {
            "scope as 401": (401, "insufficient_scope"),
            "request as 401": (401, "invalid_request"),
            "request as 403": (403, "invalid_request"),
        },
        "auth.server.401-when-required": {
            "403": (403, ""),
            "400": (400, ""),
            "200": (200, ""),
        },
    }.items():
        mutants(
            _row,
            _revision,
            {
                name: put(
                    "first-answer",
                    status=status,
                    headers={
                        "www-authenticate": f'Bearer resource_metadata="http://127.0.0.1{RESOURCE}"'
                        f', scope="read"{f", error={code}" if code else ""}'
                    },
                )
                for name, (status, code) in _ways.items()
            },
            locked,
            "http.post.response-content-type",
        )

mutants(
    "auth.challenge.www-authenticate",
    SIXTH,
    {
        "none": header("first-answer", "www-authenticate", None),
        "without metadata": header("first-answer", "www-authenticate", 'Bearer realm="x"'),
        "of another scheme": header("first-answer", "www-authenticate", 'Basic realm="x"'),
    },
    locked,
)
mutants(
    "auth.discovery.protocol-version-header",
    THIRD,
    {
        "none": header("discovery", "mcp-protocol-version", None),
        "below a path": all_of(
            header("discovery", "mcp-protocol-version", None),
            put("discovery", path="/.well-known/oauth-authorization-server/mcp"),
        ),
        "of OpenID": all_of(
            header("discovery", "mcp-protocol-version", None),
            put("discovery", path="/.well-known/openid-configuration"),
        ),
    },
    locked,
)
for _revision in (SIXTH, ELEVENTH, STATELESS):
    mutants(
        "auth.prm.lists-as",
        _revision,
        {
            "none": put("metadata-answer", data='{"resource": "http://127.0.0.1/mcp"}'),
            "empty": put("metadata-answer", data='{"authorization_servers": []}'),
            "a string": put("metadata-answer", data='{"authorization_servers": "https://as.test"}'),
        },
        locked,
    )
    mutants(
        "auth.prm.server",
        _revision,
        {
            "not found": put("metadata-answer", status=404, data=None),
            "a page": put("metadata-answer", data="<html>"),
            "a list": put("metadata-answer", data="[]"),
        },
        locked,
    )

for _revision in (ELEVENTH, STATELESS):
    mutants(
        "auth.scope.insufficient-403",
        _revision,
        {
            name: put("first-answer", status=403, headers={"www-authenticate": f"Bearer {text}"})
            for name, text in {
                "without scope": 'error="insufficient_scope", resource_metadata="http://x/m"',
                "without metadata": 'error="insufficient_scope", scope="write"',
                "bare": "error=insufficient_scope",
            }.items()
        },
        locked,
    )

mutants(
    "auth.refresh.server-no-offline-access",
    STATELESS,
    {
        "challenge": header(
            "first-answer",
            "www-authenticate",
            f'Bearer resource_metadata="http://127.0.0.1{RESOURCE}", scope="read offline_access"',
        ),
        "alone": header(
            "first-answer",
            "www-authenticate",
            f'Bearer scope=offline_access, resource_metadata="http://127.0.0.1{RESOURCE}"',
        ),
        "metadata": put(
            "metadata-answer",
            data='{"authorization_servers": ["https://a"], "scopes_supported": ["offline_access"]}',
        ),
    },
    locked,
)

# -- requests that stand on their own


def _answer(message: Any, status: int = 200, kind: str = JSON) -> Spoil:
    return put("odd-answer", message=message, status=status, headers={"content-type": kind})


def _as_event(message: Any) -> Spoil:
    return all_of(
        put("odd-answer", message=None, status=200, size=None),
        put("odd-answer", headers={"content-type": EVENTS, "x-accel-buffering": "no"}),
        add("odd-answer", "call-result", message=message, exchange="odd", stream="odd-stream"),
    )


_LEAD = {"supported": [STATELESS], "requested": "x"}
for _row, _code, _wrong, _more in (
    ("http.method-not-found.404", -32601, 400, {}),
    ("http.version-header.unsupported-400", -32022, 404, {"data": _LEAD}),
    (
        "capability.missing-error-http-400",
        -32021,
        403,
        {"data": {"requiredCapabilities": {"sampling": {}}}},
    ),
):
    mutants(
        _row,
        STATELESS,
        {
            "200": _answer(error(3, _code, **_more)),
            "another status": _answer(error(3, _code, **_more), _wrong),
            "500": _answer(error(3, _code, **_more), 500),
            "an event": _as_event(error(3, _code, **_more)),
        },
        _stateless,
    )


def _bare(_: str) -> Session:
    """A request without the members that `_meta` must have, refused as it should be."""
    session = stateless()
    put("odd", message=request(3, "tools/list", _meta={}))(session)
    header("odd", "mcp-method", "tools/list")(session)
    put("odd-answer", status=400, message=error(3, -32602))(session)
    return session


mutants(
    "meta.request.missing-field-http-400",
    STATELESS,
    {
        "200": put("odd-answer", status=200),
        "422": put("odd-answer", status=422),
        "an event": _as_event(error(3, -32602)),
    },
    _bare,
)


mutants(
    "http.headers.mismatch-rejected",
    STATELESS,
    {"served with progress": header("call", "mcp-method", "tools/list")},
    _stateless,
)


def _refused(method: str, params: dict[str, Any], spoil: Spoil) -> Callable[[str], Session]:
    """A request whose headers differ from its body, refused as it should be."""

    def make(_: str) -> Session:
        session = stateless()
        put("odd", message=stamped(3, method, **params))(session)
        header("odd", "mcp-method", method)(session)
        if "name" in params:
            header("odd", "mcp-name", params["name"])(session)
        spoil(session)
        put("odd-answer", status=400, message=error(3, -32020))(session)
        return session

    return make


_LISTED = finished(3, tools=[], ttlMs=0, cacheScope="private")
_DONE = finished(3, content=[])
_CALL = {"name": "add", "arguments": {"region": "eu"}}
for _row, _method, _params, _fault, _good, _blamed in (
    (
        "http.version-header.mismatch-rejected",
        *("tools/list", {}, header("odd", "mcp-protocol-version", "2025-11-25")),
        *(_LISTED, "http.version-header.matches-meta"),
    ),
    (
        "http.headers.mismatch-rejected",
        *("tools/list", {}, header("odd", "mcp-method", "prompts/list")),
        *(_LISTED, "http.headers.mcp-method"),
    ),
    (
        "http.headers.required-missing-rejected",
        *("tools/list", {}, header("odd", "mcp-method", None)),
        *(_LISTED, "http.headers.mcp-method"),
    ),
    (
        "http.param-headers.missing-with-value-rejected",
        *("tools/call", _CALL, header("odd", "mcp-param-region", None)),
        *(_DONE, "http.param-headers.client-support"),
    ),
    (
        "http.param-headers.match-validated",
        *("tools/call", _CALL, header("odd", "mcp-param-region", "us")),
        *(_DONE, "http.param-headers.exact-path"),
    ),
):
    mutants(
        _row,
        STATELESS,
        {
            "served": put("odd-answer", status=200, message=_good),
            "refused with 200": put("odd-answer", status=200),
            "refused with 422": put("odd-answer", status=422),
            "served as an event": _as_event(_good),
        },
        _refused(_method, _params, _fault),
        _blamed,
    )
