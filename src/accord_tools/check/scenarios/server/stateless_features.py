"""Lists, resources, log messages and cache hints of servers without a handshake."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, get_args
from urllib.parse import quote, urlsplit

from accord.protocol import uri_template
from accord.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from accord.protocol.party import META_LOG_LEVEL
from accord.types import JsonObject, LoggingLevel
from accord_tools.check.probing.messages import Reply, params_of
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.probing.server_facts import ServerFacts, list_all
from accord_tools.check.probing.tool_calls import ToolCall
from accord_tools.check.scenarios._scenario import (
    LISTS,
    MISSING_URI,
    OWN,
    UNJUDGED,
    bare_scenario,
    call_all,
    harmless_method,
    is_alive,
    scenario,
)

# -- lists

_ANSWERS: Final = {name: f"{name}.list.answers-when-declared" for name in LISTS}
_FOR_ALL: Final = {name: f"{name}.list.not-per-connection" for name in LISTS}
_ORDER: Final = "tools.list.deterministic-order"
_KEYS: Final = {"tools": "name", "prompts": "name", "resources": "uri"}


@scenario(*_ANSWERS.values(), era="stateless", sends=(*LISTS.values(),))
async def lists_what_was_advertised(probe: Probe, connection: RawConnection) -> None:
    for name, method in LISTS.items():
        if not probe.facts.declares(name):
            probe.not_applicable(_ANSWERS[name], f"the server did not declare {name}")
            continue
        # Capabilities of the client do not decide what there is.
        choices: tuple[JsonObject | None, ...] = (None, {})
        for declared in choices:
            reply = await connection.ask(method, capabilities=declared)
            if reply.has_failed_inside:
                probe.skip(_ANSWERS[name], f"the server could not answer {method}: {reply}")
                continue
            why = f"declares {name}, and answers {method} with {reply}"
            is_list = isinstance(reply.result.get(name), list)
            probe.holds(_ANSWERS[name], is_list, why)


@scenario(_ORDER, needs="tools", era="stateless", sends=("tools/list",))
async def lists_the_tools_repeatedly(probe: Probe, connection: RawConnection) -> None:
    lists = [await _names(connection, "tools") for _ in range(4)]
    for before, after in pairwise(lists):
        is_same = sorted(before) != sorted(after) or before == after
        why = f"lists the same tools in another order: {before}, then {after}"
        probe.holds(_ORDER, is_same, why)


async def _names(connection: RawConnection, name: str) -> list[str]:
    entries = await list_all(connection, LISTS[name], name)
    return [str(each.get(_KEYS[name])) for each in entries]


def _has_no_lists(facts: ServerFacts) -> str | None:
    return None if any(map(facts.declares, LISTS)) else "the server has no lists"


@scenario(*_FOR_ALL.values(), opens=OWN, era="stateless", when=_has_no_lists, sends=("tools/call",))
async def lists_on_two_connections(probe: Probe, one: RawConnection) -> None:
    for name, id in _FOR_ALL.items():
        if not probe.facts.declares(name):
            probe.not_applicable(id, f"the server did not declare {name}")
    if not probe.target.command:
        # A launched server may keep what it was given in its own memory.
        await call_all(probe, one)
    async with probe.open() as other:
        for name in filter(probe.facts.declares, LISTS):
            seen = [sorted(await _names(each, name)) for each in (one, other, one, other)]
            is_stable = seen[0] == seen[2] and seen[1] == seen[3]
            if is_stable:
                missing = sorted({*seen[0]} ^ {*seen[1]})
                why = f"lists {', '.join(missing)} on one connection and not on another"
                probe.holds(_FOR_ALL[name], not missing, why)
            else:
                probe.skip(_FOR_ALL[name], f"the list of {name} changes by itself")


# -- tools and resources that do not exist

_UNKNOWN_TOOL: Final = "tools.errors.unknown-tool-32602"
_NOT_FOUND: Final = "resources.read.not-found-32602"
_NO_EMPTY: Final = "resources.read.no-empty-for-missing"
_INTERNAL: Final = "resources.read.internal-32603"
_READ: Final = "resources/read"
_ENTRIES: Final = 10
_OLD_NOT_FOUND: Final = -32002
# Codes that say something else, or nothing.
_MISLEADING: Final = (-32700, -32600, -32601, -32000, -1, 0, 1)


@scenario(_UNKNOWN_TOOL, needs="tools", era="stateless", sends=("tools/call",))
async def calls_tools_that_do_not_exist(probe: Probe, connection: RawConnection) -> None:
    for name in ("accord-check-no-such-tool", ""):
        reply = await connection.ask("tools/call", {"name": name, "arguments": {}})
        probe.expects(_UNKNOWN_TOOL, reply, INVALID_PARAMS, f"a call of the unknown tool {name!r}")


@scenario(_NOT_FOUND, _NO_EMPTY, needs="resources", era="stateless", sends=(_READ,))
async def reads_resources_that_do_not_exist(probe: Probe, connection: RawConnection) -> None:
    for uri in _missing_uris(probe):
        reply = await connection.ask(_READ, {"uri": uri})
        what = f"a read of {uri}, which it does not list,"
        if not reply.is_error:
            contents = reply.result.get("contents")
            is_empty = isinstance(contents, list) and not contents
            probe.holds(_NO_EMPTY, not is_empty, f"answers {what} with empty contents")
            if is_empty:
                probe.fail(_NOT_FOUND, f"answers {what} with {reply}, expected error -32602")
            continue
        probe.passes(_NO_EMPTY)
        # Only a URI with a scheme of the checker's own is certain not to exist.
        if uri == MISSING_URI or reply.code in (INVALID_PARAMS, _OLD_NOT_FOUND):
            probe.expects(_NOT_FOUND, reply, INVALID_PARAMS, what)
    probe.skip((_NOT_FOUND, _NO_EMPTY), "the server can read every URI")


def _missing_uris(probe: Probe) -> list[str]:
    """Return URIs of no resource: of an unknown scheme, and like those that are listed."""
    listed = [str(each.get("uri")) for each in probe.facts.resources]
    similar = [f"{uri}-accord-check-none" for uri in listed if urlsplit(uri).scheme]
    return [MISSING_URI, *(uri for uri in similar[:2] if uri not in listed)]


@scenario(_INTERNAL, needs="resources", era="stateless", sends=(_READ,))
async def reads_resources_that_may_fail(probe: Probe, connection: RawConnection) -> None:
    for resource in probe.facts.resources[:_ENTRIES]:
        reply = await connection.ask(_READ, {"uri": resource.get("uri")})
        if reply.code == INTERNAL_ERROR:
            probe.passes(_INTERNAL)
        elif reply.code in _MISLEADING:
            why = f"answers a read of {resource.get('uri')}, which it lists, with {reply}"
            probe.fail(_INTERNAL, f"{why}, expected error {INTERNAL_ERROR}")
    probe.skip(_INTERNAL, "no read of a listed resource fails")


_SANITISED: Final = "resources.file.sanitise-paths"
# A file that every Unix has and that no server means to serve.
_OUTSIDE: Final = Path("/etc/passwd")
_UP: Final = "../" * 12


@scenario(_SANITISED, opens=UNJUDGED, needs="resources", era="stateless")
async def reads_files_outside(probe: Probe, connection: RawConnection) -> None:
    tried = [*_ways_outside(probe)]
    if not tried or not _OUTSIDE.is_file():
        probe.skip(_SANITISED, "the server has no file:// resources")
        return
    secret = _OUTSIDE.read_text(errors="replace").strip()
    plain = await connection.ask(_READ, {"uri": _OUTSIDE.as_uri()})
    if _holds_text(plain, secret):
        probe.skip(_SANITISED, "the server serves the whole file system")
        return
    for uri in tried:
        reply = await connection.ask(_READ, {"uri": uri})
        why = f"reads {_OUTSIDE} for {uri}, although it refuses {_OUTSIDE.as_uri()}"
        probe.holds(_SANITISED, not _holds_text(reply, secret), why)


def _holds_text(reply: Reply, text: str) -> bool:
    contents = reply.result.get("contents")
    texts = [each.get("text") for each in contents or () if isinstance(each, dict)]
    return any(isinstance(each, str) and each.strip() == text for each in texts)


def _ways_outside(probe: Probe) -> Iterator[str]:
    """Return URIs that leave the folder of a file:// resource or template."""
    target = str(_OUTSIDE).lstrip("/")
    for resource in probe.facts.resources:
        uri = str(resource.get("uri"))
        if uri.startswith("file://"):
            folder = uri.rpartition("/")[0]
            yield f"{folder}/{_UP}{target}"
            yield f"{folder}/{quote(_UP + target, safe='')}"
            yield f"{folder}/{_UP.replace('.', '%2e')}{target}"
            break
    for template in probe.facts.templates:
        text = str(template.get("uriTemplate"))
        if text.startswith("file://"):
            try:
                parsed = uri_template.parse(text)
                yield parsed.expand(dict.fromkeys(parsed.variables, _UP + target))
            except ValueError:
                continue
            yield text.partition("{")[0] + _UP + target


