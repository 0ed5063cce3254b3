"""A file of TOML, JSON or YAML: what it contains, and the line of each key."""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple

from accord.client.configuration import parse_json, without_comments
from accord_tools.contract.data_files import parse_toml, parse_yaml, read_data_file
from accord_tools.fleet.definition import DEFAULT_FILE, FleetError
from accord_tools.fleet.file.json_lines import find_json_places
from accord_tools.fleet.file.toml_lines import find_toml_lines
from accord_tools.hosts.definition import KeyPath

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
