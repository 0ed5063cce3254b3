"""What a server shows, locked in a file, and how what it shows now differs."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from accord.check.contract.differences import difference
from accord.errors import AccordError
from accord.testing.surface import METHODS

# The lists of a surface: what an entry is called, and which member names it.
_LISTS: Final = {
    "tools": ("tool", "name"),
    "resources": ("resource", "uri"),
    "resourceTemplates": ("resource template", "uriTemplate"),
    "prompts": ("prompt", "name"),
}
_ABSENT: Final = object()


class LockError(AccordError):
    """A lock file that cannot be read; the message names it."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One difference: what it is about, and what became of which member; values are JSON."""

    subject: str
    what: str
    before: str | None = None
    after: str | None = None

    def text(self) -> str:
        """Return it as lines for people."""
        lines = difference(self.before, self.after)
        return "\n".join([f"{self.subject}: {self.what}", *(f"  {each}" for each in lines)])


def format_lock(surface: Mapping[str, Any], revision: str) -> str:
    """Return the text of a lock file: the same surface gives the same text."""
    locked = {"revision": revision, **surface}
    return json.dumps(locked, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def read_lock(path: Path) -> dict[str, Any]:
    """Read a lock file.

    Raises:
        LockError: there is none, or it is no lock file.
    """
    try:
        locked = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise LockError(f"there is no {path}; accord lock writes it") from None
    except OSError as error:
        raise LockError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise LockError(f"{path} is no JSON: {error}") from None
    if not isinstance(locked, dict) or not isinstance(locked.get("server"), str):
        raise LockError(f"{path} is no lock file; accord lock writes one")
    return locked


def find_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Return how a surface differs from the one that was locked; nothing where it does not."""
    found = [
        Change(subject=f"the {key}", what=what, before=_told(old), after=_told(new))
        for key in ("server", "instructions")
        for what, old, new in _members(before.get(key, _ABSENT), after.get(key, _ABSENT), "")
    ]
    failed = [each.get("failed") or {} for each in (before, after)]
    for key, (kind, name) in _LISTS.items():
        method = METHODS[key]
        old, new = (each.get(method, _ABSENT) for each in failed)
        if old != new:
            what = "answers" if new is _ABSENT else "fails"
            found.append(
                Change(subject=method, what=f"{what} now", before=_told(old), after=_told(new))
            )
        if new is _ABSENT:
            # What a list that fails would show is not removed; it cannot be seen.
            found += _entries(kind, _named(before.get(key), name), _named(after.get(key), name))
    return found


def _named(listed: Any, name: str) -> dict[str, Any]:
    entries = listed if isinstance(listed, list) else []
    return {str(each.get(name)): each for each in entries if isinstance(each, dict)}


def _entries(kind: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    for name in sorted({*before, *after}):
        subject = f"{kind} {name}"
        if name not in after:
            yield Change(subject=subject, what="removed")
        elif name not in before:
            yield Change(subject=subject, what="added")
        else:
            for what, old, new in _members(before[name], after[name], ""):
                yield Change(subject=subject, what=what, before=_told(old), after=_told(new))


def _members(before: Any, after: Any, place: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield what became of each member, as deep as both sides have objects."""
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            inner = f"{place}.{key}" if place else key
            yield from _members(before.get(key, _ABSENT), after.get(key, _ABSENT), inner)
    elif before is _ABSENT:
        yield f"{place} added".lstrip(), before, after
    elif after is _ABSENT:
        yield f"{place} removed".lstrip(), before, after
    elif json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True):
        yield f"{place} changed".lstrip(), before, after


def _told(value: Any) -> str | None:
    return None if value is _ABSENT else json.dumps(value, ensure_ascii=False, sort_keys=True)
