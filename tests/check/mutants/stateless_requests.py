"""Servers that get requests wrong that stand on their own: discovery, versions, `_meta`."""

from typing import Any

from check.faults import faults, named
from check.mutants.foundation import Between, Message, Sent, params_of
from check.mutants.stateless_base import (
    CALL,
    CAPABILITIES,
    CLIENT,
    DISCOVER,
    EVERYTHING,
    READ,
    VERSION,
    answering,
    error,
    everything,
    hooked,
    meta_of,
    reading,
    recode,
    result,
    saying,
    with_meta,
)

KNOWN = "2026-07-28"


# -- unknown methods


@saying("errors.code.method-not-found")
def calls_an_unknown_method_an_invalid_request(message: Message, request: Message) -> Sent:
    is_unknown = str(request.get("method")).startswith("accord-check")
    return recode(message, -32601, -32600) if is_unknown else message


# -- discovery


@answering(
    "discover.implemented", lambda it: it["method"] == DISCOVER and it.get("jsonrpc") == "2.0"
)
def cannot_be_discovered(message: Message) -> Message:
    return error(message, -32601)


@hooked("discover.implemented")
def can_be_discovered_only_once(wire: Between) -> None:
    def from_server(message: Message, request: Message) -> Sent:
        if request.get("method") == DISCOVER:
            if wire.shared.get(id(wire)):
                return error(message, -32601)
            wire.shared[id(wire)] = True
        return message

    wire.from_server = from_server


@answering(
    "discover.implemented", lambda it: it["method"] == DISCOVER and CLIENT not in meta_of(it)
)
def hides_from_clients_without_a_name(message: Message) -> Message:
    return error(message, -32602, "clientInfo is missing")


@hooked("discover.implemented")
def forgets_discovery_after_a_list(wire: Between) -> None:
    lists: list[Any] = []

    def from_client(message: Message) -> Sent:
        if message.get("method") == "tools/list":
            lists.append(message)
        if message.get("method") == DISCOVER and lists:
            wire.later(0, lambda: wire.to_client(error(message, -32601)))
            return None
        return message

    wire.from_client = from_client


def listing(name: str, versions: list[str]) -> None:
    def change(message: Message, request: Message) -> Sent:
        if request.get("method") == DISCOVER and "result" in message:
            message["result"]["supportedVersions"] = versions
        return message

    saying("discover.result.lists-request-version")(named(name, change))


listing("lists_a_later_version_only", ["2027-01-01"])
listing("lists_no_version", [])
listing("writes_versions_in_another_way", [f"v{KNOWN}"])


def undeclaring(id: str, name: str, *, instead: Any = None, **settings: Any) -> None:
    """Register a server that does not advertise a capability whose methods it answers."""

    def does_not_advertise_it(message: Message, request: Message) -> Sent:
        if request.get("method") == DISCOVER and "result" in message:
            declared = message["result"]["capabilities"]
            declared.pop(name, None)
            if instead is not None:
                declared[instead] = {}
        return message

    does_not_advertise_it.__name__ = (
        f"does_not_advertise_{name}{'' if instead is None else '_as_such'}"
    )
    saying(id, **settings)(does_not_advertise_it)


TWINS = {"prompts.declared-in-discover": "prompts have a row of their own"}
MATCHES = {"discover.capability-matches-methods": "the row of all capabilities"}
undeclaring("discover.capability-matches-methods", "tools")
undeclaring("discover.capability-matches-methods", "resources")
undeclaring("discover.capability-matches-methods", "prompts", also=TWINS)
undeclaring("prompts.declared-in-discover", "prompts", also=MATCHES)
undeclaring("prompts.declared-in-discover", "prompts", instead="prompt", also=MATCHES)


@hooked("prompts.declared-in-discover", also=MATCHES)
def advertises_prompts_to_the_second_client(wire: Between) -> None:
    def from_server(message: Message, request: Message) -> Sent:
        if request.get("method") == DISCOVER and "result" in message:
            wire.shared["count"] = wire.shared.get("count", 0) + 1
            if wire.shared["count"] <= 2:
                message["result"]["capabilities"].pop("prompts", None)
        return message

    wire.from_server = from_server


def unadvertised(name: str, capability: str, method: str, code: int | None) -> None:
    """Register a server that lacks a capability and answers its method otherwise than it should."""

    def hook(wire: Between) -> None:
        def from_server(message: Message, request: Message) -> Sent:
            if request.get("method") == DISCOVER and "result" in message:
                message["result"]["capabilities"].pop(capability, None)
            if request.get("method") == method:
                empty = result(message, **{capability: []}, ttlMs=0, cacheScope="private")
                return empty if code is None else error(message, code)
            return message

        wire.from_server = from_server

    hooked("discover.unadvertised-method-not-found")(named(name, hook))


