"""What servers return: results of tools, checked and decoded, lists that may not end, errors."""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import UNSET

from accord.errors import (
    MissingCapability,
    MissingExtra,
    RemoteProtocolError,
    RequestError,
    ToolError,
    lower_first,
)
from accord.json_schema.validation import UNDECIDED, Validate, compile_schema
from accord.protocol.party import capability_paths
from accord.protocol.violation import SERVER, Violation
from accord.types import (
    CallToolResult,
    ElicitParams,
    JsonObject,
    Prompt,
    Resource,
    ResourceTemplate,
    Task,
    TextContent,
    Tool,
    UrlElicitationData,
)

Output = TypeVar("Output")
Entry: TypeAlias = Tool | Prompt | Resource | ResourceTemplate | Task

# At ten entries a page this is a list of 100,000.
MOST_PAGES: Final = 10_000


class OutputSchema:
    """Validates results against the output schema of their tool, which is compiled once.

    Without the extra `schema` nothing is checked.
    """

    __slots__ = ("_name", "_schema", "_validate")

    def __init__(self, name: str, schema: JsonObject) -> None:
        self._name = name
        self._schema = schema
        self._validate: Validate | None = None

    def check(self, result: CallToolResult) -> None:
        """Refuse a result that does not conform.

        Raises:
            RemoteProtocolError: the structured content is missing or does not fit, or the schema
                cannot be used.
        """
        if result.is_error:
            return
        if result.structured_content is UNSET:
            why = f"answers {self._name}, which has an output schema, without structured content"
            raise self._breach(why)
        validate = self._validate or self._compile()
        misfit = validate(result.structured_content)
        if misfit is None:
            return
        what = "" if misfit.startswith(UNDECIDED) else "breaks its own schema: "
        raise self._breach(f"answers {self._name} with structured content that {what}{misfit}")

    def _compile(self) -> Validate:
        try:
            self._validate = compile_schema(self._schema)
        except MissingExtra:
            self._validate = _accept
        except ValueError as error:
            why = f"names an output schema of {self._name} that cannot be used: {error}"
            raise self._breach(why) from None
        return self._validate

    def _breach(self, why: str) -> RemoteProtocolError:
        violation = Violation("tools.call.structured-conforms", SERVER, why)
        return RemoteProtocolError(str(violation), [violation])


def _accept(instance: object) -> None:
    """Accept anything: no validator is installed."""


def decode_output(name: str, result: CallToolResult, type_: type[Output]) -> Output:
    """Decode the result of a tool into a type.

    The structured content counts first, also where it is wrapped as `{"result": ...}`; without it,
    the text is read as JSON, and as plain text where the type wants text.

    Raises:
        ToolError: the tool failed; the text says why.
        RemoteProtocolError: nothing in the result fits the type.
    """
    if result.is_error:
        texts = _texts(result)
        data = result.structured_content
        if len(texts) > 1 and data is not UNSET and _is_json_of(texts[-1], data):
            texts.pop()  # which says it again
        raise ToolError(
            "\n".join(texts) or f"{name} failed without saying why",
            data=data if isinstance(data, dict) else None,
        )
    try:
        if result.structured_content is not UNSET:
            return _from_structured(result.structured_content, type_)
        return _from_text(result, type_)
    except ValueError as error:
        # Pydantic says where and what in the lines after the first.
        lines = str(error).replace("`", "").splitlines()[:3]
        reason = ": ".join(line.strip() for line in lines)
        # The name of a generic type lacks its arguments.
        wanted = repr(type_) if get_args(type_) else getattr(type_, "__name__", repr(type_))
        raise RemoteProtocolError(
            f"the result of {name} does not fit {wanted}: {lower_first(reason)}"
        ) from None


def _is_json_of(text: str, value: object) -> bool:
    try:
        return bool(msgspec.json.decode(text) == value)
    except ValueError:
        return False


def _from_structured(value: object, type_: type[Output]) -> Output:
    try:
        return _convert(value, type_)
    except ValueError:
        if isinstance(value, dict) and value.keys() == {"result"}:
            return _convert(value["result"], type_)
        raise


