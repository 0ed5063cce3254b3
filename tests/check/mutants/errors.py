"""Servers that answer what went wrong in a wrong way, or fall over it."""

from collections.abc import Callable
from typing import Any

from check.faults import faults, named
from check.mutants.foundation import (
    Between,
    Message,
    Sent,
    interloper,
    mutant,
    unbreakable,
)


def with_code(message: Message, old: int, new: int) -> Message:
    if (message.get("error") or {}).get("code") == old:
        message["error"]["code"] = new
    return message


faults(
    mutant("errors.code.parse-error"),
    calls_bad_text_an_internal_error=lambda message, request: with_code(message, -32700, -32603),
    says_nothing_to_bad_text=lambda message, request: (
        None if (message.get("error") or {}).get("code") == -32700 else message
    ),
)


@mutant("errors.code.invalid-request")
def calls_a_bad_request_an_internal_error(message: Message, request: Message) -> Message:
    return with_code(message, -32600, -32603)


@mutant("errors.code.method-not-found")
def calls_an_unknown_method_an_internal_error(message: Message, request: Message) -> Message:
    return with_code(message, -32601, -32603)


@mutant("errors.code.invalid-params")
def calls_bad_parameters_an_internal_error(message: Message, request: Message) -> Message:
    if not request.get("params"):
        return with_code(message, -32602, -32603)
    return message


@mutant("errors.code.resource-not-found")
def calls_a_missing_resource_an_internal_error(message: Message, request: Message) -> Message:
    return with_code(message, -32002, -32603)


@mutant("errors.resource-not-found.data-uri")
def names_another_resource_as_missing(message: Message, request: Message) -> Message:
    if (message.get("error") or {}).get("code") == -32002:
        message["error"]["data"] = {"uri": "desk://other"}
    return message


@interloper("practice.server.survives-errors")
def ends_at_bad_text(wire: Between) -> None:
    def from_server(message: Message, request: Message) -> Sent:
        if (message.get("error") or {}).get("code") == -32700:
            wire.crash()
        return message

    wire.from_server = from_server


unbreakable("a check cannot make a server fail within", "errors.code.internal-error")
unbreakable("a permission to say more", "errors.invalid-params.data-details")


# -- the same rows, broken in other ways


def answering(
    id: str, name: str, is_meant: Callable[[Message], bool], reply: dict[str, Any], **settings: Any
) -> None:
    """Register a server with another answer to some requests."""

    def change(message: Message, request: Message) -> Message:
        if request and is_meant(request):
            return {"jsonrpc": "2.0", "id": message["id"], **reply}
        return message

    mutant(id, **settings)(named(name, change))


def failure(code: int) -> dict[str, Any]:
    return {"error": {"code": code, "message": "no"}}


def is_unknown(request: Message) -> bool:
    return "no-such-method" in request["method"]


def lacks_params(method: str) -> Callable[[Message], bool]:
    return lambda request: request["method"] == method and not request.get("params")


def is_missing(request: Message) -> bool:
    return request["method"] == "resources/read" and "no/such" in str(request.get("params"))


METHOD, PARAMS = "errors.code.method-not-found", "errors.code.invalid-params"
MISSING, URI = "errors.code.resource-not-found", "errors.resource-not-found.data-uri"
answering(METHOD, "calls_an_unknown_method_an_invalid_request", is_unknown, failure(-32600))
answering(METHOD, "answers_an_unknown_method_with_an_empty_result", is_unknown, {"result": {}})
answering(METHOD, "refuses_an_unknown_method_with_the_status_of_a_page", is_unknown, failure(404))
answering(
    PARAMS,
    "calls_a_missing_uri_an_invalid_request",
    lacks_params("resources/read"),
    failure(-32600),
)
answering(
    PARAMS, "calls_a_missing_name_an_error_of_its_own", lacks_params("prompts/get"), failure(-32000)
)
answering(
    PARAMS, "calls_nothing_successfully", lacks_params("tools/call"), {"result": {"content": []}}
)
answering(MISSING, "reads_nothing_for_a_missing_resource", is_missing, {"result": {"contents": []}})
answering(MISSING, "calls_a_missing_resource_an_unknown_method", is_missing, failure(-32000))
answering(MISSING, "refuses_a_missing_resource_with_the_status_of_a_page", is_missing, failure(404))


def naming(name: str, data: Any) -> None:
    """Register a server whose error for a missing resource names another one."""
    answering(URI, name, is_missing, {"error": {"code": -32002, "message": "no", "data": data}})


naming("names_a_part_of_the_missing_resource", {"uri": "no/such/resource"})
naming("names_null_as_missing", {"uri": None})


def malformed(id: str, name: str, old: int, change_: Callable[[Message], Sent]) -> None:
    """Register a server that answers malformed messages otherwise."""

    def change(message: Message, request: Message) -> Sent:
        is_proper = request.get("jsonrpc") == "2.0" and isinstance(request.get("method"), str)
        is_due = (message.get("error") or {}).get("code") == old and not is_proper
        return change_(message) if is_due else message

    mutant(id)(named(name, change))


PARSE, REQUEST = "errors.code.parse-error", "errors.code.invalid-request"
malformed(
    PARSE, "calls_bad_text_an_invalid_request", -32700, lambda m: with_code(m, -32700, -32600)
)
malformed(REQUEST, "calls_a_bad_request_bad_text", -32600, lambda m: with_code(m, -32600, -32700))
malformed(
    REQUEST, "calls_a_bad_request_an_unknown_method", -32600, lambda m: with_code(m, -32600, -32601)
)
malformed(REQUEST, "says_nothing_to_a_bad_request", -32600, lambda m: None)


def ending(name: str, is_meant: Callable[[Message], bool]) -> None:
    """Register a server that ends when it gets a message."""

    def hook(wire: Between) -> None:
        def from_client(message: Message) -> Sent:
            if is_meant(message):
                wire.crash("the server ended with exit code 1")
                return None
            return message

        wire.from_client = from_client

    hook.__name__ = name
    interloper(
        "practice.server.survives-errors", areas=["errors", "tools", "jsonrpc", "resources"]
    )(hook)


ending("ends_at_an_unknown_method", lambda m: "no-such-method" in str(m.get("method")))
ending("ends_at_an_unknown_tool", lambda m: "no-such-tool" in str(m.get("params")))
ending("ends_at_an_answer_that_it_did_not_ask_for", lambda m: m.get("id") == 987654)
ending("ends_at_params_that_are_a_number", lambda m: m.get("params") == 7)
ending(
    "ends_at_a_uri_that_is_none",
    lambda m: (
        "\\no"
        in str((m.get("params") or {}).get("uri") if isinstance(m.get("params"), dict) else "")
    ),
)
ending("ends_at_an_unknown_notification", lambda m: m.get("method") == "accord-check/unknown")
