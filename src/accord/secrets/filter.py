"""Credentials that a user gave: found in texts as they are, encoded, or cut off."""

import json
import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from html import escape
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

from accord.secrets.recognition import (
    KEY_FORM,
    SCHEMES,
    has_literal_form,
    has_secret_form,
    is_literal,
    is_path_like,
    mask_forms,
    may_hide,
    names_secret,
)
from accord.trace import SHOWN_HEADERS

HIDDEN: Final = "masked-0"
"""What stands in place of a credential that the user gave, or of a part of it. It has no number of
its own, so that texts of several runs can be compared."""

# A shorter text occurs in others by chance.
SECRET_LENGTH: Final = 6
# So many characters in a row of a long secret are hidden wherever they are, as a server may cut
# a text, or repeat only a part.
_RUN: Final = 12
# At a place where a text was cut, fewer characters tell that the secret began or ended there.
_STUMP: Final = 4
_CUTS: Final = ("...", "…")
# So many characters in a row tell that the rest of a secret may be there.
_BLOCK: Final = 5
# JSON in texts of JSON, in a text of JSON.
_LEVELS: Final = 3
_ESCAPE: Final = re.compile("%..")
# What messages consist of, the rarest first; all other characters are rarer.
_FREQUENT: Final = "9876543210zqxjkvbywgpfmucdlhrsniaote-_/. :,'\"{}[]\\"
_HARMLESS_HEADERS: Final = SHOWN_HEADERS | {"accept-language"}


