"""The kinds of views: fewer entries, other names, other descriptions, other arguments."""

import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, TypedDict

from accord.errors import RegistrationError
from accord.server.access import parse_tags
from accord.server.entries.entry import ENTRY_KINDS, EntryKind
from accord.server.hub import LIST_KINDS, UPDATED, Hub, ListKind, ServerChange, list_topic
from accord.server.sources.views import Views

if TYPE_CHECKING:
    from accord.server.entries.entry import Entry
    from accord.server.sources.arguments import ArgumentChange, Hidden
    from accord.types import ToolAnnotations

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
    def is_complete(self) -> bool:  # type: ignore[override]
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
        from accord.server.sources.lifespans import lifespan_of

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
        from accord.server.sources.entries import UriRename, relocate, rename

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
        from accord.server.sources.entries import UriPrefix

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
        from accord.server.sources.entries import relocate

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
            from accord.server.sources.entries import relocate

            return [relocate(entry, self._uris) for entry in shown]
        return shown

    def show(self, kind: EntryKind, entry: Any) -> Any:
        from accord.server.sources.entries import relocate, rename

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
        from accord.server.sources.entries import redescribe

        text = self._descriptions.get(entry.key)
        return entry if text is None else redescribe(entry, description=text)


class ChangeView(View):
    """A source with another form of one tool."""

    def __init__(self, base: Views, tool: str, change: ToolChange) -> None:
        from accord.keywords import refuse_unknown

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
        from accord.server.sources.arguments import ArgumentChanges
        from accord.server.sources.entries import change_arguments, redescribe, rename, retag

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
