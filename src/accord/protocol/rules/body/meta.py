"""`_meta` with its keys and trace context, what many objects carry, and extensions."""

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import msgspec

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import META_CAPABILITIES, META_VERSION, Step, meta_of
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST, RESULT
from accord.protocol.revisions import KNOWN
from accord.protocol.rules._rule import (
    Breach,
    Findings,
    Outcome,
    breach_at,
    check,
    combine,
    messages,
    requests,
    results,
)
from accord.protocol.rules.shapes import judge_member, shapes
from accord.protocol.rules.values import META, Located, as_object, declared_in, describe, memory_of
from accord.protocol.violation import CLIENT, SERVER
from accord.types._base import JsonObject

CLIENT_INFO: Final = f"{META}clientInfo"
SERVER_INFO: Final = f"{META}serverInfo"


# -- the objects inside a message, such as tools and content blocks; not the content of users, such
# -- as arguments, structured content, form values and schemas

_ARRAYS: Final = (
    *("tools", "resources", "resourceTemplates", "prompts", "roots"),
    *("contents", "messages", "content"),
)
_INPUTS: Final = ("inputRequests", "inputResponses")
_HOLDERS: Final = frozenset((*_ARRAYS, *_INPUTS))
_BLOCKS: Final = frozenset(
    {"text", "image", "audio", "resource", "resource_link", "tool_use", "tool_result"}
)
# An input request holds messages, these hold tool results, and these hold blocks.
_DEPTH: Final = 6


class _Parts(msgspec.Struct, frozen=True, gc=False):
    """The objects inside a message, and the keys of every `_meta` with the place of its object."""

    objects: list[Located]
    meta_keys: list[tuple[str, str]]


def _parts(step: Step) -> _Parts:
    """Return the parts of a message; they are kept, because many rules need them."""
    if step.parts is None:
        body = as_object(step.body)
        objects = list(_walk(body, "", _DEPTH)) if step.name in KNOWN else []
        keys = [
            (place, key)
            for place, holder in ((_body_name(step), body), *objects)
            if "_meta" in holder
            for key in as_object(holder["_meta"])
        ]
        step.parts = _Parts(objects, keys)
    found: _Parts = step.parts
    return found


def _body_name(step: Step) -> str:
    return "result" if step.kind == RESULT else "params"


def _walk(holder: JsonObject, place: str, depth: int) -> Iterator[Located]:
    if depth == 0 or _HOLDERS.isdisjoint(holder):
        return
    for name in _ARRAYS:
        if name not in holder:
            continue
        value = holder[name]
        items = [(f"{place}{name}", value)]
        if isinstance(value, list):
            items = [(f"{place}{name}[{index}]", item) for index, item in enumerate(value)]
        for at, item in items:
            if isinstance(item, dict) and (name != "content" or _is_block(item)):
                yield at, item
                yield from _walk_item(item, name, at, depth)
    for name in _INPUTS:
        for key, value in as_object(holder.get(name)).items():
            inner = value.get("params", value) if isinstance(value, dict) else None
            if isinstance(inner, dict):
                yield from _walk(inner, f"{place}{name}.{key[:40]}.", depth - 1)


def _walk_item(item: JsonObject, name: str, place: str, depth: int) -> Iterator[Located]:
    resource = item.get("resource")
    if name == "content" and isinstance(resource, dict):
        yield f"{place}.resource", resource
    if name in ("messages", "content"):
        yield from _walk({"content": item.get("content")}, f"{place}.", depth - 1)
    if name == "prompts" and isinstance(item.get("arguments"), list):
        for index, argument in enumerate(item["arguments"]):
            if isinstance(argument, dict):
                yield f"{place}.arguments[{index}]", argument


def _is_block(value: JsonObject) -> bool:
    type_ = value.get("type")
    return isinstance(type_, str) and type_ in _BLOCKS


