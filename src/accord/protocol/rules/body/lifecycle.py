"""The opening: the content of `initialize`, its answer and a discovery, and their method names."""

import re
from typing import Final

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step, meta_of
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST, RESULT
from accord.protocol.methods import KNOWN
from accord.protocol.revisions import Phase
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.body.learning import VERSIONS
from accord.protocol.rules.body.meta import SERVER_INFO, implementations
from accord.protocol.rules.shapes import BodyShape, shapes
from accord.protocol.rules.values import as_object, complete_result, describe
from accord.protocol.violation import CLIENT, SERVER

_DATE: Final = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")
_INITIALIZED: Final = "notifications/initialized"
_SHUTDOWNS: Final = frozenset(
    f"{prefix}{name}"
    for prefix in ("", "client/", "lifecycle/", "mcp/", "notifications/", "server/", "session/")
    for name in ("shutdown", "exit", "close", "disconnect")
)

shapes(
    {
        "lifecycle.initialize.protocol-version": "body: {protocolVersion: string}",
        "lifecycle.initialize.client-capabilities": "capabilities: object",
        "lifecycle.initialize.client-info": "clientInfo: object",
    },
    by=CLIENT,
    kind=REQUEST,
    on="initialize",
)
shapes(
    {
        "lifecycle.initialize-result.server-capabilities": "capabilities: object",
        "lifecycle.initialize-result.server-info": "serverInfo: object",
    },
    by=SERVER,
    kind=RESULT,
    on="initialize",
)
shapes(
    {"lifecycle.implementation.name-and-version": "name: string, version: string"},
    kind=(REQUEST, RESULT),
    within=lambda step, _: implementations(step),
)

_VERSION: Final = BodyShape("protocolVersion: string")


@check("lifecycle.initialize-result.protocol-version", by=SERVER, kind=RESULT, on="initialize")
def answer_has_a_version(step: Step, conversation: Conversation) -> Outcome:
    if not isinstance(step.body, dict):
        return f"answers initialize with {describe(step.body)}, expected an object"
    return _VERSION.judge_body(step.body, step)


# -- versions


@check("lifecycle.version.identifier", by=CLIENT, kind=REQUEST, on="initialize")
@check("lifecycle.version.identifier", by=SERVER, kind=RESULT, on="initialize")
def version_is_a_date(step: Step, conversation: Conversation) -> Outcome:
    version = as_object(step.body).get("protocolVersion")
    if not isinstance(version, str):
        return None
    if _DATE.fullmatch(version):
        return True
    return f"sends the protocolVersion {version[:40]!r}, expected a date of the form YYYY-MM-DD"


@check("lifecycle.version.client-sends-supported", by=CLIENT, kind=NOTIFICATION, on=_INITIALIZED)
def client_continues_with_its_version(step: Step, conversation: Conversation) -> Outcome:
    return True if _granted_version(conversation) is not None else None


@check("lifecycle.version.client-sends-supported", by=CLIENT, kind=REQUEST, on="initialize")
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
    memory = conversation.memory
    asked, answered = (None, None) if memory is None else memory.facts.get(VERSIONS, (None, None))
    return asked if isinstance(asked, str) and asked == answered else None


# -- messages of the opening, and of an end that MCP does not have


@check("lifecycle.initialize.not-in-batch", by=CLIENT, kind=REQUEST, on="initialize")
def initialize_is_not_in_a_batch(step: Step, conversation: Conversation) -> Outcome:
    return "sends initialize in a batch" if step.in_batch else True


@check("lifecycle.initialize.method-name", by=CLIENT, kind=REQUEST)
def opening_request_is_named_initialize(step: Step, conversation: Conversation) -> Outcome:
    if step.name == "initialize":
        return True
    if conversation.phase is not Phase.OPENING or step.name in KNOWN:
        return None
    if "protocolVersion" in as_object(step.body):
        return f"opens with {step.name!r}; the method is initialize"
    return None


@check("lifecycle.initialized.method-name", by=CLIENT, kind=NOTIFICATION)
def initialized_has_its_name(step: Step, conversation: Conversation) -> Outcome:
    if step.name == _INITIALIZED:
        return True
    if conversation.phase is not Phase.NEGOTIATED or step.name in KNOWN:
        return None
    if "initiali" in step.name.lower():
        return f"sends {step.name!r}; the method is {_INITIALIZED}"
    return None


@check("lifecycle.shutdown.no-message", kind=(REQUEST, NOTIFICATION))
def shutdown_has_no_message(step: Step, conversation: Conversation) -> Outcome:
    if step.name in _SHUTDOWNS:
        return f"sends {step.name}; a conversation ends by closing the transport"
    return True


# -- discovery: the type of the result and its cache hints have requirements of their own

shapes(
    {
        "discover.result.required-fields": """
            capabilities: {
                completions?: object, experimental?: object, logging?: object,
                prompts?: object, resources?: object, tools?: object
            },
            supportedVersions: array, supportedVersions[]: string
        """,
    },
    by=SERVER,
    kind=RESULT,
    on="server/discover",
)


@check("discover.result.server-info", by=SERVER, kind=RESULT, on="server/discover")
def discovery_names_the_server(step: Step, conversation: Conversation) -> Outcome:
    if complete_result(step) is None:
        return None
    return SERVER_INFO in meta_of(step.body) or f"answers server/discover without {SERVER_INFO}"