# -- cache hints

_SAME_SCOPE: Final = "caching.scope.same-on-all-pages"
_PAGED: Final = {**LISTS, "resourceTemplates": "resources/templates/list"}
_PAGES: Final = 20
# Another one, or none, is reported as caching.scope.value or by caching.hints.
_SCOPES: Final = frozenset({"public", "private"})


@scenario(_SAME_SCOPE, era="stateless", when=_has_no_lists, sends=(*_PAGED.values(),))
async def compares_the_cache_scopes_of_pages(probe: Probe, connection: RawConnection) -> None:
    for name, method in _PAGED.items():
        if not probe.facts.declares("resources" if name == "resourceTemplates" else name):
            continue
        first: Any = None
        cursor: Any = None
        for number in range(_PAGES):
            reply = await connection.ask(method, {} if cursor is None else {"cursor": cursor})
            scope = reply.result.get("cacheScope")
            if number and {scope, first} <= _SCOPES:
                why = f"answers page {number + 1} of {method} with the cacheScope {scope!r}"
                probe.holds(_SAME_SCOPE, scope == first, f"{why}, and the first with {first!r}")
            first = scope if number == 0 else first
            cursor = reply.result.get("nextCursor")
            if not isinstance(cursor, str):
                break
    probe.skip(_SAME_SCOPE, "every list has one page")


