"""Resources: how they are listed and read, and who hears that one changed."""

import re
from typing import TYPE_CHECKING, Any, Final

from accord.protocol import uri_template
from accord.protocol.exchange import Step, member
from accord.protocol.jsonrpc import NOTIFICATION, RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.content import blob_is_base64, text_or_blob
from accord.protocol.rules.items import (
    Finding,
    array_in_result,
    capability_flag,
    each,
    has,
    in_force,
    listed,
    may_have,
    object_of,
    shown,
)
from accord.protocol.syntax import is_uri
from accord.protocol.violation import CLIENT, SERVER

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_LIST: Final = "resources/list"
_READ: Final = "resources/read"
_TEMPLATES: Final = "resources/templates/list"
_UPDATED: Final = "notifications/resources/updated"

STANDARD_SCHEMES: Final = frozenset({"http", "https", "file", "git"})
_WHAT_STANDS_FOR_A_SCHEME: Final = re.compile(r"([^:/?#]+):")


@check("resources.capability.subscribe", by=SERVER, kind=RESULT, on="initialize")
def subscribe_is_a_flag(step: Step, conversation: "Conversation") -> Outcome:
    return capability_flag(step, "resources", "subscribe")


@check(
    "resources.capability.list-changed",
    by=SERVER,
    kind=RESULT,
    on=("initialize", "server/discover"),
)
def list_changed_is_a_flag(step: Step, conversation: "Conversation") -> Outcome:
    return capability_flag(step, "resources", "listChanged")


# -- lists


@check("resources.list.array", by=SERVER, kind=RESULT, on=_LIST)
def list_has_a_resources_array(step: Step, conversation: "Conversation") -> Outcome:
    return array_in_result(step, "resources")


@check("resources.item.uri", by=SERVER, kind=RESULT, on=_LIST)
def resource_has_a_uri(step: Step, conversation: "Conversation") -> Outcome:
    return each(_has_uri(item, place, step) for place, item in listed(step, "resources"))


@check("resources.item.name", by=SERVER, kind=RESULT, on=_LIST)
def resource_has_a_name(step: Step, conversation: "Conversation") -> Outcome:
    return each(has(item, place, "name", "string") for place, item in listed(step, "resources"))


@check("resources.item.title", by=SERVER, kind=RESULT, on=_LIST)
def title_is_text(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        may_have(item, place, "title", "string") for place, item in listed(step, "resources")
    )


@check("resources.item.description-and-mime", by=SERVER, kind=RESULT, on=_LIST)
def description_and_mime_type_are_text(step: Step, conversation: "Conversation") -> Outcome:
    return _descriptions(step, "resources")


@check("resources.item.size", by=SERVER, kind=RESULT, on=_LIST)
def size_is_an_integer(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        may_have(item, place, "size", "integer") for place, item in listed(step, "resources")
    )


@check("resources.templates.array", by=SERVER, kind=RESULT, on=_TEMPLATES)
def list_has_a_templates_array(step: Step, conversation: "Conversation") -> Outcome:
    return array_in_result(step, "resourceTemplates")


@check("resources.template.uri-template", by=SERVER, kind=RESULT, on=_TEMPLATES)
def template_has_a_uri_template(step: Step, conversation: "Conversation") -> Outcome:
    return each(_uri_template(item, place) for place, item in listed(step, "resourceTemplates"))


def _uri_template(item: dict[str, Any], place: str) -> Finding:
    found = has(item, place, "uriTemplate", "string")
    if found is not True:
        return found
    try:
        uri_template.parse(item["uriTemplate"])
    except ValueError as error:
        return f"sends {place} whose uriTemplate {shown(item['uriTemplate'])} is none: {error}"
    return True


@check("resources.template.name", by=SERVER, kind=RESULT, on=_TEMPLATES)
def template_has_a_name(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        has(item, place, "name", "string") for place, item in listed(step, "resourceTemplates")
    )


@check("resources.template.description-and-mime", by=SERVER, kind=RESULT, on=_TEMPLATES)
def description_and_mime_type_of_templates_are_text(
    step: Step, conversation: "Conversation"
) -> Outcome:
    return _descriptions(step, "resourceTemplates")


def _descriptions(step: Step, name: str) -> Outcome:
    return each(
        may_have(item, place, text, "string")
        for place, item in listed(step, name)
        for text in ("description", "mimeType")
    )


# -- contents


@check("resources.read.contents-array", by=SERVER, kind=RESULT, on=_READ)
def result_has_a_contents_array(step: Step, conversation: "Conversation") -> Outcome:
    return array_in_result(step, "contents")


