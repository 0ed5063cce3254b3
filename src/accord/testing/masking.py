"""Masks for secrets in recordings: equal secrets get equal masks, so that rules still see equality.

A secret is recognised by the name of its member, by its form, or by the text before it. Values with
a meaning in the protocol keep their shape: schemas, capabilities, progress tokens.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from accord.http.rules.headers import LAST_EVENT, SESSION, is_session_id
from accord.protocol.mirroring import decode_header
from accord.protocol.party import Bounded
from accord.trace import MASK, SHOWN_HEADERS, HttpFacts, Record
from accord.types import JsonObject

# -- names

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SECRET_NAME: Final = re.compile(
    r"pass(?:word|wd|phrase|code)|secret(?!ar)|credential|cookie|session_?id|token$"
    r"|api_?keys?|(?:private|access|account|encryption|master|shared|signing|ssh)_?keys?$"
    r"|connection_?str(?:ing)?|conn_?str|authorization(?:_header|_code)?$"
    r"|(?:^|_)(?:bearer|dsn|jwt|otp|pwd|totp)(?:_|$)|(?:^|_)auth(?:_(?:header|data|key))?$"
)
_TOKENS: Final = re.compile(r"tokens$")
# Names of the protocol, and counts that models report.
_HARMLESS_NAME: Final = re.compile(
    r"progress_?token"
    r"|(?:\w+_)?(?:max|min|total|input|output|prompt|completion|cached|reasoning|used|num)_?tokens"
)
# Names that mean a secret only with the digits of one: a pin may be on a board or on a map.
_CODE_NAME: Final = re.compile(r"(?:^|_)(?:pin|cvv2?|cvc2?|csc)$")
_CODE: Final = re.compile(r"\d{3,12}")
_CARD_NAME: Final = re.compile(r"(?:^|_)(?:card|cc)_?(?:number|no|num)?$")
# Names that mean a secret only in the query of a URL.
_QUERY_NAMES: Final = frozenset({"key", "sig", "signature", "x_amz_signature"})
# Members whose own members have free names, which say nothing about their values.
_FREE_NAMES: Final = frozenset(
    {"capabilities", "experimental", "extensions", "inputRequests", "inputResponses"}
)
_SCHEMAS: Final = frozenset({"inputSchema", "outputSchema", "requestedSchema"})
_PROPERTIES: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_SCHEMA_VALUES: Final = frozenset({"default", "const", "examples"})

# -- forms

_FORMS: Final = re.compile(
    r"(?<![\w-])(?:"
    r"sk-[\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{16,}|glpat-[\w-]{10,}"
    r"|xox[abprs]-[\w-]{10,}|xapp-[\w-]{10,}|(?:AKIA|ASIA)[0-9A-Z]{16}|AIza[\w-]{20,}"
    r"|[srp]k_(?:live|test)_\w{8,}|hf_[A-Za-z0-9]{16,}|npm_[A-Za-z0-9]{16,}|pypi-[\w-]{32,}"
    r"|ya29\.[\w-]{16,}|SG\.[\w-]{16,}\.[\w-]{16,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*"
    r")"
    # A key that was cut off has no end.
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"
)
_SCHEME: Final = r"(?:basic|bearer|digest|dpop|negotiate|token)"
# In each, the last group is the secret.
_HEADER: Final = re.compile(
    r"(?i)(?<![\w-])((?:proxy-)?authorization[\"']?[ \t]*[:=][ \t]*[\"']?"
    # Without a scheme and without a digit it is prose, as in "Authorization: see below".
    rf"(?:{_SCHEME}[ \t]+|(?=[^\s\"']*\d)))([^\s\"',;]+)"
)
_HEADER_LINE: Final = re.compile(
    r"(?im)^([ \t]*(?:set-cookie|cookie|x-api-key|x-auth-token):[ \t]*)(\S[^\r\n]*)$"
)
# Without a digit it is prose, as in "bearer authentication".
_BEARER: Final = re.compile(r"(?i)(?<![\w-])(bearer[ \t]+)((?=[^\s\"']*\d)[\w.~+/-]{12,}=*)")
_USER_INFO: Final = re.compile(
    r"(?i)(?<![\w+.-])([a-z][a-z0-9+.-]{0,30}://[^/\s:@\"'<>]{0,256}:)([^/\s@\"'<>]{1,256})(?=@)"
)
_LONG_USER: Final = re.compile(
    r"(?i)(?<![\w+.-])([a-z][a-z0-9+.-]{0,30}://)([^/\s:@\"'<>]{20,256})(?=@)"
)
_PAIR: Final = re.compile(
    r"([?&]?)(?<![\w.-])([\w.-]{1,60}+)=(?:\"([^\"\n]{1,4096})\"|'([^'\n]{1,4096})'|([^\s&;,\"'<>()]+))"
)
_MEMBER: Final = re.compile(
    r"([\"'])([\w.-]{1,60})\1(\s{0,8}:\s{0,8})([\"'])((?:(?!\4)[^\\\n]|\\.){1,4096})\4"
)
# As people write it: "my password is hunter2". It has letters with digits or signs, or digits only,
# or is quoted; "the password is case-sensitive" and "the token is base64-encoded" are prose.
_IS: Final = r"[ \t]+(?:is|was)[ \t]*:?[ \t]+"
_PROSE: Final = (
    r"(?:utf-?\d+|base-?\d+|sha-?\d+|md5|oauth\d?|\d+-?(?:digits?|char\w*|bits?|bytes?))(?![\w@#$])"
)
_SENTENCE: Final = re.compile(
    rf"(?i)(?<![\w-])((?:pass(?:word|wd|phrase|code)|pwd|secret|token|(?:api|access) key){_IS})"
    rf"(?!{_PROSE}|[a-z]+://)"
    r"((?=[^\s\"'`]*[a-z])(?=[^\s\"'`]*[\d!@#$%^&*+=~])[^\s\"'`]{3,200}[^\s\"'`.,;:!?)]"
    r"|\d{5,}(?![\w-]|[.,]\d))"
)
_QUOTED_PASSWORD: Final = re.compile(
    rf"(?i)(?<![\w-])((?:pass(?:word|wd|phrase|code)|pwd){_IS}[\"'`])([^\s\"'`]{{4,200}})(?=[\"'`])"
)
_WRITTEN_CODE: Final = re.compile(
    r"(?i)(?<![\w-])((?:pin|cvv2?|cvc2?)(?:[ \t]+(?:is|was)[ \t]*:?|[ \t]*[:=])[ \t]*)"
    r"(\d{3,12})(?![\w-]|[ \t]+\w|[.,]\d)"
)
# Numbers of cards: digits in one piece, or in the groups that are printed on them.
_CARD: Final = re.compile(
    r"(?<![\w.,-])(?:\d{13,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{4}(?:\1\d{1,3})?"
    r"|\d{4}([ -])\d{6}\2\d{4,5})(?![\w-]|[.,]\d)"
)
# By their first digits, and how many there are.
_CARD_KINDS: Final = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2[2-7]\d{14}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}"
    r"|35\d{14}|6(?:011|5\d\d|4[4-9]\d)\d{12,15}"
)
_DOUBLED: Final = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
# A part of a path or of a query that is a key: long, and letters and digits mixed.
_KEY: Final = re.compile(r"(?=[^/]*\d)(?=[^/]*[A-Za-z])[\w.~-]{24,}")
# Placeholders instead of a secret.
_PLACEHOLDER: Final = re.compile(r"(?i)none|null|undefined|true|false|[$%{*<].*|x{3,}|\.{3}")
_FIGURE: Final = re.compile(r"[\d.,_]+")

# The most secrets that are remembered; one that was forgotten gets a new mask.
_KNOWN_MOST: Final = 10_000
# Shorter texts occur in many ordinary words.
_SHORTEST: Final = 4
_SCHEMES: Final = re.compile(rf"({_SCHEME}) +", re.IGNORECASE)
# What stands before a secret; in each, the last group is the secret.
_AFTER: Final = (
    *(_HEADER, _HEADER_LINE, _BEARER, _USER_INFO, _LONG_USER),
    *(_SENTENCE, _QUOTED_PASSWORD, _WRITTEN_CODE),
)


@lru_cache(4096)
def _plain_name(name: str) -> str:
    return re.sub(r"[-. ]", "_", _HUMP.sub("_", name)).lower()


@lru_cache(4096)
def is_secret_name(name: str) -> bool:
    """Return whether a member has the name of a secret.

    >>> is_secret_name("apiKey"), is_secret_name("db-password"), is_secret_name("max_tokens")
    (True, True, False)
    """
    plain = _plain_name(name)
    if _HARMLESS_NAME.fullmatch(plain):
        return False
    return _SECRET_NAME.search(plain) is not None or _TOKENS.search(plain) is not None


def _is_code(name: str, value: object) -> bool:
    """Return whether a member is a code of a few digits, or the number of a card."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return False
    plain, text = _plain_name(name), str(value)
    if _CODE_NAME.search(plain) is not None:
        return _CODE.fullmatch(text) is not None
    return _CARD_NAME.search(plain) is not None and is_card_number(text)


