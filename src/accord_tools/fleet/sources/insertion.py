"""New servers written into a fleet file: everything that is there stays, byte for byte.

Their names are made unique, and their secrets replaced by placeholders.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from accord.client.configuration import MEMBERS
from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.file.document import FleetDocument, read_document
from accord_tools.hosts.definition import FileFormat, HostsError
from accord_tools.hosts.documents.document import (
    TextFile,
    UneditableDocument,
    UnreadableDocument,
    open_document,
    read_text_file,
)
from accord_tools.hosts.documents.value_texts import format_comment, format_table, without_nulls
from accord_tools.hosts.entries.literals import find_literals, replace_literal, variable_name
from accord_tools.hosts.sources.entry_forms import FoundServer, map_texts, plain_name
from accord_tools.hosts.writing.destination import replace_file

# Another program may write the file at the same moment.
_TRIES: Final = 3


class UneditableFile(FleetError):
    """A file cannot be changed without harm; `snippet` is what to put into it by hand."""

    def __init__(self, message: str, snippet: str) -> None:
        super().__init__(message)
        self.snippet = snippet


def known_names(path: Path) -> list[str]:
    """Return the names of the servers in a fleet file; none if it does not exist.

    Raises:
        FleetError: it cannot be read.
    """
    return _names_in(read_document(path)) if path.exists() else []


def _names_in(document: FleetDocument) -> list[str]:
    names: list[str] = []
    for member in MEMBERS:
        found = document.data.get(member)
        if isinstance(found, Mapping):
            names += [str(each) for each in found]
    return names


def add_servers(path: Path, servers: Sequence[FoundServer]) -> None:
    """Add servers to a fleet file; it is created if it does not exist.

    Args:
        path: of the file; a new one is TOML, unless its ending says JSON.
        servers: with names that the file does not have.

    Raises:
        UneditableFile: the file cannot be changed without harm.
        FleetError: the file has a server of that name, or cannot be read or written.
    """
    if not servers:
        return
    for _ in range(_TRIES):
        before = path.read_bytes() if path.exists() else b""
        text = insert_servers(path, before, servers)
        now = path.read_bytes() if path.exists() else b""
        if now != before:
            continue
        try:
            replace_file(path, text, mode=0o644)
        except OSError as error:
            raise FleetError(f"{path} cannot be written: {error.strerror}") from None
        return
    raise FleetError(f"{path} is being changed by another program; try again")


def insert_servers(path: Path, before: bytes, servers: Sequence[FoundServer]) -> bytes:
    """Return the bytes of a file with further servers in it."""
    form: FileFormat = "json" if path.suffix.lower() == ".json" else "toml"
    file, data = TextFile("{}\n" if form == "json" else ""), dict[str, Any]()
    if before:
        document = read_document(path)
        file, form, data = read_text_file(before), document.form, document.data
        for each in servers:
            if each.name in (taken := _names_in(document)):
                free = [name for name in taken if name != each.name]
                hint = f" (it also has {', '.join(free[:8])})" if free else ""
                raise FleetError(
                    f"{path} has a server {each.name!r} already{hint}; choose another name"
                )
    entries = {each.name: without_nulls(each.entry) for each in servers}
    settings = {each.name: without_nulls(each.settings) for each in servers if each.settings}
    if form == "yaml":
        raise UneditableFile(
            f"accord does not change YAML; add this to {path}",
            json.dumps({"mcpServers": entries, "server": settings}, indent=2, ensure_ascii=False),
        )
    try:
        if form == "toml":
            newline = "\r\n" if 0 < file.text.count("\r\n") == file.text.count("\n") else "\n"
            changed = file.text + toml_addition(file.text, servers).replace("\n", newline)
        else:
            changed = _insert_json(file.text, data, entries, settings)
        found = open_document(changed, form).data
    except (UneditableDocument, UnreadableDocument):
        found = None
    if found != _merge(data, {"mcpServers": entries, "server": settings}):
        raise UneditableFile(
            f"{path} is written in a way that accord cannot extend; add this by hand",
            toml_addition("", servers) if form == "toml" else json.dumps(entries, indent=2),
        )
    return file.encode(changed)


def _merge(data: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with further members in its tables."""
    merged = dict(data)
    member = next((each for each in ("mcpServers", "servers") if each in data), "mcpServers")
    for name, table in more.items():
        place = member if name == "mcpServers" else name
        if table:
            held = merged.get(place, {})
            merged[place] = {**held, **table} if isinstance(held, Mapping) else table
    return merged


