"""Views on a source: fewer entries, other names, other descriptions, other arguments of a tool."""

import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict

import msgspec

from accord.errors import RegistrationError, ToolError, lower_first, refuse_unknown
from accord.server.access import parse_tags
from accord.server.entries.entry import ENTRY_KINDS, EntryKind
from accord.server.hub import LIST_KINDS, UPDATED, Hub, ListKind, ServerChange, list_topic
from accord.server.schema.plain import encode
from accord.server.sources.entries import (
    UriPrefix,
    UriRename,
    change_arguments,
    redescribe,
    relocate,
    rename,
    retag,
)
from accord.server.sources.sessions import lifespan_of
from accord.server.sources.source import Views

if TYPE_CHECKING:
    from accord.server.context import Context
    from accord.server.entries.entry import Entry
    from accord.types import JsonObject, ToolAnnotations


log = logging.getLogger("accord.server")

_CHANGES: Final = (*map(list_topic, LIST_KINDS), (UPDATED, None))


class ToolChange(TypedDict, total=False):
    """Another form of a tool.

    Attributes:
        name: its name for clients.
        title: its name for people.
        description: what it does.
        hide: arguments that clients neither see nor send, each with its value, or with a function
            that returns it for each call; the function may be async and take the context.
        arguments: other forms of arguments: another name, or a dictionary with `name`,
            `description`, `default` and `schema`.
        annotations: hints such as `read_only_hint`.
        tags: words by which it is selected, shown or hidden.
    """

    name: str
    title: str
    description: str
    hide: "Mapping[str, Hidden]"
    arguments: "Mapping[str, ArgumentChange | str]"
    annotations: "ToolAnnotations"
    tags: Iterable[str]


class View(Views):
    """A source that shows another one in its own way; what changes there changes here."""

    def __init__(self, base: Views) -> None:
        self.base = base
        self.name = base.name
        self.hub = Hub()
        self._left_out: set[str] = set()
        base.hub.listen(self, _CHANGES)

    def __repr__(self) -> str:
        return f"a view of {self.base!r}"

    @property
    def is_complete(self) -> bool:  # type: ignore[override]  # that of its source
        return self.base.is_complete

    def parts(self) -> Sequence[Views]:
        return [self.base]

    def find_unlisted(self, uri: str) -> "Entry | None":
        return self.base.find_unlisted(uri)

    def hear(self, change: ServerChange) -> None:
        """Pass a change of the source on."""
        self.hub.publish(change)

    def entries(self, kind: EntryKind) -> "Sequence[Entry]":
        shown = []
        for each in self.base.entries(kind):
            try:
                entry = self.show(kind, each)
            except RegistrationError as error:  # which arose since the view was made
                self._leave_out(str(error))
            else:
                if entry is not None:
                    shown.append(entry)
        return shown

    def _leave_out(self, why: str) -> None:
        """Log why an entry is left out, once; the others are offered all the same."""
        if why not in self._left_out:
            self._left_out.add(why)
            log.warning("an entry of %r is left out: %s", self, why)

    def show(self, kind: EntryKind, entry: Any) -> Any:
        """Return an entry as the view shows it; None where it does not."""
        raise NotImplementedError

    def expected_names(self) -> Iterable[str]:
        """Return the names that have to exist in the source."""
        return ()

    @asynccontextmanager
    async def run_lifespan(self) -> AsyncIterator[Any]:
        """Hold what the source needs, and check the names that the view is made with."""
        lifespan = lifespan_of(self.base)
        await lifespan.acquire()
        try:
            self._check_names()
            yield lifespan.state
        finally:
            await lifespan.release()

    def _check_names(self) -> None:
        wanted = [name for name in self.expected_names() if not _is_pattern(name)]
        if not wanted:
            return
        known = {entry.key for kind in ENTRY_KINDS for entry in self.base.entries(kind)}
        for name in wanted:
            if name in known:
                continue
            from difflib import get_close_matches

            close = get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            text = f"{self!r}: no entry of the source is named {name!r}{hint}"
            if self.is_complete:
                raise RegistrationError(text)
            log.warning("%s", text)


def _is_pattern(name: str) -> bool:
    return "*" in name or "?" in name