def is_card_number(text: str) -> bool:
    """Return whether digits are those of a card: its kind, its length, and the last digit fit.

    >>> is_card_number("4111 1111 1111 1111"), is_card_number("4111 1111 1111 1112")
    (True, False)
    """
    digits = text.replace(" ", "").replace("-", "")
    if _CARD_KINDS.fullmatch(digits) is None:
        return False
    # ISO/IEC 7812-1, annex B: each second digit is doubled, from the right.
    plain, doubled = digits[-1::-2], digits[-2::-2]
    return (sum(map(int, plain)) + sum(_DOUBLED[int(each)] for each in doubled)) % 10 == 0


@lru_cache(4096)
def _counts(name: str) -> bool:
    """Return whether a number of this name is a count: `tokens` may be secrets or a count."""
    plain = _plain_name(name)
    return _TOKENS.search(plain) is not None and _SECRET_NAME.search(plain) is None


def has_secret_form(text: str) -> bool:
    """Return whether a text has a part with the form of a secret, such as a token.

    >>> has_secret_form("ghp_" + "0aZ" * 12), has_secret_form("https://example.com/mcp")
    (True, False)
    """
    if _FORMS.search(text):
        return True
    found = (pattern.search(text) for pattern in (_HEADER, _BEARER, _USER_INFO, _LONG_USER))
    return any(each is not None and not is_stand_in(each[2]) for each in found)


