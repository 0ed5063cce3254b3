"""What servers offer: tools with their calls, prompts and resources, in lists and in results."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from accord.errors import MissingExtra
from accord.json_schema.validation import UNDECIDED, compile_schema
from accord.protocol import uri_template
from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import NOTIFICATION
from accord.protocol.party import Memory
from accord.protocol.rules._rule import (
    Breach,
    Finding,
    Findings,
    Outcome,
    breach_at,
    check,
    notifications,
    requests,
    results,
)
from accord.protocol.rules.body.results import (
    judge_blob,
    judge_block,
    judge_mime_type,
    judge_text_or_blob,
    judge_type,
)
from accord.protocol.rules.body.rounds import questions
from accord.protocol.rules.shapes import judge_member, shapes
from accord.protocol.rules.values import (
    Located,
    as_object,
    complete_result,
    is_in_force,
    memory_of,
    objects_at,
    parse_json,
    quote,
    request_params,
    result_objects,
)
from accord.protocol.syntax import is_uri
from accord.protocol.violation import CLIENT, SERVER
from accord.trace import is_masked
from accord.types._base import JsonObject

# -- tools

_LISTS: Final = results("tools/list", by=SERVER)
_CALLS: Final = results("tools/call", by=SERVER)
_QUESTIONS: Final = ("elicitation/create", "sampling/createMessage")
_LONGEST_NAME: Final = 128
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]*")
_DRAFT_07: Final = "http://json-schema.org/draft-07/schema#"

# These errors are about a dialect or a document that is not available, not about the schema.
_UNDECIDABLE: Final = ("Unknown meta-schema", "is not present in a registry")

shapes(
    _LISTS,
    {
        "tools.list.array": "body: {tools: array, tools[]: object}",
        "tools.item.name": "tools[].name: string",
        "tools.item.description": "tools[].description: string",
        "tools.item.title": "tools[].title?: string",
        "tools.item.annotations": """
            tools[].annotations?: {
                title?: string, readOnlyHint?: boolean, destructiveHint?: boolean,
                idempotentHint?: boolean, openWorldHint?: boolean
            }
        """,
        "tools.input-schema.not-null": "tools[].inputSchema?: object",
        "tools.task-support.values": (
            "tools[].execution?: {taskSupport?: forbidden|optional|required}"
        ),
    },
)
shapes(
    _CALLS,
    {
        "tools.call.content-array": "body: {content: array}",
        "tools.call.is-error-flag": "isError: boolean",
        "tools.structured-content.object": "structuredContent?: object",
    },
)


# -- schemas of a listed tool


@check("tools.item.input-schema", _LISTS)
def tool_has_an_input_schema(step: Step, conversation: Conversation) -> Findings:
    for place, tool in result_objects(step, "tools"):
        schema = tool.get("inputSchema")
        if "inputSchema" not in tool:
            yield breach_at(f"sends {place} without inputSchema", place)
        elif is_in_force("tools.input-schema.not-null", step.revision.id):
            yield isinstance(schema, dict) or None
        elif isinstance(schema, dict):
            yield _reject_other_type(schema, f"{place}.inputSchema") or _judge_old_schema(
                schema, f"{place}.inputSchema"
            )
        else:
            yield judge_member(tool, place, "inputSchema", "object")


@check("tools.item.output-schema", _LISTS)
def output_schema_is_a_schema(step: Step, conversation: Conversation) -> Findings:
    for place, tool in result_objects(step, "tools"):
        yield judge_member(tool, place, "outputSchema", "object", required=False)
    if not is_in_force("schema.wire-schemas-valid", step.revision.id):
        for place, schema in _schemas(step, "outputSchema"):
            if _reject_other_type(schema, place) is None:
                yield _judge_old_schema(schema, place)


@check("tools.input-schema.type-object", _LISTS)
def input_schema_is_of_an_object(step: Step, conversation: Conversation) -> Findings:
    for place, schema in _schemas(step, "inputSchema"):
        yield _reject_other_type(schema, place) or True


@check("tools.output-schema.object", _LISTS)
def output_schema_is_of_an_object(step: Step, conversation: Conversation) -> Findings:
    for place, schema in _schemas(step, "outputSchema"):
        yield _reject_other_type(schema, place) or True


def _schemas(step: Step, member: str) -> Iterator[Located]:
    for place, tool in result_objects(step, "tools"):
        if isinstance(tool.get(member), dict):
            yield f"{place}.{member}", tool[member]


def _reject_other_type(schema: JsonObject, place: str) -> Breach | None:
    if schema.get("type") == "object":
        return None
    why = f"sends {place} with type {quote(schema.get('type'))}, expected 'object'"
    return breach_at(why, place, "type")


# -- names


def _names(step: Step) -> Iterator[tuple[str, str]]:
    for place, tool in result_objects(step, "tools"):
        if isinstance(tool.get("name"), str):
            yield place, tool["name"]


@check("tools.name.length", _LISTS)
def name_has_1_to_128_characters(step: Step, conversation: Conversation) -> Findings:
    for place, name in _names(step):
        is_short = 1 <= len(name) <= _LONGEST_NAME
        yield is_short or breach_at(
            f"sends {place} with a name of {len(name)} characters", place, "name"
        )


@check("tools.name.charset", _LISTS)
def name_has_allowed_characters(step: Step, conversation: Conversation) -> Findings:
    for place, name in _names(step):
        yield _NAME.fullmatch(name) is not None or breach_at(
            f"sends {place} with name {quote(name)}, expected only letters, digits, _, - and .",
            place,
            "name",
        )


@check("tools.name.unique", _LISTS)
def name_is_unique(step: Step, conversation: Conversation) -> Findings:
    cursor = request_params(step).get("cursor")
    on_earlier_pages: frozenset[str] = frozenset()
    if isinstance(cursor, str):
        on_earlier_pages = memory_of(conversation).tool_pages.get(cursor, on_earlier_pages)
    places: dict[str, list[str]] = {}
    for place, name in _names(step):
        places.setdefault(name, []).append(place)
    for name, found in places.items():
        yield (len(found) == 1 and name not in on_earlier_pages) or breach_at(
            f"lists more than one tool with the name {quote(name)}", found[-1], "name"
        )


# -- valid schemas


@check("schema.wire-schemas-valid", _LISTS)
def tool_schemas_are_valid(step: Step, conversation: Conversation) -> Findings:
    for place, schema in _schemas(step, "inputSchema"):
        if _reject_other_type(schema, place) is None:
            yield _judge_schema(schema, place)
    only_objects = is_in_force("tools.output-schema.object", step.revision.id)
    for place, schema in _schemas(step, "outputSchema"):
        if not only_objects or _reject_other_type(schema, place) is None:
            yield _judge_schema(schema, place)
    if not is_in_force("tools.item.output-schema", step.revision.id):
        for place, tool in result_objects(step, "tools"):
            yield judge_member(tool, place, "outputSchema", "object", required=False)


@check("schema.wire-schemas-valid", requests(_QUESTIONS, by=SERVER))
@check("schema.wire-schemas-valid", results(by=SERVER))
def schemas_in_questions_are_valid(step: Step, conversation: Conversation) -> Findings:
    for question in questions(step, "elicitation/create"):
        schema = question.params.get("requestedSchema")
        if isinstance(schema, dict):
            yield _judge_schema(schema, f"{question.place}.requestedSchema")
    for question in questions(step, "sampling/createMessage"):
        for place, tool in objects_at(question.params, "tools", f"{question.place}."):
            if isinstance(tool.get("inputSchema"), dict):
                yield _judge_schema(tool["inputSchema"], f"{place}.inputSchema")


def _judge_schema(schema: JsonObject, place: str) -> Finding:
    try:
        compile_schema(schema)
    except MissingExtra:
        return None
    except ValueError as error:
        if any(reason in str(error) for reason in _UNDECIDABLE):
            return None
        return breach_at(f"sends {place}, which is not a valid JSON Schema: {error}", place)
    return True


def _judge_old_schema(schema: JsonObject, place: str) -> Finding:
    """Judge a schema of a revision without a fixed dialect: either of two dialects will do."""
    found = _judge_schema(schema, place)
    if isinstance(found, Breach) and "$schema" not in schema:
        older = _judge_schema({"$schema": _DRAFT_07, **schema}, place)
        return found if isinstance(older, Breach) else older
    return found


# -- results


@check("tools.call.content-type", _CALLS)
def content_is_of_a_known_type(step: Step, conversation: Conversation) -> Findings:
    for place, block in _content(step):
        found = judge_type(block, place, step.revision.id)
        yield judge_block(as_object(block), place) if found is True else found


def _content(step: Step) -> list[tuple[str, object]]:
    content = (complete_result(step) or {}).get("content")
    blocks = content if isinstance(content, list) else ()
    return [(f"content[{index}]", block) for index, block in enumerate(blocks)]


@check("tools.embedded-resource.capability", _CALLS)
def server_that_embeds_resources_declares_them(step: Step, conversation: Conversation) -> Outcome:
    declared = conversation.server.capabilities
    types = [as_object(block).get("type") for _, block in _content(step)]
    if declared is None or "resource" not in types:
        return None
    return "resources" in declared or breach_at(
        "embeds a resource without declaring resources", f"content[{types.index('resource')}]"
    )


@check("tools.call.structured-content", _CALLS)
def result_has_structured_content(step: Step, conversation: Conversation) -> Outcome:
    # Other values are judged by tools.structured-content.object.
    return isinstance((complete_result(step) or {}).get("structuredContent"), dict) or None


@check("tools.structured-content.also-text", _CALLS, at="structuredContent")
def structured_content_is_also_text(step: Step, conversation: Conversation) -> Outcome:
    result = complete_result(step) or {}
    if not _is_structured(result, step):
        return None
    structured = result["structuredContent"]
    accepted = [[structured]]
    if isinstance(structured, dict) and len(structured) == 1:
        # A text may also hold the only value inside.
        accepted.append([*structured.values()])
    for _, block in _content(step):
        text = as_object(block).get("text")
        if isinstance(text, str) and (parse_json(text) in accepted or [text] in accepted):
            return True
    return "sends structuredContent without the same JSON in a text block"


def _is_structured(result: JsonObject, step: Step) -> bool:
    if is_in_force("tools.structured-content.object", step.revision.id):
        return isinstance(result.get("structuredContent"), dict)
    return "structuredContent" in result


@check("tools.call.structured-conforms", _CALLS, at="structuredContent")
def structured_content_conforms_to_its_schema(step: Step, conversation: Conversation) -> Outcome:
    result = complete_result(step)
    name = request_params(step).get("name")
    if result is None or not isinstance(name, str):
        return None
    schema = memory_of(conversation).tools.get(name, {}).get("outputSchema")
    # An error needs no structured content; a flag of another type has its own requirement.
    if not isinstance(schema, dict) or result.get("isError", False) is not False:
        return None
    if "structuredContent" not in result:
        return (
            f"answers a call of {quote(name)}, which has an outputSchema, without structuredContent"
        )
    if not _is_structured(result, step):
        return None
    return _judge_conformance(result["structuredContent"], schema, name)


def _judge_conformance(content: object, schema: JsonObject, name: str) -> Finding:
    try:
        wrong = compile_schema(schema)(content)
    except (MissingExtra, ValueError):
        return None
    if wrong is None:
        return True
    if wrong.startswith(UNDECIDED) or is_masked(content):
        return None
    return f"sends structuredContent that does not match the outputSchema of {quote(name)}: {wrong}"


# -- prompts

_PROMPTS: Final = results("prompts/get", by=SERVER)

# The members of these have requirements of their own.
_JUDGED_SEPARATELY: Final = ("image", "audio", "resource")

shapes(
    results("prompts/list", by=SERVER),
    {
        "prompts.list.array": "body: {prompts: array, prompts[]: object}",
        "prompts.item.name": "prompts[].name: string",
        "prompts.item.title": "prompts[].title?: string",
        "prompts.item.description-and-arguments": (
            "prompts[].description?: string, prompts[].arguments?: array"
        ),
        "prompts.argument.fields": (
            "prompts[].arguments[]: {name: string, description?: string, required?: boolean}"
        ),
    },
)
shapes(
    _PROMPTS,
    {
        "prompts.get.messages-array": "body: {messages: array, messages[]: object}",
        "prompts.get.description": "description?: string",
        "prompts.message.role": "messages[].role: user|assistant",
    },
)


@check("prompts.message.content", _PROMPTS)
def message_has_content(step: Step, conversation: Conversation) -> Findings:
    for place, message in result_objects(step, "messages"):
        yield judge_member(message, place, "content", "object")
    if not is_in_force("prompts.message.content-type", step.revision.id):
        yield from prompt_content_is_of_a_known_type(step, conversation)


@check("prompts.message.content-type", _PROMPTS)
def prompt_content_is_of_a_known_type(step: Step, conversation: Conversation) -> Findings:
    for place, block in _blocks(step):
        found = judge_type(block, place, step.revision.id)
        if found is True and block["type"] not in _JUDGED_SEPARATELY:
            found = judge_block(block, place)
        yield found


def _blocks(step: Step, type_: str | None = None) -> Iterator[Located]:
    for place, message in result_objects(step, "messages"):
        block = message.get("content")
        if isinstance(block, dict) and type_ in (None, block.get("type")):
            yield f"{place}.content", block


def _bind_media(requirement: str, type_: str) -> None:
    @check(requirement, _PROMPTS)
    def block_is_base64_with_a_mime_type(step: Step, conversation: Conversation) -> Findings:
        for place, block in _blocks(step, type_):
            found = judge_block(block, place)
            yield judge_mime_type(block["mimeType"], place) if found is True else found


_bind_media("prompts.image.base64", "image")
_bind_media("prompts.audio.base64", "audio")


@check("prompts.resource.members", _PROMPTS)
def embedded_resource_has_its_members(step: Step, conversation: Conversation) -> Findings:
    for place, block in _blocks(step, "resource"):
        resource, inside = block.get("resource"), f"{place}.resource"
        found = judge_block(block, place)
        if found is True and isinstance(resource, dict):
            found = judge_member(resource, inside, "mimeType", "string")
            if found is True:
                found = judge_mime_type(resource["mimeType"], inside)
            if found is True:
                found = judge_blob(resource, inside) or True
        yield found


# -- completion: the reference, and the values of the result

_COMPLETE: Final = "completion/complete"
_COMPLETIONS: Final = results(_COMPLETE, by=SERVER)
_MOST_VALUES: Final = 100
_REFERENCES: Final = {"ref/prompt": "name", "ref/resource": "uri"}

shapes(
    requests(_COMPLETE, by=CLIENT),
    {"completion.request.context": "context?: {arguments?: {*: string}}"},
)
shapes(
    _COMPLETIONS,
    {
        "completion.result.values": "completion: {values: array, values[]: string}",
        "completion.result.total-and-has-more": (
            "completion.total?: integer, completion.hasMore?: boolean"
        ),
    },
)


@check("completion.ref.types", requests(_COMPLETE, by=CLIENT))
def ref_names_a_prompt_or_a_resource(step: Step, conversation: Conversation) -> Outcome:
    if step.body is not None and not isinstance(step.body, dict):
        return None
    params = as_object(step.body)
    found = judge_member(params, _COMPLETE, "ref", "object")
    if found is not True:
        return found
    ref = params["ref"]
    type_ = ref.get("type")
    if not isinstance(type_, str) or type_ not in _REFERENCES:
        return breach_at(f"sends {_COMPLETE} with a ref of type {quote(type_)}", "ref", "type")
    found = judge_member(ref, f"a ref of type {type_}", _REFERENCES[type_], "string")
    at = ("ref", _REFERENCES[type_])
    return msgspec.structs.replace(found, at=at) if isinstance(found, Breach) else found


@check("completion.result.max-100", _COMPLETIONS)
def values_are_at_most_100(step: Step, conversation: Conversation) -> Outcome:
    found = _judge_count(step)
    if isinstance(found, Breach) and is_in_force("completion.values-max-100", step.revision.id):
        return None
    return found


@check("completion.values-max-100", _COMPLETIONS)
def values_keep_the_limit_of_the_schema(step: Step, conversation: Conversation) -> Outcome:
    return _judge_count(step)


def _judge_count(step: Step) -> Finding:
    values = as_object((complete_result(step) or {}).get("completion")).get("values")
    if not isinstance(values, list):
        return None
    return len(values) <= _MOST_VALUES or breach_at(
        f"sends {len(values)} values, more than {_MOST_VALUES}", "completion.values"
    )


# -- resources

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
