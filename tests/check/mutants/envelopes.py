"""Further servers whose messages are wrong as such: area jsonrpc, broken in other ways."""

from collections.abc import Callable
from typing import Any

import msgspec

from check.faults import named
from check.mutants.foundation import Between, Message, Sent, few, interloper, mutant, saying

PING = {"jsonrpc": "2.0", "id": "own", "method": "ping"}
ROOTS = {"jsonrpc": "2.0", "id": "own", "method": "roots/list"}
LOG = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
NEW = "2025-11-25"


def says(id: str, name: str, *messages: Any, after: str = "tools/list", **settings: Any) -> None:
    """Register a server that says something of its own."""

    def hook(wire: Between) -> None:
        saying(*messages, after=after)(wire)

    interloper(id, **settings)(named(name, hook))


def without(message: Message, *names: str) -> Message:
    return {name: value for name, value in message.items() if name not in names}


def answers(
    id: str,
    name: str,
    change: Callable[[Message], Sent],
    *,
    method: str = "prompts/list",
    is_meant: Callable[[Message, Message], bool] = lambda message, request: True,
    **settings: Any,
) -> None:
    """Register a server whose answers to a method are changed as a whole."""

    def changed(message: Message, request: Message) -> Sent:
        is_due = request.get("method") == method and is_meant(message, request)
        return change(message) if is_due else message

    mutant(id, **settings)(named(name, changed))


def fails(message: Message, request: Message) -> bool:
    return "error" in message


# -- the version

answers(
    "jsonrpc.message.version-2-0", "writes_the_version_as_a_number", lambda m: m | {"jsonrpc": 2.0}
)
answers(
    "jsonrpc.message.version-2-0",
    "leaves_the_version_of_errors_out",
    lambda m: without(m, "jsonrpc"),
    method="resources/read",
    is_meant=fails,
    areas=["errors"],
)
says(
    "jsonrpc.message.version-2-0",
    "leaves_the_version_of_notifications_out",
    without(CHANGED, "jsonrpc"),
)
says("jsonrpc.message.version-2-0", "asks_with_version_two", PING | {"jsonrpc": "2"})

# -- requests of the server

says("jsonrpc.request.id-present", "pings_without_an_id", without(PING, "id"))
says(
    "jsonrpc.request.id-present",
    "samples_without_an_id",
    {
        "jsonrpc": "2.0",
        "method": "sampling/createMessage",
        "params": {"messages": [], "maxTokens": 1},
    },
    after="tools/call",
)
says("jsonrpc.request.id-string-or-integer", "asks_with_an_object_as_id", PING | {"id": {"n": 1}})
says(
    "jsonrpc.request.id-string-or-integer",
    "asks_with_a_boolean_as_id",
    ROOTS | {"id": True},
    after="tools/call",
)
says(
    "jsonrpc.request.id-not-null",
    "asks_for_roots_with_null_as_id",
    ROOTS | {"id": None},
    after="tools/call",
)
says("jsonrpc.request.id-not-null", "asks_with_null_after_a_valid_id", PING, PING | {"id": None})
says("jsonrpc.request.id-unique", "uses_an_id_for_two_methods", PING, ROOTS)
says(
    "jsonrpc.request.id-unique",
    "uses_an_id_again_for_each_call",
    PING | {"id": 1},
    after="tools/call",
)
says("jsonrpc.request.method-string", "asks_for_null", PING | {"method": None})
says(
    "jsonrpc.request.method-string",
    "asks_for_an_object",
    PING | {"method": {"name": "ping"}},
    after="tools/call",
)
says(
    "jsonrpc.request.params-object",
    "asks_with_text_as_params",
    PING | {"params": "now"},
    after="tools/call",
)
says("jsonrpc.request.params-object", "asks_with_null_as_params", ROOTS | {"params": None})

# -- notifications of the server

says("jsonrpc.notification.no-id", "announces_changes_with_an_id", CHANGED | {"id": 99})
says(
    "jsonrpc.notification.no-id",
    "reports_progress_with_an_id",
    {
        "jsonrpc": "2.0",
        "id": "own",
        "method": "notifications/progress",
        "params": {"progressToken": "own", "progress": 1},
    },
    after="tools/call",
)
says("jsonrpc.notification.method-string", "notifies_of_null", CHANGED | {"method": None})
says(
    "jsonrpc.notification.method-string",
    "notifies_of_a_list",
    CHANGED | {"method": ["tools"]},
    after="tools/call",
)
says(
    "jsonrpc.notification.params-object",
    "notifies_with_text_as_params",
    CHANGED | {"params": "tools"},
)
says(
    "jsonrpc.notification.params-object",
    "notifies_with_null_as_params",
    CHANGED | {"params": None},
    after="tools/call",
)
says("jsonrpc.notification.params-object", "logs_with_text_as_params", LOG | {"params": "hello"})

# -- answers

ECHO = "jsonrpc.response.id-echo"


def renamed(id: Any) -> Any:
    return str(id) if isinstance(id, int) else id