class SecretFilter:
    """Replaces known secrets in texts, in every usual encoding.

    Args:
        secrets: what must not be shown, or the mask of each.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        given = secrets if isinstance(secrets, Mapping) else dict.fromkeys(secrets, HIDDEN)
        masks = {form: mask for each, mask in given.items() for form in _forms_of(each)}
        self._masks = sorted(masks.items(), key=lambda item: (-len(item[0]), item[0]))
        self._forms = sorted(masks)
        self._runs: dict[int, set[str]] = {}
        # Many addresses begin alike.
        whole = {form for each in given if "://" in each for form in _forms_of(each)}
        for form in self._forms:
            length = len(form) if form in whole else min(len(form), _RUN)
            places = range(len(form) - length + 1)
            self._runs.setdefault(length, set()).update(form[at : at + length] for at in places)
        # Most texts contain no secret, which these tell much faster than a search for runs.
        self._search = re.compile(_any_of(block for each in self._forms for block in _blocks(each)))
        self._heads = {form[:_STUMP] for form in self._forms}
        self._tails = {form[-_STUMP:] for form in self._forms}

    def __bool__(self) -> bool:
        return bool(self._forms)

    def may_be_in(self, text: str) -> bool:
        """Return whether a text may contain a secret: a quick test, since most do not."""
        return bool(self._forms) and self._search.search(text) is not None

    def hide(self, text: str, *, may_be_cut: bool = True) -> str:
        """Return a text without secrets.

        Args:
            text: of a server.
            may_be_cut: whether the text may begin or end within a secret.
        """
        if not self._forms or not text:
            return text
        if self.may_be_in(text):
            text = self._hide_runs(text)
        may_be_cut = may_be_cut and self._has_stump(text)
        if may_be_cut or any(cut in text for cut in _CUTS):
            text = self._hide_stumps(text, at_ends=may_be_cut)
        return text

    def hide_in(self, value: Any) -> Any:
        """Return a value of JSON without secrets in its texts and names."""
        if isinstance(value, str):
            return self.hide(value, may_be_cut=False)
        if isinstance(value, dict):
            return {self.hide_in(name): self.hide_in(each) for name, each in value.items()}
        return [self.hide_in(each) for each in value] if isinstance(value, list) else value

    def hide_any(self, text: str, *, may_be_cut: bool = True) -> str:
        """Return a text without the secrets, and without others that have the form of one."""
        return hide_forms(self.hide(text, may_be_cut=may_be_cut))

    def _has_stump(self, text: str) -> bool:
        """Return whether a secret may begin at the end of a text, or end at its beginning."""
        places = range(_RUN)
        return any(text[at : at + _STUMP] in self._tails for at in places) or any(
            text[at : at + _STUMP] in self._heads
            for at in range(max(len(text) - _RUN, 0), len(text))
        )

    def _hide_runs(self, text: str) -> str:
        spans: list[tuple[int, int]] = []
        for found in self._search.finditer(text):
            start, end = found.span()
            for length, runs in self._runs.items():
                spans += [
                    (at, at + length)
                    for at in range(max(start - length, 0), end)
                    if text[at : at + length] in runs
                ]
        shown: list[str] = []
        begun = end = 0
        for start, stop in [*sorted(spans), (len(text) + 1, 0)]:
            if start > end or not end:
                shown += [self._mask_of(text[begun:end]), text[end:start]]
                begun = start
            end = max(end, stop)
        return "".join(shown)

    def _mask_of(self, part: str) -> str:
        """Return the mask of the secret that a part of a text contains whole."""
        return part and next((mask for form, mask in self._masks if form in part), HIDDEN)

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


def hide_forms(text: str) -> str:
    """Return a text without secrets that their form or their surroundings tell."""
    if not may_hide(text.encode(errors="replace")):
        return text
    return mask_forms(text, lambda _: HIDDEN)


def _blocks(form: str) -> Iterator[str]:
    """Yield parts of a form so that each run of it contains one; they begin with rare letters."""
    run = min(len(form), _RUN)
    size = min(run, _BLOCK)
    ranks = [*map(_FREQUENT.find, form)]
    found = {
        ranks.index(min(ranks[start : start + run - size + 1]), start)
        for start in range(len(form) - run + 1)
    }
    for at in found:
        yield form[at : at + size]


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


@lru_cache(64)
def filter_of(secrets: tuple[str, ...]) -> SecretFilter:
    """Return the filter of some secrets; the same one is often asked for."""
    return SecretFilter(secrets)


def _forms_of(secret: str) -> Iterator[str]:
    """Yield a secret in the encodings that programs use."""
    data = secret.encode(errors="surrogateescape")
    forms = {secret, repr(secret)[1:-1]}
    for _ in range(_LEVELS):
        forms |= {each.replace("/", "\\/") for each in forms} | {
            json.dumps(each, ensure_ascii=is_ascii)[1:-1]
            for each in forms
            for is_ascii in (True, False)
        }
    yield from forms
    yield from (escape(each, quote=is_quoted) for each in forms for is_quoted in (True, False))
    for quoted in (quote(secret, safe=""), quote_plus(secret), quote(secret)):
        yield quoted
        yield _ESCAPE.sub(lambda found: found[0].lower(), quoted)
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


def find_given(
    more: Iterable[str] = (),
    *,
    headers: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    url: str = "",
    command: Iterable[object] = (),
) -> tuple[str, ...]:
    """Return the credentials that a user gave for a server, the longest first.

    Args:
        more: further texts that are secret, such as tokens.
        headers: sent with every request; those that say nothing secret are left out.
        env: variables; only those with the name or the form of a secret count.
        url: where the server is.
        command: launches it; only values of options with the name of a secret count, and forms.
    """
    found = [*more, *(each.value for each in find_in_words(command))]
    for each in (url, *(each for each in found if "://" in each)):
        found += _in_url(each)
    for name, value in (headers or {}).items():
        if name.lower() not in _HARMLESS_HEADERS:
            found += _in_header(value)
    # The path of a file with a secret is not one, and other paths begin like it.
    found += [
        value
        for name, value in (env or {}).items()
        if (names_secret(name) and not is_path_like(value)) or has_secret_form(value)
    ]
    kept = {form for each in found for form in (each, each.strip()) if len(form) >= SECRET_LENGTH}
    return tuple(sorted(kept, key=lambda each: (-len(each), each)))


class SecretWord(NamedTuple):
    """A secret in a word of a command.

    Attributes:
        place: of the word.
        value: the secret, which may be a part of the word.
        name: of the option or variable before it; empty if its form tells it alone.
        is_variable: whether that is a variable.
    """

    place: int
    value: str
    name: str
    is_variable: bool = False


_OPTION: Final = re.compile(r"--?([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


def find_in_words(words: Iterable[object]) -> Iterator[SecretWord]:
    """Yield the secrets in a command, such as the value of `--token`.

    >>> [each.value for each in find_in_words(["srv", "--api-key", "abc1", "--port=1"])]
    ['abc1']
    """
    option = ""
    for place, word in enumerate(words):
        if not isinstance(word, str):
            continue
        named = _OPTION.fullmatch(word) or _ASSIGNMENT.fullmatch(word)
        name, value = (named[1], named[2]) if named else (option, word)
        if value and names_secret(name) and is_literal(value) and not is_path_like(value):
            yield SecretWord(place, value, name, named is not None and named.re is _ASSIGNMENT)
        elif has_literal_form(word):
            parts = (part for part in re.split(r"[=\s]", word) if has_secret_form(part))
            yield SecretWord(place, next(parts, word), option)
        # The value of `--token` is the next word.
        option = named[1] if named and named[2] is None else ""


def display_command(words: Sequence[str]) -> list[str]:
    """Return the words of a command as reports show them, with a mask for each secret.

    >>> display_command(["srv", "--api-key", "abc123xyz", "--port=1", "--token=s3cret99"])
    ['srv', '--api-key', 'masked-0', '--port=1', '--token=masked-0']
    """
    shown = list(words)
    for found in find_in_words(words):
        shown[found.place] = words[found.place].replace(found.value, HIDDEN)
    return [*map(hide_forms, shown)]


def _in_header(value: str) -> Iterator[str]:
    """Yield what is secret in a header: the part after a scheme, or all of it."""
    scheme = SCHEMES.match(value)
    rest = value[scheme.end() :].strip() if scheme else value
    yield rest
    if scheme is not None and scheme[1].lower() == "basic":
        try:
            user = b64decode(rest, validate=True).decode()
        except ValueError:
            return
        yield user
        yield user.partition(":")[2]


def _in_url(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        password = parts.password or ""
    except ValueError:
        return
    yield from (password, unquote(password))
    yield from (value for _, value in parse_qsl(parts.query))
    yield from (pair.partition("=")[2] for pair in parts.query.split("&"))
    yield from (each for each in parts.path.split("/") if KEY_FORM.fullmatch(each))


_HTTP_URL: Final = re.compile(r"https?://", re.IGNORECASE)
_URL_USER: Final = re.compile(r"//[^/?#\s]*@")
_URL_VALUE: Final = re.compile(r"([?&#][^=&#\s]*=)[^&#\s]+")


def display_target(target: str) -> str:
    """Return a target as reports show it: a URL without user, password and query values.

    >>> display_target("https://me:word@example.com/mcp?key=1#x")
    'https://masked-0@example.com/mcp?key=masked-0#x'
    """
    if not _HTTP_URL.match(target):
        return target
    return _URL_VALUE.sub(rf"\1{HIDDEN}", _URL_USER.sub(f"//{HIDDEN}@", target, count=1))
