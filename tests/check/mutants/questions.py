"""Servers that ask wrongly: areas sampling, elicitation and roots."""

from typing import Any

from check.faults import faults, named
from check.mutants.foundation import Between, Message, Sent, interloper, mutant, params_of
from check.mutants.spoiling import ABSENT, notice, put

SAMPLE, ELICIT = "sampling/createMessage", "elicitation/create"
faults(
    notice("sampling.create.request-fields", SAMPLE),
    does_not_limit_the_tokens=put("maxTokens", ABSENT),
    lets_the_system_ask=put("messages.0.role", "system"),
    prefers_speed_beyond_measure=put("modelPreferences", {"speedPriority": 7}),
)


@notice("sampling.create.request-fields", SAMPLE, revision="2025-11-25")
def does_not_limit_the_tokens_later(params: dict[str, Any]) -> None:
    params.pop("maxTokens", None)


@interloper("ping.response.prompt")
def answers_no_ping_while_it_asks(wire: Between) -> None:
    asked: set[Any] = set()

    def from_client(message: Message) -> Sent:
        if "method" not in message:
            asked.discard(message.get("id"))
        return None if message.get("method") == "ping" and asked else message

    def from_server(message: Message, request: Message) -> Sent:
        if message.get("method") in (SAMPLE, ELICIT):
            asked.add(message["id"])
        return message

    wire.from_client = from_client
    wire.from_server = from_server


faults(
    notice("elicitation.schema.flat-primitive", ELICIT),
    asks_for_a_list=put("requestedSchema.properties.days", {"type": "array", "items": {}}),
    asks_without_a_schema=put("requestedSchema", ABSENT),
    asks_for_an_object_within=put("requestedSchema.properties.inner", {"type": "object"}),
)


@notice("elicitation.enum.enum-names", ELICIT)
def names_its_choices_in_another_way(params: dict[str, Any]) -> None:
    choices = [{"const": "window", "title": "Window"}]
    params["requestedSchema"]["properties"]["side"] = {"type": "string", "oneOf": choices}


@notice("elicitation.enum.enum-names", ELICIT)
def names_fewer_choices_than_it_has(params: dict[str, Any]) -> None:
    choices = {"enum": ["window", "aisle"], "enumNames": ["Window"]}
    params["requestedSchema"]["properties"]["side"] = {"type": "string", **choices}


@notice("elicitation.enum.enum-names", ELICIT)
def offers_numbers(params: dict[str, Any]) -> None:
    params["requestedSchema"]["properties"]["row"] = {"type": "integer", "enum": [1, 2]}


VALIDATED = "elicitation.answers.validated"


def taking(name: str, said: str) -> None:
    """Register a server that goes on where an answer is invalid."""

    def change(message: Message, request: Message) -> Message:
        result = message.get("result") or {}
        if params_of(request).get("name") == "get_choice" and result.get("isError"):
            text = {"type": "text", "text": said}
            message["result"] = {"content": [text], "isError": False}
        return message

    mutant(VALIDATED)(named(name, change))


taking("takes_any_answer", "row accord-check-wrong, window")
taking("takes_any_row", "row accord-check-wrong")
taking("takes_any_side", "row 1, accord-check-wrong")


def asking_otherwise(id: str, method: str, other: str) -> None:
    """Register a server that asks by another method."""

    def asks_by_another_name(wire: Between) -> None:
        def from_server(message: Message, request: Message) -> Sent:
            return message | {"method": other} if message.get("method") == method else message

        wire.from_server = from_server

    interloper(id)(asks_by_another_name)


asking_otherwise("roots.list.method", "roots/list", "roots/get")
asking_otherwise("sampling.create.method", SAMPLE, "sampling/create")
asking_otherwise("elicitation.create.method", ELICIT, "elicitation/ask")


@notice("elicitation.mode.supported-only", ELICIT, revision="2025-11-25")
def sends_the_user_to_a_page(params: dict[str, Any]) -> None:
    del params["requestedSchema"]
    params.update(mode="url", url="https://example.com/", elicitationId="one")


@interloper("elicitation.mode.supported-only", revision="2025-11-25", of="from_client")
def asks_by_form_whatever_was_declared(message: Message) -> Sent:
    if message.get("method") == "initialize":
        declared = params_of(message).get("capabilities", {})
        if declared.get("elicitation"):
            declared["elicitation"] = {"form": {}}
    return message


@notice("sampling.tools.not-without-capability", SAMPLE, revision="2025-11-25")
def offers_tools_to_any_model(params: dict[str, Any]) -> None:
    params["tools"] = [{"name": "look", "inputSchema": {"type": "object"}}]


# -- requests without an answer


@mutant("timeouts.cancel-by-notification")
def gives_up_without_a_word(message: Message, request: Message) -> Sent:
    return None if message.get("method") == "notifications/cancelled" else message


@interloper("cancellation.sender.ignores-late")
def falls_over_an_answer_that_comes_late(wire: Between) -> None:
    given_up: list[Any] = []

    def from_server(message: Message, request: Message) -> Sent:
        if message.get("method") == "notifications/cancelled":
            given_up.append(params_of(message).get("requestId"))
        return message

    def from_client(message: Message) -> Sent:
        if "method" not in message and message.get("id") in given_up:
            wire.crash()
        return message

    wire.from_server, wire.from_client = from_server, from_client
