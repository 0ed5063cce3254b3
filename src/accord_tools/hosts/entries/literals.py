"""Secrets that stand in an entry as they are: found by name or form, and replaced by placeholders.

The value itself is in no message.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from accord.client.configuration import URL_MEMBERS
from accord.secrets.recognition import (
    SCHEMES,
    has_secret_form,
    is_path_like,
    is_stand_in,
    names_secret,
)
from accord_tools.hosts.definition import KeyPath

_PLACEHOLDER: Final = re.compile(r"\$\{[^${}]*\}")
_DEFAULT: Final = re.compile(r"\$\{[^${}]*?:-([^${}]*)\}")
_OPTION: Final = re.compile(r"--?([A-Za-z][\w-]*)(?:=(.*))?", re.DOTALL)
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_ENV_MEMBERS: Final = ("env", "environment", "envs")
_HEADER_MEMBERS: Final = ("headers", "http_headers")
_AUTHORIZATION: Final = ("authorization", "proxy-authorization")
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
    if isinstance(auth, str) and auth.lower() != "oauth" and _is_given(auth):
        yield _literal((*before, "auth"), variable_name(name, "token"), auth)
    token = members.get("bearer_token")
    if isinstance(token, str) and _is_given(token):
        yield _literal((*before, "bearer_token"), variable_name(name, "token"), token)


def _literal(
    keys: KeyPath, variable: str, value: str, before: str = "", after: str = ""
) -> LiteralSecret:
    """Return a finding, with the texts before and after the secret."""
    instead = f"{before}${{env:{variable}}}{after}"
    return LiteralSecret(keys, ".".join(map(str, keys)), variable, value, instead)


def _is_given(text: str) -> bool:
    """Return whether a text is a value of its own: not a placeholder, and not one's default."""
    default = _DEFAULT.search(text)
    if default is not None and not is_stand_in(default[1]):
        return True
    # The value - of an option says that the program reads it elsewhere.
    return not _PLACEHOLDER.search(text) and text != "-" and not is_stand_in(text.strip())


def _has_form(text: str) -> bool:
    return has_secret_form(_PLACEHOLDER.sub("${}", text)) or any(
        has_secret_form(each) for each in _DEFAULT.findall(text)
    )


def _in_env(given: object, keys: KeyPath) -> Iterator[LiteralSecret]:
    for name, value in given.items() if isinstance(given, Mapping) else ():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        text = str(value) if is_number else value
        if not isinstance(text, str):
            continue
        is_named = names_secret(str(name)) and _is_given(text) and not is_path_like(text)
        if (is_named and text.lower() not in ("yes", "no", "on", "off")) or _has_form(text):
            yield _literal((*keys, str(name)), variable_name(str(name)), text)


def _in_headers(server: str, given: object, keys: KeyPath) -> Iterator[LiteralSecret]:
    for name, value in given.items() if isinstance(given, Mapping) else ():
        if not isinstance(value, str):
            continue
        is_named = str(name).lower() in _AUTHORIZATION or names_secret(str(name))
        if not (is_named and _is_given(value)) and not _has_form(value):
            continue
        scheme = SCHEMES.match(value)
        secret = value[scheme.end() :] if scheme else value
        if not _is_given(secret):
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
    if password and _is_given(unquote(password)):
        secrets.append(("password", ":", password))
    elif not password and parts.username and has_secret_form(f"https://{parts.netloc}"):
        secrets.append(("token", "//", parts.username))
    for pair in (*parts.query.split("&"), *parts.fragment.split("&")):
        name, _, value = pair.partition("=")
        is_named = names_secret(name) or name.lower() in _QUERY_NAMES
        if (is_named and _is_given(unquote(value))) or _has_form(unquote(value)):
            secrets.append((name, f"{name}=", value))
    # One at a time: the others are found again once this one is replaced.
    for name, sign, value in secrets[:1]:
        start, _, end = url.partition(sign + value)
        yield _literal(keys, variable_name(server, name), value, start + sign, end)
    if not secrets and _has_form(url):
        yield _literal(keys, variable_name(server, "url"), url)


def _in_words(server: str, words: list[Any], keys: KeyPath) -> Iterator[LiteralSecret]:
    option = ""
    for place, word in enumerate(words):
        if not isinstance(word, str):
            continue
        at = (*keys, place)
        named = _OPTION.fullmatch(word) or _ASSIGNMENT.fullmatch(word)
        name, value = (named[1], named[2]) if named else (option, word)
        is_named = bool(name) and names_secret(name)
        if value and is_named and _is_given(value) and not is_path_like(value):
            is_variable = named is not None and named.re is _ASSIGNMENT
            variable = variable_name(name) if is_variable else variable_name(server, name)
            yield _literal(at, variable, value, word.removesuffix(value))
        elif _has_form(word):
            form = next((part for part in re.split(r"[=\s]", word) if has_secret_form(part)), word)
            before, _, after = word.partition(form)
            yield _literal(at, variable_name(server, option or "secret"), form, before, after)
        # The value of `--token` is the next word.
        option = named[1] if named and named[2] is None else ""


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
