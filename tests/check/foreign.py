"""A server over stdio that behaves like one found in use, named on its command line.

Nothing that it does is against the protocol, unless its test says so. It uses nothing but the
standard library, so that it starts at once.
"""

import fcntl
import json
import os
import signal
import sys
import threading
import time

KIND, *GIVEN = sys.argv[1:]
KNOWN = ("2024-11-05", "2025-03-26", "2025-06-18")
LOCK = threading.Lock()
WAITING = []
COUNTS = {}
CLIENT = {}
NAMES = {"asks first": ("get_page", "find_page"), "late": ("get_time", "search_users")}
TOOLS = [
    {"name": name, "description": name, "inputSchema": {"type": "object"}}
    for name in NAMES.get(KIND, ("get_time",))
]
RESULT = {"content": [{"type": "text", "text": "noon"}], "isError": False}
CAPABILITIES = {"tools": {}} | (
    {"resources": {}} if KIND in ("no reading", "late", "other codes") else {}
)


def send(message):
    with LOCK:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def result(id, value):
    return {"jsonrpc": "2.0", "id": id, "result": value}


def error(id, code, text):
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}


def opened(id, params):
    asked = params.get("protocolVersion")
    CLIENT.update(params.get("capabilities") or {})
    if not isinstance(asked, str):
        return error(id, -32602, "protocolVersion is missing")
    known = ("2025-03-26",) if KIND == "one revision" else KNOWN
    return result(
        id,
        {
            "protocolVersion": asked if asked in known else known[-1],
            "capabilities": CAPABILITIES,
            "serverInfo": {"name": "foreign", "version": "1"},
        },
    )


def later(answer):
    # The first answer is quick; the next ones wait for something unavailable.
    threading.Timer(float(GIVEN[0]), send, [answer]).start()


def call(id, params):
    name = params.get("name")
    if name not in [tool["name"] for tool in TOOLS]:
        return error(id, -32602, "there is no such tool")
    COUNTS[name] = COUNTS.get(name, 0) + 1
    if KIND == "asks first" and CLIENT.get("roots"):
        # One request at a time, and no call continues without its answer.
        WAITING.append(id)
        if len(WAITING) == 1:
            send({"jsonrpc": "2.0", "id": f"roots-{id}", "method": "roots/list"})
        return None
    if name == "search_users" and COUNTS[name] > 1:
        if GIVEN[0] != "never":
            later(result(id, RESULT))
        return None
    return result(id, RESULT)


def read(id, params):
    if "uri" not in params:
        return error(id, -32602, "uri is missing")
    if params["uri"] != "note://one":
        return error(id, -32002, "there is no such resource")
    answer = result(id, {"contents": [{"uri": "note://one", "text": "one"}]})
    if GIVEN[0] != "never":
        later(answer)
    return None


def answer(message):
    id, method = message["id"], message["method"]
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    if KIND == "modern":
        if method == "server/discover" and GIVEN == ["discover"]:
            return result(id, {"supportedVersions": ["2026-07-28"], "capabilities": {}})
        refusal = error(id, -32601 if GIVEN == ["discover"] else -32022, "Unsupported")
        if GIVEN != ["discover"]:
            refusal["error"]["data"] = {"supported": ["2026-07-28"], "requested": "x"}
        return refusal
    if method == "initialize":
        return opened(id, params)
    if method == "ping":
        # Without its database it ends before it could answer.
        return None if KIND == "no database" else result(id, {})
    if method == "tools/list":
        return result(id, {"tools": TOOLS})
    if method == "tools/call":
        return call(id, params)
    if KIND == "late" and method == "resources/list":
        return result(id, {"resources": [{"uri": "note://one", "name": "one"}]})
    if KIND == "late" and method == "resources/templates/list":
        return result(id, {"resourceTemplates": []})
    if KIND == "late" and method == "resources/read":
        return read(id, params)
    if KIND == "other codes" and method == "resources/list":
        return result(id, {"resources": []})
    return error(id, 0 if KIND == "other codes" else -32601, "there is no such method")


def reply(message):
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return error(None, -32600, "no request")
    if "method" not in message and ("result" in message or "error" in message):
        answer_waiting(message)
        return None
    if "method" in message and "id" not in message:
        return None
    if not isinstance(message.get("method"), str) or not isinstance(message["id"], str | int):
        return error(None, -32600, "no request")
    return answer(message)


def answer_waiting(message):
    if str(message.get("id")).startswith("roots"):
        for id in WAITING:
            send(result(id, RESULT))
        WAITING.clear()


def reply_to_batch(messages):
    is_known = all("method" not in each or "unknown" not in each["method"] for each in messages)
    if is_known:
        answers = [each for each in map(reply, messages) if each is not None]
        if answers:
            send(answers)


def start():
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    if KIND in ("one port", "one lock"):
        held = open(GIVEN[0], "w")  # noqa: SIM115 - the lock is held as long as it is open
        # A file stands for the port: no other program can take it. Of a port a second copy dies,
        # for a lock it waits, and says nothing.
        at_once = fcntl.LOCK_NB if KIND == "one port" else 0
        try:
            fcntl.flock(held, fcntl.LOCK_EX | at_once)
        except OSError:
            sys.exit("listen: Address already in use")
        return held
    if KIND == "slow copies":
        with open(GIVEN[0], "a") as launches:
            launches.write("x")
            launches.flush()
            if launches.tell() > 2:
                time.sleep(60)
    if KIND == "no database":
        threading.Timer(float(GIVEN[0]), os._exit, [1]).start()
    if KIND == "deaf":
        for _ in sys.stdin:
            pass
        sys.exit()
    return None


def main():
    held = start()
    for line in sys.stdin.buffer:
        try:
            message = json.loads(line.decode())
        except ValueError:
            send(error(None, -32700, "no JSON"))
            continue
        if KIND == "ends at 1.0" and isinstance(message, dict) and message.get("jsonrpc") == "1.0":
            # It answers nothing more, and ends after a while.
            time.sleep(float(GIVEN[0]))
            os._exit(1)
        if isinstance(message, list) and message:
            reply_to_batch(message)
        elif (said := reply([] if isinstance(message, list) else message)) is not None:
            send(said)
    del held
    os._exit(0)


main()
