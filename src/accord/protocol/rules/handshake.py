"""Deep rules of the opening: what `initialize` and its answer carry, and how they are called."""

import re
from typing import TYPE_CHECKING, Any, Final

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST, RESULT
from accord.protocol.methods import KNOWN
from accord.protocol.revision import Phase
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.parts import implementations
from accord.protocol.rules.recall import VERSIONS
from accord.protocol.rules.values import describe, first_few
from accord.protocol.violation import CLIENT, SERVER

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_DATE: Final = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")
_INITIALIZED: Final = "notifications/initialized"
_CAPABILITIES: Final = frozenset(
    {
        "completions",
        "elicitation",
        "experimental",
        "extensions",
        "logging",
        "prompts",
        "resources",
        "roots",
        "sampling",
        "tasks",
        "tools",
    }
)
_FAREWELLS: Final = frozenset(
    f"{prefix}{name}"
    for prefix in ("", "client/", "lifecycle/", "mcp/", "notifications/", "server/", "session/")
    for name in ("shutdown", "exit", "close", "disconnect")
)


@check("lifecycle.initialize.protocol-version", by=CLIENT, kind=REQUEST, on="initialize")
def initialize_names_a_version(step: Step, conversation: "Conversation") -> Outcome:
    if step.body is None:
        return "sends initialize without params"
    return _has_text(step.body, "protocolVersion", "sends initialize")


@check("lifecycle.initialize-result.protocol-version", by=SERVER, kind=RESULT, on="initialize")
def answer_names_a_version(step: Step, conversation: "Conversation") -> Outcome:
    if not isinstance(step.body, dict):
        return f"answers initialize with {describe(step.body)}"
    return _has_text(step.body, "protocolVersion", "answers initialize")


@check("lifecycle.initialize.client-capabilities", by=CLIENT, kind=REQUEST, on="initialize")
def initialize_has_capabilities(step: Step, conversation: "Conversation") -> Outcome:
    return _has_object(step.body, "capabilities", "sends initialize")


@check("lifecycle.initialize-result.server-capabilities", by=SERVER, kind=RESULT, on="initialize")
def answer_has_capabilities(step: Step, conversation: "Conversation") -> Outcome:
    return _has_object(step.body, "capabilities", "answers initialize")


@check("lifecycle.initialize.client-info", by=CLIENT, kind=REQUEST, on="initialize")
def initialize_has_client_info(step: Step, conversation: "Conversation") -> Outcome:
    return _has_object(step.body, "clientInfo", "sends initialize")


@check("lifecycle.initialize-result.server-info", by=SERVER, kind=RESULT, on="initialize")
def answer_has_server_info(step: Step, conversation: "Conversation") -> Outcome:
    return _has_object(step.body, "serverInfo", "answers initialize")


def _has_text(body: Any, name: str, does: str) -> Outcome:
    if not isinstance(body, dict):
        return None
    if name not in body:
        return f"{does} without {name}"
    return isinstance(body[name], str) or (
        f"{does} with a {name} that is {describe(body[name])}, expected a string"
    )


def _has_object(body: Any, name: str, does: str) -> Outcome:
    if not isinstance(body, dict):
        return None
    if name not in body:
        return f"{does} without {name}"
    return isinstance(body[name], dict) or (
        f"{does} with {name} that is {describe(body[name])}, expected an object"
    )


@check("lifecycle.implementation.name-and-version", kind=(REQUEST, RESULT))
def implementation_has_name_and_version(step: Step, conversation: "Conversation") -> Outcome:
    infos = [(place, info) for place, info in implementations(step) if isinstance(info, dict)]
    if not infos:
        return None
    found = []
    for place, info in infos:
        for name in ("name", "version"):
            if name not in info:
                found.append(f"sends {place} without {name}")
            elif not isinstance(info[name], str):
                found.append(f"sends {place} with a {name} that is {describe(info[name])}")
    return first_few(found)


