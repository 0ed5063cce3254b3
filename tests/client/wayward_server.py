"""A server in plain JSON lines, without the library, that misbehaves on request.

Its one argument, a JSON object, says how to behave from the start; the tools that are called say
what to do later. It records the messages that it receives.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

config = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
received = []
waiting = {}
lock = threading.Lock()

CAPABILITIES = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}
SLEEPER = "import signal, time; {} time.sleep(60)"
IGNORE = "signal.signal(signal.SIGTERM, signal.SIG_IGN);"


def put(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def answer(request, result):
    put({"id": request["id"], "result": result})


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], "isError": False, **more}


def initialize(request):
    asked = request["params"]["protocolVersion"]
    supported = config.get("supported")
    if supported is not None and asked not in supported:
        data = {"supported": supported, "requested": asked}
        error = {"code": -32602, "message": "Unsupported protocol version", "data": data}
        return put({"id": request["id"], "error": error})
    result = {
        "protocolVersion": config.get("version", asked),
        "capabilities": config.get("capabilities", CAPABILITIES),
        "serverInfo": {"name": "wayward", "version": "1"},
        "instructions": "be patient",
    }
    return answer(request, config.get("opening", result))


def tools_list(request):
    tools = config.get(
        "tools", [{"name": f"tool{n}", "inputSchema": {"type": "object"}} for n in range(5)]
    )
    page(request, "tools", tools)


def page(request, member, entries):
    cursor = request["params"].get("cursor")
    if config.get("endless"):
        following = "again" if config["endless"] == "same" else str(int(cursor or 0) + 1)
        return answer(request, {member: entries[:1], "nextCursor": following})
    start = int(cursor or 0)
    result = {member: entries[start : start + 2]}
    if start + 2 < len(entries):
        result["nextCursor"] = str(start + 2)
    return answer(request, result)


def call(request):
    arguments = request["params"].get("arguments") or {}
    TOOLS[request["params"]["name"]](request, **arguments)


def echo(request, **arguments):
    answer(request, text(json.dumps(arguments), structuredContent=arguments))


def give(request, result):
    answer(request, result)


def fail(request, **error):
    put({"id": request["id"], "error": error})


def late(request, seconds):
    threading.Timer(seconds, answer, [request, text("at last")]).start()


def advance(request, steps, pause=0.0, end=True):
    def run():
        token = request["params"]["_meta"]["progressToken"]
        for step in range(1, steps + 1):
            params = {
                "progressToken": token,
                "progress": step,
                "total": steps,
                "message": str(step),
            }
            put({"method": "notifications/progress", "params": params})
            time.sleep(pause)
        if end:
            answer(request, text("done"))

    threading.Thread(target=run, daemon=True).start()


def ask(request, method, params=None):
    id = f"question-{len(waiting)}"
    waiting[id] = request
    put({"id": id, "method": method, **({} if params is None else {"params": params})})


def ask_and_cancel(request, method, params):
    question = {"jsonrpc": "2.0", "id": "withdrawn", "method": method, "params": params}
    cancelled = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": "withdrawn"},
    }
    with lock:
        sys.stdout.write(json.dumps(question) + "\n" + json.dumps(cancelled) + "\n")
        sys.stdout.flush()
    answer(request, text("withdrawn"))


def answered(reply):
    request = waiting.pop(reply["id"])
    outcome = {key: reply[key] for key in ("result", "error") if key in reply}
    answer(request, text(json.dumps(outcome), structuredContent=outcome))


def tell(request, *, notices):
    for notice in notices:
        put(notice)
    answer(request, text("told"))


def raw(request, data):
    with lock:
        sys.stdout.write(data)
        sys.stdout.flush()
    answer(request, text("sent"))


def big(request, size):
    answer(request, text("x" * size))


def chat(request, size):
    for _ in range(size // 1000):
        sys.stderr.write("y" * 999 + "\n")
    sys.stderr.write("the last words\n")
    sys.stderr.flush()
    answer(request, text("said"))


def spawn(request, stubborn=False, quiet=True):
    sink = subprocess.DEVNULL if quiet else None
    command = [sys.executable, "-c", SLEEPER.format(IGNORE if stubborn else "")]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink)
    if stubborn:
        time.sleep(0.3)
    answer(request, text(str(child.pid)))


def leave(request, code=0, words="", wound=False):
    sys.stderr.write(words)
    sys.stderr.flush()
    if wound:
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(code)


def hush(request):
    os.close(1)
    time.sleep(60)


def environment(request):
    answer(request, text(json.dumps(dict(os.environ)), structuredContent=dict(os.environ)))


def folder(request):
    answer(request, text(os.getcwd()))


def history(request):
    answer(request, text("", structuredContent={"messages": received}))


def never(request, **_):
    pass


TOOLS = {
    "advance": advance,
    "ask": ask,
    "ask_and_cancel": ask_and_cancel,
    "big": big,
    "chat": chat,
    "echo": echo,
    "environment": environment,
    "fail": fail,
    "folder": folder,
    "give": give,
    "history": history,
    "hush": hush,
    "late": late,
    "leave": leave,
    "never": never,
    "raw": raw,
    "spawn": spawn,
    "tell": tell,
}


def read(request):
    uri = request["params"]["uri"]
    if uri == "note://none":
        error = {"code": -32002, "message": "no such resource", "data": {"uri": uri}}
        return put({"id": request["id"], "error": error})
    return answer(request, {"contents": [{"uri": uri, "text": "milk"}]})


def get_prompt(request):
    message = {"role": "user", "content": {"type": "text", "text": json.dumps(request["params"])}}
    answer(request, {"messages": [message]})


def complete(request):
    values = [json.dumps(request["params"])]
    answer(request, {"completion": {"values": values, "total": 1, "hasMore": False}})


def entries(member, **fields):
    return [{key: value.format(n) for key, value in fields.items()} for n in range(3)]


def unknown(request):
    if "exit_on_unknown" in config:
        os._exit(config["exit_on_unknown"])
    if not config.get("ignore_unknown"):
        put({"id": request["id"], "error": {"code": -32601, "message": "unknown method"}})


METHODS = {
    "initialize": initialize,
    "ping": lambda request: answer(request, {}),
    "tools/list": tools_list,
    "tools/call": call,
    "resources/list": lambda request: page(
        request, "resources", entries("resources", uri="note://{}", name="note {}")
    ),
    "resources/templates/list": lambda request: page(
        request, "resourceTemplates", entries("t", uriTemplate="note://{{name}}/{}", name="n{}")
    ),
    "resources/read": read,
    "resources/subscribe": lambda request: answer(request, {}),
    "resources/unsubscribe": lambda request: answer(request, {}),
    "prompts/list": lambda request: page(request, "prompts", entries("prompts", name="prompt{}")),
    "prompts/get": get_prompt,
    "completion/complete": complete,
    "logging/setLevel": lambda request: answer(request, {}),
}


def start():
    if "pid_file" in config:
        with open(config["pid_file"], "w") as file:
            file.write(str(os.getpid()))
    for line in config.get("stderr", []):
        print(line, file=sys.stderr, flush=True)
    for line in config.get("stdout", []):
        print(line, flush=True)
    if "exit" in config:
        sys.exit(config["exit"])
    if config.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if config.get("silent"):
        time.sleep(60)


def main():
    start()
    if config.get("unread"):
        time.sleep(config["unread"])
    for line in sys.stdin:
        message = json.loads(line)
        received.append(message)
        if "method" not in message:
            if message["id"] in waiting:
                answered(message)
        elif "id" in message:
            METHODS.get(message["method"], unknown)(message)
    if config.get("stays"):
        time.sleep(60)
    if "goodbye" in config:
        with open(config["goodbye"], "w") as file:
            file.write("goodbye")


main()