def is_stand_in(text: str) -> bool:
    """Return whether a text stands for a value: a placeholder, `null`, `xxx`, `<key>`."""
    return not text or _PLACEHOLDER.fullmatch(text) is not None


def find_secret_forms(text: str) -> Iterator[tuple[int, int]]:
    """Yield where a text has tokens and keys that are known by their form, and passwords of URLs.

    >>> list(find_secret_forms("the key AKIAABCDEFGHIJKLMNOP is ours"))
    [(8, 28)]
    """
    if _may_hide(text.encode(errors="replace")):
        yield from (found.span() for found in _FORMS.finditer(text))
        for found in _USER_INFO.finditer(text):
            if not _PLACEHOLDER.fullmatch(found[2]):
                yield found.span(2)


class Masks:
    """The masks of the secrets in one recording.

    Args:
        keeps_masks: whether masks of an earlier recording stay as they are.
    """

    def __init__(self, *, keeps_masks: bool = False) -> None:
        self._keeps_masks = keeps_masks
        self._known: Bounded[str, str] = Bounded(_KNOWN_MOST)
        self._count = 0

    def _mask(self, text: str) -> str:
        if self._keeps_masks and MASK.fullmatch(text):
            return text
        found = self._known.get(text)
        if found is None:
            self._count += 1
            found = self._known[text] = f"masked-{self._count}"
        return found

    def learn(self, secret: str) -> str:
        """Remember a secret that is known from elsewhere; return its mask."""
        return self._mask(secret)

    def apply(self, record: Record) -> Record:
        """Return a record without secrets; the record itself if it has no secrets."""
        message, raw, http = record.message, record.raw, record.http
        if message is not None and _may_hide(bytes(message)):
            value = msgspec.json.decode(message)
            clean = self._value(value)
            if clean != value:
                message = msgspec.Raw(msgspec.json.encode(clean))
        if raw is not None:
            raw = self._text(raw)
        if http is not None:
            http = self._http(http)
        if (message, raw, http) == (record.message, record.raw, record.http):
            return record
        return replace(record, message=message, raw=raw, http=http)

    def _http(self, http: HttpFacts) -> HttpFacts:
        data = http.data
        if data is not None:
            data = self._place(data) if http.event == "endpoint" else self._text(data)
        return replace(
            http,
            headers={name: self._header(name, text) for name, text in http.headers.items()},
            path=None if http.path is None else self._path(http.path),
            query=None if http.query is None else self._query(http.query),
            id=None if http.id is None else self._known_text(http.id),
            data=data,
        )

    def _place(self, url: str) -> str:
        """Mask the address in an endpoint event in the same way as that of a request."""
        origin, slash, rest = url.partition("://")
        host, path = "", url
        if slash:
            host, _, path = rest.partition("/")
            host = f"{origin}://{host.rpartition('@')[2]}/"
        place, mark, query = path.partition("?")
        return f"{host}{self._path(place)}{mark}{self._query(query)}"

    def _path(self, path: str) -> str:
        """Mask the parts of a path that look like keys; some servers have the key in their URL."""
        parts = path.split("/")
        return "/".join(
            self._mask(each) if _KEY.fullmatch(each) else self._text(each) for each in parts
        )

    def _query(self, query: str) -> str:
        """Mask the values of a query that are secrets by their name, their form, or elsewhere."""
        return "&".join(self._query_pair(each) for each in query.split("&"))

    def _query_pair(self, pair: str) -> str:
        name, equals, value = pair.partition("=")
        plain = unquote(value)
        is_secret = is_secret_name(name) or _plain_name(name) in _QUERY_NAMES
        if not value or _is_masked(plain):
            return pair
        if is_secret or plain in self._known or _KEY.fullmatch(plain):
            return f"{name}{equals}{self._mask(plain)}"
        clean = self._text(plain)
        return pair if clean == plain else f"{name}{equals}{clean}"

    def _known_text(self, text: str) -> str:
        return self._known.get(text, text)

    def _header(self, name: str, text: str) -> str:
        if name in SHOWN_HEADERS:
            return self._known_text(text) if name == LAST_EVENT else text
        if name == "mcp-name" or name.startswith("mcp-param-"):
            return self._mask_repetition(text)
        if name == "www-authenticate":
            return self._text(text)
        if name == SESSION and text and not is_session_id(text):
            # So that the rule on session ids still sees what is wrong with it.
            return f"{self._mask(text)} (not visible ASCII)"
        scheme = _SCHEMES.match(text)
        if scheme is not None:
            return scheme[0] + self._mask(text[scheme.end() :])
        return self._mask(text)

    def _mask_repetition(self, text: str) -> str:
        """Mask a header that repeats a part of the body as the body was masked."""
        value = decode_header(text)
        if value is None:
            return self._mask(text)
        clean = self._known.get(value) or self._text(value)
        return text if clean == value else clean

    # -- values

    def _value(self, value: object) -> object:
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):
            return [self._value(each) for each in value]
        return self._text(value) if isinstance(value, str) else value

    def _object(self, value: JsonObject) -> JsonObject:
        named = value.get("name", value.get("key"))
        is_pair = isinstance(named, str) and is_secret_name(named)
        clean: JsonObject = {}
        for name, each in value.items():
            if name in _SCHEMAS:
                clean[name] = self._schema(each)
            elif name in _FREE_NAMES and isinstance(each, dict):
                clean[name] = self._free(each)
            elif name in ("data", "blob") and "mimeType" in value:
                clean[name] = each  # base64, a part of which may look like a key
            elif is_secret_name(name):
                clean[name] = self._secret(each, has_figures=_counts(name))
            elif _is_code(name, each):
                clean[name] = self._mask(str(each))
            elif is_pair and name == "value":
                clean[name] = self._secret(each, has_figures=False)
            else:
                clean[name] = self._value(each)
        return clean

    def _free(self, value: JsonObject) -> JsonObject:
        """Mask members with free names, which say nothing about their values."""
        return {
            name: self._free(each)
            if name in _FREE_NAMES and isinstance(each, dict)
            else self._value(each)
            for name, each in value.items()
        }

    def _secret(self, value: object, *, has_figures: bool) -> object:
        """Mask all texts and numbers of a secret; its shape stays, so that rules can judge it."""
        if isinstance(value, dict):
            return {
                name: self._secret(each, has_figures=has_figures) for name, each in value.items()
            }
        if isinstance(value, list):
            return [self._secret(each, has_figures=has_figures) for each in value]
        if value is None or isinstance(value, bool) or value == "":
            return value
        if isinstance(value, str):
            return self._mask(value)
        return value if has_figures else self._mask(str(value))

    def _schema(self, value: object, *, is_secret: bool = False) -> object:
        """Return a schema; only defaults, constants and examples of secrets are masked."""
        if isinstance(value, list):
            return [self._schema(each, is_secret=is_secret) for each in value]
        if not isinstance(value, dict):
            return self._text(value) if isinstance(value, str) else value
        clean: JsonObject = {}
        for name, each in value.items():
            if name in _PROPERTIES and isinstance(each, dict):
                clean[name] = {
                    inner: self._schema(below, is_secret=is_secret_name(inner))
                    for inner, below in each.items()
                }
            elif is_secret and name in _SCHEMA_VALUES:
                # Numbers stay: a default of another type would break the schema.
                clean[name] = self._secret(each, has_figures=True)
            else:
                clean[name] = self._schema(each, is_secret=is_secret)
        return clean

    # -- texts

    def _text(self, text: str) -> str:
        if not _may_hide(text.encode(errors="replace")):
            return text
        if text.lstrip()[:1] in ("{", "["):
            # Structured results are repeated in their text.
            try:
                value = msgspec.json.decode(text)
            except (ValueError, RecursionError):
                pass
            else:
                clean = self._value(value)
                return text if clean == value else msgspec.json.encode(clean).decode()
        return self._forms(text)

    def _forms(self, text: str) -> str:
        text = _FORMS.sub(lambda found: self._mask(found[0]), text)
        for pattern in _AFTER:
            text = pattern.sub(self._last_group, text)
        text = _CARD.sub(lambda found: self._card(found[0]), text)
        text = _MEMBER.sub(self._member, text)
        return _PAIR.sub(self._pair, text)

    def _card(self, text: str) -> str:
        return self._mask(text) if is_card_number(text) else text

    def _last_group(self, found: re.Match[str]) -> str:
        if _is_masked(found[2]) or _PLACEHOLDER.fullmatch(found[2]):
            return found[0]
        return found[1] + self._mask(found[2])

    def _member(self, found: re.Match[str]) -> str:
        quote, name, colon, other, value = found.groups()
        if not self._is_given(name, value):
            return found[0]
        return f"{quote}{name}{quote}{colon}{other}{self._mask(value)}{other}"

    def _pair(self, found: re.Match[str]) -> str:
        before, name, *values = found.groups()
        value = next(each for each in values if each is not None)
        is_query = bool(before) and _plain_name(name) in _QUERY_NAMES
        if not self._is_given(name, value, is_secret=is_query):
            return found[0]
        start = found.start(2) - found.start() + len(name) + 1
        return found[0][:start] + found[0][start:].replace(value, self._mask(value), 1)

    def _is_given(self, name: str, value: str, *, is_secret: bool = False) -> bool:
        """Return whether a name is that of a secret and the value is not a placeholder."""
        if not is_secret and not is_secret_name(name):
            return _is_code(name, value)
        is_figure = _counts(name) and _FIGURE.fullmatch(value) is not None
        return not is_figure and not _is_masked(value) and not _PLACEHOLDER.fullmatch(value)

    def mask_text(self, text: str) -> str:
        """Return a text about messages, such as an excerpt, without the secrets seen so far."""
        for secret, mask in self._known.items():
            if len(secret) < _SHORTEST:
                continue
            if secret.isdigit():
                # Not within a date, a version or a longer number.
                text = re.sub(rf"(?<![\w.-]){secret}(?![\w.-])", mask, text)
                continue
            for form in (secret, msgspec.json.encode(secret)[1:-1].decode()):
                text = text.replace(form, mask)
        return self._forms(text)


