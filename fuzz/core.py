"""Long-running search for input that the core does not survive.

    python fuzz/core.py --seconds 60 --seed 7     random mutations of a small corpus
    python fuzz/core.py --guided                  led by coverage; needs atheris
    python fuzz/core.py --repeat FILE             run one saved case again

A case is a conversation: messages of either party, fed to the codec, to both endpoints, to a
monitor and to the reader of recordings. The first exception that is not the documented error, the
first reply that is not a message, or a case that takes seconds, ends the search: the case is made
smaller, saved and reported. Exit codes: 0 nothing found, 1 found, 2 could not be run.
"""

import io
import json
import random
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import search
from msgspec.structs import replace
from search import Mutation, SavedCase, Search, cut, flip, insert, repeat_part, shorten, splice

from accord.errors import InternalError, TraceError
from accord.protocol.codec import Codec
from accord.protocol.endpoint import Endpoint
from accord.protocol.exchange import RequestReceived
from accord.protocol.jsonrpc import MalformedMessage
from accord.protocol.monitor import Monitor
from accord.protocol.revisions import METHODS, REVISIONS
from accord.trace import Record, read

# Far above what any message of this size needs, far below what a quadratic loop takes.
SLOW_SECONDS = 5.0
META = "io.modelcontextprotocol/"
INFO = {"name": "fuzz", "version": "1"}
MODERN = {
    f"{META}protocolVersion": "2026-07-28",
    f"{META}clientCapabilities": {},
    f"{META}clientInfo": INFO,
}
INTERESTING: list[Any] = [
    None, True, False, 0, 1, -1, 1.5, 1.0, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, 1e308, -0.0,
    "", "a", "1", "\0", "é", "\U0001f600", "2.0", "x" * 300, [], [[]], [None], {}, {"": {}},
    "2024-11-05", "2025-03-26", "2025-11-25", "2026-07-28", "initialize", "ping", MODERN,
]  # fmt: skip
SCRAPS = [
    b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\0", b"\\ud800", b"\\u0000", b"NaN", b"1e400",
    b"9" * 5_000, b"[" * 200, b'{"a":' * 200, b'"', b"\\", b"\n", b"[]", b"{}", b"null", b",",
]  # fmt: skip


class Case(SavedCase):
    """One conversation: its messages with their senders, and whether a handshake precedes them."""

    revision: str
    opened: bool
    messages: list[tuple[str, bytes]]


# -- running a case


def run(case: Case, *, thorough: bool = True) -> None:
    """Feed a case to everything that takes input; raises what ought not to be raised."""
    before = opening(case.revision) if case.opened else []
    endpoints = {"client": Endpoint("client", request_meta=MODERN), "server": Endpoint("server")}
    if case.opened:
        _open(endpoints, case.revision)
    monitors = [Monitor(), Monitor(revision=case.revision)]  # type: ignore[arg-type]
    started = time.monotonic()
    for number, (sender, data) in enumerate([*before, *case.messages]):
        if number >= len(before):
            _decode(data)
            _receive(endpoints["server" if sender == "client" else "client"], data)
        for monitor in monitors:
            for record in _records(sender, data, number):
                monitor.observe(record)
    for monitor in monitors:
        monitor.close()
        if thorough:
            monitor.verdicts()
    _read(b"\n".join(data for _, data in case.messages))
    if time.monotonic() - started > SLOW_SECONDS:
        raise TimeoutError(f"took more than {SLOW_SECONDS} s")


def _decode(data: bytes) -> None:
    with suppress(MalformedMessage):
        Codec().decode(data)


def _receive(endpoint: Endpoint, data: bytes) -> None:
    for event in endpoint.receive(data):
        replies = [getattr(event, "reply", None)]
        if isinstance(event, RequestReceived) and event.exchange.name != "initialize":
            replies.append(endpoint.fail(event.exchange, InternalError("no")))
        for reply in filter(None, replies):
            Codec().decode(reply)


def _records(sender: Any, data: bytes, number: int) -> list[Record]:
    t = 100.0 * number
    records = [Record(sender=sender, raw=data.decode(errors="surrogateescape"), t=t, number=number)]
    if data:
        records.append(Record(sender=sender, message=msgspec.Raw(data), t=t, number=number))
    return records


