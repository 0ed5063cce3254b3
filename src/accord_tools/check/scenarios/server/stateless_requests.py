"""Stateless requests: discovery, versions, `_meta`, and nothing from before.

Also what servers without a handshake offer: lists, resources, log messages and cache hints.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, get_args
from urllib.parse import quote, urlsplit

import msgspec

from accord.protocol import uri_template
from accord.protocol.exchange import META_CAPABILITIES, META_VERSION, meta_of
from accord.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from accord.protocol.party import META_CLIENT, META_LOG_LEVEL
from accord.protocol.revisions import HANDSHAKE
from accord.types import JsonObject, LoggingLevel
from accord_tools.check.probing.messages import Reply, initialize_params, new_request, params_of
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import MessageTimeout, RawConnection
from accord_tools.check.probing.server_facts import ServerFacts, list_all
from accord_tools.check.probing.tool_calls import ToolCall
from accord_tools.check.scenarios._scenario import (
    INITIALIZED,
    LISTS,
    MISSING_URI,
    OWN,
    OWN_UNJUDGED,
    UNINITIALIZED_UNJUDGED,
    UNJUDGED,
    bare_scenario,
    call_all,
    harmless_method,
    is_alive,
    lacks_lists,
    scenario,
)
from accord_tools.check.scenarios.server.asked_rounds import ask_exactly

_DISCOVER: Final = "server/discover"

# -- discovery

_IMPLEMENTED: Final = "discover.implemented"
_LISTS_VERSION: Final = "discover.result.lists-request-version"
_MATCHES: Final = "discover.capability-matches-methods"
_UNADVERTISED: Final = "discover.unadvertised-method-not-found"
_PROMPTS: Final = "prompts.declared-in-discover"


@scenario(_IMPLEMENTED, _LISTS_VERSION, era="stateless", sends=(_DISCOVER,))
async def discovers_in_several_ways(probe: Probe, connection: RawConnection) -> None:
    await connection.ask(harmless_method(probe.facts))
    least: JsonObject = {META_VERSION: probe.revision, META_CAPABILITIES: {}}
    for what, params in {
        "a further time": None,
        "without clientInfo, which is optional": {"_meta": least},
    }.items():
        message = connection.request(_DISCOVER) if params is None else _bare(_DISCOVER, params)
        reply = await ask_exactly(connection, message)
        why = f"answers {_DISCOVER}, sent {what}, with {reply}"
        if not probe.holds(_IMPLEMENTED, not reply.is_error, why):
            continue
        listed = reply.result.get("supportedVersions")
        is_listed = isinstance(listed, list) and probe.revision in listed
        why = f"answers under {probe.revision} that it supports {listed}"
        probe.holds(_LISTS_VERSION, is_listed, why)


def _bare(method: str, params: object) -> JsonObject:
    """Return a request whose `_meta` is sent as it is."""
    return new_request(method, params)


# For each capability: a request that changes nothing, and the member that shows that it is there.
_OF_CAPABILITIES: Final[dict[str, tuple[str, JsonObject, str]]] = {
    "tools": ("tools/list", {}, "tools"),
    "resources": ("resources/list", {}, "resources"),
    "prompts": ("prompts/list", {}, "prompts"),
    "completions": (
        "completion/complete",
        {
            "ref": {"type": "ref/prompt", "name": "accord-check-no-such-prompt"},
            "argument": {"name": "accord-check", "value": ""},
        },
        "completion",
    ),
}


def _is_hidden(facts: ServerFacts) -> str | None:
    return None if facts.opening else "the server does not answer server/discover"


@scenario(_MATCHES, _UNADVERTISED, _PROMPTS, opens=UNJUDGED, era="stateless", when=_is_hidden)
async def asks_for_what_was_not_advertised(probe: Probe, connection: RawConnection) -> None:
    for name, (method, params, member) in _OF_CAPABILITIES.items():
        if probe.facts.declares(name):
            probe.passes(_MATCHES, *([_PROMPTS] if name == "prompts" else ()))
            continue
        reply = await connection.ask(method, params)
        if reply.result.get(member):
            why = f"answers {method} with {reply}, and does not advertise {name}"
            probe.fail(_MATCHES, why)
            if name == "prompts":
                probe.fail(_PROMPTS, why)
            probe.skip(_UNADVERTISED, f"the breach is reported as {_MATCHES}")
        else:
            what = f"{method}, whose capability it does not advertise,"
            probe.expects(_UNADVERTISED, reply, METHOD_NOT_FOUND, what)
    probe.skip(_UNADVERTISED, "the server advertises every capability")
    probe.not_applicable(_PROMPTS, "the server has no prompts")


# -- versions

_CODE: Final = "versioning.unsupported.error-code"
_DATA: Final = "versioning.unsupported.data-supported"
_UNSUPPORTED: Final = -32022
# Older and newer than every revision, and no date at all.
_UNKNOWN_VERSIONS: Final = ("1999-12-31", "2999-12-31", "accord-check")


@scenario(_CODE, _DATA, opens=UNJUDGED, era="stateless")
async def names_versions_that_do_not_exist(probe: Probe, connection: RawConnection) -> None:
    await connection.ask(harmless_method(probe.facts))
    for method in dict.fromkeys((_DISCOVER, harmless_method(probe.facts))):
        for version in _UNKNOWN_VERSIONS:
            reply = await _ask_under(connection, version, method)
            if method == _DISCOVER and reply.code == METHOD_NOT_FOUND:
                # discover.implemented, which another scenario reports.
                continue
            what = f"{method} under {version}"
            if probe.expects(_CODE, reply, _UNSUPPORTED, what):
                _judge_supported(probe, reply, version)
    await is_alive(probe, connection, "unknown versions")


async def _ask_under(connection: RawConnection, version: str, method: str) -> Reply:
    params = {"_meta": {META_VERSION: version, META_CAPABILITIES: {}}}
    return await connection.ask(method, params)


def _judge_supported(probe: Probe, reply: Reply, version: str) -> None:
    data = reply.error.get("data")
    data = data if isinstance(data, dict) else {}
    supported, requested = data.get("supported"), data.get("requested")
    is_list = isinstance(supported, list) and all(isinstance(each, str) for each in supported)
    why = f"refuses {version} with {reply}"
    probe.holds(_DATA, is_list and supported, f"{why}, which lists no supported versions")
    is_named = requested == version
    probe.holds(_DATA, is_named, f"{why}, which names {requested!r} as the requested version")


_ONLY: Final = "versioning.modern-only.initialize-names-versions"
_TO_HANDSHAKE: Final = "versioning.dual-era.initialize-selects-legacy"
_TO_STATELESS: Final = "versioning.dual-era.meta-selects-modern"


@scenario(_ONLY, _TO_HANDSHAKE, opens=UNINITIALIZED_UNJUDGED, era="stateless")
async def begins_with_a_handshake(probe: Probe, connection: RawConnection) -> None:
    versions = [str(each) for each in _as_list(probe.facts.opening.get("supportedVersions"))]
    older = [each for each in versions if each in HANDSHAKE]
    wanted = max(older, default=max(HANDSHAKE))
    try:
        reply = await connection.ask("initialize", initialize_params(wanted, {}))
    except MessageTimeout:
        probe.skip((_ONLY, _TO_HANDSHAKE), "initialize is not answered")
        return
    if reply.is_error:
        if older:
            why = f"lists {wanted} as supported, and answers its handshake with {reply}"
            probe.fail(_TO_HANDSHAKE, why)
            return
        text = msgspec.json.encode(reply.error).decode()
        why = f"answers initialize with {reply}, which names no version that it supports"
        probe.holds(_ONLY, any(each in text for each in (probe.revision, *versions)), why)
        probe.not_applicable(_TO_HANDSHAKE, "the server has no handshake")
        return
    probe.not_applicable(_ONLY, "the server has a handshake too")
    if hasattr(connection.carrier, "agree"):
        connection.carrier.agree(str(reply.result.get("protocolVersion")))
    await _speak_after_handshake(probe, connection)


async def _speak_after_handshake(probe: Probe, connection: RawConnection) -> None:
    await connection.send(INITIALIZED)
    method = harmless_method(probe.facts)
    reply = await connection.ask(method if method != _DISCOVER else "ping")
    if reply.has_failed_inside:
        probe.skip(_TO_HANDSHAKE, f"the server could not answer {method}: {reply}")
        return
    why = f"answers {method} without _meta, after a handshake, with {reply}"
    if probe.holds(_TO_HANDSHAKE, not reply.is_error, why):
        is_old = "resultType" not in reply.result
        why = f"answers {method} after a handshake by the rules of {probe.revision}: {reply}"
        probe.holds(_TO_HANDSHAKE, is_old, why)


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


@scenario(_TO_STATELESS, opens=UNINITIALIZED_UNJUDGED, era="stateless")
async def begins_without_a_handshake(probe: Probe, connection: RawConnection) -> None:
    versions = _as_list(probe.facts.opening.get("supportedVersions"))
    if not any(each in HANDSHAKE for each in versions):
        probe.not_applicable(_TO_STATELESS, "the server has no handshake")
        return
    connection.be_stateless(probe.revision)
    # Its first request, although discovery would answer too.
    method = harmless_method(probe.facts)
    reply = await connection.ask(method)
    if reply.has_failed_inside and await _fails_later_too(connection, method):
        probe.skip(_TO_STATELESS, f"the server could not answer {method}: {reply}")
        return
    why = f"answers {method} with _meta, without a handshake, with {reply}"
    if probe.holds(_TO_STATELESS, not reply.is_error, why):
        probe.holds(_TO_STATELESS, "resultType" in reply.result, f"{why}, without resultType")


async def _fails_later_too(connection: RawConnection, method: str) -> bool:
    """Return whether a request fails inside after a discovery too."""
    await connection.ask(_DISCOVER)
    return (await connection.ask(method)).has_failed_inside


# -- what a request must carry

_MISSING: Final = "meta.request.missing-field-rejected"


@scenario(_MISSING, opens=UNJUDGED, era="stateless")
async def omits_what_a_request_must_carry(probe: Probe, connection: RawConnection) -> None:
    # What this request carries must not stand in for what the next ones lack.
    await connection.ask(harmless_method(probe.facts))
    for method, params in _harmless_requests(probe):
        for field in (META_CAPABILITIES, META_VERSION):
            # A server that has a handshake too may take it for a request of an older client.
            if field == META_VERSION and _has_handshake(probe):
                continue
            reply = await ask_exactly(connection, _without(connection, method, params, field))
            what = f"{method} without {field} in its _meta"
            if method != _DISCOVER or reply.code != METHOD_NOT_FOUND:
                probe.expects(_MISSING, reply, INVALID_PARAMS, what)
    await is_alive(probe, connection, "requests without a required _meta field")


def _has_handshake(probe: Probe) -> bool:
    return any(each in HANDSHAKE for each in _as_list(probe.facts.opening.get("supportedVersions")))


def _without(connection: RawConnection, method: str, params: object, field: str) -> JsonObject:
    message = connection.request(method, params)
    meta = {name: value for name, value in meta_of(message["params"]).items() if name != field}
    message["params"] = message["params"] | {"_meta": meta}
    return message


def _harmless_requests(probe: Probe) -> list[tuple[str, JsonObject]]:
    """Return requests of different methods that the server answers and that change nothing."""
    facts = probe.facts
    found: list[tuple[str, JsonObject]] = [(_DISCOVER, {})]
    found += [(method, {}) for name, method in LISTS.items() if facts.declares(name)]
    found += [("resources/read", {"uri": each.get("uri")}) for each in facts.resources[:1]]
    found += [("tools/call", tool.params) for tool in facts.callable_tools()[:1]]
    return found


# -- nothing is taken from earlier requests

_PRIOR: Final = "stateless.no-prior-context"


@scenario(_PRIOR, opens=OWN_UNJUDGED, era="stateless")
async def repeats_refused_requests_after_valid_ones(probe: Probe, used: RawConnection) -> None:
    requests = _refused_requests(probe, used)
    async with probe.open(is_judged=False, begins=False) as fresh:
        fresh.be_stateless(probe.revision)
        first = [await ask_exactly(fresh, message) for message in _copy_all(requests.values())]
    for method, params in _harmless_requests(probe):
        await used.ask(method, params)
    again = [await ask_exactly(used, message) for message in _copy_all(requests.values())]
    for what, one, other in zip(requests, first, again, strict=True):
        if one.is_error:
            why = f"refuses {what} with {one}, and after valid requests answers it with {other}"
            probe.holds(_PRIOR, other.is_error, why)
    await is_alive(probe, used, "requests that it refuses")


def _refused_requests(probe: Probe, connection: RawConnection) -> dict[str, JsonObject]:
    method = harmless_method(probe.facts)
    unknown = {"_meta": {META_VERSION: _UNKNOWN_VERSIONS[0]}}
    # The first ones say the least that could be remembered.
    return {
        f"{method} without {META_VERSION}": _without(connection, method, {}, META_VERSION),
        f"{method} under {_UNKNOWN_VERSIONS[0]}": connection.request(method, unknown),
        f"{method} without {META_CAPABILITIES}": _without(
            connection, method, {}, META_CAPABILITIES
        ),
    }


def _copy_all(messages: Iterable[JsonObject]) -> list[JsonObject]:
    return [new_request(str(each["method"]), each["params"]) for each in messages]


# -- codes of errors

_MEANING: Final = "errors.reserved-range.specified-meaning"
_HEADER_MISMATCH: Final = -32020
_CODES: Final = {_HEADER_MISMATCH: "HeaderMismatch", -32022: "UnsupportedProtocolVersion"}


@scenario(_MEANING, opens=UNJUDGED, era="stateless")
async def makes_mistakes_that_have_other_codes(probe: Probe, connection: RawConnection) -> None:
    valid = [(f"a valid {method}", method, params) for method, params in _harmless_requests(probe)]
    mistakes: list[tuple[str, str, JsonObject]] = [
        ("an unknown method", "accord-check/no-such-method", {}),
        *valid,
    ]
    if probe.facts.declares("tools"):
        unknown = {"name": "accord-check-no-such-tool", "arguments": {}}
        mistakes += [
            ("an unknown tool", "tools/call", unknown),
            ("a call without parameters", "tools/call", {}),
            ("an unknown cursor", "tools/list", {"cursor": "accord-check-no-such-cursor"}),
        ]
    if probe.facts.declares("resources"):
        mistakes.append(("an unknown resource", "resources/read", {"uri": MISSING_URI}))
    if probe.facts.declares("prompts"):
        mistakes.append(("an unknown prompt", "prompts/get", {"name": "accord-check-none"}))
    declared = {**connection.client_capabilities, "elicitation": {"form": {}, "url": {}}}
    for what, method, params in mistakes:
        reply = await connection.ask(method, params, capabilities=declared)
        code = reply.code if isinstance(reply.code, int) else 0
        if code == _HEADER_MISMATCH and method == "tools/call":
            continue  # which headers a call needs is judged by http.param-headers
        why = f"answers {what} with {reply}: {code} means {_CODES.get(code)}"
        probe.holds(_MEANING, code not in _CODES, why)
        if code == -32021:
            needed = _needed_names(reply)
            is_valid = (what, method, params) in valid
            why = f"answers {what} with {reply}, although all of it was declared"
            # A mistake that says nothing of a capability has another code.
            is_meant = not needed <= declared.keys() if needed else is_valid
            probe.holds(_MEANING, is_meant, why)


def _needed_names(reply: Reply) -> set[str]:
    data = reply.error.get("data")
    required = data.get("requiredCapabilities") if isinstance(data, dict) else None
    return {*required} if isinstance(required, dict) else set()


# -- clients that are not the only ones

_INTERLEAVED: Final = "stateless.interleaved-conversations"
_CLIENTS: Final = ("accord-check-one", "accord-check-two")


@bare_scenario(_INTERLEAVED, era="stateless", sends=("tools/call", "resources/read"))
async def lets_two_clients_share_a_connection(probe: Probe) -> None:
    async with probe.borrow() as connection:
        begun: list[tuple[str, Reply, Any]] = []
        alone = [
            (method, params, declared, await connection.ask(method, params, capabilities=declared))
            for method, params in _harmless_requests(probe)
            for declared in ({}, connection.client_capabilities)
        ]
        for method, params, declared, reply in alone:
            # Each client declares something else.
            client = {"name": _CLIENTS[bool(declared)], "version": "1"}
            meta = {META_CLIENT: client, META_CAPABILITIES: declared}
            begun.append((method, reply, await connection.start(method, params | {"_meta": meta})))
        for method, reply, id in begun:
            again = await connection.reply_to(id, what=method)
            why = f"answers {method} of one client with {again} while another one asks too"
            # discover.implemented is another requirement.
            is_right = again.is_error == reply.is_error or again.code == METHOD_NOT_FOUND
            probe.holds(_INTERLEAVED, is_right, why)


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


@scenario(*_FOR_ALL.values(), opens=OWN, era="stateless", when=lacks_lists, sends=("tools/call",))
async def lists_on_two_connections(probe: Probe, one: RawConnection) -> None:
    for name, id in _FOR_ALL.items():
        if not probe.facts.declares(name):
            probe.not_applicable(id, f"the server did not declare {name}")
    if not probe.target.spec.command:
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
_ENTRIES: Final = 10
_OLD_NOT_FOUND: Final = -32002
# Codes that say something else, or nothing.
_MISLEADING: Final = (-32700, -32600, -32601, -32000, -1, 0, 1)


@scenario(_UNKNOWN_TOOL, needs="tools", era="stateless", sends=("tools/call",))
async def calls_tools_that_do_not_exist(probe: Probe, connection: RawConnection) -> None:
    for name in ("accord-check-no-such-tool", ""):
        reply = await connection.ask("tools/call", {"name": name, "arguments": {}})
        probe.expects(_UNKNOWN_TOOL, reply, INVALID_PARAMS, f"a call of the unknown tool {name!r}")


@scenario(_NOT_FOUND, _NO_EMPTY, needs="resources", era="stateless", sends=("resources/read",))
async def reads_resources_that_do_not_exist(probe: Probe, connection: RawConnection) -> None:
    for uri in _missing_uris(probe):
        reply = await connection.ask("resources/read", {"uri": uri})
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


@scenario(_INTERNAL, needs="resources", era="stateless", sends=("resources/read",))
async def reads_resources_that_may_fail(probe: Probe, connection: RawConnection) -> None:
    for resource in probe.facts.resources[:_ENTRIES]:
        reply = await connection.ask("resources/read", {"uri": resource.get("uri")})
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
    plain = await connection.ask("resources/read", {"uri": _OUTSIDE.as_uri()})
    if _holds_text(plain, secret):
        probe.skip(_SANITISED, "the server serves the whole file system")
        return
    for uri in tried:
        reply = await connection.ask("resources/read", {"uri": uri})
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


@scenario(_SAME_SCOPE, era="stateless", when=lacks_lists, sends=(*_PAGED.values(),))
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