def implementations(step: Step) -> Iterator[Located]:
    """Yield the `clientInfo` or `serverInfo` of a message."""
    if not isinstance(step.body, dict):
        return
    name = "clientInfo" if step.kind == REQUEST else "serverInfo"
    if step.name == "initialize" and isinstance(step.body.get(name), dict):
        yield name, step.body[name]
    key = CLIENT_INFO if step.kind == REQUEST else SERVER_INFO
    info = meta_of(step.body).get(key)
    if isinstance(info, dict):
        yield key, info


# -- the field, titles and icons


def _titled_objects(step: Step, conversation: Conversation) -> list[Located]:
    # The titles of tools, resources and prompts have requirements of their own.
    arguments = [found for found in _parts(step).objects if ".arguments[" in found[0]]
    return [*arguments, *implementations(step)]


shapes(
    messages((REQUEST, NOTIFICATION, RESULT)),
    {"meta.field.more-types": "_meta: object"},
    within=lambda step, _: [found for found in _parts(step).objects if "_meta" in found[1]],
)
shapes(
    messages((REQUEST, RESULT)),
    {"meta.title.display-name": "title?: string"},
    within=_titled_objects,
)
shapes(
    messages((REQUEST, RESULT)),
    {"icons.src-required": "icons?: array, icons[]: {src: image-uri}"},
    within=lambda step, _: [*_parts(step).objects, *implementations(step)],
)


@check("meta.field.reserved", messages((REQUEST, NOTIFICATION, RESULT)))
def meta_is_an_object(step: Step, conversation: Conversation) -> Outcome:
    body = as_object(step.body)
    return judge_member(body, _body_name(step), "_meta", "object") if "_meta" in body else None


@check("meta.title.display-name", requests("tools/call", by=CLIENT), at="name")
def tool_is_called_by_its_name(step: Step, conversation: Conversation) -> Outcome:
    name = as_object(step.body).get("name")
    tools = memory_of(conversation).tools
    if not isinstance(name, str):
        return None
    if name in tools:
        return True if "title" in tools[name] else None
    if any(tool.get("title") == name for tool in tools.values()):
        return f"calls a tool by its title {name[:60]!r}, not by its name"
    return None


# -- the grammar of keys and of extension identifiers: a prefix of labels, a slash, a name

_LABEL: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?")
_NAME: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?")
_MCP_LABELS: Final = frozenset({"modelcontextprotocol", "mcp"})
# Keys under a reserved prefix that the specification itself defines.
_DEFINED_KEYS: Final = frozenset(
    f"{META}{name}"
    for name in (
        *("clientCapabilities", "clientInfo", "logLevel", "model-immediate-response"),
        *("protocolVersion", "related-task", "serverInfo", "subscriptionId"),
    )
)
# Top-level domains under which software is published; those of two letters are countries.
_TOP_LEVEL: Final = frozenset(
    {"app", "biz", "cloud", "com", "dev", "edu", "gov"}
    | {"info", "int", "mil", "net", "org", "tech"}
)


def _split_key(key: str) -> tuple[list[str] | None, str]:
    """Return the labels of the prefix, None without a prefix, and the name."""
    prefix, slash, name = key.partition("/")
    return (prefix.split("."), name) if slash else (None, key)


def _is_label(text: str) -> bool:
    return _LABEL.fullmatch(text) is not None


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def _prefix(key: str) -> list[str] | None:
    """Return the labels of a key that has a well-formed prefix."""
    labels, name = _split_key(key)
    is_fine = labels and "/" not in name and all(_is_label(label) for label in labels)
    return labels if is_fine else None


def is_forward(labels: list[str]) -> bool | None:
    """Tell whether a prefix is a domain name that is not reversed; None when that is unclear.

    >>> is_forward(["example", "com"]), is_forward(["com", "example"]), is_forward(["tools"])
    (True, False, None)
    """
    if len(labels) < 2:
        return None
    if _is_top_level(labels[0]):
        return False
    return True if _is_top_level(labels[-1]) else None


