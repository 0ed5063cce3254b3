"""Masks for secrets in messages: equal secrets get equal masks, so that rules still see equality.

Values with a meaning in the protocol keep their shape: schemas, capabilities, progress tokens.
"""

import json
import re
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from accord.http.rules.headers import LAST_EVENT, SESSION, is_session_id
from accord.protocol.mirroring import decode_header
from accord.protocol.party import Bounded
from accord.secrets.filter import HIDDEN, SecretFilter
from accord.secrets.recognition import (
    KEY_FORM,
    QUERY_NAMES,
    SCHEMES,
    counts_tokens,
    is_code,
    is_secret_name,
    mask_forms,
    may_hide,
    plain_name,
)
from accord.trace import MASK, SHOWN_HEADERS, HttpFacts, Record
from accord.types import JsonObject

# Members whose own members have free names, which say nothing about their values.
_FREE_NAMES: Final = frozenset(
    {"capabilities", "experimental", "extensions", "inputRequests", "inputResponses"}
)
_SCHEMAS: Final = frozenset({"inputSchema", "outputSchema", "requestedSchema"})
_PROPERTIES: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_SCHEMA_VALUES: Final = frozenset({"default", "const", "examples"})
# The most secrets that are remembered; one that was forgotten gets a new mask.
_KNOWN_MOST: Final = 10_000
# Shorter texts occur in many ordinary words.
_SHORTEST: Final = 4
TOO_DEEP: Final = "(nested too deeply to be searched for secrets)"
"""What stands in place of such a message."""


class Secrets:
    """The secrets of one conversation or session, and their masks.

    Args:
        given: credentials of the user; they are found in every encoding, and in parts.
        keeps_masks: whether masks of an earlier recording stay as they are.
    """

    def __init__(self, given: Iterable[str] = (), *, keeps_masks: bool = False) -> None:
        self._keeps_masks = keeps_masks
        self._known: Bounded[str, str] = Bounded(_KNOWN_MOST)
        self._count = 0
        self._lock = Lock()
        self._given_masks: dict[str, str] = {}
        self._given = SecretFilter(())
        self.learn(*given)

    def _mask(self, text: str) -> str:
        if self._keeps_masks and MASK.fullmatch(text):
            return text
        found = self._known.get(text)
        if found is None:
            with self._lock:  # a history is written in a thread of its own
                self._count += 1
                found = self._known[text] = f"masked-{self._count}"
        return found

    def learn(self, *secrets: str | None) -> str:
        """Hide further credentials of the user from now on; return the mask of the last one."""
        new = {each: self._mask(each) for each in secrets if each and len(each) >= _SHORTEST}
        if new.keys() - self._given_masks.keys():
            self._given_masks |= new
            self._given = SecretFilter(self._given_masks)
        return [HIDDEN, *new.values()][-1]

    def apply(self, record: Record) -> Record:
        """Return a record without secrets; the record itself if it has no secrets.

        A message that is nested too deeply to be searched becomes a text that says so.
        """
        message, raw, http = record.message, record.raw, record.http
        if message is not None:
            data = bytes(message)
            try:
                shown = self._json(data)
            except RecursionError:
                message, raw = None, TOO_DEEP
            else:
                message = message if shown is data else msgspec.Raw(shown)
        elif raw is not None:
            raw = self.hide_given(self._text(raw))
        if http is not None:
            http = self._http(http)
        if (message, raw, http) == (record.message, record.raw, record.http):
            return record
        return replace(record, message=message, raw=raw, http=http)

    def _json(self, data: bytes) -> bytes:
        """Return JSON without secrets; the same object if it has no secrets."""
        if may_hide(data):
            value, encode = _decode(data)
            clean = self._value(value)
            if clean != value:
                data = encode(clean)
        if self._given.may_be_in(data.decode(errors="replace")):
            value, encode = _decode(data)
            data = encode(self._given.hide_in(value))
        return data

    def hide_json(self, data: bytes) -> bytes:
        """Return JSON without secrets, or `null` if it is nested too deeply to be searched."""
        try:
            return self._json(data)
        except RecursionError:
            return b"null"

    def hide(self, text: str) -> str:
        """Return a text without secrets; in one that is JSON, names of members tell them."""
        data = text.encode(errors="surrogatepass")
        try:
            return self._json(data).decode(errors="surrogatepass")
        except (RecursionError, ValueError):
            return str(self.hide_given(mask_forms(text, self._mask)))

    def _http(self, http: HttpFacts) -> HttpFacts:
        data = http.data
        if data is not None:
            data = self._place(data) if http.event == "endpoint" else self._text(data)
        hide = self.hide_given
        return replace(
            http,
            headers={name: hide(self.header(name, each)) for name, each in http.headers.items()},
            path=None if http.path is None else hide(self._path(http.path)),
            query=None if http.query is None else hide(self._query(http.query)),
            id=None if http.id is None else hide(self._known_text(http.id)),
            data=None if data is None else hide(data),
        )

    def hide_given(self, value: Any) -> Any:
        """Return a value without the credentials that the user gave; nothing else is masked."""
        return self._given.hide_in(value)

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
            self._mask(each) if KEY_FORM.fullmatch(each) else self._text(each) for each in parts
        )

    def _query(self, query: str) -> str:
        """Mask the values of a query that are secrets by their name, their form, or elsewhere."""
        return "&".join(self._query_pair(each) for each in query.split("&"))

    def _query_pair(self, pair: str) -> str:
        name, equals, value = pair.partition("=")
        plain = unquote(value)
        is_secret = is_secret_name(name) or plain_name(name) in QUERY_NAMES
        if not value or MASK.match(plain):
            return pair
        if is_secret or plain in self._known or KEY_FORM.fullmatch(plain):
            return f"{name}{equals}{self._mask(plain)}"
        clean = self._text(plain)
        return pair if clean == plain else f"{name}{equals}{clean}"

    def _known_text(self, text: str) -> str:
        return self._known.get(text, text)

    def header(self, name: str, text: str) -> str:
        """Return the value of a header without the secrets in it."""
        if name in SHOWN_HEADERS:
            return self._known_text(text) if name == LAST_EVENT else text
        if name == "mcp-name" or name.startswith("mcp-param-"):
            return self._mask_repetition(text)
        if name == "www-authenticate":
            return self._text(text)
        if name == SESSION and text and not is_session_id(text):
            # So that the rule on session ids still sees what is wrong with it.
            return f"{self._mask(text)} (not visible ASCII)"
        scheme = SCHEMES.match(text)
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
                clean[name] = self._secret(each, has_figures=counts_tokens(name))
            elif is_code(name, each):
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
        if not may_hide(text.encode(errors="replace")):
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
        return mask_forms(text, self._mask)

    def mask_text(self, text: str) -> str:
        """Return a text about messages, such as an excerpt, without the secrets seen so far."""
        text = self._given.hide(text)
        for secret, mask in self._known.items():
            if len(secret) < _SHORTEST:
                continue
            if secret.isdigit():
                # Not within a date, a version or a longer number.
                text = re.sub(rf"(?<![\w.-]){secret}(?![\w.-])", mask, text)
                continue
            for form in (secret, msgspec.json.encode(secret)[1:-1].decode()):
                text = text.replace(form, mask)
        return mask_forms(text, self._mask)


def _decode(data: bytes) -> tuple[Any, Callable[[Any], bytes]]:
    """Return the value of JSON, and what encodes it again."""
    try:
        return msgspec.json.decode(data), msgspec.json.encode
    except ValueError:  # half of a surrogate pair
        return json.loads(data), lambda value: json.dumps(value).encode()
