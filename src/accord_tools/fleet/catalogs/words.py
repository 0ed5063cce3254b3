"""The words that names and descriptions consist of."""

import re
from functools import lru_cache
from typing import Final

_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD: Final = re.compile(r"[^\W_]+")
_SNAKE, _KEBAB, _CAMEL, _DOTTED = "snake_case", "kebab-case", "camelCase", "dotted"


def word_set(words: str) -> frozenset[str]:
    """Return the words of a table."""
    return frozenset(words.split())


@lru_cache(16_384)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case.

    >>> words_of("getHTTPStatus-of_page2")
    ('get', 'http', 'status', 'of', 'page2')
    """
    return tuple(each.lower() for each in _WORD.findall(_HUMP.sub(" ", name)))


def style_of(name: str) -> str:
    """Return the style in which a name joins its words; empty for a single word.

    >>> style_of("read_file"), style_of("readFile"), style_of("read")
    ('snake_case', 'camelCase', '')
    """
    if "." in name or "/" in name:
        return _DOTTED
    if "_" in name.strip("_"):
        return _SNAKE
    if "-" in name.strip("-"):
        return _KEBAB
    return _CAMEL if _HUMP.search(name) else ""


def stem_of(word: str) -> str:
    """Return a word without the usual endings, so that its forms are equal.

    >>> stem_of("lists") == stem_of("listing") == stem_of("listed")
    True
    """
    for ending in ("ing", "ies", "es", "ed", "s", "e", "y"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word