unadvertised("lists_no_prompts_that_it_lacks", "prompts", "prompts/list", None)
unadvertised("calls_the_parameters_invalid", "resources", "resources/list", -32602)
unadvertised("calls_it_an_internal_error", "tools", "tools/list", -32603)


# -- versions

CODE, DATA = "versioning.unsupported.error-code", "versioning.unsupported.data-supported"


def is_unknown(message: Message) -> bool:
    return meta_of(message).get(VERSION, KNOWN) != KNOWN


@reading(CODE)
def serves_any_version(message: Message) -> Sent:
    return with_meta(message, protocolVersion=KNOWN) if is_unknown(message) else message


@reading(CODE)
def serves_newer_versions(message: Message) -> Sent:
    is_newer = meta_of(message).get(VERSION, "") > KNOWN
    return with_meta(message, protocolVersion=KNOWN) if is_newer else message


@reading(CODE)
def looks_at_the_version_in_discovery_alone(message: Message) -> Sent:
    if message.get("method") == DISCOVER or not is_unknown(message):
        return message
    return with_meta(message, protocolVersion=KNOWN)


faults(
    saying(CODE),
    calls_unknown_versions_invalid_params=lambda message, request: recode(message, -32022, -32602),
    uses_the_code_of_a_proposal=lambda message, request: recode(message, -32022, -32004),
)


def supporting(name: str, spoil: Any) -> None:
    """Register a server that refuses versions with other data."""

    def change(message: Message, request: Message) -> Sent:
        if message.get("error", {}).get("code") == -32022:
            data = spoil(dict(message["error"]["data"]))
            return message | {"error": message["error"] | {"data": data}}
        return message

    saying(DATA)(named(name, change))


supporting("does_not_say_what_it_supports", lambda data: {"requested": data["requested"]})
supporting("names_one_version_as_a_text", lambda data: data | {"supported": KNOWN})
supporting("does_not_repeat_the_version", lambda data: {"supported": data["supported"]})
supporting("repeats_its_own_version", lambda data: data | {"requested": KNOWN})
supporting("supports_nothing", lambda data: data | {"supported": []})

ONLY = "versioning.modern-only.initialize-names-versions"


def is_initialize(message: Message) -> bool:
    return message.get("method") == "initialize"


@answering(ONLY, is_initialize)
def knows_no_initialize(message: Message) -> Message:
    return error(message, -32601, "method not found: initialize")


@answering(ONLY, is_initialize)
def names_the_version_of_the_client(message: Message) -> Message:
    wanted = params_of(message).get("protocolVersion")
    return error(message, -32022, f"{wanted} is not supported", requested=wanted, supported=[])


@answering(ONLY, is_initialize)
def refuses_with_the_name_of_a_feature(message: Message) -> Message:
    return error(message, -32600, "sessions were removed; send server/discover")


TO_HANDSHAKE = "versioning.dual-era.initialize-selects-legacy"
TO_STANDALONE = "versioning.dual-era.meta-selects-modern"


@answering(TO_HANDSHAKE, is_initialize, everything)
def refuses_the_handshake_that_it_lists(message: Message) -> Message:
    return error(message, -32601)


@answering(TO_HANDSHAKE, lambda it: it["method"] == "tools/list" and not meta_of(it), everything)
def wants_meta_after_a_handshake_too(message: Message) -> Message:
    return error(message, -32602, "protocolVersion is missing")


@saying(TO_HANDSHAKE, everything)
def answers_sessions_by_the_new_rules(message: Message, request: Message) -> Sent:
    if "result" in message and not meta_of(request):
        message["result"]["resultType"] = "complete"
    return message


def opening_first(name: str, code: int, allowed: tuple[str, ...]) -> None:
    """Register a server that refuses a request unless another one came first."""

    def hook(wire: Between) -> None:
        seen: list[str] = []

        def from_client(message: Message) -> Sent:
            method = str(message.get("method"))
            seen.append(method)
            if "id" in message and not {*allowed} & {*seen}:
                wire.later(0, lambda: wire.to_client(error(message, code, "not initialized")))
                return None
            return message

        wire.from_client = from_client

    hooked(TO_STANDALONE, everything)(named(name, hook))


opening_first("wants_a_handshake_first", -32600, ("initialize", DISCOVER))
opening_first("answers_only_after_discovery", -32601, (DISCOVER, "initialize", "tools/call"))


@hooked(TO_STANDALONE, everything)
def answers_the_first_request_by_the_old_rules(wire: Between) -> None:
    def from_server(message: Message, request: Message) -> Sent:
        is_first = len(wire.requests) == 1 and request.get("method") != DISCOVER
        if is_first and isinstance(message.get("result"), dict):
            message["result"].pop("resultType", None)
        return message

    wire.from_server = from_server


# -- what a request must carry

MISSING = "meta.request.missing-field-rejected"
PRIOR = "stateless.no-prior-context"


