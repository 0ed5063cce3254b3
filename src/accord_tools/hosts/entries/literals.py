"""Secrets that stand in an entry as they are: found by name or form, and replaced by placeholders.

The value itself is in no message.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from accord.client.configuration import URL_MEMBERS
from accord.secrets.filter import find_in_words
from accord.secrets.recognition import (
    SCHEMES,
    has_literal_form,
    has_secret_form,
    is_literal,
    is_path_like,
    names_secret,
)
from accord_tools.hosts.definition import KeyPath

_ENV_MEMBERS: Final = ("env", "environment", "envs")
_HEADER_MEMBERS: Final = ("headers", "http_headers")
_AUTHORIZATION: Final = ("authorization", "proxy-authorization")
# A safeguard: each round leaves fewer literals.
_ROUNDS: Final = 20
_QUERY_NAMES: Final = ("key", "sig", "signature", "code")


class LiteralSecret(NamedTuple):
    """A value that looks like a secret.

    Attributes:
        keys: where it is in the entry.
        label: the same for people, such as `env.API_KEY`.
        variable: a name for the variable that should contain it.
        value: the secret; never shown.
        instead: the text for the file, with a placeholder.
    """

    keys: KeyPath
    label: str
    variable: str
    value: str
    instead: str

    def __repr__(self) -> str:
        return f"<LiteralSecret {self.label}>"

    def rename(self, variable: str) -> "LiteralSecret":
        """Return the same with another variable."""
        instead = self.instead.replace(f"${{env:{self.variable}}}", f"${{env:{variable}}}")
        return self._replace(variable=variable, instead=instead)


def variable_name(*parts: str) -> str:
    """Return the name of a variable, made of other names.

    >>> variable_name("search", "x-api-key")
    'SEARCH_X_API_KEY'
    """
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", "_".join(parts))
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").upper()
    return f"_{name}" if not name or name[0].isdigit() else name


def find_literals(name: str, entry: Mapping[str, Any]) -> Iterator[LiteralSecret]:
    """Yield the literals of an entry that look like secrets.

    Args:
        name: of the server; names of variables are made from it.
        entry: its members, with placeholders not yet filled in.
    """
    yield from _in_members(name, entry, ())
    command = entry.get("command")
    if isinstance(command, Mapping):  # path, args and env in one object
        yield from _in_members(name, command, ("command",))


def _in_members(name: str, members: Mapping[str, Any], before: KeyPath) -> Iterator[LiteralSecret]:
    for member in _ENV_MEMBERS:
        yield from _in_env(members.get(member), (*before, member))
    for member in _HEADER_MEMBERS:
        yield from _in_headers(name, members.get(member), (*before, member))
    for member in URL_MEMBERS:
        if isinstance(members.get(member), str):
            yield from _in_url(name, members[member], (*before, member))
    for member in ("command", "args"):
        if isinstance(members.get(member), list):
            yield from _in_words(name, members[member], (*before, member))
    auth = members.get("auth")
    if isinstance(auth, str) and auth.lower() != "oauth" and is_literal(auth):
        yield _literal((*before, "auth"), variable_name(name, "token"), auth)
    token = members.get("bearer_token")
    if isinstance(token, str) and is_literal(token):
        yield _literal((*before, "bearer_token"), variable_name(name, "token"), token)


def _literal(
    keys: KeyPath, variable: str, value: str, before: str = "", after: str = ""
) -> LiteralSecret:
    """Return a finding, with the texts before and after the secret."""
    instead = f"{before}${{env:{variable}}}{after}"
    return LiteralSecret(keys, ".".join(map(str, keys)), variable, value, instead)


def _in_env(given: object, keys: KeyPath) -> Iterator[LiteralSecret]:
    for name, value in given.items() if isinstance(given, Mapping) else ():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        text = str(value) if is_number else value
        if not isinstance(text, str):
            continue
        is_named = names_secret(str(name)) and is_literal(text) and not is_path_like(text)
        if (is_named and text.lower() not in ("yes", "no", "on", "off")) or has_literal_form(text):
            yield _literal((*keys, str(name)), variable_name(str(name)), text)


def _in_headers(server: str, given: object, keys: KeyPath) -> Iterator[LiteralSecret]:
    for name, value in given.items() if isinstance(given, Mapping) else ():
        if not isinstance(value, str):
            continue
        is_named = str(name).lower() in _AUTHORIZATION or names_secret(str(name))
        if not (is_named and is_literal(value)) and not has_literal_form(value):
            continue
        scheme = SCHEMES.match(value)
        secret = value[scheme.end() :] if scheme else value
        if not is_literal(secret):
            continue
        last = "token" if str(name).lower() in _AUTHORIZATION else str(name)
        before = scheme[0] if scheme else ""
        yield _literal((*keys, str(name)), variable_name(server, last), secret, before)


def _in_url(server: str, url: str, keys: KeyPath) -> Iterator[LiteralSecret]:
    try:
        parts = urlsplit(url)
        password = parts.password
    except ValueError:
        return  # reported as a wrong URL
    secrets: list[tuple[str, str, str]] = []  # what it is called, the sign before it, the text
    if password and is_literal(unquote(password)):
        secrets.append(("password", ":", password))
    elif not password and parts.username and has_secret_form(f"https://{parts.netloc}"):
        secrets.append(("token", "//", parts.username))
    for pair in (*parts.query.split("&"), *parts.fragment.split("&")):
        name, _, value = pair.partition("=")
        is_named = names_secret(name) or name.lower() in _QUERY_NAMES
        if (is_named and is_literal(unquote(value))) or has_literal_form(unquote(value)):
            secrets.append((name, f"{name}=", value))
    # One at a time: the others are found again once this one is replaced.
    for name, sign, value in secrets[:1]:
        start, _, end = url.partition(sign + value)
        yield _literal(keys, variable_name(server, name), value, start + sign, end)
    if not secrets and has_literal_form(url):
        yield _literal(keys, variable_name(server, "url"), url)


def _in_words(server: str, words: list[Any], keys: KeyPath) -> Iterator[LiteralSecret]:
    for found in find_in_words(words):
        before, _, after = words[found.place].rpartition(found.value)
        names = (found.name,) if found.is_variable else (server, found.name or "secret")
        at = (*keys, found.place)
        yield _literal(at, variable_name(*names), found.value, before, after)


def replace_literal(entry: Mapping[str, Any], literal: LiteralSecret) -> dict[str, Any]:
    """Return an entry with a placeholder in place of a literal."""

    def put(value: Any, keys: KeyPath) -> Any:
        if not keys:
            return literal.instead
        if isinstance(value, list):
            return [put(each, keys[1:]) if at == keys[0] else each for at, each in enumerate(value)]
        return {
            name: put(each, keys[1:]) if name == keys[0] else each for name, each in value.items()
        }

    changed: dict[str, Any] = put(dict(entry), literal.keys)
    return changed


def replace_literals(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry with a placeholder in place of each literal."""
    replaced = dict(entry)
    # A URL shows one after another.
    for _ in range(_ROUNDS):
        found = [*find_literals(name, replaced)]
        for each in found:
            replaced = replace_literal(replaced, each)
        if not found:
            break
    return replaced
