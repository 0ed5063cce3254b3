"""A server over stdio in plain Python, which starts quickly and misbehaves as it is asked to.

The arguments are names of the ways in which it misbehaves.
"""

import json
import sys

ASKED = set(sys.argv[1:])
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def tool(name, **members):
    return {"name": name, "inputSchema": {"type": "object"}, **members}


TOOLS = [
    tool("echo", annotations={"readOnlyHint": True}),
    tool("remove", annotations={"destructiveHint": True}),
    {**tool("unmarked"), "x-more": 1.50},
    tool("add_one", annotations={"destructiveHint": False}),
    tool("wrong", outputSchema=SCHEMA),
]
if "bare" in ASKED:
    TOOLS.append(tool("bare", outputSchema=SCHEMA))
CAPABILITIES = {"tools": {"listChanged": True}, "prompts": {}, "resources": {}, "logging": {}}


def say(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def hear():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return line, json.loads(line)


def text(said, **members):
    return {"content": [{"type": "text", "text": said}], **members}


def list_tools(id, params):
    cursor = params.get("cursor")
    if "loop" in ASKED:
        say(id=id, result={"tools": [{**TOOLS[0], "name": f"at {cursor}"}], "nextCursor": "again"})
    elif "malformed" in ASKED:
        say(id=id, result={"tools": [{"name": 5}, [], *TOOLS]})
    elif "twice" in ASKED:
        say(id=id, result={"tools": [TOOLS[0], TOOLS[0]]})
    else:
        say(id=id, result={"tools": TOOLS})


def call(id, params, line):
    name = params["name"]
    if name == "echo":
        say(id=id, result=text(line.strip()))
    elif name == "late":
        while hear()[1].get("method") != "notifications/cancelled":
            pass
        say(id=id, result=text("too late"))
    elif name == "stop":
        sys.stderr.write("stopping\n")
        sys.stderr.flush()
        sys.exit(3)
    elif name == "wrong":
        say(id=id, result=text("", structuredContent={"n": "one"}))
    elif name == "bare":
        say(id=id, result=text("done"))
    elif name == "change":
        TOOLS[2]["description"] = "changed"
        say(method="notifications/tools/list_changed")
        say(id=id, result=text("done"))
    elif name == "form":
        say(
            id="f", method="elicitation/create", params={"message": "n?", "requestedSchema": SCHEMA}
        )
        say(id=id, result=text(json.dumps(hear()[1])))
    elif name == "secret":
        say(id=id, result=text("", structuredContent={"api_key": "abcdef-123456-ghijkl"}))
    elif name == "visit":
        url = params["arguments"]["url"]
        asked = {"mode": "url", "message": "go", "url": url, "elicitationId": "e"}
        say(id="v", method="elicitation/create", params=asked)
        say(id=id, result=text(json.dumps(hear()[1])))
    elif name == "sample":
        messages = [{"role": "user", "content": {"type": "text", "text": "hello"}}]
        asked = {"messages": messages, "maxTokens": 10, "systemPrompt": "Be brief."}
        say(id="s", method="sampling/createMessage", params=asked)
        answer = hear()[1]
        said = answer.get("result", answer.get("error"))
        say(id=id, result=text(json.dumps(said)))
    else:
        say(id=id, error={"code": -32602, "message": f"no tool {name}"})


def main():
    if "late-start" in ASKED:
        sys.stderr.write(f"KeyError: 'API_TOKEN' {sys.argv[-1]}\n")
        sys.exit(1)
    while True:
        line, message = hear()
        id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if method == "initialize":
            said = {"protocolVersion": params["protocolVersion"], "capabilities": CAPABILITIES}
            say(id=id, result={**said, "serverInfo": {"name": "scripted", "version": "1"}})
        elif method == "tools/list":
            list_tools(id, params)
        elif method == "tools/call":
            call(id, params, line)
        elif method == "prompts/list" and "no-prompts" in ASKED:
            say(id=id, error={"code": -32603, "message": "the prompts are lost"})
        elif method in ("prompts/list", "resources/list"):
            say(id=id, result={method.partition("/")[0]: []})
        elif method == "resources/templates/list":
            say(id=id, result={"resourceTemplates": []})
        elif method == "org.example/echo":
            say(id=id, result={"params": params, "more": [1.5]})
        elif id is not None and method is not None:
            say(id=id, error={"code": -32601, "message": f"no {method}"})


main()
