"""Resources: how they are listed and read, and which updates a client gets."""

import re
from collections.abc import Iterator
from typing import Final

from accord.protocol import uri_template
from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import NOTIFICATION
from accord.protocol.party import Memory
from accord.protocol.rules._rule import Findings, Outcome, breach_at, check, notifications, results
from accord.protocol.rules.body.results import judge_blob, judge_text_or_blob
from accord.protocol.rules.shapes import judge_member, shapes
from accord.protocol.rules.values import (
    Located,
    as_object,
    is_in_force,
    memory_of,
    quote,
    result_objects,
)
from accord.protocol.syntax import is_uri
from accord.protocol.violation import SERVER

_LIST: Final = "resources/list"
_READ: Final = "resources/read"
_READS: Final = results(_READ, by=SERVER)
_TEMPLATES: Final = results("resources/templates/list", by=SERVER)
_UPDATED: Final = "notifications/resources/updated"
_UPDATES: Final = notifications(_UPDATED, by=SERVER)

_CUSTOM_SCHEME: Final = "resources.uri.custom-scheme"
_STANDARD_SCHEMES: Final = frozenset({"http", "https", "file", "git"})
# For so many seconds a client may still read from one stream what was sent before an answer on
# another one: longer than a busy machine takes to read both.
CROSSING: Final = 1.0
_LOOSE_SCHEME: Final = re.compile(r"([^:/?#]+):")

shapes(
    results(_LIST, by=SERVER),
    {
        "resources.list.array": "body: {resources: array, resources[]: object}",
        "resources.item.name": "resources[].name: string",
        "resources.item.title": "resources[].title?: string",
        "resources.item.description-and-mime": (
            "resources[].description?: string, resources[].mimeType?: string"
        ),
        "resources.item.size": "resources[].size?: integer",
    },
)
shapes(
    _TEMPLATES,
    {
        "resources.templates.array": (
            "body: {resourceTemplates: array, resourceTemplates[]: object}"
        ),
        "resources.template.name": "resourceTemplates[].name: string",
        "resources.template.description-and-mime": (
            "resourceTemplates[].description?: string, resourceTemplates[].mimeType?: string"
        ),
    },
)
shapes(
    _READS,
    {
        "resources.read.contents-array": "body: {contents: array, contents[]: object}",
        "resources.contents.mime-type": "contents[].mimeType?: string",
    },
)


@check("resources.template.uri-template", _TEMPLATES)
def template_has_a_uri_template(step: Step, conversation: Conversation) -> Findings:
    for place, item in result_objects(step, "resourceTemplates"):
        found, template = (
            judge_member(item, place, "uriTemplate", "string"),
            item.get("uriTemplate"),
        )
        try:
            if isinstance(template, str):
                uri_template.parse(template)
        except ValueError as error:
            why = f"sends {place} with the invalid uriTemplate {quote(template)}: {error}"
            found = breach_at(why, place, "uriTemplate")
        yield found


# -- contents


@check("resources.contents.text-or-blob", _READS)
def contents_have_text_or_a_blob(step: Step, conversation: Conversation) -> Findings:
    for place, item in result_objects(step, "contents"):
        yield judge_text_or_blob(item, place)


@check("resources.binary.encoded", _READS)
def blob_is_base64(step: Step, conversation: Conversation) -> Findings:
    for place, item in result_objects(step, "contents"):
        yield judge_blob(item, place)


@check("resources.binary.encoded", results("tools/call", by=SERVER))
def embedded_blob_is_base64(step: Step, conversation: Conversation) -> Findings:
    for place, block in result_objects(step, "content"):
        if block.get("type") == "resource":
            yield judge_blob(as_object(block.get("resource")), f"{place}.resource")


# -- URIs


def _objects_with_uri(step: Step) -> Iterator[Located]:
    if step.name == _UPDATED:
        yield _UPDATED, as_object(step.body)
    else:
        yield from result_objects(step, "resources" if step.name == _LIST else "contents")


@check("resources.item.uri", results(_LIST, by=SERVER))
@check("resources.contents.uri", _READS)
@check("resources.updated.uri-param", _UPDATES)
def object_has_a_uri(step: Step, conversation: Conversation) -> Findings:
    if step.kind == NOTIFICATION and step.body is not None and not isinstance(step.body, dict):
        return
    for place, item in _objects_with_uri(step):
        found, uri = judge_member(item, place, "uri", "string"), item.get("uri")
        if isinstance(uri, str) and not is_uri(uri):
            found = breach_at(f"sends {place} with the invalid uri {quote(uri)}", place, "uri")
            if has_custom_scheme(uri) and is_in_force(_CUSTOM_SCHEME, step.revision.id):
                continue
        yield found


def has_custom_scheme(uri: str) -> bool:
    """Tell whether a URI begins with a scheme, valid or not, other than the standard ones."""
    found = _LOOSE_SCHEME.match(uri)
    return found is not None and found[1].lower() not in _STANDARD_SCHEMES


@check(_CUSTOM_SCHEME, results((_LIST, _READ), by=SERVER))
@check(_CUSTOM_SCHEME, _UPDATES)
def custom_scheme_follows_the_rfc(step: Step, conversation: Conversation) -> Findings:
    for place, item in _objects_with_uri(step):
        uri = item.get("uri")
        if isinstance(uri, str) and has_custom_scheme(uri):
            is_valid = is_uri(uri)
            yield is_valid or breach_at(
                f"sends {place} with uri {quote(uri)}, which does not follow RFC 3986", place, "uri"
            )


# -- updates


@check("resources.updated.subscribers-only", _UPDATES, at="uri")
def update_goes_to_a_subscriber(step: Step, conversation: Conversation) -> Outcome:
    uri = as_object(step.body).get("uri")
    declared = conversation.server.capabilities
    if not isinstance(uri, str):
        return None
    if declared is not None and "resources.subscribe" not in declared:
        # Judged by resources.subscribe.capability-required.
        return None
    pending = [
        as_object(exchange.params).get("uri")
        for exchange in conversation.client.open.values()
        if exchange.name == "resources/subscribe"
    ]
    memory = memory_of(conversation)
    if any(_covers(each, uri) for each in (*memory.subscribed, *pending)):
        return True
    if not is_uri(uri) or _may_have_crossed(step, uri, memory):
        # An invalid uri is judged as such.
        return None
    return f"sends an update of {quote(uri)}, to which the client did not subscribe"


def _may_have_crossed(step: Step, uri: str, memory: Memory) -> bool:
    """Return whether an update may have been sent before the end of its subscription arrived.

    Over HTTP they travel on two streams, the one of the session and the response.
    """
    record = step.record
    if record is None or record.t is None or record.http is None or record.http.method != "GET":
        return False
    return any(
        ended is not None and record.t - ended < CROSSING and _covers(each, uri)
        for each, ended in memory.unsubscribed.items()
    )


def _covers(subscribed: object, uri: str) -> bool:
    """Tell whether a uri names a subscribed resource or a part of it."""
    if not isinstance(subscribed, str) or not uri.startswith(subscribed):
        return False
    rest = uri[len(subscribed) :]
    return not rest or subscribed.endswith("/") or rest[0] in "/?#"
