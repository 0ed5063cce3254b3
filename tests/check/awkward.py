"""A small server over stdio with one bad habit, named on its command line; starts at once.

It uses nothing but the standard library, so that launching it hundreds of times is cheap.
"""

import json
import os
import signal
import sys
import time

HABIT = sys.argv[1] if len(sys.argv) > 1 else "none"
NOTICE = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
CALLS = []
TOOL = {
    "name": "get_time",
    "description": "Tell the time.",
    "inputSchema": {"type": "object", "properties": {}},
}


def write(text, stream=sys.stdout):
    stream.write(text)
    stream.flush()


def leave(number, frame):
    write("leaving\n", sys.stderr)
    os._exit(0)


def answer(message):
    method, params = message.get("method"), message.get("params")
    params = params if isinstance(params, dict) else {}
    if method == "initialize":
        if not isinstance(params.get("protocolVersion"), str):
            return {"error": {"code": -32602, "message": "protocolVersion is missing"}}
        known = ("2024-11-05", "2025-03-26", "2025-06-18")
        version = params["protocolVersion"]
        return {
            "result": {
                "protocolVersion": version if version in known else known[-1],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "awkward", "version": "1"},
            }
        }
    if method == "ping":
        return {"result": {}}
    if method == "tools/list":
        return {"result": {"tools": [TOOL]}}
    if method == "tools/call":
        CALLS.append(params)
        if params.get("name") != TOOL["name"]:
            return {"error": {"code": -32602, "message": "there is no such tool"}}
        return {"result": {"content": [{"type": "text", "text": "noon"}], "isError": False}}
    return {"error": {"code": -32601, "message": "there is no such method"}}


def reply(message):
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no request"}}
    if "method" in message and "id" not in message:
        return None
    if not isinstance(message.get("method"), str) or not isinstance(message["id"], str | int):
        if "result" in message or "error" in message:
            return None
        return {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no request"}}
    return {"jsonrpc": "2.0", "id": message["id"], **answer(message)}


def at_start():
    if HABIT == "exits":
        write("no configuration\n", sys.stderr)
        sys.exit(1)
    if HABIT == "hangs":
        time.sleep(60)
    if HABIT == "banner":
        write("awkward server is ready\n")
    if HABIT == "garbage":
        sys.stdout.buffer.write(b"\x00\xff\xfe garbage \n{]\n")
        sys.stdout.flush()
    while HABIT == "floods":
        write(json.dumps(NOTICE) + "\n")
    while HABIT == "endless line":
        write("x" * 65536)
    if HABIT != "default signals":
        signal.signal(signal.SIGTERM, leave)
        signal.signal(signal.SIGINT, leave)
    if HABIT == "fails at signals":
        signal.signal(signal.SIGTERM, lambda number, frame: os._exit(1))
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(130))
    if HABIT == "knows one signal":
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if HABIT in ("ignores signals", "survives signals"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def at_opening():
    if HABIT == "joins messages":
        write(json.dumps(NOTICE) + json.dumps(NOTICE) + "\n")
    if HABIT == "joins messages by commas":
        write(json.dumps(NOTICE) + "," + json.dumps(NOTICE) + "\n")
    if HABIT == "separates records":
        write("\x1e" + json.dumps(NOTICE) + "\x1e" + json.dumps(NOTICE) + "\n")
    if HABIT == "breaks a text":
        notice = NOTICE | {"params": {"_meta": {"org.example/note": "one@two"}}}
        write(json.dumps(notice).replace("@", "\n") + "\n")
    if HABIT == "spreads messages":
        write(json.dumps(NOTICE, indent=2) + "\n")
    if HABIT == "crashes":
        sys.exit("out of memory")


def at_end():
    if HABIT == "farewell":
        write("good bye\n")
    while HABIT == "reads on" and not sys.stdin.buffer.readline():
        time.sleep(0.01)
    if HABIT in ("stays", "ignores signals") or (HABIT == "stays if it was busy" and CALLS):
        time.sleep(60)


def respond(message):
    answers = [reply(each) for each in message] if isinstance(message, list) else [reply(message)]
    answers = [each for each in answers if each is not None]
    if not answers:
        return
    out = sys.stderr if HABIT == "speaks on stderr" else sys.stdout
    if HABIT == "spreads an answer" and "tools" in answers[0].get("result", ()):
        write(json.dumps(answers[0], indent=1) + "\n")
        return
    if HABIT == "spreads a list of texts" and "tools" in answers[0].get("result", ()):
        for tool in answers[0]["result"]["tools"]:
            tool["_meta"] = {"org.example/words": ["one", "two"] * 150}
        write(json.dumps(answers[0], indent=1) + "\n")
        return
    write(json.dumps(answers if isinstance(message, list) else answers[0]) + "\n", out)


def main():
    at_start()
    for line in sys.stdin.buffer:
        try:
            message = json.loads(line.decode())
        except ValueError:
            error = {"code": -32700, "message": "no JSON"}
            write(json.dumps({"jsonrpc": "2.0", "id": None, "error": error}) + "\n")
            continue
        if isinstance(message, list) and (not message or HABIT == "no batches"):
            message = 7
        respond(message)
        if isinstance(message, dict) and message.get("method") == "notifications/initialized":
            at_opening()
    at_end()


main()
