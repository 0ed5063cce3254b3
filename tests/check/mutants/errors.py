"""Servers that answer what went wrong in a wrong way, or fall over it."""

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


@mutant("errors.code.parse-error")
def calls_bad_text_an_internal_error(message: Message, request: Message) -> Message:
    return with_code(message, -32700, -32603)


@mutant("errors.code.parse-error")
def says_nothing_to_bad_text(message: Message, request: Message) -> Sent:
    return None if (message.get("error") or {}).get("code") == -32700 else message


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