@check("resources.contents.uri", by=SERVER, kind=RESULT, on=_READ)
def contents_have_a_uri(step: Step, conversation: "Conversation") -> Outcome:
    return each(_has_uri(item, place, step) for place, item in listed(step, "contents"))


@check("resources.contents.text-or-blob", by=SERVER, kind=RESULT, on=_READ)
def contents_have_text_or_a_blob(step: Step, conversation: "Conversation") -> Outcome:
    return each(text_or_blob(item, place) for place, item in listed(step, "contents"))


@check("resources.contents.mime-type", by=SERVER, kind=RESULT, on=_READ)
def mime_type_is_text(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        may_have(item, place, "mimeType", "string") for place, item in listed(step, "contents")
    )


@check("resources.binary.encoded", by=SERVER, kind=RESULT, on=_READ)
def blob_is_encoded(step: Step, conversation: "Conversation") -> Outcome:
    return each(blob_is_base64(item, place) for place, item in listed(step, "contents"))


@check("resources.binary.encoded", by=SERVER, kind=RESULT, on="tools/call")
def embedded_blob_is_encoded(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        blob_is_base64(object_of(block.get("resource")), f"{place}.resource")
        for place, block in listed(step, "content")
        if block.get("type") == "resource"
    )


# -- URIs


def _has_uri(item: dict[str, Any], place: str, step: Step) -> Finding:
    found = has(item, place, "uri", "string")
    if found is not True or is_uri(item["uri"]):
        return found
    if is_custom(item["uri"]) and in_force("resources.uri.custom-scheme", step.revision.id):
        return None
    return f"sends {place} whose uri {shown(item['uri'])} is no URI"


def is_custom(uri: str) -> bool:
    """Tell whether a URI begins with a scheme, right or wrong, that is none of the usual ones."""
    found = _WHAT_STANDS_FOR_A_SCHEME.match(uri)
    return found is not None and found[1].lower() not in STANDARD_SCHEMES


@check("resources.uri.custom-scheme", by=SERVER, kind=RESULT, on=_LIST)
def custom_scheme_of_a_resource_follows_the_rfc(
    step: Step, conversation: "Conversation"
) -> Outcome:
    return each(_custom_scheme(item, place) for place, item in listed(step, "resources"))


@check("resources.uri.custom-scheme", by=SERVER, kind=RESULT, on=_READ)
def custom_scheme_of_contents_follows_the_rfc(step: Step, conversation: "Conversation") -> Outcome:
    return each(_custom_scheme(item, place) for place, item in listed(step, "contents"))


@check("resources.uri.custom-scheme", by=SERVER, kind=NOTIFICATION, on=_UPDATED)
def custom_scheme_of_an_update_follows_the_rfc(step: Step, conversation: "Conversation") -> Outcome:
    return _custom_scheme(object_of(step.body), "an update")


def _custom_scheme(item: dict[str, Any], place: str) -> Finding:
    uri = item.get("uri")
    if not isinstance(uri, str) or not is_custom(uri):
        return None
    return is_uri(uri) or f"sends {place} whose uri {shown(uri)} does not follow RFC 3986"


# -- updates


@check("resources.updated.uri-param", by=SERVER, kind=NOTIFICATION, on=_UPDATED)
def update_names_its_resource(step: Step, conversation: "Conversation") -> Outcome:
    if step.body is not None and not isinstance(step.body, dict):
        return None
    return _has_uri(object_of(step.body), "an update", step)


@check("resources.updated.subscribers-only", by=SERVER, kind=NOTIFICATION, on=_UPDATED)
def update_goes_to_a_subscriber(step: Step, conversation: "Conversation") -> Outcome:
    uri = member(step.body, "uri")
    declared = conversation.parties[SERVER].capabilities
    if conversation.memory is None or not isinstance(uri, str):
        return None
    if declared is not None and "resources.subscribe" not in declared:
        # resources.subscribe.capability-required says the same, and why.
        return None
    asked = [
        member(exchange.params, "uri")
        for exchange in conversation.parties[CLIENT].open.values()
        if exchange.name == "resources/subscribe"
    ]
    if any(_covers(known, uri) for known in (*conversation.memory.subscribed, *asked)):
        return True
    return f"sends an update of {shown(uri)}, to which the client did not subscribe"


def _covers(subscribed: Any, uri: str) -> bool:
    """The uri of an update may be that of a part of what was subscribed to."""
    if not isinstance(subscribed, str) or not uri.startswith(subscribed):
        return False
    rest = uri[len(subscribed) :]
    return not rest or subscribed.endswith("/") or rest[0] in "/?#"