def _is_top_level(label: str) -> bool:
    return label.lower() in _TOP_LEVEL or len(label) == 2


# -- rules on keys; each function returns what is wrong, "" for a valid key, None without a test

_KeyJudge: TypeAlias = Callable[[str], str | None]


def _check_keys(requirement: str) -> Callable[[_KeyJudge], _KeyJudge]:
    def bind(judge: _KeyJudge) -> _KeyJudge:
        @check(requirement, messages())
        def keys_are_valid(step: Step, conversation: Conversation) -> Outcome:
            keys = _parts(step).meta_keys
            # Most messages have none.
            return None if not keys else combine(_judge_keys(keys, judge))

        return judge

    return bind


def _judge_keys(keys: list[tuple[str, str]], judge: _KeyJudge) -> Findings:
    for place, key in keys:
        why = judge(key)
        if why is not None:
            yield not why or breach_at(
                f"sends {place}._meta with the key {key[:60]!r}, which {why}", place, "_meta", key
            )


@_check_keys("meta.key.two-segments")
def _judge_segments(key: str) -> str | None:
    return "has more than a prefix and a name" if key.count("/") > 1 else ""


@_check_keys("meta.key.label-grammar")
def _judge_labels(key: str) -> str | None:
    labels, name = _split_key(key)
    if labels is None or "/" in name:
        return None
    invalid = next((label for label in labels if not _is_label(label)), None)
    return "" if invalid is None else f"has the invalid label {invalid[:40]!r}"


@_check_keys("meta.key.name-grammar")
def _judge_name(key: str) -> str | None:
    _, name = _split_key(key)
    if "/" in name:
        return None
    return "" if _is_name(name) else f"has the invalid name {name[:40]!r}"


@_check_keys("meta.prefix.reserved")
def _judge_reserved_prefix(key: str) -> str | None:
    labels = _prefix(key)
    if labels is None:
        return None
    reserving = (labels[0], *labels[:-1])
    is_reserved = any(label.lower() in _MCP_LABELS for label in reserving)
    return "has a prefix that is reserved for MCP" if is_reserved else ""


@_check_keys("meta.key.reserved-by-second-label")
def _judge_second_label(key: str) -> str | None:
    labels = _prefix(key)
    if labels is None:
        return None
    is_reserved = len(labels) > 1 and labels[1].lower() in _MCP_LABELS
    if not is_reserved or key in _DEFINED_KEYS:
        return ""
    return "has a prefix that is reserved for MCP and is not a key that MCP defines"


@_check_keys("meta.key.reverse-dns-prefix")
def _judge_domain(key: str) -> str | None:
    labels = _prefix(key)
    forward = None if labels is None else is_forward(labels)
    if labels is None or forward is None:
        return None
    return f"has a prefix that should be reversed: {'.'.join(reversed(labels))}" if forward else ""


# -- the sender of a message, in revisions without a handshake


@check("meta.request.protocol-version", requests(by=CLIENT))
def request_has_its_version(step: Step, conversation: Conversation) -> Outcome:
    if "_meta" not in as_object(step.body):
        # A handshake is that of an older revision.
        is_older = step.name == "initialize"
        return None if is_older else breach_at(f"sends {step.name} without params._meta", "")
    return _judge_meta(step, step.name, META_VERSION, "string")


@check("meta.request.client-capabilities", requests(by=CLIENT))
def request_has_capabilities(step: Step, conversation: Conversation) -> Outcome:
    return _judge_meta(step, step.name, META_CAPABILITIES, "object")


@check("meta.request.client-info", requests(by=CLIENT))
def request_has_client_info(step: Step, conversation: Conversation) -> Outcome:
    return _judge_meta(step, step.name, CLIENT_INFO, "object")