@interloper(ECHO)
def makes_text_of_all_ids(wire: Between) -> None:
    def from_server(message: Message, request: Message) -> Sent:
        if request.get("method") == "tools/list" and len(wire.requests) > 6:
            return message | {"id": renamed(message["id"])}
        return message

    wire.from_server = from_server


def misnames(name: str, rename: Callable[[Any], Any], **settings: Any) -> None:
    """Register a server that answers some text ids with another one."""

    def change(message: Message, request: Message) -> Sent:
        if "method" in message or not isinstance(message.get("id"), str):
            return message
        return message | {"id": rename(message["id"])}

    mutant(ECHO, **settings)(named(name, change))


misnames("writes_ids_in_capitals", str.upper)
misnames("wraps_ids_in_a_list", lambda text: [text])
misnames("answers_text_ids_with_null", lambda text: None)

XOR = "jsonrpc.response.result-xor-error"
answers(
    XOR,
    "adds_an_error_that_is_null",
    lambda m: m | {"error": None},
    is_meant=lambda message, request: "result" in message,
)
answers(XOR, "answers_with_an_id_alone", lambda m: without(m, "result"))
answers(
    XOR,
    "adds_a_result_that_is_null_to_an_error",
    lambda m: m | {"result": None},
    method="resources/read",
    is_meant=fails,
    areas=["errors"],
)

FORM = "jsonrpc.error.code-and-message"
CODE = "jsonrpc.error.code-integer"


def faults(id: str, name: str, change: Callable[[Message], Any], **settings: Any) -> None:
    """Register a server that spoils the error of a missing resource."""
    answers(
        id,
        name,
        lambda message: message | {"error": change(message["error"])},
        method="resources/read",
        is_meant=fails,
        areas=["errors"],
        **settings,
    )


faults(FORM, "writes_errors_as_text", lambda error: error["message"])
faults(FORM, "leaves_the_code_of_errors_out", lambda error: {"message": "no such resource"})
faults(FORM, "writes_messages_of_errors_as_null", lambda error: error | {"message": None})
faults(CODE, "writes_codes_as_numbers_in_text", lambda error: error | {"code": "-32002"})
faults(CODE, "writes_codes_as_fractions", lambda error: error | {"code": -32002.5})
faults(CODE, "writes_codes_as_null", lambda error: error | {"code": None})
answers(
    "jsonrpc.response.result-member",
    "answers_with_null",
    lambda m: m | {"result": None},
    method="logging/setLevel",
    revision=NEW,
    areas=["logging"],
)
answers(
    "jsonrpc.response.result-member",
    "answers_with_a_list",
    lambda m: m | {"result": m["result"]["prompts"]},
    revision=NEW,
)
answers(
    "jsonrpc.response.result-member",
    "answers_with_true",
    lambda m: m | {"result": True},
    method="resources/subscribe",
    revision=NEW,
    areas=["resources"],
)

UNREADABLE = "jsonrpc.error.id-echoed-or-unreadable"


@mutant(UNREADABLE, revision=NEW)
def wraps_ids_in_a_list_in_2025_11_25(message: Message, request: Message) -> Sent:
    if "method" not in message and isinstance(message.get("id"), str):
        return message | {"id": [message["id"]]}
    return message


@mutant(UNREADABLE, revision=NEW)
def writes_ids_in_capitals_in_2025_11_25(message: Message, request: Message) -> Sent:
    if "method" not in message and isinstance(message.get("id"), str):
        return message | {"id": message["id"].upper()}
    return message


@mutant(UNREADABLE, revision=NEW, areas=["errors"])
def complains_without_an_id(message: Message, request: Message) -> Sent:
    if "no-such-method" in str(request.get("method")):
        return [message | {"id": None}, message]
    return message


# -- encoding


@mutant("jsonrpc.encoding.utf8")
def writes_latin_1_in_results(message: Message, request: Message) -> Sent:
    if request.get("method") == "tools/call" and "ok" in str(message.get("result")):
        return msgspec.json.encode(message).replace(b'"ok"', b'"\xfc"')
    return message


@mutant("jsonrpc.encoding.utf8")
def cuts_a_character_in_two(message: Message, request: Message) -> Sent:
    if request.get("method") == "prompts/list":
        return msgspec.json.encode(message).replace(b'"Joke"', b'"Joke \xf0\x9f"')
    return message


# -- one answer to each request

ANSWERED = "jsonrpc.request.answered"


def silent(name: str, is_meant: Callable[[Message], bool], **settings: Any) -> None:
    """Register a server that leaves some requests unanswered."""

    def change(message: Message, request: Message) -> Sent:
        return None if request and is_meant(request) else message

    mutant(ANSWERED, **settings)(named(name, change))


silent(
    "does_not_answer_the_id_zero",
    lambda request: request["id"] == 0 and request["method"] == "tools/list",
)
silent(
    "does_not_answer_negative_ids",
    lambda request: isinstance(request["id"], int) and request["id"] < 0,
)
silent(
    "does_not_answer_text_ids_that_are_not_ascii", lambda request: not str(request["id"]).isascii()
)
silent("does_not_answer_large_requests", lambda request: len(str(request.get("params"))) > 100_000)


