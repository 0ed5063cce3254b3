"""The shape of messages in each revision, derived from the lifetimes written on the types.

Users hold the newest superset. On the way out `narrow` leaves away what a revision does not define
and puts in what it demands; on the way in the superset decodes all, and where that fails the
derived type of the revision decides. Nothing here knows methods, envelopes or rules.
"""

import operator
import types
from collections.abc import Callable
from functools import cache, partial, reduce
from math import isinf
from typing import (
    Annotated,
    Any,
    Final,
    NewType,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

import msgspec
from msgspec import NODEFAULT, UNSET, UnsetType
from msgspec.structs import FieldInfo

from accord.errors import LocalProtocolError
from accord.types import (
    REVISION_IDS,
    AudioContent,
    ElicitationCapability,
    ElicitedScalars,
    EmbeddedResource,
    FormElicitationCapability,
    FormSchema,
    ImageContent,
    JsonObject,
    Lifetime,
    ObjectSchema,
    ResourceLink,
    RevisionId,
    SamplingContentBlock,
    TextContent,
    ToolResultContent,
    ToolUseContent,
)
from accord.types._base import ALWAYS, Required, Was, lifetime_of

Shaped = TypeVar("Shaped")
Narrower: TypeAlias = Callable[[Any], Any]
Buffer: TypeAlias = bytes | bytearray | memoryview | msgspec.Raw | str


class _Field(msgspec.Struct, frozen=True):
    """A field of a struct and what its marks say in one revision."""

    info: FieldInfo
    type: object
    alive: bool
    required: Required | None
    was: Was | None


def _fields(struct: type[msgspec.Struct], revision: RevisionId) -> list[_Field]:
    return [_field(info, revision) for info in msgspec.structs.fields(struct)]


def _field(info: FieldInfo, revision: RevisionId) -> _Field:
    type_, *marks = get_args(info.type) if get_origin(info.type) is Annotated else (info.type,)
    lifetime = reduce(operator.and_, (m for m in marks if isinstance(m, Lifetime)), ALWAYS)
    if revision not in lifetime or _is_dead(type_, revision):
        return _Field(info, type_, alive=False, required=None, was=None)
    required, was = _mark(marks, Required, revision), _mark(marks, Was, revision)
    return _Field(info, type_, alive=True, required=required, was=was)


def _mark(marks: list[object], kind: type[Required | Was], revision: RevisionId) -> Any:
    return next((m for m in marks if isinstance(m, kind) and revision in m.lifetime), None)


def _is_dead(type_: object, revision: RevisionId) -> bool:
    """Return whether a revision has nothing but absence left of a type."""
    if get_origin(type_) in (list, dict):
        return _is_dead(get_args(type_)[-1], revision)
    members = [m for m in _members(type_) if m not in (types.NoneType, UnsetType)]
    return bool(members) and all(revision not in lifetime_of(member) for member in members)


def _members(type_: object) -> tuple[Any, ...]:
    return get_args(type_) if get_origin(type_) in (Union, types.UnionType) else (type_,)


def _is_struct(type_: object) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)


def _no_such(type_: Any, revision: RevisionId) -> LocalProtocolError:
    return LocalProtocolError(f"{getattr(type_, '__name__', type_)} does not exist in {revision}")


# Deriving


@cache
def derive(type_: Any, revision_id: RevisionId) -> Any:
    """Return a type as one revision defines it; the type itself when nothing differs.

    Raises:
        LocalProtocolError: The revision does not have the type at all.
    """
    if _is_dead(type_, revision_id):
        raise _no_such(type_, revision_id)
    if _is_struct(type_):
        return _derive_struct(type_, revision_id)
    if isinstance(type_, NewType):
        return derive(type_.__supertype__, revision_id)
    if get_origin(type_) in (list, dict):
        *key, item = get_args(type_)
        derived = (*key, derive(item, revision_id))
        return type_ if derived == get_args(type_) else get_origin(type_)[derived]
    alive = [m for m in _members(type_) if not _is_dead(m, revision_id)]
    if alive == [type_]:
        return type_
    union = reduce(operator.or_, (derive(m, revision_id) for m in alive))
    return type_ if union == type_ else union


def _derive_struct(struct: type[msgspec.Struct], revision: RevisionId) -> type[msgspec.Struct]:
    fields = _fields(struct, revision)
    derived = [(field, _derive_field(field, revision)) for field in fields if field.alive]
    if len(derived) == len(fields) and all(
        type_ == field.type and field.required is None for field, type_ in derived
    ):
        return struct
    config = struct.__struct_config__
    return msgspec.defstruct(
        struct.__name__,
        [(field.info.name, type_, _derived_default(field)) for field, type_ in derived],
        tag_field=config.tag_field,
        tag=config.tag,
        omit_defaults=config.omit_defaults,
        kw_only=True,
        module=struct.__module__,
    )


