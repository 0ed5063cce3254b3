"""The objects inside a message that the protocol gives a meaning, such as tools and content blocks.

What users put in is left alone: arguments, structured content, form values, schemas.
"""

from collections.abc import Iterator
from typing import Any, Final

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import REQUEST, RESULT
from accord.protocol.methods import KNOWN

META: Final = "io.modelcontextprotocol/"
CLIENT_INFO: Final = f"{META}clientInfo"
SERVER_INFO: Final = f"{META}serverInfo"

_LISTS: Final = (
    "tools",
    "resources",
    "resourceTemplates",
    "prompts",
    "roots",
    "contents",
    "messages",
    "content",
)
_BLOCKS: Final = frozenset(
    {"text", "image", "audio", "resource", "resource_link", "tool_use", "tool_result"}
)
# An input request holds messages, these hold tool results, and these hold blocks; no more.
_DEPTH: Final = 6

Part = tuple[str, dict[str, Any]]


def body_name(step: Step) -> str:
    """How the body of a message is called."""
    return "result" if step.kind == RESULT else "params"


def parts(step: Step) -> list[Part]:
    """Return the objects inside the body of a known message, with their places."""
    if step.parts is None:
        is_known = step.name in KNOWN and isinstance(step.body, dict)
        step.parts = list(_inside(step.body, "", _DEPTH)) if is_known else []
    found: list[Part] = step.parts
    return found


def _inside(holder: dict[str, Any], place: str, depth: int) -> Iterator[Part]:
    if depth == 0:
        return
    for name in _LISTS:
        if name not in holder:
            continue
        value = holder[name]
        found = [(f"{place}{name}", value)]
        if isinstance(value, list):
            found = [(f"{place}{name}[{index}]", each) for index, each in enumerate(value)]
        for where, each in found:
            if isinstance(each, dict) and (name != "content" or _is_block(each)):
                yield where, each
                yield from _within(each, name, where, depth)
    for name in ("inputRequests", "inputResponses"):
        if name in holder:
            yield from _rounds(holder[name], f"{place}{name}", depth)


def _within(part: dict[str, Any], name: str, where: str, depth: int) -> Iterator[Part]:
    resource = part.get("resource")
    if name == "content" and isinstance(resource, dict):
        yield f"{where}.resource", resource
    if name in ("messages", "content"):
        yield from _inside({"content": part.get("content")}, f"{where}.", depth - 1)
    if name == "prompts" and isinstance(part.get("arguments"), list):
        for index, argument in enumerate(part["arguments"]):
            if isinstance(argument, dict):
                yield f"{where}.arguments[{index}]", argument


def _rounds(rounds: Any, place: str, depth: int) -> Iterator[Part]:
    if not isinstance(rounds, dict):
        return
    for key, value in rounds.items():
        inner = value.get("params", value) if isinstance(value, dict) else None
        if isinstance(inner, dict):
            yield from _inside(inner, f"{place}.{key[:40]}.", depth - 1)


def _is_block(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    return isinstance(kind, str) and kind in _BLOCKS


def metas(step: Step) -> Iterator[tuple[str, Any]]:
    """Yield every `_meta` of a message with its place, whatever it is."""
    if isinstance(step.body, dict) and "_meta" in step.body:
        yield f"{body_name(step)}._meta", step.body["_meta"]
    for place, part in parts(step):
        if "_meta" in part:
            yield f"{place}._meta", part["_meta"]


def meta_keys(step: Step) -> Iterator[tuple[str, str]]:
    """Yield every key of every `_meta` with the place of the latter."""
    for place, meta in metas(step):
        if isinstance(meta, dict):
            for key in meta:
                yield place, key


def implementations(step: Step) -> Iterator[tuple[str, Any]]:
    """Yield what a message says about the implementation of its sender, whatever it is."""
    if not isinstance(step.body, dict):
        return
    member = "clientInfo" if step.kind == REQUEST else "serverInfo"
    if step.name == "initialize" and member in step.body:
        yield member, step.body[member]
    meta = step.body.get("_meta")
    key = CLIENT_INFO if step.kind == REQUEST else SERVER_INFO
    if isinstance(meta, dict) and key in meta:
        yield key, meta[key]