# -- log messages

_LEVELS: Final[tuple[str, ...]] = get_args(LoggingLevel)
_RESPECTED: Final = "logging.level-respected"
_BAD_LEVEL: Final = "logging.bad-level-32602"
_DECLARED: Final = "logging.capability-declared"
_OF_MESSAGES: Final = (
    "logging.levels.rfc5424",
    "logging.message.method",
    "logging.message.level-and-data",
    "logging.message.logger-optional",
    "logging.own-stream-only",
)
_HEADER_MISMATCH: Final = -32020
_LOGS_NOTHING: Final = "the server logs nothing while its tools are called"


@bare_scenario(_RESPECTED, _DECLARED, *_OF_MESSAGES, era="stateless", sends=("tools/call",))
async def asks_for_log_messages_of_each_level(probe: Probe) -> None:
    async with probe.borrow() as connection:
        speaking: dict[str, ToolCall] = {}
        spoken: set[str] = set()
        for tool in probe.facts.callable_tools():
            found = await _call_with_level(probe, connection, tool, _LEVELS[0])
            spoken |= found.keys()
            if found:
                speaking[tool.name] = tool
        if spoken:
            why = "sends log messages, and does not declare logging"
            probe.holds(_DECLARED, probe.facts.declares("logging"), why)
            least = min(map(_LEVELS.index, spoken))
            for level in dict.fromkeys((*_LEVELS[least + 1 :][:1], _LEVELS[-1])):
                for tool in speaking.values():
                    found = await _call_with_level(probe, connection, tool, level)
                    _judge_levels(probe, connection, found, level)
    probe.skip((_RESPECTED, _DECLARED, *_OF_MESSAGES), _LOGS_NOTHING)


def _judge_levels(
    probe: Probe, connection: RawConnection, found: dict[str, JsonObject], level: str
) -> None:
    lesser = [each for each in _LEVELS[: _LEVELS.index(level)] if each in found][:1]
    why = f"logs at {''.join(lesser)} for a request that asked for {level}"
    evidence = connection.log.evidence_of(found[each] for each in lesser)
    probe.holds(_RESPECTED, not lesser, why, evidence=evidence)


async def _call_with_level(
    probe: Probe, connection: RawConnection, tool: ToolCall, level: str
) -> dict[str, JsonObject]:
    """Call a tool with this level; return one log message of each level that comes."""
    since = len(connection.received)
    await connection.ask("tools/call", tool.params | {"_meta": {META_LOG_LEVEL: level}})
    found: dict[str, JsonObject] = {}
    # They come before the answer: logging.own-stream-only.
    for each in connection.messages("notifications/message", since):
        name = params_of(each).get("level")
        if name in _LEVELS:
            found.setdefault(str(name), each)
    return found


@scenario(_BAD_LEVEL, opens=UNJUDGED, needs="logging", era="stateless")
async def asks_for_an_unknown_log_level(probe: Probe, connection: RawConnection) -> None:
    calls = [("tools/call", tool.params) for tool in probe.facts.callable_tools()[:1]]
    for method, params in [(harmless_method(probe.facts), {}), *calls]:
        for level in ("accord-check", "WARNING"):
            meta = {"_meta": {META_LOG_LEVEL: level}}
            reply = await connection.ask(method, params | meta)
            what = f"{method} with the log level {level!r}"
            if reply.code == _HEADER_MISMATCH:
                continue  # which headers a call needs is judged by http.param-headers
            probe.expects(_BAD_LEVEL, reply, INVALID_PARAMS, what)
    await is_alive(probe, connection, "unknown log levels")
