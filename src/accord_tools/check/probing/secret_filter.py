"""Hides the user's credentials in texts of a server: as they are, encoded, or cut off."""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final
from urllib.parse import quote, quote_plus

HIDDEN: Final = "(secret)"
# So many characters in a row of a long secret are hidden wherever they are, as a server may cut
# a text, or repeat only a part.
_RUN: Final = 12
# At a place where a text was cut, fewer characters tell that the secret began or ended there.
_STUMP: Final = 4
_CUTS: Final = ("...", "…")
_URL: Final = re.compile(r"https?://", re.IGNORECASE)
_USER: Final = re.compile(r"//[^/?#\s]*@")
_VALUE: Final = re.compile(r"([?&#][^=&#\s]*=)[^&#\s]*")
# Any run of a secret contains one of the blocks of this length that the secret divides into.
_BLOCK: Final = (_RUN + 1) // 2


class SecretFilter:
    """Replaces secrets in texts, in every usual encoding.

    Args:
        secrets: what must not be shown.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._forms = sorted({form for each in secrets for form in _forms_of(each)})
        self._runs: dict[int, set[str]] = {}
        for form in self._forms:
            length = min(len(form), _RUN)
            places = range(len(form) - length + 1)
            self._runs.setdefault(length, set()).update(form[at : at + length] for at in places)
        # Most texts contain no secret, which these tell much faster than a search for runs.
        self._search = re.compile(_any_of(block for each in self._forms for block in _blocks(each)))
        self._heads = {form[:_STUMP] for form in self._forms}
        self._tails = {form[-_STUMP:] for form in self._forms}

    def hide(self, text: str, *, may_be_cut: bool = True) -> str:
        """Return a text without secrets.

        Args:
            text: of a server.
            may_be_cut: whether the text may begin or end within a secret.
        """
        if not self._forms or not text:
            return text
        if self._search.search(text) is not None:
            text = self._hide_runs(text)
        may_be_cut = may_be_cut and self._has_stump(text)
        if may_be_cut or any(cut in text for cut in _CUTS):
            text = self._hide_stumps(text, at_ends=may_be_cut)
        return text

    def _has_stump(self, text: str) -> bool:
        """Return whether a secret may begin at the end of a text, or end at its beginning."""
        places = range(_RUN)
        return any(text[at : at + _STUMP] in self._tails for at in places) or any(
            text[at : at + _STUMP] in self._heads
            for at in range(max(len(text) - _RUN, 0), len(text))
        )

    def _hide_runs(self, text: str) -> str:
        spans: list[tuple[int, int]] = []
        for length, runs in self._runs.items():
            spans += [
                (at, at + length)
                for at in range(len(text) - length + 1)
                if text[at : at + length] in runs
            ]
        shown: list[str] = []
        end = 0
        for start, stop in sorted(spans):
            if start > end or not shown:
                shown.append(text[end:start] + HIDDEN)
            end = max(end, stop)
        return "".join(shown) + text[end:]

    def _hide_stumps(self, text: str, *, at_ends: bool) -> str:
        for form in self._forms:
            for length in range(min(len(form), _RUN) - 1, _STUMP - 1, -1):
                head, tail = form[:length], form[-length:]
                if at_ends and text.endswith(head):
                    text = text[:-length] + HIDDEN
                if at_ends and text.startswith(tail):
                    text = HIDDEN + text[length:]
                for cut in _CUTS:
                    text = text.replace(head + cut, HIDDEN + cut).replace(cut + tail, cut + HIDDEN)
        return text


def display_target(target: str) -> str:
    """Return a target as reports show it: a URL without user, password and query values.

    >>> display_target("https://me:word@example.com/mcp?key=1#x")
    'https://...@example.com/mcp?key=...#x'
    """
    if not _URL.match(target):
        return target
    return _VALUE.sub(r"\1...", _USER.sub("//...@", target, count=1))


def _blocks(form: str) -> Iterator[str]:
    if len(form) < _RUN:
        yield form
        return
    for at in range(0, len(form) - _BLOCK + 1, _BLOCK):
        yield form[at : at + _BLOCK]


def _any_of(words: Iterable[str]) -> str:
    """Return a regular expression for any of some words, which tries each character once."""
    tree: dict[str, Any] = {}
    for word in words:
        node = tree
        for letter in word:
            node = node.setdefault(letter, {})
        node[""] = {}
    return _branch(tree)


def _branch(tree: Mapping[str, Any]) -> str:
    if "" in tree:  # a word ends here, so that the rest of longer ones does not matter
        return ""
    found = [re.escape(letter) + _branch(rest) for letter, rest in tree.items()]
    return found[0] if len(found) == 1 else f"(?:{'|'.join(found)})"


@cache
def filter_of(secrets: tuple[str, ...]) -> SecretFilter:
    """Return the filter of some secrets; a check asks for the same one often."""
    return SecretFilter(secrets)


def _forms_of(secret: str) -> Iterator[str]:
    """Yield a secret in the encodings that programs use."""
    data = secret.encode()
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret)[1:-1].replace("/", "\\/")
    for quoted in (quote(secret, safe=""), quote_plus(secret), quote(secret)):
        yield quoted
        yield quoted.lower() if "%" in quoted else quoted
    yield "".join(f"%{byte:02X}" for byte in data)
    yield data.hex()
    yield data.hex().upper()
    # Within a longer text the encoded secret depends on the number of bytes before it.
    for before in range(3):
        for encode in (b64encode, urlsafe_b64encode):
            text = encode(b"\0" * before + data).decode().rstrip("=")
            inner = text[(0, 2, 3)[before] : len(text) - (len(text) % 4 != 0)]
            if len(inner) >= _STUMP * 2:
                yield inner