def _derive_field(field: _Field, revision: RevisionId) -> Any:
    type_ = field.type if field.was is None else field.was.type
    if field.required is not None:
        absence = {UnsetType} if field.required.stamp is None else {UnsetType, types.NoneType}
        type_ = reduce(operator.or_, (m for m in _members(type_) if m not in absence))
    return derive(type_, revision)


def _derived_default(field: _Field) -> Any:
    name, default, factory = field.info.encode_name, field.info.default, field.info.default_factory
    if field.required is not None:
        return msgspec.field(name=name)
    if factory is not NODEFAULT:
        return msgspec.field(name=name, default_factory=factory)
    return msgspec.field(name=name, default=default)


# Narrowing


def narrow(obj: Shaped, revision_id: RevisionId) -> Shaped:
    """Return an object in the shape of a revision; the object itself when nothing differs.

    Raises:
        LocalProtocolError: The revision cannot express the object.
    """
    narrower = NARROWERS[revision_id][type(obj)]
    return obj if narrower is None else narrower(obj)


class _Narrowers(dict[type, Narrower | None]):
    """What to do with an object of a type in one revision; None where nothing can differ."""

    def __init__(self, revision: RevisionId) -> None:
        super().__init__({list: self.narrow_items, tuple: self.narrow_items, dict: self.narrow_map})
        self.revision = revision
        # The types that have been asked for and that map to None.
        self.unchanged: set[type] = set()

    def __missing__(self, type_: type) -> Narrower | None:
        self[type_] = narrower = self.compile(type_)
        if narrower is None:
            self.unchanged.add(type_)
        return narrower

    def compile(self, type_: type) -> Narrower | None:
        if not _is_struct(type_):
            return None
        if self.revision in lifetime_of(type_):
            return _compile_struct(type_, self)
        return self.replace_block if type_ in _AS_TEXT else partial(_refuse, self.revision)

    def narrow_any(self, value: Any) -> Any:
        narrower = self[type(value)]
        return value if narrower is None else narrower(value)

    def narrow_items(self, items: Any) -> Any:
        for item in items:
            narrower = self[type(item)]
            if narrower is not None and narrower(item) is not item:
                return [self.narrow_any(each) for each in items]
        return items

    def narrow_map(self, entries: JsonObject) -> dict[str, Any]:
        narrowed = {key: self.narrow_any(value) for key, value in entries.items()}
        same = all(map(operator.is_, narrowed.values(), entries.values()))
        return entries if same else narrowed

    def replace_block(self, block: Any) -> Any:
        annotations = getattr(block, "annotations", None)
        text = TextContent(_as_text(block), annotations=annotations, meta=block.meta)
        return self.narrow_any(text)

    def reaches(self, type_: Any) -> bool:
        """Return whether a value of this type may hold anything that differs."""
        if get_origin(type_) in (list, dict):
            return self.reaches(get_args(type_)[-1])
        if len(_members(type_)) > 1:
            return any(self.reaches(member) for member in _members(type_))
        return _is_struct(type_) and self[type_] is not None


def _refuse(revision: RevisionId, obj: object) -> Any:
    raise _no_such(type(obj), revision)


class _Plan(msgspec.Struct, frozen=True):
    """The fields of a struct that may differ in a revision, each with the value that is absence.

    Those that may change also have a test, in source, which is quicker than the change and passes
    nearly all values that stay as they are.
    """

    stamped: list[tuple[str, Any, Required]]
    dropped: list[tuple[str, object]]
    changed: list[tuple[str, Any, Narrower, str]]


def _plan(struct: Any, narrowers: _Narrowers) -> _Plan:
    plan = _Plan([], [], [])
    for field in _fields(struct, narrowers.revision):
        name, absent = field.info.name, field.info.default
        if not field.alive:
            plan.dropped.append((name, absent))
        elif (change := _compile_change(struct, field, narrowers)) is not None:
            plan.changed.append((name, absent, change, _kept_test(field, change, narrowers)))
        if field.required is not None:
            plan.stamped.append((name, absent, field.required))
    return plan


def _kept_test(field: _Field, change: Narrower, narrowers: _Narrowers) -> str:
    if change == narrowers.narrow_items:
        return "unchanged.issuperset(map(type, {})) or "
    if field.was is not None and field.was.type == JsonObject and not narrowers.reaches(field.type):
        return "type({}) is dict or "  # see _json_object
    return ""


