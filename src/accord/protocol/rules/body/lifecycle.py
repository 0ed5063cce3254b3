"""The opening: `initialize`, its answer and a discovery, the declared capabilities; and pings."""

import re
from collections import deque
from typing import Final

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step, meta_of
from accord.protocol.jsonrpc import FAULT, NOTIFICATION, REQUEST, RESULT
from accord.protocol.revisions import KNOWN, Phase
from accord.protocol.rules._rule import (
    Findings,
    Outcome,
    breach_at,
    check,
    messages,
    notifications,
    requests,
    results,
)
from accord.protocol.rules.body.meta import SERVER_INFO, implementations
from accord.protocol.rules.shapes import BodyShape, shapes
from accord.protocol.rules.values import (
    as_object,
    complete_result,
    declared_in,
    describe,
    memory_of,
)
from accord.protocol.violation import CLIENT, SERVER

VERSIONS: Final = "lifecycle.version.client-sends-supported"
"""The name of the fact with the version that was asked for and the one that was answered."""

_DATE: Final = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")
_INITIALIZE: Final = requests("initialize", by=CLIENT)
_ANSWER: Final = results("initialize", by=SERVER)
_DISCOVERY: Final = results("server/discover", by=SERVER)
_INITIALIZED: Final = "notifications/initialized"
_SHUTDOWNS: Final = frozenset(
    f"{prefix}{name}"
    for prefix in ("", "client/", "lifecycle/", "mcp/", "notifications/", "server/", "session/")
    for name in ("shutdown", "exit", "close", "disconnect")
)

shapes(
    _INITIALIZE,
    {
        "lifecycle.initialize.protocol-version": "body: {protocolVersion: string}",
        "lifecycle.initialize.client-capabilities": "capabilities: object",
        "lifecycle.initialize.client-info": "clientInfo: object",
    },
)
shapes(
    _ANSWER,
    {
        "lifecycle.initialize-result.server-capabilities": "capabilities: object",
        "lifecycle.initialize-result.server-info": "serverInfo: object",
    },
)
shapes(
    messages((REQUEST, RESULT)),
    {"lifecycle.implementation.name-and-version": "name: string, version: string"},
    within=lambda step, _: implementations(step),
)

_VERSION: Final = BodyShape("protocolVersion: string")


@check("lifecycle.initialize-result.protocol-version", _ANSWER)
def answer_has_a_version(step: Step, conversation: Conversation) -> Outcome:
    if not isinstance(step.body, dict):
        why = f"answers initialize with {describe(step.body)}, expected an object"
        return breach_at(why, "")
    return _VERSION.judge_body(step.body, step)


# -- versions


@check("lifecycle.version.identifier", _INITIALIZE, at="protocolVersion")
@check("lifecycle.version.identifier", _ANSWER, at="protocolVersion")
def version_is_a_date(step: Step, conversation: Conversation) -> Outcome:
    version = as_object(step.body).get("protocolVersion")
    if not isinstance(version, str):
        return None
    if _DATE.fullmatch(version):
        return True
    return f"sends the protocolVersion {version[:40]!r}, expected a date of the form YYYY-MM-DD"


@check(VERSIONS, notifications(_INITIALIZED, by=CLIENT))
def client_continues_with_its_version(step: Step, conversation: Conversation) -> Outcome:
    return True if _granted_version(conversation) is not None else None


@check(VERSIONS, _INITIALIZE, at="protocolVersion")
def client_keeps_its_version(step: Step, conversation: Conversation) -> Outcome:
    # A client that gets the version it asked for and then asks for another does not support the
    # first. Once it went on, a later initialize may be of another client on the same connection.
    granted = _granted_version(conversation)
    version = as_object(step.body).get("protocolVersion")
    if (
        granted is None
        or conversation.phase is not Phase.NEGOTIATED
        or not isinstance(version, str)
        or version == granted
    ):
        return None
    return f"asks for {version[:40]} after it asked for {granted[:40]} and got it"


def _granted_version(conversation: Conversation) -> str | None:
    """Return the version that the client asked for, if the server agreed to it."""
    asked, answered = memory_of(conversation).facts.get(VERSIONS, (None, None))
    return asked if isinstance(asked, str) and asked == answered else None


# -- messages of the opening, and of an end that MCP does not have


@check("lifecycle.initialize.not-in-batch", _INITIALIZE, at="/method")
def initialize_is_not_in_a_batch(step: Step, conversation: Conversation) -> Outcome:
    return "sends initialize in a batch" if step.in_batch else True


@check("lifecycle.initialize.method-name", requests(by=CLIENT), at="/method")
def opening_request_is_named_initialize(step: Step, conversation: Conversation) -> Outcome:
    if step.name == "initialize":
        return True
    if conversation.phase is not Phase.OPENING or step.name in KNOWN:
        return None
    if "protocolVersion" in as_object(step.body):
        return f"opens with {step.name!r}; the method is initialize"
    return None


@check("lifecycle.initialized.method-name", notifications(by=CLIENT), at="/method")
def initialized_has_its_name(step: Step, conversation: Conversation) -> Outcome:
    if step.name == _INITIALIZED:
        return True
    if conversation.phase is not Phase.NEGOTIATED or step.name in KNOWN:
        return None
    if "initiali" in step.name.lower():
        return f"sends {step.name!r}; the method is {_INITIALIZED}"
    return None