def _from_text(result: CallToolResult, type_: type[Output]) -> Output:
    texts = _texts(result)
    if type_ is str:
        return "\n".join(texts)  # type: ignore[return-value]  # the type is str
    if not texts:
        raise ValueError("it has neither structured content nor text")
    values = [_parse_json(text) for text in texts]
    if len(values) > 1:
        return _convert(values, type_)
    try:
        return _convert(values[0], type_)
    except ValueError:
        return _convert(texts[0], type_)


def _parse_json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _convert(value: object, type_: type[Output]) -> Output:
    validate = getattr(type_, "model_validate", None)
    if validate is not None:
        validated: Output = validate(value)
        return validated
    return msgspec.convert(value, type_, dec_hook=_convert_model)


def _convert_model(type_: type[Any], value: object) -> object:
    """Convert a pydantic model inside another type."""
    validate = getattr(type_, "model_validate", None)
    if validate is None:
        raise ValueError(f"expected {type_.__name__}, got {type(value).__name__}")
    return validate(value)


def _texts(result: CallToolResult) -> list[str]:
    return [block.text for block in result.content if isinstance(block, TextContent)]


def _key(entry: Entry) -> str:
    """Return what tells an entry from others."""
    if isinstance(entry, Task):
        return entry.task_id
    return getattr(entry, "uri", None) or entry.name


class PageGuard:
    """Counts the pages of one list and refuses a list that does not end.

    Cursors and pages are remembered by their hashes: a cursor may be as long as a message.

    Args:
        method: the list.
        empty_pages: how many pages in a row may have no new entry.
    """

    def __init__(self, method: str, empty_pages: int) -> None:
        self._method = method
        self._empty_pages = empty_pages
        self._cursors: set[int] = set()
        self._contents: set[int] = set()
        self._empty = 0

    def check(self, entries: Sequence[Entry], cursor: str) -> None:
        """Count a page and remember the cursor to the next one.

        Raises:
            RemoteProtocolError: the cursor was seen before, or the list does not end.
        """
        if hash(cursor) in self._cursors:
            raise RemoteProtocolError(
                f"{self._method}: the server repeats cursor {cursor[:40]!r}, the list has no end"
            )
        self._cursors.add(hash(cursor))
        self._count_empty(entries)
        if len(self._cursors) >= MOST_PAGES:
            raise RemoteProtocolError(
                f"{self._method}: no end after {MOST_PAGES} pages; "
                "fetch further ones by their cursors"
            )

    def _count_empty(self, entries: Sequence[Entry]) -> None:
        content = hash(tuple(map(_key, entries)))
        if entries and content not in self._contents:
            self._contents.add(content)
            self._empty = 0
            return
        self._empty += 1
        if self._empty >= self._empty_pages:
            raise RemoteProtocolError(
                f"{self._method}: the server sent {self._empty} pages in a row without a new "
                "entry, each with a cursor to another one; connect(..., empty_pages=...) reads more"
            )


# -- errors


def read_pages(data: object) -> tuple[ElicitParams, ...]:
    """Return the pages in the data of error -32042; none if they cannot be read."""
    try:
        pages = msgspec.convert(data, UrlElicitationData).elicitations
    except msgspec.ValidationError:
        return ()
    return tuple(page for page in pages if page.mode == "url" and page.url is not None)


# What declares a capability; the more special paths first.
_DECLARING: Final = {
    "elicitation.url": "on_elicit_url",
    "elicitation": "on_elicit",
    "sampling.tools": "on_sample and sampling_tools=True",
    "sampling.context": "on_sample and sampling_context=True",
    "sampling": "on_sample",
    "roots": "roots",
}


def add_advice(error: RequestError) -> RequestError:
    """Note on an error about a missing capability how a program declares it."""
    data = error.data
    if isinstance(error, MissingCapability) and isinstance(data, dict):
        missing = capability_paths(data.get("requiredCapabilities"))
        found = next((_DECLARING[path] for path in _DECLARING if path in missing), None)
        if found is not None:
            error.add_note(f"to declare it, give connect() {found}")
    return error