def _compile_struct(struct: Any, narrowers: _Narrowers) -> Narrower | None:
    """Build the function that looks only at what may differ in this revision.

    It runs for every message, and attributes named in source are read four times as fast as by
    `getattr`. The source holds nothing but field names of our own structs.
    """
    plan = _plan(struct, narrowers)
    stamped, dropped, changed = plan.stamped, plan.dropped, plan.changed
    if not (stamped or dropped or changed):
        return None

    def refuse(name: str) -> None:
        raise LocalProtocolError(f"{struct.__name__}.{name} is required in {narrowers.revision}")

    known: JsonObject = {"refuse": refuse, "unchanged": narrowers.unchanged}
    tests, changes = [], []
    for name, absent, required in stamped:
        known |= {f"absent_{name}": absent, f"stamp_{name}": required.stamp}
        tests.append(f"obj.{name} is not absent_{name}")
        act = f"refuse({name!r})" if required.stamp is UNSET else f"narrowed.{name} = stamp_{name}"
        changes.append(f"if obj.{name} is absent_{name}: {act}")
    for name, absent in dropped:
        known[f"absent_{name}"] = absent
        tests.append(f"obj.{name} is absent_{name}")
        changes.append(f"narrowed.{name} = absent_{name}")
    for name, absent, change, kept in changed:
        known |= {f"absent_{name}": absent, f"change_{name}": change}
        may_be_absent = "" if absent is NODEFAULT else f"obj.{name} is absent_{name} or "
        is_kept = kept.format(f"obj.{name}")
        tests.append(f"({may_be_absent}{is_kept}change_{name}(obj.{name}) is obj.{name})")
        changes.append(
            f"if obj.{name} is not absent_{name}: narrowed.{name} = change_{name}(obj.{name})"
        )
    lines = [
        "def narrow(obj):",
        f"  if {' and '.join(tests)}: return obj",
        "  narrowed = obj.__copy__()",
        *(f"  {line}" for line in changes),
        "  return narrowed",
    ]
    exec("\n".join(lines), known)  # noqa: S102  # see above
    return known["narrow"]  # type: ignore[no-any-return]


def _compile_change(struct: Any, field: _Field, narrowers: _Narrowers) -> Narrower | None:
    nested = None
    if narrowers.reaches(field.type):
        nested = narrowers.narrow_items if get_origin(field.type) is list else narrowers.narrow_any
    if field.was is None:
        return nested
    convert, absent = _AS_BEFORE[field.was.type], field.info.default

    def convert_then_narrow(value: Any) -> Any:
        converted = convert(value)
        if converted is not UNSET:
            return converted if nested is None else nested(converted)
        if absent is NODEFAULT or field.required is not None:
            where = f"{struct.__name__}.{field.info.name}"
            raise LocalProtocolError(f"{where} cannot be expressed in {narrowers.revision}")
        return absent

    return convert_then_narrow


# What a content block says to a peer that cannot read it.


def _as_text(block: object) -> str:
    return _AS_TEXT[type(block)](block)


def _size(data: str) -> int:
    """Count the bytes behind a base64 text."""
    return len(data) * 3 // 4 - data[-2:].count("=")


def _embedded_as_text(block: EmbeddedResource) -> str:
    contents = block.resource
    return f"[resource: {contents.uri}]" if contents.text is None else contents.text


def _tool_use_as_text(block: ToolUseContent) -> str:
    arguments = msgspec.json.encode(block.input).decode()
    return f"[tool call {block.id}: {block.name} {arguments}]"


def _tool_result_as_text(block: ToolResultContent) -> str:
    said = "\n".join(_as_text(each) for each in block.content)
    return f"[tool {'error' if block.is_error else 'result'} {block.tool_use_id}: {said}]"


_AS_TEXT: Final[dict[type, Callable[[Any], str]]] = {
    TextContent: lambda block: block.text,
    ImageContent: lambda block: f"[image: {block.mime_type}, {_size(block.data)} bytes]",
    AudioContent: lambda block: f"[audio: {block.mime_type}, {_size(block.data)} bytes]",
    ResourceLink: lambda block: f"[resource link: {block.name} {block.uri}]",
    EmbeddedResource: _embedded_as_text,
    ToolUseContent: _tool_use_as_text,
    ToolResultContent: _tool_result_as_text,
}


# How a wider value becomes one of the type that the field was; UNSET where it cannot.


def _one_block(content: object) -> Any:
    if not isinstance(content, list):
        return content
    if len(content) == 1:
        return content[0]
    return TextContent("\n".join(_as_text(block) for block in content))


