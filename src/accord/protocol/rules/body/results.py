"""What results carry: their type, the cursor of the next page, cache hints, and content blocks."""

from functools import cache
from typing import Final, get_args

import msgspec

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step
from accord.protocol.rules._rule import (
    Breach,
    Finding,
    Outcome,
    breach_at,
    check,
    requests,
    results,
)
from accord.protocol.rules.shapes import judge_member, shapes
from accord.protocol.rules.values import META, Located, describe, memory_of, quote
from accord.protocol.syntax import is_base64, is_mime_type
from accord.protocol.violation import CLIENT, SERVER, WARN
from accord.types import ContentBlock
from accord.types._base import JsonObject, RevisionId, lifetime_of

_TASKS: Final = f"extensions.{META}tasks"
_CORE_TYPES: Final = frozenset({"complete", "input_required"})
_PAGED: Final = (
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "prompts/list",
    "tasks/list",
)
_CACHEABLE: Final = {
    "caching.hints.discover": "server/discover",
    "caching.hints.tools-list": "tools/list",
    "caching.hints.prompts-list": "prompts/list",
    "caching.hints.resources-list": "resources/list",
    "caching.hints.resource-templates-list": "resources/templates/list",
    "caching.hints.resources-read": "resources/read",
}


# -- types of results


def _any_result(step: Step, conversation: Conversation) -> list[Located]:
    return [("a result", step.body)] if isinstance(step.body, dict) else []


shapes(results(by=SERVER), {"result.type.present": "resultType: string"}, within=_any_result)


@check("result.type.from-known-set", results(by=SERVER), at="resultType")
def result_is_of_a_known_type(step: Step, conversation: Conversation) -> Outcome:
    type_ = step.body.get("resultType") if isinstance(step.body, dict) else None
    if not isinstance(type_, str):
        return None
    if type_ in _CORE_TYPES or _may_be_of_an_extension(type_, step, conversation):
        return True
    return f"sends a result of type {quote(type_)}, but no extension of both parties defines it"


def _may_be_of_an_extension(type_: str, step: Step, conversation: Conversation) -> bool:
    """Tell whether an extension of both parties may define a type."""
    if step.exchange is None:
        return True
    client = _extensions(conversation.capabilities(CLIENT, step.exchange))
    server = _extensions(conversation.server.capabilities)
    if type_ == "task":
        # Whether the server advertised the extension is judged by tasks-ext.capability.server.
        return client is None or _TASKS in client
    return client is None or (bool(client) if server is None else not client.isdisjoint(server))


def _extensions(declared: frozenset[str] | None) -> frozenset[str] | None:
    if declared is None:
        return None
    return frozenset(path for path in declared if path.startswith("extensions."))


# -- pages

shapes(results(_PAGED), {"pagination.next-cursor.optional": "nextCursor?: string"})


@check("pagination.cursor.opaque", requests(_PAGED), at="cursor")
def cursor_was_issued_by_the_server(step: Step, conversation: Conversation) -> Outcome:
    if not isinstance(step.body, dict) or "cursor" not in step.body:
        return None
    cursor = step.body["cursor"]
    if not isinstance(cursor, str):
        return f"sends {step.name} with a cursor that is {describe(cursor)}, expected a string"
    if cursor in memory_of(conversation).cursors_of(step.name):
        return True
    return f"sends {step.name} with the cursor {cursor[:40]!r}, which it never received"


# -- cache hints

for _requirement, _method in _CACHEABLE.items():
    shapes(results(_method, by=SERVER), {_requirement: "ttlMs: any, cacheScope: any"})

shapes(
    results(_CACHEABLE.values(), by=SERVER),
    {
        "caching.ttl.non-negative": "ttlMs?: count",
        "caching.scope.value": "cacheScope?: public|private",
    },
)


# -- content blocks: the types that a revision knows, and their members

_BLOCK_MEMBERS: Final[dict[str, tuple[str, ...]]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
}


@cache
def known_types(
    blocks: tuple[type[msgspec.Struct], ...], revision: RevisionId
) -> tuple[object, ...]:
    """Return the types of content blocks that a revision knows."""
    # A tuple, because values that cannot be hashed are looked up in it.
    return tuple(block.__struct_config__.tag for block in blocks if revision in lifetime_of(block))


def judge_type(block: object, place: str, revision: RevisionId) -> Finding:
    """Judge that a block of a tool or prompt is an object of a type that the revision knows."""
    if not isinstance(block, dict):
        return breach_at(f"sends {place}, which is not an object", place)
    type_ = block.get("type")
    if type_ is None:
        return breach_at(f"sends {place} without type", place)
    if type_ not in known_types(get_args(ContentBlock), revision):
        why = f"sends {place} of type {quote(type_)}, which {revision} does not define"
        return breach_at(why, place, "type")
    return True


def judge_block(block: JsonObject, place: str) -> Finding:
    """Judge that a block of a known type has the members of its type, data in base64."""
    type_ = str(block.get("type"))
    for name in _BLOCK_MEMBERS.get(type_, ()):
        found = judge_member(block, place, name, "string")
        if found is not True:
            return found
    if type_ in ("image", "audio") and not is_base64(block["data"]):
        return breach_at(f"sends {place} with data that is not base64", place, "data")
    if type_ != "resource":
        return True
    found, inside = judge_member(block, place, "resource", "object"), f"{place}.resource"
    if found is True:
        found = judge_member(block["resource"], inside, "uri", "string")
    return judge_text_or_blob(block["resource"], inside) if found is True else found


def judge_mime_type(value: str, place: str) -> Finding:
    """Judge the syntax of a MIME type."""
    return is_mime_type(value) or breach_at(
        f"sends {place} with the invalid mimeType {quote(value)}", place, "mimeType"
    )


def judge_text_or_blob(contents: JsonObject, place: str) -> Finding:
    """Judge that resource contents have text or a blob, and not both."""
    present = [name for name in ("text", "blob") if name in contents]
    if not present:
        return breach_at(f"sends {place} without text or blob", place)
    for name in present:
        found = judge_member(contents, place, name, "string")
        if found is not True:
            return found
    if len(present) > 1:
        # The official schema permits both.
        return Breach(f"sends {place} with both text and blob", severity=WARN, at=(place,))
    return True


def judge_blob(contents: JsonObject, place: str) -> Finding:
    """Judge the encoding of a blob, if there is one."""
    blob = contents.get("blob")
    if not isinstance(blob, str):
        return None
    return is_base64(blob) or breach_at(
        f"sends {place} with a blob that is not base64", place, "blob"
    )