@check("lifecycle.shutdown.no-message", messages((REQUEST, NOTIFICATION)), at="/method")
def shutdown_has_no_message(step: Step, conversation: Conversation) -> Outcome:
    if step.name in _SHUTDOWNS:
        return f"sends {step.name}; a conversation ends by closing the transport"
    return True


# -- discovery: the type of the result and its cache hints have requirements of their own

shapes(
    _DISCOVERY,
    {
        "discover.result.required-fields": """
            capabilities: {
                completions?: object, experimental?: object, logging?: object,
                prompts?: object, resources?: object, tools?: object
            },
            supportedVersions: array, supportedVersions[]: string
        """,
    },
)


@check("discover.result.server-info", _DISCOVERY)
def discovery_names_the_server(step: Step, conversation: Conversation) -> Outcome:
    if complete_result(step) is None:
        return None
    is_named = isinstance(meta_of(step.body).get(SERVER_INFO), dict)
    return is_named or breach_at(
        f"answers server/discover without {SERVER_INFO} as an object", "_meta"
    )


# -- capabilities: objects with flags

_CAPABILITIES: Final = (
    *("completions", "elicitation", "experimental", "extensions", "logging", "prompts"),
    *("resources", "roots", "sampling", "tasks", "tools"),
)


@check("lifecycle.capabilities.declared", _INITIALIZE)
@check("lifecycle.capabilities.declared", _ANSWER)
def capabilities_are_objects(step: Step, conversation: Conversation) -> Findings:
    capabilities = declared_in(step)
    if capabilities is None:
        return
    yield True
    declared = [(name, value) for name, value in capabilities.items() if name in _CAPABILITIES]
    experimental = as_object(capabilities.get("experimental"))
    declared += [(f"experimental.{name[:40]}", value) for name, value in experimental.items()]
    for name, value in declared:
        if not isinstance(value, dict):
            why = f"declares the capability {name} as {describe(value)}, expected an object"
            yield breach_at(why, "capabilities", name)


shapes(_INITIALIZE, {"roots.capability.list-changed": "capabilities.roots.listChanged?: boolean"})
shapes(_ANSWER, {"resources.capability.subscribe": "capabilities.resources.subscribe?: boolean"})
shapes(
    results(("initialize", "server/discover"), by=SERVER),
    {
        "resources.capability.list-changed": "capabilities.resources.listChanged?: boolean",
        "prompts.capability.list-changed": "capabilities.prompts.listChanged?: boolean",
        "tools.capability.list-changed": "capabilities.tools.listChanged?: boolean",
    },
)


# -- ping: no parameters, an empty result, and not too often

_PINGS: Final = "ping.periodic"

# A lost connection shows within seconds; more pings than this learn nothing new.
_MOST_PINGS: Final = 10
_PING_SECONDS: Final = 1.0


@check("ping.request.either-party", requests("ping"))
def ping_has_no_parameters(step: Step, conversation: Conversation) -> Outcome:
    if step.body is not None and not isinstance(step.body, dict):
        return None
    extra = sorted((step.body or {}).keys() - {"_meta"})
    if not extra:
        return True
    return breach_at(f"sends ping with the parameter {extra[0][:40]}", extra[0])


@check("ping.response.empty", results("ping"))
def ping_has_an_empty_result(step: Step, conversation: Conversation) -> Outcome:
    if not isinstance(step.body, dict):
        return breach_at(f"answers ping with {describe(step.body)}, expected an empty object", "")
    extra = sorted(step.body.keys() - {"_meta"})
    if not extra:
        return True
    return breach_at(f"answers ping with the member {extra[0][:40]}", extra[0])


@check("ping.response.empty", messages(FAULT, "ping"), at="/error")
def ping_is_not_answered_with_an_error(step: Step, conversation: Conversation) -> Outcome:
    # Errors are in order before the opening, for a second ping under one id, for a whole batch
    # that is rejected, and for an HTTP request that is refused, by its headers for example.
    is_early = conversation.phase in (Phase.OPENING, Phase.NEGOTIATING)
    exchange = step.exchange
    is_unclear = exchange is not None and bool(exchange.duplicates or exchange.cancelled)
    http = step.record and step.record.http
    if step.error is None or is_early or is_unclear or (http and http.is_refusal):
        return None
    return f"answers ping with error {step.error.code}"


@check(_PINGS, requests("ping"))
def pings_are_not_excessive(step: Step, conversation: Conversation) -> Outcome:
    now = step.record.t if step.record else None
    if now is None:
        return None
    times: deque[float] = (
        memory_of(conversation)
        .facts.setdefault(_PINGS, {})
        .setdefault(step.sender, deque(maxlen=_MOST_PINGS + 1))
    )
    times.append(now)
    if len(times) < 2:
        return None
    if len(times) <= _MOST_PINGS or now - times[0] > _PING_SECONDS:
        return True
    times.clear()
    return f"sends more than {_MOST_PINGS} pings within {_PING_SECONDS:g} s"