def _json_object(value: object) -> Any:
    if isinstance(value, dict) or msgspec.json.encode(value).lstrip().startswith(b"{"):
        return value
    return UNSET


def _scalars(content: JsonObject) -> dict[str, Any]:
    if not any(isinstance(value, list) for value in content.values()):
        return content
    return {k: ", ".join(v) if isinstance(v, list) else v for k, v in content.items()}


def _object_schema(schema: JsonObject) -> Any:
    if schema.get("type") != "object":
        return UNSET
    properties = schema.get("properties", {})
    if not any(isinstance(value, bool) for value in properties.values()):
        return schema
    plain = {k: _BOOLEAN_SCHEMAS[v] if isinstance(v, bool) else v for k, v in properties.items()}
    return schema | {"properties": plain}


_BOOLEAN_SCHEMAS: Final[dict[bool, JsonObject]] = {True: {}, False: {"not": {}}}


def _form_schema(schema: JsonObject) -> Any:
    plain = {key: schema[key] for key in ("type", "properties", "required") if key in schema}
    plain["properties"] = {k: _form_field(v) for k, v in schema.get("properties", {}).items()}
    if any(value is UNSET for value in plain["properties"].values()):
        return UNSET
    return schema if plain == schema else plain


def _form_field(field: JsonObject) -> Any:
    if field.get("type") not in _FORM_FIELD_KEYS:
        return UNSET
    if "oneOf" in field:
        choices = field["oneOf"]
        names = [choice.get("title", choice["const"]) for choice in choices]
        field = field | {"enum": [choice["const"] for choice in choices], "enumNames": names}
    known = ("type", "title", "description", *_FORM_FIELD_KEYS[field["type"]])
    return {key: field[key] for key in known if key in field}


_FORM_FIELD_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "string": ("format", "minLength", "maxLength", "enum", "enumNames"),
    "number": ("minimum", "maximum"),
    "integer": ("minimum", "maximum"),
    "boolean": ("default",),
}


def _form_elicitation(capability: ElicitationCapability) -> Any:
    """Hide a client that knows pages only from servers that would show it a form."""
    return UNSET if capability.form is None and capability.url is not None else capability


_AS_BEFORE: Final[dict[Any, Callable[[Any], Any]]] = {
    SamplingContentBlock: _one_block,
    JsonObject: _json_object,
    ElicitedScalars: _scalars,
    ObjectSchema: _object_schema,
    FormSchema: _form_schema,
    FormElicitationCapability: _form_elicitation,
}

NARROWERS: Final = {revision: _Narrowers(revision) for revision in REVISION_IDS}
"""By revision and type, what `narrow` calls; None where it returns the object itself."""


# Decoding


class _Decoders(dict[Any, Callable[[Buffer], Any]]):
    def __missing__(self, type_: object) -> Callable[[Buffer], Any]:
        self[type_] = decoder = msgspec.json.Decoder(type_).decode
        return decoder


_DECODERS: Final = _Decoders()


def decode(raw: Buffer, type_: object, revision_id: RevisionId) -> Any:
    """Read JSON as a type, where keys that the revision does not define cannot do harm.

    Raises:
        msgspec.ValidationError: The JSON is not of this type.
        msgspec.DecodeError: The bytes are not JSON.
    """
    try:
        return _DECODERS[type_](raw)
    except msgspec.ValidationError as error:
        return _read_again(raw, type_, revision_id, error)


def _read_again(
    raw: Buffer, type_: object, revision: RevisionId, error: msgspec.ValidationError
) -> Any:
    """Give the verdict to the revision's own type, and pass on only what that type has."""
    own = type_ if _is_dead(type_, revision) else derive(type_, revision)
    try:
        known = _DECODERS[own](msgspec.json.encode(_WHOLE_NUMBERS(raw)))
    except msgspec.ValidationError:
        raise error from None
    return _DECODERS[type_](msgspec.json.encode(known))


def _whole(text: str) -> int | float:
    """Read 1.0 as 1, which JSON Schema takes for the same integer."""
    number = float(text)
    if isinf(number):
        raise ValueError("number out of range")
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


_WHOLE_NUMBERS: Final = msgspec.json.Decoder(float_hook=_whole).decode


def exists_in(type_: object, revision: RevisionId) -> bool:
    """Return whether a revision has a type of messages.

    >>> from accord.types import ToolAnnotations
    >>> exists_in(ToolAnnotations, "2024-11-05"), exists_in(ToolAnnotations, "2025-03-26")
    (False, True)
    """
    return revision in lifetime_of(type_)
