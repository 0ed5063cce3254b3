"""Servers without a handshake whose questions are malformed: forms, pages and models."""

from collections.abc import Callable
from typing import Any

from check.mutants.foundation import Message, Sent, few, unbreakable
from check.mutants.stateless_base import CALL, saying
from check.mutants.stateless_wire import asking, each

Params = dict[str, Any]


def form(id: str, name: str, spoil: Callable[[Params], Any], **settings: Any) -> None:
    """Register a server that spoils the params of its forms."""

    def change(question: dict[str, Any]) -> None:
        if question["params"].get("mode", "form") == "form":
            spoil(question["params"])

    asking(id, name, each(change, "elicitation"), **settings)


def field(id: str, name: str, rule: dict[str, Any], key: str = "extra", **settings: Any) -> None:
    """Register a server that adds a field to its forms."""
    form(id, name, lambda it: it["requestedSchema"]["properties"].update({key: rule}), **settings)


MODE, FLAT = "elicitation.form.mode-and-schema", "elicitation.form.flat-primitives"
form(MODE, "asks_without_a_schema", lambda it: it.pop("requestedSchema"))
form(MODE, "writes_the_schema_as_text", lambda it: it.update(requestedSchema="{}"))
form(MODE, "lists_the_fields", lambda it: it.update(requestedSchema=[]))
field(FLAT, "asks_for_an_object", {"type": "object", "properties": {}})
field(FLAT, "asks_for_nothing", {"type": "null"})
form(FLAT, "asks_for_a_list", lambda it: it["requestedSchema"].update(type="array"))
FORMATS = "elicitation.form.formats"
field(FORMATS, "asks_for_a_uuid", {"type": "string", "format": "uuid"})
field(FORMATS, "asks_for_an_address_of_the_net", {"type": "string", "format": "ipv4"})
field(FORMATS, "writes_a_format_in_capitals", {"type": "string", "format": "Email"})
ENUMS = "elicitation.form.enum-forms"
field(ENUMS, "titles_nothing", {"type": "string", "oneOf": [{"const": "a"}]})
field(ENUMS, "offers_numbers_as_texts", {"type": "string", "enum": [1, 2]})
field(ENUMS, "offers_many_of_anything", {"type": "array", "items": {"type": "string"}})
SECRETS = "elicitation.form.no-secrets"
TEXT = {"type": "string"}
field(SECRETS, "asks_for_a_password", TEXT, "password")
field(SECRETS, "asks_for_a_key", TEXT, "api_key")
field(SECRETS, "asks_for_a_card", TEXT, "creditCardNumber")
LINKS = "elicitation.form.no-clickable-urls"
form(LINKS, "links_a_page_in_the_message", lambda it: it.update(message="see https://x.example/a"))
field(LINKS, "links_a_page_in_a_title", TEXT | {"title": "https://x.example"})
field(LINKS, "links_a_page_in_a_description", TEXT | {"description": "http://x.example/help"})


def page(id: str, name: str, spoil: Callable[[Params], Any], **settings: Any) -> None:
    """Register a server that spoils the params of its pages."""

    def change(question: dict[str, Any]) -> None:
        if question["params"].get("mode") == "url":
            spoil(question["params"])

    areas = ("elicitation",)
    asking(id, name, each(change, "elicitation"), areas=areas, **settings)


def at(url: Any) -> Callable[[Params], None]:
    return lambda it: it.update(url=url)


NEEDED, VALID = "elicitation.url.required-params", "elicitation.url.valid-url"
page(NEEDED, "names_no_page", lambda it: it.pop("url"))
page(NEEDED, "says_nothing_of_the_page", lambda it: it.pop("message"))
page(NEEDED, "numbers_its_message", lambda it: it.update(message=7))
page(VALID, "names_a_path", at("/link"))
page(VALID, "names_a_page_in_words", at("the bank"))
page(VALID, "names_a_page_without_a_host", at("https://"))
HTTPS, PRIVATE = "elicitation.url.https", "elicitation.url.no-personal-data"
page(HTTPS, "names_a_page_in_the_clear", at("http://bank.example/link"))
page(HTTPS, "names_a_page_by_ftp", at("ftp://bank.example/link"))
page(HTTPS, "names_a_page_of_a_program", at("bank://bank.example/link"))
page(PRIVATE, "names_the_user_in_the_path", at("https://bank.example/link/ann@x.example"))
page(PRIVATE, "has_a_password_in_the_page", at("https://ann:secret@bank.example/link"))
page(PRIVATE, "names_the_user_in_the_query", at("https://bank.example/link?email=ann"))
page(
    "elicitation.url.no-elicitation-id",
    "numbers_its_pages",
    lambda it: it.update(elicitationId="1"),
)


