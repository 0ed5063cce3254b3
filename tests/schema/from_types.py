"""Instances of our types, both the superset and the derived ones, with members that make sense."""

import types
from functools import cache
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from accord.protocol.shape import derive, narrow
from accord.types import (
    REVISION_IDS,
    ClientCapabilities,
    CreateMessageResult,
    ElicitResult,
    JsonObject,
    ListRootsResult,
    RequestMeta,
    RevisionId,
)
from accord.types._base import since, until
from schema.from_schema import ANY_JSON, FORMATS, KEYS, TEXTS
from schema.from_schema import instances as schema_instances

OBJECTS = st.dictionaries(st.sampled_from(KEYS), ANY_JSON, max_size=2)
PRIORITIES = st.sampled_from([0, 0.25, 1])
URIS = FORMATS["uri"]
SCHEMA_PARTS = st.sampled_from([{}, {"type": "string"}, {"type": "array", "items": {}}])
LOOSE_SCHEMA_PARTS = SCHEMA_PARTS | st.booleans()
PREFIX = "io.modelcontextprotocol"
SUBSCRIPTION = {f"{PREFIX}/subscriptionId": 7}

Members = dict[str, Any]


@cache
def instances(type_: Any, revision: RevisionId, **given: Any) -> st.SearchStrategy[Any]:
    """Values of a type that can be expressed in a revision, some members of them given."""
    if given:
        return _struct(type_, revision, given)
    return st.deferred(lambda: _of(type_, revision))


def _of(type_: Any, revision: RevisionId) -> st.SearchStrategy[Any]:
    origin, args = get_origin(type_), get_args(type_)
    if origin is Annotated:
        return _of(args[0], revision)
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (Union, types.UnionType):
        members = [m for m in args if m is not msgspec.UnsetType]
        return st.one_of([instances(member, revision) for member in members])
    if origin is list:
        return st.lists(instances(args[0], revision), max_size=2)
    if type_ == JsonObject or isinstance(type_, NewType):
        return OBJECTS
    if origin is dict:
        return st.dictionaries(st.sampled_from("ab"), instances(args[1], revision), max_size=2)
    if issubclass(type_, msgspec.Struct):
        return _struct(type_, revision, {})
    return PLAIN[type_]


PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    Any: ANY_JSON,
    str: TEXTS,
    int: st.integers(-(2**53), 2**53),
    float: st.floats(-1e9, 1e9),
    bool: st.booleans(),
    types.NoneType: st.none(),
    msgspec.Raw: OBJECTS.map(msgspec.json.encode).map(msgspec.Raw),
}


def _struct(
    struct: type[msgspec.Struct], revision: RevisionId, given: Members
) -> st.SearchStrategy[Any]:
    required, optional = {}, {}
    for field in msgspec.structs.fields(struct):
        needed = field.required or (struct.__name__, field.encode_name) in MEMBERS
        (required if needed else optional)[field.name] = _member(struct, field, revision)
    if struct.__name__.endswith("Params") and revision == REVISION_IDS[-1] and "meta" in optional:
        required["meta"] = _request_metas(revision)
        del optional["meta"]
    for name, value in given.items():
        optional.pop(name, None)
        required[name] = st.just(value)
    sense = SENSE.get(struct.__name__, _as_is)
    built = st.fixed_dictionaries(required, optional=optional)
    return built.map(lambda members: struct(**sense(members, struct, revision)))


def _member(struct: Any, field: Any, revision: RevisionId) -> st.SearchStrategy[Any]:
    for key in ((struct.__name__, field.encode_name), field.encode_name):
        if key in MEMBERS:
            return MEMBERS[key](field, revision)
    return instances(field.type, revision)


def _request_metas(revision: RevisionId) -> st.SearchStrategy[Any]:
    parts = st.tuples(OBJECTS, instances(derive(RequestMeta, revision), revision))
    return parts.map(lambda both: both[0] | msgspec.to_builtins(both[1]))


def _schemas(field: Any, revision: RevisionId) -> st.SearchStrategy[Any]:
    objects = st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(st.sampled_from("ab"), LOOSE_SCHEMA_PARTS, max_size=2),
            "required": st.just(["a"]),
            "additionalProperties": st.booleans(),
        },
    )
    if _is_derived(field):
        return objects.filter(_has_plain_properties)
    return objects if field.name == "input_schema" else objects | SCHEMA_PARTS


