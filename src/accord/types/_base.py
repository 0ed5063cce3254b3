"""What every message type is made of: revision ids, lifetimes, base structs, common messages.

A field, a struct or a method lives from one revision to another, both ends included. Lifetimes
are written once, on the newest superset of each type; the shapes of older revisions are derived
from them (`accord.protocol.shape`). Common are the messages that no single feature owns: pages,
progress, cancellation. The JSON-RPC envelope around them is not described here.
"""

from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NoReturn,
    TypeAlias,
    TypeVar,
    get_args,
)

import msgspec

from accord.errors import lower_first, suggest_keyword

__all__ = [
    "REVISION_IDS",
    "CacheScope",
    "CacheableResult",
    "CancelledParams",
    "Cursor",
    "EmptyParams",
    "EmptyResult",
    "InputResponses",
    "JsonObject",
    "Lifetime",
    "PageParams",
    "PageResult",
    "Params",
    "ProgressParams",
    "ProgressToken",
    "RequestId",
    "Result",
    "RetryParams",
    "RevisionId",
    "Role",
    "TaskMetadata",
]

RevisionId: TypeAlias = Literal[
    "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"
]
REVISION_IDS: Final[tuple[RevisionId, ...]] = get_args(RevisionId)

JsonObject: TypeAlias = dict[str, Any]
RequestId: TypeAlias = int | str
ProgressToken: TypeAlias = int | str
Cursor: TypeAlias = str
Role: TypeAlias = Literal["user", "assistant"]

Marked = TypeVar("Marked", bound=type)
Message = TypeVar("Message", bound="Struct")


class Lifetime(msgspec.Struct, frozen=True):
    """The revisions in which something exists: from `since` to `until`, both included.

    Stands in `Annotated` on a field, or as a decorator on a struct.
    """

    since: RevisionId = REVISION_IDS[0]
    until: RevisionId = REVISION_IDS[-1]

    def __contains__(self, revision: object) -> bool:
        return isinstance(revision, str) and self.since <= revision <= self.until

    def __and__(self, other: "Lifetime") -> "Lifetime":
        return Lifetime(max(self.since, other.since), min(self.until, other.until))

    def __call__(self, marked: Marked) -> Marked:
        """Give a struct this lifetime, narrowed by the one it already has."""
        marked.__lifetime__ = lifetime_of(marked) & self  # type: ignore[attr-defined]  # set on the class it decorates
        return marked


def since(revision: RevisionId) -> Lifetime:
    """Exists from this revision on."""
    return Lifetime(since=revision)


def until(revision: RevisionId) -> Lifetime:
    """Exists up to and including this revision."""
    return Lifetime(until=revision)


def only(revision: RevisionId) -> Lifetime:
    """Exists in this revision alone."""
    return Lifetime(revision, revision)


class Required(msgspec.Struct, frozen=True):
    """A field that some revisions demand although others lack it or leave it open.

    `stamp` is the value that leaves when the author gave none; without a stamp the author has to.
    """

    lifetime: Lifetime
    stamp: object = msgspec.UNSET


def must_send(
    *,
    since: RevisionId = REVISION_IDS[0],
    until: RevisionId = REVISION_IDS[-1],
    stamp: object = msgspec.UNSET,
) -> Required:
    """Demand a field in these revisions, with the value to send when none was chosen."""
    return Required(Lifetime(since, until), stamp)


class Was(msgspec.Struct, frozen=True):
    """The narrower type that a field had during earlier revisions."""

    type: object
    lifetime: Lifetime


def was(type_: object, *, until: RevisionId) -> Was:
    """Say which type a field had before it widened."""
    return Was(type_, Lifetime(until=until))


ALWAYS: Final = Lifetime()


def lifetime_of(type_: object) -> Lifetime:
    """Return the lifetime written on a struct; without one it is unlimited."""
    lifetime = vars(type_).get("__lifetime__", ALWAYS) if isinstance(type_, type) else ALWAYS
    return lifetime if isinstance(lifetime, Lifetime) else ALWAYS


_construct: Final[Any] = msgspec.StructMeta.__call__


class Misnamed:
    """An attribute that other libraries have; reading it says how it is called here.

    A `__getattr__` would do the same, and slow down every other attribute.
    """

    def __init__(self, name: str, meant: str) -> None:
        self._name = name
        self._meant = meant

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(
            f"{owner.__name__} has no attribute {self._name!r}; did you mean {self._meant}?"
        )


class MessageType(msgspec.StructMeta):
    """The type of message types: tags are attributes, and mistaken keywords are explained.

    Keywords may also be the names of the wire, such as `readOnlyHint`, which other libraries have.
    A message is made at once where its keywords are right. The help takes part where msgspec
    refuses them; decoding does not come by here at all.
    """

    if TYPE_CHECKING:
        pass  # type checkers go by the fields
    else:

        def __new__(mcls, name, bases, namespace, **options):
            tag_field = options.get("tag_field")
            if tag_field is not None:
                namespace[tag_field] = options["tag"]
            made = super().__new__(mcls, name, bases, namespace, **options)
            renamed = zip(made.__struct_encode_fields__, made.__struct_fields__, strict=True)
            for wire, field in renamed:
                if wire != field and wire.isidentifier() and not wire.startswith("_"):
                    setattr(made, wire, Misnamed(wire, field))
            return made

        def __call__(self, *args, **keywords):
            try:
                return _construct(self, *args, **keywords)
            except TypeError as error:
                refusal = error
            config = self.__struct_config__
            if config.tag_field in keywords:
                given = keywords.pop(config.tag_field)
                if given != config.tag:
                    raise TypeError(
                        f"{self.__name__} has {config.tag_field}={config.tag!r}, not {given!r:.80}"
                    )
                return self(*args, **keywords)
            fields = dict(zip(self.__struct_encode_fields__, self.__struct_fields__, strict=True))
            named = {fields.get(name, name): value for name, value in keywords.items()}
            if named.keys() != keywords.keys() and len(named) == len(keywords):
                return self(*args, **named)
            raise _explain_refusal(self, keywords, refusal)