@check("lifecycle.version.identifier", by=CLIENT, kind=REQUEST, on="initialize")
@check("lifecycle.version.identifier", by=SERVER, kind=RESULT, on="initialize")
def version_is_a_date(step: Step, conversation: "Conversation") -> Outcome:
    version = step.body.get("protocolVersion") if isinstance(step.body, dict) else None
    if not isinstance(version, str):
        return None
    if _DATE.fullmatch(version):
        return True
    return f"names the revision {version[:40]!r}, which is no date of the form YYYY-MM-DD"


@check("lifecycle.version.client-sends-supported", by=CLIENT, kind=NOTIFICATION, on=_INITIALIZED)
def client_goes_on_with_its_version(step: Step, conversation: "Conversation") -> Outcome:
    return True if _was_granted(conversation) is not None else None


@check("lifecycle.version.client-sends-supported", by=CLIENT, kind=REQUEST, on="initialize")
def client_stays_with_its_version(step: Step, conversation: "Conversation") -> Outcome:
    # That a client does not support what it asked for shows only when it got just that, and then
    # asks anew for something else. Once it went on, a later initialize may be of another client
    # behind the same connection.
    granted = _was_granted(conversation)
    version = step.body.get("protocolVersion") if isinstance(step.body, dict) else None
    if (
        granted is None
        or conversation.phase is not Phase.NEGOTIATED
        or not isinstance(version, str)
    ):
        return None
    if version == granted:
        return None
    return f"asks for {version[:40]} after it asked for {granted[:40]} and got it"


def _was_granted(conversation: "Conversation") -> str | None:
    """The version that the client asked for, if the server agreed to just that."""
    memory = conversation.memory
    asked, answered = (None, None) if memory is None else memory.facts.get(VERSIONS, (None, None))
    return asked if isinstance(asked, str) and asked == answered else None


@check("lifecycle.capabilities.declared", by=CLIENT, kind=REQUEST, on="initialize")
@check("lifecycle.capabilities.declared", by=SERVER, kind=RESULT, on="initialize")
def capabilities_are_objects(step: Step, conversation: "Conversation") -> Outcome:
    capabilities = step.body.get("capabilities") if isinstance(step.body, dict) else None
    if not isinstance(capabilities, dict):
        return None
    found = [
        f"declares {name} as {describe(value)}, expected an object"
        for name, value in capabilities.items()
        if name in _CAPABILITIES and not isinstance(value, dict)
    ]
    experimental = capabilities.get("experimental")
    if isinstance(experimental, dict):
        found += [
            f"declares experimental.{name[:40]} as {describe(value)}, expected an object"
            for name, value in experimental.items()
            if not isinstance(value, dict)
        ]
    return first_few(found)


@check("lifecycle.initialize.not-in-batch", by=CLIENT, kind=REQUEST, on="initialize")
def initialize_travels_alone(step: Step, conversation: "Conversation") -> Outcome:
    return "sends initialize in a batch" if step.in_batch else True


@check("lifecycle.initialize.method-name", by=CLIENT, kind=REQUEST)
def opening_request_is_called_initialize(step: Step, conversation: "Conversation") -> Outcome:
    if step.name == "initialize":
        return True
    if conversation.phase is not Phase.OPENING or step.name in KNOWN:
        return None
    if isinstance(step.body, dict) and "protocolVersion" in step.body:
        return f"opens with {step.name!r}; the method is initialize"
    return None


@check("lifecycle.initialized.method-name", by=CLIENT, kind=NOTIFICATION)
def initialized_is_called_so(step: Step, conversation: "Conversation") -> Outcome:
    if step.name == _INITIALIZED:
        return True
    if conversation.phase is not Phase.NEGOTIATED or step.name in KNOWN:
        return None
    if "initiali" in step.name.lower():
        return f"sends {step.name!r}; the method is {_INITIALIZED}"
    return None


@check("lifecycle.shutdown.no-message", kind=(REQUEST, NOTIFICATION))
def there_is_no_farewell(step: Step, conversation: "Conversation") -> Outcome:
    if step.name in _FAREWELLS:
        return f"sends {step.name}; a conversation ends by closing the transport"
    return True