class Selection(View):
    """Some entries of a source, or all but some."""

    def __init__(
        self,
        base: Views,
        names: tuple[str, ...],
        tags: Iterable[str],
        kind: ListKind | None,
        *,
        keeps: bool,
    ) -> None:
        call = "only" if keeps else "without"
        if kind is not None and kind not in LIST_KINDS:
            raise ValueError(f"kind is {kind!r}, expected one of {', '.join(LIST_KINDS)}")
        self._tags = parse_tags(tags)
        if not names and not self._tags and kind is None:
            raise ValueError(f"{call}() needs names, tags or a kind, as {call}(tags={{'admin'}})")
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"{call}(): a name is {name!r:.80}, expected text")
        super().__init__(base)
        self._names = frozenset(name for name in names if not _is_pattern(name))
        self._patterns = tuple(name for name in names if _is_pattern(name))
        self._kind = kind
        self._keeps = keeps

    def __repr__(self) -> str:
        return f"{self.base!r}.{'only' if self._keeps else 'without'}(...)"

    def expected_names(self) -> Iterable[str]:
        return self._names

    def find_unlisted(self, uri: str) -> "Entry | None":
        return None  # which entries it shows is decided by what they are

    def show(self, kind: EntryKind, entry: Any) -> Any:
        return entry if self._matches(entry) is self._keeps else None

    def _matches(self, entry: Any) -> bool:
        if self._kind is not None and entry.list_kind != self._kind:
            return False
        if not self._names and not self._patterns and not self._tags:
            return True
        if entry.key in self._names or not self._tags.isdisjoint(entry.tags):
            return True
        return any(fnmatchcase(entry.key, pattern) for pattern in self._patterns)


class Renaming(View):
    """A source with other names."""

    def __init__(self, base: Views, names: Mapping[str, str]) -> None:
        for old, new in names.items():
            if not new or new.__class__ is not str:
                raise ValueError(f"rename(): the new name of {old!r} is {new!r}, expected text")
        super().__init__(base)
        self._new_names = dict(names)

    def __repr__(self) -> str:
        return f"{self.base!r}.rename(...)"

    def expected_names(self) -> Iterable[str]:
        return self._new_names

    def hear(self, change: ServerChange) -> None:
        if change.key is not None and change.key in self._new_names:
            from accord.server.hub import resource_change

            change = resource_change(self._new_names[change.key])
        super().hear(change)

    def show(self, kind: EntryKind, entry: Any) -> Any:
        name = self._new_names.get(entry.key)
        if name is None or name == entry.key:
            return entry
        if kind == "resource_templates":
            raise RegistrationError(
                f"{self!r}: the template {entry.key!r} cannot be renamed; prefix() changes its URIs"
            )
        if kind == "resources":
            return relocate(entry, UriRename(entry.key, name))
        return rename(entry, name)


class Prefixing(View):
    """A source with a prefix before all names, and within all URIs."""

    def __init__(self, base: Views, prefix: str, separator: str) -> None:
        if not prefix or not _PREFIX_CHARACTERS.issuperset(prefix):
            raise ValueError(
                f"the prefix is {prefix!r}, expected letters, digits, '_', '-' and '.', as tools "
                "have in their names"
            )
        if not _PREFIX_CHARACTERS.issuperset(separator):
            raise ValueError(
                f"the separator is {separator!r}, expected letters, digits, '_', '-' and '.'"
            )
        super().__init__(base)
        self._prefix = prefix
        self._separator = separator
        self._uris = UriPrefix(prefix, base.offers_uri)

    def find_unlisted(self, uri: str) -> "Entry | None":
        inner = self._uris.inward(uri)
        found = None if inner == uri else self.base.find_unlisted(inner)
        return found and relocate(found, self._uris)

    def __repr__(self) -> str:
        return f"{self.base!r}.prefix({self._prefix!r})"

    def hear(self, change: ServerChange) -> None:
        if change.key is not None:
            from accord.server.hub import resource_change

            change = resource_change(self._uris.outward(change.key))
        super().hear(change)

    def entries(self, kind: EntryKind) -> "Sequence[Entry]":
        # Results are searched for links only where there are resources to link to.
        has_resources = kind in ("tools", "prompts") and (
            self.base.entries("resources") or self.base.entries("resource_templates")
        )
        shown = [self.show(kind, entry) for entry in self.base.entries(kind)]
        if has_resources:
            return [relocate(entry, self._uris) for entry in shown]
        return shown

    def show(self, kind: EntryKind, entry: Any) -> Any:
        if kind in ("tools", "prompts"):
            return rename(entry, f"{self._prefix}{self._separator}{entry.key}")
        return relocate(entry, self._uris)


