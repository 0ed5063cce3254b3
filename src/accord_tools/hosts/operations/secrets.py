"""Secrets in the file of a host: found, so that what is shown of the file does not have them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from accord.secrets.filter import SecretFilter
from accord.secrets.recognition import (
    has_secret_form,
    is_path_like,
    is_stand_in,
    names_secret,
)
from accord_tools.hosts.definition import ConfigFile, HostsError, KeyPath
from accord_tools.hosts.documents.document import Document, open_document, read_text_file
from accord_tools.hosts.entries.literals import find_literals, replace_literal
from accord_tools.hosts.entries.shaping import entries_in

# Shorter values are words such as "true", and masking them would garble the text.
_SHORTEST: Final = 4


def mask_for(
    file: ConfigFile, *contents: bytes | None, secrets: Iterable[str] = ()
) -> Callable[[str], str]:
    """Return a function that hides the secrets of a file in a text.

    Args:
        file: the file.
        contents: what it contains, before and after a change.
        secrets: further secrets.
    """
    found = set(secrets)
    for each in contents:
        found |= _secrets_of(file, each)
    hide = SecretFilter(found).hide_any
    return lambda text: hide(text, may_be_cut=False)


def _secrets_of(file: ConfigFile, content: bytes | None) -> set[str]:
    """Return the secrets of a file, in the forms in which its lines have them."""
    try:
        document = open_document(read_text_file(content or b"").text, file.format)
        entries = entries_in(document.data, file)
    except HostsError:
        return set()  # what cannot be read is not shown
    # The name of a server says nothing about its members.
    named = frozenset(keys for keys, _ in entries.values())
    found = dict(_secret_texts(document.data, (), named, is_secret=False))
    for name, (keys, value) in entries.items():
        if isinstance(value, Mapping):
            found |= {(*keys, *each.keys): each.value for each in find_literals(name, value)}
    forms = {each for keys, text in found.items() for each in _forms_in(document, keys, text)}
    for name, (_, value) in entries.items():
        forms |= _all_literals(name, value) if isinstance(value, Mapping) else set()
    return {each for each in forms if len(each) >= _SHORTEST}


def _all_literals(name: str, value: Mapping[str, Any]) -> set[str]:
    """Return the literals of an entry, those that stand in one text as well."""
    found: set[str] = set()
    while new := [each for each in find_literals(name, value) if each.value not in found]:
        for each in new:
            found.add(each.value)
            value = replace_literal(value, each)
    return found


def _secret_texts(
    value: Any, keys: KeyPath, servers: frozenset[KeyPath], *, is_secret: bool
) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            inner = (*keys, key)
            is_named = is_secret or (inner not in servers and names_secret(str(key)))
            yield from _secret_texts(each, inner, servers, is_secret=is_named)
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from _secret_texts(each, (*keys, place), servers, is_secret=is_secret)
    elif isinstance(value, str):
        is_given = not is_stand_in(value) and not is_path_like(value) and "${" not in value
        if (is_secret and is_given) or has_secret_form(value):
            yield keys, value


def _forms_in(document: Document, keys: KeyPath, secret: str) -> Iterator[str]:
    """Yield a secret, and its lines if it is written on several, or with other escapes."""
    yield secret
    span = document.span(keys)
    if span is None:
        yield from secret.split()
        return
    lines = document.text[slice(*span)].splitlines()
    if any(secret in line for line in lines):
        return
    hide = SecretFilter([secret]).hide
    if all(hide(line, may_be_cut=False) == line for line in lines):
        yield from (line.strip().strip("\"'|>\\ ") for line in lines)
