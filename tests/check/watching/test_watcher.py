"""The judge beside the wire: conversations apart, memory bounded, secrets masked."""

import json

import msgspec
import pytest

from accord.check.replay import replay
from accord.check.watching import watcher as watching
from accord.check.watching.masking import Masks
from accord.check.watching.watcher import Copy, Watcher, merged
from accord.trace import HttpFacts, Record, read
from check.watching.between import INITIALIZE, LIST, OPENED, READY, line


def record(message=None, raw=None, **headers):
    http = HttpFacts("POST", None, {name.replace("_", "-"): text for name, text in headers.items()})
    body = None if message is None else msgspec.Raw(json.dumps(message).encode())
    return Record(sender="client", message=body, raw=raw, http=http if headers else None)


def masked(message, masks=None):
    return json.loads(bytes((masks or Masks()).applied(record(message)).message))


@pytest.mark.parametrize(
    "key", ["password", "apiKey", "api_key", "client_secret", "access_token", "Authorization"]
)
def test_a_member_that_is_called_a_secret_is_masked_at_any_depth(key):
    assert masked({"a": [{key: "hush"}]}) == {"a": [{key: "masked-1"}]}
    assert masked({key: 5, "b": {key: ""}}) == {key: 5, "b": {key: ""}}


@pytest.mark.parametrize(
    "secret",
    [
        "sk-0123456789abcdefghij",
        "ghp_0123456789abcdefghijABCDEFGHIJ",
        "xoxb-0123456789-abc",
        "AKIA0123456789ABCDEF",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0abc.c2lnbmF0dXJl",
    ],
    ids=["sk", "ghp", "xoxb", "AKIA", "JWT"],
)
def test_a_secret_is_known_by_its_form_in_any_text(secret):
    assert masked({"text": f"use {secret}, please"}) == {"text": "use masked-1, please"}
    assert Masks().applied(record(raw=f"!{secret}")).raw == "!masked-1"


def test_a_secret_in_a_text_that_is_json_is_masked_by_the_name_of_its_member():
    text = json.dumps({"rows": [{"token": "hush"}]})
    masks = Masks()
    found = masked({"text": text, "structuredContent": {"token": "hush"}}, masks)
    assert json.loads(found["text"]) == {"rows": [{"token": "masked-1"}]}
    assert found["structuredContent"] == {"token": "masked-1"}
    assert masked({"text": '{"rows": "plain"}'}) == {"text": '{"rows": "plain"}'}
    assert masked({"text": '{"token": broken'}) == {"text": '{"token": broken'}


def test_names_of_the_protocol_are_no_secrets():
    message = {"params": {"maxTokens": "5", "_meta": {"progressToken": "abc"}}, "keys": ["k"]}
    whole = record(message)
    assert Masks().applied(whole) is whole


def test_the_same_secret_has_the_same_number_and_another_has_another():
    masks = Masks()
    assert masked({"token": "one"}, masks) == {"token": "masked-1"}
    assert masked({"token": "two"}, masks) == {"token": "masked-2"}
    assert masked({"token": "one"}, masks) == {"token": "masked-1"}


def test_headers_are_masked_unless_they_are_known_to_be_harmless():
    seen = Masks().applied(
        record(
            None,
            raw="",
            authorization="Bearer hush",
            x_api_key="hush",
            cookie="hush=1",
            mcp_session_id="hush",
            content_type="application/json",
            mcp_protocol_version="2025-06-18",
        )
    )
    assert seen.http is not None
    assert seen.http.headers == {
        "authorization": "Bearer masked-1",
        "x-api-key": "masked-1",
        "cookie": "masked-2",
        "mcp-session-id": "masked-1",
        "content-type": "application/json",
        "mcp-protocol-version": "2025-06-18",
    }


def said(watcher, conversation=""):
    exchange = (("client", INITIALIZE), ("server", OPENED), ("client", READY))
    for party, message in exchange:
        watcher.take(Copy(party, line(message).strip(), 0.0, conversation=conversation))


def test_conversations_are_judged_apart_and_reported_as_one():
    watcher = Watcher("it")
    for name in "ab":
        said(watcher, name)
    watcher.take(Copy("server", b'{"jsonrpc": "1.0"}', 0.0, conversation="b"))
    watcher.close()
    first, second = watcher.reports()
    assert (first.has_failed, second.has_failed) == (False, True)
    whole = merged([first, second])
    assert whole.has_failed
    assert len(whole.findings) == len(second.findings)
    assert merged([first]) is first


SCHEMA = {
    "type": "object",
    "properties": {"token": {"type": "string", "pattern": "^hush"}, "n": {"type": "integer"}},
}
TOOL = {"name": "issue", "description": "d", "inputSchema": {"type": "object"}}
LISTED = {"tools": [{**TOOL, "outputSchema": SCHEMA}]}
CALL = {**LIST, "id": 3, "method": "tools/call", "params": {"name": "issue", "arguments": {}}}


def issued(content):
    text = [{"type": "text", "text": json.dumps(content)}]
    result = {"content": text, "structuredContent": content, "isError": False}
    return {"jsonrpc": "2.0", "id": 3, "result": result}


def tell_of(content, **options):
    """Watch a server that issues a token, and return the watcher."""
    watcher = Watcher("it", **options)
    said(watcher)
    listed = {"jsonrpc": "2.0", "id": 2, "result": LISTED}
    for party, message in (
        ("client", LIST),
        ("server", listed),
        ("client", CALL),
        ("server", issued(content)),
    ):
        watcher.take(Copy(party, line(message).strip(), 0.0))
    watcher.close()
    return watcher


def test_a_masked_secret_breaks_no_schema_in_the_recording(tmp_path):
    path = tmp_path / "s.jsonl"
    (live,) = tell_of({"token": "hush-hush", "n": 1}, recording=path).reports()
    again = replay(read(path), target="it")
    assert "hush-hush" not in path.read_text()
    assert [each.why for each in (*live.findings, *again.findings)] == []


def test_what_is_told_and_reported_names_no_secret():
    told = []
    watcher = tell_of({"token": "very secret", "n": 1}, found=told.append)
    (report,) = watcher.reports()
    assert "tools.call.structured-conforms" in {each.requirement for each in told}
    said_in_all = msgspec.json.encode([told, report.results, report.findings])
    assert b"masked-1" in said_in_all
    assert b"very secret" not in said_in_all


def test_each_conversation_has_a_recording_of_its_own(tmp_path):
    watcher = Watcher("it", recording=tmp_path / "s.jsonl")
    for name in "ab":
        said(watcher, name)
    watcher.close()
    assert [(tmp_path / each).read_bytes().count(b"\n") for each in ("s.jsonl", "s-2.jsonl")] == [
        3,
        3,
    ]


def test_more_conversations_than_can_be_kept_are_counted(monkeypatch):
    monkeypatch.setattr(watching, "_CONVERSATIONS_MOST", 2)
    watcher = Watcher("it")
    for name in "abcd":
        said(watcher, name)
    watcher.close()
    assert len(watcher.reports()) == 2
    assert watcher.dropped == 6


def test_after_a_gap_nothing_is_judged():
    found = []
    watcher = Watcher("it", found=found.append)
    said(watcher)
    watcher.drop()
    watcher.take(Copy("server", b'{"jsonrpc": "1.0"}', 0.0))
    watcher.close()
    assert watcher.dropped == 2
    assert found == []


def test_what_comes_after_the_end_is_counted():
    watcher = Watcher("it")
    watcher.close()
    said(watcher)
    watcher.close()
    assert (watcher.dropped, watcher.reports()) == (3, [])
