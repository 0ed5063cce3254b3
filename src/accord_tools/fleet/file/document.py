"""A file of TOML, JSON or YAML: what it contains, and the line of each key."""

import re
from bisect import bisect_right
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple

from accord.client.configuration import parse_json, without_comments
from accord_tools.contract.data_files import parse_toml, parse_yaml, read_data_file
from accord_tools.fleet.definition import DEFAULT_FILE, FleetError
from accord_tools.hosts.definition import KeyPath
from accord_tools.hosts.documents.json_scanner import read_container, skip_space, skip_value
from accord_tools.hosts.documents.toml_scanner import read_brackets, scan_toml

# -- the places of members in a JSON file


class JsonSpan(NamedTuple):
    """Where a member or an item is: its key, and the value from `start` to `end`."""

    key: int
    start: int
    end: int
    line: int


class JsonPlaces(NamedTuple):
    """The places of all members and items; `repeated` has those that appear again."""

    spans: dict[KeyPath, JsonSpan]
    repeated: list[tuple[KeyPath, int]]


def find_json_places(text: str) -> JsonPlaces:
    """Return the place of each member and item.

    Args:
        text: valid JSON without comments and trailing commas, or with spaces in their place.
    """
    places = JsonPlaces({}, [])
    start = skip_space(text, 0)
    line = text.count("\n", 0, start) + 1
    places.spans[()] = JsonSpan(start, start, skip_value(text, start), line)
    _add_members(places, text, ())
    return places


def _add_members(places: JsonPlaces, text: str, around: KeyPath) -> None:
    """Add what stands in an object or a list; of a key that is there twice, the last counts."""
    at, line = places.spans[around].start, places.spans[around].line
    line += text.count("\n", places.spans[around].key, at)
    if text[at] not in "{[":
        return
    for member in read_container(text, at).members:
        line += text.count("\n", at, member.start)
        at = member.start
        assert not isinstance(member.key, tuple)  # JSON has no dotted keys
        path = (*around, member.key)
        if path in places.spans:
            places.repeated.append((path, line))
        places.spans[path] = JsonSpan(member.start, member.value, member.end, line)
        _add_members(places, text, path)


# -- the lines of keys in a TOML file, which the standard parser does not report


def find_toml_lines(text: str) -> dict[KeyPath, int]:
    """Return the line of each key, table and item of a list.

    Args:
        text: valid TOML, as `tomllib` has accepted it.
    """
    lines = _TomlLines(text)
    for section in scan_toml(text):
        lines.add_path((), section.path, section.start)
        for pair in section.pairs:
            lines.add_path(section.path, pair.path[len(section.path) :], pair.start)
            lines.add_value(pair.path, pair.value)
    return lines.lines


class _TomlLines:
    def __init__(self, text: str) -> None:
        self._text = text
        self._breaks = [found.start() for found in re.finditer("\n", text)]
        self.lines: dict[KeyPath, int] = {}

    def add_path(self, around: KeyPath, keys: KeyPath, at: int) -> None:
        """Note a key and the tables that it makes; what is known keeps its line."""
        line = bisect_right(self._breaks, at - 1) + 1
        for size in range(len(keys)):
            self.lines.setdefault((*around, *keys[: size + 1]), line)

    def add_value(self, path: KeyPath, start: int) -> None:
        """Note what stands in a list or an inline table."""
        if self._text[start] not in "{[":
            return
        for member in read_brackets(self._text, start).members:
            keys = member.key if isinstance(member.key, tuple) else (member.key,)
            self.add_path(path, keys, member.start)
            self.add_value((*path, *keys), member.value)


# -- documents

# Aliases of YAML multiply: a few lines could name a billion values.
_MOST_VALUES: Final = 1_000_000


class FleetDocument(NamedTuple):
    """A file, read but not yet understood.

    Attributes:
        path: as it was named.
        text: of the file, without a byte order mark.
        form: "toml", "json" or "yaml".
        data: what it contains.
        lines: of the keys and items; those of values that are repeated by an alias are absent.
    """

    path: Path
    text: str
    form: str
    data: dict[str, Any]
    lines: Mapping[KeyPath, int]

    def line(self, *keys: str | int) -> int | None:
        """Return the line of a key, or of the innermost table around it that is known."""
        for length in range(len(keys), 0, -1):
            if keys[:length] in self.lines:
                return self.lines[keys[:length]]
        return None

    def place(self, *keys: str | int) -> str:
        """Return file and line of a key, as messages begin."""
        line = self.line(*keys)
        return str(self.path) if line is None else f"{self.path}:{line}"