_PREFIX_CHARACTERS: Final = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
)


class DescriptionView(View):
    """A source with other descriptions."""

    def __init__(self, base: Views, descriptions: Mapping[str, str]) -> None:
        super().__init__(base)
        self._descriptions = dict(descriptions)

    def __repr__(self) -> str:
        return f"{self.base!r}.describe(...)"

    def expected_names(self) -> Iterable[str]:
        return self._descriptions

    def show(self, kind: EntryKind, entry: Any) -> Any:
        text = self._descriptions.get(entry.key)
        return entry if text is None else redescribe(entry, description=text)


class ChangeView(View):
    """A source with another form of one tool."""

    def __init__(self, base: Views, tool: str, change: ToolChange) -> None:
        from accord.errors import refuse_unknown

        refuse_unknown("change()", change, ToolChange.__annotations__)
        if not change:
            raise ValueError(f"change({tool!r}) needs what to change, such as hide={{...}}")
        super().__init__(base)
        self._tool = tool
        self._change = change
        self._latest: tuple[Any, Any] = (None, None)
        found = next((each for each in base.entries("tools") if each.key == tool), None)
        if found is not None:
            self.show("tools", found)  # a mistake in it is found at once

    def __repr__(self) -> str:
        return f"{self.base!r}.change({self._tool!r})"

    def expected_names(self) -> Iterable[str]:
        return [self._tool]

    def entries(self, kind: EntryKind) -> "Sequence[Entry]":
        return super().entries(kind) if kind == "tools" else self.base.entries(kind)

    def show(self, kind: EntryKind, entry: Any) -> Any:
        if kind != "tools" or entry.key != self._tool:
            return entry
        if self._latest[0] is not entry:
            self._latest = entry, self._apply(entry)
        return self._latest[1]

    def _apply(self, entry: Any) -> Any:
        change = self._change
        hide, arguments = change.get("hide", {}), change.get("arguments", {})
        if hide or arguments:
            changes = ArgumentChanges(entry.key, entry.item.input_schema, hide, arguments)
            entry = change_arguments(entry, changes)
        members: dict[str, Any] = {
            name: change[name] for name in ("title", "description", "annotations") if name in change
        }
        if members:
            entry = redescribe(entry, **members)
        if "name" in change:
            entry = rename(entry, change["name"])
        if "tags" in change:
            entry = retag(entry, parse_tags(change["tags"]))
        return entry


# -- other arguments of a tool

Hidden: TypeAlias = object | Callable[..., object]
"""A value, or a function that returns it for each call; it may be async and take the context."""


class ArgumentChange(TypedDict, total=False):
    """Another form of one argument.

    Attributes:
        name: its name for clients.
        description: what it is for.
        default: the value where a client sends none; the argument becomes optional.
        schema: its JSON Schema, in place of its own.
    """

    name: str
    description: str
    default: object
    schema: "JsonObject"


