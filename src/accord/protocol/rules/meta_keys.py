"""The grammar of `_meta` keys and of extension identifiers: a prefix of labels, and a name."""

import re
from typing import Final

from accord.protocol.rules.parts import META

_LABEL: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?")
_NAME: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?")

_OWN_LABELS: Final = frozenset({"modelcontextprotocol", "mcp"})
DEFINED: Final = frozenset(
    f"{META}{name}"
    for name in (
        "clientCapabilities",
        "clientInfo",
        "logLevel",
        "model-immediate-response",
        "protocolVersion",
        "related-task",
        "serverInfo",
        "subscriptionId",
    )
)
"""Keys under a reserved prefix that the specification itself defines."""

# Names of top-level domains that software is published under; the two-letter ones are countries.
_TOP_LEVEL: Final = frozenset(
    {"app", "biz", "cloud", "com", "dev", "edu", "gov", "info", "int"}
) | {
    "mil",
    "net",
    "org",
    "tech",
}


def split(key: str) -> tuple[list[str] | None, str]:
    """Return the labels of the prefix, None where there is no prefix, and the name."""
    prefix, slash, name = key.partition("/")
    return (prefix.split("."), name) if slash else (None, key)


def is_label(text: str) -> bool:
    """Tell whether text is a label of a prefix."""
    return _LABEL.fullmatch(text) is not None


def is_name(text: str) -> bool:
    """Tell whether text is a name; it may be empty."""
    return _NAME.fullmatch(text) is not None


def is_reserved_anywhere(labels: list[str]) -> bool:
    """Tell whether a prefix is reserved in the older form: by its first or an inner label.

    >>> is_reserved_anywhere(["mcp", "dev"]), is_reserved_anywhere(["com", "example"])
    (True, False)
    """
    return labels[0].lower() in _OWN_LABELS or any(
        label.lower() in _OWN_LABELS for label in labels[:-1]
    )


def is_reserved_by_second_label(labels: list[str]) -> bool:
    """Tell whether a prefix is reserved in the newer form.

    >>> is_reserved_by_second_label(["com", "mcp", "tools"])
    True
    """
    return len(labels) > 1 and labels[1].lower() in _OWN_LABELS


def is_forward(labels: list[str]) -> bool | None:
    """Tell whether a prefix is a domain name written forward; None where nobody can tell.

    >>> is_forward(["example", "com"]), is_forward(["com", "example"]), is_forward(["tools"])
    (True, False, None)
    """
    if len(labels) < 2:
        return None
    first, last = _is_top_level(labels[0]), _is_top_level(labels[-1])
    if first:
        return False
    return True if last else None


def _is_top_level(label: str) -> bool:
    return label.lower() in _TOP_LEVEL or len(label) == 2