def _read(data: bytes) -> None:
    for text in (data, b'{"from":"client","message":%b}' % data):
        with suppress(TraceError):
            for _ in read(io.BytesIO(text), line_limit=100_000):
                pass


def _open(endpoints: dict[str, Endpoint], revision: str) -> None:
    from accord import types as t

    info = t.Implementation("fuzz", "1")
    client = t.ClientCapabilities(roots=t.RootsCapability(), sampling=t.SamplingCapability())
    server = t.ServerCapabilities(tools=t.ToolsCapability(), prompts=t.PromptsCapability())
    _, data = endpoints["client"].request("initialize", t.InitializeParams(revision, client, info))
    (event,) = endpoints["server"].receive(data)
    assert isinstance(event, RequestReceived)
    answer = endpoints["server"].respond(event.exchange, t.InitializeResult(revision, server, info))
    assert answer is not None
    endpoints["client"].receive(answer)
    endpoints["server"].receive(endpoints["client"].notify("notifications/initialized"))
    for _ in range(3):
        endpoints["client"].request("tools/list")
        endpoints["server"].request("roots/list")


# -- making cases


def message(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def opening(revision: str) -> list[tuple[str, bytes]]:
    ask = {"protocolVersion": revision, "capabilities": {"roots": {}}, "clientInfo": INFO}
    answer = {"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": INFO}
    return [
        ("client", message(id="open", method="initialize", params=ask)),
        ("server", message(id="open", result=answer)),
        ("client", message(method="notifications/initialized")),
    ]


def corpus() -> list[bytes]:
    """Messages from which all others are made."""
    everything = {
        "name": "add",
        "arguments": {"a": 1},
        "uri": "file:///a",
        "cursor": "c",
        "level": "info",
        "data": {"a": 1},
        "requestId": 0,
        "reason": "r",
        "progressToken": "t",
        "progress": 1,
        "taskId": "t",
        "ref": {"type": "ref/prompt", "name": "p"},
        "argument": {"name": "a", "value": "b"},
        "messages": [{"role": "user", "content": {"type": "text", "text": "x"}}],
        "maxTokens": 5,
        "message": "m",
        "requestedSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
        "notifications": {"toolsListChanged": True},
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "clientInfo": INFO,
    }
    found = [
        data
        for method in METHODS
        for params in (everything, {**everything, "_meta": {**MODERN, "progressToken": "t"}})
        for data in (
            message(id=7, method=method.name, params=params),
            message(method=method.name, params=params),
        )
    ]
    tool = {"name": "add", "description": "d", "inputSchema": {"type": "object"}}
    results: list[dict[str, Any]] = [
        {},
        {"tools": [tool], "nextCursor": "c"},
        {"content": [{"type": "text", "text": "x"}], "isError": False, "structuredContent": {}},
        {"resources": [{"uri": "file:///a", "name": "a"}]},
        {"contents": [{"uri": "file:///a", "text": "x"}]},
        {"prompts": [{"name": "p", "arguments": [{"name": "a"}]}]},
        {"roots": [{"uri": "file:///a"}]},
        {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"},
        {"action": "accept", "content": {"a": "b"}},
        {"resultType": "input_required", "inputRequests": {"a": {"method": "roots/list"}}},
        {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": INFO},
        {"task": {"taskId": "t", "status": "working", "createdAt": "x", "ttl": None}},
    ]
    found += [message(id=id, result=result) for id in (0, 1, "open") for result in results]
    found += [message(id=id, error={"code": -32603, "message": "m"}) for id in (0, None)]
    found.append(b"[%b,%b]" % (found[0], found[-1]))
    return found


def mutated(data: bytes, seeds: list[bytes], dice: random.Random) -> bytes:
    for _ in range(dice.choice((0, 1, 1, 1, 2, 3))):
        data = dice.choice(MUTATIONS)(data, seeds, dice)
    return data[:100_000]


def _gather(data: bytes, seeds: list[bytes], dice: random.Random) -> bytes:
    return b"[%b]" % b",".join([data, *dice.choices(seeds, k=dice.randrange(4))])


def _reshape(data: bytes, seeds: list[bytes], dice: random.Random) -> bytes:
    """Change the JSON value rather than its text."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return data
    places = list(_places(value))
    if not places:
        return data
    holder, key = dice.choice(places)
    action = dice.randrange(6)
    if action == 0:
        del holder[key]
    elif action == 1 and isinstance(holder, dict):
        holder[dice.choice(("id", "method", "params", "_meta", "", "x"))] = holder.pop(key)
    elif action == 2:
        holder[key] = [holder[key]] * dice.choice((1, 2, 3))
    elif action == 3:
        other, name = dice.choice(list(_places(json.loads(dice.choice(seeds)))))
        holder[key] = other[name]
    elif action == 4:
        holder[key] = {"a": holder[key]}
    else:
        holder[key] = dice.choice(INTERESTING)
    return json.dumps(value).encode()


def _places(value: Any, depth: int = 0) -> Any:
    if depth > 20:
        return
    keys = (
        list(value)
        if isinstance(value, dict)
        else range(len(value))
        if isinstance(value, list)
        else ()
    )
    for key in keys:
        yield value, key
        yield from _places(value[key], depth + 1)


MUTATIONS: list[Mutation] = [
    flip, cut, repeat_part, insert(SCRAPS), splice, _gather, *[_reshape] * 6,
]  # fmt: skip


def random_case(seeds: list[bytes], dice: random.Random) -> Case:
    handshake = [row.id for row in REVISIONS.values() if row.handshake]
    opened = dice.random() < 0.6
    revision = dice.choice(handshake if opened else list(REVISIONS))
    messages = [
        (dice.choice(("client", "server")), mutated(dice.choice(seeds), seeds, dice))
        for _ in range(dice.choice((1, 2, 3, 6)))
    ]
    return Case(revision, opened, messages)


def case_from_bytes(data: bytes) -> Case:
    """Read a case from bytes that another tool mutates: a line is a message."""
    choice = data[0] if data else 0
    handshake = [row.id for row in REVISIONS.values() if row.handshake]
    opened = bool(choice & 1)
    revisions = handshake if opened else list(REVISIONS)
    messages = [
        ("client" if number % 2 == 0 else "server", line)
        for number, line in enumerate(data[1:].split(b"\n"))
    ]
    return Case(revisions[(choice >> 1) % len(revisions)], opened, messages)


# -- the search


def failure_of(case: Case, *, thorough: bool = True) -> str | None:
    return search.failure_of(run, case, thorough=thorough)


def smaller(case: Case) -> Case:
    def fails(messages: list[tuple[str, bytes]]) -> bool:
        return failure_of(replace(case, messages=messages)) is not None

    return replace(case, messages=shorten(case.messages, fails))


def make_search() -> Search[Case]:
    seeds = corpus()
    return Search(
        "core",
        Case,
        make=lambda dice: random_case(seeds, dice),
        # Verdicts take longer than all else together.
        attempt=lambda case, number: failure_of(case, thorough=number % 50 == 0),
        alone=failure_of,
        smaller=smaller,
    )


def guided(folder: Path, arguments: list[str]) -> int:
    try:
        import atheris
    except ImportError:
        print("--guided needs atheris: pip install atheris", file=sys.stderr)
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(corpus()):
        (folder / f"seed-{number}").write_bytes(bytes([number % 8]) + data)
    atheris.instrument_all()

    def one(data: bytes) -> None:
        case = case_from_bytes(data)
        if (why := failure_of(case)) is not None:
            make_search().report(case, folder, "guided", why)
            raise SystemExit(1)

    atheris.Setup([sys.argv[0], str(folder), *arguments], one)
    atheris.Fuzz()
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = search.parser("search for input that the core does not survive")
    parser.add_argument("--guided", action="store_true", help="let coverage lead, with atheris")
    given, rest = parser.parse_known_args(arguments)
    if given.guided:
        return guided(given.folder, rest)
    if rest:
        parser.error(f"unknown arguments: {' '.join(rest)}")
    return make_search().run(given)


if __name__ == "__main__":
    sys.exit(main())
