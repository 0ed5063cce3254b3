"""One table of a fleet file: its values by key, and messages that name the line and the key."""

import math
from collections.abc import Collection, Mapping
from datetime import date, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from accord.client.configuration import kind_of
from accord_tools.fleet.definition import FleetError
from accord_tools.fleet.file.document import FleetDocument
from accord_tools.hosts.definition import KeyPath

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