def lacks(message: Message, name: str) -> bool:
    return (
        "id" in message and message.get("method") != "initialize" and name not in meta_of(message)
    )


@reading(MISSING)
def needs_no_capabilities(message: Message) -> Sent:
    return with_meta(message, clientCapabilities={}) if lacks(message, CAPABILITIES) else message


@reading(MISSING)
def needs_no_version(message: Message) -> Sent:
    return with_meta(message, protocolVersion=KNOWN) if lacks(message, VERSION) else message


@reading(MISSING, everything)
def needs_no_capabilities_to_read(message: Message) -> Sent:
    is_meant = message.get("method") == READ and lacks(message, CAPABILITIES)
    return with_meta(message, clientCapabilities={}) if is_meant else message


@answering(MISSING, lambda it: lacks(it, CAPABILITIES))
def calls_it_an_invalid_request(message: Message) -> Message:
    return error(message, -32600)


# -- nothing is taken from earlier requests


def remembering(wire: Between) -> list[dict[str, Any]]:
    """Return the `_meta` of the requests that succeeded, as they come."""
    known: list[dict[str, Any]] = []

    def from_server(message: Message, request: Message) -> Sent:
        if "result" in message and request.get("method") != DISCOVER:
            known.append(meta_of(request))
        return message

    wire.from_server = from_server
    return known


@hooked(PRIOR, also={MISSING: "what is missing is filled in"})
def remembers_the_capabilities(wire: Between) -> None:
    known = remembering(wire)

    def from_client(message: Message) -> Sent:
        if known and lacks(message, CAPABILITIES):
            return with_meta(message, clientCapabilities=known[-1][CAPABILITIES])
        return message

    wire.from_client = from_client


@hooked(PRIOR, also={CODE: "the version of an earlier request is taken"})
def remembers_the_version(wire: Between) -> None:
    known = remembering(wire)

    def from_client(message: Message) -> Sent:
        return (
            with_meta(message, protocolVersion=KNOWN) if is_unknown(message) and known else message
        )

    wire.from_client = from_client


QUESTIONS = {
    "capability.undeclared-not-used": "it asks by what an earlier request declared",
    "mrtr.result.declared-capabilities-only": "the same",
}


@hooked(PRIOR, also=QUESTIONS)
def asks_by_what_was_declared_before(wire: Between) -> None:
    known: dict[str, Any] = {}

    def from_client(message: Message) -> Sent:
        declared = meta_of(message).get(CAPABILITIES)
        if declared is not None:
            known.update(declared)
            return with_meta(message, clientCapabilities=dict(known))
        return message

    wire.from_client = from_client


INTERLEAVED = "stateless.interleaved-conversations"


@hooked(INTERLEAVED)
def belongs_to_its_first_client(wire: Between) -> None:
    owner: list[Any] = []

    def from_client(message: Message) -> Sent:
        if "id" in message:
            owner.append(meta_of(message).get(CLIENT))
            if owner[-1] not in (owner[0], None):
                wire.later(0, lambda: wire.to_client(error(message, -32600, "another client")))
                return None
        return message

    wire.from_client = from_client


@hooked(INTERLEAVED)
def serves_one_client_at_a_time(wire: Between) -> None:
    busy: dict[Any, Any] = {}

    def from_client(message: Message) -> Sent:
        client = meta_of(message).get(CLIENT)
        if "id" in message:
            if any(other != client for other in busy.values()):
                wire.later(0, lambda: wire.to_client(error(message, -32600, "busy")))
                return None
            busy[message["id"]] = client
        return message

    def from_server(message: Message, request: Message) -> Sent:
        if "id" not in message:
            return message

        def pass_on() -> None:
            busy.pop(message.get("id"), None)
            wire.to_client(message)

        wire.later(0.01, pass_on)
        return None

    wire.from_client, wire.from_server = from_client, from_server


@hooked(INTERLEAVED)
def refuses_a_client_that_declares_less(wire: Between) -> None:
    most: list[int] = [0]

    def from_client(message: Message) -> Sent:
        declared = meta_of(message).get(CAPABILITIES)
        is_list = message.get("method") == "prompts/list"
        if isinstance(declared, dict) and is_list and CLIENT in meta_of(message):
            most[0] = max(most[0], len(declared))
            if len(declared) < most[0] and "one" in str(meta_of(message)[CLIENT]):
                wire.later(0, lambda: wire.to_client(error(message, -32600)))
                return None
        return message

    wire.from_client = from_client


# -- capabilities

ASKS, USES = "mrtr.result.declared-capabilities-only", "capability.undeclared-not-used"
BOTH = {ASKS: {USES: "a question uses a capability"}, USES: {ASKS: "it is used by a question"}}