@saying("elicitation.url.no-elicitation-id")
def reports_that_a_page_is_done(message: Message, request: Message) -> Sent:
    if request.get("method") == CALL and "count_bags" in str(request) and "result" in message:
        params = {"elicitationId": "1"}
        method = "notifications/elicitation/complete"
        return [{"jsonrpc": "2.0", "method": method, "params": params}, message]
    return message


few(
    "an id in the question and the notification are all there is",
    "elicitation.url.no-elicitation-id",
)
unbreakable(
    "credentials of others look like any text",
    "elicitation.url.third-party-credentials-stay",
)


# -- models


def model(id: str, name: str, spoil: Callable[[Params], Any], **settings: Any) -> None:
    """Register a server that spoils what it asks models."""
    asking(id, name, each(lambda it: spoil(it["params"]), "sampling"), **settings)


def saying_to_model(*messages: dict[str, Any]) -> Callable[[Params], None]:
    return lambda it: it.update(messages=[*messages])


def said(role: Any, content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}


QUESTION = said("user", {"type": "text", "text": "?"})
USE = {"type": "tool_use", "id": "u1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "toolUseId": "u1", "content": []}
FIELDS = "sampling.create.request-fields"
model(FIELDS, "does_not_limit_the_tokens_of_a_round", lambda it: it.pop("maxTokens"))
MESSAGE = "sampling.message.role-and-content"
model(MESSAGE, "lets_the_system_ask", saying_to_model(said("system", QUESTION["content"])))
model(MESSAGE, "says_nothing_to_the_model", saying_to_model({"role": "user"}))
model(MESSAGE, "leaves_the_role_out", saying_to_model({"content": QUESTION["content"]}))
ALONE, BALANCED = "sampling.tool-results.alone", "sampling.tool-use.balanced"
MATCHES = "sampling.tool-result.id-matches"
USED = said("assistant", [USE])
TEXT_BLOCK = {"type": "text", "text": "and?"}
model(
    ALONE, "comments_a_result", saying_to_model(QUESTION, USED, said("user", [RESULT, TEXT_BLOCK]))
)
model(
    ALONE,
    "begins_with_a_comment",
    saying_to_model(QUESTION, USED, said("user", [TEXT_BLOCK, RESULT])),
)
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
model(
    ALONE,
    "adds_a_picture_to_a_result",
    saying_to_model(QUESTION, USED, said("user", [RESULT, IMAGE])),
)
model(BALANCED, "forgets_the_result_of_a_tool", saying_to_model(QUESTION, USED, QUESTION))
model(BALANCED, "ends_with_the_use_of_a_tool", saying_to_model(QUESTION, USED))
model(
    BALANCED,
    "answers_one_of_two_uses",
    saying_to_model(QUESTION, said("assistant", [USE, USE | {"id": "u2"}]), said("user", [RESULT])),
)
OTHER = RESULT | {"toolUseId": "u9"}
model(MATCHES, "answers_a_use_that_never_was", saying_to_model(said("user", [OTHER])))
model(
    MATCHES,
    "answers_twice_under_another_id",
    saying_to_model(QUESTION, USED, said("user", [RESULT, OTHER])),
)
model(MATCHES, "answers_before_the_use", saying_to_model(said("user", [RESULT]), QUESTION))
CHOICE = "sampling.tool-choice.values"
OFFERED = {"sampling.tools.not-without-capability": "the client declared no tools"}


def choosing(mode: Any) -> Callable[[Params], None]:
    return lambda it: it.update(toolChoice=mode)


model(CHOICE, "lets_the_model_use_any_tool", choosing({"mode": "any"}), also=OFFERED)
model(CHOICE, "names_the_tool_to_use", choosing({"mode": "tool", "name": "look"}), also=OFFERED)
model(CHOICE, "numbers_the_choice", choosing({"mode": 1}), also=OFFERED)
CONTEXT = "deprecated.include-context.not-used"
AVOIDED = {
    "sampling.context.needs-capability": "the client did not declare it",
}


def with_context(value: str) -> Callable[[Params], None]:
    return lambda it: it.update(includeContext=value)


model(CONTEXT, "asks_for_its_own_context", with_context("thisServer"), also=AVOIDED)
model(CONTEXT, "asks_for_every_context", with_context("allServers"), also=AVOIDED)
few("there are two such values", CONTEXT)
