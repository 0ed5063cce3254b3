"""Servers without a handshake that get lists, resources, cache hints and log messages wrong."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from check.faults import faults, named
from check.mutants.foundation import Between, Message, Sent, params_of
from check.mutants.stateless_base import (
    CALL,
    CAPABILITIES,
    CLIENT,
    LEVEL,
    READ,
    REVISION,
    VERSION,
    answering,
    error,
    hooked,
    meta_of,
    reading,
    recode,
    result,
    saying,
    text,
    with_meta,
)
from check.mutants.stateless_requests import undeclaring

LISTS = {"tools": "tools/list", "resources": "resources/list", "prompts": "prompts/list"}
MISSING_URI = "accord-check://no/such/resource"


def listed(message: Message, request: Message, name: str) -> list[Any] | None:
    """Return the entries of a list that a message answers with."""
    found = message.get("result")
    is_meant = request.get("method") == LISTS[name] and isinstance(found, dict)
    return found.get(name) if is_meant else None


def is_bad(message: Message) -> bool:
    return meta_of(message).get(LEVEL) in ("accord-check", "WARNING")


# -- lists


def not_listing(name: str, method: str) -> None:
    id = f"{name}.list.answers-when-declared"

    def is_meant(message: Message) -> bool:
        """Return whether a request for the list is valid in all other respects."""
        meta = meta_of(message)
        is_known = meta.get(VERSION) == REVISION and CAPABILITIES in meta and CLIENT in meta
        is_list = message.get("method") == method and message.get("jsonrpc") == "2.0"
        return is_list and is_known and not is_bad(message)

    # Much else depends on lists.
    only = [id, f"{name}.list.array"]

    @answering(id, is_meant, only=only)
    def does_not_know_its_own_list(message: Message) -> Message:
        return error(message, -32601)

    @answering(id, lambda it: is_meant(it) and meta_of(it)[CAPABILITIES] == {}, only=only)
    def refuses_clients_without_capabilities(message: Message) -> Message:
        return error(message, -32021, requiredCapabilities={"sampling": {}})

    @answering(
        id,
        is_meant,
        also={f"{name}.list.array": "a list that is not an array"},
        only=only,
    )
    def lists_entries_by_name(message: Message) -> Message:
        return result(message, **{name: {"one": {}}}, ttlMs=0, cacheScope="private")


def varying(name: str) -> None:
    id = f"{name}.list.not-per-connection"

    @hooked(id, only=[id])
    def lists_less_on_every_second_connection(wire: Between) -> None:
        wire.shared["wires"] = number = wire.shared.get("wires", 0) + 1

        def from_server(message: Message, request: Message) -> Sent:
            entries = listed(message, request, name)
            if entries and number % 2:
                entries.pop()
            return message

        wire.from_server = from_server

    @hooked(id, only=[id])
    def lists_more_after_a_call(wire: Between) -> None:
        calls: list[Any] = []

        def from_client(message: Message) -> Sent:
            calls.extend([message] if message.get("method") == CALL else [])
            return message

        def from_server(message: Message, request: Message) -> Sent:
            entries = listed(message, request, name)
            if entries and not calls:
                entries.pop()
            return message

        wire.from_client, wire.from_server = from_client, from_server

    @hooked(id, only=[id])
    def lists_an_entry_of_its_own_on_each_connection(wire: Between) -> None:
        wire.shared["wires"] = number = wire.shared.get("wires", 0) + 1

        def from_server(message: Message, request: Message) -> Sent:
            entries = listed(message, request, name)
            key = "uri" if name == "resources" else "name"
            for each in (entries or [])[:1]:
                entries.append(each | {key: f"{each[key]}-{number}"})
            return message

        wire.from_server = from_server


for name, method in LISTS.items():
    not_listing(name, method)
    varying(name)


def ordering(name: str, arrange: Callable[[list[Any], int], list[Any]]) -> None:
    """Register a server that lists its tools in another order each time."""

    def hook(wire: Between) -> None:
        count = [0]

        def from_server(message: Message, request: Message) -> Sent:
            entries = listed(message, request, "tools")
            if entries is not None:
                count[0] += 1
                message["result"]["tools"] = arrange(entries, count[0])
            return message

        wire.from_server = from_server

    hooked("tools.list.deterministic-order", only=["tools.list"])(named(name, hook))


ordering("turns_its_list_around", lambda entries, count: entries[:: 1 - 2 * (count % 3 % 2)])
ordering("rotates_its_list", lambda entries, count: entries[count % 3 :] + entries[: count % 3])
ordering(
    "lists_the_last_tool_first_now_and_then",
    lambda entries, count: entries if count % 5 else [*entries[-1:], *entries[:-1]],
)


# -- what does not exist

UNKNOWN_TOOL = "tools.errors.unknown-tool-32602"


def is_unknown_call(message: Message) -> bool:
    name = params_of(message).get("name")
    return message.get("method") == CALL and name in ("accord-check-no-such-tool", "")


faults(
    answering(UNKNOWN_TOOL, is_unknown_call),
    calls_an_unknown_tool_an_unknown_method=lambda message: error(message, -32601),
    reports_an_unknown_tool_as_a_result=lambda message: result(
        message, content=[{"type": "text", "text": "unknown tool"}], isError=True
    ),
)


@answering(UNKNOWN_TOOL, lambda it: is_unknown_call(it) and params_of(it).get("name") == "")
def has_a_tool_without_a_name(message: Message) -> Message:
    return text(message)


NOT_FOUND, NO_EMPTY = "resources.read.not-found-32602", "resources.read.no-empty-for-missing"
INTERNAL = "resources.read.internal-32603"
RETIRED = {"errors.retired-codes.not-emitted": "the code of older revisions"}


def is_missing_read(message: Message) -> bool:
    uri = str(params_of(message).get("uri"))
    return message.get("method") == READ and "accord-check" in uri and " " not in uri


@answering(NOT_FOUND, is_missing_read)
def calls_a_missing_resource_internal(message: Message) -> Message:
    return error(message, -32603)


@answering(NOT_FOUND, is_missing_read, also=RETIRED)
def uses_the_code_of_older_revisions(message: Message) -> Message:
    return error(message, -32002, uri=params_of(message)["uri"])


@answering(
    NOT_FOUND,
    lambda it: is_missing_read(it) and params_of(it)["uri"] != MISSING_URI,
    also=RETIRED,
)
def uses_the_older_code_for_its_own_schemes(message: Message) -> Message:
    return error(message, -32002, uri=params_of(message)["uri"])


EMPTY = {NOT_FOUND: "it is no error at all"}


def empty(message: Message) -> Message:
    return result(message, contents=[], ttlMs=0, cacheScope="private")


@answering(NO_EMPTY, is_missing_read, also=EMPTY)
def reads_nothing_from_missing_resources(message: Message) -> Message:
    return empty(message)


@answering(NO_EMPTY, lambda it: params_of(it).get("uri") == MISSING_URI, also=EMPTY)
def reads_nothing_from_unknown_schemes(message: Message) -> Message:
    return empty(message)


@answering(
    NO_EMPTY,
    lambda it: is_missing_read(it) and params_of(it)["uri"] != MISSING_URI,
    also=EMPTY,
)
def reads_nothing_within_its_own_schemes(message: Message) -> Message:
    return empty(message)


def failing(name: str, code: int, **settings: Any) -> None:
    """Register a server that reports internal failures with another code."""

    def change(message: Message, request: Message) -> Sent:
        return recode(message, -32603, code) if request.get("method") == READ else message

    saying(INTERNAL, **settings)(named(name, change))


failing("calls_a_failure_an_invalid_request", -32600)
failing("calls_a_failure_an_unknown_method", -32601)
failing("numbers_its_failures", 1)


def leaks(name: str, is_read: Callable[[str], bool]) -> None:
    """Register a server that reads a file outside its folder."""

    def make(message: Message) -> Message:
        contents = [{"uri": params_of(message)["uri"], "text": Path("/etc/passwd").read_text()}]
        return result(message, contents=contents, ttlMs=0, cacheScope="private")

    make.__name__ = name
    id = "resources.file.sanitise-paths"
    answering(id, lambda it: it["method"] == READ and is_read(str(params_of(it).get("uri"))))(make)


leaks("follows_dots_out_of_its_folder", lambda uri: "/../" in uri)
leaks("decodes_the_path_after_the_check", lambda uri: "..%2F" in uri)
leaks("decodes_dots_after_the_check", lambda uri: "%2e%2e/" in uri)


# -- cache hints


def scoping(name: str, list_name: str, is_other: Callable[[Message], bool]) -> None:
    """Register a server that gives some pages of a list another scope."""

    def change(message: Message, request: Message) -> Sent:
        is_page = listed(message, request, list_name) is not None
        if is_page and is_other(request) and isinstance(message["result"], dict):
            scope = message["result"]["cacheScope"]
            message["result"]["cacheScope"] = "public" if scope == "private" else "private"
        return message

    saying("caching.scope.same-on-all-pages")(named(name, change))


scoping("shares_only_the_first_page_of_tools", "tools", lambda it: "cursor" not in params_of(it))
scoping("shares_only_later_pages_of_tools", "tools", lambda it: "cursor" in params_of(it))
scoping("shares_later_pages_of_resources", "resources", lambda it: "cursor" in params_of(it))


# -- log messages

RESPECTED, BAD_LEVEL = "logging.level-respected", "logging.bad-level-32602"


@reading(RESPECTED)
def logs_everything_to_anyone_who_asks(message: Message) -> Sent:
    is_meant = LEVEL in meta_of(message) and not is_bad(message)
    return with_meta(message, logLevel="debug") if is_meant else message


@reading(RESPECTED)
def takes_the_highest_level_for_the_lowest(message: Message) -> Sent:
    level = meta_of(message).get(LEVEL)
    return with_meta(message, logLevel="debug") if level == "emergency" else message


@hooked(RESPECTED)
def keeps_the_level_of_the_first_request(wire: Between) -> None:
    levels: list[Any] = []

    def from_client(message: Message) -> Sent:
        level = meta_of(message).get(LEVEL)
        levels.extend([level] if level in ("debug", "emergency") else [])
        return with_meta(message, logLevel=levels[0]) if level in levels else message

    wire.from_client = from_client


@reading(BAD_LEVEL)
def takes_any_level(message: Message) -> Sent:
    return with_meta(message, logLevel="info") if is_bad(message) else message


@reading(BAD_LEVEL)
def takes_levels_in_capitals(message: Message) -> Sent:
    is_meant = meta_of(message).get(LEVEL) == "WARNING"
    return with_meta(message, logLevel="warning") if is_meant else message


@answering(BAD_LEVEL, is_bad)
def calls_a_bad_level_an_invalid_request(message: Message) -> Message:
    return error(message, -32600)


@reading(BAD_LEVEL)
def looks_at_the_level_of_calls_alone(message: Message) -> Sent:
    is_meant = is_bad(message) and message.get("method") != CALL
    return with_meta(message, logLevel=None) if is_meant else message


undeclaring("logging.capability-declared", "logging")


undeclaring("logging.capability-declared", "logging", instead="logs")


@saying("logging.capability-declared")
def declares_logging_as_an_experiment(message: Message, request: Message) -> Sent:
    if request.get("method") == "server/discover" and "result" in message:
        message["result"]["capabilities"].pop("logging", None)
        message["result"]["capabilities"]["experimental"] = {"logging": {}}
    return message
