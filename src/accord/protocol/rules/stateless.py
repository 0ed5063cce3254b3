"""Revisions without handshake: types of results, what a discovery tells, what is deprecated."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from accord.protocol.exchange import Step, meta_of
from accord.protocol.jsonrpc import RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.items import (
    Finding,
    complete_result,
    each,
    has,
    may_have,
    object_of,
    questions,
    shown,
)
from accord.protocol.violation import CLIENT, SERVER

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_DISCOVER: Final = "server/discover"
_SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
_TASKS: Final = "extensions.io.modelcontextprotocol/tasks"
_CAPABILITIES: Final = frozenset(
    {"completions", "experimental", "logging", "prompts", "resources", "tools"}
)
_CORE_TYPES: Final = frozenset({"complete", "input_required"})


@check("result.type.present", by=SERVER, kind=RESULT)
def result_says_its_type(step: Step, conversation: "Conversation") -> Outcome:
    if not isinstance(step.body, dict):
        return None
    return has(step.body, "a result", "resultType", "string")


@check("result.type.from-known-set", by=SERVER, kind=RESULT)
def result_is_of_a_known_type(step: Step, conversation: "Conversation") -> Outcome:
    type_ = step.body.get("resultType") if isinstance(step.body, dict) else None
    if not isinstance(type_, str):
        return None
    if type_ in _CORE_TYPES or _is_extended(type_, step, conversation):
        return True
    return f"sends a result of type {shown(type_)}, which no extension of both sides defines"


def _is_extended(type_: str, step: Step, conversation: "Conversation") -> bool:
    """What an unknown extension defines cannot be known; that both sides have one can."""
    if step.exchange is None:
        return True
    ours = _extensions(conversation.capabilities(CLIENT, step.exchange))
    theirs = _extensions(conversation.parties[SERVER].capabilities)
    if type_ == "task":
        # Whether the server advertised it is for tasks-ext.capability.server to say.
        return ours is None or _TASKS in ours
    return ours is None or (bool(ours) if theirs is None else not ours.isdisjoint(theirs))


def _extensions(declared: frozenset[str] | None) -> frozenset[str] | None:
    if declared is None:
        return None
    return frozenset(path for path in declared if path.startswith("extensions."))


# -- discovery


@check("discover.result.required-fields", by=SERVER, kind=RESULT, on=_DISCOVER)
def discovery_names_versions_and_capabilities(step: Step, conversation: "Conversation") -> Outcome:
    # The type of the result and its cache hints have requirements of their own.
    result = complete_result(step)
    return None if result is None else each(_required(result))


def _required(result: dict[str, Any]) -> Iterator[Finding]:
    yield has(result, "a discovery", "capabilities", "object")
    declared = object_of(result.get("capabilities"))
    for name in declared.keys() & _CAPABILITIES:
        yield may_have(declared, "capabilities", name, "object")
    found = has(result, "a discovery", "supportedVersions", "array")
    yield found
    for index, version in enumerate(result["supportedVersions"] if found is True else ()):
        yield isinstance(version, str) or f"sends supportedVersions[{index}], which is not a string"


@check("discover.result.server-info", by=SERVER, kind=RESULT, on=_DISCOVER)
def discovery_names_the_server(step: Step, conversation: "Conversation") -> Outcome:
    if complete_result(step) is None:
        return None
    return _SERVER_INFO in meta_of(step.body) or "answers server/discover without naming itself"


# -- deprecated


@check("deprecated.include-context.not-used", by=SERVER, kind=RESULT)
def context_of_servers_is_not_asked_for(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        params["includeContext"] not in ("thisServer", "allServers")
        or f"sends {place} with includeContext {params['includeContext']}, which is deprecated"
        for place, method, params in questions(step)
        if method == "sampling/createMessage" and "includeContext" in params
    )
