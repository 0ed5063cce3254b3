"""YAML as PyYAML reads it, and where its entries are, from the marks of its nodes."""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from accord.errors import MissingExtra
from accord_tools.hosts.definition import HostsError
from accord_tools.hosts.documents.document import (
    MOST_LEVELS,
    TextPlace,
    UnreadableDocument,
    find_place,
)

# -- texts read by PyYAML


_LARGE: Final = 500_000


@contextmanager
def pause_collection(text: str) -> Iterator[None]:
    """Switch the garbage collector off while a large text is read.

    It would look at a million new objects again and again, which takes four times as long.
    """
    if len(text) < _LARGE or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def import_yaml() -> Any:
    """Return the module of PyYAML.

    Raises:
        HostsError: it is not installed.
    """
    try:
        import yaml
    except ImportError:
        raise HostsError(str(MissingExtra("yaml", needed_for="a file of YAML"))) from None
    return yaml


def load_yaml(text: str) -> Any:
    """Return the value of a text.

    Raises:
        ValueError: it is not YAML, or has tags that only one program knows.
    """
    yaml = import_yaml()
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        with pause_collection(text):
            return yaml.load(text, loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


# -- scanner


# Aliases multiply: a few lines could name a billion values.
_MOST_VALUES: Final = 1_000_000
_ALIAS: Final = re.compile(r"\*([^\s\[\]{},]+)")
_ANCHOR: Final = re.compile(r"&([^\s\[\]{},]+)")
_BLANK: Final = re.compile(r"(?:[ \t\r\n]++|#[^\r\n]*+)*+")
_GAP: Final = re.compile(r"(?:[ \t\r\n,{]++|#[^\r\n]*+)*+")
_SPACE: Final = re.compile(r"[ \t]*")
# What PyYAML and libyaml say, and what a person understands.
_SAID: Final = (
    ("mapping values are not allowed", "a : stands here; a text with a colon in it needs quotes"),
    ("expected ':'", "a : is missing after a key"),
    ("expected ',' or ']'", "a list is not closed; a comma or ] is missing"),
    ("expected ',' or '}'", "an object is not closed; a comma or } is missing"),
    ("unexpected end of stream", "the text ends within quotes, which are not closed"),
    ("document separator", "a line of --- stands within quotes, which are not closed"),
    ("expected key", "the line is indented unlike its neighbours, or has no : after its key"),
    ("expected <block end>", "the line is indented unlike its neighbours, or a : is missing"),
    ("expected '-'", "the line is indented unlike the items of the list, or begins without -"),
    ("sequence entries are not allowed", "a - stands here, where a list cannot begin"),
    ("special characters", "a control character stands here"),
    ("control characters", "a control character stands here"),
    ("undefined alias", "an alias (*) refers to an anchor that does not exist"),
    ("determine a constructor", "a tag stands here that only one program knows"),
)


@dataclass(slots=True)
class YamlNode:
    """A value in a text.

    Attributes:
        kind: what it is; an alias stands for a value elsewhere.
        start: where it begins, with anchor and tag.
        end: where it ends, without blank lines after it.
        is_flow: whether it is written in brackets.
        anchor: its name, or the name that an alias refers to.
        entries: members or items.
        has_tag: whether a tag stands before it.
        size: the number of values in it, those of aliases counted again.
    """

    kind: Literal["object", "list", "scalar", "alias"]
    start: int
    end: int
    is_flow: bool = False
    anchor: str | None = None
    has_tag: bool = False
    entries: list["YamlEntry"] = field(default_factory=list)
    size: int = 1


@dataclass(slots=True)
class YamlEntry:
    """A member of an object or an item of a list.

    Attributes:
        key: its key, or its index.
        start: where the key or the dash begins; in brackets where the item begins.
        after: behind the colon or the dash; None if it is written in an unusual way.
        node: its value.
    """

    key: Any
    start: int
    after: int | None
    node: YamlNode

    @property
    def end(self) -> int:
        """Where its value ends, or the colon or dash of one without a value."""
        return max(self.node.end, self.after or 0)


@dataclass(slots=True)
class YamlTree:
    """The values of a text.

    Attributes:
        root: None if the text has no value.
        end: where the document ends: the line of dots, or the end of the text.
        aliases: the names that are referred to, with the places.
    """

    root: YamlNode | None
    end: int
    aliases: list[tuple[str, int]]


def read_yaml(text: str) -> tuple[Any, YamlTree]:
    """Return the value of a text, and where everything is.

    Raises:
        UnreadableDocument: it is not YAML, or an object has a key twice.
        HostsError: PyYAML is not installed.
    """
    yaml = import_yaml()
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        with pause_collection(text):
            end = _check_events(text, yaml)
            composed = loader.get_single_node()
            if composed is None:
                return None, YamlTree(None, end, [])
            reader = _TreeReader(text, yaml)
            root = reader.read(composed, composed.start_mark.index)
            data = loader.construct_document(composed)
            return data, YamlTree(root if root.start < root.end else None, end, reader.aliases)
    except yaml.MarkedYAMLError as error:
        raise _explain(text, error) from None
    except yaml.reader.ReaderError as error:
        at = error.position if isinstance(error.position, int) else 0
        raise unreadable(text, at, "a control character stands here") from None
    except (ValueError, RecursionError) as error:
        raise unreadable(text, 0, f"a value cannot be read: {error}") from None
    finally:
        loader.dispose()


def _check_events(text: str, yaml: Any) -> int:
    """Check what must be known before anything recurses; return where the document ends."""
    end, depth, documents = len(text), 0, 0
    for event in yaml.parse(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        at = event.start_mark.index
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        elif isinstance(event, yaml.DocumentEndEvent) and event.explicit:
            end = at
        if depth > MOST_LEVELS:
            raise unreadable(text, at, f"values are nested more than {MOST_LEVELS} levels deep")
        if documents > 1:
            raise unreadable(text, at, "a second document begins here")
    return end


def unreadable(text: str, at: int, message: str) -> UnreadableDocument:
    """Return the error for a place."""
    return UnreadableDocument(message, find_place(text, at))


def _explain(text: str, error: Any) -> UnreadableDocument:
    mark = error.problem_mark or error.context_mark
    said = str(error.problem or error.context)
    if mark is None:
        return unreadable(text, 0, said)
    place = TextPlace(mark.line + 1, mark.column + 1)
    message = next((ours for theirs, ours in _SAID if theirs in said), said)
    if "cannot start any token" in said:
        sign = text[mark.index : mark.index + 1]
        message = f"{sign} cannot begin a text; put it in quotes"
        if sign == "\t":
            message = "a tab stands here; YAML is indented with blanks"
    return UnreadableDocument(message, place)


class _TreeReader:
    """Finds where the nodes of PyYAML stand; those of aliases have the marks of their anchors."""

    def __init__(self, text: str, yaml: Any) -> None:
        self._text = text
        self._yaml = yaml
        self._sizes: dict[int, int] = {}
        self._constructor = yaml.constructor.SafeConstructor()
        self.aliases: list[tuple[str, int]] = []

    def read(self, node: Any, at: int) -> YamlNode:
        """Return a value; it is behind a place, with blanks and comments between."""
        text, yaml = self._text, self._yaml
        if (alias := _ALIAS.match(text, _skip(_BLANK, text, at))) is not None:
            return self._read_alias(alias, node)
        start, end = node.start_mark.index, node.end_mark.index
        properties = text[start : skip_properties(text, start)]
        anchor = _ANCHOR.search(properties)
        found = YamlNode("scalar", start, end, anchor=anchor[1] if anchor else None)
        found.has_tag = "!" in properties
        if isinstance(node, yaml.ScalarNode):
            if node.style in ("|", ">"):
                found.end = self._end_of_block(start + len(properties), end)
        else:
            found.kind = "object" if isinstance(node, yaml.MappingNode) else "list"
            found.is_flow = bool(node.flow_style)
            if found.kind == "object":
                self._read_members(found, node)
            else:
                self._read_items(found, node)
            if not found.is_flow:
                found.end = found.entries[-1].end if found.entries else start
            found.size += sum(each.node.size for each in found.entries)
            if found.size > _MOST_VALUES:
                raise unreadable(text, start, "aliases make more than a million values")
        self._sizes[id(node)] = found.size
        return found

    def _read_alias(self, alias: re.Match[str], node: Any) -> YamlNode:
        if id(node) not in self._sizes:
            message = f"*{alias[1]} refers to an anchor that stands within the value itself"
            raise unreadable(self._text, alias.start(), message)
        self.aliases.append((alias[1], alias.start()))
        size = self._sizes[id(node)]
        return YamlNode("alias", alias.start(), alias.end(), anchor=alias[1], size=size)

    def _end_of_block(self, start: int, end: int) -> int:
        """Return where a text in lines ends; blank lines may belong to it."""
        text = self._text
        header = text[start : start + 200].split("\n")[0].split("#")[0]
        if "+" not in header:
            return start + len(text[start:end].rstrip())
        end = start + len(text[start:end].rstrip(" \t"))
        return end - (2 if text[end - 2 : end] == "\r\n" else text[end - 1] in "\r\n")

    def _read_members(self, around: YamlNode, node: Any) -> None:
        text = self._text
        seen: dict[Any, int] = {}
        for key, value in node.value:
            before = around.entries[-1].end if around.entries else around.start
            is_alias = _ALIAS.match(text, _skip(_GAP, text, before))
            start = is_alias.start() if is_alias else key.start_mark.index
            name = self._name_key(key, start)
            first = seen.setdefault(name, start)
            if first != start and name != "<<":
                line = find_place(text, first).line
                message = f"the key {name!r} appears twice, first in line {line}; keep one of them"
                raise unreadable(text, start, message)
            colon = _skip(_SPACE, text, is_alias.end() if is_alias else key.end_mark.index)
            after = colon + 1 if text[colon : colon + 1] == ":" else None
            inner = self.read(value, after or value.start_mark.index)
            if after is not None and inner.kind == "scalar" and inner.start == inner.end:
                inner.start = inner.end = after
            around.entries.append(YamlEntry(name, start, after, inner))

    def _name_key(self, key: Any, start: int) -> Any:
        if not isinstance(key, self._yaml.ScalarNode):
            return type(key), start
        if key.tag.endswith(":str") or key.value == "<<":
            return key.value
        return self._constructor.construct_object(key)

    def _read_items(self, around: YamlNode, node: Any) -> None:
        text = self._text
        at = skip_properties(text, around.start) + around.is_flow
        for place, item in enumerate(node.value):
            if around.is_flow:
                inner = self.read(item, _skip(_GAP, text, at))
                around.entries.append(YamlEntry(place, inner.start, inner.start, inner))
            else:
                dash = _skip(_BLANK, text, at)
                inner = self.read(item, dash + 1)
                if inner.kind == "scalar" and inner.start == inner.end:
                    inner.start = inner.end = dash + 1
                around.entries.append(YamlEntry(place, dash, dash + 1, inner))
            at = around.entries[-1].end


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    assert found is not None  # it matches everything
    return found.end()


_PROPERTIES: Final = re.compile(r"(?:[&!][^\s\[\]{},]*+[ \t]*+)*+")


def skip_properties(text: str, start: int) -> int:
    """Return where anchor and tag of a value end."""
    return _skip(_PROPERTIES, text, start)