@reading(ASKS, also=BOTH[ASKS])
def asks_every_client(message: Message) -> Sent:
    is_lesser = CAPABILITIES in meta_of(message)
    return with_meta(message, clientCapabilities=EVERYTHING) if is_lesser else message


@reading(ASKS, also=BOTH[ASKS])
def shows_forms_to_clients_for_pages(message: Message) -> Sent:
    declared = meta_of(message).get(CAPABILITIES) or {}
    if declared.get("elicitation"):
        return with_meta(message, clientCapabilities=declared | {"elicitation": {}})
    return message


@reading(ASKS, also=BOTH[ASKS])
def asks_for_a_model_in_any_case(message: Message) -> Sent:
    declared = meta_of(message).get(CAPABILITIES)
    if declared is not None and params_of(message).get("name") == "get_opinion":
        return with_meta(message, clientCapabilities=declared | {"sampling": {}})
    return message


@reading(USES, also=BOTH[USES])
def asks_every_reader(message: Message) -> Sent:
    is_lesser = CAPABILITIES in meta_of(message) and message.get("method") == READ
    return with_meta(message, clientCapabilities=EVERYTHING) if is_lesser else message


@reading(USES, also=BOTH[USES])
def asks_for_folders_in_any_case(message: Message) -> Sent:
    declared = meta_of(message).get(CAPABILITIES)
    if declared and params_of(message).get("name") == "get_ticket":
        return with_meta(message, clientCapabilities=declared | {"roots": {}})
    return message


@reading(USES, also=BOTH[USES])
def thinks_that_one_capability_means_all(message: Message) -> Sent:
    declared = meta_of(message).get(CAPABILITIES)
    return with_meta(message, clientCapabilities=EVERYTHING) if declared else message


def refusing(name: str, new: int, kind: str = "") -> None:
    """Register a server that refuses with another code for lack of a capability."""

    def change(message: Message, request: Message) -> Sent:
        return recode(message, -32021, new) if kind in str(message.get("error")) else message

    saying("capability.missing-error-code")(named(name, change))


refusing("calls_a_missing_capability_internal", -32603)
refusing("calls_a_missing_capability_invalid", -32602)
refusing("uses_an_old_code_for_models", -32003, "sampling")


def requiring(name: str, required: Any) -> None:
    """Register a server that names missing capabilities in another way."""

    def change(message: Message, request: Message) -> Sent:
        if message.get("error", {}).get("code") != -32021:
            return message
        body = {name: value for name, value in message["error"].items() if name != "data"}
        return message | {"error": body | ({} if required is None else {"data": required})}

    saying("capability.missing-error-data")(named(name, change))


requiring("does_not_name_what_is_missing", None)
requiring("lists_names_of_capabilities", {"requiredCapabilities": ["sampling"]})
requiring("requires_nothing", {"requiredCapabilities": {}})
requiring("names_it_elsewhere", {"missing": {"sampling": {}}})


# -- codes and extensions

MEANING = "errors.reserved-range.specified-meaning"


@answering(
    MEANING,
    lambda it: it["method"].startswith("accord-check/"),
    also={"errors.code.method-not-found": "another code than that of unknown methods"},
)
def calls_unknown_methods_unsupported(message: Message) -> Message:
    return error(message, -32022, supported=[KNOWN], requested=KNOWN)


@answering(
    MEANING,
    lambda it: it["method"] == "prompts/get" and "accord-check" in str(params_of(it).get("name")),
    also={"prompts.errors.codes": "an unknown prompt has another code"},
)
def calls_unknown_prompts_a_mismatch(message: Message) -> Message:
    return error(message, -32020)


@answering(
    MEANING,
    lambda it: params_of(it).get("uri") == "accord-check://no/such/resource",
    also={"resources.read.not-found-32602": "an unknown resource has another code"},
)
def wants_forms_for_unknown_resources(message: Message) -> Message:
    return error(message, -32021, requiredCapabilities={"elicitation": {"form": {}}})


ONE_SIDED = "extensions.one-sided-fallback"


def has_extensions(message: Message) -> bool:
    return "extensions" in (meta_of(message).get(CAPABILITIES) or {})


@answering(ONE_SIDED, has_extensions)
def refuses_clients_with_extensions(message: Message) -> Message:
    return error(message, -32602, "unknown extension")


@answering(ONE_SIDED, lambda it: has_extensions(it) and it["method"] == CALL)
def refuses_their_calls_alone(message: Message) -> Message:
    return error(message, -32603)


@saying(ONE_SIDED, also={"result.type.from-known-set": "the type of the result is not of the core"})
def answers_in_a_way_of_its_own(message: Message, request: Message) -> Sent:
    if request.get("method") == DISCOVER and "result" in message:
        message["result"]["capabilities"]["extensions"] = {"org.example/later": {}}
    if params_of(request).get("name") == "count_bags" and "result" in message:
        message["result"]["resultType"] = "later"
    return message