@check("meta.result.server-info", results(by=SERVER))
def result_has_server_info(step: Step, conversation: Conversation) -> Outcome:
    # The result of a discovery is judged by discover.result.server-info.
    if not isinstance(step.body, dict) or step.name == "server/discover":
        return None
    if "_meta" not in step.body:
        return breach_at(f"sends a result of {step.name} without {SERVER_INFO}", "")
    return _judge_meta(step, f"a result of {step.name}", SERVER_INFO, "object")


def _judge_meta(step: Step, place: str, key: str, type_: str) -> Outcome:
    meta = as_object(step.body).get("_meta")
    if not isinstance(meta, dict):
        return None
    found = judge_member(meta, place, key, type_)
    return msgspec.structs.replace(found, at=("_meta", key)) if isinstance(found, Breach) else found


# -- trace context: W3C Trace Context and Baggage

_PARENT: Final = re.compile(
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
    r"(?P<more>-.*)?"
)
_STATE_KEY: Final = r"[a-z0-9][a-z0-9_*/@-]{0,255}"
_STATE_VALUE: Final = r"[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
_STATE_MEMBER: Final = re.compile(rf"{_STATE_KEY}={_STATE_VALUE}")
_STATE_MEMBERS: Final = 32
_KEY: Final = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_VALUE: Final = r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*"
_PROPERTY: Final = rf"[ \t]*;[ \t]*{_KEY}(?:[ \t]*=[ \t]*{_VALUE})?"
_BAGGAGE_MEMBER: Final = re.compile(rf"{_KEY}[ \t]*=[ \t]*{_VALUE}(?:{_PROPERTY})*")


def _is_traceparent(text: str) -> bool:
    found = _PARENT.fullmatch(text)
    # The first version has just four fields; later ones may have more.
    return found is not None and not (found["version"] == "00" and found["more"])


def _is_tracestate(text: str) -> bool:
    members = [member.strip(" \t") for member in text.split(",")]
    filled = [member for member in members if member]
    names = [member.partition("=")[0] for member in filled]
    return (
        len(members) <= _STATE_MEMBERS
        and len(set(names)) == len(names)
        and all(_STATE_MEMBER.fullmatch(member) for member in filled)
    )


def _is_baggage(text: str) -> bool:
    return all(_BAGGAGE_MEMBER.fullmatch(member.strip(" \t")) for member in text.split(","))


_FORMATS: Final = {
    "traceparent": _is_traceparent,
    "tracestate": _is_tracestate,
    "baggage": _is_baggage,
}


@check("otel.value-formats", messages())
def trace_context_is_well_formed(step: Step, conversation: Conversation) -> Findings:
    meta = meta_of(step.body)
    for name, is_valid in _FORMATS.items():
        if name in meta:
            is_fine = isinstance(meta[name], str) and is_valid(meta[name])
            yield is_fine or breach_at(
                f"sends {name} as {describe(meta[name])}, which is malformed", "_meta", name
            )


# -- extensions: their identifiers and settings


def _declarations(step: Step, conversation: Conversation) -> Iterator[Located]:
    declared = declared_in(step)
    if declared is not None and "extensions" in declared:
        yield "capabilities", declared


@check("extensions.identifier-format", requests(by=CLIENT))
@check("extensions.identifier-format", results("server/discover", by=SERVER))
def extension_has_a_prefix_and_a_name(step: Step, conversation: Conversation) -> Findings:
    for _, capabilities in _declarations(step, conversation):
        for key in as_object(capabilities["extensions"]):
            labels, name = _split_key(key)
            yield (labels is not None and all(map(_is_label, labels)) and _is_name(name)) or (
                breach_at(
                    f"declares the extension {key[:60]!r}, expected a prefix, a slash and a name",
                    *("capabilities", "extensions", key),
                )
            )


_SETTINGS: Final = {"extensions.settings-object": "extensions: {*: object}"}
shapes(requests(by=CLIENT), _SETTINGS, within=_declarations)
shapes(results("server/discover", by=SERVER), _SETTINGS, within=_declarations)
