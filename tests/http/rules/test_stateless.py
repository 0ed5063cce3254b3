"""Requests over HTTP that stand on their own: how they differ from others, and their headers."""

import json
from functools import partial

import pytest

from accord.errors import HeaderMismatch, InvalidParams, InvalidRequest, UnsupportedRevision
from accord.http.rules import stateless
from accord.http.rules.stateless import classify, find_fault, find_header_mismatch
from accord.protocol.codec import Codec
from accord.protocol.jsonrpc import MalformedMessage
from accord.protocol.mirroring import MirroredArgument
from accord.protocol.revisions import HANDSHAKE, REVISIONS
from support.tables import cases

BOTH = tuple(REVISIONS)
OLDER = tuple(HANDSHAKE)
NEW = "2026-07-28"
NEWER = (NEW,)
PREFIX = "io.modelcontextprotocol/"
META = {f"{PREFIX}protocolVersion": NEW, f"{PREFIX}clientCapabilities": {}}


def message(method="tools/list", id=1, **params):
    made = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    return {name: value for name, value in made.items() if value is not None}


def modern(method="tools/list", id=1, meta=META, **params):
    return message(method, id, _meta=meta, **params)


def read(body):
    try:
        return Codec().decode(body if isinstance(body, bytes) else json.dumps(body).encode())
    except MalformedMessage as malformed:
        return malformed


NOTE = "notifications/roots/list_changed"
RESPONSE = {"jsonrpc": "2.0", "id": 1, "result": {}}
UNKNOWN = "2099-01-01"

