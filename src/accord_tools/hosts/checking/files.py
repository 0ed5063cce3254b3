"""Checks the files of a host: can they be read, are servers where the host looks for them?"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from accord_tools.hosts.checking.findings import (
    FileReport,
    Finding,
    FindingSeverity,
    new_finding,
)
from accord_tools.hosts.checking.shape import SYNONYMS, kind_of
from accord_tools.hosts.definition import ConfigFile, HostsError, KeyPath, Machine
from accord_tools.hosts.documents.document import (
    Document,
    UnreadableDocument,
    open_document,
    read_text_file,
)
from accord_tools.hosts.documents.values import ABSENT, find_value, is_same
from accord_tools.hosts.operations.listing import FileEntry, read_entries
from accord_tools.hosts.repairing import KeyRename, Repair, RepairStep
from accord_tools.hosts.writing.destination import find_target, read_file

# Where hosts have their servers, as paths of keys.
_KEYS: Final[tuple[KeyPath, ...]] = (
    ("mcpServers",),
    ("servers",),
    ("mcp_servers",),
    ("mcp", "servers"),
    ("mcp.servers",),
    ("mcp",),
    ("context_servers",),
    ("extensions",),
    ("amp.mcpServers",),
)
_TARGETS: Final = frozenset({*SYNONYMS["program"], *SYNONYMS["url"]})


def check_file(file: ConfigFile, machine: Machine) -> FileReport:
    """Check a file of a host as a whole; its entries are listed, and not yet checked.

    A file that does not exist has no findings.
    """
    try:
        data = read_file(find_target(file.path))
    except HostsError as error:
        change = "put a file there that the host can read"
        return FileReport(file=file, findings=(new_finding("file-unreadable", str(error), change),))
    if data is None:
        return FileReport(file=file)
    return check_bytes(file, data, machine)


def check_bytes(file: ConfigFile, data: bytes, _machine: Machine) -> FileReport:
    """Check the contents of a file."""
    try:
        known = read_text_file(data)
    except HostsError as error:
        finding = new_finding("file-unreadable", f"{file.path}: {error}", "save it as UTF-8")
        return FileReport(file=file, findings=(finding,))
    text = known.text
    try:
        document = open_document(text, file.format)
    except UnreadableDocument as error:
        message = str(error.in_file(file.path))
        change = "mend it there: the host ignores the file until then"
        finding = msgspec.structs.replace(
            new_finding("file-syntax", message, change), place=error.place
        )
        return FileReport(file=file, findings=(finding,))
    except HostsError as error:
        finding = new_finding("file-unreadable", f"{file.path}: {error}")
        return FileReport(file=file, findings=(finding,))
    found = read_entries(document, file)
    findings = [
        *_mark_faults(file, has_mark=known.has_mark),
        *_comment_faults(file, text),
        *_key_faults(file, document),
        *_pair_faults(file, found),
    ]
    return FileReport(file=file, findings=tuple(findings), entries=found)


# -- the file


def _mark_faults(file: ConfigFile, *, has_mark: bool) -> Iterator[Finding]:
    if has_mark and file.host.refuses_mark:
        message = f"the file begins with a byte order mark, which {file.host.name} refuses"
        yield new_finding("file-mark", message, "save it as UTF-8 without a mark")


def _comment_faults(file: ConfigFile, text: str) -> Iterator[Finding]:
    """Look for comments and commas that strict readers refuse."""
    if file.format not in ("json", "json-comments") or not text.strip():
        return
    from accord_tools.hosts.documents.json_scanner import blank_comments

    plain, comments = blank_comments(text)
    if _is_json(text):
        return
    host = file.host
    if file.format == "json-comments":
        if _is_json(plain):
            return
        message = f"{host.name} does not take commas before a closing bracket"
        yield new_finding("file-comments", message, "remove them")
        return
    what = "comments" if comments else "commas before a closing bracket"
    if host.refuses_comments:
        yield new_finding("file-comments", f"{host.name} refuses {what}", "remove them")
    else:
        message = f"the file has {what}, which {host.name} is not known to take"
        yield new_finding("file-comments", message, "remove them", severity="warning")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _key_faults(file: ConfigFile, document: Document) -> Iterator[Finding]:
    """Look for servers under keys that this host does not read."""
    data = document.data
    if not isinstance(data, Mapping):
        if data is not None:
            yield new_finding("file-container", f"the file is {kind_of(data)}, not an object")
        return
    if file.key != file.host.key and file.key[:1] == file.host.project_key[:1]:
        return  # a part of the user's file, which is checked by itself
    here = find_value(data, file.key)
    wanted = list if file.host.container == "list" else dict
    if here is not ABSENT and here is not None and not isinstance(here, wanted):
        where = ".".join(file.key)
        what = "a list" if wanted is list else "an object"
        yield new_finding("file-container", f"{where} is {kind_of(here)}, expected {what}")
        return
    for keys in _KEYS:
        given = find_value(data, keys)
        if keys == file.key or keys == file.key[: len(keys)] or not _has_entries(given):
            continue
        names = ", ".join(map(str, given))
        own, other = ".".join(file.key), ".".join(map(str, keys))
        message = f"{file.host.name} reads {own}, and not {other} (with {names[:80]})"
        repair = _move_entries(file, keys, given, here)
        # Several hosts share this file, each with its own key.
        is_shared = file.path.name == ".mcp.json"
        finding = new_finding(
            "file-key",
            message,
            f"move them to {own}",
            severity="warning" if is_shared else None,
            repair=None if is_shared else repair,
        )
        yield msgspec.structs.replace(finding, place=document.find(keys))


def _has_entries(given: Any) -> bool:
    return (
        isinstance(given, Mapping)
        and bool(given)
        and all(isinstance(each, Mapping) for each in given.values())
        and any(not _TARGETS.isdisjoint(each) for each in given.values())
    )


def _move_entries(
    file: ConfigFile, keys: KeyPath, given: Mapping[str, Any], here: Any
) -> Repair | None:
    """Return the repair that moves servers to the key of this host; None if that is not certain."""
    if file.host.container != "map":
        return None
    known = here if isinstance(here, Mapping) else {}
    if any(name in known and not is_same(known[name], given[name]) for name in given):
        return None  # two servers of one name: which one is meant?
    steps = [
        RepairStep((*file.key, name), ABSENT, value)
        for name, value in given.items()
        if name not in known
    ]
    steps.append(RepairStep(keys, given, ABSENT))
    is_simple = len(keys) == len(file.key) == 1 and here is ABSENT
    own = ".".join(file.key)
    return Repair(
        code="file-key",
        title=f"move {len(given)} server(s) from {'.'.join(map(str, keys))} to {own}",
        file=file,
        steps=tuple(steps),
        rename=KeyRename(str(keys[0]), file.key[0]) if is_simple else None,
    )


# -- several entries


def _pair_faults(file: ConfigFile, entries: Mapping[str, FileEntry]) -> Iterator[Finding]:
    """Look for entries that differ too little."""
    by_case: dict[str, FileEntry] = {}
    by_content: dict[str, FileEntry] = {}
    for each in entries.values():
        first = by_case.setdefault(each.name.casefold(), each)
        content = _content(each)
        twin = by_content.setdefault(content, each) if content else each
        if twin is not each:
            yield _about_twin(file, twin, each)
        elif first is not each:
            message = f"{each.name} and {first.name} differ only in upper and lower case"
            finding = new_finding("name-case", message, "rename one, or remove it")
            yield msgspec.structs.replace(finding, entry=each.name, place=each.place)


def _content(entry: FileEntry) -> str:
    """Return a text that is the same for entries with the same members; empty without members."""
    value = entry.value
    if not isinstance(value, Mapping) or not value:
        return ""
    return repr([(key, value[key]) for key in sorted(value) if key != "name"])


def _about_twin(file: ConfigFile, first: FileEntry, second: FileEntry) -> Finding:
    repair = Repair(
        code="entry-twice",
        title=f"remove {second.name}, which is the same as {first.name}",
        file=file,
        entry=second.name,
        steps=(RepairStep(second.keys, second.value, ABSENT),),
    )
    message = f"{second.name} is the same server as {first.name}"
    finding = new_finding("entry-twice", message, "remove one of them", repair=repair)
    return msgspec.structs.replace(finding, entry=second.name, place=second.place)


# -- several files of a host


def check_together(reports: Sequence[FileReport], machine: Machine) -> list[Finding]:
    """Look at all files of one host: which of them it reads, and which entries hide others.

    Args:
        reports: of the files of one host, as `config_files` lists them.
        machine: where they are.
    """
    return [*_unread_files(reports, machine), *_shadowed_entries(reports)]


def _unread_files(reports: Sequence[FileReport], machine: Machine) -> Iterator[Finding]:
    """Look for files that the host no longer reads, since it has another one."""
    from accord_tools.hosts.table import expand

    if not reports:
        return
    host = reports[0].file.host
    patterns = host.user.get(machine.system, ())
    paths = {path: pattern for pattern in patterns for path in expand(pattern, machine)}
    found = [each for each in reports if each.file.scope == "user" and each.file.path in paths]
    for each in found[1:]:
        chosen, old = found[0].file, each.file
        # Files side by side are read together.
        if chosen.path.parent == old.path.parent or old.key != chosen.key:
            continue
        message = f"{host.name} reads {chosen.path}, and not {old.path}"
        if not each.entries:
            yield new_finding("file-several", message)
            continue
        # A variable that names another folder is set on purpose.
        is_chosen = "{env:" in paths[chosen.path]
        missing = {name: one for name, one in each.entries.items() if name not in found[0].entries}
        repair = None
        if missing and not is_chosen and host.container == "map":
            repair = Repair(
                code="file-not-read",
                title=f"copy {', '.join(missing)} to {chosen.path}",
                file=chosen,
                steps=tuple(
                    RepairStep((*chosen.key, name), ABSENT, one.value)
                    for name, one in missing.items()
                ),
            )
        message = f"{message} (with {', '.join(each.entries)[:80]})"
        severity: FindingSeverity = "warning" if missing and not is_chosen else "note"
        change = f"copy them to {chosen.path}" if missing else ""
        yield new_finding("file-not-read", message, change, severity=severity, repair=repair)


def _shadowed_entries(reports: Sequence[FileReport]) -> Iterator[Finding]:
    first: dict[str, FileReport] = {}
    # The file of a project counts more than that of the user.
    for report in sorted(reports, key=lambda each: each.file.scope != "project"):
        for name, entry in report.entries.items():
            other = first.setdefault(name, report)
            if other is report or other.file.scope == report.file.scope:
                continue
            message = f"{name} of {report.file.path} is hidden by the one of {other.file.path}"
            finding = new_finding("entry-shadowed", message)
            yield msgspec.structs.replace(finding, entry=name, place=entry.place)
