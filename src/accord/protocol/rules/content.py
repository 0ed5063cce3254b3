"""Content blocks: which types a revision knows, and what each must carry. No rules of its own."""

from functools import cache
from typing import Any, Final, get_args

from accord.protocol.rules._rule import Breach
from accord.protocol.rules.items import Finding, has, object_of, shown
from accord.protocol.syntax import is_base64, is_mime_type
from accord.protocol.violation import WARN
from accord.types import ContentBlock
from accord.types._base import RevisionId, lifetime_of

_REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
}


@cache
def known_types(revision: RevisionId) -> frozenset[str]:
    """Return the types of content that tools and prompts may use in a revision."""
    return frozenset(
        block.__struct_config__.tag
        for block in get_args(ContentBlock)
        if revision in lifetime_of(block)
    )


def is_of_known_type(block: Any, place: str, revision: RevisionId) -> Finding:
    """Judge that a block is an object of a type that the revision knows."""
    if not isinstance(block, dict):
        return f"sends {place}, which is not an object"
    type_ = block.get("type")
    if type_ is None:
        return f"sends {place} without type"
    if not isinstance(type_, str) or type_ not in known_types(revision):
        return f"sends {place} of type {shown(type_)}, which {revision} does not know"
    return True


def has_its_members(block: dict[str, Any], place: str) -> Finding:
    """Judge that a block of a known type carries what the type requires, data as base64."""
    type_ = str(block.get("type"))
    for name in _REQUIRED.get(type_, ()):
        found = has(block, place, name, "string")
        if found is not True:
            return found
    if type_ in ("image", "audio") and not is_base64(block["data"]):
        return f"sends {place} whose data is not base64"
    if type_ == "resource":
        found = has(block, place, "resource", "object")
        if found is True:
            return holds_a_resource(object_of(block["resource"]), f"{place}.resource")
        return found
    return True


def is_encoded(block: dict[str, Any], place: str) -> Finding:
    """Judge that an image or a sound is base64 with a valid MIME type."""
    found = has_its_members(block, place)
    if found is True and not is_mime_type(block["mimeType"]):
        return f"sends {place} with mimeType {shown(block['mimeType'])}, which is no MIME type"
    return found


def holds_a_resource(resource: dict[str, Any], place: str) -> Finding:
    """Judge that an embedded resource has a uri, and text or a blob."""
    found = has(resource, place, "uri", "string")
    return text_or_blob(resource, place) if found is True else found


def text_or_blob(contents: dict[str, Any], place: str) -> Finding:
    """Judge that resource contents have text or a blob, and not both."""
    present = [name for name in ("text", "blob") if name in contents]
    if not present:
        return f"sends {place} without text or blob"
    for name in present:
        found = has(contents, place, name, "string")
        if found is not True:
            return found
    if len(present) > 1:
        # The official schema lets both through.
        return Breach(f"sends {place} with both text and blob", severity=WARN)
    return True


def blob_is_base64(contents: dict[str, Any], place: str) -> Finding:
    """Judge the encoding of a blob, where there is one."""
    blob = contents.get("blob")
    if not isinstance(blob, str):
        return None
    return is_base64(blob) or f"sends {place} whose blob is not base64"
