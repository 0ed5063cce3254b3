"""Servers whose questions of 2025-11-25 are wrong: forms, pages, and models that use tools."""

from collections.abc import Callable
from typing import Any

from check.mutants.declared_capabilities import asking, question_interloper
from check.mutants.foundation import Between, Message, Sent, few, unbreakable

ELICIT, SAMPLE = "elicitation/create", "sampling/createMessage"
Spoil = Callable[[dict[str, Any]], None]


def form(id: str, name: str, spoil: Spoil, **settings: Any) -> None:
    """Register a server that spoils the schema of its forms."""

    def change(params: dict[str, Any]) -> None:
        if "requestedSchema" in params:
            spoil(params["requestedSchema"])

    asking(id, name, ELICIT, change, **settings)


def field(id: str, name: str, rule: Any, *, key: str = "more", **settings: Any) -> None:
    """Register a server whose forms have a further field."""
    form(id, name, lambda schema: schema["properties"].update({key: rule}), **settings)


def form_params(id: str, name: str, spoil: Spoil, **settings: Any) -> None:
    """Register a server that spoils the parameters of its forms."""

    def change(params: dict[str, Any]) -> None:
        if "requestedSchema" in params:
            spoil(params)

    asking(id, name, ELICIT, change, **settings)


SCHEMA = "elicitation.form.mode-and-schema"
form_params(SCHEMA, "asks_without_a_schema", lambda params: params.pop("requestedSchema"))
form_params(SCHEMA, "asks_by_a_text", lambda params: params.update(requestedSchema="a row"))
form_params(SCHEMA, "asks_in_an_unknown_mode", lambda params: params.update(mode="dialog"))

FLAT = "elicitation.form.flat-primitives"
field(FLAT, "asks_for_an_object_within", {"type": "object", "properties": {}})
field(FLAT, "asks_for_nothing", {"type": "null"})
field(FLAT, "asks_without_a_type", {"description": "anything"})
form(FLAT, "asks_for_a_list_of_fields", lambda schema: schema.update(type="array"))

ENUM = "elicitation.form.enum-forms"
field(ENUM, "offers_numbers", {"type": "integer", "enum": [1, 2]})
field(ENUM, "offers_choices_without_titles", {"type": "string", "oneOf": [{"const": "a"}]})
field(ENUM, "offers_names_for_other_choices", {"type": "string", "enum": ["a"], "enumNames": []})
field(ENUM, "offers_lists_of_anything", {"type": "array", "items": {"type": "string"}})

FORMATS = "elicitation.form.formats"
field(FORMATS, "asks_for_a_colour", {"type": "string", "format": "color"})
field(FORMATS, "asks_for_a_time", {"type": "string", "format": "time"})
field(FORMATS, "asks_for_a_phone_number", {"type": "string", "format": "phone"})

SECRETS = "elicitation.form.no-secrets"
field(SECRETS, "asks_for_a_password", {"type": "string"}, key="password")
field(SECRETS, "asks_for_a_key", {"type": "string", "title": "Key"}, key="api_key")
field(SECRETS, "asks_for_a_card", {"type": "string"}, key="credit_card_number")

LINKS = "elicitation.form.no-clickable-urls"
LINK = "see https://desk.example/"
form_params(LINKS, "links_in_its_message", lambda params: params.update(message=LINK))
field(LINKS, "links_in_a_description", {"type": "string", "description": LINK})
field(LINKS, "links_in_a_title", {"type": "string", "title": LINK})


# -- pages


def page(id: str, name: str, spoil: Spoil, **settings: Any) -> None:
    """Register a server that spoils the parameters by which it sends the user to a page."""

    def change(params: dict[str, Any]) -> None:
        if params.get("mode") == "url":
            spoil(params)

    asking(id, name, ELICIT, change, **settings)


def address(id: str, name: str, url: Any, **settings: Any) -> None:
    page(id, name, lambda params: params.update(url=url), **settings)


PARAMS = "elicitation.url.required-params"
page(PARAMS, "names_no_page", lambda params: params.pop("url"))
page(PARAMS, "does_not_say_why", lambda params: params.pop("message"))
address(PARAMS, "lists_pages", ["https://desk.example/"])
VALID = "elicitation.url.valid-url"
address(VALID, "names_a_path", "/link")
address(VALID, "names_a_host", "desk.example")
address(VALID, "says_where_to_go", "the desk")
HTTPS = "elicitation.url.https"
address(HTTPS, "links_without_tls", "http://desk.example/link")
address(HTTPS, "links_to_an_address_without_tls", "http://192.0.2.7/link")
DATA = "elicitation.url.no-personal-data"
address(DATA, "tells_the_page_a_token", "https://desk.example/link?access_token=abc")
address(DATA, "tells_the_page_an_email", "https://desk.example/link?to=ada@example.com")
address(DATA, "tells_the_page_a_password", "https://ada:secret@desk.example/link")
NAMED = "elicitation.url.elicitation-id"
page(NAMED, "does_not_name_the_elicitation", lambda params: params.pop("elicitationId"))
page(NAMED, "numbers_the_elicitation", lambda params: params.update(elicitationId=7))
page(NAMED, "names_the_elicitation_null", lambda params: params.update(elicitationId=None))