def read_document(path: Path) -> FleetDocument:
    """Read a file in the form that its ending names.

    Raises:
        FleetError: it cannot be read, or is not what its ending says.
    """
    text = _read_text(path)
    suffix = path.suffix.lower()
    if suffix == ".toml":
        form, data, lines = "toml", parse_toml(path, text, FleetError), {}
        if isinstance(data, dict):
            lines = find_toml_lines(text)
    elif suffix in (".yaml", ".yml"):
        form, lines = "yaml", {}
        data = parse_yaml(path, text, FleetError, lambda root: _find_lines(path, root, lines))
    elif suffix in (".json", ".jsonc", ".json5") or text.lstrip().startswith(("{", "//")):
        form = "json"
        data, lines = _parse_json(path, text)
    else:
        raise FleetError(f"{path}: the ending is not known; expected .toml, .json or .yaml")
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise FleetError(f"{path}: expected a table with mcpServers, and not a list or a value")
    return FleetDocument(path, text, form, data, lines)


def _read_text(path: Path) -> str:
    if path.is_dir():
        inside = path / DEFAULT_FILE
        what = f"name the file in it: {inside}" if inside.is_file() else "accord fleet init"
        hint = what if inside.is_file() else f"{what} {path} writes a fleet file for it"
        raise FleetError(f"{path} is a folder; {hint}")
    try:
        text = read_data_file(path).decode("utf-8-sig")
        return text.replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        beside = sorted(path.parent.glob("*.*")) if path.parent.is_dir() else []
        known = [each.name for each in beside if each.suffix in (".toml", ".json", ".yaml", ".yml")]
        near = [each for each in known if each.startswith("accord-fleet.")]
        near = get_close_matches(path.name, known, n=1, cutoff=0.7) or near
        hint = f"there is {', '.join(near)}" if near else "accord fleet init writes one"
        raise FleetError(f"{path}: there is no such file; {hint}") from None
    except OSError as error:
        raise FleetError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FleetError(f"{path} is not UTF-8 text") from None


def _parse_json(path: Path, text: str) -> tuple[object, dict[KeyPath, int]]:
    if not text.strip():
        raise FleetError(f"{path} is empty; accord fleet add NAME -- COMMAND adds a server")
    try:
        data = parse_json(text)
        spans, repeated = find_json_places(without_comments(text))
    except RecursionError:
        raise FleetError(f"{path}: is nested too deeply") from None
    except ValueError as error:
        place = f":{line}" if (line := getattr(error, "lineno", None)) else ""
        said = getattr(error, "msg", str(error))
        raise FleetError(f"{path}{place}: is not JSON: {said[:1].lower()}{said[1:]}") from None
    if repeated:
        # Where a server is there twice, so are its members.
        keys, line = min(repeated, key=lambda each: len(each[0]))
        raise FleetError(f"{path}:{line}: {_describe(keys)} appears twice: keep one of them")
    return data, {keys: span.line for keys, span in spans.items() if keys}


def _describe(keys: KeyPath) -> str:
    return f"the key {'.'.join(map(str, keys))}"


# -- YAML


def _find_lines(path: Path, root: Any, lines: dict[KeyPath, int]) -> None:
    """Find the line of each key; refuse a document that would exhaust the memory."""
    import yaml

    if root is None:
        return
    _refuse_bombs(path, root)
    seen: set[int] = set()

    def walk(node: Any, keys: KeyPath) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = (*keys, str(key.value))
                line = key.start_mark.line + 1
                if inner in lines and key.tag != "tag:yaml.org,2002:merge":
                    raise FleetError(
                        f"{path}:{line}: {_describe(inner)} appears twice: keep one of them"
                    )
                lines[inner] = line
                walk(value, inner)
        elif isinstance(node, yaml.SequenceNode):
            for place, value in enumerate(node.value):
                lines[(*keys, place)] = value.start_mark.line + 1
                walk(value, (*keys, place))

    walk(root, ())


def _refuse_bombs(path: Path, root: Any) -> None:
    """Refuse a document that contains itself, or becomes huge when its aliases are followed."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size(node: Any) -> int:
        if id(node) in open_nodes:
            raise FleetError(f"{path}:{node.start_mark.line + 1}: an alias names what contains it")
        if id(node) not in sizes:
            open_nodes.add(id(node))
            inner = node.value if isinstance(node.value, list) else []
            parts = [part for each in inner for part in (each if type(each) is tuple else (each,))]
            sizes[id(node)] = 1 + sum(map(size, parts))
            open_nodes.discard(id(node))
        return sizes[id(node)]

    if size(root) > _MOST_VALUES:
        raise FleetError(f"{path}: its aliases name more than {_MOST_VALUES:,} values")