# Which POST it is: the body, the version header, what it belongs to or how it is refused.
TABLE = [
    # 1. an array
    ([message(), message(id=2)], None, "session"),
    ([message()], NEW, "session"),
    ([message(), modern(id=2)], "2025-03-26", InvalidRequest),
    ([modern()], NEW, InvalidRequest),
    ([1, modern()], None, InvalidRequest),
    # 2. a revision in the `_meta`
    (modern(), NEW, "stateless"),
    (modern(), None, "stateless"),
    (modern(), "2025-06-18", "stateless"),
    (modern("initialize"), NEW, "stateless"),
    (modern("initialize"), None, "stateless"),
    (modern(NOTE, None), None, "stateless"),
    (modern(meta={f"{PREFIX}protocolVersion": 7}), None, "stateless"),
    # 3. initialize
    (message("initialize"), None, "session"),
    (message("initialize"), "2025-11-25", "session"),
    (message("initialize"), UNKNOWN, "session"),
    (message("initialize"), NEW, HeaderMismatch),
    # 4. a request with a header that names a revision without sessions, or an unknown one
    (message(), NEW, "stateless"),
    (message(), UNKNOWN, "stateless"),
    (message(), "", "stateless"),
    (message(_meta=7), NEW, "stateless"),
    ({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": [1]}, NEW, "stateless"),
    ({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, NEW, "stateless"),
    # 5. a notification with such a header
    (message(NOTE, None), NEW, "stateless"),
    (message(NOTE, None), UNKNOWN, "session"),
    # 6 to 8. everything else belongs to a session, or lacks one
    (message(), None, "session"),
    (message(), "2025-11-25", "session"),
    (message(NOTE, None), "2025-11-25", "session"),
    (RESPONSE, None, "session"),
    (RESPONSE, NEW, "session"),
    # what cannot be read
    (b"{", None, "session"),
    (b"{", UNKNOWN, "session"),
    (b"{", NEW, "stateless"),
]


@pytest.mark.requirement(
    "versioning.dual-era.meta-selects-modern",
    "versioning.dual-era.initialize-selects-legacy",
    "http.version-header.mismatch-rejected",
)
@cases(("body", "version", "expected"), TABLE)
def test_the_body_decides_to_which_era_a_post_belongs(body, version, expected):
    if isinstance(expected, str):
        assert classify(read(body), version, BOTH) == expected
    else:
        with pytest.raises(expected):
            classify(read(body), version, BOTH)


@cases(("body", "version"), [row[:2] for row in TABLE])
def test_a_server_of_older_revisions_knows_sessions_alone(body, version):
    assert classify(read(body), version, OLDER) == "session"


@cases(
    ("body", "version", "expected"),
    [
        (message(), None, "stateless"),
        (message(), "2025-11-25", "stateless"),
        (message(NOTE, None), "2025-11-25", "stateless"),
        (b"{", None, "stateless"),
        (RESPONSE, None, InvalidRequest),
        ([message()], "2025-03-26", InvalidRequest),
        (message("initialize", protocolVersion="2025-11-25"), None, UnsupportedRevision),
        (message("initialize", protocolVersion="2025-11-25"), NEW, UnsupportedRevision),
        (modern("initialize"), NEW, "stateless"),
    ],
)
def test_a_server_without_sessions_takes_no_post_for_part_of_one(body, version, expected):
    if isinstance(expected, str):
        assert classify(read(body), version, NEWER) == expected
    else:
        with pytest.raises(expected):
            classify(read(body), version, NEWER)


@pytest.mark.requirement("versioning.modern-only.initialize-names-versions")
@cases(
    ("params", "requested"),
    [
        ({"protocolVersion": "2025-11-25"}, "2025-11-25"),
        ({"protocolVersion": 7}, None),
        ([], None),
        (None, None),
    ],
)
def test_initialize_is_refused_with_the_revisions_that_are_spoken(params, requested):
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    body = {name: value for name, value in opening.items() if value is not None}
    with pytest.raises(UnsupportedRevision) as caught:
        classify(read(body), None, NEWER)
    assert caught.value.data == {"supported": [NEW], "requested": requested}
    assert NEW in caught.value.message


# -- headers and `_meta`


def headers(**given):
    named = {
        "mcp-protocol-version": NEW,
        "mcp-method": "tools/list",
        **{name.replace("_", "-"): value for name, value in given.items()},
    }
    return {
        name.encode(): value.encode("latin-1") for name, value in named.items() if value is not None
    }


CALL = modern("tools/call", name="add", arguments={})
CALLING = headers(mcp_method="tools/call", mcp_name="add")


@pytest.mark.requirement(
    "http.version-header.missing-rejected",
    "http.version-header.mismatch-rejected",
    "http.version-header.unsupported-400",
    "http.headers.required-missing-rejected",
    "http.headers.mismatch-rejected",
    "http.headers.invalid-characters-rejected",
    "http.headers.decode-before-compare",
)
@cases(
    ("body", "given", "error"),
    [
        (modern(), headers(), None),
        (CALL, CALLING, None),
        (CALL, {**CALLING, b"mcp-name": b"  add "}, None),
        (CALL, {**CALLING, b"mcp-name": b"=?base64?YWRk?="}, None),
        (modern("tools/call", name="två"), {**CALLING, b"mcp-name": b"=?base64?dHbDpQ==?="}, None),
        (
            modern("resources/read", uri="a:b"),
            headers(mcp_method="resources/read", mcp_name="a:b"),
            None,
        ),
        (modern("tools/call"), headers(mcp_method="tools/call"), None),
        (modern("resources/list"), headers(mcp_method="resources/list", mcp_name="x"), None),
        (modern("tasks/get", taskId="t"), headers(mcp_method="tasks/get", mcp_name="t"), None),
        (modern("tasks/get", taskId="t"), headers(mcp_method="tasks/get"), None),
        (
            modern("tasks/get", taskId="t"),
            headers(mcp_method="tasks/get", mcp_name="x"),
            HeaderMismatch,
        ),
        # `_meta`
        (message(), headers(), InvalidParams),
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers(), InvalidParams),
        (message(_meta=7), headers(), InvalidParams),
        (message(), headers(mcp_protocol_version=None), InvalidParams),
        (message(), headers(mcp_protocol_version=UNKNOWN), UnsupportedRevision),
        (modern(meta={f"{PREFIX}protocolVersion": 7}), headers(), InvalidParams),
        (modern(meta={f"{PREFIX}protocolVersion": NEW}), headers(), InvalidParams),
        (
            modern(meta={**META, f"{PREFIX}clientCapabilities": []}),
            headers(mcp_method=None),
            InvalidParams,
        ),
        # headers
        (modern(), headers(mcp_protocol_version=None), HeaderMismatch),
        (modern(), headers(mcp_protocol_version="2025-11-25"), HeaderMismatch),
        (modern(), headers(mcp_method=None), HeaderMismatch),
        (modern(), headers(mcp_method="tools/LIST"), HeaderMismatch),
        (CALL, {**CALLING, b"mcp-name": b"ADD"}, HeaderMismatch),
        (CALL, headers(mcp_method="tools/call"), HeaderMismatch),
        (CALL, {**CALLING, b"mcp-name": b"=?base64?YWR?="}, HeaderMismatch),
        (modern("tools/call", name="två"), {**CALLING, b"mcp-name": b"tv\xe5"}, HeaderMismatch),
        # the revision
        (
            modern(meta={**META, f"{PREFIX}protocolVersion": UNKNOWN}),
            headers(mcp_protocol_version=UNKNOWN),
            UnsupportedRevision,
        ),
        (modern(meta={**META, f"{PREFIX}protocolVersion": UNKNOWN}), headers(), HeaderMismatch),
        (
            modern(meta={**META, f"{PREFIX}protocolVersion": "2025-11-25"}),
            headers(mcp_protocol_version="2025-11-25"),
            UnsupportedRevision,
        ),
        # notifications
        (message(NOTE, None), headers(mcp_method=None), None),
        (message(NOTE, None), headers(mcp_method=NOTE), None),
        (message(NOTE, None), headers(mcp_method="x"), HeaderMismatch),
        (modern(NOTE, None), headers(mcp_method=None, mcp_protocol_version=None), HeaderMismatch),
    ],
)
def test_headers_and_body_say_the_same(body, given, error):
    fault = find_fault(read(body), given, BOTH)
    assert (fault and type(fault)) == error


def test_an_unknown_revision_is_refused_with_those_that_are_spoken():
    meta = {**META, f"{PREFIX}protocolVersion": UNKNOWN}
    fault = find_fault(read(modern(meta=meta)), headers(mcp_protocol_version=UNKNOWN), BOTH)
    assert fault is not None
    assert fault.data == {"supported": list(BOTH), "requested": UNKNOWN}


@pytest.mark.parametrize("name", [b"mcp-protocol-version", b"mcp-method", b"mcp-name"])
def test_a_header_that_routes_occurs_once(name):
    assert find_fault(read(CALL), CALLING, BOTH, {b"accept"}) is None
    fault = find_fault(read(CALL), CALLING, BOTH, {name})
    assert isinstance(fault, HeaderMismatch)
    assert f"{name.decode()} occurs twice" in fault.message


@cases(
    ("given", "name"),
    [
        (CALLING, "add"),
        ({**CALLING, b"mcp-name": b"other"}, "add"),
        ({**CALLING, b"mcp-name": b"=?base64?YWRk?="}, "add"),
        ({**CALLING, b"mcp-name": b"=?base64?x?="}, "=?base64?x?="),
        ({**CALLING, b"mcp-name": "två".encode()}, "två"),
        (headers(mcp_method="tools/call"), "add"),
        (headers(mcp_method="tools/call"), None),
        (headers(mcp_method="x", mcp_name="add"), "add"),
    ],
)
def test_headers_that_plainly_repeat_a_request_do_not_differ_from_it(given, name):
    if stateless.repeats(given, "tools/call", name):
        assert find_header_mismatch(given, NEW, "tools/call", name) is None


def test_most_requests_are_compared_at_once():
    assert stateless.repeats(CALLING, "tools/call", "add")
    assert stateless.repeats(headers(), "tools/list", None)


@pytest.mark.requirement("http.param-headers.value.markers-exact")
@pytest.mark.requirement("http.param-headers.match-validated")
def test_arguments_are_compared_with_their_headers():
    mirrored = (MirroredArgument("Mcp-Param-Region", ("region",)),)
    find = stateless.find_argument_mismatch
    assert find(mirrored, {"region": "eu"}, {b"mcp-param-region": b"eu"}) is None
    assert find(mirrored, {"region": "eu"}, {}) is not None
    assert find(mirrored, {"region": "eu"}, {b"mcp-param-region": b"=?base64?ZXU=?="}) is None
    for literal in ("=?BASE64?ZXU=?=", "=?base64?ZXU=", "x=?base64?ZXU=?="):
        given = {b"mcp-param-region": literal.encode()}
        assert find(mirrored, {"region": "eu"}, given) is not None
        assert find(mirrored, {"region": literal}, given) is None


@pytest.mark.requirement("http.param-headers.match-validated")
def test_a_header_that_repeats_an_argument_twice_differs_from_it():
    mirrored = (MirroredArgument("Mcp-Param-Region", ("region",)),)
    given = {b"mcp-param-region": b"us, eu"}
    find = partial(stateless.find_argument_mismatch, mirrored, {"region": "us, eu"}, given)
    assert find() is None
    assert find({b"mcp-param-other"}) is None
    assert find({b"mcp-param-region"}) == "Mcp-Param-Region occurs twice"


def test_a_body_of_any_depth_has_no_meta():
    deep = b'{"jsonrpc":"2.0","id":1,"method":"x","params":' + b"[" * 90 + b"]" * 90 + b"}"
    assert stateless.meta_in(read(deep)) == {}


@pytest.mark.requirement("http.method-not-found.404")
def test_the_code_of_an_error_decides_the_status():
    assert stateless.status_of(None) == stateless.status_of(-32602) == 200
    assert stateless.status_of(-32601) == stateless.status_of_refusal(-32601) == 404
    for code in (-32020, -32021, -32022):
        assert stateless.status_of(code) == stateless.status_of_refusal(code) == 400
    for code in (-32600, -32602, -32700):
        assert stateless.status_of_refusal(code) == 400
    reply = b'{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"x"}}'
    assert stateless.code_in(reply) == -32601


def test_errors_have_the_id_of_the_request():
    assert stateless.id_of(read(message(id="a"))) == "a"
    for body in (message(NOTE, None), RESPONSE, [message()], b"{"):
        assert stateless.id_of(read(body)) is None


def test_only_some_revisions_do_without_sessions():
    assert stateless.has_stateless(BOTH)
    assert not stateless.has_stateless(OLDER)
