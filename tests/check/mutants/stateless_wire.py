"""Servers without a handshake whose messages are malformed: results, questions, cache hints."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from check.faults import named
from check.mutants.foundation import Between, Message, Sent, params_of
from check.mutants.stateless_base import (
    CALL,
    DISCOVER,
    LEVEL,
    PREFIX,
    READ,
    error,
    everything,
    hooked,
    meta_of,
    saying,
    stateless,
)

Spoil = Callable[[dict[str, Any]], Any]


def spoiling(
    id: str, name: str, spoil: Spoil, *methods: str, server: Any = stateless, **settings: Any
) -> None:
    """Register a server that spoils its complete results of some methods, or of all."""

    def change(message: Message, request: Message) -> Sent:
        found = message.get("result")
        is_meant = not methods or request.get("method") in methods
        if is_meant and isinstance(found, dict) and found.get("resultType") == "complete":
            spoil(found)
        return message

    saying(id, server, **settings)(named(name, change))


def removing(member: str) -> Spoil:
    return lambda found: found.pop(member, None)


def setting(member: str, value: Any) -> Spoil:
    return lambda found: found.update({member: value})


# -- results

READS = {"areas": ("resources",)}
spoiling("result.type.present", "forgets_the_type_of_results", removing("resultType"))
spoiling("result.type.present", "forgets_it_in_calls", removing("resultType"), CALL)
spoiling(
    "result.type.present", "numbers_the_type_of_results", setting("resultType", 1), READ, **READS
)
SET = "result.type.from-known-set"
spoiling(SET, "calls_results_final", setting("resultType", "final"), CALL)
spoiling(SET, "writes_the_type_in_capitals", setting("resultType", "Complete"), READ, **READS)
spoiling(SET, "has_a_type_of_its_own", setting("resultType", "org.example/x"), "tools/list")

INFO = f"{PREFIX}serverInfo"
NAMED, DISCOVERED = "meta.result.server-info", "discover.result.server-info"


def naming(info: Any) -> Spoil:
    def rename(found: dict[str, Any]) -> None:
        found["_meta"].pop(INFO, None)
        found["_meta"].update({} if info is None else {INFO: info})

    return rename


spoiling(NAMED, "does_not_name_itself_in_calls", naming(None), CALL)
spoiling(NAMED, "names_itself_as_a_text", naming("x 1"), "tools/list")
spoiling(NAMED, "has_no_meta_in_what_is_read", removing("_meta"), READ, **READS)
spoiling(DISCOVERED, "is_discovered_without_a_name", naming(None), DISCOVER)
spoiling(DISCOVERED, "is_discovered_as_a_text", naming("x 1"), DISCOVER)
spoiling(DISCOVERED, "is_discovered_without_meta", removing("_meta"), DISCOVER)

FIELDS = "discover.result.required-fields"
LISTED = {"discover.result.lists-request-version": "the version is not in a list of texts"}
spoiling(
    FIELDS,
    "lists_one_version_as_text",
    setting("supportedVersions", "2026-07-28"),
    DISCOVER,
    also=LISTED,
)
spoiling(
    FIELDS, "numbers_its_versions", setting("supportedVersions", [20260728]), DISCOVER, also=LISTED
)
spoiling(
    FIELDS,
    "lists_a_version_twice_removed",
    setting("supportedVersions", ["2026-07-28", None]),
    DISCOVER,
)

# -- cache hints

HINTED = {
    "discover": DISCOVER,
    "tools-list": "tools/list",
    "prompts-list": "prompts/list",
    "resources-list": "resources/list",
    "resource-templates-list": "resources/templates/list",
    "resources-read": READ,
}
for row, method in HINTED.items():
    id = f"caching.hints.{row}"
    spoiling(id, "gives_no_time", removing("ttlMs"), method)
    spoiling(id, "gives_no_scope", removing("cacheScope"), method)

    def give_neither(found: dict[str, Any]) -> None:
        found.pop("ttlMs", None)
        found.pop("cacheScope", None)

    spoiling(id, "gives_neither", give_neither, method)

TIME, SCOPE = "caching.ttl.non-negative", "caching.scope.value"
spoiling(TIME, "gives_a_negative_time", setting("ttlMs", -1), "tools/list")
spoiling(TIME, "gives_half_a_millisecond", setting("ttlMs", 0.5), READ)
spoiling(TIME, "writes_the_time_as_text", setting("ttlMs", "60000"), "prompts/list")
spoiling(SCOPE, "shares_with_everyone", setting("cacheScope", "shared"), "tools/list")
spoiling(SCOPE, "writes_the_scope_in_capitals", setting("cacheScope", "Public"), READ)
spoiling(SCOPE, "answers_whether_it_is_public", setting("cacheScope", True), "resources/list")

# -- extensions


def extending(id: str, name: str, key: str, value: Any) -> None:
    def spoil(found: dict[str, Any]) -> None:
        found["capabilities"]["extensions"] = {key: value}

    spoiling(id, name, spoil, DISCOVER)


extending("extensions.identifier-format", "names_an_extension_without_a_vendor", "later", {})
extending("extensions.identifier-format", "names_an_extension_with_a_space", "org.x/la ter", {})
extending("extensions.identifier-format", "begins_a_vendor_with_a_digit", "1org.x/later", {})
extending("extensions.settings-object", "turns_an_extension_on", "org.example/later", True)
extending("extensions.settings-object", "lists_settings", "org.example/later", ["fast"])
extending("extensions.settings-object", "numbers_an_extension", "org.example/later", 2)

# -- questions


def asking(
    id: str,
    name: str,
    spoil: Callable[[dict[str, Any]], Any],
    server: Any = stateless,
    **settings: Any,
) -> None:
    """Register a server that spoils its input-required results."""

    def change(message: Message, request: Message) -> Sent:
        found = message.get("result")
        if isinstance(found, dict) and found.get("resultType") == "input_required":
            spoil(found)
        return message

    saying(id, server, **settings)(named(name, change))


def each(spoil: Callable[[dict[str, Any]], Any], kind: str = "") -> Spoil:
    """Return what spoils every question of a kind."""

    def spoil_all(found: dict[str, Any]) -> None:
        for question in found.get("inputRequests", {}).values():
            if kind in question["method"]:
                spoil(question)

    return spoil_all


def drop_all(found: dict[str, Any]) -> None:
    found.pop("inputRequests", None)
    found.pop("requestState", None)


HAS = "mrtr.result.has-requests-or-state"
asking(HAS, "asks_nothing", drop_all)


@saying(HAS, everything)
def asks_nothing_of_models(message: Message, request: Message) -> Sent:
    if params_of(request).get("name") == "query_model" and "input_required" in str(message):
        drop_all(message["result"])
    return message


@saying(HAS)
def asks_nothing_of_readers(message: Message, request: Message) -> Sent:
    if request.get("method") == READ and "input_required" in str(message.get("result")):
        drop_all(message["result"])
    return message


KINDS = "mrtr.result.input-request-kinds"
asking(KINDS, "asks_for_a_ping", each(lambda it: it.update(method="ping"), "roots"))
asking(KINDS, "gives_its_questions_ids", each(lambda it: it.update(id=1, jsonrpc="2.0")))
asking(KINDS, "asks_without_a_method", each(lambda it: it.pop("method"), "roots"))
asking("mrtr.result.no-cache-hints", "lets_questions_be_cached", setting("ttlMs", 1000))
asking("mrtr.result.no-cache-hints", "shares_its_questions", setting("cacheScope", "public"))
asking(
    "mrtr.result.no-cache-hints",
    "gives_questions_both_hints",
    lambda found: found.update(ttlMs=0, cacheScope="private"),
)


def supporting(name: str, method: str) -> None:
    """Register a server that asks back where it may not."""

    def change(message: Message, request: Message) -> Sent:
        if request.get("method") == method and "result" in message and "cursor" not in str(request):
            asked = {"method": "roots/list"}
            message["result"] = {
                "resultType": "input_required",
                "inputRequests": {"roots": asked},
                "_meta": message["result"].get("_meta", {}),
            }
        return message

    change.__name__ = name
    hidden = name.split("_")[-1]
    also = {f"{hidden}.list.answers-when-declared": "the list itself never comes"}
    saying("mrtr.result.only-on-supported-methods", also=also)(change)


supporting("asks_before_it_lists_tools", "tools/list")
supporting("asks_before_it_lists_prompts", "prompts/list")
supporting("asks_before_it_lists_resources", "resources/list")


def doubling(name: str, double: Callable[[bytes], bytes], kind: str) -> None:
    """Register a server that uses a key of its questions twice."""

    def hook(wire: Between) -> None:
        def from_server(message: Message, request: Message) -> Sent:
            asked = (message.get("result") or {}).get("inputRequests")
            if asked and kind in str(asked):
                text = msgspec.json.encode(message)
                part = msgspec.json.encode(asked)[1:-1]
                return text.replace(part, double(part), 1)
            return message

        wire.from_server = from_server

    hooked("mrtr.result.input-request-keys-unique")(named(name, hook))


doubling("asks_every_question_twice", lambda part: part + b"," + part, "elicitation")
doubling("asks_for_models_twice", lambda part: part + b"," + part, "sampling")
doubling(
    "asks_two_things_by_one_key",
    lambda part: re.sub(rb'"(roots|elicit)-[0-9a-f]+"', b'"question"', part),
    "roots",
)

# -- messages that a server may not send


def sending(name: str, id: str, *messages: Message, after: str = CALL, **settings: Any) -> None:
    """Register a server that sends something of its own when it is asked for something."""

    def hook(wire: Between) -> None:
        own = [each.get("id") for each in messages if "id" in each]
        sent: list[Any] = wire.shared.setdefault("sent", [])

        def from_client(message: Message) -> Sent:
            if "method" not in message and message.get("id") in own:
                return None
            if message.get("method") == after and not sent:
                sent.append(message)
                for each in messages:
                    wire.later(0, lambda each=each: wire.to_client(each))
            return message

        wire.from_client = from_client

    hooked(id, **settings)(named(name, hook))


def request_of(method: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "id": "own", "method": method, "params": params}


FORM = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
INITIATES = "jsonrpc.client-only-initiates"
sending("pings_the_client", INITIATES, request_of("ping"))
sending("asks_for_its_tools", INITIATES, request_of("tools/list"), after="tools/list")
sending(
    "sends_a_request_of_its_own", INITIATES, request_of("org.example/ask"), after="prompts/list"
)
MODEL = {"messages": [{"role": "user", "content": {"type": "text", "text": "?"}}], "maxTokens": 1}
for kind, method, params, id in (
    ("a_form", "elicitation/create", FORM, "elicitation.asked-by-mrtr"),
    ("roots", "roots/list", {}, "roots.asked-by-mrtr"),
    ("a_model", "sampling/createMessage", MODEL, "mrtr.server-asks-only-this-way"),
):
    for place in (CALL, "tools/list", "prompts/list"):
        when = place.replace("/", "_during_")
        sending(
            f"asks_for_{kind}_by_a_request_in_{when}", id, request_of(method, **params), after=place
        )


def notice(method: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": params}


# -- notifications

LOG, CANCELLED = "notifications/message", "notifications/cancelled"
UNINVITED, STREAM = "logging.only-with-level", "logging.own-stream-only"


def logs(level: str = "info") -> Message:
    return notice(LOG, level=level, data="hello")


sending("logs_while_it_lists", UNINVITED, logs(), after="tools/list")
sending("logs_what_it_is_asked", UNINVITED, logs("error"), after="prompts/list")


@hooked(UNINVITED)
def logs_calls_without_a_level(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        has_asked = any(LEVEL in meta_of(each) for each in wire.requests.values())
        if message.get("method") == CALL and not has_asked:
            wire.later(0, lambda: wire.to_client(logs("emergency")))
        return message

    wire.from_client = from_client


def logs_late(name: str, is_due: Callable[[int, Message], bool]) -> None:
    """Register a server that logs about some calls once they were answered."""

    def hook(wire: Between) -> None:
        answered: list[Message] = []

        def from_server(message: Message, request: Message) -> Sent:
            if request.get("method") == CALL and LEVEL in meta_of(request):
                answered.append(request)
                if is_due(len(answered), request):
                    return [message, logs("emergency")]
            return message

        wire.from_server = from_server

    hooked(STREAM)(named(name, hook))


logs_late("logs_after_calls", lambda count, request: True)
logs_late("logs_after_later_calls", lambda count, request: count > 2)
logs_late(
    "logs_after_calls_of_one_tool",
    lambda count, request: params_of(request).get("name") == "count_bags",
)


@hooked(STREAM, also={"subscriptions.only-requested-kinds": "no filter asks for log messages"})
def logs_to_subscriptions_what_calls_ask_for(wire: Between) -> None:
    listening: list[Any] = []

    def from_client(message: Message) -> Sent:
        if message.get("method") == "subscriptions/listen":
            listening.append(message["id"])
        return message

    def from_server(message: Message, request: Message) -> Sent:
        if request.get("method") != CALL or LEVEL not in meta_of(request) or not listening:
            return message
        tag = {"_meta": {f"{PREFIX}subscriptionId": listening[0]}}
        return [notice(LOG, level="info", data="called", **tag), message]

    wire.from_client = from_client
    wire.from_server = from_server


ONLY_LISTEN = "cancellation.server-only-for-listen"


NAMES_LISTEN, NAMES_ID = "cancellation.server-names-listen", "cancellation.request-id-required"


def cancelling(
    id: str, name: str, params: Callable[[Message], Message], method: str = CALL
) -> None:
    """Register a server that cancels something once it is asked for something."""

    def hook(wire: Between) -> None:
        sent: list[Any] = wire.shared.setdefault("sent", [])

        def from_client(message: Message) -> Sent:
            if message.get("method") == method and not sent:
                sent.append(message)
                wire.to_client(notice(CANCELLED, **params(message)))
            return message

        wire.from_client = from_client

    hooked(id)(named(name, hook))


cancelling(NAMES_LISTEN, "cancels_what_was_never_asked", lambda it: {"requestId": "never"})
cancelling(NAMES_LISTEN, "cancels_the_number_of_a_text", lambda it: {"requestId": str(it["id"])})
cancelling(NAMES_LISTEN, "cancels_a_negative_id", lambda it: {"requestId": -7}, "prompts/list")
cancelling(ONLY_LISTEN, "cancels_a_call", lambda it: {"requestId": it["id"]})
cancelling(ONLY_LISTEN, "cancels_a_list", lambda it: {"requestId": it["id"]}, "tools/list")
cancelling(ONLY_LISTEN, "cancels_prompts", lambda it: {"requestId": it["id"]}, "prompts/list")
cancelling(NAMES_ID, "cancels_nothing", lambda it: {})
cancelling(NAMES_ID, "cancels_null", lambda it: {"requestId": None})
cancelling(NAMES_ID, "cancels_by_a_name", lambda it: {"id": it["id"]}, "tools/list")


# -- codes

CODES = "errors.reserved-range.only-defined-codes"
RETIRED, LEGACY = "errors.retired-codes.not-emitted", "errors.legacy-range.not-used"
OUTSIDE = "errors.application-codes.outside-reserved"


def coding(id: str, name: str, code: int, *, method: str = CALL, **settings: Any) -> None:
    """Register a server that answers calls of a tool, or prompts, with this code."""

    def hook(wire: Between) -> None:
        def from_client(message: Message) -> Sent:
            called = params_of(message).get("name")
            if called in ("count_bags", "farewell") and message.get("method") == method:
                wire.later(0, lambda: wire.to_client(error(message, code)))
                return None
            return message

        wire.from_client = from_client

    hooked(id, **settings)(named(name, hook))


coding(CODES, "takes_the_next_free_code", -32023)
coding(CODES, "takes_the_last_code", -32099)
coding(CODES, "takes_a_round_code", -32050)
coding(RETIRED, "still_finds_no_resource", -32002)
coding(RETIRED, "still_wants_a_page", -32042, also={})
coding(LEGACY, "uses_the_code_of_old_servers", -32000)
coding(LEGACY, "uses_the_last_old_code", -32019)
coding(LEGACY, "uses_a_code_of_a_proposal", -32001)
coding(OUTSIDE, "takes_a_code_of_json_rpc", -32100)
coding(OUTSIDE, "takes_the_first_reserved_code", -32768)
coding(OUTSIDE, "takes_a_code_between", -32500)

coding(RETIRED, "still_finds_no_prompt", -32002, method="prompts/get", areas=("prompts",))

# -- trace context


def tracing(name: str, **meta: Any) -> None:
    spoiling("otel.value-formats", name, lambda found: found["_meta"].update(meta), "tools/list")


tracing("traces_without_a_span", traceparent="00-0af7651916cd43dd8448eb211c80319c")
tracing("traces_in_capitals", traceparent=f"00-{'0AF7' * 8}-{'00F0' * 4}-01")
tracing("keeps_its_baggage_as_an_object", baggage={"user": "ann"})

# -- arguments that headers repeat


def heading(id: str, name: str, rule: dict[str, Any], **more: Any) -> None:
    """Register a server that annotates an argument of a tool for headers."""

    def spoil(found: dict[str, Any]) -> None:
        for tool in found["tools"]:
            if tool["name"] == "count_bags":
                tool["inputSchema"]["properties"] |= {"extra": rule, **more}

    spoiling(id, name, spoil, "tools/list")


HEADER = "x-mcp-header"
TEXT = {"type": "string"}
ROW = "tools.x-mcp-header"
heading(f"{ROW}.not-empty", "names_no_header", TEXT | {HEADER: ""})
heading(f"{ROW}.not-empty", "names_no_header_for_a_number", {"type": "integer", HEADER: ""})
inner = {"type": "object", "properties": {"in": TEXT | {HEADER: ""}}}
heading(f"{ROW}.not-empty", "names_no_header_within", inner)
heading(f"{ROW}.token-syntax", "names_a_header_with_a_space", TEXT | {HEADER: "my header"})
heading(f"{ROW}.token-syntax", "names_a_header_with_a_colon", TEXT | {HEADER: "x:y"})
heading(f"{ROW}.token-syntax", "names_a_header_with_an_umlaut", TEXT | {HEADER: "gr\u00f6\u00dfe"})
ONE = {"one": TEXT | {HEADER: "Same"}}
heading(f"{ROW}.unique", "names_a_header_twice", TEXT | {HEADER: "Same"}, **ONE)
heading(f"{ROW}.unique", "names_a_header_in_two_cases", TEXT | {HEADER: "same"}, **ONE)
inner = {"type": "object", "properties": {"in": TEXT | {HEADER: "Same"}}}
heading(f"{ROW}.unique", "names_a_header_again_within", inner, **ONE)
heading(f"{ROW}.primitive-only", "repeats_a_list", {"type": "array", HEADER: "List"})
heading(f"{ROW}.primitive-only", "repeats_a_fraction", {"type": "number", HEADER: "Share"})
heading(f"{ROW}.primitive-only", "repeats_an_object", {"type": "object", HEADER: "All"})
REACHED = f"{ROW}.statically-reachable"
heading(REACHED, "repeats_an_item", {"type": "array", "items": TEXT | {HEADER: "Item"}})
heading(REACHED, "repeats_a_choice", {"anyOf": [TEXT | {HEADER: "One"}, {"type": "null"}]})
heading(
    REACHED,
    "repeats_a_condition",
    {"type": "object", "then": {"properties": {"a": TEXT | {HEADER: "A"}}}},
)
SAFE = f"{ROW}.safe-integers"
WHOLE = {"type": "integer", HEADER: "Number"}
heading(SAFE, "repeats_a_default_that_is_too_large", WHOLE | {"default": 2**53})
heading(SAFE, "repeats_choices_that_are_too_large", WHOLE | {"enum": [1, 2**60]})
heading(SAFE, "repeats_a_constant_that_is_too_small", WHOLE | {"const": -(2**53)})
