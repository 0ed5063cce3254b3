"""YAML as PyYAML reads it, and where its entries are, from the events of PyYAML."""

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
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_. -]*")
_SPECIAL: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_BLANK: Final = re.compile(r"(?:[ \t\r\n]++|#[^\r\n]*+)*+")
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
    try:
        with pause_collection(text):
            tree = _Composer(text, yaml).compose()
        return load_yaml(text), tree
    except yaml.MarkedYAMLError as error:
        raise _explain(text, error) from None
    except yaml.reader.ReaderError as error:
        at = error.position if isinstance(error.position, int) else 0
        raise unreadable(text, at, "a control character stands here") from None
    except (ValueError, RecursionError) as error:
        cause = error.__cause__
        if isinstance(cause, yaml.MarkedYAMLError):
            raise _explain(text, cause) from None
        raise unreadable(text, 0, f"a value cannot be read: {error}") from None


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


class _Composer:
    """Makes a tree of events, without recursion."""

    def __init__(self, text: str, yaml: Any) -> None:
        self._text = text
        self._yaml = yaml
        self._open: list[YamlNode] = []
        self._keys: list[YamlNode | None] = []
        self._seen: list[dict[Any, int]] = []
        self._anchors: dict[str, YamlNode] = {}
        self._tree = YamlTree(None, len(text), [])
        self._documents = 0
        self._resolver = yaml.resolver.Resolver()
        self._constructor = yaml.constructor.SafeConstructor()

    def compose(self) -> YamlTree:
        yaml = self._yaml
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        for event in yaml.parse(self._text, loader):
            start, end = event.start_mark.index, event.end_mark.index
            if isinstance(event, yaml.ScalarEvent):
                self._place(self._scalar(event, start, end), event)
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event, start, end)
            elif isinstance(event, yaml.CollectionStartEvent):
                self._begin(event, start, end)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._finish(end)
            elif isinstance(event, yaml.DocumentStartEvent):
                self._documents += 1
                if self._documents > 1:
                    raise unreadable(self._text, start, "a second document begins here")
            elif isinstance(event, yaml.DocumentEndEvent) and event.explicit:
                self._tree.end = start
        return self._tree

    def _scalar(self, event: Any, start: int, end: int) -> YamlNode:
        text = self._text
        if event.style in ("|", ">"):
            header = text[start : start + 200].split("\n")[0].split("#")[0]
            if "+" in header:
                end = start + len(text[start:end].rstrip(" \t"))
                end -= 2 if text[end - 2 : end] == "\r\n" else text[end - 1] in "\r\n"
            else:
                end = start + len(text[start:end].rstrip())
        return YamlNode("scalar", start, end, anchor=event.anchor, has_tag=event.tag is not None)

    def _alias(self, event: Any, start: int, end: int) -> None:
        found = self._anchors.get(event.anchor)
        if found is None or any(found is each for each in self._open):
            what = "stands within the value itself" if found else "does not exist"
            raise unreadable(self._text, start, f"*{event.anchor} refers to an anchor that {what}")
        self._tree.aliases.append((event.anchor, start))
        self._place(YamlNode("alias", start, end, anchor=event.anchor, size=found.size), None)

    def _begin(self, event: Any, start: int, end: int) -> None:
        if len(self._open) == MOST_LEVELS:
            message = f"values are nested more than {MOST_LEVELS} levels deep"
            raise unreadable(self._text, start, message)
        is_object = isinstance(event, self._yaml.MappingStartEvent)
        node = YamlNode(
            "object" if is_object else "list",
            start,
            end,
            is_flow=bool(event.flow_style),
            anchor=event.anchor,
            has_tag=event.tag is not None,
        )
        if event.anchor:
            self._anchors[event.anchor] = node
        self._open.append(node)
        self._keys.append(None)
        self._seen.append({})

    def _finish(self, end: int) -> None:
        node = self._open.pop()
        self._keys.pop()
        self._seen.pop()
        node.end = end
        if not node.is_flow:
            last = node.entries[-1] if node.entries else None
            node.end = node.start if last is None else max(last.node.end, last.after or 0)
        self._place(node, None)

    def _place(self, node: YamlNode, event: Any) -> None:
        """Put a node that is complete into the one around it."""
        if node.anchor and node.kind != "alias":
            self._anchors[node.anchor] = node
        if not self._open:
            if node.start < node.end:
                self._tree.root = node
            return
        around = self._open[-1]
        around.size += node.size
        if around.size > _MOST_VALUES:
            raise unreadable(self._text, node.start, "aliases make more than a million values")
        if around.kind == "list":
            around.entries.append(self._item(around, node))
            return
        key = self._keys[-1]
        if key is None:
            self._keys[-1] = node
            self._check_key(node, event)
            return
        self._keys[-1] = None
        around.entries.append(self._member(key, node, next(reversed(self._seen[-1]))))

    def _check_key(self, node: YamlNode, event: Any) -> None:
        seen = self._seen[-1]
        key: Any = self._text[node.start : node.end]
        if event is not None and node.kind == "scalar":
            key = event.value
            is_word = key == "<<" or (_WORD.fullmatch(key) and key.lower() not in _SPECIAL)
            # libyaml says "" for a text without quotes, and PyYAML says None.
            if not event.style and event.implicit[0] and not is_word:
                key = self._construct(event.value)
        else:
            key = (node.kind, node.start)
        if key in seen and key != "<<":
            line = find_place(self._text, seen[key]).line
            message = f"the key {key!r} appears twice, first in line {line}; keep one of them"
            raise unreadable(self._text, node.start, message)
        seen.pop(key, None)
        seen[key] = node.start

    def _construct(self, text: str) -> Any:
        """Return the value of a text without quotes."""
        yaml = self._yaml
        tag = self._resolver.resolve(yaml.ScalarNode, text, (True, False))
        if tag.rpartition(":")[2] in ("str", "merge", "value"):
            return text
        return self._constructor.construct_object(yaml.ScalarNode(tag, text))

    def _member(self, key: YamlNode, node: YamlNode, name: Any) -> YamlEntry:
        space = _SPACE.match(self._text, key.end)
        assert space is not None  # it matches everything
        colon = space.end()
        after = colon + 1 if self._text[colon : colon + 1] == ":" else None
        if after is not None and node.kind == "scalar" and node.start == node.end:
            node.start = node.end = after
        return YamlEntry(name, key.start, after, node)

    def _item(self, around: YamlNode, node: YamlNode) -> YamlEntry:
        place = len(around.entries)
        if around.is_flow:
            return YamlEntry(place, node.start, node.start, node)
        begin = around.start
        if around.entries:
            last = around.entries[-1]
            begin = max(last.node.end, last.after or 0)
        elif around.anchor or around.has_tag:
            begin = skip_properties(self._text, begin)
        space = _BLANK.match(self._text, begin)
        assert space is not None  # it matches everything
        dash = space.end()
        if self._text[dash : dash + 1] != "-":
            return YamlEntry(place, node.start, None, node)
        if node.kind == "scalar" and node.start == node.end:
            node.start = node.end = dash + 1
        return YamlEntry(place, dash, dash + 1, node)


_PROPERTIES: Final = re.compile(r"(?:[&!][^\s\[\]{},]*+[ \t]*+)*+")


def skip_properties(text: str, start: int) -> int:
    """Return where anchor and tag of a value end."""
    found = _PROPERTIES.match(text, start)
    assert found is not None  # it matches everything
    return found.end()
