"""Servers whose messages are wrong as such: areas jsonrpc and meta."""

from typing import Any

import msgspec

from check.mutants.foundation import (
    Between,
    Message,
    Sent,
    interloper,
    mutant,
    params_of,
    saying,
    unbreakable,
)

PING = {"jsonrpc": "2.0", "id": "own", "method": "ping"}
LOG = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}


# -- requests of the server


@interloper("jsonrpc.request.id-present")
def asks_without_an_id(wire: Between) -> None:
    saying({"jsonrpc": "2.0", "method": "roots/list"})(wire)


@interloper("jsonrpc.request.id-string-or-integer")
def asks_with_a_fraction_as_id(wire: Between) -> None:
    saying(PING | {"id": 1.5})(wire)


@interloper("jsonrpc.request.id-not-null")
def asks_with_null_as_id(wire: Between) -> None:
    saying(PING | {"id": None})(wire)


@interloper("jsonrpc.request.id-unique")
def uses_an_id_twice(wire: Between) -> None:
    saying(PING, PING)(wire)


@interloper("jsonrpc.request.method-string")
def asks_for_a_number(wire: Between) -> None:
    saying(PING | {"method": 7})(wire)


@interloper("jsonrpc.request.params-object")
def asks_with_a_list_of_params(wire: Between) -> None:
    saying(PING | {"params": [1]})(wire)


# -- notifications of the server


@interloper("jsonrpc.notification.no-id")
def logs_with_an_id(wire: Between) -> None:
    saying(LOG | {"id": "own"})(wire)


@interloper("jsonrpc.notification.method-string")
def notifies_with_a_number(wire: Between) -> None:
    saying({"jsonrpc": "2.0", "method": 7})(wire)