def _is_derived(field: Any) -> bool:
    return get_origin(field.type) is not Annotated


def _has_plain_properties(schema: dict[str, Any]) -> bool:
    return not any(isinstance(part, bool) for part in schema.get("properties", {}).values())


def _forms(field: Any, revision: RevisionId) -> st.SearchStrategy[Any]:
    newest = revision if _is_derived(field) else REVISION_IDS[-1]
    fields = schema_instances(newest, "PrimitiveSchemaDefinition").map(_without_strangers)
    if revision in until("2025-06-18"):
        fields = fields.filter(lambda member: member["type"] != "array")
    return st.fixed_dictionaries(
        {
            "type": st.just("object"),
            "properties": st.dictionaries(st.sampled_from("ab"), fields, max_size=2),
        },
        optional={"required": st.just(["a"])},
    )


def _without_strangers(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_strangers(v) for k, v in value.items() if not k.startswith("x-")}
    if isinstance(value, list):
        return [_without_strangers(each) for each in value]
    return value


def _answers(field: Any, revision: RevisionId) -> st.SearchStrategy[Any]:
    answer = instances(CreateMessageResult | ListRootsResult | ElicitResult, revision)
    raws = answer.map(_narrowed_answer).map(msgspec.Raw)
    return st.dictionaries(st.sampled_from("ab"), raws, max_size=2)


def _narrowed_answer(answer: Any) -> bytes:
    return msgspec.json.encode(narrow(answer, REVISION_IDS[-1]))


def _capabilities(field: Any, revision: RevisionId) -> st.SearchStrategy[Any]:
    return instances(field.type if _is_derived(field) else ClientCapabilities, revision)


def _pages(field: Any, revision: RevisionId) -> st.SearchStrategy[Any]:
    page = instances(get_args(field.type)[0], revision, mode="url")
    return st.lists(page, min_size=1, max_size=2)


def _given(strategy: st.SearchStrategy[Any]) -> Any:
    return lambda field, revision: strategy


MEMBERS: dict[Any, Any] = {
    "_meta": _given(OBJECTS),
    "uri": _given(URIS),
    "src": _given(URIS),
    "websiteUrl": _given(URIS),
    "uriTemplate": _given(FORMATS["uri-template"]),
    "priority": _given(PRIORITIES),
    "costPriority": _given(PRIORITIES),
    "speedPriority": _given(PRIORITIES),
    "intelligencePriority": _given(PRIORITIES),
    "ttlMs": _given(st.integers(0, 2**53)),
    "inputSchema": _schemas,
    "outputSchema": _schemas,
    "requestedSchema": _forms,
    "inputResponses": _answers,
    # Those with a struct are needed for sense, though the types leave them open.
    ("ListenResult", "_meta"): _given(st.just(SUBSCRIPTION)),
    ("CancelledParams", "requestId"): _given(TEXTS | st.integers(0, 9)),
    ("RequestMeta", f"{PREFIX}/protocolVersion"): _given(TEXTS),
    ("RequestMeta", f"{PREFIX}/clientCapabilities"): _capabilities,
    ("UrlElicitationData", "elicitations"): _pages,
}


def _as_is(members: Members, struct: Any, revision: RevisionId) -> Members:
    return members


def _text_or_blob(members: Members, struct: Any, revision: RevisionId) -> Members:
    if members.get("text") is None and members.get("blob") is None:
        return members | {"text": ""}
    absent = "blob" if members.get("text") is not None else "text"
    return {key: value for key, value in members.items() if key != absent}


def _form_or_page(members: Members, struct: Any, revision: RevisionId) -> Members:
    if members.get("mode") == "url" and revision in since("2025-11-25"):
        page = members | {"url": "https://example.com/page", "elicitation_id": "e"}
        return {
            key: value
            for key, value in page.items()
            if key in struct.__struct_fields__ and key != "requested_schema"
        }
    form = {"requested_schema": {"type": "object", "properties": {}}} | members
    page_only = {"mode", "url", "elicitation_id"}
    return {key: value for key, value in form.items() if key not in page_only}


SENSE = {"ResourceContents": _text_or_blob, "ElicitParams": _form_or_page}
