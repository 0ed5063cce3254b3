"""Credentials: the author's values in the places that the security schemes of a document name.

They are not arguments of tools, and go to the servers of the document or `base_url` alone.
"""

import inspect
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias
from urllib.parse import quote

import msgspec

from accord.compose.openapi.document import ApiOperation, text_at
from accord.errors import RegistrationError
from accord.secrets.filter import filter_of
from accord.server.context import Context
from accord.types import JsonObject

Credential: TypeAlias = str | tuple[str, str]
ApiAuth: TypeAlias = Credential | Mapping[str, Credential] | None
"""A bearer token, a pair of user and password, or a value for each security scheme."""
AuthOption: TypeAlias = ApiAuth | Callable[..., ApiAuth | Awaitable[ApiAuth]]
"""As `ApiAuth`, or a function that returns it for each call, with or without the context."""

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_SHORTEST_SECRET: Final = 4


class Credentials(msgspec.Struct, frozen=True):
    """What goes with a request.

    `repr` shows none of it.

    Attributes:
        secrets: texts that no message may have in it.
    """

    headers: dict[str, str] = {}
    query: list[str] = []
    cookies: list[str] = []
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "Credentials(...)"

    def mask(self, text: str) -> str:
        """Return a text without the secrets."""
        return filter_of(self.secrets).hide(text, may_be_cut=False)


NO_CREDENTIALS: Final = Credentials()


class Security:
    """Finds the credentials of an operation.

    Args:
        schemes: the security schemes of the document.
        auth: what the author gave.

    Raises:
        RegistrationError: the two do not fit together.
    """

    def __init__(self, schemes: dict[str, JsonObject], auth: AuthOption) -> None:
        self._schemes = schemes
        self._auth: ApiAuth = None
        self._function: Callable[..., Any] | None = None
        self._takes_context = False
        self._known: dict[int, tuple[ApiOperation, Credentials]] = {}
        if callable(auth):
            self._function = auth
            self._takes_context = _takes_argument(auth)
        else:
            self._auth = auth
            self._check(auth)

    @property
    def hidden_parameters(self) -> set[tuple[str, str]]:
        """The parameters that are keys, which some documents list a second time."""
        return {
            (place, name.lower() if place == "header" else name)
            for scheme in self._schemes.values()
            if text_at(scheme, "type") == "apiKey"
            for place, name in [(text_at(scheme, "in"), text_at(scheme, "name"))]
        }

    def _check(self, auth: ApiAuth) -> None:
        if auth is None:
            return
        if isinstance(auth, Mapping):
            for name, value in auth.items():
                if name not in self._schemes:
                    known = ", ".join(map(repr, self._schemes)) or "no schemes"
                    raise RegistrationError(
                        f"auth has a value for {name!r}, and the document has {known}"
                    )
                self._apply(name, value, _Parts())
            return
        parts = _Parts()
        if not _is_pair(auth) and not isinstance(auth, str):
            raise RegistrationError(
                "auth is a token, a pair of user and password, a dictionary with a value for each "
                "security scheme, or a function that returns one of these"
            )
        parts.authorize(auth)
        kinds = {text_at(scheme, "type") for scheme in self._schemes.values()}
        if isinstance(auth, str) and kinds == {"apiKey"}:
            names = ", ".join(map(repr, self._schemes))
            raise RegistrationError(
                f"auth is a bearer token, and the document asks for the API key {names}; write "
                f"auth={{{next(iter(self._schemes))!r}: ...}}"
            )

    async def find(self, operation: ApiOperation, context: Context[Any]) -> Credentials:
        """Return the credentials for one call."""
        if self._function is None:
            return self.find_fixed(operation)
        auth = self._function(context) if self._takes_context else self._function()
        if inspect.isawaitable(auth):
            auth = await auth
        return self._build(operation, auth)

    def find_fixed(self, operation: ApiOperation) -> Credentials:
        """Return the credentials that are the same for every call."""
        if self._auth is None:
            return NO_CREDENTIALS
        known = self._known.get(id(operation))
        if known is None:
            known = (operation, self._build(operation, self._auth))
            self._known[id(operation)] = known
        return known[1]

    def _build(self, operation: ApiOperation, auth: ApiAuth) -> Credentials:
        if not auth or operation.security == []:
            return NO_CREDENTIALS
        parts = _Parts()
        if not isinstance(auth, Mapping):
            parts.authorize(auth)
        else:
            for name in self._choose(operation, auth):
                self._apply(name, auth[name], parts)
        secrets = sorted(
            {each for each in parts.secrets if len(each) >= _SHORTEST_SECRET}, key=len, reverse=True
        )
        return Credentials(parts.headers, parts.query, parts.cookies, tuple(secrets))

    def _choose(self, operation: ApiOperation, auth: Mapping[str, Credential]) -> Sequence[str]:
        """Return the schemes to use: the first alternative that there are values for."""
        if operation.security is None:
            return list(auth)
        for alternative in operation.security:
            if alternative and all(name in auth for name in alternative):
                return list(alternative)
        named = dict.fromkeys(name for each in operation.security for name in each)
        return [name for name in named if name in auth]

    def _apply(self, name: str, value: Credential, parts: "_Parts") -> None:
        scheme = self._schemes.get(name, {})
        kind = text_at(scheme, "type")
        if kind != "apiKey":
            is_basic = kind == "http" and text_at(scheme, "scheme").lower() == "basic"
            if is_basic and isinstance(value, str):
                user, _, password = value.partition(":")
                value = (user, password)
            parts.authorize(value)
            return
        if not isinstance(value, str):
            raise RegistrationError(f"auth: the value of {name!r} is an API key, expected text")
        place, key = text_at(scheme, "in"), text_at(scheme, "name")
        parts.note(value)
        if place == "query":
            parts.query.append(f"{quote(key, safe='-._~')}={quote(value, safe='-._~')}")
            parts.secrets.append(quote(value, safe="-._~"))
        elif place == "cookie":
            parts.cookies.append(
                f"{quote(key, safe='-._~')}={quote(value, safe='!#$&()*+-./:@^_`|~=')}"
            )
        else:
            parts.headers[key] = value


class _Parts:
    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.query: list[str] = []
        self.cookies: list[str] = []
        self.secrets: list[str] = []

    def note(self, value: str) -> None:
        if _CONTROL.search(value):
            raise RegistrationError("auth: a value has a line break or control character in it")
        self.secrets.append(value)

    def authorize(self, value: Credential) -> None:
        if isinstance(value, str):
            self.note(value)
            self.headers["Authorization"] = f"Bearer {value}"
            return
        user, password = value
        self.note(user)
        self.note(password)
        pair = b64encode(f"{user}:{password}".encode()).decode()
        self.secrets.remove(user)
        self.secrets.append(pair)
        self.headers["Authorization"] = f"Basic {pair}"


def _is_pair(value: object) -> bool:
    return (
        isinstance(value, tuple | list)
        and len(value) == 2
        and all(isinstance(each, str) for each in value)
    )


def _takes_argument(function: Callable[..., object]) -> bool:
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:
        return True
    return True
