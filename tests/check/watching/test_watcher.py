"""The judge beside the wire: conversations apart, memory bounded, secrets masked."""

import json

import msgspec

from accord.trace import read
from accord_tools.check.trace_check import replay
from accord_tools.watch import watcher as watching
from accord_tools.watch.watcher import Copy, Watcher, merge_reports
from check.watching.between import INITIALIZE, LIST, OPENED, READY, line


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
    whole = merge_reports([first, second])
    assert whole.has_failed
    assert len(whole.violations) == len(second.violations)
    assert merge_reports([first]) is first


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
    assert [each.violation.why for each in (*live.violations, *again.violations)] == []


def test_violations_and_reports_contain_no_secrets():
    told = []
    watcher = tell_of({"token": "very secret", "n": 1}, found=told.append)
    (report,) = watcher.reports()
    assert "tools.call.structured-conforms" in {each.requirement for each in told}
    said_in_all = msgspec.json.encode([told, report.results, report.violations])
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


def test_copies_after_the_end_are_counted():
    watcher = Watcher("it")
    watcher.close()
    said(watcher)
    watcher.close()
    assert (watcher.dropped, watcher.reports()) == (3, [])


def test_an_earlier_recording_is_never_written_over(tmp_path):
    path = tmp_path / "s.jsonl"
    watchers = [Watcher("it", recording=path) for _ in range(2)]  # two launches at the same time
    for name in ("a", "b"):
        for each in watchers:
            said(each, name)
    for each in watchers:
        each.close()
    later = Watcher("it", recording=path)
    said(later)
    later.close()
    made = [path.name for each in (*watchers, later) for path in each.recordings]
    assert sorted(made) == ["s-2.jsonl", "s-3.jsonl", "s-4.jsonl", "s-5.jsonl", "s.jsonl"]
    for name in made:
        assert len(list(read(tmp_path / name))) == 3
        assert not replay(read(tmp_path / name), target="it").has_failed


def test_a_launch_in_which_nothing_is_said_leaves_no_recording(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text("of another launch")
    watcher = Watcher("it", recording=path)
    watcher.close()
    assert watcher.recordings == []
    assert [each.name for each in tmp_path.iterdir()] == ["s.jsonl"]
    assert path.read_text() == "of another launch"


def test_recordings_are_for_their_owner_alone(tmp_path):
    watcher = Watcher("it", recording=tmp_path / "s.jsonl")
    for name in "ab":
        said(watcher, name)
    watcher.close()
    assert [each.stat().st_mode & 0o777 for each in watcher.recordings] == [0o600, 0o600]


ASKED = {
    "jsonrpc": "2.0",
    "id": "q",
    "method": "elicitation/create",
    "params": {
        "message": "your password=hunter2?",
        "requestedSchema": {
            "type": "object",
            "properties": {
                "password": {"type": "string", "default": "hush-hush"},
                "otp": {"type": "integer"},
            },
            "required": ["otp"],
        },
    },
}
SECRET_TOOL = {
    "name": "issue",
    "inputSchema": {"type": "object", "properties": {"auth": {"type": "object"}}},
    "outputSchema": {
        "type": "object",
        "properties": {"password": {"type": "integer"}, "tokens": {"type": "integer"}},
        "required": ["password"],
    },
}
SECRET_CALL = {"name": "issue", "arguments": {"auth": {"pwd": 7654321, "user": "me"}}}


def test_masks_change_no_verdict_of_a_recording(tmp_path):
    extensions = {"experimental": {"oauth-client-credentials": {"mode": "plain"}}}
    opening = json.loads(json.dumps(INITIALIZE))
    opening["params"]["capabilities"] = {"elicitation": {}, **extensions}
    content = {"password": 7654321, "tokens": 12}
    result = {
        "content": [{"type": "text", "text": json.dumps(content)}],
        "structuredContent": content,
        "isError": False,
    }
    path = tmp_path / "s.jsonl"
    watcher = Watcher("it", recording=path)
    for party, message in (
        ("client", opening),
        ("server", OPENED),
        ("client", READY),
        ("client", LIST),
        ("server", {"jsonrpc": "2.0", "id": 2, "result": {"tools": [SECRET_TOOL]}}),
        ("client", {**LIST, "id": 3, "method": "tools/call", "params": SECRET_CALL}),
        ("server", ASKED),
        (
            "client",
            {
                "jsonrpc": "2.0",
                "id": "q",
                "result": {"action": "accept", "content": {"password": "hunter2", "otp": 7654321}},
            },
        ),
        ("server", {"jsonrpc": "2.0", "id": 3, "result": result}),
    ):
        watcher.take(Copy(party, line(message).strip(), 0.0))
    watcher.close()
    (live,) = watcher.reports()
    again = replay(read(path), target="it")
    written = path.read_text()
    for secret in ("hunter2", "hush-hush", "7654321"):
        assert secret not in written
    # The only difference: whether a masked value keeps to its schema cannot be known.
    changed = {
        each.id: (each.verdict, other.verdict)
        for each, other in zip(live.results, again.results, strict=True)
        if each.verdict != other.verdict
    }
    assert changed == {"tools.call.structured-conforms": ("pass", "not-exercised")}
