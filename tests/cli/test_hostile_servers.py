"""A hostile server puts terminal escapes into every text that it sends; none reaches a terminal."""

import re
import sys

import pytest

# A server of raw JSON; EVIL clears the screen, in both forms, rings the bell, turns the direction
# of text and hides a letter.
SERVER = r"""
import json, sys

EVIL = "\x1b[2J\x9b31m\x07\x7f\u202e\U000e0041"
FORM = {
    "type": "object",
    "properties": {
        f"name{EVIL}": {"type": "string", "default": f"default{EVIL}", "title": f"title{EVIL}"},
    },
}
SCHEMA = {"type": "object", "properties": {f"arg{EVIL}": {"type": "string"}}}
TOOLS = [
    {"name": f"list{EVIL}", "description": EVIL, "inputSchema": SCHEMA},
    {"name": "demanding", "inputSchema": {**SCHEMA, "required": [f"arg{EVIL}"]}},
    {"name": "failing", "inputSchema": {"type": "object"}},
    {"name": "asking", "inputSchema": {"type": "object"}},
    {"name": "get_text", "inputSchema": {"type": "object"}},
]
PROMPTS = [
    {"name": f"prompt{EVIL}", "description": EVIL},
    {"name": "greet", "arguments": [{"name": f"arg{EVIL}", "required": True}]},
]


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def results(method, params):
    if method == "initialize":
        if sys.argv[1:] == ["refusing"]:
            return None
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}, "prompts": {}},
            "serverInfo": {"name": f"evil{EVIL}", "version": f"1{EVIL}"},
            "instructions": f"be kind{EVIL}",
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "prompts/list":
        return {"prompts": PROMPTS}
    if method == "tools/call" and params["name"] in ("asking", "get_text"):
        return {"content": [{"type": "text", "text": f"text{EVIL}"}]}
    if method == "ping":
        return {}
    return None


print(f"not a message {EVIL}", flush=True)
print(f"on stderr {EVIL}", file=sys.stderr, flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if "method" not in asked or "id" not in asked:
        continue
    params = asked.get("params", {})
    if params.get("name") == "asking":
        log = {"level": "info", "logger": f"l{EVIL}", "data": f"log{EVIL}"}
        say(method="notifications/message", params=log)
        question = {"message": f"question{EVIL}", "requestedSchema": FORM}
        say(id="q", method="elicitation/create", params=question)
        sys.stdin.readline()
    found = results(asked["method"], params)
    if found is None:
        say(id=asked["id"], error={"code": -32000, "message": f"error{EVIL}", "data": EVIL})
    else:
        say(id=asked["id"], result=found)
"""
# Escapes of accord itself: colours, and the cursor and erasing of the progress bar. Those of the
# server are others, or are next to the texts below.
COLOURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[[0-9]*[AK]")
RAW = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e\U000e0041]")


@pytest.fixture
def hostile(tmp_path):
    path = tmp_path / "hostile.py"
    path.write_text(SERVER)
    return [sys.executable, str(path)]


CALLS = [
    (["list"], "list\\x1b"),
    (["list", "--format", "json"], "list\\u001b"),
    (["lock", "--output", "-"], "list\\u001b"),
    (["call", "nosuch"], "there is no tool nosuch; there are list\\x1b[2J"),
    (["call", "nosuch", "--prompt"], "there is no prompt nosuch; there are prompt\\x1b[2J"),
    (["call", "demanding"], "demanding needs arg\\x1b[2J"),
    (["call", "greet", "--prompt"], "greet needs arg\\x1b[2J"),
    (["call", "failing"], "error\\x1b[2J"),
    (["call", "get_text"], "text\\x1b[2J"),
    (["call", "get_text", "--format", "json"], "text\\u001b[2J\\u009b31m"),
    (["test", "--examples", "2"], "list\\x1b"),
    (["test", "--examples", "2", "--format", "json"], "list\\u001b"),
]


@pytest.mark.parametrize(("words", "said"), CALLS, ids=[" ".join(words) for words, _ in CALLS])
def test_no_escape_of_a_server_reaches_the_terminal(converse, hostile, tmp_path, words, said):
    _, shown = converse(*words, "--", *hostile, cwd=tmp_path)
    assert said in " ".join(shown.split()), shown
    assert RAW.findall(COLOURS.sub("", shown)) == []
    assert "\x1b[2J" not in shown


def test_a_refused_initialize_cannot_control_the_terminal(converse, hostile, tmp_path):
    code, shown = converse("list", "--", *hostile, "refusing", cwd=tmp_path)
    assert code != 0
    assert "error\\x1b[2J" in shown
    assert RAW.findall(COLOURS.sub("", shown)) == []


def test_a_question_cannot_control_the_terminal(converse, hostile, tmp_path):
    typed = [(" [default", b"me\n")]
    code, shown = converse("call", "asking", "--", *hostile, cwd=tmp_path, typed=typed)
    assert code == 0, shown
    for text in ("question", "title", "name", "default", "log", "l"):
        assert f"{text}\\x1b[2J\\x9b31m\\x07\\x7f\\u202e\\U000e0041" in shown
    assert RAW.findall(COLOURS.sub("", shown)) == []


@pytest.mark.parametrize("words", [["list"], ["call", "get_text"], ["test", "--examples", "2"]])
def test_json_for_other_programs_has_hidden_characters_escaped(accord, hostile, tmp_path, words):
    done = accord(*words, "--format", "json", "--", *hostile, cwd=tmp_path)
    assert "\\u202e" in done.stdout
    assert "\\udb40\\udc41" in done.stdout
    assert not set("\u202e\U000e0041") & set(done.stdout)