class ArgumentChanges:
    """What a tool's arguments become before it is called, and the schema that clients see.

    Args:
        tool: its name, for messages.
        schema: the schema of the arguments as they are.
        hide: values of arguments that clients neither see nor send.
        arguments: other forms of arguments, by their names; a text is another name.

    Raises:
        RegistrationError: an argument does not exist, or two get the same name.
    """

    def __init__(
        self,
        tool: str,
        schema: "JsonObject",
        hide: Mapping[str, Hidden],
        arguments: Mapping[str, ArgumentChange | str],
    ) -> None:
        self._tool = tool
        self._hide = {name: _supplier(value) for name, value in hide.items()}
        self._inward: dict[str, str] = {}
        self._defaults: dict[str, object] = {}
        forms = {name: _read_form(tool, name, each) for name, each in arguments.items()}
        self.schema = self._change_schema(schema, forms)

    def _change_schema(
        self, schema: "JsonObject", forms: Mapping[str, ArgumentChange]
    ) -> "JsonObject":
        known: JsonObject = schema.get("properties", {})
        for name in (*self._hide, *forms):
            if name not in known:
                from difflib import get_close_matches

                close = get_close_matches(name, known, n=1)
                names = ", ".join(map(repr, known)) or "none"
                hint = f"did you mean {close[0]!r}?" if close else f"it has {names}"
                raise RegistrationError(
                    f"tool {self._tool!r} has no argument {name!r} to change; {hint}"
                )
        for name in forms.keys() & self._hide.keys():
            raise RegistrationError(
                f"tool {self._tool!r}: argument {name!r} is both hidden and changed"
            )
        required = schema.get("required", [])
        properties: JsonObject = {}
        needed: list[str] = []
        for name, described in known.items():
            if name in self._hide:
                continue
            form = forms.get(name, _AS_IT_IS)
            outer = form.get("name", name)
            if outer in properties:
                raise RegistrationError(
                    f"tool {self._tool!r} would have two arguments named {outer!r}"
                )
            properties[outer] = _change_property(described, form)
            if outer != name:
                self._inward[outer] = name
            if "default" in form:
                self._defaults[name] = form["default"]
            elif name in required:
                needed.append(outer)
        changed = {**deepcopy(schema), "properties": properties}
        changed.pop("required", None)
        return {**changed, "required": needed} if needed else changed

    async def apply(self, arguments: Any, context: "Context[Any]") -> msgspec.Raw:
        """Return the arguments that the tool is called with.

        Raises:
            ToolError: an argument is not one of those that clients see.
        """
        try:
            given = {} if arguments is msgspec.UNSET else msgspec.json.decode(arguments)
        except ValueError as error:
            raise ToolError(f"arguments: {lower_first(error)}") from None
        if not isinstance(given, dict):
            raise ToolError("arguments: expected an object")
        inner: dict[str, object] = dict(self._defaults)
        renamed = set(self._inward.values())
        for name, value in given.items():
            own_name = self._inward.get(name, name)
            # A name that was given away must not reach the argument that had it.
            if own_name in self._hide or (name in renamed and name not in self._inward):
                raise ToolError(f"unknown argument {name!r:.100}")
            inner[own_name] = value
        for name, supply in self._hide.items():
            value = supply(context)
            inner[name] = await value if inspect.isawaitable(value) else value
        return msgspec.Raw(encode(inner))


_AS_IT_IS: Final[ArgumentChange] = {}


def _read_form(tool: str, name: str, form: ArgumentChange | str) -> ArgumentChange:
    if isinstance(form, str) and form:
        return {"name": form}
    if not isinstance(form, Mapping):
        raise RegistrationError(
            f"change({tool!r}): argument {name!r} is {form!r:.80}, expected a name or a dictionary"
        )
    try:
        refuse_unknown(f"change({tool!r}), argument {name!r}", form, ArgumentChange.__annotations__)
    except TypeError as error:
        raise RegistrationError(str(error)) from None
    if not isinstance(form.get("name", name), str) or not form.get("name", name):
        raise RegistrationError(
            f"change({tool!r}): argument {name!r} is named {form['name']!r:.80}, expected text"
        )
    return form


def _change_property(described: Any, form: ArgumentChange) -> Any:
    if not form.keys() - {"name"}:
        return described
    schema = form.get("schema", described)
    changed = dict(deepcopy(schema)) if isinstance(schema, dict) else {}
    for member in ("description", "default"):
        if member in form:
            changed[member] = form[member]
    return changed


def _supplier(value: Hidden) -> "Callable[[Context[Any]], object]":
    """Return how a hidden value is found for a call."""
    if not callable(value):
        return lambda context: value
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):  # a built-in function
        parameters = ()  # type: ignore[assignment]  # no view of a dictionary
    function: Callable[..., object] = value
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    for each in parameters:
        # Others have defaults of their own, as `tz` of `datetime.now` has.
        if each.kind in positional and each.default is each.empty:
            return function
        break
    return lambda context: function()
