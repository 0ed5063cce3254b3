"""What a fleet file says about a server, beside how to reach it: keys, types and ranges.

Messages name the line and the key.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from accord.client.configuration import kind_of
from accord.types import REVISION_IDS
from accord_tools.fleet.definition import (
    AcceptedBreach,
    Directory,
    FleetError,
    FleetServer,
    ServerLimits,
    VersionSource,
)
from accord_tools.fleet.file.document import FleetDocument
from accord_tools.hosts.definition import KeyPath

# -- one table of a file

# More names than these do not help in a message.
_SHOWN: Final = 12


def suggest(given: str, known: Collection[str]) -> str:
    """Return the known name that may have been meant, or the names that there are."""
    close = get_close_matches(given.lower(), list(known), n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]}?"
    named = list(known)
    return f"known: {', '.join(named[:_SHOWN])}{' ...' if len(named) > _SHOWN else ''}"


class Section:
    """A table of a document.

    Args:
        document: the file.
        keys: the path of the table.
        subject: what messages call it, such as "server 'tickets'".
    """

    def __init__(self, document: FleetDocument, keys: KeyPath, subject: str) -> None:
        self.document = document
        self.keys = keys
        self.subject = subject
        found: Any = document.data
        for key in keys:
            found = found.get(key, {}) if isinstance(found, Mapping) else found[key]
        if not isinstance(found, Mapping):
            raise FleetError(
                f"{document.place(*keys)}: {subject} is {kind_of(found)}, expected a table"
            )
        self.values: Mapping[str, Any] = found
        for key in found:
            if not isinstance(key, str):
                raise self.fault(str(key), f"key {key} is not a text")

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def inner(self, *keys: str | int, subject: str) -> "Section":
        """Return a table within this one."""
        return Section(self.document, (*self.keys, *keys), subject)

    def fault(self, key: str | int | None, text: str) -> FleetError:
        """Return an error about a key, or about the table as a whole."""
        keys = self.keys if key is None else (*self.keys, key)
        return FleetError(f"{self.document.place(*keys)}: {self.subject}: {text}")

    def wrong(self, key: str, expected: str) -> FleetError:
        """Return an error about the type of a value."""
        return self.fault(key, f"{key} is {kind_of(self.values[key])}, expected {expected}")

    def refuse_unknown(self, known: Collection[str], elsewhere: Mapping[str, str]) -> None:
        """Refuse a key that this table does not have.

        Args:
            known: the keys that it has.
            elsewhere: for keys of other tables, where they belong.
        """
        for key in self.values:
            if key in known:
                continue
            hint = elsewhere.get(key) or suggest(key, known)
            raise self.fault(key, f"there is no key {key}; {hint}")

    # -- values

    def text(self, key: str) -> str:
        """Return a text that is not empty."""
        value = self.values[key]
        if not isinstance(value, str):
            raise self.wrong(key, "a text")
        if not value.strip():
            raise self.fault(key, f"{key} is empty")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts."""
        value = self.values[key]
        if not isinstance(value, list):
            raise self.wrong(key, f"a list of texts, as in {key} = [...]")
        for place, each in enumerate(value):
            if not isinstance(each, str) or not each.strip():
                said = "empty" if isinstance(each, str) else kind_of(each)
                raise self.fault(key, f"{key}[{place}] is {said}, expected a text")
        return tuple(value)

    def choices(self, key: str, known: Collection[str], what: str) -> tuple[str, ...]:
        """Return a list of known names; one name alone may stand without brackets."""
        value = self.values[key]
        named = (value,) if isinstance(value, str) else self.texts(key)
        for each in named:
            if each not in known:
                raise self.fault(key, f"{key}: {each!r} is not a {what}; {suggest(each, known)}")
        return named

    def flag(self, key: str) -> bool:
        """Return true or false."""
        value = self.values[key]
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def number(
        self, key: str, *, what: str = "a number", most: float | None = None, zero: bool = True
    ) -> float:
        """Return a number that is not negative.

        Args:
            key: of the number.
            what: it is, for messages.
            most: the largest that makes sense.
            zero: whether it may be 0.
        """
        value = self.values[key]
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.wrong(key, what)
        if not math.isfinite(value) or value < 0 or (value == 0 and not zero):
            least = "0 or more" if zero else "more than 0"
            raise self.fault(key, f"{key} is {value}, expected {what}, {least}")
        if most is not None and value > most:
            raise self.fault(key, f"{key} is {value:g}, expected {what}, {most:g} at the most")
        return float(value)

    def whole(self, key: str, *, what: str = "a whole number") -> int:
        """Return a whole number that is not negative."""
        value = self.values[key]
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong(key, what)
        if value < 0:
            raise self.fault(key, f"{key} is {value}, expected {what}, 0 or more")
        return value

    def path(self, key: str, text: str | None = None) -> Path:
        """Return an absolute path; a relative one is relative to the file."""
        given = self.text(key) if text is None else text
        if "\0" in given:
            raise self.fault(key, f"{key} is not a path")
        return self.document.path.absolute().parent / Path(given).expanduser()

    def day(self, key: str) -> date:
        """Return a day, written as a date or as a text."""
        value = self.values[key]
        if isinstance(value, datetime):
            return value.date()
        if isinstance(value, date):
            return value
        if isinstance(value, str):
            try:
                return date.fromisoformat(value)
            except ValueError:
                pass
            raise self.fault(key, f"{key} is {value[:40]!r}, expected a date such as 2026-12-31")
        raise self.wrong(key, "a date such as 2026-12-31")


# -- the settings of a server

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
