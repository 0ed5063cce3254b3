"""Secrets in recordings: replaced by numbers, the same for the same text, so that rules still see
what is equal.
"""

import re
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from accord.protocol.memory import Bounded
from accord.trace import SHOWN_HEADERS, Record

__all__ = ["Masks"]

_SECRET_KEYS: Final = re.compile(
    r"pass(word|wd|phrase)|secret|token$|api[-_]?key|private[-_]?key|credential|authorization"
    r"|cookie|session[-_]?id",
    re.IGNORECASE,
)
# Names of the protocol that only look like secrets.
_HARMLESS: Final = frozenset({"progressToken", "maxTokens"})
_SECRET_TEXT: Final = re.compile(
    r"(?<![\w-])(?:sk-[\w-]{16,}|gh[pousr]_\w{20,}|xox[abprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}"
    r"|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)"
)
# Secrets whose numbers are kept; one that comes again after so many others gets another.
_KNOWN_MOST: Final = 10_000
# What is shorter stands in many words that are no secret.
_SHORTEST: Final = 4
_SCHEMES: Final = re.compile(r"(bearer|basic|digest|dpop) +", re.IGNORECASE)


class Masks:
    """What stands in place of each secret of one recording."""

    def __init__(self) -> None:
        self._known: Bounded[str, str] = Bounded(_KNOWN_MOST)
        self._count = 0

    def _mask(self, text: str) -> str:
        found = self._known.get(text)
        if found is None:
            self._count += 1
            found = self._known[text] = f"masked-{self._count}"
        return found

    def applied(self, record: Record) -> Record:
        """Return a record without secrets; the record itself where there are none."""
        message, raw, http = record.message, record.raw, record.http
        if message is not None and _may_hide(bytes(message)):
            value = msgspec.json.decode(message)
            clean = self._value(value)
            if clean != value:
                message = msgspec.Raw(msgspec.json.encode(clean))
        if raw is not None:
            raw = self._text(raw)
        if http is not None and http.headers:
            headers = {name: self._header(name, text) for name, text in http.headers.items()}
            http = replace(http, headers=headers)
        if (message, raw, http) == (record.message, record.raw, record.http):
            return record
        return replace(record, message=message, raw=raw, http=http)

    def _header(self, name: str, text: str) -> str:
        if name in SHOWN_HEADERS:
            return text
        if name == "www-authenticate":
            return self._text(text)
        scheme = _SCHEMES.match(text)
        if scheme is not None:
            return scheme[0] + self._mask(text[scheme.end() :])
        return self._mask(text)

    def _value(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: self._value(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [self._value(each, key) for each in value]
        if not isinstance(value, str):
            return value
        if key not in _HARMLESS and _SECRET_KEYS.search(key) and value:
            return self._mask(value)
        return self._text(value)

    def _text(self, text: str) -> str:
        if text.lstrip()[:1] in ("{", "[") and _may_hide(text.encode(errors="replace")):
            # Results that are structured stand in their text once more.
            try:
                value = msgspec.json.decode(text)
            except (ValueError, RecursionError):
                pass
            else:
                clean = self._value(value)
                return text if clean == value else msgspec.json.encode(clean).decode()
        return _SECRET_TEXT.sub(lambda found: self._mask(found[0]), text)

    def told(self, text: str) -> str:
        """Return what is said of messages, or an excerpt of one, without secrets seen so far."""
        for secret, mask in self._known.items():
            if len(secret) >= _SHORTEST:
                for form in (secret, msgspec.json.encode(secret)[1:-1].decode()):
                    text = text.replace(form, mask)
        return _SECRET_TEXT.sub(lambda found: self._mask(found[0]), text)


_SIGNS: Final = re.compile(
    rb"pass|secret|token|key|credential|authorization|cookie|session|sk-|gh._|xox|AKIA|eyJ",
    re.IGNORECASE,
)


def _may_hide(data: bytes) -> bool:
    """Look once, quickly: most messages have nothing to hide."""
    return _SIGNS.search(data) is not None
