"""Requests and answers of an authorization as texts for the page, without their secrets."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, quote, quote_plus, urlencode, urlsplit

import msgspec

from accord.http.client.guarded import HttpRequest, HttpResponse
from accord.http.rules.responses import quote_url
from accord.testing.masking import Masks, is_secret_name

# Secrets of OAuth whose names do not say so.
_NAMES: Final = frozenset(
    {"assertion", "client_assertion", "code", "code_verifier", "device_code", "user_code"}
)
_HEADERS: Final = frozenset(
    {"authorization", "cookie", "dpop", "mcp-session-id", "proxy-authorization", "set-cookie"}
)
# Shorter texts would be replaced in words that have nothing to do with them.
_SHORTEST: Final = 6
_BODY_SHOWN: Final = 16 * 1024
_KNOWN_MOST: Final = 1_000
_FORM: Final = "application/x-www-form-urlencoded"


class SecretTexts:
    """The secrets of one authorization; replaces them in every text that leaves."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._masks = Masks()

    def add(self, name: str, value: str | None) -> None:
        """Replace a value from now on, in any encoding that requests use."""
        if value and len(value) >= _SHORTEST and len(self._known) < _KNOWN_MOST:
            shown = mask_of(name)
            escaped = msgspec.json.encode(value)[1:-1].decode()
            for form in (value, quote(value, safe=""), quote_plus(value), escaped):
                self._known.setdefault(form, shown)

    def hide(self, text: str) -> str:
        """Return a text without the known secrets, and without texts that look like secrets."""
        # The longest first: one may be a part of another.
        for each in sorted(self._known, key=len, reverse=True):
            text = text.replace(each, self._known[each])
        return self._masks.mask_text(text)

    # -- requests and answers

    def request_text(self, request: HttpRequest, private: frozenset[str] = frozenset()) -> str:
        """Return a request as it is sent; `private` has names of headers whose values are hidden.

        Secrets in it are known from now on.
        """
        head = [f"{request.method} {quote_url(request.url)}"]
        head += self._header_lines(request.headers, private)
        body = self._body_text(request.body or b"", _content_type(request.headers))
        return self.hide("\n".join(head) + (f"\n\n{body}" if body else ""))

    def response_text(self, response: HttpResponse) -> str:
        """Return an answer as it came. Secrets in it are known from now on."""
        head = [f"HTTP {response.status}"]
        if response.url:
            head[0] += f" from {quote_url(response.url)}"
        head += self._header_lines(response.headers, frozenset())
        body = self._body_text(response.body, _content_type(response.headers))
        return self.hide("\n".join(head) + (f"\n\n{body}" if body else ""))

    def redirect_text(self, uri: str, params: Mapping[str, str]) -> str:
        """Return the request of a browser that follows a redirect."""
        shown = {name: self._field(name, value) for name, value in params.items()}
        path = urlsplit(uri).path or "/"
        return self.hide(f"GET {path}?{_encode(shown)}")

    def _header_lines(self, headers: Mapping[str, str], private: frozenset[str]) -> list[str]:
        lines = []
        for name, value in headers.items():
            lowered = name.lower()
            if lowered in private or lowered in _HEADERS or is_secret_name(name):
                scheme, space, secret = value.partition(" ")
                self.add(lowered, secret if space else value)
                is_scheme = space and lowered.endswith("authorization")
                value = f"{scheme} {mask_of(name)}" if is_scheme else mask_of(name)
            lines.append(f"{name}: {value}")
        return lines

    def _body_text(self, body: bytes, kind: str) -> str:
        if kind == _FORM:
            pairs = parse_qsl(body.decode(errors="replace"), keep_blank_values=True)
            shown = [(name, self._field(name, value)) for name, value in pairs]
            return _encode(shown)
        try:
            value = msgspec.json.decode(body)
        except (ValueError, RecursionError):
            return _cut(body.decode(errors="replace"))
        clean = self._json(value)
        # As it came where nothing is hidden: numbers keep their digits.
        text = body if clean == value else msgspec.json.encode(clean)
        return _cut(msgspec.json.format(text, indent=2).decode(errors="replace"))

    def shown_value(self, name: str, value: object) -> str:
        """Return the value of a member as a text; lists of texts separated by commas."""
        if isinstance(value, str):
            return self._field(name, value)
        if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
            return ", ".join(value)
        return msgspec.json.encode(self._json(value)).decode()

    def _json(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: self._field(name, each) if isinstance(each, str) else self._json(each)
                for name, each in value.items()
            }
        return [self._json(each) for each in value] if isinstance(value, list) else value

    def _field(self, name: str, value: str) -> str:
        if not value or not (name in _NAMES or is_secret_name(name)):
            return value
        self.add(name, value)
        return mask_of(name)


def _encode(fields: Mapping[str, str] | Sequence[tuple[str, str]]) -> str:
    # The marks of masked values stay readable; all else is as it is sent.
    return urlencode(fields, safe="<>, ", quote_via=quote)


def mask_of(name: str) -> str:
    """Return what stands in place of a secret."""
    return f"<{name}, masked>"


def _content_type(headers: Mapping[str, str]) -> str:
    found = (value for name, value in headers.items() if name.lower() == "content-type")
    return next(found, "").partition(";")[0].strip().lower()


def _cut(text: str) -> str:
    if len(text) <= _BODY_SHOWN:
        return text
    return f"{text[:_BODY_SHOWN]}\n... {len(text) - _BODY_SHOWN} more characters"