@mutant(ANSWERED, areas=["errors"])
def answers_twice_after_an_error(message: Message, request: Message) -> Sent:
    return [message, message] if "no-such-method" in str(request.get("method")) else message


@interloper(ANSWERED)
def answers_once_more_later(wire: Between) -> None:
    def from_server(message: Message, request: Message) -> Sent:
        if request.get("method") == "prompts/list":
            wire.later(0.01, lambda: wire.to_client(message))
        return message

    wire.from_server = from_server


# -- notifications of the client

QUIET = "jsonrpc.notification.not-answered"


def replying(name: str, method: str, reply: Message, **settings: Any) -> None:
    """Register a server that answers a notification."""

    def hook(wire: Between) -> None:
        def from_client(message: Message) -> Sent:
            if message.get("method") == method:
                wire.later(0, lambda: wire.to_client(reply))
            return message

        wire.from_client = from_client

    interloper(QUIET, **settings)(named(name, hook))


OK = {"jsonrpc": "2.0", "id": None, "result": {}}
NO_ID = {ECHO: "a result needs an id"}
replying("confirms_unknown_notifications", "accord-check/unknown", OK, also=NO_ID)
replying(
    "confirms_notifications_without_an_id",
    "notifications/accord-check/unknown",
    without(OK, "id"),
    also=NO_ID,
)


def refusing_the_end_of_the_opening(name: str, text: str, code: int) -> None:
    """Register a server that does not know the first notification, and says so a moment later."""

    def hook(wire: Between) -> None:
        waiting: list[Message] = []

        def from_client(message: Message) -> Sent:
            if message.get("method") == "notifications/initialized":
                error = {"code": code, "message": text}
                waiting.append({"jsonrpc": "2.0", "id": None, "error": error})
            elif waiting:
                wire.to_client(waiting.pop())
            return message

        wire.from_client = from_client

    interloper(QUIET)(named(name, hook))


refusing_the_end_of_the_opening("does_not_find_the_end_of_the_opening", "not found", -32601)
refusing_the_end_of_the_opening(
    "does_not_want_the_end_of_the_opening", "what is notifications/initialized?", -32000
)


@interloper(QUIET)
def refuses_the_end_of_the_opening_without_an_id(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        if message.get("method") == "notifications/initialized":
            error = {"code": -32601, "message": "Method not found: notifications/initialized"}
            wire.to_client({"jsonrpc": "2.0", "error": error})
        return message

    wire.from_client = from_client


@interloper(QUIET, also={ECHO: "no request has the id"})
def answers_notifications_under_an_id_of_its_own(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        if message.get("method") == "accord-check/unknown":
            wire.to_client({"jsonrpc": "2.0", "id": "e7a1", "result": {}})
        return message

    wire.from_client = from_client


# -- batches

BATCH = {"revision": "2025-03-26"}
says("jsonrpc.message.version-2-0", "sends_a_batch_within_a_batch", [[PING]], **BATCH)
says("jsonrpc.message.version-2-0", "sends_a_batch_of_numbers", [1, 2], **BATCH)
says("jsonrpc.batch.removed", "sends_notifications_in_a_batch", [CHANGED, CHANGED])
says(
    "jsonrpc.batch.removed",
    "sends_requests_in_a_batch",
    [PING, PING | {"id": "own-2"}],
    after="tools/call",
)
says("jsonrpc.batch.removed", "sends_batches_in_2025_11_25", [CHANGED], revision=NEW)


def batching(name: str, answer: Callable[[list[Message]], Any]) -> None:
    """Register a server that answers the batches of clients in its own way."""

    def hook(wire: Between) -> None:
        usual = wire.send

        async def send(data: bytes) -> None:
            batch = msgspec.json.decode(data)
            if not isinstance(batch, list):
                await usual(data)
            elif (reply := answer(batch)) is not None:
                wire.to_client(reply)

        wire.send = send  # type: ignore[method-assign]

    interloper("jsonrpc.batch.receive", **BATCH)(named(name, hook))


batching("takes_no_notice_of_batches", lambda batch: None)
batching(
    "refuses_batches",
    lambda batch: {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "invalid"}},
)
batching(
    "answers_the_first_of_a_batch_alone",
    lambda batch: [{"jsonrpc": "2.0", "id": batch[0]["id"], "result": {"tools": []}}],
)


@interloper("jsonrpc.batch.receive", **BATCH)
def refuses_batches_with_unknown_notifications(wire: Between) -> None:
    def from_server(message: Message, request: Message) -> Sent:
        has_batch = wire.shared.get("unknown")
        return None if has_batch and str(message.get("id")).startswith("batch-") else message

    def from_client(message: Message) -> Sent:
        if message.get("method") == "notifications/accord-check/unknown":
            wire.shared["unknown"] = True
        return message

    wire.from_server, wire.from_client = from_server, from_client


few(
    "a batch is wrong by its length or its mixture; its messages have other requirements",
    "jsonrpc.batch.send-optional",
)