def _explain_refusal(
    kind: type["Struct"], keywords: dict[str, object], refusal: TypeError
) -> TypeError:
    """Return an error that names the type, and the keyword that was meant by an unknown one."""
    for name in keywords:
        if name not in kind.__struct_fields__:
            hint = suggest_keyword(name, kind.__struct_fields__)
            return TypeError(f"{kind.__name__}() has no keyword {name!r}; {hint}")
    return TypeError(f"{kind.__name__}(): {lower_first(refusal)}")


def constructor(kind: type[Message]) -> type[Message]:
    """Return what makes messages of a type in a quarter of the time, without help for mistakes.

    For code that makes one with each request; arguments by position are the fastest.
    """
    made: type[Message] = _construct.__get__(kind)
    return made


class Struct(msgspec.Struct, metaclass=MessageType, rename="camel", omit_defaults=True, gc=False):
    """Base of all message types: camelCase on the wire, defaults left out.

    Messages are trees, so the garbage collector need not look at them.
    """

    def to_dict(self) -> JsonObject:
        """Return the message as plain JSON values, with the names of the specification.

        Members that are not set are left out.
        """
        plain: JsonObject = msgspec.json.decode(_encode(self))
        return plain

    def to_json(self) -> str:
        """Return the message as JSON text, with the names of the specification."""
        return _encode(self).decode()


for _name, _meant in (("model_dump", "to_dict()"), ("model_dump_json", "to_json()")):
    # Set here, so that type checkers know no such attributes.
    setattr(Struct, _name, Misnamed(_name, _meant))

_encode: Final = msgspec.json.Encoder().encode


class Item(Struct, kw_only=True):
    """Base of the parts of messages that have a `_meta` of their own."""

    meta: Annotated[JsonObject | None, since("2025-06-18")] = msgspec.field(
        name="_meta", default=None
    )


class QuestionBody(Struct, kw_only=True):
    """Base of questions to the client and their answers, which lost `_meta` with their envelope."""

    meta: Annotated[JsonObject | None, until("2025-11-25")] = msgspec.field(
        name="_meta", default=None
    )


InputResponses: TypeAlias = dict[str, msgspec.Raw]
"""Answers by the key of their question; only the asker knows which result type each one has."""

CacheScope: TypeAlias = Literal["public", "private"]


class Params(Struct, kw_only=True):
    """Base of the params of requests and notifications."""

    # 2026-07-28 demands it on requests; the endpoint fills it in.
    meta: JsonObject | None = msgspec.field(name="_meta", default=None)


class EmptyParams(Params):
    """Params of messages that say all by their method."""


class PageParams(Params):
    """Ask for one page of a list."""

    cursor: Cursor | None = None


class RetryParams(Params, kw_only=True):
    """Base of the params of requests that may be repeated with answers to questions."""

    input_responses: Annotated[InputResponses | None, since("2026-07-28")] = None
    request_state: Annotated[str | None, since("2026-07-28")] = None


@only("2025-11-25")
class TaskMetadata(Struct):
    """Ask for a request to be run as a task, kept for `ttl` milliseconds."""

    ttl: int | None = None


class Result(Struct, kw_only=True):
    """Base of all results of a server."""

    meta: JsonObject | None = msgspec.field(name="_meta", default=None)
    result_type: Annotated[
        str | None, since("2026-07-28"), must_send(since="2026-07-28", stamp="complete")
    ] = None


class EmptyResult(Result):
    """The result of requests that only acknowledge."""


class CacheableResult(Result, kw_only=True):
    """Base of results that say how long they may be kept, and for which callers."""

    ttl_ms: Annotated[int | None, since("2026-07-28"), must_send(since="2026-07-28", stamp=0)] = (
        None
    )
    cache_scope: Annotated[
        CacheScope | None, since("2026-07-28"), must_send(since="2026-07-28", stamp="private")
    ] = None


class PageResult(CacheableResult, kw_only=True):
    """Base of results that hold one page of a list."""

    next_cursor: Cursor | None = None


class ProgressParams(Params):
    """Tell how far a request has come."""

    progress_token: ProgressToken
    progress: int | float
    total: int | float | None = None
    message: Annotated[str | None, since("2025-03-26")] = None


class CancelledParams(Params):
    """Tell that the answer to a request is no longer wanted."""

    request_id: Annotated[
        RequestId | None, must_send(until="2025-06-18"), must_send(since="2026-07-28")
    ] = None
    reason: str | None = None