def toml_addition(text: str, servers: Sequence[FoundServer]) -> str:
    """Return the tables of servers, to be put at the end of a text of TOML."""
    member = "mcpServers"
    if re.search(r"^\s*\[servers\.", text, re.MULTILINE) and "mcpServers" not in text:
        member = "servers"
    blocks = []
    for each in servers:
        comment = "".join(f"{format_comment(remark)}\n" for remark in each.remarks)
        source = f"{format_comment(f'from {each.source}')}\n" if each.source else ""
        blocks.append(
            source + comment + format_table([member, each.name], without_nulls(each.entry))
        )
        if each.settings:
            blocks.append(format_table(["server", each.name], without_nulls(each.settings)))
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return gap + "\n\n".join(blocks) + "\n"


def is_writable(server: FoundServer) -> bool:
    """Return whether TOML can express an entry: it has no half surrogate pairs."""
    try:
        toml_addition("", [server])
    except HostsError:
        return False
    return True


# -- JSON


def _insert_json(
    text: str,
    data: Mapping[str, Any],
    entries: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> str:
    member = next((each for each in ("mcpServers", "servers") if each in data), "mcpServers")
    for table, rows in ((member, entries), ("server", settings)):
        for name, value in rows.items():
            text = open_document(text, "json").set((table, name), value).apply(text)
    return text


# -- names made unique, secrets replaced


# A safeguard: each literal is replaced, so that there are fewer each time.
_MOST_LITERALS: Final = 200


def make_unique(found: Iterable[FoundServer], taken: Collection[str] = ()) -> list[FoundServer]:
    """Return servers with names of their own: the second of a name gets `-2`."""
    names = set(taken)
    unique = []
    for each in found:
        name, number = each.name, 1
        while name in names:
            number += 1
            name = f"{each.name}-{number}"
        names.add(name)
        unique.append(each if name == each.name else rename_server(each, name))
    return unique


def rename_server(found: FoundServer, name: str) -> FoundServer:
    """Return a server of another name, and so are the files that are named after it."""

    def rename(text: str) -> str:
        # A name may be anything, the name of a file may not.
        file = plain_name(name)
        pattern = rf"\b(cases|locks)/{re.escape(found.name)}\."
        return re.sub(pattern, lambda place: f"{place[1]}/{file}.", text)

    return msgspec.structs.replace(
        found,
        name=name,
        settings=map_texts(found.settings, rename),
        remarks=tuple(map(rename, found.remarks)),
        files={rename(path): text for path, text in found.files.items()},
    )


def hide_literals(found: Iterable[FoundServer]) -> list[FoundServer]:
    """Replace secrets in entries by placeholders, and note the variables to set.

    Servers that have the same secret share its variable; different secrets get different ones.
    """
    values: dict[str, str] = {}
    hidden = []
    for each in found:
        entry = dict(each.entry)
        variables: list[str] = []
        for _ in range(_MOST_LITERALS):
            literal = next(find_literals(each.name, entry), None)
            if literal is None:
                break
            variable = literal.variable
            if values.get(variable, literal.value) != literal.value:
                variable = variable_name(each.name, variable)
            while values.get(variable, literal.value) != literal.value:
                variable += "_"
            values[variable] = literal.value
            variables.append(variable)
            entry = replace_literal(entry, literal.rename(variable))
        hidden.append(
            msgspec.structs.replace(
                each, entry=entry, variables=tuple(dict.fromkeys((*each.variables, *variables)))
            )
        )
    return hidden