def _is_masked(text: str) -> bool:
    return text.startswith("masked-")


_SIGNS: Final = tuple(
    sign.encode()
    for sign in (
        *("pass", "secret", "token", "key", "credential", "auth", "cookie", "session", "conn"),
        *("bearer", "dsn", "jwt", "otp", "pwd", "sig=", "signature", "sk-", "k_live_", "k_test_"),
        *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "xapp-"),
        *("akia", "asia", "aiza", "hf_", "npm_", "pypi-", "ya29.", "sg.", "eyj"),
        # A name may contain JSON escapes.
        *("private", "@", "\\u00"),
        *("cvv", "cvc", "csc", 'pin"', "pin ", "pin:", "pin="),
    )
)
_PROGRESS: Final = b'"progresstoken"'
# How the number of a card looks when each digit is a zero.
_ZEROS: Final = bytes.maketrans(b"123456789", b"0" * 9)
_ESCAPED: Final = re.compile(r"\\.")
_CARD_SIGNS: Final = (
    b"0" * 13,
    *(b"0000%b%b%b0" % (gap, group, gap) for gap in (b" ", b"-") for group in (b"0000", b"000000")),
)


def _may_hide(data: bytes) -> bool:
    """Return whether data may hold a secret: a quick test, since most messages do not."""
    lowered = data.lower()
    if _PROGRESS in lowered:
        # A harmless name that looks like one of a secret, and occurs in many messages.
        lowered = lowered.replace(_PROGRESS, b"")
    for sign in _SIGNS:  # a generator takes twice as long
        if sign in lowered:
            return True
    figures = data.translate(_ZEROS)
    if not any(sign in figures for sign in _CARD_SIGNS):
        return False
    # Most long numbers are times and ids. A number begins after an escape such as \n.
    text = _ESCAPED.sub(" ", data.decode("utf-8", "replace"))
    return any(is_card_number(found[0]) for found in _CARD.finditer(text))
