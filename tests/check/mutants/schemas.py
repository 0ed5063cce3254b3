"""Servers that read schemas by the wrong dialect, and that misuse the error for pages."""

from collections.abc import Callable
from typing import Any

from check.faults import named
from check.mutants.foundation import Between, Message, Sent, params_of
from check.mutants.schema_server import server
from check.mutants.stateless_base import CALL, answering, error, hooked, saying, text

DEFAULT, SUPPORTS = "schema.dialect.default-2020-12", "schema.dialect.supports-2020-12"
AS_DECLARED = "schema.dialect.validated-as-declared"
ALSO = {
    DEFAULT: {DEFAULT: "the schema declares no dialect"},
    SUPPORTS: {SUPPORTS: "the dialect is the one that everyone supports"},
    AS_DECLARED: {AS_DECLARED: "the schema declares its dialect"},
}


def arguments_of(message: Message) -> dict[str, Any]:
    found = params_of(message).get("arguments")
    return found if isinstance(found, dict) else {}


def lenient(
    id: str, name: str, tool: str, is_taken: Callable[[dict[str, Any]], bool], **settings: Any
) -> None:
    """Register a server that takes arguments for valid that its schema refuses."""

    def make(message: Message) -> Message:
        if settings.get("revision") == "2025-11-25":
            content = [{"type": "text", "text": "done"}]
            result = {"content": content, "isError": False}
            return {"jsonrpc": "2.0", "id": message["id"], "result": result}
        return text(message)

    make.__name__ = name

    def is_meant(message: Message) -> bool:
        called = params_of(message).get("name")
        return message.get("method") == CALL and called == tool and is_taken(arguments_of(message))

    answering(id, is_meant, server, **settings)(make)


def is_wrong_pair(value: Any) -> bool:
    """Return whether a list of two has items of the wrong types."""
    is_pair = isinstance(value, list) and len(value) == 2
    return is_pair and not (isinstance(value[0], str) and isinstance(value[1], int))


OLD = {"revision": "2025-11-25"}
lenient(
    DEFAULT,
    "knows_no_prefix_items",
    "get_route",
    lambda it: is_wrong_pair(it.get("legs")),
    also=ALSO[SUPPORTS],
)
lenient(
    DEFAULT,
    "knows_no_dependent_required",
    "get_payment",
    lambda it: isinstance(it.get("card"), str),
    also=ALSO[SUPPORTS],
)
lenient(
    DEFAULT,
    "looks_at_the_first_item_alone",
    "get_route",
    lambda it: is_wrong_pair(it.get("legs")) and isinstance(it["legs"][0], str),
    also=ALSO[SUPPORTS],
    **OLD,
)
lenient(
    SUPPORTS,
    "knows_no_unevaluated_properties",
    "get_city",
    lambda it: isinstance(it.get("city"), str),
    also=ALSO[AS_DECLARED],
)
lenient(
    SUPPORTS,
    "takes_any_two_items",
    "get_route",
    lambda it: is_wrong_pair(it.get("legs")),
    also=ALSO[DEFAULT],
    **OLD,
)
lenient(
    SUPPORTS,
    "takes_a_card_without_its_owner",
    "get_payment",
    lambda it: [*it] == ["card"] and isinstance(it["card"], str),
    also=ALSO[DEFAULT],
    **OLD,
)
lenient(
    AS_DECLARED,
    "reads_every_schema_as_the_newest_dialect",
    "get_pair",
    lambda it: isinstance(it.get("pair"), list),
)
lenient(
    AS_DECLARED,
    "takes_the_first_item_for_the_rule_of_all",
    "get_pair",
    lambda it: isinstance(it.get("pair"), list) and isinstance(it["pair"][:1], list),
    **OLD,
)
lenient(
    AS_DECLARED,
    "ignores_what_is_not_evaluated",
    "get_city",
    lambda it: isinstance(it.get("city"), str),
    also=ALSO[SUPPORTS],
    **OLD,
)

BOUNDS = "schema.bounds"
SILENT = {"jsonrpc.request.answered": "a server that ended or hangs answers nothing"}


def is_deep(message: Message) -> bool:
    return str(params_of(message).get("arguments")).count("inside") > 50


@hooked(BOUNDS, server, also=SILENT)
def falls_over_deep_arguments(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        if is_deep(message):
            wire.crash("the server ended with exit code -11")
            return None
        return message

    wire.from_client = from_client


@hooked(BOUNDS, server, also=SILENT)
def never_ends_to_validate(wire: Between) -> None:
    seen: list[Any] = []

    def from_client(message: Message) -> Sent:
        seen.extend([message] if is_deep(message) else [])
        return None if seen else message

    wire.from_client = from_client


@hooked(BOUNDS, server, also=SILENT)
def ends_while_it_validates(wire: Between) -> None:
    def from_client(message: Message) -> Sent:
        if is_deep(message):
            wire.later(1.0, lambda: wire.crash("the server ended with exit code -9"))
            return None
        return message

    wire.from_client = from_client


# -- pages that come first

ONLY, USED = "elicitation.required-error.only-for-url", "elicitation.required-error.used"
LISTS = {"elicitation.required-error.lists-elicitations": "the error names no pages"}


def required(name: str, id: str, change: Callable[[Message], Message], **settings: Any) -> None:
    """Register a server that changes its error for pages."""

    def spoil(message: Message, request: Message) -> Sent:
        is_meant = message.get("error", {}).get("code") == -32042
        return change(message) if is_meant else message

    saying(id, server, **OLD, **settings)(named(name, spoil))


def recoded(code: int) -> Callable[[Message], Message]:
    return lambda message: message | {"error": message["error"] | {"code": code}}


required("calls_a_page_an_internal_error", USED, recoded(-32603))
required("calls_a_page_invalid_params", USED, recoded(-32602))
required("numbers_its_pages_itself", USED, recoded(401))
required(
    "needs_a_page_and_names_none",
    ONLY,
    lambda message: message | {"error": message["error"] | {"data": {"elicitations": []}}},
    also=LISTS,
)


def form(message: Message) -> Message:
    asked = {"mode": "form", "message": "?", "requestedSchema": {"type": "object"}}
    data = {"elicitations": [asked | {"elicitationId": "1"}]}
    return message | {"error": message["error"] | {"data": data}}


required("needs_a_form_first", ONLY, form, also=LISTS)


@answering(
    ONLY,
    lambda it: params_of(it).get("name") == "accord-check-no-such-tool",
    server,
    also=LISTS,
    **OLD,
)
def sends_users_to_a_page_for_unknown_tools(message: Message) -> Message:
    return error(message, -32042, elicitations=[])


LISTED = "elicitation.required-error.lists-elicitations"


def pages(name: str, spoil: Callable[[dict[str, Any]], Any]) -> None:
    """Register a server that spoils the pages which its error names."""

    def change(message: Message) -> Message:
        listed = [spoil(dict(each)) for each in message["error"]["data"]["elicitations"]]
        return message | {"error": message["error"] | {"data": {"elicitations": listed}}}

    required(name, LISTED, change)


pages("needs_a_page_without_an_id", lambda page: without(page, "elicitationId"))
pages("needs_a_page_without_a_reason", lambda page: without(page, "message"))
pages("numbers_the_page_that_it_needs", lambda page: page | {"elicitationId": 7})


def without(page: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in page.items() if key != name}
