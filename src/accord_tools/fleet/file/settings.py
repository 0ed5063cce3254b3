"""What a fleet file says about a server, beside how to reach it: keys, types and ranges."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, get_args

import msgspec

from accord.types import REVISION_IDS
from accord_tools.fleet.definition import (
    AcceptedBreach,
    Directory,
    FleetServer,
    ServerLimits,
    VersionSource,
)
from accord_tools.fleet.file.section import Section, suggest

# Ids of findings, which are not in the catalogue of requirements.
FINDING_PREFIXES: Final = ("surface.", "safety.", "directory.", "process.", "calls.")
LOCK_NAME: Final = "{name}"
"""Stands for the name of the server where `[defaults]` name lock files."""
# A limit that does not count: TOML has no null.
_ANY: Final = "any"
# Ten years in hours: dates have an end.
_YEARS: Final = 87_600
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PACKAGE: Final = re.compile(r"(?:pypi|npm):\S+")
_ENTRY_KEYS: Final = ("command", "args", "env", "cwd", "url", "headers", "type", "transport")

ReadSetting = Callable[[Section, str], object]


def _read_limits(section: Section, key: str) -> dict[str, float | None]:
    inner = section.inner(key, subject=f"{section.subject}: {key}")
    inner.refuse_unknown(ServerLimits.__struct_fields__, {})
    found: dict[str, float | None] = {}
    for name, value in inner.values.items():
        if value == _ANY:
            found[name] = None
        elif name in ("score", "coverage"):
            found[name] = inner.number(name, what="a number", most=100)
        elif name == "start":
            found[name] = inner.number(name, what="a number of seconds", zero=False)
        else:
            found[name] = inner.whole(name)
    return found


def _read_version(section: Section, key: str) -> VersionSource:
    inner = section.inner(key, subject=f"{section.subject}: {key}")
    known = VersionSource.__struct_fields__
    inner.refuse_unknown(known, {})
    if len(inner.values) != 1:
        raise section.fault(key, f"{key} needs one of {', '.join(known)}")
    if "command" in inner:
        words = inner.texts("command")
        if not words:
            raise inner.fault("command", "command is empty")
        return VersionSource(command=words)
    if "file" in inner:
        return VersionSource(file=inner.path("file"))
    package = inner.text("package")
    if not _PACKAGE.fullmatch(package):
        raise inner.fault("package", f"package is {package!r}, expected pypi:NAME or npm:NAME")
    return VersionSource(package=package)


def _read_cases(section: Section, key: str) -> object:
    given = section.values[key]
    named = (given,) if isinstance(given, str) else section.texts(key)
    found = tuple(section.path(key, each) for each in named)
    for name, path in zip(named, found, strict=True):
        if not path.is_file():
            said = "is a folder" if path.is_dir() else "does not exist"
            raise section.fault(key, f"{key}: {name} {said}, expected a file of test cases")
    return found


def _read_lock(section: Section, key: str) -> object:
    path = section.path(key)
    if path.is_dir():
        raise section.fault(key, f"{key}: {section.values[key]} is a folder, expected a file")
    return path


def _read_lock_pattern(section: Section, key: str) -> str:
    pattern = section.text(key)
    if LOCK_NAME not in pattern:
        raise section.fault(
            key,
            f"{key} is one file for all servers: write {LOCK_NAME} for the name, as in"
            f' "locks/{LOCK_NAME}.lock.json"',
        )
    return pattern


def _read_only(section: Section, key: str) -> object:
    from accord.protocol.catalogue import catalogue
    from accord_tools.check.verdicts import is_chosen

    known = catalogue()
    found = section.texts(key)
    for each in found:
        if not any(is_chosen(id, [each]) for id in known):
            areas = {row.area for row in known.values()}
            hint = suggest(each, [*sorted(areas), *known])
            raise section.fault(key, f"{key}: there is no requirement {each!r}; {hint}")
    return found


def _read_needs(section: Section, key: str) -> object:
    found = section.texts(key)
    for each in found:
        if not _VARIABLE.fullmatch(each):
            raise section.fault(key, f"{key}: {each[:40]!r} is not the name of a variable")
    return found


def _seconds(section: Section, key: str) -> object:
    return section.number(key, what="a number of seconds", zero=False)


_READERS: Final[Mapping[str, ReadSetting]] = {
    "owner": Section.text,
    "tags": Section.texts,
    "revisions": lambda section, key: section.choices(key, REVISION_IDS, "revision"),
    "time": _seconds,
    "patience": _seconds,
    "timeout": _seconds,  # the name that options and case files have
    "expect": _read_limits,
    "lock": _read_lock,
    "cases": _read_cases,
    "contract": Section.flag,
    "only": _read_only,
    "tools": Section.texts,
    "allow_writes": Section.flag,
    "calls": Section.whole,
    "readiness": lambda section, key: section.choices(key, get_args(Directory), "directory"),
    "needs": _read_needs,
    "version": _read_version,
    "max_age": lambda section, key: section.number(key, what="a number of hours", most=_YEARS),
    "one_at_a_time": Section.flag,
    "enabled": Section.flag,
}
# What only one server can have.
_OWN: Final = ("version", "enabled")


def read_settings(
    section: Section, lint_ids: Collection[str], *, is_default: bool = False
) -> dict[str, Any]:
    """Read the table of one server, or the defaults of all.

    Returns:
        values by the attributes of `FleetServer`; `expect` as a dictionary, to be merged, and
        `lock` of the defaults as a text with `LOCK_NAME` in it.

    Raises:
        FleetError: names the line, the key, and the nearest one that exists.
    """
    known = [key for key in (*_READERS, "accept") if not is_default or key not in _OWN]
    name = section.keys[-1]
    section.refuse_unknown(
        known,
        {
            **{
                key: f"it belongs into [mcpServers.{name}]" for key in _ENTRY_KEYS if not is_default
            },
            **{key: "it belongs into a [server.NAME]" for key in _OWN if is_default},
            "allow": "write [[server.NAME.accept]] with id, reason and until",
            "disabled": "did you mean enabled = false?",
        },
    )
    if "timeout" in section and "patience" in section:
        raise section.fault("timeout", "timeout and patience are the same: keep one of them")
    readers = {**_READERS, "lock": _read_lock_pattern} if is_default else _READERS
    found = {
        "patience" if key == "timeout" else key: readers[key](section, key)
        for key in section.values
        if key in readers
    }
    if "accept" in section:
        found["accept"] = _read_accepted(section, lint_ids)
    return found


def _read_accepted(section: Section, lint_ids: Collection[str]) -> tuple[AcceptedBreach, ...]:
    given = section.values["accept"]
    if not isinstance(given, list):
        header = ".".join(map(str, (*section.keys, "accept")))
        raise section.wrong("accept", f"a list of tables, as in [[{header}]]")
    return tuple(_read_breach(section, place, lint_ids) for place in range(len(given)))


def _read_breach(section: Section, place: int, lint_ids: Collection[str]) -> AcceptedBreach:
    inner = section.inner("accept", place, subject=f"{section.subject}: accept {place + 1}")
    inner.refuse_unknown(AcceptedBreach.__struct_fields__, {})
    for key in ("id", "reason", "until"):
        if key not in inner:
            hint = {"reason": "say why it is accepted", "until": "name the last day on which it is"}
            said = hint.get(key, "name a requirement or a finding")
            raise inner.fault(None, f"{key} is missing: {said}")
    id = inner.text("id")
    _demand_id(inner, id, lint_ids)
    return AcceptedBreach(
        id=id,
        reason=inner.text("reason"),
        until=inner.day("until"),
        subject=inner.text("subject") if "subject" in inner else None,
    )


def _demand_id(section: Section, id: str, lint_ids: Collection[str]) -> None:
    from accord.protocol.catalogue import catalogue

    if not lint_ids and id.startswith(FINDING_PREFIXES):
        return
    known = [*catalogue(), *lint_ids]
    if "*" in id[:-1]:
        raise section.fault("id", f"id is {id!r}: a * may stand at the end only")
    is_known = any(each.startswith(id[:-1]) for each in known) if id[-1] == "*" else id in known
    if not is_known:
        hint = suggest(id.rstrip("*."), known) if id.rstrip("*.") else "name at least an area"
        if hint.startswith("known"):
            hint = "accord requirements lists them"
        raise section.fault("id", f"there is no requirement or finding {id!r}; {hint}")


def merge_settings(tables: Collection[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge tables, the most general first: limits key by key, accepted breaches in a row."""
    merged: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    accepted: list[AcceptedBreach] = []
    for table in tables:
        merged.update(table)
        limits.update(table.get("expect", {}))
        accepted += table.get("accept", ())
    merged.pop("enabled", None)
    return {**merged, "expect": ServerLimits(**limits), "accept": tuple(accepted)}


# A key without a reader would be an attribute that files cannot set.
assert set(_READERS) - {"timeout", "enabled"} | {"accept", "name", "entry", "line", "folder"} == {
    field.name for field in msgspec.structs.fields(FleetServer)
}