# -- what becomes of pages

HAS_ID = "elicitation.complete.has-id"


def completing(name: str, params: dict[str, Any]) -> None:
    """Register a server that spoils the notification of a finished page."""
    notification = {"jsonrpc": "2.0", "method": "notifications/elicitation/complete"}
    hook = sending_after(notification | {"params": params})
    question_interloper(HAS_ID, name, hook, areas=["elicitation"])


def sending_after(notification: dict[str, Any]) -> Callable[[Between], None]:
    """Return a hook that sends a notification once the user was sent to a page."""

    def hook(wire: Between) -> None:
        def from_server(message: Message, request: Message) -> Sent:
            is_page = message.get("params", {}).get("mode") == "url"
            return [message, notification] if is_page else message

        wire.from_server = from_server

    return hook


completing("finishes_a_page_without_its_id", {})
completing("finishes_a_page_by_number", {"elicitationId": 7})
completing("finishes_a_page_by_another_name", {"id": "page"})
unbreakable("only one of the sessions of a user had the page", "elicitation.complete.same-client")


# -- models

CHOICE = "sampling.tool-choice.values"


def choice(name: str, mode: Any) -> None:
    """Register a server that lets models with tools choose in an unknown way."""

    def change(params: dict[str, Any]) -> None:
        if "tools" in params:
            params["toolChoice"] = {"mode": mode}

    asking(CHOICE, name, SAMPLE, change)


choice("lets_any_tool_be_used", "any")
choice("demands_one_tool", {"name": "look"})
choice("chooses_by_a_number", 1)

AVOID = "sampling.context.avoid"
NEEDS = {"sampling.context.needs-capability": "also where it was not declared"}
for _name, _context in (("wants_its_context", "thisServer"), ("wants_all", "allServers")):
    asking(
        AVOID,
        _name,
        SAMPLE,
        lambda params, context=_context: params.update(includeContext=context),
        also=NEEDS,
    )
few("there are two values", AVOID)


def after_use(id: str, name: str, spoil: Callable[[list[Any]], None], **settings: Any) -> None:
    """Register a server that spoils the messages after the use of a tool."""

    def change(params: dict[str, Any]) -> None:
        if len(params["messages"]) > 2:
            spoil(params["messages"])

    asking(id, name, SAMPLE, change, **settings)


def blocks(messages: list[Any]) -> list[Any]:
    content = messages[-1]["content"]
    found: list[Any] = content if isinstance(content, list) else [content]
    messages[-1]["content"] = found
    return found


TEXT = {"type": "text", "text": "and go on"}
ALONE = "sampling.tool-results.alone"
after_use(ALONE, "adds_a_text_to_results", lambda messages: blocks(messages).append(TEXT))
after_use(ALONE, "begins_results_with_a_text", lambda messages: blocks(messages).insert(0, TEXT))
BALANCED = "sampling.tool-use.balanced"
ALL = "sampling.tool-use.server-answers-all"
UNANSWERED = {ALL: "the same seen from the other side"}
after_use(
    BALANCED,
    "says_something_before_results",
    lambda messages: messages.insert(2, {"role": "user", "content": TEXT}),
)
after_use(
    BALANCED,
    "forgets_results",
    lambda messages: messages[-1].update(content=TEXT),
    also=UNANSWERED,
)
after_use(BALANCED, "drops_results", lambda messages: messages.pop(), also=UNANSWERED)
MATCHES = "sampling.tool-result.id-matches"
OTHER = {ALL: "so that the use has no result"}


def another(name: str, id: Any) -> None:
    """Register a server whose result names another use of a tool."""
    after_use(MATCHES, name, lambda messages: blocks(messages)[0].update(toolUseId=id), also=OTHER)


another("answers_another_use", "another")
another("answers_no_use", "")
UNBALANCED = {BALANCED: "the same seen from the other side"}
after_use(ALL, "leaves_the_use_open", lambda messages: messages.pop(), also=UNBALANCED)
after_use(
    ALL, "answers_with_words", lambda messages: messages[-1].update(content=TEXT), also=UNBALANCED
)
few("a use has a result, or it has none", ALL)
