"""Secrets in the file of a host: found, so that what is shown of the file does not have them."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from accord.hosts.definition import ConfigFile, HostEntry, HostsError
from accord.hosts.documents.document import open_document
from accord.hosts.documents.text_file import read_text_file
from accord.hosts.entries.literals import find_literals, is_path_like, names_secret
from accord.hosts.entries.shaping import entries_in
from accord.testing.masking import find_secret_forms, has_secret_form, is_stand_in

_MASK: Final = "***"
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
    forms = {form for secret in found for form in _written_forms(secret)}
    ordered = sorted(forms, key=len, reverse=True)

    def mask(text: str) -> str:
        for each in ordered:
            text = text.replace(each, _MASK)
        for start, end in reversed(list(find_secret_forms(text))):
            text = text[:start] + _MASK + text[end:]
        return text

    return mask


def hide_literals_of(entry: HostEntry, text: str) -> str:
    """Return a text about an entry without values of the entry that look like secrets."""
    members = {"command": list(entry.command), "url": entry.url}
    found = [each.value for each in find_literals(entry.name, members)]
    for secret in sorted(found, key=len, reverse=True):
        text = text.replace(secret, _MASK)
    return text


def _secrets_of(file: ConfigFile, content: bytes | None) -> set[str]:
    try:
        data = open_document(read_text_file(content or b"").text, file.format).data
        entries = entries_in(data, file)
    except HostsError:
        return set()  # what cannot be read is not shown
    found = set(_secret_texts(data, is_secret=False))
    for name, (_, value) in entries.items():
        if isinstance(value, Mapping):
            found |= {each.value for each in find_literals(name, value)}
    return {each for each in found if len(each) >= _SHORTEST}


def _secret_texts(value: Any, *, is_secret: bool) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _secret_texts(each, is_secret=is_secret or names_secret(str(key)))
    elif isinstance(value, list):
        for each in value:
            yield from _secret_texts(each, is_secret=is_secret)
    elif isinstance(value, str):
        is_given = not is_stand_in(value) and not is_path_like(value) and "${" not in value
        if (is_secret and is_given) or has_secret_form(value):
            yield value


def _written_forms(secret: str) -> Iterator[str]:
    """Yield a secret as the formats write it."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