@interloper("jsonrpc.notification.params-object")
def notifies_with_a_list_of_params(wire: Between) -> None:
    saying({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": [1]})(wire)


# -- answers


@mutant("jsonrpc.message.version-2-0")
def leaves_the_version_out(message: Message, request: Message) -> Message:
    if request.get("method") == "tools/list":
        del message["jsonrpc"]
    return message


@mutant("jsonrpc.message.version-2-0")
def speaks_version_1(message: Message, request: Message) -> Message:
    if request.get("method") == "tools/list":
        message["jsonrpc"] = "1.0"
    return message


@mutant(
    "jsonrpc.response.id-echo",
    also={"jsonrpc.request.answered": "the number is an id of its own, answered twice then"},
)
def makes_numbers_of_ids(message: Message, request: Message) -> Message:
    if "method" not in message and isinstance(message["id"], str) and message["id"].isdigit():
        message["id"] = int(message["id"])
    return message


@mutant("jsonrpc.response.id-echo")
def cuts_ids_short(message: Message, request: Message) -> Message:
    if "method" not in message and isinstance(message["id"], str):
        message["id"] = message["id"][:8]
    return message


@interloper("jsonrpc.request.answered")
def forgets_lists_during_calls(wire: Between) -> None:
    running: set[Any] = set()

    def from_client(message: Message) -> Sent:
        if message.get("method") == "tools/call":
            running.add(message.get("id"))
        is_lost = message.get("method") == "tools/list" and len(running) > 3
        return None if is_lost else message

    def from_server(message: Message, request: Message) -> Sent:
        if request.get("method") != "tools/call" or "method" in message:
            return message

        def answer() -> None:
            running.discard(message.get("id"))
            wire.to_client(message)

        wire.later(0.05, answer)
        return None

    wire.from_client = from_client
    wire.from_server = from_server


@mutant("jsonrpc.response.result-xor-error", areas=["errors"])
def adds_a_result_to_an_error(message: Message, request: Message) -> Message:
    if "no-such-method" in str(request.get("method")):
        message["result"] = {}
    return message


@mutant("jsonrpc.error.code-and-message", areas=["errors"])
def leaves_the_message_of_errors_out(message: Message, request: Message) -> Message:
    if request.get("method") == "resources/read" and "error" in message:
        del message["error"]["message"]
    return message


@mutant("jsonrpc.error.code-integer", areas=["errors"])
def makes_text_of_codes(message: Message, request: Message) -> Message:
    if "uri" in params_of(request) and "error" in message:
        message["error"]["code"] = "bad"
    return message


@mutant("jsonrpc.encoding.utf8")
def writes_latin_1(message: Message, request: Message) -> Sent:
    if message.get("method") == "notifications/message":
        message["params"]["data"] = "@"
        return msgspec.json.encode(message).replace(b"@", b"\xe4")
    return message


@interloper("jsonrpc.request.answered")
def forgets_a_request_among_many(wire: Between) -> None:
    def from_server(message: Message, request: Message) -> Sent:
        asked = [each for each in wire.requests.values() if each["method"] == "tools/list"]
        # The last of them is not there yet while the first are answered.
        return None if len(asked) > 15 and request == asked[15] else message

    wire.from_server = from_server


@mutant("jsonrpc.request.answered")
def answers_twice(message: Message, request: Message) -> Sent:
    return [message, message] if request.get("method") == "tools/list" else message


@interloper("jsonrpc.notification.not-answered")
def answers_notifications(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        if message.get("method") == "notifications/accord-check/unknown":
            error = {"code": -32601, "message": "method not found"}
            wire.to_client({"jsonrpc": "2.0", "id": None, "error": error})
        return message

    wire.from_client = from_client


# -- batches


@interloper("jsonrpc.batch.send-optional", revision="2025-03-26")
def sends_an_empty_batch(wire: Between) -> None:
    saying([])(wire)


@interloper("jsonrpc.batch.send-optional", revision="2025-03-26")
def mixes_requests_and_answers(wire: Between) -> None:
    def from_server(message: Message, request: Message) -> Sent:
        if request.get("method") != "prompts/list":
            return message
        return [[message, PING | {"id": f"own-{message['id']}"}]]

    wire.from_client = lambda message: (
        None if str(message.get("id")).startswith("own-") else message
    )
    wire.from_server = from_server


@mutant("jsonrpc.batch.receive", revision="2025-03-26")
def answers_half_a_batch(message: Message, request: Message) -> Sent:
    return None if str(message.get("id")).startswith("batch-") else message


@mutant("jsonrpc.batch.removed")
def sends_batches(message: Message, request: Message) -> Sent:
    return [[message]] if request.get("method") == "prompts/list" else message


# -- _meta


def first_tool(message: Message, request: Message) -> Message:
    tools = (
        message.get("result", {}).get("tools") if request.get("method") == "tools/list" else None
    )
    return tools[0] if tools else {}


def with_meta(key: str):
    def change(message: Message, request: Message) -> Message:
        if request.get("method") == "tools/call" and "result" in message:
            message["result"]["_meta"] = {key: 1}
        return message

    return change


@mutant("meta.field.reserved")
def makes_a_list_of_meta(message: Message, request: Message) -> Message:
    if request.get("method") == "tools/call" and "result" in message:
        message["result"]["_meta"] = [1]
    return message


@mutant("meta.key.two-segments")
def uses_three_segments(message: Message, request: Message) -> Message:
    return with_meta("org.example/a/b")(message, request)


@mutant("meta.prefix.reserved")
def uses_a_reserved_prefix(message: Message, request: Message) -> Message:
    return with_meta("mcp.dev/own")(message, request)


@mutant("meta.key.label-grammar")
def uses_a_label_that_begins_with_a_digit(message: Message, request: Message) -> Message:
    return with_meta("1org.example/a")(message, request)


@mutant("meta.key.name-grammar")
def uses_a_name_that_ends_in_a_dash(message: Message, request: Message) -> Message:
    return with_meta("org.example/a-")(message, request)


@mutant("meta.field.more-types")
def makes_text_of_the_meta_of_a_tool(message: Message, request: Message) -> Message:
    first_tool(message, request)["_meta"] = "text"
    return message


@mutant("meta.title.display-name")
def makes_a_number_of_its_title(message: Message, request: Message) -> Message:
    if request.get("method") == "initialize" and "result" in message:
        message["result"]["serverInfo"]["title"] = 7
    return message


unbreakable(
    "it takes a person to see this",
    "meta.keywords.bcp14",
    "meta.schema.typescript-source",
    "meta.reserved.no-assumptions",
)
