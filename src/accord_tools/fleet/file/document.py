"""A file of TOML, JSON or YAML: what it contains, and the line of each key."""

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from accord_tools.contract.data_files import read_data_file
from accord_tools.fleet.definition import DEFAULT_FILE, FleetError
from accord_tools.hosts.definition import FileFormat, HostsError, KeyPath
from accord_tools.hosts.documents.document import Document, UnreadableDocument, open_document


class FleetDocument(NamedTuple):
    """A file, read but not yet understood.

    Attributes:
        path: as it was named.
        text: of the file, without a byte order mark.
        form: "toml", "json" or "yaml".
        data: what it contains.
        places: where that is; values that are repeated by an alias have no place.
    """

    path: Path
    text: str
    form: FileFormat
    data: dict[str, Any]
    places: Document

    def line(self, *keys: str | int) -> int | None:
        """Return the line of a key, or of the innermost table around it that is known."""
        path: KeyPath = ()
        found: int | None = None
        around: Any = self.data
        for key in keys:
            # YAML has keys that are not texts.
            names = list(around) if isinstance(around, Mapping) else []
            path = (*path, next((each for each in names if str(each) == str(key)), key))
            place = self.places.find(path)
            if place is None:
                break
            found = place.line
            around = around[path[-1]]
        return found

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
    form: FileFormat
    if suffix == ".toml":
        form = "toml"
    elif suffix in (".yaml", ".yml"):
        form = "yaml"
    elif suffix in (".json", ".jsonc", ".json5") or text.lstrip().startswith(("{", "//")):
        form = "json"
        if not text.strip():
            raise FleetError(f"{path} is empty; accord fleet add NAME -- COMMAND adds a server")
    else:
        raise FleetError(f"{path}: the ending is not known; expected .toml, .json or .yaml")
    try:
        places = open_document(text, form)
    except UnreadableDocument as error:
        raise FleetError(f"{path}:{error.place.line}: {error.reason}") from None
    except HostsError as error:
        raise FleetError(f"{path}: {error}") from None
    data = {} if places.data is None else places.data
    if not isinstance(data, dict):
        raise FleetError(f"{path}: expected a table with mcpServers, and not a list or a value")
    return FleetDocument(path, text, form, data, places)


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
