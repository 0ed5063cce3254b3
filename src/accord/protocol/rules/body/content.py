"""Content blocks: the types that a revision knows, and their members. Shared by other rules."""

from functools import cache
from typing import Final, get_args

from accord.protocol.rules._rule import Breach
from accord.protocol.rules.shapes import judge_member
from accord.protocol.rules.values import Finding, quote
from accord.protocol.syntax import is_base64, is_mime_type
from accord.protocol.violation import WARN
from accord.types import ContentBlock
from accord.types._base import JsonObject, RevisionId, lifetime_of

_REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
}


@cache
def _known_types(revision: RevisionId) -> frozenset[str]:
    return frozenset(
        block.__struct_config__.tag
        for block in get_args(ContentBlock)
        if revision in lifetime_of(block)
    )


def judge_type(block: object, place: str, revision: RevisionId) -> Finding:
    """Judge that a block of a tool or prompt is an object of a type that the revision knows."""
    if not isinstance(block, dict):
        return f"sends {place}, which is not an object"
    type_ = block.get("type")
    if type_ is None:
        return f"sends {place} without type"
    if not isinstance(type_, str) or type_ not in _known_types(revision):
        return f"sends {place} of type {quote(type_)}, which {revision} does not define"
    return True


def judge_block(block: JsonObject, place: str) -> Finding:
    """Judge that a block of a known type has the members of its type, data in base64."""
    type_ = str(block.get("type"))
    for name in _REQUIRED.get(type_, ()):
        found = judge_member(block, place, name, "string")
        if found is not True:
            return found
    if type_ in ("image", "audio") and not is_base64(block["data"]):
        return f"sends {place} with data that is not base64"
    if type_ == "resource":
        found = judge_member(block, place, "resource", "object")
        return judge_resource(block["resource"], f"{place}.resource") if found is True else found
    return True


def judge_media(block: JsonObject, place: str) -> Finding:
    """Judge that an image or audio block is base64 with a valid MIME type."""
    found = judge_block(block, place)
    return judge_mime_type(block["mimeType"], place) if found is True else found


def judge_mime_type(value: str, place: str) -> Finding:
    """Judge the syntax of a MIME type."""
    return is_mime_type(value) or f"sends {place} with the invalid mimeType {quote(value)}"


def judge_resource(resource: JsonObject, place: str) -> Finding:
    """Judge that an embedded resource has a uri, and text or a blob."""
    found = judge_member(resource, place, "uri", "string")
    return judge_text_or_blob(resource, place) if found is True else found


def judge_text_or_blob(contents: JsonObject, place: str) -> Finding:
    """Judge that resource contents have text or a blob, and not both."""
    present = [name for name in ("text", "blob") if name in contents]
    if not present:
        return f"sends {place} without text or blob"
    for name in present:
        found = judge_member(contents, place, name, "string")
        if found is not True:
            return found
    if len(present) > 1:
        # The official schema permits both.
        return Breach(f"sends {place} with both text and blob", severity=WARN)
    return True


def judge_blob(contents: JsonObject, place: str) -> Finding:
    """Judge the encoding of a blob, if there is one."""
    blob = contents.get("blob")
    if not isinstance(blob, str):
        return None
    return is_base64(blob) or f"sends {place} with a blob that is not base64"
