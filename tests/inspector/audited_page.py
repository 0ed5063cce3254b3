"""Serves a page, sends hostile params to every action, and prints what the process did meanwhile.

Arguments: the command of the server. The output is JSON: the events that Python's audit hooks saw,
and how often each status was answered.
"""

import asyncio
import json
import os
import socket
import sys
from collections import Counter
from itertools import product
from typing import Any

import msgspec

from accord.client.server_spec import ServerSpec
from accord_tools.inspector.actions import Action, load_actions
from accord_tools.inspector.inspection import Inspection
from support.page_client import PageClient, page_of

# Each would leave a file, launch a program, import a module or reach a host, if it were used.
HOSTILE = (
    "evil_payload",
    "evil_payload:server",
    "$(touch stolen)",
    "../../stolen.jsonl",
    "http://127.0.0.1:9/evil?code=1&state=2",
)
EXTRA = {
    "command": ["touch", "stolen"],
    "args": ["stolen"],
    "cwd": "/",
    "env": {"PATH": "."},
    "module": "evil_payload",
    "path": "stolen",
    "file": "stolen",
    "record": "stolen",
    "history": "stolen",
    "url": HOSTILE[-1],
    "title": "x",
    "transport": "http",
}
WATCHED = (
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork"),
    *("os.remove", "os.rename", "os.mkdir", "os.symlink", "os.link", "os.chmod", "os.putenv"),
    *("import", "open", "socket.connect", "sqlite3.connect", "ctypes.dlopen", "webbrowser.open"),
)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Audit:
    """Collects the events that matter, once it is armed."""

    def __init__(self) -> None:
        self.is_armed = False
        self.events: list[list[Any]] = []
        sys.addaudithook(self._take)

    def _take(self, event: str, args: Any) -> None:
        if not self.is_armed or not event.startswith(WATCHED):
            return
        if event == "open":
            _, mode, flags = args
            is_writing = any(each in (mode or "") for each in "wax+") or (flags or 0) & WRITING
            # Numbers are files that are open already.
            if not is_writing or args[0] == os.devnull or isinstance(args[0], int):
                return
        if event == "socket.connect":
            args = args[1:]
        self.events.append([event, [repr(each) for each in args]])


def invent(kind: Any, text: str) -> Any:
    """Return a value that a type accepts, with hostile texts."""
    match kind:
        case msgspec.inspect.StrType():
            return text
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            return 1
        case msgspec.inspect.BoolType():
            return True
        case msgspec.inspect.LiteralType():
            return kind.values[len(text) % len(kind.values)]
        case msgspec.inspect.ListType() | msgspec.inspect.VarTupleType():
            return [invent(kind.item_type, text)]
        case msgspec.inspect.TupleType():
            return [invent(each, text) for each in kind.item_types]
        case msgspec.inspect.DictType():
            return {text: invent(kind.value_type, text)}
        case msgspec.inspect.UnionType():
            return invent(kind.types[-1 if len(text) % 2 else 0], text)
        case msgspec.inspect.StructType():
            return {each.encode_name: invent(each.type, text) for each in kind.fields}
    return None


async def attack(page: PageClient, action: Action, answers: Counter[str]) -> None:
    params = msgspec.inspect.type_info(action.params)
    for target, text in [*product((0, 1), HOSTILE), (-1, HOSTILE[0])]:
        given = {**EXTRA, **invent(params, text), "target": target}
        if action.name == "check.start":
            given["revisions"] = []
        answer = await page.call(action.name, **given)
        answers[f"{answer.status}"] += 1
        assert answer.status in (200, 422), (action.name, given, answer)


async def main(command: list[str]) -> None:
    # Otherwise the first import of a module writes its compiled form.
    sys.dont_write_bytecode = True
    audit = Audit()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    answers: Counter[str] = Counter()
    inspection = Inspection()
    async with page_of(inspection) as page:
        inspection.add(ServerSpec(name="launched", command=command, timeout=5))
        inspection.add(ServerSpec(name="reached", url=f"http://127.0.0.1:{port}/mcp", timeout=5))
        while (await page.call("session.get", target=0)).json["state"] != "ready":
            await asyncio.sleep(0.02)
        actions = load_actions()
        # Launches and waits on purpose, which the other tests of it show.
        left_out = {"revisions.run", "session.restart", "session.connect", "session.disconnect"}
        audit.is_armed = True
        for name in sorted(actions.keys() - left_out):
            await attack(page, actions[name], answers)
        for name in sorted(left_out):
            answer = await page.call(name, **EXTRA, target=0)
            assert answer.status in (200, 422), (name, answer)
        audit.is_armed = False
    events = [each for each in audit.events if each[1] != [repr(("127.0.0.1", page.port))]]
    print(json.dumps({"events": events, "answers": answers, "port": port}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
